"""Derived statistics with intervals: entropy, mutual information, χ², G², Pearson correlation, Cramér's V (RVL §5.2).

RVL's delta method, value ± z · sqrt(∇gᵀ disp(π̂) ∇g) (eq. 24), covers too little where a statistic bends: near independence
and evenness, where its gradient is 0, and where cells or categories are rare. Intervals here are found by test inversion
(:mod:`optrr.tables.estimation.intervals`), which also serves there, along the tables of :mod:`optrr.tables.estimation.paths`.
Coverage over many tables, mechanisms and numbers of records is measured by benchmarks/derived_coverage.py.

Where a statistic divides by what cannot be told from 0, its interval holds for everything that the data leave possible
(:mod:`optrr.tables.estimation.faint`), and a warning says what it would take for a shorter one: χ² and V divide by the share of
every category, the correlation by the variances of the scores.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isinf, isnan, nan, prod

import numpy as np

from optrr.domain.scores import GivenScores, PlainScores, plain_scores, scores_of_pair
from optrr.errors import InvalidInput
from optrr.mechanisms.randomizer import Randomizer, checked_mechanism
from optrr.records.counts import Counts
from optrr.show.result import Result, intervals_said
from optrr.show.rounding import two_digits_up
from optrr.tables.estimation.asked_statistic import AskedStatistic
from optrr.tables.estimation.enough import clear_with, enough
from optrr.tables.estimation.faint import CLEAR_OF_ZERO, ClearCategories, ScoreMoments, faint_part, phi_squared_limits
from optrr.tables.estimation.impossible import warn_of_records
from optrr.tables.estimation.intervals import Path, Sampling, interval
from optrr.tables.estimation.result import check_bootstrap, check_confidence, check_records
from optrr.tables.estimation.simplex import projection
from optrr.tables.estimation.statistics import STATISTICS, StatisticName
from optrr_solvers.arrays import FloatArray

# The covariance of 2048 cells takes 32 MB, and each of some thirty laws multiplies four such matrices.
MAX_CELLS = 2048
# An interval over more than this share of the statistic's range is said to be wide, with the records that would bring it to
# the next share.
_WIDE, _NARROW = 0.5, 0.25
# Standard errors in a 95 % interval.
_ERRORS_ACROSS = 3.92

_ALIKE_WARNING = "all reports are alike, so the data show no standard error; count more records"


@dataclass(frozen=True, repr=False)
class Derived(Result):
    """A statistic of one attribute set.

    ``value`` is the estimate of least squared error, moved into the interval: the entropy of the projected table, mutual
    information and G² of one that is shrunk towards independence, too, the others nearly without bias. It is NaN where
    nothing is known: where the interval is the statistic's whole range, or that of a correlation is wide because a variance
    cannot be told from 0.
    ``plug_in`` is the statistic of the unbiased estimate, projected where the statistic needs it, and ``bias`` by how much it
    lies above a nearly unbiased one. Entropy and mutual information are in bits,
    χ² and G² on the scale of n records without randomization. ``lower`` and ``upper`` are by test inversion, and limits that
    hold for everything that the data leave possible where the statistic divides by what cannot be told from 0: ``warnings``
    then name it, and ``bias`` and the errors are NaN.
    ``standard_error`` is that of the estimate under a table that has its value; NaN, too, for V where it cannot be told from 0.
    Each end has half of the error probability, so that a lower limit of χ² or V is above 0 where the test of independence has a
    p-value below 0.025 (at 95 %), while a correlation, which has two sides, leaves out 0 where its own is below 0.05.
    ``bootstrap_error`` is NaN unless asked for. Where all reports are alike there is no interval: ``reliable`` is False and a
    warning says why. ``scores`` are the numbers by which the categories counted, for a correlation.
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
    warnings: tuple[str, ...] = ()
    scores: PlainScores | None = None

    drawn = ("value", "lower", "upper")

    def headline(self) -> str:
        """The statistic and its interval."""
        interval = f"[{self.lower:.4g}, {self.upper:.4g}]" if self.reliable else "no interval"
        value = "without a value" if isnan(self.value) else f"{self.value:.4g}"
        return f"{self.statistic} {value} {interval}, {self.n} records"

    def _axis(self) -> tuple[str, None]:
        return f"{self.statistic}, {intervals_said(self.confidence)}", None


def derive(  # noqa: PLR0913 (each argument is one question a user answers)
    counts: Counts,
    mechanism: Randomizer,
    statistic: StatisticName,
    *,
    confidence: float = 0.95,
    scores: GivenScores | None = None,
    bootstrap: int = 0,
    random_state: int | np.random.Generator | None = None,
) -> Derived:
    """A statistic of the true records of the counts' attribute set, with its interval; the target is the population.

    Parameters
    ----------
    counts
        of one attribute set: any for entropy, two attributes for the others. At most 2048 cells.
    statistic
        one of `STATISTICS`.
    scores
        numbers for the categories of the two attributes, for "correlation": their own where all are numbers, 0..r−1 elsewhere,
        unless given. The result says which they were.
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
    setting = _setting(counts, mechanism, statistic, scores)
    warn_of_records([counts], mechanism)
    derived = _derived(setting, confidence, bootstrap, random_state)
    return replace(derived, scores=plain_scores(setting.scores))


def _derived(
    setting: AskedStatistic, confidence: float, bootstrap: int, random_state: int | np.random.Generator | None
) -> Derived:
    observed = setting.counts.proportions.ravel()
    if np.count_nonzero(observed) == 1:
        none = float("nan")
        alike = _Limits(setting.projected(observed), none, none, (_ALIKE_WARNING,))
        return _without_errors(setting, observed, alike, confidence)
    conservative = _conservative(setting, observed, confidence)
    if conservative:
        return _without_errors(setting, observed, conservative, confidence)
    again = _bootstrap(setting, observed, bootstrap, np.random.default_rng(random_state)) if bootstrap else float("nan")
    path = setting.path(observed)
    low, high = interval(path, confidence)
    lower, upper = sorted((setting.shown(low), setting.shown(high)))
    plug_in, unbiased = setting.shown(path.plug_in), setting.shown(path.value)
    value = float(np.clip(setting.printed(observed, path), lower, upper))
    if (low, high) == path.range:
        # every value that the statistic has is possible: none of them is an estimate
        value = nan
    return Derived(
        statistic=setting.name,
        n=setting.sampling.n,
        value=value,
        plug_in=plug_in,
        bias=plug_in - setting.shown(path.estimate),
        standard_error=_standard_error(setting, path, lower, unbiased),
        bootstrap_error=again,
        lower=lower,
        upper=upper,
        confidence=confidence,
        reliable=True,
        warnings=_if_wide(setting, observed, (high - low) / (path.range[1] - path.range[0])),
    )


def _setting(counts: Counts, mechanism: Randomizer, statistic: str, scores: GivenScores | None) -> AskedStatistic:
    if statistic not in STATISTICS:
        raise InvalidInput(f"there is no statistic {statistic!r}; choose among {', '.join(STATISTICS)}")
    shape = tuple(map(int, counts.domain.sizes))
    if statistic != "entropy" and len(shape) != 2:
        raise InvalidInput(f"{statistic!r} needs two attributes, got {len(shape)}; count a pair")
    if prod(shape) > MAX_CELLS:
        raise InvalidInput(f"the table has {prod(shape)} cells; derived statistics take at most {MAX_CELLS}")
    check_records(counts.n)
    chosen = scores_of_pair(counts.domain, scores) if statistic == "correlation" else None
    kernel = checked_mechanism(mechanism).kernel(counts.domain.names)
    kernel.check_invertible()
    return AskedStatistic(statistic, counts, Sampling(kernel, counts.n), chosen)


def _standard_error(setting: AskedStatistic, path: Path, lower: float, value: float) -> float:
    deviation = path.deviation()
    if setting.name != "cramers-v":
        return abs(setting.factor) * deviation
    return deviation / (2 * (min(setting.shape) - 1) * value) if lower > 0 else float("nan")


@dataclass(frozen=True)
class _Limits:
    """A statistic in its own units with limits that do not come from a test inversion alone, and the reason."""

    value: float
    lower: float
    upper: float
    warnings: tuple[str, ...]


def _without_errors(setting: AskedStatistic, observed: FloatArray, limits: _Limits, confidence: float) -> Derived:
    none = float("nan")
    return Derived(
        statistic=setting.name,
        n=setting.sampling.n,
        value=limits.value,
        plug_in=setting.projected(observed),
        bias=none,
        standard_error=none,
        bootstrap_error=none,
        lower=limits.lower,
        upper=limits.upper,
        confidence=confidence,
        reliable=not isnan(limits.lower),
        warnings=limits.warnings,
    )


def _conservative(setting: AskedStatistic, observed: FloatArray, confidence: float) -> _Limits | None:
    """What holds where the statistic divides by something that cannot be told from 0; None where it does not.

    χ² and V are then estimated from the cells of clear categories, and those of faint ones, whose shares they divide by, add
    what is above their noise.
    """
    tail = (1 - confidence) / 2
    if setting.name in ("chi-square", "cramers-v"):
        clear = ClearCategories.of(setting.sampling, observed)
        if clear.all_clear:
            return None
        path = setting.path(observed) if clear.cells.any() else None
        limits = phi_squared_limits(path, clear, setting.sampling, observed, tail)
        lower, upper = setting.shown(limits[0]), setting.shown(limits[1])
        # the limits are wide for what is unknown of faint categories; whether there is a value, the clear ones tell
        known = path is not None and _ERRORS_ACROSS * path.deviation() <= _WIDE * (path.range[1] - path.range[0])
        value = nan
        if path is not None and known:
            square = min(path.value + faint_part(clear, setting.sampling, observed), min(setting.shape) - 1.0)
            value = min(max(setting.shown(square), lower), upper)
        return _Limits(value, lower, upper, _faint_categories(setting, clear))
    if setting.name == "correlation":
        assert setting.scores is not None
        moments = ScoreMoments.of(setting.sampling, observed, setting.scores)
        if not moments.faint():
            return None
        lower, upper = moments.correlation_limits(tail)
        # a variance that may be 0 leaves the projected estimate nothing to divide by, unless the limits say where it lies
        value = min(max(setting.projected(observed), lower), upper) if upper - lower <= 2.0 * _NARROW else nan
        return _Limits(value, lower, upper, _faint_scores(setting, moments))
    return None


def _faint_categories(setting: AskedStatistic, clear: ClearCategories) -> tuple[str, ...]:
    return tuple(
        _faint(setting, f"the share of {attribute.name!r} = {attribute.categories[k]!r}", float(ratios[k]))
        + ", or merge it with another category"
        for attribute, ratios in zip(setting.counts.domain, clear.ratios, strict=True)
        for k in np.flatnonzero(ratios < CLEAR_OF_ZERO)
    )


def _faint_scores(setting: AskedStatistic, moments: ScoreMoments) -> tuple[str, ...]:
    names = setting.counts.domain.names
    return tuple(
        _faint(setting, f"the variance of {names[k]!r}", moments.variances[k][0] / moments.variances[k][1])
        for k in moments.faint()
    )


def _faint(setting: AskedStatistic, what: str, ratio: float) -> str:
    remedy = f"{clear_with(setting.sampling.n, ratio)}; else give it a larger epsilon"
    return (
        f"the interval of {setting.name} holds whatever {what} is and is wider for it, because it is less than "
        f"{CLEAR_OF_ZERO:g} standard errors above 0; {remedy}"
    )


def _if_wide(setting: AskedStatistic, observed: FloatArray, share: float) -> tuple[str, ...]:
    """Says how many records would narrow an interval over most of the statistic's range."""
    if share <= _WIDE:
        return ()
    said = f"the interval covers {share:.0%} of what {setting.name} can be"

    def narrow(n: float) -> bool:
        path = setting.path(observed, Sampling(setting.sampling.kernel, round(n)))
        return _ERRORS_ACROSS * path.deviation() <= _NARROW * (path.range[1] - path.range[0])

    n = enough(setting.sampling.n, narrow)
    if isinf(n):
        return (f"{said}; give the attributes a larger epsilon",)
    return (f"{said}; about {two_digits_up(n)} records, or a larger epsilon, would bring it to {_NARROW:.0%}",)


def _bootstrap(setting: AskedStatistic, observed: FloatArray, samples: int, rng: np.random.Generator) -> float:
    """Standard deviation of the value over samples drawn from the fitted distribution."""
    fitted = projection(setting.sampling.kernel.solve(observed.reshape(setting.shape)).ravel())
    draws = rng.multinomial(setting.sampling.n, setting.sampling.observed(fitted), size=samples) / setting.sampling.n
    values = [_value_of_sample(setting, lam) for lam in draws]
    return float(np.std(values, ddof=1))


def _value_of_sample(setting: AskedStatistic, observed: FloatArray) -> float:
    """The statistic of a bootstrap sample, whose scores may have variances near 0."""
    if setting.scores is not None and ScoreMoments.of(setting.sampling, observed, setting.scores).faint():
        return setting.projected(observed)
    return setting.shown(setting.path(observed).value)
