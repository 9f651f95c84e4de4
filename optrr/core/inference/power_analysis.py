"""Power and required number of records for a given effect and design (theory §4.4).

At a joint distribution π_1 the statistic of expected counts, per record, is the noncentrality δ. The score in the effect's
direction has s times the standard deviation under π_1 that it has by the hypothesis, which matters for strong effects:

    T  ~  (√(nδ) + s Z)² + χ²_{df−1}.

With s = 1 that is noncentral χ². Where some report is rare this law does not hold, and the power is that of the test itself:
see :mod:`optrr.core.inference.drawn_power`. And how many records make the intervals of a table narrow enough.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
from numpy.typing import ArrayLike

from optrr.core.display.result import Result
from optrr.core.domain.domain import Domain, GivenScores, PlainScores, told_scores
from optrr.core.errors import InvalidInput
from optrr.core.estimation.distributions import chi2, norm
from optrr.core.estimation.estimator import check_confidence, estimate
from optrr.core.inference import drawn_power
from optrr.core.inference.associations import Association, association, association_class
from optrr.core.inference.groups import checked_proportions, goodness_tests, homogeneity_statistics
from optrr.core.inference.nullfit import influence
from optrr.core.inference.simulation import Simulation
from optrr.core.mechanisms.kernel import Kernel, unrandomized
from optrr.core.mechanisms.mechanism import Randomizer, checked_mechanism
from optrr.core.records.counts import Counts
from optrr_solvers.arrays import FloatArray

# No survey has more records than this; counts of them are exact doubles.
LARGEST_SURVEY = 10**15
# Statistics per record below this are what rounding leaves of no effect: 10^15 records see none that is not a million times it.
_NO_EFFECT = 1e-20
# Relative distance of numbers of records whose powers drawn surveys cannot distinguish.
_NEAR = 0.01
# A power is taken for no nearer to 0 and 1 where the next number of records is guessed from it.
_SURE = 1e-3
# Guesses that may be wrong before the interval is halved instead.
_GUESSES = 8
# Noncentrality below which it may be a fit's error.
_LEAST_SEEN = 1e-9
# Where statistics alone are wanted.
_ONCE = Simulation(1, 1)
# Angles between −π/2 and π/2, and Gauss and Legendre's weights: integrals are exact to ten digits down to levels of 1e-50.
_ANGLES, _WEIGHTS = (np.pi / 2 * x for x in np.polynomial.legendre.leggauss(400))


@dataclass(frozen=True)
class Alternative:
    """An effect to detect.

    Noncentrality per record, degrees of freedom, and the spread s in its direction (1 under the null).

    ``surveys`` simulate surveys with this effect, for the power where reports are too rare for these three numbers;
    without them power always comes from these.
    """

    noncentrality: float
    df: int
    spread: float
    surveys: drawn_power.Surveys | None = field(default=None, repr=False, compare=False)

    def power_source(self, n: float, level: float) -> drawn_power.Source:
        """Return the source of :func:`power` for n records."""
        return "limit" if self.surveys is None else self.surveys.source(n, level)


def spread_towards(scores: FloatArray, null: FloatArray, expected: FloatArray) -> float:
    """Compute the spread of the most affected combination of scores (K, R).

    See :func:`relative_spread`. 1 without an effect.
    """
    mean = scores @ expected - scores @ null
    covariance = (scores * null) @ scores.T - np.outer(scores @ null, scores @ null)
    weights = np.linalg.lstsq(covariance, mean)[0] @ scores
    return relative_spread(weights, null, expected) if weights @ (expected - null) > _LEAST_SEEN else 1.0


def relative_spread(weights: FloatArray, null: FloatArray, expected: FloatArray) -> float:
    """Compute a standard deviation relative to that under the null.

    Of a sum of weights of reports with probabilities ``expected`` (R,).
    """
    under, true = (law @ weights**2 - (law @ weights) ** 2 for law in (null, expected))
    return float(np.sqrt(true / under))


def alternative_of(
    test: str,
    proportions: ArrayLike,
    kernel: Kernel,
    scores: GivenScores | None = None,
    domain: Domain | None = None,
) -> Alternative:
    """Compute the alternative of a test of association through a mechanism.

    At a true joint distribution (r_a, r_b).

    Parameters
    ----------
    test
        one of `optrr.core.inference.associations.ASSOCIATIONS`.
    proportions
        the truth, (r_a, r_b).
    kernel
        Kernel of the two attributes.
    scores
        the trend's, as in :func:`optrr.test`.
    domain
        the two attributes, whose numbers are the trend's scores where none are given; a kernel knows their sizes only.

    Raises
    ------
    InvalidInput
        where ``proportions`` is not a distribution of the kernel's shape or the table is not one that the test takes, and for a
        trend of more than two categories without scores and domain.
    """
    known = domain is not None or (scores is not None and all(s is not None for s in scores))
    if association_class(test).takes_scores and not known and max(kernel.sizes) > 2:
        raise InvalidInput("a trend counts categories by their numbers; give their domain (domain=) or scores for both")
    if domain is not None and tuple(domain.sizes) != kernel.sizes:
        raise InvalidInput(f"the domain has sizes {tuple(map(int, domain.sizes))}, and the kernel {kernel.sizes}")
    kernel.check_invertible()
    true = checked_proportions(proportions, kernel.sizes, "truth")
    # the form of the statistic is that of the truth
    ((_, plain),) = association(unrandomized(kernel.sizes), test, scores, domain).forms(true[None])
    return association_alternative(true, plain.through(kernel))


def association_alternative(proportions: FloatArray, chosen: Association) -> Alternative:
    """Compute the alternative of a statistic at true proportions."""
    kernel = chosen.kernel
    expected = kernel.expected(proportions)
    seen = chosen.tested(drawn_power.MANY_RECORDS * expected[None])
    null = seen.fit.expected[0]
    spread = spread_towards(influence(seen.fit, kernel, chosen.contrasts)[0], null.ravel(), expected.ravel())

    def tested(tables: FloatArray, _rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        tests = chosen.tested(tables)
        return tests.statistic, tests.p_value

    fewest, clear = float(min(expected.min(), null.min())), chosen.clear_from(seen.fit, expected)
    draws = (drawn_power.drawn_from(expected), drawn_power.drawn_from(null))
    surveys = drawn_power.Surveys(draws[0], tested, seen.df, fewest, chosen.work, draws[1], clear)
    return Alternative(float(seen.statistic[0]) / drawn_power.MANY_RECORDS, seen.df, spread, surveys)


def goodness_alternative(proportions: ArrayLike, hypothesis: ArrayLike, kernel: Kernel) -> Alternative:
    """Compute the alternative of a goodness-of-fit test.

    The test is of ``hypothesis``, the truth is ``proportions``.

    Raises InvalidInput if one of them is not a distribution of the kernel's shape.
    """
    kernel.check_invertible()
    true, null = (_reports(p, kernel) for p in (proportions, hypothesis))
    # where a report is impossible by the hypothesis, one is enough to reject
    spread = spread_towards(np.diag(1 / null), null, true) if null.min() > 0 else 1.0
    noncentrality, df = float(np.sum((true - null) ** 2 / null)), kernel.cells - 1
    fewest = float(min(true.min(), null.min()))

    def tested(tables: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        tests = goodness_tests(tables, null, rng, _ONCE)
        return tests.statistic, tests.p_value

    surveys = drawn_power.Surveys(
        drawn_power.drawn_from(true), tested, df, fewest, true.size, drawn_power.drawn_from(null)
    )
    return Alternative(noncentrality, df, spread, surveys)


def homogeneity_alternative(
    groups: Sequence[ArrayLike], kernel: Kernel, shares: ArrayLike | None = None
) -> Alternative:
    """Compute the alternative of the test of homogeneity.

    Groups have these true proportions.

    ``shares`` of the groups among all records are alike unless given. Raises InvalidInput for fewer than two groups,
    invalid proportions or shares, or another number of shares than groups.
    """
    count = len(groups)
    kernel.check_invertible()
    weights = np.full(count, 1 / count) if shares is None else np.asarray(shares, dtype=np.float64)
    if count < 2 or weights.shape != (count,):
        raise InvalidInput(f"{count} groups with {weights.size} shares; give at least two groups, and a share for each")
    if not (weights.min() > 0 and np.isclose(weights.sum(), 1)):
        raise InvalidInput(f"the groups' shares are {weights.tolist()}; give positive ones that sum to 1")
    expected, weights = np.stack([_reports(p, kernel) for p in groups]), weights / weights.sum()
    tables = np.rint(drawn_power.MANY_RECORDS * weights[:, None] * expected).astype(np.int64)
    statistic, (common,) = homogeneity_statistics(tables[None])
    common = common / common.sum(axis=1, keepdims=True)
    # in the direction in which the groups' reports differ from those that they have in common
    away = expected / common - 1
    under, own = (
        weights @ np.sum(law * away**2 - law * np.sum(law * away, axis=1, keepdims=True) ** 2, axis=1)
        for law in (common, expected)
    )
    spread = float(np.sqrt(own / under)) if under > _LEAST_SEEN else 1.0

    def draw(law: FloatArray, n: int, size: int, rng: np.random.Generator) -> FloatArray:
        sizes = np.maximum(np.diff(np.rint(n * np.cumsum([0.0, *weights]))), 1).astype(np.int64)
        return rng.multinomial(sizes[None], law[None], size=(size, count)).astype(np.float64)

    def tested(drawn: FloatArray, _rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        each = homogeneity_statistics(drawn.astype(np.int64))[0]
        return each, np.asarray(chi2.sf(each, df))

    cells = expected.shape[1]
    df, fewest = (count - 1) * (cells - 1), float((weights[:, None] * np.minimum(expected, common)).min())
    surveys = drawn_power.Surveys(partial(draw, expected), tested, df, fewest, count * cells, partial(draw, common))
    return Alternative(float(statistic[0]) / int(tables.sum()), df, spread, surveys)


def _reports(proportions: ArrayLike, kernel: Kernel) -> FloatArray:
    """Compute probabilities (R,) of reports at these true proportions."""
    expected = kernel.expected(checked_proportions(proportions, kernel.sizes, "truth")).ravel()
    return np.asarray(expected / expected.sum())


def power(effect: Alternative, n: float, level: float = 0.05) -> float:
    """Compute the probability that n records reject at this level.

    Parameters
    ----------
    effect
        the effect to detect, as the test sees it: :func:`optrr.core.inference.alternative_of` makes it from true
        proportions.
    n
        number of records.
    level
        Level of the test, above 0 and below 1.

    Raises
    ------
    InvalidInput
        for a negative n, or a level that is not above 0 and below 1.
    """
    return predicted_power(effect, n, level).power


def predicted_power(effect: Alternative, n: float, level: float = 0.05) -> drawn_power.PredictedPower:
    """Compute :func:`power` with its source and simulation error."""
    if not n >= 0:
        raise InvalidInput(f"``n``: {n}; give a number of records of at least 0")
    if not 0 < level < 1:
        raise InvalidInput(f"``alpha``: {level}; give a number above 0 and below 1, such as 0.05")
    if effect.surveys is not None and effect.power_source(n, level) != "limit":
        return effect.surveys.power(int(n), level)
    return drawn_power.PredictedPower(_limit_power(effect, n, level), "limit")


def _limit_power(effect: Alternative, n: float, level: float) -> float:
    bound, mean, s = float(chi2.isf(level, effect.df)) ** 0.5, float(n * effect.noncentrality) ** 0.5, effect.spread
    alone = float(norm.sf((bound - mean) / s) + norm.cdf((-bound - mean) / s))
    if effect.df == 1:
        return alone
    # where the effect's own direction does not reach the bound, at bound · sin(angle), the other directions have to
    chance = norm.pdf((bound * np.sin(_ANGLES) - mean) / s) / s * bound * np.cos(_ANGLES)
    return alone + float(_WEIGHTS @ (chance * chi2.sf((bound * np.cos(_ANGLES)) ** 2, effect.df - 1)))


def required_records(effect: Alternative, wanted: float = 0.8, level: float = 0.05) -> int:
    """Find a number of records with the required power, while n − 1 has less.

    It is the smallest number if power increases in n.

    Power that is drawn has steps and errors, so that a few more records may have a little less of it: the number is then within
    1 % of one that does not reach it.

    Raises
    ------
    InvalidInput
        if there is no effect, or no survey is large enough.
    """
    if not 0 < level < 1:
        raise InvalidInput(f"``alpha``: {level}; give a number above 0 and below 1, such as 0.05")
    if not level < wanted < 1:
        raise InvalidInput(f"``power``: {wanted}; give a number above the level {level} and below 1")
    if effect.noncentrality < _NO_EFFECT:
        raise InvalidInput(
            "``truth``: the proportions satisfy the null hypothesis, so there is no effect to detect; give other "
            "proportions"
        )
    if _limit_power(effect, LARGEST_SURVEY, level) < wanted:
        raise InvalidInput("this effect cannot be detected through this mechanism with 10^15 records; randomize less")
    start = _bisected(lambda n: _limit_power(effect, n, level) >= wanted, 0, LARGEST_SURVEY)
    if effect.power_source(start, level) == "limit":
        return start
    return _drawn_records(effect, wanted, level, start)


def _drawn_records(effect: Alternative, wanted: float, level: float, start: int) -> int:
    """Find a sufficient number of records within `_NEAR` of an insufficient one.

    Few simulations suffice: quantiles grow about as the square root of n.

    Every guess is half of `_NEAR` beyond the number that the last power suggests, so that good guesses lie on both
    sides.
    """
    low, high, n, guesses = 0, LARGEST_SURVEY, start, 0
    critical = float(norm.isf(level / 2))
    while high - low > max(1, _NEAR * high):
        reached, guesses = power(effect, n, level), guesses + 1
        low, high = (low, n) if reached >= wanted else (n, high)
        quantile = float(norm.ppf(np.clip(reached, _SURE, 1 - _SURE)))
        beyond = 1 + (_NEAR if reached < wanted else -_NEAR) / 2
        n = round(n * beyond * ((critical + float(norm.ppf(wanted))) / (critical + quantile)) ** 2)
        if guesses > _GUESSES or not low < n < high:
            n = (low + high) // 2 if high < LARGEST_SURVEY else 2 * low
    return high


def _bisected(enough: Callable[[int], bool], low: int, high: int) -> int:
    """Bisect between a sufficient ``high`` and an insufficient ``low``."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


# Notes on a power that is not that of the χ² limit.
_SOURCES = {
    "drawn": "from drawn surveys with the test's own p-values: there are too few records for the χ² limit",
    "drawn-limit": "from drawn surveys with p-values of χ², which the test may not reach: some report is rare",
}


@dataclass(frozen=True, repr=False)
class Power(Result):
    """Power of a test of ``attributes`` at level ``alpha`` with ``n`` records.

    ``noncentrality`` is the effect's per record; ``noncentrality_kept`` the proportion of it that randomization leaves,
    and ``noncentrality_bound`` the maximum for a weak effect over all mechanisms of the same total ε. ``power_source``
    states the source of the power (:mod:`optrr.core.inference.drawn_power`), with its ``power_standard_error`` where it
    was drawn.
    """

    attributes: tuple[str, ...]
    test: str
    n: int
    power: float
    alpha: float
    df: int
    noncentrality: float
    noncentrality_kept: float
    noncentrality_bound: float
    power_source: drawn_power.Source
    power_standard_error: float | None = None
    scores: PlainScores | None = None

    drawn = ("power",)

    def row_names(self) -> list[str]:
        """Name the test."""
        return [self.test]

    def headline(self) -> str:
        """Summarize the test, the records and the power."""
        of = " × ".join(self.attributes)
        return f"{self.test} of {of} at level {self.alpha:g}: {self.n} records have power {self.power:.4f}"

    def sentences(self) -> tuple[str, ...]:
        """State the attenuation, the source of the power and its precision."""
        error, most = self.power_standard_error, self.noncentrality_bound
        bound = f"; no mechanism of this total epsilon keeps more than {most:.3g} of a weak effect's"
        return (
            f"of the effect's noncentrality {self.noncentrality_kept:.3g} is kept{bound if most < 1 else ''}",
            *([_SOURCES[self.power_source]] if self.power_source in _SOURCES else []),
            *([] if error is None else [f"standard error of this power {100 * error:.2g} points"]),
            *told_scores(self.attributes, self.scores),
        )


@dataclass(frozen=True, repr=False)
class Widths(Result):
    """Number ``n`` of records at which no interval exceeds ``width``.

    ``widest`` is the widest interval of the table.
    """

    attributes: tuple[str, ...]
    n: int
    width: float
    widest: float
    confidence: float
    simultaneous: bool

    drawn = ("widest",)

    def headline(self) -> str:
        """Summarize the records and intervals."""
        together = " together" if self.simultaneous else ""
        return (
            f"{self.n} records: no {100 * self.confidence:g}% interval{together} of a cell of {' × '.join(self.attributes)} is "
            f"wider than {self.width:g}, where reports are as expected"
        )


# Fewer records have no standard error.
_FEWEST = 2
# Decimals of a remainder: the rounding of n π_i is below these up to 10^9 records.
_REMAINDER_DIGITS = 6


@dataclass(frozen=True, eq=False)
class IntervalWidths:
    """Intervals of `estimate` for the table of ``domain``.

    Reports are as expected at true ``proportions``.

    Raises InvalidInput for invalid proportions or an invalid confidence. SingularMarginal if the mechanism hides the
    attribute set.
    """

    domain: Domain
    mechanism: Randomizer
    proportions: ArrayLike
    confidence: float = 0.95
    simultaneous: bool = False

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        checked_proportions(self.proportions, self._kernel.sizes, "truth")
        self._kernel.check_invertible()

    @cached_property
    def _kernel(self) -> Kernel:
        return checked_mechanism(self.mechanism).kernel(self.domain.names)

    @cached_property
    def _expected(self) -> FloatArray:
        return self._kernel.expected(self.proportions)

    def widest(self, n: int) -> float:
        """Compute the widest interval of a cell from n expected reports.

        They are rounded to counts that sum to n.
        """
        exact = n * self._expected.ravel()
        counts = np.floor(exact).astype(np.int64)
        # the largest remainders are rounded up, the first of equal ones first
        short = n - int(counts.sum())
        counts[np.argsort(np.round(counts - exact, _REMAINDER_DIGITS), kind="stable")[:short]] += 1
        made = Counts(self.domain, counts.reshape(self._expected.shape))
        out = estimate(made, self.mechanism, confidence=self.confidence, simultaneous=self.simultaneous)
        return float(np.max(out.upper - out.lower))

    def enough(self, width: float) -> Widths:
        """Return the result of :meth:`records`."""
        n = self.records(width)
        return Widths(self.domain.names, n, width, self.widest(n), self.confidence, self.simultaneous)

    def records(self, width: float) -> int:
        """Find the number of records at which the widest interval suffices.

        With one record fewer it does not.

        Counts are whole, so that the widest interval jumps up wherever one more rare report is expected: with a few records
        more it may be wider again.

        Raises InvalidInput for a width that is not above 0 and below 1, or where 10^15 records are not enough.
        """
        if not 0 < width < 1:
            raise InvalidInput(f"``width``: {width}; give a number above 0 and below 1, such as 0.05")
        high = _FEWEST
        while self.widest(high) > width:
            if high == LARGEST_SURVEY:
                raise InvalidInput(
                    f"even 10^15 records do not make intervals as narrow as {width} through this mechanism; randomize "
                    "less"
                )
            high = min(2 * high, LARGEST_SURVEY)
        return high if high == _FEWEST else _bisected(lambda n: self.widest(n) <= width, high // 2, high)
