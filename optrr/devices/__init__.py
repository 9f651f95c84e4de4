"""Designs on devices: the files by which clients randomize where the person is, and audits that try a client from outside.

The format of deployment files is specified in ``docs/deployment-format.md``; clients in other languages are written from that
page. ``export`` makes a file of a design, solved again where it would be too large; ``deployment_file`` writes and reads it,
``exact`` computes every ε from its integers, ``verify`` checks it. ``tables`` are other forms of a mechanism: matrices,
probabilities of change sets, POR's program.

``audit`` tests a client (``clients``) from outside against its ``label``, by exact tests at one stated level (``result``).
``planting`` draws the records that the client is asked, ``record_audit`` and ``query_audit`` compare them with its answers,
``audit_checks`` tests counts and repeats, and ``epsilon_bounds`` bounds the true ε from below.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
