"""Choosing budgets: one total ε and a list of what is to be learned, turned into the most accurate mechanism (design §3.7).

For every table U of the workload the expected squared error is known in advance,

    n E‖π̂_U − π_U‖² ≤ G_U = Σ_{∅≠W⊆U} c_W/λ_W²,

exactly so for a uniform population, less by Σ ‖π_W‖² ≤ 1 for another, and G_U − Σ c_W exactly when the people are the
population. Its standard error per cell, as a root mean square, is √(G_U / (n Π r_i)).

An allocation minimises Σ weight G_U and says below which value no mechanism of that total can get (mechanisms of this
package's form: any law of change sets).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from optrr.allocating.result import NOTE, Allocation, Prediction, predictions
from optrr.allocating.workload import Workload, WorkloadLike, workload_of
from optrr.designing.design import Design
from optrr.designing.wishes import Limits, Preserve, Wishes
from optrr.errors import InvalidInput
from optrr.records.domain import Domain
from optrr_solvers import (
    Certificate,
    Infeasible,
    MethodTooLarge,
    Problem,
    Solution,
    SolveFailed,
    Status,
    lower_bound,
    solve,
)
from optrr_solvers.allocating import lattice as allocation_lattice
from optrr_solvers.allocating import program as allocation_program
from optrr_solvers.allocating import search as allocation_search
from optrr_solvers.allocating.accuracy import SmallestTotal, smallest_total
from optrr_solvers.allocating.effects import MAX_ALLOCATION_CELLS, cells_of_classes
from optrr_solvers.allocating.oracle import MAX_CAPPED_CELLS
from optrr_solvers.allocating.problem import AllocatedLaw, AllocationProblem
from optrr_solvers.allocating.split import best_split, single_blocks
from optrr_solvers.allocating.workload import TableWorkload, eigenvalues_of
from optrr_solvers.arrays import FloatArray
from optrr_solvers.laws import Law
from optrr_solvers.problem import EPSILON_RANGE

__all__ = ["METHODS", "Allocation", "Prediction", "allocate", "chosen_method"]

METHODS = ("auto", "lattice", "program", "search")
# Certificate weights are integers of about this many bits.
_BITS = 53


def allocate(  # noqa: PLR0913 (the product's front door: each argument is one question a user answers)
    domain: Domain | Mapping[str, int | Iterable[Any]],
    total_epsilon: float | None = None,
    *,
    workload: WorkloadLike = "marginals",
    n: int | None = None,
    standard_error: float | None = None,
    floors: Limits = None,
    ceilings: Limits = None,
    conditional_cap: Limits = None,
    preserve: Preserve = "marginals",
    method: str = "auto",
) -> Allocation:
    """The most accurate mechanism for a workload at a total ε; or the smallest total for required standard errors.

    Parameters
    ----------
    domain
        a Domain, or a mapping of names to categories or sizes.
    total_epsilon
        E in nats. None: every table must then have a standard error to reach, and the smallest total is found.
    workload
        "marginals", "pairs", the path of a TOML or JSON file, or tables (see :mod:`optrr.allocating.workload`).
    n
        how many people will answer; needed for standard errors.
    standard_error
        root-mean-square standard error that every table without one of its own must reach.
    floors, ceilings, conditional_cap, preserve
        see :class:`optrr.designing.wishes.Wishes`.
    method
        lattice (few attributes, or few different ones), program (the same by one convex program), search (any number),
        or auto.

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
    wanted = workload_of(workload, declared).requiring(standard_error)
    if n is not None and (isinstance(n, bool) or n != int(n) or n < 1):
        raise InvalidInput(f"n = {n}; give the number of people, a whole number of at least 1")
    task = _Task(declared, wanted, wishes, n)
    task.check_covered()
    if total_epsilon is None:
        if method != "auto":
            raise InvalidInput(f"method {method!r} is for a given total epsilon; give one, or leave the method out")
        return task.accurate()
    return task.within(float(total_epsilon), method)


@dataclass(frozen=True, eq=False)
class _TaskResult:
    """A law, what found it, and what is proved about it."""

    law: Law
    method: str
    seconds: float
    allocated: AllocatedLaw | None = None
    least_total: float | None = None


@dataclass(frozen=True, eq=False)
class _Task:
    """One call of allocate."""

    domain: Domain
    workload: Workload
    wishes: Wishes
    n: int | None

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
        return AllocationProblem(self.arrays, total, floors, ceilings, caps, targets, self.domain.names)

    def check_covered(self) -> None:
        """Every attribute must be in a table or have a floor: what is not to be learned should not be collected."""
        floors = self._limits[0]
        in_tables = {name for t in self.workload.tables for name in t.attributes}
        for name, floor in zip(self.domain.names, floors, strict=True):
            if name not in in_tables and not floor > 0:
                raise InvalidInput(
                    f"attribute {name!r} is in no table of the workload; leave it out of the domain, add a table, or give "
                    "it a floor"
                )

    def accurate(self) -> Allocation:
        """Smallest total for the accuracies required."""
        missing = next((t for t in self.workload.tables if t.standard_error is None), None)
        if missing is not None:
            raise InvalidInput(
                f"neither a total epsilon nor a standard error for table {missing.title} is given; give one of them"
            )
        if self.wishes.pairs(self.domain):
            raise InvalidInput("pairs to preserve need a total epsilon; require standard errors of those pairs instead")
        smallest = smallest_total(self.problem(1.0))
        return self._allocation(_TaskResult(smallest.law, "accuracies", smallest.seconds, least_total=smallest.lower))

    def within(self, total: float, method: str) -> Allocation:
        """Most accurate law of this total."""
        if method not in METHODS:
            raise InvalidInput(f"unknown method {method!r}; choose among {', '.join(METHODS)}")
        problem = self.problem(total)
        pairs = self.wishes.pairs(self.domain)
        least = self._least(problem)
        whole = None if pairs else self._at_ceilings(problem)
        if whole is not None:
            return self._allocation(whole)
        try:
            allocated = _solved(problem, pairs, method)
        except SolveFailed:
            if least is None:
                raise
            # the limits leave nearly no choice at this total, so that the design that just meets them is the answer
            return self._allocation(_TaskResult(least.law, "accuracies", least.seconds))
        return self._allocation(_TaskResult(allocated.law, allocated.method, allocated.seconds, allocated))

    def _at_ceilings(self, problem: AllocationProblem) -> _TaskResult | None:
        """Where every ceiling fits the total and only single attributes count: those budgets, at the smallest total."""
        if not np.all(problem.ceiling <= EPSILON_RANGE[1]) or any(len(t.attributes) > 1 for t in self.workload.tables):
            return None
        started = time.perf_counter()
        caps = problem.cap if problem.capped else None
        try:
            solution = solve(Problem(self.domain.sizes, problem.ceiling, caps=caps, names=self.domain.names))
        except (Infeasible, MethodTooLarge, SolveFailed):
            # caps below a ceiling, or caps on too many attributes: the search goes on without this shortcut
            return None
        if solution.upper > problem.total:
            return None
        # no law within the ceilings has a larger λ_i
        most = self.arrays.error(self.arrays.products(eigenvalues_of(self.domain.sizes, problem.ceiling)))
        law = AllocatedLaw.of(problem, "ceilings", solution.law, most, started, 0)
        return _TaskResult(solution.law, "ceilings", law.seconds, replace(law, design=solution))

    def _least(self, problem: AllocationProblem) -> SmallestTotal | None:
        """The smallest total for floors and targets, refused where it is more than there is."""
        if not ((problem.floor > 0).any() or problem.joint_targets.size):
            return None
        least = smallest_total(problem)
        if least.lower > problem.total:
            what = "required accuracies" if self.workload.required else "floors"
            raise Infeasible(
                f"total epsilon {problem.total:g} is too small for the {what}: they need at least {least.lower:.6g}, and "
                f"{least.upper:.6g} suffices; raise the total or lower them"
            )
        return least

    def _allocation(self, solved: _TaskResult) -> Allocation:
        lam = self.arrays.eigenvalues(solved.law)
        error = self.arrays.error(lam)
        lower = None if solved.allocated is None else solved.allocated.lower_error
        total = solved.law.epsilon if solved.allocated is None else solved.allocated.problem.total
        note = f"{NOTE} for {self.workload.name} at total epsilon {total:.6g}: workload error {error:.6g}"
        note += "" if lower is None else f", no law of this total below {lower:.6g}"
        design = None if solved.allocated is None else solved.allocated.design
        solution = design or _solution(self.domain, self.arrays, solved)
        solution = replace(solution, notes=(*solution.notes, note), status=Status.ALLOCATED)
        return Allocation(
            design=Design(self.domain, solution),
            workload=self.workload,
            n=self.n,
            method=solved.method,
            error=error,
            lower_error=lower,
            kronecker_error=self._kronecker(total),
            predictions=tuple(predictions(self.domain, self.workload, self.arrays, lam, self.n)),
            least_total=solved.least_total,
        )

    def _kronecker(self, total: float) -> float | None:
        firsts = [int(c[0]) for c in self.arrays.classes]
        floors, ceilings, caps = (v[firsts] for v in self._limits)
        try:
            return best_split(self.arrays, single_blocks(self.arrays), total, floors, np.minimum(ceilings, caps)).error
        except (Infeasible, SolveFailed):
            return None


def _solved(problem: AllocationProblem, pairs: tuple[tuple[int, int], ...], method: str) -> AllocatedLaw:
    if method == "auto":
        method = chosen_method(problem, bool(pairs))
    if pairs and method != "search":
        raise InvalidInput(f"method {method!r} cannot keep pairs; use method 'search', or the workload 'pairs'")
    if method == "search":
        return allocation_search.solve(problem, pairs)
    return allocation_program.solve(problem) if method == "program" else allocation_lattice.solve(problem)


def chosen_method(problem: AllocationProblem, preserves_pairs: bool) -> str:
    """What "auto" means: lattice where it fits, program for accuracies of joint tables, search otherwise."""
    if preserves_pairs:
        return "search"
    if problem.joint_targets.size:
        return "program"
    cells = cells_of_classes(problem.workload)
    return "lattice" if cells <= (MAX_CAPPED_CELLS if problem.capped else MAX_ALLOCATION_CELLS) else "search"


def _solution(domain: Domain, arrays: TableWorkload, solved: _TaskResult) -> Solution:
    """The law as the answer to the design problem of its own accuracies, with the bound its multipliers prove for them."""
    achieved = solved.law.attribute_epsilons()
    faint = np.flatnonzero(~(achieved >= EPSILON_RANGE[0]))
    if faint.size:
        i = int(faint[0])
        raise InvalidInput(
            f"attribute {domain.names[i]!r} would get epsilon {achieved[i]:.2g}, less than can be used; raise the total, its "
            "weight or its floor, or leave it out"
        )
    problem = Problem(domain.sizes, np.minimum(achieved, EPSILON_RANGE[1]), names=domain.names)
    certificate = None if solved.allocated is None else _certificate(arrays, solved.allocated)
    return Solution(
        problem=problem,
        method=f"allocate-{solved.method}",
        law=solved.law,
        certificate=certificate,
        lower=min(lower_bound(problem, certificate), solved.law.epsilon),
        status=Status.ALLOCATED,
        seconds=solved.seconds,
    )


def _certificate(arrays: TableWorkload, allocated: AllocatedLaw) -> Certificate | None:
    """One-way multipliers as integer weights: h = Σ g_i χ_i is Σ (g_i/d_i)(d_i − 1[i∈S])."""
    weights = np.zeros(len(arrays.classes))
    for w, g in zip(arrays.effects, allocated.multipliers.tolist(), strict=True):
        if len(w) == 1:
            members = arrays.classes[arrays.class_of[w[0]]]
            weights[arrays.class_of[w[0]]] += g / members.size / (1 - 1 / arrays.sizes[w[0]])
    sizes = np.asarray([c.size for c in arrays.classes])
    total = float(weights @ sizes)
    if not (np.isfinite(total) and total > 0):
        return None
    return Certificate(
        tuple(tuple(int(i) for i in c) for c in arrays.classes),
        tuple(round(w / total * (1 << _BITS)) for w in weights.tolist()),
    )
