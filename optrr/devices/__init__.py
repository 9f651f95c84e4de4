"""Designs on devices: deployment files for clients that randomize locally, and audits that test a client from outside.

The format of deployment files is specified in ``docs/deployment-format.md``, from which clients in other languages are
written. ``export`` makes the file of a design, solved again if it would be too large; ``deployment_file`` writes and
reads it, ``exact`` computes every ε from its integers, and ``verify`` checks it. ``tables`` writes other forms of a
mechanism: matrices, probabilities of change sets, POR's program.

``audit`` tests a client (``clients``) from outside against its ``label``, by exact tests at one stated level
(``result``). ``planting`` draws the records for the client, ``record_audit`` and ``query_audit`` compare them with its
answers, ``audit_checks`` tests counts and repeats, and ``epsilon_bounds`` bounds the true ε from below.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
