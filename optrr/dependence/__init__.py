"""Learning which attributes depend on each other without seeing anybody's record (MDR §4.1–4.3, SIC §4)."""

from optrr.dependence.from_records import dependences_from_randomized, dependences_of
from optrr.dependence.learned import Dependences
from optrr.dependence.measures import bias_corrected_v, cramers_v, pearson, phi_squared
from optrr.dependence.randomized_pair import RandomizedPair

__all__ = [
    "Dependences",
    "RandomizedPair",
    "bias_corrected_v",
    "cramers_v",
    "dependences_from_randomized",
    "dependences_of",
    "pearson",
    "phi_squared",
]
