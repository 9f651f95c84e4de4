"""Analyses of randomized records: the methods of :class:`optrr.Reports`, and the models behind them.

``tables``, ``hypotheses`` and ``models`` hold the methods. ``measures`` compare attributes, ``weighting`` estimates with survey
weights, ``weighted`` corrects tests for a survey's design, ``collapsed`` merges rare categories; ``loglinear`` fits models of a
table, ``regression`` relates one attribute to others, ``synthesis`` draws records from a model; ``equations`` solves and tests
models of every kind.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
