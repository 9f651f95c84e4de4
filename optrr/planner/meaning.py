"""What an ε means: how sure anybody can become of something about one person, and what it would come to elsewhere.

Whoever believes with probability p that something about a person is true, and then sees a report that costs the person ε nats,
believes it afterwards with a probability between

    p / (p + (1−p) e^ε)    and    p e^ε / (1 − p + p e^ε),

because a report is at most e^ε times as likely under one record as under another, so that Bayes' rule moves the odds by at most
that factor (Kasiviswanathan and Smith, "On the Semantics of Differential Privacy", 2014; for binary answers this is Warner's
randomized response, and both ends are reached). The ε of several reports add up. The sentences speak of people instead of
probabilities; each of their numbers is rounded to the side on which less privacy is promised.

Elsewhere is with a trusted curator, or without any protection: two comparisons, neither of which is a promise of this software.
Local reports trust nobody but the person's own device; whoever accepts more trust needs a smaller ε for the same errors.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from optrr.core.display import factor_text
from optrr.core.errors import InvalidInput

# Of how many people the sentences may speak.
_PEOPLE = (100, 1_000, 10_000, 100_000, 1_000_000)
# A number of people this near to a whole one is that number, so that 25.000000000000004 people are 25 and not 26. Doubles
# err by less than a millionth of it, and no decision hangs on a billionth of a person.
_WHOLE = 1e-9
# Ten operations or so err by a unit in the last place of a double each; an ε is never said to be smaller than it is.
_OUTWARD = 1 + 2.0**-46
# cells, standard error of a cell's share, and the part of it that is there without any randomizing
WantedErrors = tuple[int, float, float]


def surest(prior: float, epsilon: float, releases: int = 1) -> float:
    """Compute the largest posterior probability of a statement about a person.

    The prior is ``prior``.

    Exact but for rounding to doubles, and reached by a report that takes only two values. ``prior`` is the probability before
    any report, above 0 and below 1; the person sends ``releases`` reports of ``epsilon`` nats each, at least 0.

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

    For a prior belief, and for an attacker who knows all other answers.

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
        """Bounds of the belief of an attacker who knows all other answers.

        After all releases.
        """
        if self.conditional is None:
            return None
        spent = min(self.conditional, self.total)
        return least(self.prior, spent, self.releases), surest(self.prior, spent, self.releases)

    @property
    def out_of(self) -> int:
        """Number of people in the sentences: a power of ten from 100 on.

        The first of which the prior is a whole number, else 100.
        """
        for people in _PEOPLE:
            share = self.prior * people
            if round(share) >= 1 and abs(share - round(share)) < _WHOLE:
                return people
        return _PEOPLE[0]

    @property
    def people(self) -> tuple[int, int]:
        """``bounds`` as whole people of ``out_of``, rounded outwards."""
        return self._whole(self.bounds)

    @property
    def conditional_people(self) -> tuple[int, int] | None:
        """``conditional_bounds`` as whole people of ``out_of``, rounded in the same way."""
        return None if self.conditional_bounds is None else self._whole(self.conditional_bounds)

    def sentences(self) -> tuple[str, ...]:
        """State the bounds in plain words for respondents."""
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
    """Sum ε over all releases, not rounded below the sum."""
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


def curator(tables: Sequence[WantedErrors], n: int) -> float:
    """Compute the ε of a trusted curator with the same errors, rounded up.

    Laplace noise on every count of these tables.

    One person's record, exchanged for another, changes two counts of each table by one. Noise of standard deviation
    n√(se² − sampling²) on a table's counts gives its shares their error, and each table gets just the noise it may have, so no
    split of ε is better: Σ 2√2/(n√(se² − sampling²)) over the tables (Dwork, McSherry, Nissim and Smith 2006). Cleverer noise
    may need less.

    Raises InvalidInput for errors not above the sampling error.
    """
    for cells, error, sampling in tables:
        if cells < 2 or not 0 <= sampling < error < math.inf:
            raise InvalidInput(
                f"a table of {cells} cells with error {error:g}, of which sampling makes {sampling:g}, leaves no room for "
                "noise; give at least 2 cells and an error above the sampling error"
            )
    return math.fsum(2 * math.sqrt(2) / (n * math.sqrt((e - s) * (e + s))) for _, e, s in tables) * _OUTWARD
