"""The findings of an audit, and the exact tests and bounds on which they rest.

These hold for any number of records: binomial tails, Clopper–Pearson, and a bound for whole tables.

No normal or χ² approximation is used, because an auditor works at levels like 10^-6, far out where these are wrong.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaincc, betaincinv

from optrr.core.display import Table, TableResult, bound_text, epsilon_text, in_json
from optrr_solvers.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    import pyarrow as pa


# Names of the checks, each of which may err with an equal share of the level.
TOTAL, FLIPS, REPLACEMENTS, REPEATS = "total epsilon", "joint flips", "replacements", "repeats and lags"
CHECKS = 4
# Probability of missing an event, for which the rarest event is stated.
MISSED = 0.05
# A probability that is a sum of doubles is known to some 1e-16; a cell that the label gives less than this is tested as if it
# had this much, which a million records notice with probability 1e-9.
LEAST = 1e-15


def at_least(k: ArrayLike, n: ArrayLike, p: ArrayLike) -> FloatArray:
    """Compute Pr(X ≥ k) for X binomial of n and p; arrays of one shape."""
    k, n, p = np.broadcast_arrays(np.asarray(k, dtype=np.float64), n, p)
    inside = (k > 0) & (k <= n)
    a, b = np.where(inside, k, 1.0), np.where(inside, n - k + 1, 1.0)
    return np.where(inside, betainc(a, b, p), np.where(k <= 0, 1.0, 0.0))


def at_most(k: ArrayLike, n: ArrayLike, p: ArrayLike) -> FloatArray:
    """Compute Pr(X ≤ k) for X binomial of n and p; arrays of one shape."""
    k, n, p = np.broadcast_arrays(np.asarray(k, dtype=np.float64), n, p)
    inside = (k >= 0) & (k < n)
    a, b = np.where(inside, k + 1, 1.0), np.where(inside, n - k, 1.0)
    return np.where(inside, betaincc(a, b, p), np.where(k >= n, 1.0, 0.0))


def two_sided(k: ArrayLike, n: ArrayLike, p: ArrayLike) -> FloatArray:
    """Compute exact p-values of k of n under p: twice the smaller tail.

    At most 1.
    """
    p = np.clip(p, LEAST, 1.0)
    return np.asarray(np.minimum(1.0, 2 * np.minimum(at_least(k, n, p), at_most(k, n, p))))


def lowest_share(k: ArrayLike, n: ArrayLike, level: float) -> FloatArray:
    """Compute Clopper–Pearson's lower confidence bound of a probability.

    At 1 − level, given k of n.
    """
    k, n = np.broadcast_arrays(np.asarray(k, dtype=np.float64), n)
    inside = k > 0
    return np.where(inside, betaincinv(np.where(inside, k, 1.0), np.where(inside, n - k + 1, 1.0), level), 0.0)


def table_bound(counts: IntArray, probabilities: FloatArray) -> float:
    """Bound a p-value of counts in K cells with these probabilities from above.

    Pr(D ≥ d) ≤ e^{−nd} (e n d/(K−1))^{K−1} for d > (K−1)/n, with D the relative entropy of the shares to the
    probabilities (Agrawal, Finite-sample concentration of the multinomial in relative entropy, 2020, theorem I.2).
    """
    n, others = int(counts.sum()), counts.size - 1
    if n == 0 or others < 1:
        return 1.0
    seen = counts > 0
    expected = n * np.maximum(probabilities[seen] / probabilities.sum(), LEAST)
    statistic = float((counts[seen] * np.log(counts[seen] / expected)).sum())
    if statistic <= others:
        return 1.0
    return min(1.0, math.exp(min(0.0, others * (1 + math.log(statistic / others)) - statistic)))


class Worst:
    """Most extreme of many tests.

    The number of tests, the smallest p-value, and its description.
    """

    def __init__(self) -> None:
        self.tests, self.p_value, self.what = 0, 1.0, ""

    def add(self, p_values: ArrayLike, describe: Callable[[int], str], where: int = 0) -> None:
        """Add p-values.

        ``describe`` describes the k-th, ``where`` states from how many tests these were chosen.
        """
        flat = np.ravel(p_values)
        if not flat.size:
            return
        self.tests += max(flat.size, where)
        k = int(np.argmin(flat))
        if flat[k] < self.p_value:
            self.p_value, self.what = float(flat[k]), describe(k)

    @property
    def adjusted(self) -> float:
        """The smallest p-value times the number of tests (Bonferroni), at most 1."""
        return min(1.0, self.p_value * max(1, self.tests))


@dataclass(frozen=True)
class Finding:
    """One check.

    Whether it refutes the privacy statement at the audit's level, and the bound or the most extreme event.

    ``p_value`` is that of the event, multiplied by the corresponding number of tests in the whole audit; 0 if the violation is
    certain. ``tests`` were done. ``stated`` and ``bound`` are the label's ε and the confidence bound of the true one, nats;
    None for other checks.
    """

    check: str
    violates: bool
    says: str
    p_value: float = 1.0
    tests: int = 1
    stated: float | None = None
    bound: float | None = None

    @classmethod
    def of_tests(cls, check: str, worst: Worst, level: float) -> "Finding":
        """Build from many tests of one check."""
        p = min(1.0, worst.adjusted * CHECKS)
        if p > level:
            return cls(check, False, f"{worst.tests} tests", p, worst.tests)
        return cls(check, True, worst.what, p, worst.tests)

    @property
    def verdict(self) -> str:
        """Whether it violates the label."""
        return "VIOLATES" if self.violates else "consistent"


@dataclass(frozen=True, repr=False)
class Audit(TableResult):
    """The findings of one audit.

    If the client does what its label says, the probability that ``holds`` is false is at most ``alpha``: each check has an
    equal share of it, and each test of a check an equal share of that.
    """

    client: str
    n: int
    alpha: float
    epsilon: float
    findings: tuple[Finding, ...]

    in_summary = ("holds", "client", "n", "alpha", "epsilon", "epsilon_bound", "findings", "rarest", "unseen")
    drawn = ("p_value",)

    @property
    def holds(self) -> bool:
        """Whether nothing refutes the label."""
        return not any(f.violates for f in self.findings)

    @property
    def epsilon_bound(self) -> float:
        """Nats that the true total ε is at least, at confidence 1 − α."""
        return max((f.bound for f in self.findings if f.check == TOTAL and f.bound is not None), default=0.0)

    @property
    def rarest(self) -> float:
        """The probability of an event that so many queries miss with probability 5 %."""
        return float(-np.expm1(np.log(MISSED) / self.n))

    @property
    def unseen(self) -> tuple[str, ...]:
        """Violations that no audit, or this one, could detect."""
        return (
            f"{self.n} queries miss an event that happens to one person in {1 / self.rarest:,.0f} or fewer with "
            f"probability {MISSED:.0%} or more; a true record that is sent unchanged looks like an answer that "
            "chance left unchanged",
            "noise that an attacker can predict may have the right distribution: if it is made without a secret "
            "(from the person's number and answer, a clock, a short seed), it reveals every record; only the "
            "client's code shows where its random bits come from",
            "the behavior of a client for other people once it recognizes an audit, and channels other than its "
            "answers (time, size, a second channel)",
        )

    def headline(self) -> str:
        """Summarize the verdict, the statement, the bound and the effort."""
        verdict = "consistent with" if self.holds else "VIOLATES"
        return (
            f"{verdict} its label at {self.alpha:g}: total epsilon {epsilon_text(self.epsilon)}, at least "
            f"{bound_text(self.epsilon_bound)}; {self.n} queries to {self.client}"
        )

    def shown(self, most: int | None = None) -> Table:
        """Build the printed table with one row per check."""
        rows = [[f.check, f.verdict, f.says, f.p_value if f.violates else None] for f in self.findings[slice(most)]]
        return Table(["check", "verdict", "finding", "p at most"], rows)

    def sentences(self) -> Sequence[str]:
        """List the limits of an audit."""
        return [f"not detectable from outside: {line}" for line in self.unseen]

    def to_arrow(self) -> "pa.Table":
        """Convert to a table with one row per check.

        Columns are check, violates, says, p_value, tests, stated, bound.
        """
        import pyarrow as pa  # noqa: PLC0415 (takes longer to import than a small audit takes)

        return pa.Table.from_pylist(in_json(self.findings))
