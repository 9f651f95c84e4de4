"""Design: the smallest total ε for the accuracies asked for, with the mechanism that reaches it and the bound below it.

Three numbers belong together and are always shown together: the total ε of the whole record; each attribute ε, the
accuracy that was bought; and each conditional ε, what an observer who already knows a person's other attributes learns
about this one. Under Kronecker the last two agree; at the optimum the conditional ε goes up to the total.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from optrr.errors import InvalidInput
from optrr.mechanisms.mechanism import Mechanism
from optrr.records.domain import Domain
from optrr.rounding import bound_text, epsilon_text
from optrr_solvers import MethodTooLarge, Problem, Solution, SolveOptions, Status, solve
from optrr_solvers.laws import Law
from optrr_solvers.problem import FloatArray
from optrr_solvers.solution import shortfalls

# Pair eigenvalues are listed for at most this many attributes (2016 pairs).
MAX_PAIRS_REPORTED = 64
# A million pairs take a minute to set up and half a gigabyte.
MAX_PAIRS_KEPT = 1 << 20
# Below this share of Kronecker's visibility a pair's table takes four times the records or more.
_FAINT = 0.5

Preserve = Literal["marginals", "pairs"] | Sequence[tuple[str, str]]


@dataclass(frozen=True, eq=False)
class Design:
    """A domain, the accuracies asked for, and a solution: law, bounds, certificate. Save and load with ``design_file``."""

    domain: Domain
    solution: Solution

    def __post_init__(self) -> None:
        if not np.array_equal(self.domain.sizes, self.solution.problem.sizes):
            raise InvalidInput("the solution is for other sizes than the domain's; design for this domain")

    @cached_property
    def mechanism(self) -> Mechanism:
        """The mechanism to perturb with."""
        return Mechanism(self.domain, self.law)

    @property
    def law(self) -> Law:
        """Probability of each change set."""
        return self.solution.law

    @property
    def method(self) -> str:
        """The solver that produced the law."""
        return self.solution.method

    @cached_property
    def epsilon(self) -> float:
        """Total ε in nats, rounded up."""
        return self.solution.upper

    @property
    def lower_bound(self) -> float:
        """No mechanism with these accuracies has a total ε below this many nats."""
        return self.solution.lower

    @property
    def gap(self) -> float:
        """Total ε minus lower bound, in nats."""
        return self.epsilon - self.lower_bound

    @property
    def requested_epsilons(self) -> FloatArray:
        """ε_i asked for, in nats, shape (m,)."""
        return self.solution.problem.epsilons

    @cached_property
    def attribute_epsilons(self) -> FloatArray:
        """ε_i achieved, in nats, shape (m,)."""
        return self.law.attribute_epsilons()

    @cached_property
    def conditional_epsilons(self) -> FloatArray:
        """What an observer who knows all other attributes learns about attribute i, in nats, shape (m,)."""
        return self.law.conditional_epsilons()

    @property
    def kronecker_epsilon(self) -> float:
        """Σ ε_i: the total of randomizing every attribute on its own."""
        return self.solution.problem.kronecker_epsilon

    @cached_property
    def faintest_pair(self) -> tuple[float, str, str] | None:
        """λ_ij/(λ_i λ_j) nearest to 0, with its sign, and the two names; None for one attribute or more than 64.

        A table's error grows as the ratio nears 0 from either side; a negative one turns the association's sign, which
        estimates undo.
        """
        m = self.domain.m
        if not 2 <= m <= MAX_PAIRS_REPORTED:
            return None
        lam = self.law.pair_eigenvalues()
        one = np.diag(lam)
        i, j = np.triu_indices(m, 1)
        ratio = lam[i, j] / (one[i] * one[j])
        k = int(np.argmin(np.abs(ratio)))
        return float(ratio[k]), self.domain.names[i[k]], self.domain.names[j[k]]

    def warnings(self) -> tuple[str, ...]:
        """What a user must know before using this design, one line each."""
        out = list(self.solution.notes)
        if self.solution.status is Status.BASELINE:
            out.append(f"method {self.method!r} is a baseline, not certified: {self._where_the_optimum_is()}")
        elif self.solution.status is Status.BRACKETED:
            out.append(f"stopped early: the optimum is only known to lie within {self.gap:.3g} nats below this total")
        faint = self.faintest_pair
        if faint is not None and abs(faint[0]) < _FAINT:
            out.append(
                f"the association of {faint[1]!r} and {faint[2]!r} keeps only {abs(faint[0]):.3g} of its visibility under "
                "Kronecker; if you need tables of pairs, use --preserve pairs (preserve='pairs')"
            )
        return tuple(out)

    def _where_the_optimum_is(self) -> str:
        if shortfalls(self.solution.problem, self.law).any():
            return f"it misses requested epsilons; with them a total is at least {bound_text(self.lower_bound, 4)} nats"
        return f"the optimum lies between {bound_text(self.lower_bound, 4)} and {epsilon_text(self.epsilon, 4)} nats"

    def summary(self) -> dict[str, Any]:
        """The command line's JSON object: total, bound, gap, and per attribute requested, achieved and conditional ε."""
        out: dict[str, Any] = {
            "epsilon": self.epsilon,
            "lower_bound": self.lower_bound,
            "gap": self.gap,
            "method": self.method,
            "status": str(self.solution.status),
            "kronecker_epsilon": self.kronecker_epsilon,
            "seconds": self.solution.seconds,
            "attributes": [
                {"name": a.name, "size": a.size, "requested_epsilon": r, "epsilon": e, "conditional_epsilon": c}
                for a, r, e, c in zip(
                    self.domain,
                    self.requested_epsilons.tolist(),
                    self.attribute_epsilons.tolist(),
                    self.conditional_epsilons.tolist(),
                    strict=True,
                )
            ],
        }
        if self.faintest_pair is not None:
            ratio, a, b = self.faintest_pair
            out["pairs"] = {"min_eigenvalue_ratio": ratio, "attributes": [a, b]}
        out["warnings"] = list(self.warnings())
        return out


@dataclass(frozen=True)
class Wishes:
    """What to ask for beside the accuracies.

    Parameters
    ----------
    preserve
        "marginals": only the one-way accuracies. "pairs": also every pair at least ``kappa`` times as visible as under
        Kronecker; a list of name pairs: only these. At kappa = 1 the total still never exceeds Kronecker's and the expected
        summed squared error of every kept pair table is no larger than Kronecker's; single cells may be worse, effects
        among three attributes may vanish or change sign, and the conditional ε is larger than Kronecker's.
    kappa
        share of Kronecker's pair visibility to keep; above 1 may be infeasible.
    conditional_cap
        largest conditional ε in nats, for all attributes or by name; up to 10 attributes, never below the attribute's ε.
    """

    preserve: Preserve = "marginals"
    kappa: float = 1.0
    conditional_cap: float | Mapping[str, float] | None = None

    def problem(self, domain: Domain, epsilons: FloatArray) -> Problem:
        """The design problem over ``domain``."""
        return Problem(
            domain.sizes,
            epsilons,
            pairs=self._pairs(domain),
            kappa=self.kappa,
            caps=self._caps(domain),
            names=domain.names,
        )

    def _pairs(self, domain: Domain) -> tuple[tuple[int, int], ...]:
        if self.preserve == "marginals":
            return ()
        if self.preserve == "pairs":
            count = domain.m * (domain.m - 1) // 2
            if count > MAX_PAIRS_KEPT:
                raise MethodTooLarge(
                    f"{domain.m} attributes have {count} pairs; at most {MAX_PAIRS_KEPT} can be preserved: name those that "
                    "matter, preserve=[(name, name), …], or split the record"
                )
            return tuple(combinations(range(domain.m), 2))
        if isinstance(self.preserve, str):
            raise InvalidInput(f"preserve = {self.preserve!r}; give 'marginals', 'pairs' or a list of pairs of names")
        return tuple((domain.index(a), domain.index(b)) for a, b in self.preserve)

    def _caps(self, domain: Domain) -> FloatArray | None:
        if self.conditional_cap is None:
            return None
        if not isinstance(self.conditional_cap, Mapping):
            return np.full(domain.m, float(self.conditional_cap))
        out = np.full(domain.m, np.inf)
        for name, cap in self.conditional_cap.items():
            out[domain.index(name)] = cap
        return out


def design(  # noqa: PLR0913 (the product's front door: each argument is one question a user answers)
    domain: Domain | Mapping[str, int | Iterable[Any]],
    epsilons: float | ArrayLike | Mapping[str, float],
    *,
    method: str = "auto",
    preserve: Preserve = "marginals",
    kappa: float = 1.0,
    conditional_cap: float | Mapping[str, float] | None = None,
    options: SolveOptions = SolveOptions(),
) -> Design:
    """Mechanism with the smallest total ε whose attribute i is as accurate as randomized response at ε_i (POR §IV).

    Parameters
    ----------
    domain
        a Domain, or a mapping of names to categories or sizes.
    epsilons
        ε_i in nats, 1e-6..50: one number for all, a sequence in the domain's order, or a mapping by name.
    method
        auto, closed-form, lp, reduced, classes, ball, inductive or kronecker; see :mod:`optrr_solvers`.
    preserve, kappa, conditional_cap
        see :class:`Wishes`.
    options
        tolerance of the gap, time limit, progress: a :class:`optrr_solvers.SolveOptions`.

    Returns
    -------
    Design
        whose ``epsilon`` is never below the mechanism's true ε and whose ``lower_bound`` no mechanism can go below.

    Raises
    ------
    InvalidInput, InvalidProblem, MethodTooLarge, Infeasible
        one line each: what is wrong, where, and the remedy. All are ValueErrors; all but the first are from
        :mod:`optrr_solvers`.
    SolveFailed
        where a solver's answer did not survive its check.
    """
    declared = domain if isinstance(domain, Domain) else Domain.of(domain)
    wishes = Wishes(preserve, kappa, conditional_cap)
    problem = wishes.problem(declared, epsilon_vector(declared, epsilons))
    return Design(declared, solve(problem, method, options))


def epsilon_vector(domain: Domain, epsilons: float | ArrayLike | Mapping[str, float]) -> FloatArray:
    """ε_i in the domain's order, shape (m,). Raises InvalidInput where a name is missing or unknown, or ε is no number."""
    try:
        return _epsilon_vector(domain, epsilons)
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(
            f"epsilons are numbers of nats, one for all or one for each attribute; got {epsilons!r}"
        ) from error


def _epsilon_vector(domain: Domain, epsilons: float | ArrayLike | Mapping[str, float]) -> FloatArray:
    if isinstance(epsilons, Mapping):
        for name in epsilons:
            domain.index(name)
        missing = [n for n in domain.names if n not in epsilons]
        if missing:
            raise InvalidInput(f"attribute {missing[0]!r} has no epsilon; give it one in nats")
        return np.asarray([epsilons[n] for n in domain.names], dtype=np.float64)
    values = np.asarray(epsilons, dtype=np.float64)
    if values.ndim and values.shape != (domain.m,):
        raise InvalidInput(f"{values.size} epsilons for {domain.m} attributes; give one number or one for each")
    return np.broadcast_to(values, (domain.m,)).astype(np.float64)
