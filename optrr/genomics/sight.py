"""What designs can see, before anybody is asked: how much of a test is left, and which odds ratios it finds.

Ways to ask about the same variants at the same total are compared, and one sentence says what cannot be had, and with how many
variants or at which ε it could. People are as in a case-control study. A share φ are cases; controls are in Hardy–Weinberg
proportions at the frequency f of the allele that raises the risk, and its odds ratio ψ multiplies with each copy:

    Pr(g | control) = (2 choose g) f^g (1 − f)^(2 − g),      Pr(g | case) ∝ ψ^g Pr(g | control).

The test is the scan's trend test, of randomized records (:mod:`optrr.genomics.tests`) or of answers about a few variants
(:mod:`optrr.genomics.sampled_scan`). Its power is that of :mod:`optrr.models.tests.power_analysis`: from the statistic of the
expected reports and the spread of the score under the effect, and where some report is rare, from surveys drawn for it, with
the scan's own p-values. Drawing also counts the tests that a scan refuses, because too few were asked about a variant. People
needed are by the expected reports alone, to which so many people come close.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import brentq

from optrr.designs.design import Design
from optrr.errors import InvalidInput
from optrr.genomics.designing import Budget, Wanted, genomic_design, sampled_variants
from optrr.genomics.genotypes import GENOTYPES
from optrr.genomics.layout import layout_of, star_kernel
from optrr.genomics.sampled_scan import answers_fit, answers_test
from optrr.genomics.sampled_variants import MOST_EACH, SampledVariants, Told, one_cell
from optrr.genomics.tests import GENOME_WIDE, score_test
from optrr.mechanisms.kernel import Kernel, unrandomized
from optrr.models.tests.drawn_power import FIT_WORK, Surveys, drawn_from
from optrr.models.tests.power_analysis import (
    LARGEST_SURVEY,
    Alternative,
    alternative,
    power,
    relative_spread,
    required_records,
)
from optrr.models.tests.testing import genotype_test
from optrr.show.result import TableResult, arrow_rows, in_json
from optrr.show.text import amount
from optrr.tables.distributions import norm
from optrr_solvers.arrays import FloatArray
from optrr_solvers.problem import EPSILON_RANGE

if TYPE_CHECKING:
    import pyarrow as pa

WAYS = ("optimum", "pairs", "association")
# Where no odds ratio below this one is seen, the scan is said to be in vain.
USEFUL_ODDS = 5.0
# Pairs of so many variants and the status are kept within seconds.
_MOST_PAIRS = 2000
# An ε that is proposed is rounded up to this.
_STEP = 0.1
LEVELS = (0.05, GENOME_WIDE)
# People of whom answers are expected: so many that shares are as good as exact.
_MANY = 1e12
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


@dataclass(frozen=True, eq=False)
class SeenInRecords:
    """The trend test of a variant in whole records, through the kernel of genotype and status."""

    kernel: Kernel

    @classmethod
    def of(cls, design: Design) -> SeenInRecords:
        """Of the variant whose association with the status is seen about as well as half of them.

        Raises InvalidInput for associations that cannot be seen.
        """
        layout = layout_of(design.domain)
        kernel = star_kernel(design.law, layout.attributes, layout.status)
        order = np.argsort(np.abs(kernel.eigenvalues[:, 1, 1]), kind="stable")
        return cls(kernel.part(int(order[order.size // 2])))

    def effect(self, table: FloatArray, _people: float = 0.0) -> Alternative:
        """What the test sees of these shares (3, 2), whatever the number of people."""
        longer = np.pad(table, ((0, self.kernel.sizes[0] - GENOTYPES), (0, 0)))
        limit = alternative(longer, self.kernel, *genotype_test("trend"))
        law = self.kernel.expected(longer)

        def test(tables: FloatArray, _rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
            scores = score_test(tables, self.kernel)
            return scores.statistic, scores.p_value

        return replace(limit, surveys=Surveys(drawn_from(law), test, 1, float(law[law > 0].min()), 4 * FIT_WORK))


@dataclass(frozen=True, eq=False)
class SeenInAnswers:
    """The trend test by likelihood, of answers about a variant.

    ``channel`` (Y, 6) and ``status_channel`` (2, 2) are as in :class:`optrr.genomics.sampled_variants.Told`; ``asked`` is the
    share of people who answer about the variant, and ``others`` of those who tell about the status alone.
    """

    channel: FloatArray
    status_channel: FloatArray
    asked: float
    others: float

    @classmethod
    def of(cls, asking: SampledVariants) -> list[SeenInAnswers]:
        """One for each report."""
        others = asking.status_share if asking.reports else 1 - asking.asked_share
        blank = [asking.answers(k, np.empty((0, 0)), np.empty((0, 2))) for k in range(max(len(asking.reports), 1))]
        return [cls(b.channel, b.status_channel, asking.asked_share, others) for b in blank]

    @classmethod
    def of_cells(cls, each: int, variants: int, epsilon: float) -> SeenInAnswers:
        """Where one cell is named of the status and ``each`` variants."""
        cells = 2 * GENOTYPES**each
        channels = one_cell(cells, 2 * GENOTYPES, epsilon), one_cell(cells, 2, epsilon)
        return cls(*channels, each / variants, 1 - each / variants)

    def among(self, share: float) -> SeenInAnswers:
        """The same questions where fewer variants share them: each is asked about 1/share times as often, up to everybody."""
        asked = self.asked / share
        return replace(self, asked=asked, others=min(self.others, 1 - asked))

    def told(self, counts: FloatArray) -> Told:
        """Counts (B, Y + 2 or more): of answers about the variant, then about the status."""
        own = len(self.channel)
        return Told(counts[:, :own], self.channel, counts[:, own : own + 2], self.status_channel)

    def effect(self, table: FloatArray, people: float = _MANY) -> Alternative:
        """What the test sees of these shares (3, 2); the fewer people, the more its fit is drawn to the prior."""
        own, status = self.channel @ table.ravel(), self.status_channel @ table.sum(axis=0)
        # the last report: of who tells nothing about this variant
        law = np.concatenate([self.asked * own, self.others * status, [max(1 - self.asked - self.others, 0.0)]])
        fit = answers_fit(self.told(people * law[None]), np.zeros(1))
        noncentrality = float(fit.z[0] ** 2 / people) if fit.usable[0] else 0.0
        groups = np.repeat([self.asked, self.others], [len(own), 2])
        null = np.append(groups * fit.chances[0], law[-1])
        spread = relative_spread(np.append(fit.weights[0], 0.0), null, law) if noncentrality > 0 else 1.0

        def test(tables: FloatArray, _rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
            tested = answers_test(self.told(tables))
            return tested.statistic, tested.p_value

        fewest = float(law[:-1][law[:-1] > 0].min())
        return Alternative(noncentrality, 1, spread, Surveys(drawn_from(law), test, 1, fewest, 4 * FIT_WORK))


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


def tests_of(way: Design | SampledVariants) -> list[SeenOfVariant]:
    """The tests that a design's scan makes of a variant, one for each report that a variant may have.

    Raises InvalidInput as :meth:`SeenInRecords.of`.
    """
    return [*SeenInAnswers.of(way)] if isinstance(way, SampledVariants) else [SeenInRecords.of(way)]


@dataclass(frozen=True)
class SightRow:
    """What one ``way`` to ask sees of a risk allele of this ``frequency``.

    ``kept`` is the share of the noncentrality of true records at the odds ratio asked for, from as many people as are planned
    (the fewer answer about a variant, the less their answers know), and ``effective_people`` how many true records would have
    it. ``odds_5pct`` and ``odds_genome_wide`` are the smallest odds ratios seen at 5 % and at 5e-8, and ``people_5pct`` and
    ``people_genome_wide`` how many see the odds ratio asked for; infinite where none are, or do.
    """

    way: str
    frequency: float
    kept: float
    effective_people: float
    odds_5pct: float
    odds_genome_wide: float
    people_5pct: float
    people_genome_wide: float


_NUMBERS = tuple(name for name in SightRow.__dataclass_fields__ if name != "way")


@dataclass(frozen=True, eq=False, repr=False)
class Sight(TableResult):
    """What some ways to ask see: ``rows``, and one sentence on what cannot be had, or can, in ``said``.

    ``unavailable`` says why there is no row of a way.
    """

    scan: PlannedScan
    variants: int
    epsilon: float
    rows: tuple[SightRow, ...]
    said: str
    unavailable: Mapping[str, str]

    in_summary = ("variants", "epsilon", "said", "unavailable", "scan")
    drawn = ("odds_genome_wide",)

    def _keys(self) -> int:
        return 2

    def headline(self) -> str:
        """What can be seen, or cannot."""
        return self.said

    def summary(self) -> dict[str, Any]:
        """The command line's JSON object, with the rows; infinite numbers are null."""
        return super().summary() | {"rows": [in_json(vars(row)) for row in self.rows]}

    def to_arrow(self) -> pa.Table:
        """One row for each way and frequency."""
        return arrow_rows(self.rows, ("way",), _NUMBERS)


def compared_ways(
    wanted: Wanted,
    total: float,
    cases: float | None = None,
    made: Mapping[str, Design | SampledVariants] | None = None,
) -> dict[str, Design | SampledVariants | str]:
    """The ways of `WAYS` to ask about these variants at a total ε, or why there is none; seconds for each.

    Parameters
    ----------
    wanted
        the variants; its method and whether it keeps pairs are not used.
    total
        nats.
    cases
        the share of cases that the questions for association are made for.
    made
        ways that are there already, which come first.
    """
    out: dict[str, Design | SampledVariants | str] = dict(made or {})
    for name in WAYS:
        if name in out:
            continue
        pairs = name == "pairs"
        try:
            if name == "association":
                out[name] = sampled_variants(wanted.names, total, alleles=wanted.alleles, cases=cases)
            elif pairs and len(wanted.names) > _MOST_PAIRS:
                out[name] = f"pairs are compared up to {amount(_MOST_PAIRS, 'variant')}"
            else:
                out[name] = genomic_design(replace(wanted, preserve_pairs=pairs, method="auto"), Budget(total))
        except InvalidInput as error:
            out[name] = str(error)
    return out


def sight(ways: Mapping[str, Design | SampledVariants | str], scan: PlannedScan) -> Sight:
    """What these ways to ask about the same variants at the same total see; a second or two for each.

    Parameters
    ----------
    ways
        designs by name, at least one, or in their place why there is none.
    """
    rows: list[SightRow] = []
    unavailable = {name: way for name, way in ways.items() if isinstance(way, str)}
    made = {name: way for name, way in ways.items() if not isinstance(way, str)}
    if not made:
        raise InvalidInput("there is no design to look through; give at least one")
    for name, way in made.items():
        try:
            tests = tests_of(way)
        except InvalidInput as error:
            unavailable[name] = str(error)
            continue
        rows += [_row(name, tests, scan, frequency) for frequency in scan.frequencies]
    first = next(iter(made.values()))
    names = first.names if isinstance(first, SampledVariants) else layout_of(first.domain).names
    total = max(way.epsilon for way in made.values())
    return Sight(scan, len(names), total, tuple(rows), _sentence(rows, len(names), total, made, scan), unavailable)


def _row(name: str, tests: list[SeenOfVariant], scan: PlannedScan, frequency: float) -> SightRow:
    """By the report that sees most of a variant of this frequency, as it is made for it where frequencies are known."""
    table, n = scan.table(scan.odds_ratio, frequency), scan.people
    test = max(tests, key=lambda one: one.effect(table).noncentrality)
    whole = SeenInRecords(unrandomized((GENOTYPES, 2))).effect(table).noncentrality
    kept = test.effect(table, n).noncentrality / whole
    odds, needed = ([f(test, scan, frequency, level) for level in LEVELS] for f in (smallest_odds, people_needed))
    return SightRow(name, frequency, kept, kept * n, *odds, *needed)


def _sentence(
    rows: list[SightRow], variants: int, total: float, ways: Mapping[str, Design | SampledVariants], scan: PlannedScan
) -> str:
    best = min(rows, key=lambda row: row.odds_genome_wide, default=None)
    what = f"{amount(f'{variants:,}', 'variant')} at ε = {total:.3g}, {scan.people:,} people, {100 * scan.cases:.3g} % cases"
    if best is not None and best.odds_genome_wide < USEFUL_ODDS:
        return (
            f"{what}: odds ratios from {best.odds_genome_wide:.3g} on are seen at 5e-8 (best by {best.way}, at frequency "
            f"{best.frequency:g}), smaller ones are missed more often than in {100 * (1 - scan.wanted):.3g} % of scans"
        )
    remedies = []
    asked = [way for way in ways.values() if isinstance(way, SampledVariants)]
    if fewer := max((_most_variants(way, scan) for way in asked), default=0):
        remedies.append(f"ask about {fewer:,} at most (--for association)")
    if math.isfinite(enough := _enough_epsilon(variants, total, scan)):
        remedies.append(f"raise ε to {enough:.3g} (--for association)")
    nothing = "" if math.isfinite(enough) else f"; no ε up to {EPSILON_RANGE[1]:g} is enough for so many"
    least = best.odds_genome_wide if best is not None else math.inf
    seen = f", the smallest is {least:.3g}" if math.isfinite(least) else ""
    how = ", or ".join(remedies) or "ask more people"
    return f"{what}: no odds ratio below {USEFUL_ODDS:g} is seen at 5e-8{seen}; {how}{nothing}"


def _useful(tests: Sequence[SeenOfVariant], scan: PlannedScan) -> bool:
    """Whether an odds ratio of `USEFUL_ODDS` is seen at 5e-8 at some frequency."""
    tables = [scan.table(USEFUL_ODDS, f) for f in scan.frequencies]
    effects = (replace(test.effect(table, scan.people), surveys=None) for test in tests for table in tables)
    return any(power(effect, scan.people, GENOME_WIDE) >= scan.wanted for effect in effects)


def _most_variants(asking: SampledVariants, scan: PlannedScan) -> int:
    """How many variants, fewer than now, may share these questions so that the scan is of use; 0 where none may."""
    tests, count = SeenInAnswers.of(asking), len(asking.names)
    numbers = range(asking.each, count)
    many = bisect_left(numbers, True, key=lambda v: not _useful([t.among(v / count) for t in tests], scan))
    return numbers[many - 1] if many else 0


def _enough_epsilon(variants: int, total: float, scan: PlannedScan) -> float:
    """Above the total, an ε at which a scan of that many is of use where one cell is named; infinite where none up to 50 is."""
    each = range(1, min(variants, MOST_EACH) + 1)
    steps = range(math.floor(total / _STEP) + 1, round(EPSILON_RANGE[1] / _STEP) + 1)

    def enough(step: int) -> bool:
        return _useful([SeenInAnswers.of_cells(k, variants, _STEP * step) for k in each], scan)

    at = bisect_left(steps, True, key=enough)
    return _STEP * steps[at] if at < len(steps) else math.inf
