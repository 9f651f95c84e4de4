"""Measures of a table: shares within groups, risks, odds, ordinal association, means, contrasts and quantiles, with intervals.

``measure`` is the front door for two attributes. ``among`` restricts tables and measures to people with some true answers, and
``shares`` are tables of them; ``contrasts`` has shares in sub-populations and sums of them, ``quantile`` medians.
``quantities`` defines every measure by an equation that divides by nothing, makes the interval by testing that equation, and
keeps what no table near the estimate contradicts.
"""

from optrr.tables.measures.among import Among, who_answered
from optrr.tables.measures.contrasts import WeightedShare, contrast
from optrr.tables.measures.measure import MEASURES, Comparing, Measures, measure
from optrr.tables.measures.quantile import quantiles
from optrr.tables.measures.shares import EstimateAmong, estimate_among

__all__ = [
    "MEASURES",
    "Among",
    "Comparing",
    "EstimateAmong",
    "Measures",
    "WeightedShare",
    "contrast",
    "estimate_among",
    "measure",
    "quantiles",
    "who_answered",
]
