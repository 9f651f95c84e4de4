"""Linear and logistic regression of true records, from randomized ones: randomized or public predictors, formulas, tests."""

from optrr.regression.fitting import FAMILIES, regress
from optrr.regression.result import Coefficient, Regression, TermTest

__all__ = ["FAMILIES", "Coefficient", "Regression", "TermTest", "regress"]
