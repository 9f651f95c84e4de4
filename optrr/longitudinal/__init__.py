"""Asking the same people again: a permanent answer, drawn once, and from it a report in every round (design §9).

``solving`` finds a ``design`` of both stages, ``sharpen`` and ``whole`` are the permanent one's two kinds, and
``spending`` says what reports of one person cost, from what is ``drawn``. ``rounds`` and ``keyed`` randomize;
``two_stage`` is the mechanism of one report. ``panel`` estimates over rounds, and ``contrasts`` makes the intervals
of averages and changes.
"""

from optrr.longitudinal.design import LongitudinalDesign
from optrr.longitudinal.keyed import Key
from optrr.longitudinal.panel import Panel, PanelEstimate, estimate_rounds
from optrr.longitudinal.rounds import release_round
from optrr.longitudinal.solving import Stages, longitudinal
from optrr.longitudinal.spending import ReportsEpsilon
from optrr.longitudinal.two_stage import TwoStage
from optrr.longitudinal.verify import verify_longitudinal
from optrr.longitudinal.whole import WholeOrUniform

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
