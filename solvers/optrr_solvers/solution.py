"""What every solver returns, and the one check that every answer passes: bounds recomputed, requirements tested again.

upper: the law's own ε, computed from the law alone; lower: the certificate's bound, computed from the problem alone. No
number a backend reports about its own answer is used.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from optrr_solvers.arrays import FloatArray
from optrr_solvers.certificates.certificate import Certificate, lower_bound
from optrr_solvers.errors import SolveFailed
from optrr_solvers.laws.base import Law
from optrr_solvers.problem import Problem

# The gap in nats, absolute and relative to the total, that is allowed to an exact method for its rounding.
EXACT_GAP = 1e-9
# An achieved ε_i may fall short of the requested one by rounding only: this much, absolute and relative to 1 + ε_i.
ACCURACY_TOLERANCE = 1e-9
# So the law's ε may undercut the certified bound by as much, summed over attributes; more means that a bound is wrong.
UNDERCUT_TOLERANCE = 1e-8
# A pair's eigenvalue may fall short of κ λ_i λ_j by this much, relative to it.
PAIR_TOLERANCE = 1e-7
# With at most this many attributes, accuracies are computed from the integers that are drawn with.
_DRAWN = 12
# A conditional ε may exceed its cap by rounding only, in nats.
CAP_TOLERANCE = 1e-9


class Status(StrEnum):
    """How much a solution proves."""

    OPTIMAL = "optimal"  # upper − lower within the method's tolerance
    BRACKETED = "bracketed"  # both bounds hold, but a time limit left the gap larger than requested
    BASELINE = "baseline"  # a mechanism that does not try to be optimal
    ALLOCATED = "allocated"  # the most accurate law found for its total; what is bounded is the error, not the total


@dataclass(frozen=True, eq=False)
class Solution:
    """A mechanism's law with the two numbers that bracket the smallest total ε.

    ``lower`` ≤ smallest possible total ε ≤ ``upper`` = ε of ``law``, all in nats, rounded outward. ``tolerance``: the
    gap up to which it may be called optimal, None for a baseline.
    """

    problem: Problem
    method: str
    law: Law
    certificate: Certificate | None
    lower: float
    status: Status
    seconds: float
    statistics: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    tolerance: float | None = None

    @property
    def upper(self) -> float:
        """ε of the law, rounded up."""
        return self.law.epsilon

    @property
    def gap(self) -> float:
        """Upper − lower in nats."""
        return self.upper - self.lower

    @property
    def attribute_epsilons(self) -> FloatArray:
        """Achieved ε_i, shape (m,)."""
        return self.law.attribute_epsilons()


def checked(  # noqa: PLR0913 (its arguments are Solution's fields)
    problem: Problem,
    method: str,
    law: Law,
    certificate: Certificate | None,
    *,
    started: float,
    tolerance: float | None,
    bracketed: bool = False,
    statistics: Mapping[str, float] | None = None,
    notes: tuple[str, ...] = (),
) -> Solution:
    """Build a Solution from a law and a certificate, or raise SolveFailed.

    ``tolerance`` is the largest gap in nats the method accepts; None marks a baseline, whose accuracies are reported
    rather than required. ``bracketed`` accepts a larger gap and labels it, for methods that stop at a time limit.
    """
    lower = lower_bound(problem, certificate)
    gap = law.epsilon - lower
    # the bound holds for mechanisms that meet every accuracy; a baseline that misses one may have a smaller total
    undercut = gap < -UNDERCUT_TOLERANCE * max(1.0, lower)
    if undercut and (tolerance is not None or not shortfalls(problem, law).any()):
        raise SolveFailed(
            f"{method}: upper bound {law.epsilon!r} is below the lower bound {lower!r}, so the noise distribution is "
            "wrong; use method 'auto' or less extreme epsilons, and please report this"
        )
    if tolerance is None:
        status = Status.BASELINE
    else:
        try:
            require(problem, method, law)
        except SolveFailed as failed:
            raise SolveFailed(f"{failed}; use method 'auto' or less extreme epsilons") from failed
        status = Status.OPTIMAL
        if not gap <= tolerance and bracketed:
            status = Status.BRACKETED
        elif not gap <= tolerance:
            raise SolveFailed(
                f"{method}: gap of {gap:.3g} nats (ε = {law.epsilon:.12g}, lower bound {lower:.12g}) "
                f"exceeds {tolerance:g}; try another method or less extreme epsilons"
            )
    return Solution(
        problem=problem,
        method=method,
        law=law,
        certificate=certificate,
        lower=min(lower, law.epsilon),
        status=status,
        seconds=time.perf_counter() - started,
        statistics=statistics or {},
        notes=notes,
        tolerance=tolerance,
    )


def shortfalls(problem: Problem, law: Law) -> FloatArray:
    """Compute by how many nats each achieved ε_i is too small, shape (m,).

    0 if only by rounding.
    """
    # what is drawn decides where it is quickly known: sums of doubles lose accuracies of 20 nats and more
    achieved = law.labels.attribute if law.m <= _DRAWN else law.attribute_epsilons()
    short = problem.epsilons - achieved
    return np.where(short <= ACCURACY_TOLERANCE * (1 + problem.epsilons), 0.0, short)


def require(problem: Problem, method: str, law: Law) -> None:
    """Check that ``law`` meets every accuracy, pair and cap of ``problem``.

    Raises SolveFailed.
    """
    short = shortfalls(problem, law)
    if short.any():
        worst = int(np.argmax(short / (1 + problem.epsilons)))
        raise SolveFailed(f"{method}: {problem.name(worst)} falls {short[worst]:.3g} nats short of its epsilon")
    if problem.pairs:
        i, j = np.asarray(problem.pairs).T
        lam = problem.eigenvalues
        ratio = law.pair_eigenvalues()[i, j] / (problem.kappa * lam[i] * lam[j])
        if not ratio.min() >= 1 - PAIR_TOLERANCE:
            raise SolveFailed(f"{method}: a preserved pair keeps only {ratio.min():.9g} of the request")
    if problem.caps is not None and not np.all(law.conditional_epsilons() <= problem.caps + CAP_TOLERANCE):
        raise SolveFailed(f"{method}: a conditional epsilon exceeds its cap")
