"""Choosing budgets: one total ε and a list of what is to be learned, turned into the most accurate mechanism (design §3.7).

For every table U of the workload the expected squared error is known in advance,

    n E‖π̂_U − π_U‖² ≤ G_U = Σ_{∅≠W⊆U} c_W/λ_W²,

exactly so for a uniform population, less by Σ ‖π_W‖² ≤ 1 for another, and G_U − Σ c_W exactly when the people are the
population. Its standard error per cell, as a root mean square, is √(G_U / (n Π r_i)).

An allocation minimises Σ weight G_U and says below which value no mechanism of that total can get (mechanisms of this
package's form: any law of change sets).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from optrr.budgets.options import sampling as sampling_ways
from optrr.budgets.result import NOTE, Allocation, Prediction, predictions
from optrr.budgets.workload import Workload, WorkloadLike, workload_of
from optrr.designs.design import Design
from optrr.designs.wishes import Limits, Preserve, Wishes
from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.show.text import brief
from optrr.ways.protocols.sampled_tables import SampledTables
from optrr_solvers import Status
from optrr_solvers.allocating.best import METHODS, Allocated, kronecker_error, least_total, most_accurate
from optrr_solvers.allocating.problem import AllocationProblem
from optrr_solvers.allocating.workload import TableWorkload
from optrr_solvers.arrays import FloatArray, real
from optrr_solvers.auto import solve
from optrr_solvers.problem import EPSILON_RANGE, Problem

__all__ = ["METHODS", "Allocation", "Prediction", "allocate"]

Progress = Callable[[float, float], None]


def allocate(  # noqa: PLR0913 (the product's front door: each argument is one question a user answers)
    domain: Domain | Mapping[str, int | Iterable[Any]],
    total: float | None = None,
    *,
    learn: WorkloadLike = "marginals",
    n: int | None = None,
    standard_error: float | None = None,
    floors: Limits = None,
    ceilings: Limits = None,
    conditional_cap: Limits = None,
    preserve: Preserve = "marginals",
    method: str = "auto",
    sampling: bool = False,
    progress: Progress | None = None,
) -> Allocation:
    """The most accurate mechanism for what is to be learned at a total ε; or the smallest total for required standard errors.

    Parameters
    ----------
    domain
        a Domain, or a mapping of names to categories or sizes.
    total
        E in nats. None: every table must then have a standard error to reach, and the smallest total is found.
    learn
        "marginals", "pairs", the path of a TOML or JSON file, or tables, such as
        ``["sex × income", ("age",)]`` (see :mod:`optrr.budgets.workload`).
    n
        how many people will answer; needed for standard errors.
    standard_error
        root-mean-square standard error that every table without one of its own must reach.
    floors, ceilings, conditional_cap, preserve
        see :class:`optrr.designs.wishes.Wishes`.
    method
        lattice (few attributes, or few different ones), program (the same by one convex program), search (any number),
        or auto.
    sampling
        whether asking everybody one random question only may be chosen, where that is more accurate: no records are kept, and
        limits on attributes have no meaning.
    progress
        called while a search goes on, with the workload's error so far and a bound below the best one.

    Returns
    -------
    Allocation
        whose design has a total ε of at most E, never more error than Kronecker's best split, and a certified gap.

    Raises
    ------
    InvalidInput, Infeasible, MethodTooLarge
        one line each; where a wish cannot be met, with the number that can.
    SolveFailed
        where a solver's answer did not survive its check.
    """
    declared = domain if isinstance(domain, Domain) else Domain.of(domain)
    wishes = Wishes(preserve=preserve, conditional_cap=conditional_cap, floors=floors, ceilings=ceilings)
    wanted = workload_of(learn, declared).requiring(standard_error)
    if n is not None and (isinstance(n, bool) or n != int(n) or n < 1):
        raise InvalidInput(f"n = {n}; give the number of people, a whole number of at least 1")
    task = _Task(declared, wanted, wishes, n, progress)
    # what is not to be learned should not be collected
    in_tables = {name for t in wanted.tables for name in t.attributes}
    for name, floor in zip(declared.names, wishes.floor(declared), strict=True):
        if name not in in_tables and not floor > 0:
            raise InvalidInput(
                f"attribute {name!r} is in no table of the workload; leave it out of the domain, add a table, or give "
                "it a floor"
            )
    if sampling and (total is None or wishes != Wishes()):
        raise InvalidInput(
            "sampling needs a total epsilon, and takes no floors, ceilings, caps or pairs to preserve; leave sampling out"
        )
    if total is None:
        if method != "auto":
            raise InvalidInput(f"method {method!r} is for a given total epsilon; give one, or leave the method out")
        return task.accurate()
    nats = real(total)
    if not (math.isfinite(nats) and nats > 0):
        raise InvalidInput(f"total epsilon {brief(total)}; give a positive number of nats")
    problem = task.problem(nats)
    allocation = task.allocation(problem, most_accurate(problem, wishes.pairs(declared), method))
    if not sampling:
        return allocation
    watched = (
        None if progress is None else lambda error: progress(error, allocation.workload.error_bound(declared, nats))
    )
    return _sampled_if_better(allocation, nats, watched)


@dataclass(frozen=True, eq=False)
class _Task:
    """One call of allocate."""

    domain: Domain
    workload: Workload
    wishes: Wishes
    n: int | None
    progress: Progress | None

    @cached_property
    def _limits(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Floors, ceilings and caps, shape (m,) each."""
        return self.wishes.floor(self.domain), self.wishes.ceiling(self.domain), self.wishes.caps(self.domain)

    @cached_property
    def arrays(self) -> TableWorkload:
        """The workload as arrays, with as few classes as it and the limits allow."""
        keys: list[FloatArray] = [np.nan_to_num(k, posinf=-1.0) for k in self._limits]
        if not isinstance(self.wishes.preserve, str) or bool(np.isfinite(self._limits[2]).any()):
            # such requirements may tell alike attributes apart
            keys.append(np.arange(self.domain.m, dtype=np.float64))
        return self.workload.arrays(self.domain, keys)

    def problem(self, total: float) -> AllocationProblem:
        """The solver's problem at this total."""
        floors, ceilings, caps = self._limits
        targets = self.workload.limits(self.domain, self.arrays, self.n)
        names = self.domain.names
        return AllocationProblem(self.arrays, total, floors, ceilings, caps, targets, names, self.progress)

    def accurate(self) -> Allocation:
        """Smallest total for the accuracies required."""
        missing = next((t for t in self.workload.tables if t.standard_error is None), None)
        if missing is not None:
            raise InvalidInput(
                f"neither a total epsilon nor a standard error for table {missing.title} is given; give one of them"
            )
        if self.wishes.pairs(self.domain):
            raise InvalidInput("pairs to preserve need a total epsilon; require standard errors of those pairs instead")
        problem = self.problem(1.0)
        epsilons = np.maximum(problem.floor, EPSILON_RANGE[0])
        if problem.joint_targets.size or not np.all(epsilons <= EPSILON_RANGE[1]):
            return self.allocation(problem, least_total(problem))
        # only accuracies of single attributes are required and some ε_i gives each of them: the certified design
        caps = problem.cap if problem.capped else None
        solution = solve(Problem(self.domain.sizes, epsilons, caps=caps, names=self.domain.names))
        return self.allocation(problem, Allocated(solution, "accuracies", solution.upper, least_total=solution.lower))

    def allocation(self, problem: AllocationProblem, allocated: Allocated) -> Allocation:
        """What was found, with its errors and their bound."""
        lam = self.arrays.eigenvalues(allocated.solution.law)
        error, lower = self.arrays.error(lam), allocated.lower_error
        note = f"{NOTE} for {self.workload.name} at total epsilon {allocated.total:.6g}: workload error {error:.6g}"
        note += "" if lower is None else f", no law of this total below {lower:.6g}"
        # where accuracies are required instead of a total, a certificate proves the total itself
        proved = allocated.least_total is not None and allocated.solution.certificate is not None
        status = allocated.solution.status if proved else Status.ALLOCATED
        solution = replace(allocated.solution, notes=(*allocated.solution.notes, note), status=status)
        return Allocation(
            design=Design(self.domain, solution),
            workload=self.workload,
            n=self.n,
            method=allocated.method,
            error=error,
            lower_error=lower,
            kronecker_error=kronecker_error(problem, allocated.total),
            predictions=tuple(predictions(self.domain, self.workload, self.arrays, lam, self.n)),
            least_total=allocated.least_total,
        )


def _sampled_if_better(
    allocation: Allocation, total: float, progress: Callable[[float], None] | None = None
) -> Allocation:
    """The allocation with one random table each in place of its design, where that is more accurate and meets all required."""
    domain, wanted = allocation.design.domain, allocation.workload
    best = min(sampling_ways(domain, wanted, total, progress), key=lambda o: o.error, default=None)
    if best is None or not best.error < allocation.error:
        return allocation
    asking = best.asking
    if not isinstance(asking, SampledTables):
        raise TypeError("a way of sampling that samples no tables")
    predictions = tuple(replace(p, error=asking.table_error(p.attributes)) for p in allocation.predictions)
    if any(p.required is not None and not (p.standard_error or np.inf) <= p.required for p in predictions):
        return allocation
    return replace(
        allocation, sampled=asking, method=best.name, error=best.error, lower_error=None, predictions=predictions
    )
