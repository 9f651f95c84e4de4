"""Measures of a two-way table: shares within groups, risks, odds, ordinal association and means, each with an interval.

``measure`` is the front door, and restricts tables and measures to people with some true answers. ``quantities`` defines every
measure by an equation that divides by nothing, makes the interval by testing that equation, and keeps what no table near the
estimate contradicts.
"""

from optrr.tables.measures.measure import MEASURES, Among, Comparing, EstimateAmong, Measures, estimate_among, measure

__all__ = ["MEASURES", "Among", "Comparing", "EstimateAmong", "Measures", "estimate_among", "measure"]
