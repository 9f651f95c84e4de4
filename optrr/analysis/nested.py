"""Comparison of two nested models of the same records: score test, likelihood ratio, AIC and BIC.

The likelihood ratio is

    G = 2 (ℓ_larger − ℓ_smaller)  ~  χ²,  as many degrees of freedom as the larger model adds parameters.

Of a regression both likelihoods are of the larger model's reports, with the added parameters at 0 and free: the smaller
fit's own reports have less information on randomized predictors, so that its ℓ may differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from optrr.core.display import Result
from optrr.core.inference import TestResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class FittedModel(Protocol):
    """A fitted model for a comparison: its name, ln n of its records, and warnings."""

    @property
    def model(self) -> str: ...  # noqa: D102 (as above)
    @property
    def log_records(self) -> float: ...  # noqa: D102
    @property
    def warnings(self) -> tuple[str, ...]: ...  # noqa: D102


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """Two nested models fitted to the same records.

    ``score`` tests the smaller one.

    ``ratio`` is the likelihood ratio G, None if there is no likelihood; ``ratio_p_value`` that of χ² with the score test's
    degrees of freedom, None if χ² does not hold, and ``doubts`` say why.
    """

    smaller: FittedModel
    larger: FittedModel
    score: TestResult
    ratio: float | None
    ratio_p_value: float | None
    doubts: tuple[str, ...] = ()

    in_summary = ("score", "aic_difference", "bic_difference", "warnings")

    @property
    def aic_difference(self) -> float | None:
        """AIC of the larger model minus AIC of the smaller.

        Negative values favor the larger model.
        """
        return None if self.ratio is None else 2 * self.score.df - self.ratio

    @property
    def bic_difference(self) -> float | None:
        """BIC of the larger model minus BIC of the smaller."""
        return None if self.ratio is None else self.score.df * self.larger.log_records - self.ratio

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for the reader."""
        fits = [line for model in (self.smaller, self.larger) for line in model.warnings]
        return (*dict.fromkeys([*fits, *self.score.warnings]), *self.doubts)

    def headline(self) -> str:
        """Summarize both models and both tests."""
        p = "no p-value" if self.ratio_p_value is None else f"p = {self.ratio_p_value:.4g}"
        ratio = "" if self.ratio is None else f"likelihood ratio {self.ratio:.4f}, {p}; "
        criteria = (
            ""
            if self.ratio is None
            else f"; AIC {self.aic_difference:+.2f} and BIC {self.bic_difference:+.2f} from the smaller to the larger model"
        )
        return (
            f"{self.smaller.model} against {self.larger.model}: score {self.score.statistic:.4f}, "
            f"p = {self.score.p_value:.4g} ({self.score.source}); {ratio}{self.score.freedom}{criteria}"
        )

    def summary(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "smaller": self.smaller.model,
            "larger": self.larger.model,
            "df": self.score.df,
            "likelihood_ratio": self.ratio,
            "likelihood_ratio_p_value": self.ratio_p_value,
            **super().summary(),
        }

    def plot(self) -> Figure:
        """Plot the score test."""
        return self.score.plot()
