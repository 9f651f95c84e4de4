"""Mechanism design for randomized response on multi-attribute records.

State each attribute's accuracy (ε_i) and get the mechanism with the smallest total ε, the proof that there is no smaller
one, randomized records, and estimates with honest errors.
"""

from optrr.counts import Counts, count, count_many
from optrr.design import Design, design
from optrr.design_file import load_design, save_design
from optrr.domain import Attribute, Domain
from optrr.errors import InvalidInput
from optrr.mechanism import Mechanism
from optrr.perturb import perturb_file
from optrr.spec import Specification, read_specification

__all__ = [
    "Attribute",
    "Counts",
    "Design",
    "Domain",
    "InvalidInput",
    "Mechanism",
    "Specification",
    "count",
    "count_many",
    "design",
    "load_design",
    "perturb_file",
    "read_specification",
    "save_design",
]
