"""What an ε means: how sure anybody can become of something about one person, and what it would come to elsewhere.

Whoever believes with probability p that something about a person is true, and then sees a report that costs the person ε nats,
believes it afterwards with a probability between

    p / (p + (1−p) e^ε)    and    p e^ε / (1 − p + p e^ε),

because a report is at most e^ε times as likely under one record as under another, so that Bayes' rule moves the odds by at most
that factor (Kasiviswanathan and Smith, "On the Semantics of Differential Privacy", 2014; for binary answers this is Warner's
randomized response, and both ends are reached). The ε of several reports add up. The sentences speak of people instead of
probabilities; each of their numbers is rounded to the side on which less privacy is promised.

Elsewhere is with somebody who is trusted, or by the classical methods, at the same accuracy or the same ε: four comparisons,
none of which is a promise of this software: a trusted shuffler, a trusted curator, randomized response for one yes/no
question, and no protection at all. Local reports trust nobody but the person's own device; who accepts more trust needs a
smaller ε for the same errors, so each comparison says whom it trusts.

Letters: ε₀ of a local report and ε elsewhere, in nats; n people; r the chance that another person's report is a clone.

Shuffling: by Feldman, McMillan and Talwar, "Hiding Among the Clones" (FOCS 2021), Theorem 3.1, where r n ≥ 16 ln(2/δ),

    ε ≤ ln(1 + (e^ε₀−1)/(e^ε₀+1) · (8 √(ln(4/δ)/(r n)) + 8/(r n))).

Every local report has r = e^−ε₀. Theorem 3.2 of their "Stronger Privacy Amplification by Shuffling" (SODA 2023) has r =
2/(e^ε₀+1), which k-ary randomized response has; subsets, and designs for several attributes, mostly do not.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.optimize import brentq
from scipy.special import log_ndtr

from optrr.core.display import factor_text
from optrr.core.errors import InvalidInput

# Of how many people the sentences may speak.
_PEOPLE = (100, 1_000, 10_000, 100_000, 1_000_000)
# A number of people this near to a whole one is that number, so that 25.000000000000004 people are 25 and not 26. Doubles
# err by less than a millionth of it, and no decision hangs on a billionth of a person.
_WHOLE = 1e-9
# Ten operations or so err by a unit in the last place of a double each; an ε is never said to be smaller than it is.
_OUTWARD = 1 + 2.0**-46
# The same for a root that is searched to a few units in its twelfth digit.
_ROOT = 1e-9
_OTHER = "Another trust model: everybody trusts"
# cells, standard error of a cell's share, and the part of it that is there without any randomizing
WantedErrors = tuple[int, float, float]


def surest(prior: float, epsilon: float, releases: int = 1) -> float:
    """The largest probability to which anybody's belief in a statement about a person can rise from ``prior``.

    Exact but for rounding to doubles, and reached by a report that takes only two values. ``prior`` is the probability before
    any report, above 0 and below 1; the person sends ``releases`` reports of ``epsilon`` nats each, at least 0.

    Raises InvalidInput for values outside these ranges.
    """
    _check_prior(prior)
    return prior / (prior + (1 - prior) * math.exp(-_in_all(epsilon, releases)))


def least(prior: float, epsilon: float, releases: int = 1) -> float:
    """The smallest probability to which a belief can fall; parameters and errors as of :func:`surest`."""
    _check_prior(prior)
    shrunk = prior * math.exp(-_in_all(epsilon, releases))
    return shrunk / (1 - prior + shrunk)


@dataclass(frozen=True)
class Meaning:
    """What a total ε means for somebody with a prior belief, and for somebody who knows all other answers, too.

    ``total`` is the nats of one report on a whole record, of which the person sends ``releases``. ``conditional`` is what one
    attribute's answer gives away to whoever knows all the others, in nats; None where that is not told apart. A value above the
    total counts as the total, which nobody can exceed. Raises as :func:`surest`.
    """

    total: float
    prior: float
    conditional: float | None = None
    releases: int = 1

    def __post_init__(self) -> None:
        _check_prior(self.prior)
        _in_all(self.total, self.releases)
        if self.conditional is not None:
            _check_epsilon(self.conditional)

    @property
    def factor(self) -> str:
        """The factor e^ε by which odds can change over all releases, as text, rounded up."""
        return factor_text(_in_all(self.total, self.releases))

    @property
    def bounds(self) -> tuple[float, float]:
        """Least and surest belief of anybody, after all releases."""
        return least(self.prior, self.total, self.releases), surest(self.prior, self.total, self.releases)

    @property
    def conditional_bounds(self) -> tuple[float, float] | None:
        """Least and surest belief of somebody who knows all other answers, after all releases."""
        if self.conditional is None:
            return None
        spent = min(self.conditional, self.total)
        return least(self.prior, spent, self.releases), surest(self.prior, spent, self.releases)

    @property
    def out_of(self) -> int:
        """Of how many people the sentences speak: the first of 100, 1,000, … of which the prior is a whole number, else 100."""
        for people in _PEOPLE:
            share = self.prior * people
            if round(share) >= 1 and abs(share - round(share)) < _WHOLE:
                return people
        return _PEOPLE[0]

    @property
    def people(self) -> tuple[int, int]:
        """``bounds`` as whole people of ``out_of``: the least rounded down, the surest up."""
        return self._whole(self.bounds)

    @property
    def conditional_people(self) -> tuple[int, int] | None:
        """``conditional_bounds`` as whole people of ``out_of``, rounded in the same way."""
        return None if self.conditional_bounds is None else self._whole(self.conditional_bounds)

    def sentences(self) -> tuple[str, ...]:
        """The same in plain words, for those who are asked."""
        (fewest, most), of = self.people, f"{self.out_of:,}"
        before = f"{self.prior * self.out_of:,.6g} of {of} people like you had done this"
        answers = "your answer" if self.releases == 1 else f"all {self.releases} answers of yours"
        if self.total == 0:
            return (f"Nobody can learn anything about you from {answers}: it is chance alone.",)
        told = [
            f"Somebody who thought {before} can become as sure as {most:,} of {of} after seeing {answers}, never surer.",
            f"They can also come to doubt it, but never more than down to {fewest:,} of {of}.",
            f"Odds are how people bet. What they see can change the odds about you at most by a factor of {self.factor}.",
        ]
        if (knowing := self.conditional_people) is not None:
            told.append(
                f"Somebody who knew all your other answers, and thought {before}, "
                f"ends between {knowing[0]:,} and {knowing[1]:,} of {of}."
            )
        return tuple(told)

    def _whole(self, bounds: tuple[float, float]) -> tuple[int, int]:
        lower, upper = (self.out_of * bound for bound in bounds)
        return math.floor(lower + _WHOLE), math.ceil(upper - _WHOLE)


def _in_all(epsilon: float, releases: int) -> float:
    """What all releases cost together, not rounded below their sum."""
    _check_epsilon(epsilon)
    if not (1 <= releases < math.inf and releases == int(releases)):
        raise InvalidInput(f"{releases} is no number of releases; give a whole number from 1")
    return epsilon if releases == 1 or epsilon == 0 else math.nextafter(epsilon * releases, math.inf)


def _check_epsilon(epsilon: float) -> None:
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise InvalidInput(f"epsilon is {epsilon}; give a finite number of nats from 0")


def _check_prior(prior: float) -> None:
    if not 0 < prior < 1:
        raise InvalidInput(f"the prior belief is {prior}; give a probability above 0 and below 1")


@dataclass(frozen=True)
class Elsewhere:
    """One comparison: under which assumption, which ε (with δ where it is not 0) and which standard errors of a cell's share.

    ``epsilon`` is None where the comparison has none: there is no protection, or the theorem does not reach so far.
    """

    name: str
    assumption: str
    epsilon: float | None
    standard_errors: tuple[float, ...]
    delta: float = 0.0


def shuffled(epsilon: float, n: int, delta: float = 1e-6) -> float | None:
    """Upper bound on the ε, at δ, of n shuffled reports of ``epsilon`` nats each, rounded up; None where r n is too small."""
    _check(epsilon, n, delta)
    rate = math.exp(-epsilon)
    if rate * n < 16 * math.log(2 / delta):
        return None
    spread = 8 * math.sqrt(math.log(4 / delta) / (rate * n)) + 8 / (rate * n)
    return min(epsilon, math.log1p(math.tanh(epsilon / 2) * spread) * _OUTWARD)


def chance_of_failure(n: int) -> float:
    """The δ that comparisons may have: 1e-6, and at most a hundredth of one person among all."""
    return min(1e-6, 0.01 / n)


def curator(tables: Sequence[WantedErrors], n: int, noise: str = "laplace", delta: float = 1e-6) -> float:
    """The ε, rounded up, that a trusted curator needs who adds noise to every count of these tables for the same errors.

    One person's record, exchanged for another, changes two counts of each table by one. Noise of standard deviation
    n√(se² − sampling²) on a table's counts gives its shares their error, and each table gets just the noise it may have, so no
    split of ε is better. With v = n²(se² − sampling²), the sum over the tables is

    - ``laplace``: Σ 2√2/√v (Dwork, McSherry, Nissim and Smith 2006),
    - ``gaussian``, at δ: with μ² = Σ 2/v the ε of Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) = δ (Balle and Wang 2018, Theorem 8).

    A cleverer curator may need less. Raises InvalidInput for errors not above the sampling error, or other noise.
    """
    _check(0.0, n, delta)
    deviations = []
    for cells, error, sampling in tables:
        if cells < 2 or not 0 <= sampling < error < math.inf:
            raise InvalidInput(
                f"a table of {cells} cells with error {error:g}, of which sampling makes {sampling:g}, leaves no room for "
                "noise; give at least 2 cells and an error above the sampling error"
            )
        deviations.append(n * math.sqrt((error - sampling) * (error + sampling)))
    if not deviations:
        raise InvalidInput("there is no table to compare; give at least one")
    if noise == "laplace":
        return math.fsum(2 * math.sqrt(2) / d for d in deviations) * _OUTWARD
    if noise == "gaussian":
        return _gaussian_epsilon(math.sqrt(math.fsum(2 / d**2 for d in deviations)), delta)
    raise InvalidInput(f"{noise!r} is no noise; take 'laplace' or 'gaussian'")


def warner(epsilon: float, n: int, share: float = 0.5) -> tuple[float, float]:
    """p = e^ε/(e^ε+1) of being asked the question and not its opposite (Warner 1965), and the standard error with n people.

    No report on one yes/no question is more accurate at this ε. ``share`` is the true share of yes; ½ is the worst.
    """
    _check(epsilon, n)
    if not 0 <= share <= 1:
        raise InvalidInput(f"the share of yes is {share}; give a number from 0 to 1")
    # the question is answered truly with probability tanh(ε/2), and otherwise by a fair coin
    truth = math.tanh(epsilon / 2)
    yes = truth * share + (1 - truth) / 2
    return (1 + truth) / 2, math.sqrt(yes * (1 - yes) / n) / truth if truth > 0 else math.inf


def comparisons(total: float, n: int, tables: Sequence[WantedErrors], delta: float = 1e-6) -> tuple[Elsewhere, ...]:
    """All comparisons of local reports of ``total`` nats by n people, from which these tables are estimated.

    ``tables`` are (cells, standard error of a cell's share, sampling error in it).
    Raises InvalidInput for values outside the ranges of the single functions.
    """
    errors = tuple(error for _, error, _ in tables)
    but = " but for a chance delta"
    mixed = (
        f"{_OTHER} somebody who mixes all reports and tells nobody whose is which, nor who was asked which question; the "
        f"epsilon holds{but}."
    )
    curated = f"{_OTHER} one place that holds all true records and adds {{}} noise to counts; the epsilon holds{{}}."
    bare = f"{_OTHER} all who see the true answers; only the choice of people makes errors."
    alone = (
        "The same trust model, but only one yes/no question, on which people spend all: chance decides who is asked the "
        "question and who its opposite. Nothing is more accurate."
    )

    central = (
        Elsewhere(
            f"central {noise} noise", curated.format(noise, unless), curator(tables, n, noise.lower(), delta), errors, d
        )
        for noise, d, unless in (("Laplace", 0.0, ""), ("Gaussian", delta, but))
    )
    _, warner_error = warner(total, n)
    return (
        Elsewhere("shuffled reports", mixed, shuffled(total, n, delta), errors, delta),
        *central,
        Elsewhere("Warner's randomized response", alone, total, (warner_error,)),
        Elsewhere("no protection", bare, None, tuple(sampling for *_, sampling in tables)),
    )


def _gaussian_epsilon(mu: float, delta: float) -> float:
    def excess(epsilon: float) -> float:
        first, second = log_ndtr([mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu])
        return float(math.exp(first) - math.exp(epsilon + second)) - delta

    if excess(0.0) <= 0:
        return 0.0
    # zero-concentrated differential privacy gives an ε that is enough (Bun and Steinke 2016, Proposition 1.3)
    enough = mu**2 / 2 + mu * math.sqrt(2 * math.log(1 / delta))
    return float(brentq(excess, 0.0, enough, xtol=1e-14, rtol=1e-12)) * (1 + _ROOT)


def _check(epsilon: float, n: int, delta: float = 0.5) -> None:
    _check_epsilon(epsilon)
    if not (1 <= n < math.inf and n == int(n)):
        raise InvalidInput(f"there are {n} people; give a whole number from 1")
    if not 0 < delta < 1:
        raise InvalidInput(f"delta is {delta}; give a chance above 0 and below 1")
