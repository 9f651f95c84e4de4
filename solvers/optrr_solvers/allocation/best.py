"""Choose the method for the most accurate noise distribution of a total, or the smallest total for accuracies.

    ceilings     all ceilings fit the total, and only single attributes count: the certified design at the ceilings
    lattice      few attributes, or few different ones (:mod:`optrr_solvers.allocation.lattice`)
    program      the same by one convex program, and accuracies required of joint tables
    search       any number (:mod:`optrr_solvers.allocation.search`)
    accuracies   the design that just meets the requirements

The distribution of an allocation also solves the design problem of the accuracies that it has; its one-way multipliers
prove the bound.
"""

import math
import time
from dataclasses import dataclass, replace

import numpy as np

from optrr_solvers.allocation import lattice, program, search
from optrr_solvers.allocation.lattice import MAX_ALLOCATION_CELLS, MAX_CAPPED_CELLS, cells_of_classes
from optrr_solvers.allocation.problem import AllocatedLaw, AllocationProblem, Pairs
from optrr_solvers.allocation.program import SmallestTotal, smallest_total
from optrr_solvers.allocation.workload import TableWorkload, eigenvalues_of
from optrr_solvers.auto import solve
from optrr_solvers.certificates.certificate import Certificate, lower_bound
from optrr_solvers.errors import Infeasible, InvalidInput, MethodTooLarge, SolveFailed
from optrr_solvers.laws.base import Law
from optrr_solvers.laws.count import MAX_CELLS
from optrr_solvers.problem import EPSILON_RANGE, Problem
from optrr_solvers.solution import Solution, Status
from optrr_solvers.threads import one_thread

# Certificate weights are integers of about this many bits; of fewer, where classes are so many that totals of weights
# are summed over instead of vectors of counts.
_BITS, _FEWER_BITS = 53, 22


@dataclass(frozen=True, eq=False)
class Allocated:
    """A solution, with its method, the requested total, and the proved bounds.

    No law of that total has an error below ``lower_error``; where accuracies were required instead of a total, no law
    that meets them has a total below ``least_total``.
    """

    solution: Solution
    method: str
    total: float
    lower_error: float | None = None
    least_total: float | None = None


@one_thread
def least_total(problem: AllocationProblem) -> Allocated:
    """Find the smallest total for the required accuracies.

    The problem's own total is ignored.

    Raises
    ------
    Infeasible, MethodTooLarge, InvalidInput
        one line each.
    """
    smallest = smallest_total(problem)
    solution = _solution(problem, smallest.law, "accuracies", smallest.seconds)
    return Allocated(solution, "accuracies", smallest.law.epsilon, least_total=smallest.lower)


@one_thread
def most_accurate(problem: AllocationProblem, pairs: Pairs = ()) -> Allocated:
    """Find the most accurate distribution of the problem's total.

    ``pairs`` keep at least the eigenvalues that they have under independent randomized response.

    Raises
    ------
    Infeasible, MethodTooLarge, InvalidInput
        one line each; for a constraint that cannot be met, with a number that can.
    SolveFailed
        If a solver's answer fails its check.
    """
    least = _least(problem)
    allocated = None if pairs else _at_ceilings(problem)
    if allocated is None:
        try:
            allocated = _solved(problem, pairs)
        except SolveFailed:
            if least is None:
                raise
            # the limits leave nearly no choice at this total, so that the design that just meets them is the answer
            solution = _solution(problem, least.law, "accuracies", least.seconds)
            return Allocated(solution, "accuracies", least.law.epsilon)
    solution = allocated.design or _solution(
        problem,
        allocated.law,
        allocated.method,
        allocated.seconds,
        _certificate(problem.workload, allocated),
    )
    return Allocated(solution, allocated.method, problem.total, allocated.lower_error)


def _solved(problem: AllocationProblem, pairs: Pairs) -> AllocatedLaw:
    if problem.joint_targets.size and not pairs:
        return program.solve(problem)
    most = MAX_CAPPED_CELLS if problem.capped else MAX_ALLOCATION_CELLS
    if pairs or cells_of_classes(problem.workload) > most:
        return search.solve(problem, pairs)
    return lattice.solve(problem)


def _at_ceilings(problem: AllocationProblem) -> AllocatedLaw | None:
    """Return the design at the ceilings if they fit the total, otherwise None.

    This is only for workloads of single attributes; the total is then the smallest possible.
    """
    workload = problem.workload
    if not np.all(problem.ceiling <= EPSILON_RANGE[1]) or any(len(t) > 1 for t in workload.tables):
        return None
    started = time.perf_counter()
    caps = problem.cap if problem.capped else None
    try:
        solution = solve(Problem(workload.sizes, problem.ceiling, caps=caps, names=problem.names))
    except (Infeasible, MethodTooLarge, SolveFailed):
        # caps below a ceiling, or caps on too many attributes: the search goes on without this shortcut
        return None
    if solution.upper > problem.total:
        return None
    # no law within the ceilings has a larger λ_i
    most = workload.error(workload.products(eigenvalues_of(workload.sizes, problem.ceiling)))
    return replace(AllocatedLaw.of(problem, "ceilings", solution.law, most, started, 0), design=solution)


def _least(problem: AllocationProblem) -> SmallestTotal | None:
    """Compute the smallest total for floors and targets; refuse a smaller total."""
    if not ((problem.floor > 0).any() or problem.joint_targets.size):
        return None
    least = smallest_total(problem)
    if least.lower > problem.total:
        what = "required accuracies" if np.isfinite(problem.target).any() else "minimum epsilons of attributes"
        raise Infeasible(
            f"total epsilon {problem.total:g} is too small for the {what}: they need at least "
            f"{math.floor(least.lower * 1e6) / 1e6}, and {math.ceil(least.upper * 1e6) / 1e6} suffices; raise the "
            "total or relax the requirements"
        )
    return least


def _solution(
    problem: AllocationProblem, law: Law, method: str, seconds: float, certificate: Certificate | None = None
) -> Solution:
    """Return the noise distribution as a solution for its own accuracies.

    Its bound is the one that its multipliers prove for them.
    """
    achieved = law.attribute_epsilons()
    faint = np.flatnonzero(~(achieved >= EPSILON_RANGE[0]))
    if faint.size:
        i = int(faint[0])
        raise InvalidInput(
            f"{problem.name(i)} would get epsilon {achieved[i]:.2g}, which is too small; raise the total, its weight "
            "or its minimum epsilon, or leave the attribute out"
        )
    reached = Problem(problem.workload.sizes, np.minimum(achieved, EPSILON_RANGE[1]), names=problem.names)
    return Solution(
        problem=reached,
        method=f"allocate-{method}",
        law=law,
        certificate=certificate,
        lower=min(lower_bound(reached, certificate), law.epsilon),
        status=Status.ALLOCATED,
        seconds=seconds,
    )


def _certificate(workload: TableWorkload, allocated: AllocatedLaw) -> Certificate | None:
    """Convert one-way multipliers to integer weights.

    h = Σ g_i χ_i is Σ (g_i/d_i)(d_i − 1[i∈S]).
    """
    weights = np.zeros(len(workload.classes))
    for w, g in zip(workload.effects, allocated.multipliers.tolist(), strict=True):
        if len(w) == 1:
            members = workload.classes[workload.class_of[w[0]]]
            weights[workload.class_of[w[0]]] += g / members.size / (1 - 1 / workload.sizes[w[0]])
    sizes = workload.classes.counts
    total = float(weights @ sizes)
    if not (np.isfinite(total) and total > 0):
        return None
    bits = _BITS if cells_of_classes(workload) <= MAX_CELLS else _FEWER_BITS
    return Certificate(workload.classes, tuple(round(w / total * (1 << bits)) for w in weights.tolist()))
