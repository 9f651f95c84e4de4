"""Mechanism design for randomized response on multi-attribute records.

State each attribute's accuracy (ε_i) and get the mechanism with the smallest total ε, the proof that there is no smaller
one, randomized records, and estimates with honest errors.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optrr.advice import Advice, advise
    from optrr.allocations import Allocation, allocate
    from optrr.counts import Counts, count, count_many
    from optrr.design_file import load_design, save_design
    from optrr.designs import Design, design
    from optrr.domain import Attribute, Domain
    from optrr.errors import InvalidInput
    from optrr.mechanism import Mechanism
    from optrr.perturb import perturb_file
    from optrr.spec import Specification, read_specification
    from optrr.tradeoffs import Tradeoff, cap_tradeoff, tradeoff
    from optrr.workload import WantedTable, Workload

# Where each public name lives. Imported on first use: `optrr --help` need not load a solver.
_HOMES = {
    "Advice": "advice",
    "Allocation": "allocations",
    "Attribute": "domain",
    "Counts": "counts",
    "Design": "designs",
    "Domain": "domain",
    "InvalidInput": "errors",
    "Mechanism": "mechanism",
    "Specification": "spec",
    "Tradeoff": "tradeoffs",
    "WantedTable": "workload",
    "Workload": "workload",
    "advise": "advice",
    "allocate": "allocations",
    "cap_tradeoff": "tradeoffs",
    "count": "counts",
    "count_many": "counts",
    "design": "designs",
    "load_design": "design_file",
    "perturb_file": "perturb",
    "read_specification": "spec",
    "save_design": "design_file",
    "tradeoff": "tradeoffs",
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
