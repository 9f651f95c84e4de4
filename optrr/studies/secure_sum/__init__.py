"""Secure sum: n parties learn how many of them are in each cell, and nothing else (MDR §4.2), and dependences from it."""

from optrr.studies.secure_sum.dependences import (
    dependences_by_randomized_pairs,
    dependences_by_secure_sum,
    summed_pair_tables,
)
from optrr.studies.secure_sum.in_memory import run_in_memory
from optrr.studies.secure_sum.messages import SecureSumFailed
from optrr.studies.secure_sum.party import SecureSumParty

__all__ = [
    "SecureSumFailed",
    "SecureSumParty",
    "dependences_by_randomized_pairs",
    "dependences_by_secure_sum",
    "run_in_memory",
    "summed_pair_tables",
]
