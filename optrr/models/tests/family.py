"""Several tests at once: p-values adjusted for how many there are, beside the plain ones.

    bonferroni    min(1, m p)
    holm          the largest of (m − j + 1) p_(j) over j ≤ k         never above Bonferroni's (Holm, Scand. J. Stat. 6, 1979)
    bh            the smallest of m p_(j)/j over j ≥ k                (Benjamini & Hochberg, JRSS B 57, 1995)

With the first two, rejecting where the adjusted p-value is at most α rejects any true hypothesis with probability at most α,
whatever holds. With the third, at most a share α of what is rejected is true on average, for tests that are independent or
positively dependent (Benjamini & Yekutieli, Ann. Stat. 29, 2001). Here p_(1) ≤ … ≤ p_(m), and
k is the place of the p-value among them. Undefined p-values (NaN) are no tests and do not count in m.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from optrr.errors import InvalidInput
from optrr.models.tests.result import TestResult
from optrr.show.result import TableResult, arrow_rows
from optrr.show.text import amount, crossed
from optrr_solvers.arrays import FloatArray

if TYPE_CHECKING:
    import pyarrow as pa

Adjustment = Literal["holm", "bh", "bonferroni"]
ADJUSTMENTS: tuple[str, ...] = get_args(Adjustment)
# What an adjusted p-value up to α promises, for people.
_PROMISES = {
    "holm": "rejecting where it is at most α rejects any true hypothesis with probability at most α",
    "bonferroni": "rejecting where it is at most α rejects any true hypothesis with probability at most α",
    "bh": "where it is at most α, a share of at most α of what is rejected is true on average",
}
_NAMES = {"holm": "Holm", "bh": "Benjamini–Hochberg", "bonferroni": "Bonferroni"}


def bonferroni(p: FloatArray) -> FloatArray:
    """min(1, p · number of tests), shape as ``p``."""
    return np.asarray(np.minimum(p * np.count_nonzero(np.isfinite(p)), 1.0))


def holm(p: FloatArray) -> FloatArray:
    """Holm's adjusted p-values, shape as ``p``."""

    def raised(ascending: FloatArray) -> FloatArray:
        return np.asarray(np.maximum.accumulate(ascending * np.arange(ascending.size, 0, -1)))

    return _in_order(p, raised)


def false_discovery_rate(p: FloatArray) -> FloatArray:
    """Benjamini–Hochberg adjusted p-values, shape as ``p``."""

    def raised(ascending: FloatArray) -> FloatArray:
        shares = ascending * ascending.size / np.arange(1, ascending.size + 1)
        return np.asarray(np.minimum.accumulate(shares[::-1])[::-1])

    return _in_order(p, raised)


def _in_order(p: FloatArray, raised: Callable[[FloatArray], FloatArray]) -> FloatArray:
    out = np.full(p.shape, np.nan)
    tested = np.isfinite(p)
    order = np.argsort(p[tested], kind="stable")
    adjusted = np.empty(order.size)
    adjusted[order] = np.minimum(raised(p[tested][order]), 1.0)
    out[tested] = adjusted
    return out


_ADJUSTED = {"holm": holm, "bh": false_discovery_rate, "bonferroni": bonferroni}


@dataclass(frozen=True)
class _Row:
    """A test in the table of a family."""

    attributes: str
    test: str
    statistic: float
    df: float
    p_value: float
    adjusted_p_value: float


@dataclass(frozen=True, eq=False, repr=False)
class TestFamily(TableResult):
    """Tests of several hypotheses, with p-values adjusted for their number: ``adjusted``, in the order of the tests.

    ``names`` are the attributes that each is about.
    """

    __test__ = False  # tells pytest, which collects classes by their names, that this is no test case

    names: tuple[tuple[str, ...], ...]
    tests: tuple[TestResult, ...]
    adjust: Adjustment
    adjusted: tuple[float, ...]

    drawn = ("adjusted_p_value",)

    @property
    def n(self) -> int:
        """Number of records."""
        return self.tests[0].n

    @property
    def warnings(self) -> tuple[str, ...]:
        """Those of each test, with what it is about."""
        pairs = zip(self.names, self.tests, strict=True)
        return tuple(f"{crossed(names)}: {line}" for names, test in pairs for line in test.warnings)

    @property
    def promise(self) -> str:
        """What the adjusted p-values are, in one sentence."""
        return f"p-values are adjusted for {amount(len(self.tests), 'test')} by {_NAMES[self.adjust]}: {_PROMISES[self.adjust]}"

    def headline(self) -> str:
        """How many tests, and the smallest adjusted p-value."""
        least = int(np.nanargmin(self.adjusted))
        return (
            f"{amount(len(self.tests), 'test')} of {self.n} records, {_NAMES[self.adjust]}: smallest adjusted p = "
            f"{self.adjusted[least]:.3g} ({crossed(self.names[least])})"
        )

    def to_arrow(self) -> pa.Table:
        """One row per test: attributes, test, statistic, degrees of freedom, p-value, adjusted p-value."""
        rows = [
            _Row(crossed(names), each.test, each.statistic, each.df, each.p_value, p)
            for names, each, p in zip(self.names, self.tests, self.adjusted, strict=True)
        ]
        return arrow_rows(rows, ("attributes", "test"), ("statistic", "df", "p_value", "adjusted_p_value"))

    def summary(self) -> dict[str, Any]:
        """The command line's JSON object: each test's own, with its attributes and adjusted p-value."""
        each = zip(self.names, self.tests, self.adjusted, strict=True)
        tests = [{"attributes": list(n), **t.summary(), "adjusted_p_value": p} for n, t, p in each]
        return {"adjust": self.adjust, "n": self.n, "tests": tests, "warnings": list(self.warnings)}


def check_distinct(names: Sequence[Sequence[str]], ordered: bool = False) -> None:
    """Raise InvalidInput for attributes named twice, in any order unless ``ordered``: one hypothesis would count as two."""
    seen: dict[tuple[str, ...], int] = {}
    for k, each in enumerate(names):
        first = seen.setdefault(tuple(each if ordered else sorted(each)), k)
        if first < k:
            raise InvalidInput(
                f"{crossed(each)} is the same hypothesis as test {first + 1}, {crossed(names[first])}, and would count twice "
                "in the adjustment; name it once"
            )


def family(names: Sequence[Sequence[str]], tests: Sequence[TestResult], adjust: Adjustment = "holm") -> TestFamily:
    """Tests with p-values adjusted for their number; ``names`` are the attributes that each is about.

    Raises InvalidInput for no test, and for an unknown adjustment.
    """
    if adjust not in ADJUSTMENTS:
        raise InvalidInput(f"there is no adjustment {adjust!r}; choose among {', '.join(ADJUSTMENTS)}")
    if not tests:
        raise InvalidInput(
            "a family has no test; name the attributes of each, such as [('sex', 'income'), ('race', 'income')]"
        )
    adjusted = _ADJUSTED[adjust](np.array([test.p_value for test in tests]))
    return TestFamily(tuple(map(tuple, names)), tuple(tests), adjust, tuple(adjusted.tolist()))
