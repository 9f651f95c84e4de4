"""Asking the same people again: a permanent answer, drawn once, and from it a report in every round (design §9).

``design`` finds and keeps one of both stages; ``stages`` are what is drawn, and what reports of one person cost. ``rounds``
randomizes, from a key or from what was drawn before, and ``panel`` estimates over rounds.
"""

from optrr.longitudinal.design import LongitudinalDesign, Stages, longitudinal, verify_longitudinal
from optrr.longitudinal.panel import Panel, PanelEstimate, estimate_rounds
from optrr.longitudinal.rounds import Key, release_round
from optrr.longitudinal.stages import ReportsEpsilon, TwoStage, WholeOrUniform

__all__ = [
    "Key",
    "LongitudinalDesign",
    "Panel",
    "PanelEstimate",
    "ReportsEpsilon",
    "Stages",
    "TwoStage",
    "WholeOrUniform",
    "estimate_rounds",
    "longitudinal",
    "release_round",
    "verify_longitudinal",
]
