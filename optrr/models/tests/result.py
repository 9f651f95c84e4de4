"""What a test returns, and how far its p-value can be trusted."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from optrr.domain.domain import PlainScores
from optrr.errors import TooFewRecords
from optrr.models.tests.simulation import Simulation
from optrr.show.charts import COLOURS, PAGE_WIDTH, legend_below, new_figure
from optrr.show.result import Result
from optrr.show.text import amount

# Where a p-value comes from: the χ² limit; simulation of the law under the null hypothesis, known exactly; simulation under
# the fitted null hypothesis, tilted towards the tail or plain.
Calibration = Literal["asymptotic", "exact", "saddlepoint", "tilted", "bootstrap", "rao-scott"]

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SOURCES: dict[str, str] = {
    "asymptotic": "χ² limit",
    "exact": "exact law: a test at level α rejects at most α of the time",
    "saddlepoint": "saddlepoint tail",
    "tilted": "simulated tail",
    "bootstrap": "bootstrap",
    "rao-scott": "Rao and Scott's second-order correction for the sample",
}
_TREND = "the scores of the two attributes are uncorrelated"
_INDEPENDENT = "the two attributes are independent"
_HYPOTHESES = {
    "trend": _TREND,
    "allelic": _TREND,
    "allelic-hwe": f"{_TREND}, in Hardy–Weinberg proportions",
    "goodness-of-fit": "the true proportions are the given ones",
    "homogeneity": "all groups have the same proportions",
    "conditional-independence": "within every stratum the two attributes are independent",
    "common-association": "within every stratum the two attributes are independent; sought is one association in all of them",
    "common-trend": "within every stratum the two attributes are independent; sought is one trend in all of them",
    "same-odds-ratios": "the two attributes have the same odds ratios in every stratum",
}
# Points of a density that is drawn, and the most of it that is shown.
_POINTS, _HIGHEST = 400, 0.8
# A simulated p-value with a larger relative error says no more than the order of magnitude.
TOO_NOISY = 0.25


@dataclass(frozen=True, repr=False)
class TestResult(Result):
    """A test of a hypothesis about the true records, made on randomized ones; the target is the population.

    Parameters
    ----------
    statistic, df, p_value
        of the χ² form; ``df`` is the limit's degrees of freedom whatever ``calibration`` says.
    n
        number of records.
    effect
        signed root of the statistic for one degree of freedom, None otherwise. Positive: scores rise together.
    calibration
        "asymptotic", "saddlepoint" (the tail given the null fit, where the χ² limit is off),
        "exact" (simulated from the exact law under the null hypothesis: Pr(p ≤ α) is at most α for every α),
        "tilted" (simulated tail with likelihood-ratio weights), "bootstrap", or "rao-scott" (samples by weights or clusters).
    relative_error
        of a simulated p-value; None for asymptotic ones.
    reliable_down_to
        p-values of this table below this number may be off by more than a factor of two; 0 where none is known to be.
    scores
        the numbers by which the categories of the two attributes counted, for trends; None for other tests.
    """

    __test__ = False  # tells pytest, which collects classes by their names, that this is no test case

    test: str
    statistic: float
    df: int
    p_value: float
    n: int
    effect: float | None = None
    calibration: Calibration = "asymptotic"
    relative_error: float | None = None
    reliable_down_to: float = 0.0
    warnings: tuple[str, ...] = field(default=())
    scores: PlainScores | None = None

    @property
    def reliable(self) -> bool:
        """Whether the p-value can be trusted within a factor of two: it is not below `reliable_down_to`."""
        return self.p_value >= self.reliable_down_to

    @property
    def source(self) -> str:
        """Where the p-value comes from, in words."""
        return _SOURCES[self.calibration]

    @property
    def freedom(self) -> str:
        """The degrees of freedom in words."""
        return f"{amount(self.df, 'degree')} of freedom"

    @property
    def hypothesis(self) -> str:
        """What is tested, in words."""
        return _HYPOTHESES.get(self.test, _INDEPENDENT)

    @property
    def unreliable(self) -> str:
        """Which p-values of this table cannot be trusted, in one sentence."""
        return f"p-values below {self.reliable_down_to:.2g} may be off by more than a factor of two here"

    def headline(self) -> str:
        """Statistic and p-value, and the degrees of freedom where the p-value is made with them."""
        freedom = "" if self.calibration in ("exact", "tilted", "bootstrap") else f" {self.df} df,"
        return f"{self.test}: statistic {self.statistic:.4g},{freedom} p = {self.p_value:.3g}, {self.n} records"

    def plot(self) -> Figure:
        """The χ² limit's density where nothing is associated, with the statistic; the p-value is the shaded share of it.

        Where the p-value comes from elsewhere (``calibration``), the curve only says what the limit would be.
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
        """The command line's JSON object."""
        return super().summary() | {"reliable": self.reliable, "target": "population"}


def check_testable(n: int, shown: str = "an association") -> None:
    """Raise TooFewRecords where there are so few that no test of anything could reject."""
    if n < 2:
        raise TooFewRecords(f"{amount(n, 'record')} cannot show {shown}; count at least 2")


def simulated_result(
    plain: TestResult, p: float, reached: int, rule: Simulation, calibration: Calibration
) -> TestResult:
    """The result of a simulation in place of the χ² limit's.

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
        calibration=calibration,
        relative_error=float(((1 - p) / max(reached, 1)) ** 0.5),
        reliable_down_to=down_to,
        warnings=warnings,
    )
