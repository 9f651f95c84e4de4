"""Derived statistics with intervals: entropy, mutual information, χ², G², Pearson correlation, Cramér's V (RVL §5.2).

RVL's delta method, value ± z · sqrt(∇gᵀ disp(π̂) ∇g) (eq. 24), covers too little where a statistic bends: near independence
and evenness, where its gradient is 0, and where cells or categories are rare. Intervals here are found by test inversion, which
also serves there (:mod:`optrr.core.estimation.intervals`). Coverage over many tables, mechanisms and numbers of records is
measured by benchmarks/derived_coverage.py.

Where a statistic divides by a number that cannot be distinguished from 0, its interval covers every value that the data
leave possible, and a warning states the requirements of a shorter one: χ² and V divide by the proportion of every
category, the correlation by the variances of the scores. Whether a proportion is clear of 0 is decided by the same data
as the statistic, so printing an interval only where it is clear would select data sets: where few pass, they pass
because noise made the proportion too large, and their intervals cover too little.

χ², V: without the rare rows G and columns H in the sum over cells, the rest of φ² divides by clear proportions only.
Every cell adds at least 0, so its lower limit is one for φ² itself. As π_gb ≤ r_g, and as Σ π²/(r c) over a block of
|G| × |H| cells is a sum of at most min(|G|, |H|) squared singular values, none above 1, the cells left out add at most

    R/c − R                             R = Σ_G r, c the least clear column share, where only rows are faint; columns alike
    R/c + S/r + min(|G|, |H|)           S = Σ_H c, r the least clear row share, where both are

The correlation is anything where a variance that it divides by is not clear of 0.

Values: of χ², G², information, entropy and correlation those of the true records, so that they tend to the classical
numbers as the mechanism's noise vanishes; its part of the bias alone is taken off (`Sampling.mechanism_noise`). With x
the corrected distance from independence (of the entropy: from evenness), and y that of the likeliest proper table, x is
at most y, because noise only adds to y. The value is x + (x/y)² (y − x): where most of y is not noise, y has the
smaller error, as no cell of it is negative. V is that of this χ², less (r − 1)(c − 1) n/(n − 1), which sampling adds
(Bergsma, J. Korean Stat. Soc. 42, 2013). benchmarks/derived_points.py compares.

The error probability of each end is divided among the limits that it is made of (Bonferroni).

More records of the same population would show the results that are refused or left out because of noise. The stated
number of records is the one at which the quantity that was too small is large enough, if the proportions of the reports
stay as counted.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import isnan, log, nan, prod, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optrr.core.display.parts import OneTable, Text
from optrr.core.display.result import TableResult, arrow_rows, intervals_said
from optrr.core.display.text import crossed, records_enough, sentence, two_digits_up
from optrr.core.domain.domain import Domain, GivenScores, PlainScores, plain_scores, scores_of_pair, told_scores
from optrr.core.errors import InvalidInput
from optrr.core.estimation import statistics
from optrr.core.estimation.distributions import norm
from optrr.core.estimation.estimator import check_confidence, check_records
from optrr.core.estimation.intervals import (
    NOBODY,
    Correlation,
    MutualInformation,
    NegativeEntropy,
    PhiSquared,
    TracedPath,
    interval,
    limit,
)
from optrr.core.estimation.likelihood import likeliest_table
from optrr.core.estimation.simplex import projection
from optrr.core.estimation.statistics import STATISTICS, StatisticName
from optrr.core.estimation.table import EstimatedTable, Sampling
from optrr_solvers.arrays import FloatArray

if TYPE_CHECKING:
    import pyarrow as pa

# Standard errors above 0 at which a statistic may divide by a proportion or variance.
CLEAR_OF_ZERO = 3.0
# A variance below this is what rounding leaves of none.
_NO_VARIANCE = 1e-24
# Proportion of people in categories that are not clear of the mechanism's noise, up to which χ² and V have a value even
# if the interval, which allows for them, is wide.
_FEW = 0.05
# Which estimate a value is.
_OF_RECORDS = "of the true records, without the mechanism's noise; the interval is the population's"
_WITHOUT = "; without the categories that may be empty"
# Why there is no value.
_MAY_BE_EMPTY = (
    f"none, as categories that may be empty could hold more than {_FEW:.0%} of people and the interval is wide"
)
_NO_SPREAD = "none, as a variance may be 0 and the interval is wide"
_NOTHING_KNOWN = "none, as the interval is the whole range of the statistic"


@dataclass(frozen=True, eq=False)
class ClearCategories:
    """Unbiased proportions of row and column categories with standard errors."""

    shares: tuple[FloatArray, FloatArray]
    errors: tuple[FloatArray, FloatArray]

    @staticmethod
    def of(sampling: Sampling, observed: FloatArray, noise: FloatArray) -> "ClearCategories":
        """Compute from observed proportions (R,) and the estimates' covariance (R, R)."""
        shape = (sampling.kernel.sizes[0], sampling.kernel.sizes[1])
        raw = sampling.kernel.solve(observed.reshape(shape))
        rows, columns = (
            np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", sums, noise, sums, optimize=True), _NO_VARIANCE))
            for sums in (statistics.row_sums(shape), statistics.column_sums(shape))
        )
        return ClearCategories((raw.sum(axis=1), raw.sum(axis=0)), (rows, columns))

    @cached_property
    def ratios(self) -> tuple[FloatArray, FloatArray]:
        """Shares in standard errors."""
        return self.shares[0] / self.errors[0], self.shares[1] / self.errors[1]

    @cached_property
    def clear(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Categories whose proportion is at least 3 standard errors above 0."""
        return self.ratios[0] >= CLEAR_OF_ZERO, self.ratios[1] >= CLEAR_OF_ZERO

    @property
    def cells(self) -> NDArray[np.bool_]:
        """Mask of the cells of two clear categories, (r_a, r_b)."""
        return np.outer(*self.clear)

    @property
    def left_out(self) -> float:
        """Upper limit of the proportion in categories that are not clear of 0."""
        parts = zip(self.shares, self.errors, self.clear, strict=True)
        return max(float(np.sum((np.maximum(s, 0) + CLEAR_OF_ZERO * e)[~clear])) for s, e, clear in parts)


def phi_squared_limits(
    path: TracedPath | None, clear: ClearCategories, sampling: Sampling, observed: FloatArray, tail: float
) -> tuple[float, float]:
    """Compute limits of φ² with error probability ``tail`` on each side.

    The ``path`` is of its part over clear cells, and None without such cells.
    """
    most = min(sampling.kernel.sizes) - 1.0
    if path is None:
        return 0.0, most
    lower, upper = limit(path, tail, 0), limit(path, tail / 2, 1)
    return lower, min(upper + _most_added(clear, sampling, observed, tail / 2), most)


def _most_added(clear: ClearCategories, sampling: Sampling, observed: FloatArray, tail: float) -> float:
    """Bound the contribution of cells of unclear categories to φ².

    Infinite if a proportion in a denominator may be 0.
    """
    sizes, faint = sampling.kernel.sizes, [int(np.sum(~c)) for c in clear.clear]
    # an upper limit for each attribute with rare categories, and a lower one for every clear category of the other
    tail /= sum(1 + int(np.sum(clear.clear[1 - axis])) for axis in range(2) if faint[axis])
    added = 0.0
    for axis in (k for k in range(2) if faint[k]):
        # of the attribute's rare categories together
        members = np.expand_dims((~clear.clear[axis]).astype(np.float64), 1 - axis) * np.ones(sizes)
        total = sampling.most(members, observed, tail)
        # normal, as clear proportions are some standard errors above 0
        limits = clear.shares[1 - axis] - float(norm.isf(tail)) * clear.errors[1 - axis]
        least = float(limits[clear.clear[1 - axis]].min())
        if not least > 0:
            return float("inf")
        added += total / least - (0.0 if faint[1 - axis] else total)
    return added + min(faint)


def score_variances(sampling: Sampling, observed: FloatArray, scores: tuple[FloatArray, FloatArray]) -> FloatArray:
    """Compute bias-corrected variances of two attributes' scores.

    Returned with their standard errors, (2, 2).

    The error has a part of first order and that of the squared mean, which is all where both halves are even.
    """
    noise, table = sampling.noise(observed), sampling.kernel.solve(observed.reshape(sampling.kernel.sizes))
    out = []
    for k, s in enumerate(scores):
        own = s - table.sum(axis=1 - k) @ s
        x = np.broadcast_to(np.expand_dims(own, 1 - k), table.shape).ravel()
        value, square = float(table.ravel() @ x**2 + x @ noise @ x), float(x @ noise @ x) ** 2
        out.append((value, sqrt(x**2 @ noise @ x**2 + 2 * square)))
    return np.array(out)


@dataclass(frozen=True, eq=False)
class AskedStatistic:
    """A statistic with its attributes, sampling and scores.

    Its path is about φ² (for χ² and V), −H or I in nats (for the entropy, mutual information and G²), or the correlation.
    """

    name: str
    domain: Domain
    sampling: Sampling
    scores: tuple[FloatArray, FloatArray] | None

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the attributes."""
        return self.sampling.kernel.sizes

    @property
    def pair(self) -> tuple[FloatArray, FloatArray]:
        """The scores, which a correlation has."""
        assert self.scores is not None
        return self.scores

    def shown(self, x: float) -> float:
        """Convert a value on the path's internal scale to the statistic."""
        if self.name == "cramers-v":
            return sqrt(max(x, 0.0) / (min(self.shape) - 1))
        # 0 has no sign, whatever the factor has
        return self.factor * x + 0.0

    @property
    def factor(self) -> float:
        """Factor from the path's number to the statistic, for all but V."""
        n = self.sampling.n
        factors = {
            "entropy": -1 / log(2),
            "mutual-information": 1 / log(2),
            "g-square": 2.0 * n,
            "chi-square": float(n),
        }
        return factors.get(self.name, 1.0)

    def path(self, observed: FloatArray) -> TracedPath:
        """Build the path for the observed proportions (R,)."""
        sampling = self.sampling
        if self.name == "entropy":
            return NegativeEntropy(sampling, observed)
        shape = (self.shape[0], self.shape[1])
        if self.name in ("mutual-information", "g-square"):
            return MutualInformation(sampling, observed, shape)
        table = sampling.kernel.solve(observed.reshape(shape))
        if self.name == "correlation":
            return Correlation(sampling, observed, table, self.pair)
        clear = ClearCategories.of(sampling, observed, sampling.noise(observed))
        return PhiSquared(sampling, observed, table, clear.cells)

    def printed(self, observed: FloatArray, limits: tuple[float, float]) -> tuple[float, str]:
        """Compute the value in its own units, and name the estimator.

        NaN if proportions that may be 0 divide too much of it.
        """
        sampling = self.sampling
        raw, noise = sampling.kernel.solve(observed.reshape(self.shape)), sampling.mechanism_noise(observed)
        if self.name == "correlation":
            expansion = statistics.pearson_correlation(raw, self.pair)
            return float(np.clip(expansion.value - expansion.bias(noise), -1.0, 1.0)), _OF_RECORDS
        likeliest = likeliest_table(raw.ravel(), sampling.noise(observed))
        if self.name not in ("chi-square", "cramers-v"):
            least = -log(raw.size) if self.name == "entropy" else 0.0
            return self.shown(_kept(self.without_noise(observed), self.number(likeliest), least)), _OF_RECORDS
        known = ClearCategories.of(sampling, observed, noise)
        most = self.shown(min(self.shape) - 1.0)
        if known.left_out > _FEW and limits[1] - limits[0] > _WIDE * most:
            return nan, _MAY_BE_EMPTY
        rest = "" if known.left_out * sampling.n < 1 else _WITHOUT
        expansion = statistics.phi_squared(raw, known.cells)
        whole = statistics.phi_squared(likeliest.reshape(self.shape), known.cells).value
        number = _kept(expansion.value - expansion.bias(noise), whole)
        if self.name == "chi-square":
            return self.shown(number), _OF_RECORDS + rest
        added = prod(int(np.sum(clear)) - 1 for clear in known.clear) / (sampling.n - 1)
        return float(np.clip(self.shown(number - added), *limits)), f"bias-corrected{rest}"

    def without_noise(self, observed: FloatArray) -> float:
        """Compute −H or I of the true records in nats.

        The bias from the mechanism's noise is removed.
        """
        sampling = self.sampling
        sums = np.eye(sampling.kernel.cells)
        signs = np.ones(len(sums))
        if self.name != "entropy":
            shape = (self.shape[0], self.shape[1])
            margins = np.concatenate([statistics.row_sums(shape), statistics.column_sums(shape)])
            sums, signs = np.concatenate([sums, margins]), np.append(signs, -np.ones(len(margins)))
        variances = np.einsum("ij,jk,ik->i", sums, sampling.mechanism_noise(observed), sums, optimize=True)
        return statistics.x_ln_x(sums @ sampling.kernel.solve(observed.reshape(self.shape)).ravel(), variances, signs)

    def projected(self, observed: FloatArray) -> float:
        """Compute the statistic of the projected estimate in its own units."""
        return self.shown(self.number(projection(self.sampling.kernel.solve(observed.reshape(self.shape)).ravel())))

    def number(self, table: FloatArray) -> float:
        """Compute the quantity of the path for a proper table."""
        # what rounding leaves of an empty row and of an empty column would meet in a cell that counts as n in χ²
        table = np.where(table > NOBODY, table, 0.0).reshape(self.shape)
        if self.name == "entropy":
            return -statistics.entropy(table) * log(2)
        if self.name == "correlation":
            return statistics.pearson_correlation(table, self.pair).value
        if self.name in ("mutual-information", "g-square"):
            return statistics.mutual_information(table) * log(2)
        return statistics.phi_squared(table).value


def _kept(corrected: float, likeliest: float, least: float = 0.0) -> float:
    """Combine the corrected and the projected value, x + (x/y)² (y − x)."""
    whole = likeliest - least
    left = min(max(corrected - least, 0.0), whole)
    return least + left + (left / whole) ** 2 * (whole - left) if whole > 0 else least


# With fewer standard errors than this, only a number that is too small is known.
_MEASURED = 1.0


def clear_with(n: float, errors: float) -> str:
    """State how many records would make an estimate clear of 0.

    n of them show it ``errors`` standard errors above 0.
    """
    wanted = n * (CLEAR_OF_ZERO / max(errors, _MEASURED)) ** 2
    # nearer to 0, its size is unknown, and a number could be wrong by a factor of ten
    return (
        records_enough(wanted) if errors >= _MEASURED else f"more than {two_digits_up(wanted)} records would be needed"
    )


# The covariance of 2048 cells takes 32 MB, and each of some thirty laws multiplies four such matrices.
MAX_CELLS = 2048
# Proportion of the statistic's range above which an interval gets a warning, with the number of records that would
# bring it to the second proportion.
_WIDE, _NARROW = 0.5, 0.25
_LARGER = "give it a larger epsilon"
# Standard errors in a 95 % interval.
_ERRORS_ACROSS = 3.92

_PROJECTED = "projection"
_ALIKE_WARNING = "all reports are equal, so the data show no standard error; count more records"


@dataclass(frozen=True, repr=False)
class Derived(TableResult):
    """A statistic of one attribute set.

    ``value`` is that of the true records, without the noise of the mechanism. It tends to the classical number as ε
    grows, and may lie outside the interval, which is the population's. V is that of the population, bias-corrected.
    ``estimator`` says which it is. It is NaN if nothing is known: if the interval is the statistic's whole range,
    that of a correlation is wide because a variance cannot be distinguished from 0, or that of χ² or V is wide because
    categories that may be empty could hold more than 5 % of people. ``plug_in`` is the statistic of the unbiased
    estimate, projected where the statistic needs it, and ``bias`` its excess over a nearly unbiased one. Entropy and
    mutual information are in bits, χ² and G² on the scale of n records without randomization. ``lower`` and ``upper``
    invert a test. They cover every value that the data leave possible where the statistic divides by a number that
    cannot be distinguished from 0: ``warnings`` then name it, and ``bias`` and the errors are NaN. ``standard_error``
    is that of the estimate without bias under a table that has its value; NaN, too, for V where it cannot be
    distinguished from 0. Each end has half of the error probability, so that a lower limit of χ² or V is above 0 where
    the test of independence has a p-value below 0.025 (at 95 %), while a correlation, which has two sides, leaves out 0
    where its own is below 0.05. Where all reports are equal there is no interval: ``reliable`` is False and a warning
    states the reason. ``scores`` are the numbers that the categories of the ``attributes`` counted as, for a
    correlation.
    """

    statistic: str
    n: int
    value: float = nan
    plug_in: float = nan
    bias: float = nan
    standard_error: float = nan
    lower: float = nan
    upper: float = nan
    confidence: float = 0.95
    reliable: bool = True
    warnings: tuple[str, ...] = ()
    scores: PlainScores | None = None
    estimator: str = ""
    attributes: tuple[str, ...] = ()

    drawn = ("value", "lower", "upper")

    def headline(self) -> str:
        """Summarize the statistic and its interval."""
        interval = f"[{self.lower:.4g}, {self.upper:.4g}]" if self.reliable else "no interval"
        value = "without a value" if isnan(self.value) else f"{self.value:.4g}"
        of = f" of {crossed(self.attributes)}" if self.attributes else ""
        return f"{self.statistic}{of} {value} {interval}, {self.n} records"

    def sentences(self) -> list[str]:
        """Explain the interval, the estimator and the scores."""
        value = [f"value: {self.estimator}"] if self.estimator else []
        scores = told_scores(self.attributes, self.scores)
        unit = "; in bits" if self.statistic in ("entropy", "mutual-information") else ""
        return [f"{intervals_said(self.confidence)}, by inverting a test{unit}", *value, *scores]

    def to_arrow(self) -> "pa.Table":
        """Convert to a table with one row: statistic, value, error and interval."""
        return arrow_rows([self], ("statistic",), ("value", "standard_error", "lower", "upper"))

    def on_page(self, **_beside: Any) -> OneTable:
        """Build the content of the HTML report."""
        of = crossed(self.attributes)
        lead = f"{self.statistic} of {of} from {self.n} randomized records."
        notes = [Text(sentence(line)) for line in self.sentences()]
        return OneTable(
            f"{of}: {self.statistic}", lead, "Statistic", f"{self.statistic} with its interval", notes=notes
        )

    def _axis(self) -> tuple[str, None]:
        return f"{self.statistic}, {intervals_said(self.confidence)}", None


def derive(
    table: EstimatedTable,
    statistic: StatisticName,
    *,
    confidence: float = 0.95,
    scores: GivenScores | None = None,
) -> Derived:
    """Estimate a statistic of a table of the true records with its interval.

    The target is the population.

    Raises InvalidInput for an unknown statistic, a table it cannot have, a confidence that is not between 0 and 1, or scores
    that are not finite numbers. SingularMarginal if the mechanism hides the table.

    Parameters
    ----------
    table
        Table of any attributes for entropy, of two for the others. At most 2048 cells.
    statistic
        one of `STATISTICS`.
    scores
        numbers for the categories of the two attributes, for "correlation": their own where all are numbers, 0..r−1 elsewhere,
        unless given. The result says which they were.
    """
    check_confidence(confidence)
    if statistic not in STATISTICS:
        raise InvalidInput(f"there is no statistic {statistic!r}; choose among {', '.join(STATISTICS)}")
    shape = tuple(map(int, table.domain.sizes))
    if statistic != "entropy" and len(shape) != 2:
        raise InvalidInput(f"``attributes``: {statistic!r} is of two attributes, not {len(shape)}; name two")
    if prod(shape) > MAX_CELLS:
        raise InvalidInput(f"the table has {prod(shape)} cells; derived statistics take at most {MAX_CELLS}")
    check_records(table.n)
    chosen = scores_of_pair(table.domain, scores) if statistic == "correlation" else None
    table.kernel.check_invertible()
    setting = AskedStatistic(statistic, table.domain, table.sampling, chosen)
    observed = table.observed.ravel()
    plain = Derived(
        statistic, table.n, confidence=confidence, scores=plain_scores(chosen), attributes=table.domain.names
    )
    if np.count_nonzero(observed) == 1:
        value = setting.projected(observed)
        return replace(
            plain, value=value, plug_in=value, reliable=False, warnings=(_ALIKE_WARNING,), estimator=_PROJECTED
        )
    limits = _conservative(setting, observed, confidence)
    if limits:
        return replace(plain, plug_in=setting.projected(observed), **limits)
    path = setting.path(observed)
    low, high = interval(path, confidence)
    lower, upper = sorted((setting.shown(low), setting.shown(high)))
    plug_in, unbiased = setting.shown(path.plug_in), setting.shown(path.value)
    # where every value that the statistic has is possible, none of them is an estimate
    value, estimator = (nan, _NOTHING_KNOWN) if (low, high) == path.range else setting.printed(observed, (lower, upper))
    deviation, whole = path.deviation(), path.range[1] - path.range[0]
    if statistic != "cramers-v":
        error = abs(setting.factor) * deviation
    else:
        error = deviation / (2 * (min(setting.shape) - 1) * unbiased) if lower > 0 else nan
    return replace(
        plain,
        value=value,
        plug_in=plug_in,
        bias=plug_in - setting.shown(path.estimate),
        standard_error=error,
        lower=lower,
        upper=upper,
        warnings=_if_wide(setting, (high - low) / whole, deviation / whole),
        estimator=estimator,
    )


def _conservative(setting: AskedStatistic, observed: FloatArray, confidence: float) -> dict[str, Any]:
    """Return fields of the result if a denominator is not distinguishable from 0."""
    tail, value, estimator = (1 - confidence) / 2, nan, _NO_SPREAD
    if setting.name in ("chi-square", "cramers-v"):
        clear = ClearCategories.of(setting.sampling, observed, setting.sampling.noise(observed))
        if clear.cells.all():
            return {}
        # of few people a larger epsilon makes no more
        known = ClearCategories.of(setting.sampling, observed, setting.sampling.mechanism_noise(observed)).clear
        path = setting.path(observed) if clear.cells.any() else None
        limits = phi_squared_limits(path, clear, setting.sampling, observed, tail)
        lower, upper = setting.shown(limits[0]), setting.shown(limits[1])
        value, estimator = setting.printed(observed, (lower, upper))
        warnings = tuple(
            _faint(
                setting,
                f"the proportion of {attribute.name!r} = {attribute.categories[k]!r}",
                float(ratios[k]),
                ("" if of_few[k] else f"{_LARGER}, or ") + "merge it with another category",
            )
            for attribute, ratios, of_few in zip(setting.domain, clear.ratios, known, strict=True)
            for k in np.flatnonzero(ratios < CLEAR_OF_ZERO)
        )
    elif setting.name == "correlation":
        values, errors = score_variances(setting.sampling, observed, setting.pair).T
        if (values >= CLEAR_OF_ZERO * errors).all():
            return {}
        lower, upper = -1.0, 1.0
        warnings = tuple(
            _faint(setting, f"the variance of {name!r}", ratio)
            for name, ratio in zip(setting.domain.names, (values / errors).tolist(), strict=True)
            if ratio < CLEAR_OF_ZERO
        )
    else:
        return {}
    return {"value": value, "lower": lower, "upper": upper, "warnings": warnings, "estimator": estimator}


def _faint(setting: AskedStatistic, what: str, ratio: float, otherwise: str = _LARGER) -> str:
    return (
        f"the interval of {setting.name} is wide, because it holds for any value of {what}, which is less than "
        f"{CLEAR_OF_ZERO:g} standard errors above 0; {clear_with(setting.sampling.n, ratio)}; else {otherwise}"
    )


def _if_wide(setting: AskedStatistic, share: float, errors: float) -> tuple[str, ...]:
    """State how many records would narrow a wide interval.

    ``share`` is the error's proportion of the statistic's range.
    """
    if share <= _WIDE:
        return ()
    said = f"the interval covers {share:.0%} of the range of {setting.name}"

    n = setting.sampling.n * (_ERRORS_ACROSS * errors / _NARROW) ** 2
    return (f"{said}; about {two_digits_up(n)} records, or a larger epsilon, would bring it to {_NARROW:.0%}",)
