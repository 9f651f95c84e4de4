"""Linear, logistic and ordered (proportional odds) regression of true records, from randomized ones, by formulas.

Predictors may be randomized or public. Reports are read in ``reports``, formulas in ``formulas``; ``building`` makes
the estimating equations (``linear``, ``logistic``), ``solving`` solves and tests them, ``inferring`` makes the
intervals, a linear model's by ``fieller``. ``fitting`` is the front door.
"""

from optrr.models.regression.fitting import FAMILIES, regress
from optrr.models.regression.result import Coefficient, Regression, TermTest

__all__ = ["FAMILIES", "Coefficient", "Regression", "TermTest", "regress"]
