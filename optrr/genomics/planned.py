"""A scan that is planned: the people in it, and the odds ratios that its test of a variant finds.

People are as in a case-control study. A share φ are cases; controls are in Hardy–Weinberg proportions at the frequency f of the
allele that raises the risk, and its odds ratio ψ multiplies with each copy:

    Pr(g | control) = (2 choose g) f^g (1 − f)^(2 − g),      Pr(g | case) ∝ ψ^g Pr(g | control).

The test is the scan's trend test, of randomized records (:mod:`optrr.genomics.tests`) or of answers about a few variants
(:mod:`optrr.genomics.answers`). Its power is that of :mod:`optrr.models.tests.power_analysis`: from the statistic of the
expected reports and the spread of the score under the effect, and where some report is rare, from surveys drawn for it, with
the scan's own p-values. Drawing also counts the tests that a scan refuses, because too few were asked about a variant. People
needed are by the expected reports alone, to which so many people come close.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq

from optrr.errors import InvalidInput
from optrr.genomics.genotypes import GENOTYPES
from optrr.genomics.sampled_scan import SeenInAnswers
from optrr.genomics.scan import SeenInRecords
from optrr.genomics.tests import GENOME_WIDE
from optrr.models.tests.power_analysis import LARGEST_SURVEY, Alternative, power, required_records
from optrr.tables.distributions import norm
from optrr_solvers.arrays import FloatArray

LEVELS = (0.05, GENOME_WIDE)
# Larger odds ratios are not looked for.
FARTHEST_ODDS = 100.0
# A power that was drawn is near enough to the wanted one; rounds until then; and no drawn power counts as nearer to 0 or 1.
_NEAR, _ROUNDS, _SURE = 0.01, 3, 0.01
# The logarithm of an odds ratio is found to this.
_PRECISION = 1e-3


@dataclass(frozen=True)
class PlannedScan:
    """Who is to be asked, and what is to be seen of them.

    Parameters
    ----------
    people
        how many answer, at least 2.
    cases
        the share of cases among them, above 0 and below 1.
    frequencies
        of the allele that raises the risk, among controls, above 0 and below 1.
    odds_ratio
        per copy, above 1: the people needed are those for it.
    wanted
        power that counts as seeing, above 5 % and below 1.

    Raises
    ------
    InvalidInput
        for numbers outside these ranges.
    """

    people: int
    cases: float = 0.5
    frequencies: tuple[float, ...] = (0.05, 0.2, 0.5)
    odds_ratio: float = 1.3
    wanted: float = 0.8

    def __post_init__(self) -> None:
        if not 2 <= self.people <= LARGEST_SURVEY:
            raise InvalidInput(f"{self.people} people; give at least 2, and at most {LARGEST_SURVEY:.0e}")
        for share, of in ((self.cases, "of cases"), *((f, "of the risk allele") for f in self.frequencies)):
            if not 0 < share < 1:
                raise InvalidInput(f"a share {of} of {share}; give one above 0 and below 1")
        if not self.frequencies:
            raise InvalidInput("no frequency of the risk allele is given; give at least one, such as 0.2")
        if not 1 < self.odds_ratio <= FARTHEST_ODDS:
            raise InvalidInput(f"an odds ratio of {self.odds_ratio}; give one above 1, at most {FARTHEST_ODDS:g}")
        if not max(LEVELS) < self.wanted < 1:
            raise InvalidInput(f"a power of {self.wanted}; give one above {max(LEVELS)} and below 1")

    def table(self, odds_ratio: float, frequency: float) -> FloatArray:
        """Shares of all people by copies of A1 and status, (3, 2); A1 is the rarer allele, the risk or the other one."""
        copies = np.arange(GENOTYPES)
        controls = np.array([1.0, 2.0, 1.0]) * frequency**copies * (1 - frequency) ** (2 - copies)
        tilted = controls * odds_ratio**copies
        table = np.stack([(1 - self.cases) * controls, self.cases * tilted / tilted.sum()], axis=1)
        return table if frequency <= 1 / 2 else table[::-1]


SeenOfVariant = SeenInRecords | SeenInAnswers


def power_seen(test: SeenOfVariant, scan: PlannedScan, odds_ratio: float, frequency: float, level: float) -> float:
    """How likely the scan's p-value is at most the level, for a variant of this odds ratio."""
    return power(test.effect(scan.table(odds_ratio, frequency), scan.people), scan.people, level)


def smallest_odds(test: SeenOfVariant, scan: PlannedScan, frequency: float, level: float) -> float:
    """The smallest odds ratio that is found with the wanted power; infinite beyond `FARTHEST_ODDS`."""

    def effect(log_ratio: float) -> Alternative:
        return test.effect(scan.table(math.exp(log_ratio), frequency), scan.people)

    def missing(log_ratio: float) -> float:
        return scan.wanted - power(replace(effect(log_ratio), surveys=None), scan.people, level)

    if missing(math.log(FARTHEST_ODDS)) > 0:
        return math.inf
    at = float(brentq(missing, 0.0, math.log(FARTHEST_ODDS), xtol=_PRECISION))
    critical, wanted = float(norm.isf(level / 2)), float(norm.ppf(scan.wanted))
    for _ in range(_ROUNDS):
        here = effect(at)
        if here.power_source(scan.people, level) == "limit":
            break
        reached = power(here, scan.people, level)
        if abs(reached - scan.wanted) <= _NEAR:
            break
        # the signal grows about as the logarithm
        at *= (critical + wanted) / (critical + float(norm.ppf(np.clip(reached, _SURE, 1 - _SURE))))
    return math.exp(at) if at <= math.log(FARTHEST_ODDS) else math.inf


def people_needed(test: SeenOfVariant, scan: PlannedScan, frequency: float, level: float) -> float:
    """How many people see the plan's odds ratio with the wanted power; infinite where no survey is large enough."""
    effect = replace(test.effect(scan.table(scan.odds_ratio, frequency)), surveys=None)
    try:
        return required_records(effect, scan.wanted, level)
    except InvalidInput:
        return math.inf
