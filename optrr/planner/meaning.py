"""What ε means: how much a report can change an attacker's belief about one person.

An attacker believes with probability p that a statement about a person is true, and then sees a report of privacy
budget ε. By Bayes' rule, the probability afterwards is at most

    p e^ε / (1 − p + p e^ε),

because a report is at most e^ε times as likely under one record as under another (Kasiviswanathan and Smith, "On the
Semantics of Differential Privacy", 2014; for binary answers this is Warner's randomized response, which attains it).
The same bound with 1 − p says how far it can fall. The ε of several reports add up. The sentences count people instead
of stating probabilities, rounded up. Values are checked by :class:`optrr.planner.question.Question`.

An ε "protects little" from ln 9 ≈ 2.2 nats over all reports: a belief of 10 of 100 can then become more than 50 of 100.
"""

import math
from dataclasses import dataclass

# Numbers of people in which the sentences may count.
_PEOPLE = (100, 1_000, 10_000, 100_000, 1_000_000)
# A number of people this near to a whole one is that number, so that 25.000000000000004 people are 25 and not 26. Doubles
# err by less than a millionth of it, and no decision hangs on a billionth of a person.
_WHOLE = 1e-9
# Total ε in nats over all releases from which a belief of 10 of 100 can become more than 50 of 100.
PROTECTS_LITTLE = math.log(9)
RULE = (
    "We say that an ε protects little if someone who thinks that something is true of 10 of 100 people like you can be "
    "more than 50 of 100 sure that it is true of you, after seeing what you send. That is so above ε = 2.2 in all."
)


def surest(prior: float, epsilon: float, releases: int = 1) -> float:
    """Compute the largest posterior probability of a statement about a person; exact up to rounding to doubles."""
    return prior / (prior + (1 - prior) * math.exp(-_in_all(epsilon, releases)))


@dataclass(frozen=True)
class Meaning:
    """Effect of a total ε on an attacker's belief.

    ``total`` is the ε in nats of one report on a whole record, and the person sends ``releases`` of them.
    ``conditional`` is the ε in nats of one attribute against an attacker who knows all other answers, or None if it is
    not stated separately. A value above the total counts as the total, which bounds it.
    """

    total: float
    prior: float
    conditional: float | None = None
    releases: int = 1

    @property
    def protects_little(self) -> bool:
        """Whether the reports protect little, by the rule of this module."""
        return _in_all(self.total, self.releases) > PROTECTS_LITTLE

    @property
    def out_of(self) -> int:
        """Number of people in the sentences: a power of ten, from 100 on, of which the prior is a whole number, or 100."""
        shares = {people: self.prior * people for people in _PEOPLE}
        return next((n for n, s in shares.items() if round(s) >= 1 and abs(s - round(s)) < _WHOLE), _PEOPLE[0])

    @property
    def people(self) -> int:
        """Largest belief after all releases, as people of ``out_of``, rounded up."""
        return math.ceil(self.out_of * surest(self.prior, self.total, self.releases) - _WHOLE)

    def sentences(self) -> tuple[str, ...]:
        """State the bound in plain words for respondents: of all releases, then of one."""
        of, seen = f"{self.out_of:,}", "what you send"
        if self.releases > 1:
            seen = f"all {self.releases} answers that you send"
        told = [
            f"Suppose someone thinks that something is true of {self.prior * self.out_of:,.6g} of {of} people like you.",
            f"After seeing {seen}, they can put the chance that it is true of you at {self.people:,} in {of} at most.",
        ]
        if self.releases > 1:
            once = Meaning(self.total, self.prior).people
            told.append(f"After only one of the {self.releases} answers, they can put it at {once:,} in {of} at most.")
        if self.conditional is not None and self.conditional >= self.total:
            told.append("This holds even if they know all your other answers.")
        elif self.conditional is not None:
            knowing = Meaning(self.conditional, self.prior, None, self.releases).people
            told.append(
                f"If it is about one answer, they can put it at {knowing:,} in {of} at most, even if they know all the others."
            )
        return tuple(told)


def _in_all(epsilon: float, releases: int) -> float:
    """Sum ε over all releases, not rounded below the sum."""
    return epsilon if releases == 1 or epsilon == 0 else math.nextafter(epsilon * releases, math.inf)


def meaning_of_rule(total: float, releases: int = 1) -> Meaning:
    """Return the effect of a total on the belief of 10 of 100 that the rule is about."""
    return Meaning(total, 0.1, None, releases)
