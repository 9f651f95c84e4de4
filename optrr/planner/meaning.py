"""What ε means: how much a report can change an attacker's belief about one person.

An attacker believes with probability p that a statement about a person is true, and then sees a report of privacy
budget ε. By Bayes' rule, the probability afterwards is between

    p / (p + (1−p) e^ε)    and    p e^ε / (1 − p + p e^ε),

because a report is at most e^ε times as likely under one record as under another, so that the odds change by at most
that factor (Kasiviswanathan and Smith, "On the Semantics of Differential Privacy", 2014; for binary answers this is
Warner's randomized response, which attains both ends). The ε of several reports add up. The sentences count people
instead of stating probabilities, and each number is rounded to the side of less privacy.

:func:`curator` compares with a trusted curator. The comparison is not a promise of this software: local reports require
trust in the person's own device only, and more trust allows a smaller ε for the same errors.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from optrr.core.display import factor_text
from optrr.core.errors import InvalidInput

# Numbers of people in which the sentences may count.
_PEOPLE = (100, 1_000, 10_000, 100_000, 1_000_000)
# A number of people this near to a whole one is that number, so that 25.000000000000004 people are 25 and not 26. Doubles
# err by less than a millionth of it, and no decision hangs on a billionth of a person.
_WHOLE = 1e-9
# Number of people below which a sentence says "almost 0".
_NEARLY_NONE = 1e-3
# Factor that covers about ten rounding errors of doubles, so that an ε is never understated.
_OUTWARD = 1 + 2.0**-46
# number of cells, standard error of a cell's proportion, and the part of it that comes from sampling
WantedErrors = tuple[int, float, float]


def surest(prior: float, epsilon: float, releases: int = 1) -> float:
    """Compute the largest posterior probability of a statement about a person.

    It is exact up to rounding to doubles, and attained by a report with only two values. ``prior`` is the probability
    before any report, above 0 and below 1; the person sends ``releases`` reports of ``epsilon`` nats each, at least 0.

    Raises InvalidInput for values outside these ranges.
    """
    _check_prior(prior)
    return prior / (prior + (1 - prior) * math.exp(-_in_all(epsilon, releases)))


def least(prior: float, epsilon: float, releases: int = 1) -> float:
    """Compute the smallest posterior probability; see :func:`surest`."""
    _check_prior(prior)
    shrunk = prior * math.exp(-_in_all(epsilon, releases))
    return shrunk / (1 - prior + shrunk)


@dataclass(frozen=True)
class Meaning:
    """Effect of a total ε on an attacker's belief.

    ``total`` is the ε in nats of one report on a whole record, and the person sends ``releases`` of them.
    ``conditional`` is the ε in nats of one attribute against an attacker who knows all other answers, or None if it is
    not stated separately. A value above the total counts as the total, which bounds it. Raises as :func:`surest`.
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
        """Bounds of the belief of an attacker who knows all other answers.

        They hold after all releases; None without ``conditional``.
        """
        if self.conditional is None:
            return None
        spent = min(self.conditional, self.total)
        return least(self.prior, spent, self.releases), surest(self.prior, spent, self.releases)

    @property
    def out_of(self) -> int:
        """Number of people in the sentences.

        The smallest power of ten, from 100 on, of which the prior is a whole number; otherwise 100.
        """
        for people in _PEOPLE:
            share = self.prior * people
            if round(share) >= 1 and abs(share - round(share)) < _WHOLE:
                return people
        return _PEOPLE[0]

    @property
    def people(self) -> tuple[int, int]:
        """Bounds as whole people of ``out_of``, rounded outwards."""
        return self._whole(self.bounds)

    @property
    def conditional_people(self) -> tuple[int, int] | None:
        """Conditional bounds as whole people of ``out_of``, rounded outwards."""
        return None if self.conditional_bounds is None else self._whole(self.conditional_bounds)

    def sentences(self) -> tuple[str, ...]:
        """State the bounds in plain words for respondents."""
        most, of = self.people[1], f"{self.out_of:,}"
        before = f"{self.prior * self.out_of:,.6g} of {of} people like you"
        answers = "your answer" if self.releases == 1 else f"all {self.releases} of your answers"
        if self.total == 0:
            return (f"Nobody can learn anything about you from {answers}: only chance decides what is sent.",)
        told = [
            (
                f"Suppose someone thinks that {before} have done something. After they see {answers}, they can put the "
                f"chance that you did it at {most:,} in {of} at most."
            ),
            f"They cannot put it below {self._at_least(self.bounds[0])} in {of}.",
            (
                "The odds are the chance that you did it, divided by the chance that you did not. They can change by a "
                f"factor of {self.factor} at most."
            ),
        ]
        if (knowing := self.conditional_people) is not None and self.conditional_bounds is not None:
            lower = self.conditional_bounds[0]
            told.append(
                f"If someone also knows all your other answers, the chance stays between {self._at_least(lower)} "
                f"and {knowing[1]:,} in {of}."
            )
        return tuple(told)

    def _at_least(self, bound: float) -> str:
        """Write a lower bound as people of ``out_of``, rounded down; below one person with two digits."""
        people = self.out_of * bound
        if people + _WHOLE >= 1:
            return f"{math.floor(people + _WHOLE):,}"
        if people < _NEARLY_NONE:
            return "almost 0"
        step = 10.0 ** (math.floor(math.log10(people)) - 1)
        return f"{math.floor(people / step + _WHOLE) * step:.2g}"

    def _whole(self, bounds: tuple[float, float]) -> tuple[int, int]:
        lower, upper = (self.out_of * bound for bound in bounds)
        return math.floor(lower + _WHOLE), math.ceil(upper - _WHOLE)


def _in_all(epsilon: float, releases: int) -> float:
    """Sum ε over all releases, not rounded below the sum."""
    _check_epsilon(epsilon)
    if not (1 <= releases < math.inf and releases == int(releases)):
        raise InvalidInput(f"releases: {releases} is not a number of releases; give a whole number of at least 1")
    return epsilon if releases == 1 or epsilon == 0 else math.nextafter(epsilon * releases, math.inf)


def _check_epsilon(epsilon: float) -> None:
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise InvalidInput(f"epsilon: {epsilon} is not a privacy budget; give a finite number of nats, 0 or more")


def _check_prior(prior: float) -> None:
    if not 0 < prior < 1:
        raise InvalidInput(f"prior: {prior} is not a belief; give a probability above 0 and below 1")


def curator(tables: Sequence[WantedErrors], n: int) -> float:
    """Compute the ε of a trusted curator with the same errors, rounded up.

    The curator adds Laplace noise to every count. Exchanging one person's record changes two counts of each table by
    one. Noise of standard deviation n√(se² − sampling²) on the counts of a table gives its proportions their error, and
    each table gets exactly that noise, so no split of ε is better: Σ 2√2/(n√(se² − sampling²)) over the tables (Dwork,
    McSherry, Nissim and Smith 2006). Other noise distributions may need less.

    Raises InvalidInput for standard errors that do not exceed the sampling error.
    """
    for cells, error, sampling in tables:
        if cells < 2 or not 0 <= sampling < error < math.inf:
            raise InvalidInput(
                f"a table of {cells} cells with standard error {error:g}, of which {sampling:g} is sampling error, "
                "allows no noise; give at least 2 cells and a standard error above the sampling error"
            )
    return math.fsum(2 * math.sqrt(2) / (n * math.sqrt((e - s) * (e + s))) for _, e, s in tables) * _OUTWARD
