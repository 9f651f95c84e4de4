"""Synthetic records: drawn from a model of what randomized records say of pairs, and of what else is to be kept.

``laws`` reads what is kept and fits the model, ``pairs`` makes tables that large domains can have and draws, ``drawing`` is the
front door, ``closeness`` compares, and ``combined`` makes intervals from several sets.
"""

from optrr.models.synthesis.combined import Combined, combine
from optrr.models.synthesis.drawing import Synthetic, synthesize

__all__ = ["Combined", "Synthetic", "combine", "synthesize"]
