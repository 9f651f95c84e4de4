"""Longitudinal studies: a memoized response, drawn once, and from it a report in every wave (theory §9).

``design`` finds and saves a two-stage protocol; ``stages`` defines its distributions and the ε of a person's reports.
``rounds`` randomizes, from a key or from stored responses, and ``panel`` estimates over waves.
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
