"""Asking the same people again: a permanent answer, drawn once, and from it a report in every round (design §9).

``solving`` finds a ``design`` of both stages, ``sharpen`` and ``whole`` are the permanent one's two kinds, and
``spending`` says what reports of one person cost, from what is ``drawn``. ``rounds`` and ``keyed`` randomize;
``two_stage`` is the mechanism of one report. ``panel`` estimates over rounds, and ``contrasts`` makes the intervals
of averages and changes.
"""

from optrr.ways.longitudinal.design import LongitudinalDesign, verify_longitudinal
from optrr.ways.longitudinal.panel import Panel, PanelEstimate, estimate_rounds
from optrr.ways.longitudinal.rounds import Key, release_round
from optrr.ways.longitudinal.solving import Stages, longitudinal
from optrr.ways.longitudinal.spending import ReportsEpsilon, TwoStage
from optrr.ways.longitudinal.stages import WholeOrUniform

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
