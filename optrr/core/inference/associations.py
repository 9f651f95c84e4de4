"""Statistics of association between two attributes, each a class in one registry.

`Reports.test`, the command `test`, power and scans of variants look a statistic up in `ASSOCIATIONS` by its name. A new
one is a subclass of `Association` and a line there. Most are score tests (:mod:`optrr.core.inference.nullfit`) and
define only the contrasts of dependence that they use; those of this module:

    independence       all contrasts                                                                     (r_a−1)(r_b−1) df
    trend              Σ x_i y_j (π_ij − a_i b_j), the covariance of scores (Cochran–Armitage for r_b = 2)             1 df

Without a mechanism these are Pearson's χ² and n times the squared correlation of the scores.
"""

import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from optrr.core.domain.domain import Domain, GivenScores, PairScores, scores_of_pair
from optrr.core.errors import InvalidInput
from optrr.core.inference.nullfit import (
    NullFit,
    ScoreTests,
    all_contrasts,
    expected_product,
    independence_fit,
    influence,
    score_tests,
    trend_contrast,
)
from optrr.core.inference.simulation import Draw, LimitOrDrawn, Simulation, drawn_statistics
from optrr.core.mechanisms.kernel import MAX_DENSE, Kernel
from optrr_solvers.arrays import FloatArray, IntArray

# Every statistic by name: module and class, resolved on first use.
ASSOCIATIONS: dict[str, str] = {
    "independence": "optrr.core.inference.associations:Independence",
    "trend": "optrr.core.inference.associations:Trend",
    "genotypic": "optrr.genomics.genotypic:Genotypic",
    "likelihood-ratio": "optrr.core.inference.likelihood_ratio:LikelihoodRatio",
}
# The most multiplications of one simulation, which take about two seconds.
_MOST_WORK = 400_000_000
# Minimum number of draws of a simulation; tables for which these take more than about ten seconds are not simulated.
_FEWEST_DRAWS, _LARGEST_WORK = 999, 2_000_000
# Records' worth added to every category of the margins that a bootstrap draws from, as Jeffreys' prior does: a fitted margin
# has empty categories more often than the truth, and its draws fall short as well. Of 3000 tables of 6 × 3 at n = 1000,
# p-values were at most 0.1 in 10.2 % with it and in 11.2 % without.
_PADDING = 0.5


@dataclass(frozen=True, eq=False)
class Association:
    """A test statistic for tables (B, r_a, r_b) randomized by one kernel.

    By default a score test of its `contrasts`.

    Parameters
    ----------
    kernel
        Kernel of the two attributes, one for all tables or one for each.
    scores
        numbers of the categories, for statistics that take them.
    rows
        Number of the first rows that the hypothesis is about: by default all, fewer where the last ones are missing
        values.

    Raises
    ------
    InvalidInput
        for tables that the statistic does not fit.
    """

    kernel: Kernel
    scores: PairScores | None = field(default=None, kw_only=True)
    rows: int | None = field(default=None, kw_only=True)

    name: ClassVar[str]
    takes_scores: ClassVar[bool] = False
    # Whether `tested` is the score test, whose tail is that of a mean of the records' influence.
    is_score: ClassVar[bool] = True
    # Description of the statistic in scans of variants that offer it.
    of_genotypes: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if self.kernel.cells > MAX_DENSE:
            rows, columns = self.kernel.sizes
            df = (rows - 1) * (columns - 1)
            raise InvalidInput(
                f"{self.name!r} of {rows} × {columns} has {df} degrees of freedom; it takes at most {MAX_DENSE} cells: merge "
                "categories, or test 'trend', which has one"
            )

    def through(self, kernel: Kernel) -> "Association":
        """Return the statistic for another kernel."""
        return replace(self, kernel=kernel)

    @property
    def sizes(self) -> tuple[int, int]:
        """Categories of the two attributes that the hypothesis is about."""
        rows, columns = self.kernel.sizes
        return self.rows or rows, columns

    @cached_property
    def contrasts(self) -> FloatArray:
        """Which contrasts of dependence are tested, (K, r_a, r_b): K degrees of freedom."""
        raise NotImplementedError

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the result, one line each."""
        return ()

    def forms(self, tables: NDArray[np.number]) -> Iterator[tuple[IntArray, "Association"]]:
        """Group tables by the variant of the statistic that applies; here, all."""
        yield np.arange(len(tables)), self

    def fit(self, observed: FloatArray, kernel: Kernel) -> NullFit:
        """Fit the null hypothesis to proportions (B, r_a, r_b)."""
        return independence_fit(observed, kernel, self.rows)

    def tested(self, tables: NDArray[np.number]) -> ScoreTests:
        """Compute statistics with p-values of χ²."""
        return score_tests(tables, self.kernel, self.contrasts, self.fit)

    @property
    def work(self) -> int:
        """Multiplications that one table takes, about."""
        return self.kernel.cells * (len(self.contrasts) ** 2 + 6 * sum(self.kernel.sizes) ** 2)

    def clear(self, fit: NullFit, n: FloatArray) -> NDArray[np.bool_]:
        """Check that the null fit is far enough from its bounds for χ², (B,).

        Always true for score tests.
        """
        return np.ones(n.size, dtype=np.bool_)

    def clear_from(self, fit: NullFit, expected: FloatArray) -> float:
        """Compute the number of records from which almost all fits are `clear`.

        ``expected`` (r_a, r_b) are the expected reports.
        """
        return 0.0

    def fewest(self, fit: NullFit, n: FloatArray) -> FloatArray:
        """Compute the expected count of the rarest report, (B,).

        One contrast of a table too large to be drawn is a sum over records whose skewness alone matters: that of a single
        report that expects n/κ_3² records.
        """
        if len(self.contrasts) > 1 or self.can_be_drawn:
            return np.asarray(n * fit.expected.min(axis=(1, 2)))
        weights, law = influence(fit, self.kernel, self.contrasts)[:, 0], fit.expected.reshape(n.size, -1)
        skewness = np.sum(law * weights**3, axis=1) / np.sum(law * weights**2, axis=1) ** 1.5
        return np.asarray(n / np.maximum(skewness**2, 1e-12))

    @property
    def can_be_drawn(self) -> bool:
        """Whether a bootstrap ends in about ten seconds."""
        return self.work <= _LARGEST_WORK

    def calibrated(
        self,
        tables: NDArray[np.number],
        tests: ScoreTests,
        rng: np.random.Generator,
        rule: Simulation | None = None,
        drawn: bool | None = None,
    ) -> LimitOrDrawn:
        """Compute p-values by χ² where valid, otherwise by the bootstrap.

        ``drawn`` selects the bootstrap for all or none.

        ``tests`` are those of the tables. Tables are drawn from the fitted null hypothesis, with as many statistics as two
        seconds allow unless a rule is given.
        """
        n = np.asarray(tables, dtype=np.float64).sum(axis=(1, 2))

        def draw(where: IntArray) -> Draw:
            laws = padded_null(tests.fit.part(where), n[where], self.kernel).expected
            statistics = lambda drawn: self.tested(drawn).statistic  # noqa: E731
            return drawn_statistics(n[where], laws, statistics, self.kernel.cells, rng)

        rule = rule or Simulation(most=min(Simulation.most, max(_FEWEST_DRAWS, _MOST_WORK // self.work)))
        # where tables are drawn, no number of expected records lets χ² serve
        fewest = np.zeros(n.size) if drawn else self.fewest(tests.fit, n)
        clear, possible = self.clear(tests.fit, n), self.can_be_drawn if drawn is None else drawn
        return LimitOrDrawn.of(tests.statistic, tests.df, fewest, draw, rule, clear=clear, possible=possible)


class Independence(Association):
    """Rao's score test of independence.

    Pearson's statistic against the expected reports of independent margins.
    """

    name = "independence"

    @cached_property
    def contrasts(self) -> FloatArray:
        """All cells but the last row and column."""
        return all_contrasts(*self.sizes)


class Trend(Association):
    """The covariance of the categories' scores, 0..r−1 where none are given.

    Of genotypes and a status it is also the allelic test with people as sampling units (Schaid & Jacobsen 1999).
    Counting alleles as independent draws is wrong where people of different ancestry are combined (Sasieni 1997).
    """

    name = "trend"
    takes_scores = True
    of_genotypes = "one effect per copy of A1"

    def __post_init__(self) -> None:
        """Set the single contrast of a trend."""

    @cached_property
    def contrasts(self) -> FloatArray:
        """The products of the scores."""
        pair = self.scores or tuple(map(np.arange, self.sizes))
        # a trend is the same wherever its scores begin, and far from 0, as years are, their products would lose digits
        return trend_contrast(*(np.asarray(each) - np.min(each) for each in pair))


def association_class(name: str) -> type[Association]:
    """Find a statistic by its name; raise InvalidInput for other names."""
    if name not in ASSOCIATIONS:
        raise InvalidInput(f"there is no test {name!r}; choose among {', '.join(ASSOCIATIONS)}")
    found: Any = pkgutil.resolve_name(ASSOCIATIONS[name])
    return found  # type: ignore[no-any-return]  # the table holds classes of this kind


def association(
    kernel: Kernel, test: str, scores: GivenScores | None = None, domain: Domain | None = None
) -> Association:
    """Build one of `ASSOCIATIONS` for this kernel of two attributes.

    ``scores`` default to those of the ``domain``.

    A kernel knows sizes only: without a domain the categories are 0..r−1.

    Raises InvalidInput for scores that cannot be or that the statistic does not take, or tables that it does not fit.
    """
    statistic = association_class(test)
    if not statistic.takes_scores:
        if scores is not None:
            raise InvalidInput(f"scores are for the trend test; leave the scores out for {test!r}")
        return statistic(kernel)
    return statistic(
        kernel, scores=scores_of_pair(domain or Domain.of(dict(zip("ab", kernel.sizes, strict=True))), scores)
    )


def padded_null(fit: NullFit, n: FloatArray, kernel: Kernel) -> NullFit:
    """Add half a record to each category of each margin of the null fit.

    For a bootstrap of n (B,) records each.

    A record counts as many as it takes without randomization to estimate an even margin as well.
    """
    rows, columns = (_padded(margins, fit, n, kernel, axis) for axis, margins in enumerate((fit.rows, fit.columns)))
    return NullFit(rows, columns, expected_product(rows, columns, kernel))


def _padded(margins: FloatArray, fit: NullFit, n: FloatArray, kernel: Kernel, axis: int) -> FloatArray:
    r = margins.shape[1]
    members = np.expand_dims(np.eye(r), 2 - axis) * np.ones(kernel.sizes)
    weights = kernel.solve_adjoint(members).reshape(r, -1)
    outputs = fit.expected.reshape(-1, kernel.cells)
    variance = np.sum(outputs @ (weights**2).T - (outputs @ weights.T) ** 2, axis=1, keepdims=True) / n[:, None]
    # 1/records is variance over 1 − 1/r
    added = _PADDING * np.maximum(variance, 0.0) / (1 - 1 / r)
    return np.asarray((margins + added) / (1 + r * added))
