"""A law that does not come from solving a design problem, as a design: saved, verified, perturbed with like any other."""

from __future__ import annotations

import time

import numpy as np

from optrr.designs.design import Design
from optrr.domain.domain import Domain
from optrr_solvers import Problem
from optrr_solvers.arrays import FloatArray
from optrr_solvers.laws import Law
from optrr_solvers.problem import EPSILON_RANGE
from optrr_solvers.solution import checked


def baseline_design(  # noqa: PLR0913 (what is solved for, as in a Solution)
    domain: Domain,
    law: Law,
    method: str,
    requested: FloatArray | None = None,
    *,
    notes: tuple[str, ...] = (),
    started: float | None = None,
) -> Design:
    """The design of ``law``, with status "baseline": it claims no optimality, and the bound below it holds all the same.

    Parameters
    ----------
    requested
        ε_i in nats that the law was made for, shape (m,); left out, the accuracies that it reaches.
    method, notes
        see :class:`optrr_solvers.Solution`.
    started
        by :func:`time.perf_counter`, for the seconds it took.

    Raises
    ------
    InvalidProblem
        where an accuracy is outside 1e-6..50 nats from below: such an attribute says nothing and should not be asked for.
    """
    epsilons = np.minimum(law.attribute_epsilons(), EPSILON_RANGE[1]) if requested is None else requested
    problem = Problem(domain.sizes, epsilons, names=domain.names)
    began = time.perf_counter() if started is None else started
    return Design(domain, checked(problem, method, law, None, started=began, tolerance=None, notes=notes))
