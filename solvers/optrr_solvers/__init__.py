"""Solvers: arrays in, laws and bounds out. Knows nothing of records; imports nothing of the optrr package.

``solve`` (``auto``) tries the methods in the table of ``methods``. Every solution passes the gate ``checked`` in
``solution``, which recomputes its bounds before anybody sees it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optrr_solvers.auto import solve
    from optrr_solvers.certificates.certificate import Certificate, kl_bound, lower_bound
    from optrr_solvers.errors import (
        Infeasible,
        InvalidCertificate,
        InvalidInput,
        InvalidProblem,
        MethodTooLarge,
        OptrrError,
        SolveFailed,
    )
    from optrr_solvers.laws import BallLaw, BlockLaw, CountLaw, FewChangesLaw, Law, ProductLaw, TableLaw
    from optrr_solvers.methods import METHODS, Guarantee, Method, applicable
    from optrr_solvers.options import SolveOptions
    from optrr_solvers.problem import Problem
    from optrr_solvers.programs.lp import EventProgram, event_program
    from optrr_solvers.solution import Solution, Status

# Where each public name lives. Imported on first use, so that an error class can be had without loading a solver.
_HOMES = {
    "auto": ("solve",),
    "certificates.certificate": ("Certificate", "kl_bound", "lower_bound"),
    "errors": (
        "Infeasible",
        "InvalidCertificate",
        "InvalidInput",
        "InvalidProblem",
        "MethodTooLarge",
        "OptrrError",
        "SolveFailed",
    ),
    "laws": ("BallLaw", "BlockLaw", "CountLaw", "FewChangesLaw", "Law", "ProductLaw", "TableLaw"),
    "methods": ("METHODS", "Guarantee", "Method", "applicable"),
    "options": ("SolveOptions",),
    "problem": ("Problem",),
    "programs.lp": ("EventProgram", "event_program"),
    "solution": ("Solution", "Status"),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "METHODS",
    "BallLaw",
    "BlockLaw",
    "Certificate",
    "CountLaw",
    "EventProgram",
    "FewChangesLaw",
    "Guarantee",
    "Infeasible",
    "InvalidCertificate",
    "InvalidInput",
    "InvalidProblem",
    "Law",
    "Method",
    "MethodTooLarge",
    "OptrrError",
    "Problem",
    "ProductLaw",
    "Solution",
    "SolveFailed",
    "SolveOptions",
    "Status",
    "TableLaw",
    "applicable",
    "event_program",
    "kl_bound",
    "lower_bound",
    "solve",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'optrr_solvers' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"optrr_solvers.{_MODULES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
