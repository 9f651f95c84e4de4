"""Results of tests, and the reliability of their p-values.

Several tests at once: p-values adjusted for their number, in addition to the plain ones.

    bonferroni    min(1, m p)
    holm          the largest of (m − j + 1) p_(j) over j ≤ k         never above Bonferroni's (Holm, Scand. J. Stat. 6, 1979)
    bh            the smallest of m p_(j)/j over j ≥ k                (Benjamini & Hochberg, JRSS B 57, 1995)

With the first two, rejecting where the adjusted p-value is at most α rejects any true hypothesis with probability at
most α, whichever hypotheses are true. With the third, on average at most a proportion α of the rejected hypotheses is
true, for tests that are independent or positively dependent (Benjamini & Yekutieli, Ann. Stat. 29, 2001). Here p_(1) ≤
… ≤ p_(m), and k is the place of the p-value among them. Undefined p-values (NaN) do not count in m.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from optrr.core.display.charts import COLOURS, PAGE_WIDTH, legend_below, new_figure
from optrr.core.display.parts import OneTable, Text
from optrr.core.display.result import Result, TableResult, arrow_rows
from optrr.core.display.text import amount, crossed, sentence
from optrr.core.domain.domain import PlainScores, told_scores
from optrr.core.errors import InvalidInput, TooFewRecords
from optrr.core.inference.simulation import LimitOrDrawn, Simulation
from optrr_solvers.arrays import FloatArray

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

# Where a p-value comes from; calibrations of extensions go by their names.
_SOURCES: dict[str, str] = {
    "asymptotic": "χ² limit",
    "bootstrap": "bootstrap",
    "rao-scott": "Rao and Scott's second-order correction for the sample",
}
_INDEPENDENT = "the two attributes are independent"
_HYPOTHESES = {
    "trend": "the scores of the two attributes are uncorrelated",
    "goodness-of-fit": "the true proportions are the given ones",
    "homogeneity": "all groups have the same proportions",
    "conditional-independence": "within every stratum the two attributes are independent",
    "common-association": "within every stratum the two attributes are independent; the alternative is one "
    "association common to all strata",
    "common-trend": "within every stratum the two attributes are independent; the alternative is one trend common to "
    "all strata",
    "same-odds-ratios": "the two attributes have the same odds ratios in every stratum",
}
# Points of a density that is drawn, and the most of it that is shown.
_POINTS, _HIGHEST = 400, 0.8
# Relative error of a simulated p-value above which only its order of magnitude is known.
TOO_NOISY = 0.25


@dataclass(frozen=True, repr=False)
class TestResult(Result):
    """A hypothesis test about the true records, computed from randomized ones.

    The target is the population.

    Parameters
    ----------
    statistic, df, p_value
        Statistic, degrees of freedom and p-value of the χ² form; ``df`` is that of the χ² limit for any
        ``calibration``.
    n
        number of records.
    effect
        signed root of the statistic for one degree of freedom, None otherwise. Positive: scores rise together.
    calibration
        "asymptotic", "bootstrap" (drawn under the null hypothesis), "rao-scott" (samples by weights or clusters), or one of
        `optrr.core.inference.testing.CALIBRATIONS`.
    relative_error
        Relative error of a simulated p-value; None for others.
    reliable_down_to
        p-values of this table below this number may be off by more than a factor of two; 0 where none is known to be.
    scores
        the numbers that the categories of the two attributes counted as, for trends; None for other tests.
    missing
        the treatment of missing values, where attributes declare them: they count as a category, or "complete cases".
    attributes, given
        the attributes of the hypothesis, and those of its strata, where the test was one of reports.
    """

    __test__ = False  # tells pytest, which collects classes by their names, that this is no test case

    test: str
    statistic: float
    df: int
    p_value: float
    n: int
    effect: float | None = None
    calibration: str = "asymptotic"
    relative_error: float | None = None
    reliable_down_to: float = 0.0
    warnings: tuple[str, ...] = field(default=())
    scores: PlainScores | None = None
    missing: str = ""
    attributes: tuple[str, ...] = ()
    given: tuple[str, ...] = ()

    @property
    def reliable(self) -> bool:
        """Whether the p-value is accurate within a factor of two.

        It is if it is not below `reliable_down_to`.
        """
        return self.p_value >= self.reliable_down_to

    @property
    def source(self) -> str:
        """Source of the p-value, in words."""
        return _SOURCES.get(self.calibration, self.calibration)

    @property
    def freedom(self) -> str:
        """The degrees of freedom in words."""
        return f"{amount(self.df, 'degree')} of freedom"

    @property
    def hypothesis(self) -> str:
        """Hypothesis that is tested, in words."""
        return _HYPOTHESES.get(self.test, _INDEPENDENT)

    @property
    def unreliable(self) -> str:
        """Which p-values of this table cannot be trusted, in one sentence."""
        return f"p-values below {self.reliable_down_to:.2g} may be off by more than a factor of two here"

    @property
    def said_missing(self) -> str:
        """Treatment of missing values, as the end of a line."""
        return f"; {self.missing}" if self.missing else ""

    def headline(self) -> str:
        """Summarize statistic and p-value, with degrees of freedom if used."""
        freedom = "" if self.calibration == "bootstrap" else f" {self.df} df,"
        of = f" of {crossed(self.attributes)}" if self.attributes else ""
        given = f" given {crossed(self.given)}" if self.given else ""
        p = f"p = {self.p_value:.4g} ({self.source})"
        statistic = f"statistic {self.statistic:.4f}"
        return f"{self.test}{of}{given}: {statistic},{freedom} {p}, {self.n} records{self.said_missing}"

    def sentences(self) -> list[str]:
        """State the scores and the accuracy of the p-value."""
        return [*told_scores(self.attributes, self.scores), *([] if self.reliable else [self.unreliable])]

    def plot(self) -> "Figure":
        """Plot the χ² limit's density under the null with the statistic.

        The p-value is the shaded area.

        Where the p-value comes from elsewhere (``calibration``), the curve only shows the limit.
        """
        from scipy.stats import chi2  # noqa: PLC0415 (slow to import, and tests alone need none of it)

        figure = new_figure(PAGE_WIDTH, 2.8)
        axes = figure.subplots()
        reach = 1.08 * max(self.statistic, float(chi2.ppf(0.999, self.df)))
        x = np.linspace(reach / _POINTS, reach, _POINTS)
        density = chi2.pdf(x, self.df)
        axes.plot(x, density, color=COLOURS[0], label=f"χ² with {self.freedom}")
        beyond = x >= self.statistic
        axes.fill_between(x[beyond], density[beyond], color=COLOURS[0], alpha=0.3)
        axes.axvline(self.statistic, color=COLOURS[1], label=f"statistic {self.statistic:.4g}")
        # with one degree of freedom the density has no largest value
        axes.set_ylim(0, 1.05 * min(float(density.max()), _HIGHEST))
        axes.set_xlim(0, reach)
        axes.set_yticks([])
        axes.set_xlabel("test statistic")
        legend_below(figure)
        return figure

    def summary(self) -> dict[str, Any]:
        """Return the JSON object."""
        return super().summary() | {"reliable": self.reliable, "target": "population"}


def check_testable(n: int, shown: str = "an association") -> None:
    """Raise TooFewRecords if no test could reject."""
    if n < 2:
        raise TooFewRecords(f"{amount(n, 'record')} cannot show {shown}; count at least 2")


def calibrated_result(test: str, made: LimitOrDrawn, n: int) -> TestResult:
    """Build the result of a batch of one table, with doubts about its p-value."""
    p, down_to = float(made.p_value[0]), float(made.down_to[0])
    plain = TestResult(test, float(made.statistic[0]), made.df, p, n, calibration=str(made.source[0]))
    if made.simulated[0]:
        drawn = simulated_result(plain, p, int(made.reached[0]), made.rule)
        # where the limit is smaller than any drawn p-value it shows the order of magnitude, though not within a factor of two
        small = p < 1 / (made.rule.most + 1)
        return replace(drawn, calibration="asymptotic", relative_error=None) if small else drawn
    plain = replace(plain, reliable_down_to=min(down_to, 1.0))
    if plain.reliable and down_to <= 1:
        return plain
    warning = f"below {down_to:.2g} the χ² limit may be off by more than a factor of two"
    if not np.isfinite(down_to):
        warning = (
            "the χ² limit may be off, because some reports expect few records or some fitted cells are near 0; leave the "
            "calibration to auto, or merge categories"
        )
    return replace(plain, warnings=(warning,))


def simulated_result(plain: TestResult, p: float, reached: int, rule: Simulation) -> TestResult:
    """Replace the χ² limit's p-value of a result by a bootstrap's.

    Fewer statistics that reached the observed one than make the relative error `TOO_NOISY` leave only the p-value's order.
    """
    down_to = min((TOO_NOISY**-2 + 1) / (rule.most + 1), 1.0)
    warnings = plain.warnings
    if p < down_to:
        bound = (reached + 1) / (rule.most + 1)
        warning = (
            f"{reached or 'none'} of {rule.most} simulated tables reached the statistic: p is about {bound:.2g} or less"
        )
        warnings = (*warnings, warning)
    return replace(
        plain,
        p_value=float(p),
        calibration="bootstrap",
        relative_error=float(((1 - p) / max(reached, 1)) ** 0.5),
        reliable_down_to=down_to,
        warnings=warnings,
    )


Adjustment = Literal["holm", "bh", "bonferroni"]
ADJUSTMENTS: tuple[str, ...] = get_args(Adjustment)
# Meaning of an adjusted p-value of at most α.
_PROMISES = {
    "holm": "rejecting where it is at most α rejects any true hypothesis with probability at most α",
    "bonferroni": "rejecting where it is at most α rejects any true hypothesis with probability at most α",
    "bh": "where it is at most α, on average at most a proportion α of the rejected hypotheses is true",
}
_NAMES = {"holm": "Holm", "bh": "Benjamini–Hochberg", "bonferroni": "Bonferroni"}


def bonferroni(p: FloatArray) -> FloatArray:
    """Compute min(1, p · number of tests), shape of ``p``."""
    return np.asarray(np.minimum(p * np.count_nonzero(np.isfinite(p)), 1.0))


def holm(p: FloatArray) -> FloatArray:
    """Compute Holm's adjusted p-values, shape of ``p``."""

    def raised(ascending: FloatArray) -> FloatArray:
        return np.asarray(np.maximum.accumulate(ascending * np.arange(ascending.size, 0, -1)))

    return _in_order(p, raised)


def false_discovery_rate(p: FloatArray) -> FloatArray:
    """Compute Benjamini–Hochberg adjusted p-values, shape of ``p``."""

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


@dataclass(frozen=True, eq=False, repr=False)
class TestFamily(TableResult):
    """Tests of several hypotheses with ``adjusted`` p-values, in their order.

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
        """Warnings of each test, with its attributes."""
        pairs = zip(self.names, self.tests, strict=True)
        return tuple(f"{crossed(names)}: {line}" for names, test in pairs for line in test.warnings)

    @property
    def promise(self) -> str:
        """Meaning of the adjusted p-values, in one sentence."""
        return f"p-values are adjusted for {amount(len(self.tests), 'test')} by {_NAMES[self.adjust]}: {_PROMISES[self.adjust]}"

    def headline(self) -> str:
        """Summarize the tests and the smallest adjusted p-value."""
        least = int(np.nanargmin(self.adjusted))
        return (
            f"{amount(len(self.tests), 'test')} of {self.n} records, {_NAMES[self.adjust]}: smallest adjusted p = "
            f"{self.adjusted[least]:.3g} ({crossed(self.names[least])})"
        )

    def sentences(self) -> list[str]:
        """Explain the adjustment and the treatment of missing values."""
        pairs = zip(self.names, self.tests, strict=True)
        return [self.promise, *(f"{crossed(names)}: {test.missing}" for names, test in pairs if test.missing)]

    def on_page(self, **_beside: Any) -> OneTable:
        """Build the content of the HTML report."""
        hypotheses = list(dict.fromkeys(sentence(f"{each.hypothesis}") for each in self.tests))
        lead = (
            f"{amount(len(self.tests), 'test')} of hypotheses about the respondents of {self.n} randomized records, "
            "each: "
            f"{' '.join(hypotheses)}"
        )
        chart, caption = "Adjusted p-values, as in the table", "Dots are adjusted p-values."
        return OneTable("A family of tests", lead, "Tests", chart, caption, [Text(sentence(self.promise))])

    def to_arrow(self) -> "pa.Table":
        """Convert to a table with one row per test.

        Attributes, test, statistic, degrees of freedom, p-value, adjusted p-value.
        """
        rows = [
            SimpleNamespace(**vars(each) | {"attributes": crossed(names)}, adjusted_p_value=p)
            for names, each, p in zip(self.names, self.tests, self.adjusted, strict=True)
        ]
        return arrow_rows(rows, ("attributes", "test"), ("statistic", "df", "p_value", "adjusted_p_value"), ("df",))

    def summary(self) -> dict[str, Any]:
        """Return the JSON object with each test's attributes and adjusted p-value."""
        each = zip(self.names, self.tests, self.adjusted, strict=True)
        tests = [{"attributes": list(n), **t.summary(), "adjusted_p_value": p} for n, t, p in each]
        return {"adjust": self.adjust, "n": self.n, "tests": tests, "warnings": list(self.warnings)}


def check_distinct(names: Sequence[Sequence[str]], ordered: bool = False) -> None:
    """Raise InvalidInput for attributes named twice.

    In any order unless ``ordered``; otherwise one hypothesis would count as two.
    """
    seen: dict[tuple[str, ...], int] = {}
    for k, each in enumerate(names):
        first = seen.setdefault(tuple(each if ordered else sorted(each)), k)
        if first < k:
            raise InvalidInput(
                f"{crossed(each)} is the same hypothesis as test {first + 1}, {crossed(names[first])}, and would count twice "
                "in the adjustment; name it once"
            )


def family(names: Sequence[Sequence[str]], tests: Sequence[TestResult], adjust: Adjustment = "holm") -> TestFamily:
    """Adjust the p-values of several tests; ``names`` are their attributes.

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
