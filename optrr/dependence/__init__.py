"""Learning which attributes depend on each other without seeing anybody's record (MDR §4.1–4.3, SIC §4)."""

from optrr.dependence.by_secure_sum import (
    dependences_by_randomized_pairs,
    dependences_by_secure_sum,
    summed_pair_tables,
)
from optrr.dependence.from_records import dependences_from_randomized, dependences_of
from optrr.dependence.learned import Dependences
from optrr.dependence.measures import bias_corrected_v, cramers_v, pearson, phi_squared
from optrr.dependence.randomized_pair import RandomizedPair
from optrr.dependence.secure_sum import SecureSumParty, run_in_memory
from optrr.dependence.secure_sum_messages import SecureSumFailed

__all__ = [
    "Dependences",
    "RandomizedPair",
    "SecureSumFailed",
    "SecureSumParty",
    "bias_corrected_v",
    "cramers_v",
    "dependences_by_randomized_pairs",
    "dependences_by_secure_sum",
    "dependences_from_randomized",
    "dependences_of",
    "pearson",
    "phi_squared",
    "run_in_memory",
    "summed_pair_tables",
]
