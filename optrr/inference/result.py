"""What a test returns, and how far its p-value can be trusted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

# Where a p-value comes from: the χ² limit; simulation of the law under the null hypothesis, known exactly; simulation under
# the fitted null hypothesis, tilted towards the tail or plain.
Calibration = Literal["asymptotic", "exact", "tilted", "bootstrap"]

# A simulated p-value with a larger relative error says no more than the order of magnitude.
TOO_NOISY = 0.25


@dataclass(frozen=True)
class TestResult:
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
        "asymptotic", "exact" (simulated from the exact law under the null hypothesis: Pr(p ≤ α) is at most α for every α),
        "tilted" (simulated tail with likelihood-ratio weights) or "bootstrap".
    relative_error
        of a simulated p-value; None for asymptotic ones.
    reliable_down_to
        p-values below this may be off by more than a factor of two; None where it was not computed.
    reliable
        whether the p-value can be trusted within a factor of two: it is not below ``reliable_down_to``.
    """

    __test__ = False  # not a test case, whatever collects tests by name may think

    test: str
    statistic: float
    df: int
    p_value: float
    n: int
    effect: float | None = None
    calibration: Calibration = "asymptotic"
    relative_error: float | None = None
    reliable_down_to: float | None = None
    reliable: bool = True
    notes: tuple[str, ...] = field(default=())

    def summary(self) -> dict[str, Any]:
        """The command line's JSON object."""
        return {**vars(self), "target": "population", "notes": list(self.notes)}
