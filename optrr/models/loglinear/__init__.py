"""Log-linear models of a table's true proportions, fitted to randomized records, and tests of one model against another.

``terms`` reads a model, ``fitting`` fits it, ``estimating`` is the front door and chooses among models, and
``loglinear`` is the result. ``coefficients`` makes intervals, and ``unbounded`` says which coefficients are infinite.
``comparing`` is the front door of tests, within strata too; ``margins`` fits the smaller model of many tables at
once; ``power`` is theirs.
"""

from optrr.models.loglinear.comparing import (
    STRATIFIED,
    compare_models,
    model_alternative,
    stratified_alternative,
    stratified_test,
)
from optrr.models.loglinear.estimating import Comparison, beside, fit_loglinear, stepwise
from optrr.models.loglinear.loglinear import LogLinear
from optrr.models.loglinear.margins import Terms, parse_terms

__all__ = [
    "STRATIFIED",
    "Comparison",
    "LogLinear",
    "Terms",
    "beside",
    "compare_models",
    "fit_loglinear",
    "model_alternative",
    "parse_terms",
    "stepwise",
    "stratified_alternative",
    "stratified_test",
]
