"""Derived statistics with standard errors: entropy, mutual information, χ², G², Pearson correlation, Cramér's V (RVL §5.2).

The statistic g is taken at the unbiased estimate; at its projection where g has logarithms or a margin is not positive, since
single negative cells do no harm to χ², V and the correlation. Delta method (RVL eq. 24): Var g(π̂) ≈ ∇gᵀ disp(π̂) ∇g, with the
exact dispersion of RVL eq. 18. Randomization makes disp(π̂) large, so the plug-in value is also biased by about
½ tr(∇²g disp(π̂)); `value` has that subtracted, `plug_in` has not.

Where the delta method fails is detected and said in `notes`, with `reliable` False:
- a cell within a few standard errors of 0, where logarithms bend too much (entropy, mutual information, G²);
- (near) independence, where mutual information, χ², G² and V have gradient 0 and no normal limit: test instead;
- (near) evenness, where the entropy is at its maximum and has gradient 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log, log2, prod, sqrt
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2, norm

from optrr.errors import InvalidInput
from optrr.estimation import statistics
from optrr.estimation.intervals import on_root_scale, second_order, skewness
from optrr.estimation.result import check_bootstrap, check_confidence
from optrr.estimation.simplex import projection
from optrr.estimation.statistics import Expansion
from optrr.kernel import Kernel
from optrr.mechanisms.randomizer import Randomizer, checked_mechanism
from optrr.records.counts import Counts
from optrr_solvers.problem import FloatArray

StatisticName = Literal["entropy", "mutual-information", "chi-square", "g-square", "correlation", "cramers-v"]
STATISTICS: tuple[str, ...] = get_args(StatisticName)

# The covariance of 2048 cells takes 32 MB, and its einsums seconds.
MAX_CELLS = 2048
# A cell this many standard errors above 0 makes −π ln π nearly straight: coverage stays within 93–97 % (benchmarks).
_CLEAR_OF_ZERO = 4.0
# Dependence must be this significant (Wald) before the statistics that vanish under independence count as normal, and
# unevenness before the entropy does. At that limit the relative standard error of the former is about 2/sqrt(23 + df), a
# quarter or less of the value for the tables tried.
_CLEARLY = 1e-8

_ALIKE_NOTE = "all reports are alike, so the data show no standard error; count more records"

_VANISHING = ("mutual-information", "chi-square", "g-square", "cramers-v")
_SQUARES = ("mutual-information", "chi-square", "g-square")
_LOGARITHMIC = ("entropy", "mutual-information", "g-square")


@dataclass(frozen=True)
class Derived:
    """A statistic of one attribute set.

    ``value`` has the delta method's bias removed; ``plug_in`` is the statistic of the (perhaps projected) unbiased estimate.
    Entropy and mutual information are in bits, χ² and G² on the scale of n records without randomization. The interval is
    ``value`` ± z · ``standard_error``, cut to the statistic's range; for mutual information, χ² and G² it is made on the
    square root's scale, for the entropy it is of second order (:mod:`optrr.estimation.intervals`). ``bootstrap_error`` is NaN
    unless asked for; error and interval are NaN where all reports are alike.
    """

    statistic: str
    n: int
    value: float
    plug_in: float
    bias: float
    standard_error: float
    bootstrap_error: float
    lower: float
    upper: float
    confidence: float
    reliable: bool
    notes: tuple[str, ...]

    def summary(self) -> dict[str, Any]:
        """As a JSON object."""
        plain = {k: v for k, v in vars(self).items() if k != "notes"}
        return {k: None if isinstance(v, float) and np.isnan(v) else v for k, v in plain.items()} | {
            "notes": list(self.notes)
        }


@dataclass(frozen=True, eq=False)
class _Setting:
    """What a statistic is evaluated with: its name, table shape, records and scores."""

    name: str
    shape: tuple[int, ...]
    n: int
    scores: tuple[FloatArray, FloatArray] | None

    def expand(self, pi: FloatArray, covariance: FloatArray) -> Expansion:
        """Value, gradient and bias at a proper table."""
        table = pi.reshape(self.shape)
        if self.name == "entropy":
            return statistics.entropy(table, covariance)
        if self.name == "correlation":
            assert self.scores is not None
            return statistics.pearson_correlation(table, covariance, self.scores)
        plain: dict[str, tuple[Callable[[FloatArray, FloatArray], Expansion], float]] = {
            "mutual-information": (statistics.mutual_information, 1.0),
            "g-square": (statistics.mutual_information, 2 * self.n * log(2)),
            "chi-square": (statistics.phi_squared, float(self.n)),
            "cramers-v": (statistics.cramers_v, 1.0),
        }
        function, scale = plain[self.name]
        e = function(table, covariance)
        return Expansion(scale * e.value, scale * e.gradient, scale * e.bias)

    @property
    def range(self) -> tuple[float, float]:
        """Smallest and largest value the statistic can have."""
        least = min(int(r) for r in self.shape)
        limits = {
            "entropy": (0.0, log2(prod(self.shape))),
            "correlation": (-1.0, 1.0),
            "cramers-v": (0.0, 1.0),
            "mutual-information": (0.0, log2(least)),
            "chi-square": (0.0, float(self.n * (least - 1))),
            "g-square": (0.0, 2 * self.n * log(least)),
        }
        return limits[self.name]


def derive(  # noqa: PLR0913 (each argument is one question a user answers)
    counts: Counts,
    mechanism: Randomizer,
    statistic: StatisticName,
    *,
    confidence: float = 0.95,
    scores: tuple[ArrayLike, ArrayLike] | None = None,
    bootstrap: int = 0,
    random_state: int | np.random.Generator | None = None,
) -> Derived:
    """A statistic of the true records of the counts' attribute set, with its error; the target is the population.

    Parameters
    ----------
    counts
        of one attribute set: any for entropy, two attributes for the others. At most 2048 cells.
    statistic
        one of `STATISTICS`.
    scores
        numbers for the categories of the two attributes, for "correlation"; 0..r−1 unless given.
    bootstrap
        also a standard error from this many parametric bootstrap samples; 0 for none.
    random_state
        of the bootstrap.

    Raises
    ------
    InvalidInput
        for an unknown statistic, a table it cannot have, a confidence that is not between 0 and 1, or scores that are not
        finite numbers. SingularMarginal where the mechanism hides the table.
    """
    check_confidence(confidence)
    check_bootstrap(bootstrap)
    setting = _setting(counts, statistic, scores)
    kernel = checked_mechanism(mechanism).kernel(counts.domain.names)
    lam = counts.proportions
    raw = kernel.solve(lam)
    pi = _point(setting, raw)
    covariance = kernel.covariance(lam, counts.n)
    e = setting.expand(pi, covariance)
    gradient = e.gradient.ravel()
    notes = _notes(setting, raw, covariance)
    error = sqrt(max(float(gradient @ covariance @ gradient), 0.0))
    if np.count_nonzero(counts.table) == 1:
        error, notes = float("nan"), (_ALIKE_NOTE,)
    value = float(np.clip(e.value - e.bias, *setting.range))
    z = float(norm.isf((1 - confidence) / 2))
    if statistic == "entropy":
        lean = skewness(
            kernel.solve_adjoint(e.gradient), lam, counts.n, _entropy_bend(pi, covariance @ gradient), error
        )
        low, high = second_order(e.value - e.bias, error, lean, z)
    elif statistic in _SQUARES:
        low, high = on_root_scale(e.value, e.bias, error, z)
    else:
        low, high = e.value - e.bias - z * error, e.value - e.bias + z * error
    low, high = np.clip((low, high), *setting.range)
    again = (
        _bootstrap(setting, kernel, raw, bootstrap, np.random.default_rng(random_state)) if bootstrap else float("nan")
    )
    return Derived(
        statistic=statistic,
        n=counts.n,
        value=value,
        plug_in=e.value,
        bias=e.bias,
        standard_error=error,
        bootstrap_error=again,
        lower=float(low),
        upper=float(high),
        confidence=confidence,
        reliable=not notes,
        notes=notes,
    )


def _point(setting: _Setting, raw: FloatArray) -> FloatArray:
    """Where the statistic is evaluated: the unbiased estimate where it is defined there, else its projection."""
    if setting.name not in _LOGARITHMIC and raw.sum(axis=0).min() > 0 and raw.sum(axis=1).min() > 0:
        return raw
    return projection(raw.ravel()).reshape(raw.shape)


def _entropy_bend(pi: FloatArray, along: FloatArray) -> float:
    """uᵀHu of the entropy, whose second derivatives are −1/(π ln 2) in each cell."""
    positive = pi.ravel() > 0
    return -float(np.sum(along[positive] ** 2 / pi.ravel()[positive])) / log(2)


def _setting(counts: Counts, statistic: str, scores: tuple[ArrayLike, ArrayLike] | None) -> _Setting:
    if statistic not in STATISTICS:
        raise InvalidInput(f"there is no statistic {statistic!r}; choose among {', '.join(STATISTICS)}")
    shape = tuple(map(int, counts.domain.sizes))
    if statistic != "entropy" and len(shape) != 2:
        raise InvalidInput(f"{statistic!r} needs two attributes, got {len(shape)}; count a pair")
    if np.prod(shape) > MAX_CELLS:
        raise InvalidInput(f"the table has {np.prod(shape)} cells; derived statistics take at most {MAX_CELLS}")
    if counts.n < 2:
        raise InvalidInput(f"{counts.n} record has no standard error; count at least 2")
    chosen = None
    if statistic == "correlation":
        chosen = statistics.checked_scores(shape, scores)
    return _Setting(statistic, shape, counts.n, chosen)


def _notes(setting: _Setting, raw: FloatArray, covariance: FloatArray) -> tuple[str, ...]:
    """What makes the delta method fail here."""
    out = []
    errors = np.sqrt(np.diag(covariance)).reshape(raw.shape)
    near = int(np.count_nonzero(raw < _CLEAR_OF_ZERO * errors))
    if near and setting.name in _LOGARITHMIC:
        out.append(
            f"{near} of {raw.size} cells lie within {_CLEAR_OF_ZERO:g} standard errors of 0, where the delta method fails "
            f"for {setting.name}: the interval is not reliable; use more records or merge categories"
        )
    if setting.name in _VANISHING and not _clearly_dependent(raw, covariance):
        out.append(
            f"independence is not clearly rejected, and there {setting.name} has no normal limit: the interval is not "
            "reliable; use the independence test"
        )
    if setting.name == "entropy" and not _clearly_uneven(raw, covariance):
        out.append(
            "an even distribution is not clearly rejected, and there entropy has no normal limit: the interval is not "
            "reliable; use the goodness-of-fit test"
        )
    if setting.name not in _LOGARITHMIC and _margin_near_zero(raw, covariance):
        out.append(
            f"a category's share lies within {_CLEAR_OF_ZERO:g} standard errors of 0, where the delta method fails for "
            f"{setting.name}: the interval is not reliable; use more records or merge categories"
        )
    return tuple(out)


def _margin_near_zero(raw: FloatArray, covariance: FloatArray) -> bool:
    s = covariance.reshape(raw.shape * 2)
    # a margin that is all of the records has variance 0, give or take rounding
    rows, columns = np.maximum(np.einsum("abac->a", s), 0.0), np.maximum(np.einsum("abcb->b", s), 0.0)
    return bool(
        np.any(raw.sum(axis=1) < _CLEAR_OF_ZERO * np.sqrt(rows))
        or np.any(raw.sum(axis=0) < _CLEAR_OF_ZERO * np.sqrt(columns))
    )


def _clearly_dependent(raw: FloatArray, covariance: FloatArray) -> bool:
    """A Wald test of independence at a level so small that its own tail error does not matter."""
    r_a, r_b = raw.shape
    rows, columns = raw.sum(axis=1), raw.sum(axis=0)
    difference = (raw - np.outer(rows, columns))[:-1, :-1].ravel()
    # d(π_ab − π_a π_b) = (I − π_a 1ᵀ) ⊗ (I − π_b 1ᵀ) near independence
    left = (np.eye(r_a) - np.outer(rows, np.ones(r_a)))[:-1]
    right = (np.eye(r_b) - np.outer(columns, np.ones(r_b)))[:-1]
    jacobian = np.kron(left, right)
    variance = jacobian @ covariance @ jacobian.T
    return _clearly_not_zero(difference, variance)


def _clearly_uneven(raw: FloatArray, covariance: FloatArray) -> bool:
    """A Wald test of the even distribution, at the same level."""
    return _clearly_not_zero((raw - 1 / raw.size).ravel()[:-1], covariance[:-1, :-1])


def _clearly_not_zero(difference: FloatArray, variance: FloatArray) -> bool:
    statistic = float(difference @ np.linalg.lstsq(variance, difference, rcond=None)[0])
    return bool(chi2.sf(statistic, difference.size) < _CLEARLY)


def _bootstrap(setting: _Setting, kernel: Kernel, raw: FloatArray, samples: int, rng: np.random.Generator) -> float:
    """Standard deviation of the bias-corrected statistic over samples drawn from the fitted distribution."""
    expected = kernel.expected(projection(raw.ravel()).reshape(setting.shape)).ravel()
    draws = rng.multinomial(setting.n, expected / expected.sum(), size=samples) / setting.n
    inverse = kernel.inverse()
    values = np.empty(samples)
    for k, lam in enumerate(draws):
        again = lam @ inverse
        covariance = ((inverse.T * lam) @ inverse - np.outer(again, again)) / (setting.n - 1)
        e = setting.expand(_point(setting, again.reshape(setting.shape)), covariance)
        values[k] = e.value - e.bias
    return float(values.std(ddof=1))
