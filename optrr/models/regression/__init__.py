"""Linear, logistic, ordered and multinomial regression of true records, from randomized ones, by formulas.

Predictors may be randomized or public. Reports are read in ``reports``, formulas in ``formulas``; ``building`` makes
the estimating equations of ``families`` (linear, unbiased score) and ``likelihood``, ``solving`` solves and tests them and
finds the ends of intervals. ``fitting`` is the front door.
"""

from optrr.models.regression.fitting import FAMILIES, regress
from optrr.models.regression.result import Coefficient, Regression, TermTest

__all__ = ["FAMILIES", "Coefficient", "Regression", "TermTest", "regress"]
