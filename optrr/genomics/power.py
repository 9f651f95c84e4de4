"""Power of designs before data collection: relative noncentrality of a test, and minimum detectable odds ratios.

Protocols for the same variants at the same total are compared, and one sentence states which odds ratios are not
detectable, and with how many variants or at which ε they would be. People are as in a case-control study. A proportion
φ are cases; controls are in Hardy–Weinberg proportions at the frequency f of the allele that raises the risk, and its
odds ratio ψ multiplies with each copy:

    Pr(g | control) = (2 choose g) f^g (1 − f)^(2 − g),      Pr(g | case) ∝ ψ^g Pr(g | control).

The test is the scan's trend test, of randomized records (:mod:`optrr.genomics.score_tests`) or of answers about a few
variants (:mod:`optrr.genomics.sampled_scan`). Its power is that of :mod:`optrr.core.inference.power_analysis`: from the
statistic of the expected reports and the spread of the score under the effect, and where some report is rare, from
surveys drawn for it, with the scan's own p-values. Simulation also counts the tests that a scan refuses because too few
participants answered about a variant. People needed are by the expected reports alone, to which so many people come
close.
"""

import math
import warnings
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from optrr.core.design import Design
from optrr.core.display import Table, TableResult, amount, arrow_rows, in_json
from optrr.core.errors import InvalidInput
from optrr.core.estimation import norm
from optrr.core.inference import (
    FIT_WORK,
    LARGEST_SURVEY,
    Alternative,
    Surveys,
    Trend,
    association_alternative,
    drawn_from,
    power,
    relative_spread,
    required_records,
)
from optrr.core.mechanisms import Kernel, unrandomized
from optrr.genomics.designing import Budget, Wanted, genomic_design, sampled_variants
from optrr.genomics.genotypes import GENOTYPES
from optrr.genomics.layout import layout_of, star_kernel
from optrr.genomics.sampled_scan import answers_fit, answers_test
from optrr.genomics.sampled_variants import SampledVariants, Told
from optrr.genomics.score_tests import GENOME_WIDE, score_test
from optrr_solvers.arrays import FloatArray
from optrr_solvers.problem import EPSILON_RANGE

if TYPE_CHECKING:
    import pyarrow as pa

WAYS = ("optimum", "association")
# Largest useful minimum detectable odds ratio; a scan without a smaller one gets a warning.
USEFUL_ODDS = 5.0
# Precision of the proposed number of variants and ε: these factors, and tenths of ε.
_RAISED, _FEWER = 1.05, 1.1
_LEVEL = 0.05
# People of whom answers are expected: so many that shares are as good as exact.
_MANY = 1e12
# Larger odds ratios are not looked for.
FARTHEST_ODDS = 100.0
# A power that was drawn is near enough to the wanted one; rounds until then; and no drawn power counts as nearer to 0
# or 1.
_NEAR, _ROUNDS, _SURE = 0.01, 3, 0.01
# The logarithm of an odds ratio is found to this.
_PRECISION = 1e-3


@dataclass(frozen=True)
class PlannedScan:
    """Sample size, cases, and the effects to detect.

    Parameters
    ----------
    people
        number of participants, at least 2.
    cases
        the proportion of cases among them, above 0 and below 1.
    frequencies
        of the allele that raises the risk, among controls, above 0 and below 1.
    odds_ratio
        per copy, above 1: the people needed are those for it.
    wanted
        required power, below 1 and above the levels.
    alpha
        level of the scan's tests; 5 % by the number of variants (Bonferroni) unless given.

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
    alpha: float | None = None

    def __post_init__(self) -> None:
        if not 2 <= self.people <= LARGEST_SURVEY:
            raise InvalidInput(f"number of people {self.people}: must be from 2 to {LARGEST_SURVEY:.0e}")
        for share, of in ((self.cases, "of cases"), *((f, "of the risk allele") for f in self.frequencies)):
            if not 0 < share < 1:
                raise InvalidInput(f"proportion {of} {share}: must be greater than 0 and less than 1")
        if not self.frequencies:
            raise InvalidInput("no frequency of the risk allele; give at least one, such as 0.2")
        if not 1 < self.odds_ratio <= FARTHEST_ODDS:
            raise InvalidInput(f"odds ratio {self.odds_ratio}: must be greater than 1 and at most {FARTHEST_ODDS:g}")
        if self.alpha is not None and not 0 < self.alpha < 1:
            raise InvalidInput(f"test level {self.alpha}: must be greater than 0 and less than 1")
        most = max(_LEVEL, self.alpha or 0.0)
        if not most < self.wanted < 1:
            raise InvalidInput(f"power {self.wanted}: must be greater than {most:g} and less than 1")

    def levels(self, variants: int) -> tuple[float, float, float]:
        """Return 5 %, the level of a scan of so many variants, and 5e-8."""
        return _LEVEL, _LEVEL / variants if self.alpha is None else self.alpha, GENOME_WIDE

    def table(self, odds_ratio: float, frequency: float) -> FloatArray:
        """Compute proportions by copies of A1 and status, (3, 2).

        A1 is the rarer allele, the risk allele or the other one.
        """
        copies = np.arange(GENOTYPES)
        controls = np.array([1.0, 2.0, 1.0]) * frequency**copies * (1 - frequency) ** (2 - copies)
        tilted = controls * odds_ratio**copies
        table = np.stack([(1 - self.cases) * controls, self.cases * tilted / tilted.sum()], axis=1)
        return table if frequency <= 1 / 2 else table[::-1]


@dataclass(frozen=True, eq=False)
class SeenInRecords:
    """Trend test of a variant in whole records.

    It uses the kernel of genotype and status.
    """

    kernel: Kernel

    @classmethod
    def of(cls, design: Design) -> "SeenInRecords":
        """Choose the variant with the median joint eigenvalue of its association.

        Raises InvalidInput for associations that cannot be seen.
        """
        layout = layout_of(design.domain)
        kernel = star_kernel(design.law, layout.attributes, layout.status)
        order = np.argsort(np.abs(kernel.eigenvalues[:, 1, 1]), kind="stable")
        return cls(kernel.part(int(order[order.size // 2])))

    def effect(self, table: FloatArray, _people: float = 0.0) -> Alternative:
        """Compute the test's alternative at these proportions (3, 2).

        It does not depend on the number of people.
        """
        longer = np.pad(table, ((0, self.kernel.sizes[0] - GENOTYPES), (0, 0)))
        limit = association_alternative(longer, Trend(self.kernel, rows=GENOTYPES))
        law = self.kernel.expected(longer)

        def test(tables: FloatArray, _rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
            scores = score_test(tables, self.kernel)
            return scores.statistic, scores.p_value

        return replace(limit, surveys=Surveys(drawn_from(law), test, 1, float(law[law > 0].min()), 4 * FIT_WORK))


@dataclass(frozen=True, eq=False)
class SeenInAnswers:
    """The trend test by likelihood, of answers about a variant.

    ``channel`` (Y, 6) and ``status_channel`` (2, 2) are as in :class:`optrr.genomics.sampled_variants.Told`; ``asked``
    is the proportion of participants who answer about the variant, and ``others`` of those who answer about the status
    alone.
    """

    channel: FloatArray
    status_channel: FloatArray
    asked: float
    others: float

    @classmethod
    def of(cls, asking: SampledVariants) -> "list[SeenInAnswers]":
        """Build one test per kind of report."""
        others = asking.status_share if asking.reports else 1 - asking.asked_share
        blank = [asking.answers(k, np.empty((0, 0)), np.empty((0, 2))) for k in range(max(len(asking.reports), 1))]
        return [cls(b.channel, b.status_channel, asking.asked_share, others) for b in blank]

    def told(self, counts: FloatArray) -> Told:
        """Wrap counts (B, Y + 2 or more): answers on the variant, then the status."""
        own = len(self.channel)
        return Told(counts[:, :own], self.channel, counts[:, own : own + 2], self.status_channel)

    def effect(self, table: FloatArray, people: float = _MANY) -> Alternative:
        """Compute the test's alternative at these proportions (3, 2).

        With fewer people the fit is closer to the prior.
        """
        own, status = self.channel @ table.ravel(), self.status_channel @ table.sum(axis=0)
        # the last report is of participants without an answer about this variant
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
    """Compute the power at this level for a variant of this odds ratio."""
    return power(test.effect(scan.table(odds_ratio, frequency), scan.people), scan.people, level)


def smallest_odds(test: SeenOfVariant, scan: PlannedScan, frequency: float, level: float) -> float:
    """Find the smallest odds ratio detected with the required power.

    Returns infinity beyond `FARTHEST_ODDS`.
    """

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
    """Find the sample size with the required power at the plan's odds ratio.

    Infinite if no survey is large enough.
    """
    effect = replace(test.effect(scan.table(scan.odds_ratio, frequency)), surveys=None)
    try:
        return required_records(effect, scan.wanted, level)
    except InvalidInput:
        return math.inf


def tests_of(way: Design | SampledVariants) -> list[SeenOfVariant]:
    """List a design's tests of a variant, one for each kind of report.

    Raises InvalidInput as :meth:`SeenInRecords.of`.
    """
    return [*SeenInAnswers.of(way)] if isinstance(way, SampledVariants) else [SeenInRecords.of(way)]


@dataclass(frozen=True)
class SightRow:
    """Power of one protocol for a risk allele of this ``frequency``.

    ``kept`` is the noncentrality relative to true records at the planned odds ratio and sample size (the fewer
    participants answer about a variant, the smaller it is), and ``effective_people`` the number of true records with
    the same noncentrality. ``odds_5pct``, ``odds_alpha`` and ``odds_genome_wide`` are the minimum detectable odds
    ratios at 5 %, at the scan's level and at 5e-8, and ``people_5pct``, ``people_alpha`` and ``people_genome_wide`` the
    numbers of participants for the planned odds ratio; infinite if there is none.
    """

    way: str
    frequency: float
    kept: float
    effective_people: float
    odds_5pct: float
    odds_alpha: float
    odds_genome_wide: float
    people_5pct: float
    people_alpha: float
    people_genome_wide: float


_NUMBERS = tuple(name for name in SightRow.__dataclass_fields__ if name != "way")


@dataclass(frozen=True, eq=False, repr=False)
class Sight(TableResult):
    """Power of several protocols: ``rows``, and in ``said`` one sentence each.

    ``alpha`` is the level of the scan's tests; ``unavailable`` has the reason for each protocol without a row.
    """

    scan: PlannedScan
    variants: int
    epsilon: float
    alpha: float
    rows: tuple[SightRow, ...]
    said: str
    unavailable: Mapping[str, str]

    in_summary = ("variants", "epsilon", "alpha", "said", "unavailable", "scan")
    drawn = ("odds_alpha",)

    def _keys(self) -> int:
        return 2

    def headline(self) -> str:
        """Summarize which odds ratios can be detected."""
        return self.said

    def shown(self, most: int | None = None) -> Table:
        """Tabulate the smallest detected odds ratios and the people needed."""
        n, alpha = f"n for {self.scan.odds_ratio:g}", f"{self.alpha:.2g}"
        names = ["protocol", "frequency", "kept", "effective n", "odds 5 %", alpha, "5e-8", f"{n}, 5 %", alpha, "5e-8"]
        rows = [(row.way, *(float(f"{getattr(row, name):.3g}") for name in _NUMBERS)) for row in self.rows[:most]]
        title = (
            f"Minimum detectable odds ratio per copy of the risk allele, with {100 * self.scan.wanted:g} % power at "
            f"the levels 5 %, {alpha} and 5e-8, and people needed for an odds ratio of {self.scan.odds_ratio:g}"
        )
        return Table(names, rows, title)

    def sentences(self) -> tuple[str, ...]:
        """Explain why a protocol has no rows."""
        return tuple(f"{name}: {why}." for name, why in self.unavailable.items())

    def summary(self) -> dict[str, Any]:
        """Return the JSON object with the rows; infinite numbers are null."""
        return super().summary() | {"rows": [in_json(vars(row)) for row in self.rows]}

    def to_arrow(self) -> "pa.Table":
        """Convert to a table with one row per protocol and frequency."""
        return arrow_rows(self.rows, ("way",), _NUMBERS)


def sight(  # noqa: PLR0913 (what the designs are made for, and what is to be seen)
    wanted: Wanted,
    total: float,
    scan: PlannedScan,
    *,
    cases: float | None = None,
    frequencies: ArrayLike | None = None,
    made: Mapping[str, Design | SampledVariants] = {},
) -> Sight:
    """Compute the power of the protocols `WAYS` at a total ε.

    Takes one or two seconds per protocol.

    If no protocol has power, a sufficient larger ε and smaller number of variants are searched: half a minute for
    100,000 variants.

    Parameters
    ----------
    wanted
        the variants; its method and whether it keeps pairs are not used.
    total
        nats.
    scan
        sample size, cases, and the effects to detect.
    cases, frequencies
        for which the queries for association are designed (:func:`optrr.genomics.designing.sampled_variants`).
    made
        existing protocols by name, which come first.
    """
    known = None if frequencies is None else np.asarray(frequencies)
    asked = _AskedDesigns(wanted, scan, cases, known)
    tests, unavailable = asked.ways(total, len(wanted.names), made)
    levels = scan.levels(len(wanted.names))
    rows = [
        _row(name, test, scan, frequency, levels)
        for name, each in tests.items()
        for frequency, test in _best_tests(each, scan)
    ]
    said = _sentence(rows, asked, total)
    return Sight(scan, len(wanted.names), total, levels[1], tuple(rows), said, unavailable)


@dataclass(frozen=True, eq=False)
class _AskedDesigns:
    """Designs at any total for the first so many variants."""

    wanted: Wanted
    scan: PlannedScan
    cases: float | None
    frequencies: FloatArray | None

    def ways(
        self, total: float, variants: int, made: Mapping[str, Design | SampledVariants] = {}
    ) -> tuple[dict[str, list[SeenOfVariant]], dict[str, str]]:
        """List tests of the designs ``made`` and of the other protocols of `WAYS`.

        Also returns why a protocol has none.
        """
        tests: dict[str, list[SeenOfVariant]] = {}
        unavailable: dict[str, str] = {}
        for name in dict.fromkeys((*made, *WAYS)):
            try:
                tests[name] = tests_of(made[name] if name in made else self.designed(name, total, variants))
            except InvalidInput as error:
                unavailable[name] = str(error)
        return tests, unavailable

    def designed(self, name: str, total: float, variants: int) -> Design | SampledVariants:
        """Make the design of one protocol for the first so many variants."""
        wanted = Wanted(self.wanted.names[:variants], self.wanted.missing)
        if name == "association":
            known = None if self.frequencies is None else self.frequencies[:variants]
            return sampled_variants(wanted, total, self.cases, known)
        return genomic_design(wanted, Budget(total))

    def is_useful(self, total: float, variants: int) -> bool:
        """Check whether a protocol detects `USEFUL_ODDS` at some frequency."""
        level = self.scan.levels(variants)[1]
        with warnings.catch_warnings():
            # candidate designs need not warn that they miss their total
            warnings.simplefilter("ignore")
            ways, _ = self.ways(total, variants)
        return any(
            smallest_odds(test, self.scan, frequency, level) < USEFUL_ODDS
            for tests in ways.values()
            for frequency, test in _best_tests(tests, self.scan)
        )

    def most_variants(self, total: float) -> int:
        """Find the largest number of variants of a useful scan; 0 if none."""
        count = len(self.wanted.names)
        steps = math.ceil(math.log(count, _FEWER))
        fewer = sorted({int(count / _FEWER**k) for k in range(1, steps + 1)} - {0, count}, reverse=True)
        at = bisect_left(fewer, True, key=lambda few: self.is_useful(total, few))
        return fewer[at] if at < len(fewer) else 0

    def enough_epsilon(self, total: float) -> float:
        """Find a larger ε at which the scan is useful; infinite above 50."""
        most, variants = EPSILON_RANGE[1], len(self.wanted.names)
        if total >= most or not self.is_useful(most, variants):
            return math.inf
        steps = math.ceil(math.log(most / total, _RAISED))
        larger = sorted({min(math.ceil(10 * total * _RAISED**k) / 10, most) for k in range(1, steps + 1)})
        return larger[bisect_left(larger[:-1], True, key=lambda one: self.is_useful(one, variants))]


def _best_tests(tests: Sequence[SeenOfVariant], scan: PlannedScan) -> Iterator[tuple[float, SeenOfVariant]]:
    """Choose the most powerful test at each frequency."""
    for frequency in scan.frequencies:
        table = scan.table(scan.odds_ratio, frequency)
        yield frequency, max(tests, key=lambda one: one.effect(table).noncentrality)


def _row(
    name: str, test: SeenOfVariant, scan: PlannedScan, frequency: float, levels: tuple[float, float, float]
) -> SightRow:
    table, n = scan.table(scan.odds_ratio, frequency), scan.people
    whole = SeenInRecords(unrandomized((GENOTYPES, 2))).effect(table).noncentrality
    kept = test.effect(table, n).noncentrality / whole
    odds, needed = ([f(test, scan, frequency, level) for level in levels] for f in (smallest_odds, people_needed))
    return SightRow(name, frequency, kept, kept * n, *odds, *needed)


def _sentence(rows: list[SightRow], asked: _AskedDesigns, total: float) -> str:
    scan, variants = asked.scan, len(asked.wanted.names)
    best = min(rows, key=lambda row: row.odds_alpha, default=None)
    what = f"{amount(f'{variants:,}', 'variant')} at ε = {total:.3g}, {scan.people:,} people, {100 * scan.cases:.3g} % cases"
    level = f"{scan.levels(variants)[1]:.2g}"
    if best is not None and best.odds_alpha < USEFUL_ODDS:
        return (
            f"{what}: odds ratios from {best.odds_alpha:.3g} on are detectable at {level} (best by {best.way}, at "
            "frequency "
            f"{best.frequency:g}); smaller ones are missed in more than {100 * (1 - scan.wanted):.3g} % of scans"
        )
    fewer, enough = asked.most_variants(total), asked.enough_epsilon(total)
    remedies = [f"use at most {fewer:,}"] if fewer else []
    remedies += [f"raise ε to {enough:.3g}"] if math.isfinite(enough) else []
    nothing = "" if math.isfinite(enough) else f"; no ε up to {EPSILON_RANGE[1]:g} suffices for this many"
    least = best.odds_alpha if best is not None else math.inf
    seen = f", the minimum is {least:.3g}" if math.isfinite(least) else ""
    how = ", or ".join(remedies) or "recruit more participants"
    return f"{what}: no odds ratio below {USEFUL_ODDS:g} is detectable at {level}{seen}; {how}{nothing}"
