"""Synthetic records: drawn from a model that has the pair tables estimated from randomized records."""

from optrr.tables.synthesis.drawing import synthesize
from optrr.tables.synthesis.result import PairCloseness, Synthetic

__all__ = ["PairCloseness", "Synthetic", "synthesize"]
