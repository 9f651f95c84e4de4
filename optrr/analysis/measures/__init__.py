"""Measures of a table, with intervals: proportions within groups, risks, odds, ordinal association, means, quantiles.

``measure`` serves two attributes. ``where`` restricts tables and measures to people with some true answers; ``shares``
has tables of them and sums of proportions in subpopulations, ``quantile`` medians. ``quantities`` defines every measure
by an equation without division, makes the interval by testing that equation, and keeps the values that no table near
the estimate contradicts.
"""

from optrr.analysis.measures.measure import MEASURES, Comparing, Measures, measure
from optrr.analysis.measures.quantile import quantiles
from optrr.analysis.measures.shares import EstimateAmong, WeightedShare, contrast, estimate_where
from optrr.analysis.measures.subgroups import Among, complete_where

__all__ = [
    "MEASURES",
    "Among",
    "Comparing",
    "EstimateAmong",
    "Measures",
    "WeightedShare",
    "complete_where",
    "contrast",
    "estimate_where",
    "measure",
    "quantiles",
]
