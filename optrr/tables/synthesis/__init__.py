"""Synthetic records: drawn from a model that has the pair tables estimated from randomized records."""

from optrr.tables.synthesis.drawing import PairCloseness, Synthetic, synthesize

__all__ = ["PairCloseness", "Synthetic", "synthesize"]
