"""Comparison of protocols for a workload, a total ε, a number of respondents and constraints (theory §3.7).

The expected squared error of each table U of the workload is known in advance,

    n E‖π̂_U − π_U‖² ≤ G_U = Σ_{∅≠W⊆U} c_W/λ_W²,

with equality for a uniform population; it is less by Σ ‖π_W‖² ≤ 1 for another one, and is G_U − Σ c_W exactly if the
respondents are the population. Its standard error per cell, as a root mean square, is √(G_U / (n Π r_i)). Local queries
have c_W dim_W/e_W instead of c_W/λ_W² (§3.9).

A protocol (:mod:`optrr.allocation.strategies`) is judged by Σ weight G_U at the total or, if standard errors are
required, by the total that it needs for them. The comparison includes the lower bound for any mechanism
(:mod:`optrr_solvers.allocation.any_mechanism`), and for the optimum that of all noise distributions.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np

from optrr.allocation.result import LIMITS, NOTE, Allocation, BestLaw, Prediction, Requested
from optrr.allocation.strategies import (
    Strategy,
    at_total,
    comparable,
    kronecker,
    optimum,
    sampling,
    sufficient_ways,
    whole_record,
)
from optrr.allocation.workload import WorkloadLike, workload_of
from optrr.core.design import Constraints, Declared, Design, Specification
from optrr.core.display import brief, epsilon_text
from optrr.core.errors import InvalidInput
from optrr_solvers import Infeasible, MethodTooLarge, SolveFailed, Status
from optrr_solvers.allocation.best import Allocated, least_total, most_accurate
from optrr_solvers.allocation.problem import MAX_TOTAL, AllocationProblem
from optrr_solvers.allocation.workload import TableWorkload
from optrr_solvers.arrays import FloatArray, real
from optrr_solvers.auto import solve
from optrr_solvers.problem import EPSILON_RANGE, Problem

__all__ = ["Allocation", "Prediction", "allocate"]

Progress = Callable[[float, float], None]


def allocate(  # noqa: PLR0913 (public: each argument is one choice of the user)
    domain: Declared,
    total: float | None = None,
    *,
    workload: WorkloadLike = "marginals",
    n: int | None = None,
    standard_error: float | None = None,
    records_only: bool = False,
    constraints: Constraints = Constraints(),
    progress: Progress | None = None,
) -> Allocation:
    """Compare protocols for a workload at a total ε.

    Or find the smallest total for required standard errors.

    Parameters
    ----------
    domain
        a Domain, a mapping of names to categories or sizes, or a specification or its file, with its public columns.
    total
        E in nats. Without it, each table needs a maximum standard error, and the smallest total is found.
    workload
        "marginals", "pairs", the path of a TOML or JSON file, or tables, such as
        ``["sex × income", ("age",)]`` (see :mod:`optrr.allocation.workload`).
    n
        number of respondents; needed for standard errors.
    standard_error
        maximum root-mean-square standard error of each table without an individual one.
    records_only
        choose among the protocols after which any table can be estimated, with whole records or not. Otherwise the best of
        all protocols is chosen, which is often one random query per person about the workload's tables only.
    constraints
        limits on the attributes' ε, and pairs to preserve: a :class:`Constraints` without ``kappa``. Any of them implies
        ``records_only``.
    progress
        function called during a search, with the current error of the workload and a lower bound of the best one, or with the
        current total and its lower bound if standard errors are required.

    Returns
    -------
    Allocation
        the best protocol, of a total of at most E, as ``asking``, and all compared protocols as ``protocols``.

    Raises
    ------
    InvalidInput, Infeasible, MethodTooLarge
        if an argument is invalid, or a constraint cannot be met; the message then states the number that can.
    SolveFailed
        if a solver's result failed its check.

    Examples
    --------
    >>> import optrr
    >>> allocation = optrr.allocate({"sex": 2, "age": 5, "income": 2}, 1.0, n=10_000)
    >>> allocation.protocol.name
    'sampling'
    >>> allocation.choosing("optimum").asking.keeps_records
    True
    """
    given = Specification.of(domain)
    if constraints.kappa != 1:
        raise InvalidInput("``constraints``: kappa applies to optrr.design only; leave it out")
    nats = None if total is None else _nats(total)
    wanted = workload_of(workload, given.domain).requiring(standard_error)
    task = _Task(given.domain, wanted, nats, n, records_only, constraints, given.public, progress)
    if nats is None:
        task.check_without_total()
    problem = task.problem(1.0 if nats is None else nats)
    law, refusal = None, None
    try:
        law = task.law(problem)
    except (Infeasible, MethodTooLarge) as refused:
        # local queries may meet requirements that noise distributions cannot
        if task.limited:
            raise
        refusal = refused
    laws = [] if law is None else [optimum(law.design, task.workload, law.error)]
    most = laws[0].epsilon if laws and nats is None else EPSILON_RANGE[1] if nats is None else nats
    others = task.others(replace(problem, total=min(most, MAX_TOTAL)))
    # among equal protocols the optimum comes first
    protocols = sorted([*laws, *others], key=lambda o: comparable(o.epsilon if nats is None else o.error))
    best = next((o for o in protocols if task.allows(o)), None)
    if best is None:
        raise task.refusal(refusal)
    asked = Requested(task.domain, task.workload, nats, n, records_only, constraints, task.public)
    return Allocation(asked, tuple(protocols), best, law, refusal)


def check_people(n: int | None) -> None:
    """Raise InvalidInput where a number of respondents is given that is none."""
    if n is not None and not (1 <= real(n) < math.inf and n == int(n)):
        raise InvalidInput(f"``n``: {brief(n)} is not a number of respondents; give a whole number of at least 1")


def _nats(total: float) -> float:
    nats = real(total)
    if not (math.isfinite(nats) and nats > 0):
        raise InvalidInput(f"``total``: {brief(total)} is not a privacy budget; give a positive number of nats")
    return nats


@dataclass(frozen=True, eq=False)
class _Task(Requested):
    """One call of allocate."""

    progress: Progress | None = None

    def __post_init__(self) -> None:
        check_people(self.n)
        # attributes outside the workload should not be collected
        in_tables = {name for t in self.workload.tables for name in t.attributes}
        for name, least in zip(self.domain.names, self.constraints.least(self.domain), strict=True):
            if name not in in_tables and not least > 0:
                raise InvalidInput(
                    f"``workload``: attribute {name!r} is in no table; remove it from the domain, add a table, or "
                    "give it a minimum epsilon"
                )

    def check_without_total(self) -> None:
        """Raise InvalidInput for arguments that need a total, or are missing."""
        missing = next((t for t in self.workload.tables if t.standard_error is None), None)
        if missing is not None:
            raise InvalidInput(
                f"``total``: missing, and table {missing.title} has no standard error; give ``total`` or ``standard_error``"
            )
        if self.constraints.pairs(self.domain):
            raise InvalidInput(
                "``constraints``: pairs to preserve need a total epsilon; require standard errors of those pairs instead"
            )

    @cached_property
    def _limits(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Smallest and largest ε_i and caps, shape (m,) each."""
        constraints = self.constraints
        return constraints.least(self.domain), constraints.most(self.domain), constraints.caps(self.domain)

    @cached_property
    def arrays(self) -> TableWorkload:
        """The workload as arrays, with as few classes as it and the limits allow."""
        keys: list[FloatArray] = [np.nan_to_num(k, posinf=-1.0) for k in self._limits]
        if not isinstance(self.constraints.preserve, str) or bool(np.isfinite(self._limits[2]).any()):
            # such requirements may distinguish alike attributes
            keys.append(np.arange(self.domain.m, dtype=np.float64))
        return self.workload.arrays(self.domain, keys)

    def problem(self, total: float) -> AllocationProblem:
        """Build the solver's problem at this total."""
        targets, names = self.workload.limits(self.domain, self.arrays, self.n), self.domain.names
        return AllocationProblem(self.arrays, total, *self._limits, targets, names, self.progress)

    def law(self, problem: AllocationProblem) -> BestLaw:
        """Find the most accurate noise distribution, or the least total.

        The least total if accuracies are required.
        """
        allocated = self._solved(problem, self.total)
        error, lower = self.arrays.error(self.arrays.eigenvalues(allocated.solution.law)), allocated.lower_error
        note = f"{NOTE} for {self.workload.name} at total epsilon {allocated.total:.6g}: workload error {error:.6g}"
        limits = LIMITS if self.limited or self.workload.required else ""
        note += (
            ""
            if lower is None
            else (f", where no noise distribution of this total{limits} has an error below {lower:.6g}")
        )
        # with required accuracies instead of a total, a certificate proves the total itself
        proved = allocated.least_total is not None and allocated.solution.certificate is not None
        status = allocated.solution.status if proved else Status.ALLOCATED
        solution = replace(allocated.solution, notes=(*allocated.solution.notes, note), status=status)
        return BestLaw(
            design=Design(self.domain, solution, public=self.public),
            method=allocated.method,
            error=error,
            lower_error=lower,
            least_total=allocated.least_total,
        )

    def _solved(self, problem: AllocationProblem, total: float | None) -> Allocated:
        if total is not None:
            return most_accurate(problem, self.constraints.pairs(self.domain))
        epsilons = np.maximum(problem.floor, EPSILON_RANGE[0])
        if problem.joint_targets.size or not np.all(epsilons <= EPSILON_RANGE[1]):
            return least_total(problem)
        # only accuracies of single attributes are required and some ε_i gives each of them: the certified design
        caps = problem.cap if problem.capped else None
        solution = solve(Problem(self.domain.sizes, epsilons, caps=caps, names=self.domain.names))
        return Allocated(solution, "accuracies", solution.upper, least_total=solution.lower)

    def others(self, problem: AllocationProblem) -> list[Strategy]:
        """Build every other protocol at the total, or at the least it needs.

        The latter is at most the problem's total.
        """
        total = self.total
        if total is None:
            show = self.progress
            bounding = None if show is None else lambda lower: show(math.inf, lower)
            least = 0.0 if show is None else self.workload.total_bound(self.domain, self.n, bounding)
            return sufficient_ways(self.domain, self.workload, problem, self.n, self._watched(least))
        bound = 0.0 if self.progress is None else self.workload.error_bound(self.domain, total)
        wanted = self.domain, self.workload, total
        out = [kronecker(*wanted), *([whole_record(*wanted)] if self.domain.m > 1 else [])]
        out += sampling(*wanted, self._watched(bound))
        if self.limited:
            return [o.without("the required limits and pairs") for o in out]
        if not self.workload.required:
            return out
        out = [o if self._reaches(o) else o.without("the required standard errors") for o in out]
        if any(o.suits and o.asks_one and (o.keeps_records or not self.records_only) for o in out):
            return out
        within = sufficient_ways(self.domain, self.workload, problem, self.n)[::-1]
        # a search with a larger limit may find protocols that one within the total misses
        for o in chain(within, (way for way in self._sufficient[::-1] if way.epsilon <= total)):
            if o.asks_one and (o.keeps_records or not self.records_only):
                # a protocol that reaches them with less also reaches them with all
                return [*(way for way in out if way.name != o.name), at_total(o, self.workload, total)]
        return out

    @cached_property
    def _sufficient(self) -> list[Strategy]:
        """Protocols that reach the standard errors, each at its least total."""
        most = self.problem(EPSILON_RANGE[1])
        return sufficient_ways(self.domain, self.workload, most, self.n)

    def refusal(self, law: InvalidInput | None) -> InvalidInput:
        """Explain why no protocol meets all requirements, with a sufficient total."""
        total, keep = self.total, self.records_only
        if law is not None and (total is None or (keep and isinstance(law, MethodTooLarge))):
            return law
        totals = [o.epsilon for o in self._sufficient if o.keeps_records or not keep]
        if keep:
            with suppress(Infeasible, SolveFailed):
                totals.append(self._solved(self.problem(EPSILON_RANGE[1]), None).solution.upper)
        if total is None or not totals:
            return law or Infeasible("no protocol meets all requirements")
        return Infeasible(
            f"``total``: {total:g} is too small for the required accuracies: {epsilon_text(min(totals))} suffices; raise "
            "the total or lower them"
        )

    def _watched(self, bound: float) -> Callable[[float], None] | None:
        show = self.progress
        return None if show is None else lambda so_far: show(so_far, bound)

    def _reaches(self, option: Strategy) -> bool:
        asked = ((t, t.standard_error) for t in self.workload.tables if t.standard_error is not None)
        return all(option.asking.standard_error(t.attributes, self.n or 1) <= most for t, most in asked)
