"""Deployment files: a mechanism as whole numbers, for devices that randomize where the person is.

The format is specified in ``docs/deployment-format.md``; clients in other languages are written from that page.

``export`` makes a file of a design: ``exact`` computes every ε from its integers, ``fit`` solves again where it would
be too large, and ``short`` rounds thresholds further. ``deployment_file`` and ``canonical`` write and read it,
``verify`` checks it. ``tables`` are other forms of a mechanism: matrices, probabilities of change sets, POR's
program.
"""
