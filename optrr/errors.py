"""The errors a user meets, under one root; the family itself is the solvers' (:mod:`optrr_solvers.errors`)."""

from __future__ import annotations

from optrr_solvers.errors import (
    Infeasible,
    InvalidCertificate,
    InvalidInput,
    InvalidProblem,
    MethodTooLarge,
    OptrrError,
    SolveFailed,
)

__all__ = [
    "Infeasible",
    "InvalidCertificate",
    "InvalidInput",
    "InvalidProblem",
    "MethodTooLarge",
    "OptrrError",
    "SolveFailed",
    "in_one_line",
]


def in_one_line(message: object) -> str:
    """A backend's message on one line, so that it can stand inside ours."""
    return " ".join(str(message).split())
