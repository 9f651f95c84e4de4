"""Mechanism design for randomized response on multi-attribute records.

State each attribute's accuracy (ε_i) and get the mechanism with the smallest total ε, the proof that there is no smaller
one, randomized records, and estimates with honest errors.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optrr.counts import Counts, count, count_many
    from optrr.design_file import load_design, save_design
    from optrr.designs import Design, design
    from optrr.domain import Attribute, Domain
    from optrr.errors import InvalidInput
    from optrr.mechanism import Mechanism
    from optrr.perturb import perturb_file
    from optrr.spec import Specification, read_specification

# Where each public name lives. Imported on first use: `optrr --help` need not load a solver.
_HOMES = {
    "Attribute": "domain",
    "Counts": "counts",
    "Design": "designs",
    "Domain": "domain",
    "InvalidInput": "errors",
    "Mechanism": "mechanism",
    "Specification": "spec",
    "count": "counts",
    "count_many": "counts",
    "design": "designs",
    "load_design": "design_file",
    "perturb_file": "perturb",
    "read_specification": "spec",
    "save_design": "design_file",
}

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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'optrr' has no attribute {name!r}")
    # no module here bears the name of a function: importing a submodule sets that name on the package
    value = globals()[name] = getattr(importlib.import_module(f"optrr.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
