"""Asking the same people again: a permanent answer, drawn once, and from it a report in every round (theory §9).

``design`` finds and keeps one of both stages; ``stages`` are what is drawn, and what reports of one person cost. ``rounds``
randomizes, from a key or from what was drawn before, and ``panel`` estimates over rounds.
"""

from optrr.longitudinal.design import LongitudinalDesign, longitudinal, verify_longitudinal
from optrr.longitudinal.panel import Panel, PanelEstimate, WavesEstimate, estimate_waves, panel_of
from optrr.longitudinal.rounds import Key, randomize_wave
from optrr.longitudinal.stages import ReportsEpsilon, TwoStage, WholeOrUniform

__all__ = [
    "Key",
    "LongitudinalDesign",
    "Panel",
    "PanelEstimate",
    "ReportsEpsilon",
    "TwoStage",
    "WavesEstimate",
    "WholeOrUniform",
    "estimate_waves",
    "longitudinal",
    "panel_of",
    "randomize_wave",
    "verify_longitudinal",
]
