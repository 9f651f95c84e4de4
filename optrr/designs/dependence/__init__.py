"""Learning which attributes depend on each other without seeing anybody's record (MDR §4.1–4.3, SIC §4)."""

from optrr.designs.dependence.from_records import dependences_from_randomized, dependences_of
from optrr.designs.dependence.learned import Dependences
from optrr.designs.dependence.measures import bias_corrected_v, cramers_v, pearson, phi_squared
from optrr.designs.dependence.randomized_pair import RandomizedPair

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
