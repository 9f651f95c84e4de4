"""Measures of a two-way table: shares within groups, risks, odds, ordinal association and means, each with an interval."""

from optrr.measures.measure import MEASURES, Comparing, Measures, measure

__all__ = ["MEASURES", "Comparing", "Measures", "measure"]
