"""Log-linear models of a table's true proportions, fitted to randomized records, and tests of one model against another."""

from optrr.models.comparing import STRATIFIED, compare_models, stratified_test
from optrr.models.estimating import fit_loglinear, stepwise
from optrr.models.likelihood_ratio import Comparison, beside
from optrr.models.loglinear import LogLinear
from optrr.models.power import model_alternative, stratified_alternative
from optrr.models.terms import Terms

__all__ = [
    "STRATIFIED",
    "Comparison",
    "LogLinear",
    "Terms",
    "beside",
    "compare_models",
    "fit_loglinear",
    "model_alternative",
    "stepwise",
    "stratified_alternative",
    "stratified_test",
]
