"""One log-linear model beside a larger one: the score test, the likelihood ratio, and what either gains in BIC.

    G = 2n (ℓ_larger − ℓ_smaller)  ~  χ²,  as many degrees of freedom as the larger model adds parameters.

The limit needs a larger model whose fitted shares are clear of 0. Where one of them is near 0, or at it, G falls short of χ²,
and no p-value of it is given; the score test needs the smaller model's margins only (:mod:`optrr.models.loglinear.comparing`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import chi2

from optrr.mechanisms.randomizer import Randomizer
from optrr.models.loglinear.comparing import compare_models
from optrr.models.loglinear.estimating import fitted_model
from optrr.models.loglinear.loglinear import LogLinear
from optrr.models.loglinear.terms import Terms
from optrr.models.tests.chi_square import CLEAR_OF_ZERO, MANY_EXPECTED
from optrr.models.tests.result import TestResult
from optrr.records.counts import Counts
from optrr.show.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NEAR_ZERO = (
    "the likelihood ratio has no p-value: shares of the larger model are near 0, or reports few, where it falls short of χ²; "
    "the score test holds there"
)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """Two models fitted to the same records, the smaller inside the larger; ``score`` tests the smaller one.

    ``ratio`` is the likelihood ratio G, ``ratio_p_value`` that of χ² with the score test's degrees of freedom, None where χ²
    does not hold.
    """

    smaller: LogLinear
    larger: LogLinear
    score: TestResult
    ratio: float
    ratio_p_value: float | None

    in_summary = ("score", "bic_difference", "warnings")

    @property
    def bic_difference(self) -> float:
        """BIC of the larger model minus that of the smaller: below 0 it gains more than its parameters cost."""
        return self.larger.bic - self.smaller.bic

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know."""
        fits = [line for model in (self.smaller, self.larger) for line in model.warnings]
        ratio = () if self.ratio_p_value is not None else (_NEAR_ZERO,)
        return (*dict.fromkeys([*fits, *self.score.warnings]), *ratio)

    def headline(self) -> str:
        """Both models, both tests."""
        ratio = "no p-value" if self.ratio_p_value is None else f"p = {self.ratio_p_value:.4g}"
        return (
            f"{self.smaller.terms} against {self.larger.terms}: score {self.score.statistic:.4f}, p = {self.score.p_value:.4g} "
            f"({self.score.source}); likelihood ratio {self.ratio:.4f}, {ratio}; {self.score.freedom}; BIC "
            f"{self.bic_difference:+.2f}"
        )

    def summary(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "smaller": str(self.smaller.terms),
            "larger": str(self.larger.terms),
            "df": self.score.df,
            "likelihood_ratio": self.ratio,
            "likelihood_ratio_p_value": self.ratio_p_value,
            **super().summary(),
        }

    def plot(self) -> Figure:
        """That of the score test."""
        return self.score.plot()


def beside(
    counts: Counts,
    mechanism: Randomizer,
    one: Iterable[Iterable[str]] | Terms,
    other: Iterable[Iterable[str]] | Terms,
    random_state: int | np.random.Generator | None = None,
) -> Comparison:
    """Compare two log-linear models of which one, in either place, is part of the other.

    Raises
    ------
    InvalidInput
        where neither is part of the other, and as :func:`optrr.models.loglinear.compare_models`.
    """
    first, second = (m if isinstance(m, Terms) else Terms.of(counts.domain, m) for m in (one, other))
    smaller, larger = (second, first) if second <= first else (first, second)
    score = compare_models(counts, mechanism, smaller, larger, random_state)
    inner, outer = fitted_model(counts, mechanism, smaller), fitted_model(counts, mechanism, larger)
    ratio = max(2 * (outer.log_likelihood - inner.log_likelihood), 0.0)
    return Comparison(inner, outer, score, ratio, float(chi2.sf(ratio, score.df)) if _clear(outer) else None)


def _clear(model: LogLinear) -> bool:
    """Whether a model's shares are clear of 0, and all of its expected reports many."""
    if np.isnan(model.covariance).any() or model.n * model.fitted.expected.min() < MANY_EXPECTED:
        return False
    shares, columns = model.proportions.ravel(), model.terms.columns().reshape(model.terms.parameters, -1)
    slopes = shares * (columns - (columns @ shares)[:, None])
    errors = np.sqrt(np.einsum("kc,kl,lc->c", slopes, model.covariance, slopes))
    return bool((shares >= CLEAR_OF_ZERO * errors).all())
