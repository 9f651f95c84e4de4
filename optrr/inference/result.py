"""What a test returns, and how far its p-value can be trusted."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from optrr.inference.simulation import Simulation
from optrr.results import Result

# Where a p-value comes from: the χ² limit; simulation of the law under the null hypothesis, known exactly; simulation under
# the fitted null hypothesis, tilted towards the tail or plain.
Calibration = Literal["asymptotic", "exact", "saddlepoint", "tilted", "bootstrap"]

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
        "tilted" (simulated tail with likelihood-ratio weights) or "bootstrap".
    relative_error
        of a simulated p-value; None for asymptotic ones.
    reliable_down_to
        p-values of this table below this number may be off by more than a factor of two; 0 where none is known to be.
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

    @property
    def reliable(self) -> bool:
        """Whether the p-value can be trusted within a factor of two: it is not below `reliable_down_to`."""
        return self.p_value >= self.reliable_down_to

    def headline(self) -> str:
        """Statistic, degrees of freedom and p-value."""
        return f"{self.test}: statistic {self.statistic:.4g}, {self.df} df, p = {self.p_value:.3g}, {self.n} records"

    def summary(self) -> dict[str, Any]:
        """The command line's JSON object."""
        return {**vars(self), "reliable": self.reliable, "target": "population", "warnings": list(self.warnings)}


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
