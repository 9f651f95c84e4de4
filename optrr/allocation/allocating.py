"""The best design for a workload, a total ε, a number of people and wishes, beside every simpler way (design §3.7).

For every table U of the workload the expected squared error is known in advance,

    n E‖π̂_U − π_U‖² ≤ G_U = Σ_{∅≠W⊆U} c_W/λ_W²,

exactly so for a uniform population, less by Σ ‖π_W‖² ≤ 1 for another, and G_U − Σ c_W exactly when the people are the
population. Its standard error per cell, as a root mean square, is √(G_U / (n Π r_i)). Questions have c_W dim_W/e_W in place of
c_W/λ_W² (§3.9).

Every way of asking (:mod:`optrr.allocation.strategies`) is judged by Σ weight G_U at the total; where standard errors
are required
instead, by the total that it needs for them. Beside all stands what no mechanism of any form can be below
(:mod:`optrr_solvers.allocation.any_mechanism`), and beside the best law of change sets what no such law can.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, Literal

import numpy as np

from optrr.allocation.result import LIMITS, NOTE, Allocation, BestLaw, Prediction
from optrr.allocation.strategies import (
    Strategy,
    at_total,
    clustered,
    comparable,
    kronecker,
    optimum,
    sampling,
    sufficient_ways,
    whole_record,
)
from optrr.allocation.workload import Workload, WorkloadLike, workload_of
from optrr.core.design import Constraints, Design, Limits, Preserve
from optrr.core.display import brief, epsilon_text
from optrr.core.domain import NONE, Domain, PublicColumns
from optrr.core.errors import InvalidInput
from optrr_solvers import Infeasible, MethodTooLarge, SolveFailed, Status
from optrr_solvers.allocation.best import METHODS, Allocated, kronecker_error, least_total, most_accurate
from optrr_solvers.allocation.problem import MAX_TOTAL, AllocationProblem
from optrr_solvers.allocation.workload import TableWorkload
from optrr_solvers.arrays import FloatArray, real
from optrr_solvers.auto import solve
from optrr_solvers.problem import EPSILON_RANGE, Problem

__all__ = ["METHODS", "Allocation", "Prediction", "allocate", "law_error"]

Progress = Callable[[float, float], None]
Keep = Literal["records"]


def allocate(  # noqa: PLR0913 (public: each argument is one choice of the user)
    domain: Domain | Mapping[str, int | Iterable[Any]],
    total: float | None = None,
    *,
    learn: WorkloadLike = "marginals",
    n: int | None = None,
    standard_error: float | None = None,
    keep: Keep | None = None,
    floors: Limits = None,
    ceilings: Limits = None,
    conditional_cap: Limits = None,
    preserve: Preserve = "marginals",
    method: str = "auto",
    clusters: Sequence[Sequence[str]] | None = None,
    progress: Progress | None = None,
    public: PublicColumns | Mapping[str, Any] = NONE,
) -> Allocation:
    """The most accurate way of asking for what is to be learned at a total ε; or the smallest total for standard errors.

    Parameters
    ----------
    domain
        a Domain, or a mapping of names to categories or sizes.
    total
        E in nats. None: every table must then have a standard error to reach, and the smallest total is found.
    learn
        "marginals", "pairs", the path of a TOML or JSON file, or tables, such as
        ``["sex × income", ("age",)]`` (see :mod:`optrr.allocation.workload`).
    n
        how many people will answer; needed for standard errors.
    standard_error
        root-mean-square standard error that every table without one of its own must reach.
    keep
        "records": the best of the ways after which any table can be estimated, whole records or not. None: the best of all,
        which is often one random question to each person, about the workload's tables alone.
    floors, ceilings, conditional_cap, preserve
        see :class:`optrr.core.design.solving.Constraints`; any of them implies that records are kept.
    method
        of the best law of change sets: lattice (few attributes, or few different ones), program (the same by one convex
        program), search (any number), or auto.
    clusters
        lists of attribute names to randomize together, as one way more; attributes in none stand alone.
    progress
        called while a search goes on, with the workload's error so far and a bound below the best one; where standard errors
        are required, with the total so far and a bound below it.
    public
        columns that stand beside the attributes and are not randomized; see :func:`optrr.design`.

    Returns
    -------
    Allocation
        whose ``asking`` is the best way, of a total of at most E, and whose ``ways`` are all that were compared.

    Raises
    ------
    InvalidInput, Infeasible, MethodTooLarge
        one line each; where a wish cannot be met, with the number that can.
    SolveFailed
        where a solver's answer did not survive its check.
    """
    if keep not in (None, "records"):
        raise InvalidInput(f"keep {brief(keep)}; give 'records', or leave it out")
    wishes = Constraints(preserve=preserve, conditional_cap=conditional_cap, floors=floors, ceilings=ceilings)
    declared = Domain.of(domain)
    wanted = workload_of(learn, declared).requiring(standard_error)
    beside = PublicColumns.of(public).apart_from(declared)
    task = _Task(declared, wanted, wishes, n, progress, beside)
    if total is None:
        task.check_without_total(method, clusters)
    nats = None if total is None else _nats(total)
    problem = task.problem(1.0 if nats is None else nats)
    wished = wishes != Constraints()
    law, refusal = None, None
    try:
        law = task.law(problem, nats, method)
    except (Infeasible, MethodTooLarge) as refused:
        # questions may do what laws cannot, where they are allowed and no method of laws was chosen
        if wished or method != "auto":
            raise
        refusal = refused
    laws = [] if law is None else [optimum(law.design, task.workload, law.error)]
    most = laws[0].epsilon if laws and nats is None else EPSILON_RANGE[1] if nats is None else nats
    others = task.ways(replace(problem, total=min(most, MAX_TOTAL)), nats, clusters, keep is not None)
    # of equal options the optimum comes first
    ways = sorted([*laws, *others], key=lambda o: comparable(o.epsilon if nats is None else o.error))
    kept: Keep | None = "records" if wished else keep
    best = next((o for o in ways if o.suits and (o.keeps_records or kept is None)), None)
    if best is None:
        raise task.refusal(refusal, nats, keep is not None)
    return Allocation(task.domain, task.workload, n, nats, kept, wished, tuple(ways), best, law, refusal, task.public)


def law_error(
    domain: Domain, total: float, workload: Workload, conditional_cap: Limits = None, preserve: Preserve = "marginals"
) -> float:
    """The workload's error under the most accurate law of change sets of a total, in nats, with these wishes.

    Raises as :func:`allocate`.
    """
    task = _Task(domain, workload, Constraints(preserve=preserve, conditional_cap=conditional_cap))
    return task.law(task.problem(_nats(total)), total, "auto").error


def check_people(n: int | None) -> None:
    """Raise InvalidInput where a number of people is given that is none."""
    if n is not None and not (1 <= real(n) < math.inf and n == int(n)):
        raise InvalidInput(f"n = {brief(n)}; give the number of people, a whole number of at least 1")


def _nats(total: float) -> float:
    nats = real(total)
    if not (math.isfinite(nats) and nats > 0):
        raise InvalidInput(f"total epsilon {brief(total)}; give a positive number of nats")
    return nats


@dataclass(frozen=True, eq=False)
class _Task:
    """One call of allocate."""

    domain: Domain
    workload: Workload
    wishes: Constraints
    n: int | None = None
    progress: Progress | None = None
    public: PublicColumns = NONE

    def __post_init__(self) -> None:
        check_people(self.n)
        # what is not to be learned should not be collected
        in_tables = {name for t in self.workload.tables for name in t.attributes}
        for name, floor in zip(self.domain.names, self.wishes.floor(self.domain), strict=True):
            if name not in in_tables and not floor > 0:
                raise InvalidInput(
                    f"attribute {name!r} is in no table of the workload; leave it out of the domain, add a table, or give "
                    "it a floor"
                )

    def check_without_total(self, method: str, clusters: Sequence[Sequence[str]] | None) -> None:
        """Raises InvalidInput for what is missing, or means nothing, without a total."""
        missing = next((t for t in self.workload.tables if t.standard_error is None), None)
        if missing is not None:
            raise InvalidInput(
                f"neither a total epsilon nor a standard error for table {missing.title} is given; give one of them"
            )
        if self.wishes.pairs(self.domain):
            raise InvalidInput("pairs to preserve need a total epsilon; require standard errors of those pairs instead")
        for what, given in ((f"method {method!r} is", method != "auto"), ("clusters are", bool(clusters))):
            if given:
                raise InvalidInput(f"{what} for a given total epsilon; give one, or leave the option out")

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

    def law(self, problem: AllocationProblem, total: float | None, method: str) -> BestLaw:
        """The most accurate law of a total, or the one with the least total for the accuracies required."""
        allocated = self._solved(problem, total, method)
        error, lower = self.arrays.error(self.arrays.eigenvalues(allocated.solution.law)), allocated.lower_error
        note = f"{NOTE} for {self.workload.name} at total epsilon {allocated.total:.6g}: workload error {error:.6g}"
        limits = LIMITS if self.wishes != Constraints() or self.workload.required else ""
        note += "" if lower is None else f", no law of this total{limits} below {lower:.6g}"
        # where accuracies are required instead of a total, a certificate proves the total itself
        proved = allocated.least_total is not None and allocated.solution.certificate is not None
        status = allocated.solution.status if proved else Status.ALLOCATED
        solution = replace(allocated.solution, notes=(*allocated.solution.notes, note), status=status)
        return BestLaw(
            design=Design(self.domain, solution, public=self.public),
            method=allocated.method,
            error=error,
            lower_error=lower,
            kronecker_error=kronecker_error(problem, allocated.total),
            least_total=allocated.least_total,
        )

    def _solved(self, problem: AllocationProblem, total: float | None, method: str) -> Allocated:
        if total is not None:
            return most_accurate(problem, self.wishes.pairs(self.domain), method)
        epsilons = np.maximum(problem.floor, EPSILON_RANGE[0])
        if problem.joint_targets.size or not np.all(epsilons <= EPSILON_RANGE[1]):
            return least_total(problem)
        # only accuracies of single attributes are required and some ε_i gives each of them: the certified design
        caps = problem.cap if problem.capped else None
        solution = solve(Problem(self.domain.sizes, epsilons, caps=caps, names=self.domain.names))
        return Allocated(solution, "accuracies", solution.upper, least_total=solution.lower)

    def ways(
        self, problem: AllocationProblem, total: float | None, clusters: Sequence[Sequence[str]] | None, keep: bool
    ) -> list[Strategy]:
        """Every other way, each at the total; or at the least that it needs, at most the problem's."""
        if total is None:
            show = self.progress
            bounding = None if show is None else lambda lower: show(math.inf, lower)
            least = 0.0 if show is None else self.workload.total_bound(self.domain, self.n, bounding)
            return sufficient_ways(self.domain, self.workload, problem, self.n, self._watched(least))
        bound = 0.0 if self.progress is None else self.workload.error_bound(self.domain, total)
        asked = self.domain, self.workload, total
        out = kronecker(*asked)
        if self.domain.m > 1:
            out.append(whole_record(*asked))
        out += sampling(*asked, self._watched(bound))
        if clusters:
            out.append(clustered(*asked, clusters))
        if self.wishes != Constraints():
            return [o.without("the limits and pairs that were asked for") for o in out]
        if not self.workload.required:
            return out
        out = [o if self._reaches(o) else o.without("the standard errors that were asked for") for o in out]
        if any(o.suits and o.asks_one and (o.keeps_records or not keep) for o in out):
            return out
        within = sufficient_ways(self.domain, self.workload, problem, self.n)[::-1]
        # a search that may spend more may find what one within the total does not
        for o in chain(within, (way for way in self._sufficient[::-1] if way.epsilon <= total)):
            if o.asks_one and (o.keeps_records or not keep):
                # what reaches them with less reaches them with all
                return [*(way for way in out if way.name != o.name), at_total(o, self.workload, total)]
        return out

    @cached_property
    def _sufficient(self) -> list[Strategy]:
        """Ways that reach the standard errors, each at the least total that was found, however large."""
        most = self.problem(EPSILON_RANGE[1])
        return sufficient_ways(self.domain, self.workload, most, self.n)

    def refusal(self, law: InvalidInput | None, total: float | None, keep: bool) -> InvalidInput:
        """Why no way has all that was asked for, with the total that would do where there is one."""
        if law is not None and (total is None or (keep and isinstance(law, MethodTooLarge))):
            return law
        totals = [o.epsilon for o in self._sufficient if o.keeps_records or not keep]
        if keep:
            with suppress(Infeasible, SolveFailed):
                totals.append(self._solved(self.problem(EPSILON_RANGE[1]), None, "auto").solution.upper)
        if total is None or not totals:
            return law or Infeasible("no way of asking has all that was asked for")
        return Infeasible(
            f"total epsilon {total:g} is too small for the required accuracies: {epsilon_text(min(totals))} suffices; raise "
            "the total or lower them"
        )

    def _watched(self, bound: float) -> Callable[[float], None] | None:
        show = self.progress
        return None if show is None else lambda so_far: show(so_far, bound)

    def _reaches(self, option: Strategy) -> bool:
        asked = ((t, t.standard_error) for t in self.workload.tables if t.standard_error is not None)
        return all(option.asking.standard_error(t.attributes, self.n or 1) <= most for t, most in asked)
