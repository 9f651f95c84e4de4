"""What designs can see, before anybody is asked: how much of a test is left, and which odds ratios it finds.

Ways to ask about the same variants at the same total are compared (:mod:`optrr.genomics.planned` has the model and the power),
and one sentence says what cannot be had, and with how many variants or at which ε it could.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from optrr.designs.design import Design
from optrr.errors import InvalidInput
from optrr.genomics.designing import Budget, Wanted, genomic_design
from optrr.genomics.genotypes import GENOTYPES
from optrr.genomics.layout import layout_of
from optrr.genomics.planned import LEVELS, PlannedScan, SeenOfVariant, people_needed, smallest_odds
from optrr.genomics.sampled_design import sampled_variants
from optrr.genomics.sampled_scan import SeenInAnswers
from optrr.genomics.sampled_variants import MOST_EACH, SampledVariants
from optrr.genomics.scan import SeenInRecords
from optrr.genomics.tests import GENOME_WIDE
from optrr.mechanisms.kernel import unrandomized
from optrr.models.tests.power_analysis import power
from optrr.show.result import TableResult, arrow_rows, in_json
from optrr.show.text import amount
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

    def optimum(pairs: bool) -> Design:
        if pairs and len(wanted.names) > _MOST_PAIRS:
            raise InvalidInput(f"pairs are compared up to {amount(_MOST_PAIRS, 'variant')}")
        return genomic_design(replace(wanted, preserve_pairs=pairs, method="auto"), Budget(total))

    def association() -> SampledVariants:
        return sampled_variants(wanted.names, total, alleles=wanted.alleles, cases=cases)

    makers: tuple[Callable[[], Design | SampledVariants], ...] = (
        partial(optimum, False),
        partial(optimum, True),
        association,
    )
    out: dict[str, Design | SampledVariants | str] = dict(made or {})
    for name, make in zip(WAYS, makers, strict=True):
        if name in out:
            continue
        try:
            out[name] = make()
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
