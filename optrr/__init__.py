"""Mechanism design for randomized response on multi-attribute records.

State each attribute's accuracy (ε_i) and get the mechanism with the smallest total ε, the proof that there is no smaller
one, randomized records, and estimates with honest errors.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from optrr.allocating.advice import Advice, advise
    from optrr.allocating.allocate import Allocation, allocate
    from optrr.allocating.tradeoffs import Tradeoff, cap_tradeoff, tradeoff
    from optrr.allocating.workload import WantedTable, Workload
    from optrr.designing.design import Design, design
    from optrr.designing.design_file import load_design, save_design
    from optrr.designing.specification import Specification, read_specification
    from optrr.errors import InvalidInput
    from optrr.mechanisms.mechanism import Mechanism
    from optrr.mechanisms.perturb import perturb_file
    from optrr.records.counts import Counts, count, count_many
    from optrr.records.domain import Attribute, Domain
    from optrr.records.observed import observed_domain

# Where each public name lives. Imported on first use: `optrr --help` need not load a solver.
_HOMES = {
    "Advice": "allocating.advice",
    "Allocation": "allocating.allocate",
    "Attribute": "records.domain",
    "Counts": "records.counts",
    "Design": "designing.design",
    "Domain": "records.domain",
    "InvalidInput": "errors",
    "Mechanism": "mechanisms.mechanism",
    "Specification": "designing.specification",
    "Tradeoff": "allocating.tradeoffs",
    "WantedTable": "allocating.workload",
    "Workload": "allocating.workload",
    "advise": "allocating.advice",
    "allocate": "allocating.allocate",
    "cap_tradeoff": "allocating.tradeoffs",
    "count": "records.counts",
    "count_many": "records.counts",
    "design": "designing.design",
    "load_design": "designing.design_file",
    "observed_domain": "records.observed",
    "perturb_file": "mechanisms.perturb",
    "read_specification": "designing.specification",
    "save_design": "designing.design_file",
    "tradeoff": "allocating.tradeoffs",
}

__all__ = [
    "Advice",
    "Allocation",
    "Attribute",
    "Counts",
    "Design",
    "Domain",
    "InvalidInput",
    "Mechanism",
    "Specification",
    "Tradeoff",
    "WantedTable",
    "Workload",
    "advise",
    "allocate",
    "cap_tradeoff",
    "count",
    "count_many",
    "design",
    "load_design",
    "observed_domain",
    "perturb_file",
    "read_specification",
    "save_design",
    "tradeoff",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'optrr' has no attribute {name!r}")
    # no module here bears the name of a function: importing a submodule sets that name on the package
    value = globals()[name] = getattr(importlib.import_module(f"optrr.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
