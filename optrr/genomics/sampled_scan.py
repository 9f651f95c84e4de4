"""The scan of answers about a few variants each: tests of association, and what a design lets them see.

The trend test is by likelihood (:mod:`optrr.genomics.answers`). Where a cell of the table is named, there are the other tests
of :mod:`optrr.genomics.tests`, too, as of any randomized table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optrr.errors import InvalidInput, TooFewRecords
from optrr.genomics.answers import AnswersTest, Told, answers_fit, answers_odds, answers_test, joined_tests
from optrr.genomics.genotypes import GENOTYPES
from optrr.genomics.inflation import Inflation, Visible, visible_share
from optrr.genomics.odds import OddsRatios, odds_ratios
from optrr.genomics.sampled_variants import SampledVariants, one_cell, read_answers
from optrr.genomics.scan import Associations, ScanOptions
from optrr.genomics.tests import CopyTables, Scores, naive_score_test, noncentralities, score_test
from optrr.genomics.thresholds import Filtered, filtered
from optrr.models.tests.drawn_power import FIT_WORK, Surveys, drawn_from
from optrr.models.tests.power_analysis import Alternative, relative_spread
from optrr.records.counts import OpenedRecords
from optrr.show.text import amount
from optrr_solvers.arrays import FloatArray, IntArray

_TREND = ScanOptions("trend")
# People of whom answers are expected: so many that shares are as good as exact.
_MANY = 1e12
# Drawn answers to a question about a variant, over all variants, for what is expected of fewer.
_DRAWN = 20_000
# Variants tested at once, so that memory stays in tens of megabytes.
_VARIANTS = 1 << 14


def scan_answers(asking: SampledVariants, answers: Any, options: ScanOptions = _TREND) -> Associations:
    """The test of association of every variant, from the released answers, a frame or a file.

    Raises
    ------
    InvalidInput
        for answers that this way of asking cannot give, and tests that it has not.
    """
    reports = OpenedRecords.of(asking, answers)
    (opened,) = reports.places
    scanned = associations_of(asking, asking.told(read_answers(opened)), options)
    return replace(scanned, warnings=(*reports.unbound, *reports.twice, *scanned.warnings))


def associations_of(
    asking: SampledVariants, told: Sequence[tuple[IntArray, Told]], options: ScanOptions = _TREND
) -> Associations:
    """The tests from what was told (:meth:`SampledVariants.told`). Raises InvalidInput for tests that it has not."""
    n = np.zeros(len(asking.names), dtype=np.int64)
    for at, answers in told:
        n[at] = answers.counts.sum(axis=1)
    if not n.any():
        raise TooFewRecords("nobody answered about any variant; nothing can be tested")
    filters = _filtered(asking, told, options)
    kept = np.flatnonzero(filters.kept)
    n = n[kept]
    if replace(options, thresholds=_TREND.thresholds) == _TREND:
        test = likelihood_tests(asking, told).part(kept)
        one, people = np.ones(n.size, dtype=np.int64), n.astype(np.float64)
        scores = Scores(test.statistic, one, test.p_value, test.expected, None, np.flatnonzero(n > 0), people, -one)
        seen = _visible(test.kept)
        return _made(asking, filters, n, scores, None, seen, lambda which: _odds(asking, told, kept[which]), "trend")
    if asking.reports:
        raise InvalidInput(
            "answers that name sets of genotype and status have the trend test alone; leave out --test and --naive"
        )
    tables, kernel = cell_tables(told).two[kept], asking.kernel
    scores = score_test(tables, kernel, options.test)
    naive = naive_score_test(tables, options.test) if options.naive else None
    seen = visible_share(tables, kernel, scores, options.test)
    odds = lambda which: odds_ratios(tables[which], kernel)  # noqa: E731
    return _made(asking, filters, n, scores, naive, seen, odds, options.test)


def cell_tables(told: Sequence[tuple[IntArray, Told]]) -> CopyTables:
    """Counts of genotype × status of each variant, from answers that name cells."""
    ((_, answers),) = told
    counts = answers.counts.reshape(-1, GENOTYPES, 2).astype(np.int64)
    return CopyTables(counts, np.zeros_like(counts))


def _filtered(asking: SampledVariants, told: Sequence[tuple[IntArray, Told]], options: ScanOptions) -> Filtered:
    """Which variants are tested. Raises InvalidInput where answers do not tell what a filter is about."""
    if not options.thresholds:
        return Filtered(np.ones(len(asking.names), dtype=np.bool_), {}, ())
    if asking.reports:
        raise InvalidInput(
            "answers that name sets of genotype and status are made for the test of association and hide frequencies; leave "
            "out --maf, --hwe and --call-rate"
        )
    if options.thresholds.call_rate:
        raise InvalidInput(
            "nobody answers whose call is missing, so that answers tell nothing of call rates; leave out --call-rate"
        )
    tables = cell_tables(told)
    out = filtered(tables, asking.kernel, options.thresholds, tables.people, missing=False)
    out.check_some()
    return out


def _made(  # noqa: PLR0913 (the parts of a result)
    asking: SampledVariants,
    filters: Filtered,
    n: IntArray,
    scores: Scores,
    naive: Scores | None,
    seen: Visible,
    odds: Any,
    test: str,
) -> Associations:
    variants = asking.variants.take(np.flatnonzero(filters.kept))
    inflation = Inflation.of(scores, seen)
    unasked, few = int(np.count_nonzero(n == 0)), int(np.count_nonzero((n > 0) & ~np.isfinite(scores.p_value)))
    warnings = [f"nobody answered about {amount(unasked, 'variant')}: P is NA there"] if unasked else []
    if few:
        warnings.append(
            f"the answers about {amount(few, 'variant')} tell too little of genotypes and cases: P is NA there"
        )
    said = (*inflation.warnings(), *filters.warnings, *warnings)
    return Associations(variants, test, n, scores, odds, naive, filters.skipped, inflation, said)


def _visible(kept: FloatArray) -> Visible:
    """What of an inflation stays visible: on average as much as of an association."""
    known = kept[np.isfinite(kept)]
    if not known.size:
        return Visible()
    return Visible(float(known.mean()), float(known.std()) / math.sqrt(known.size), 1.0)


def likelihood_tests(asking: SampledVariants, told: Sequence[tuple[IntArray, Told]]) -> AnswersTest:
    """The tests of all variants, from the answers by report."""
    pieces = [
        (at[start : start + _VARIANTS], answers.part(slice(start, start + _VARIANTS)))
        for at, answers in told
        for start in range(0, at.size, _VARIANTS)
    ]
    return joined_tests([answers_test(a) for _, a in pieces], [at for at, _ in pieces], len(asking.names))


def _odds(asking: SampledVariants, told: Sequence[tuple[IntArray, Told]], which: slice | IntArray) -> OddsRatios:
    """Odds ratios of the variants of these numbers, in this order."""
    wanted = np.arange(len(asking.names))[which]
    out = np.full((5, wanted.size), np.nan)
    for at, answers in told:
        place = {int(v): k for k, v in enumerate(at)}
        rows = np.asarray([k for k, v in enumerate(wanted.tolist()) if v in place], dtype=np.int64)
        if rows.size:
            odds = answers_odds(answers.part(np.asarray([place[int(wanted[k])] for k in rows])))
            out[:, rows] = odds.ratio, odds.low, odds.high, odds.cases, odds.controls
    return OddsRatios(*out)


def expected_noncentralities(
    asking: SampledVariants,
    tables: NDArray[np.number],
    which: IntArray,
    test: str = "trend",
    people: float | None = None,
) -> FloatArray:
    """Noncentrality, for each person of a cohort, of the tests of these variants, from their true tables (B, 3, 2).

    Of a cohort so large that frequencies are as good as known; with ``people``, of one of so many, whose answers tell less of
    them: the mean χ² − 1 of answers that are drawn for it, always the same ones, some 20,000 in all, but of the trend test
    only. Answers that are too few for a test add nothing, as in a scan.
    """
    if test != "trend":
        return np.asarray(noncentralities(tables, asking.kernel, test) * asking.asked_share)
    shares = (tables / tables.sum(axis=(1, 2), keepdims=True)).reshape(len(tables), -1)
    # for each person asked about a variant, so many tell of the status alone
    more = (asking.status_share if asking.reports else 1 - asking.asked_share) / asking.asked_share
    out = np.empty(which.size)
    for report in np.unique(asking.report_of[which]).tolist():
        at = np.flatnonzero(asking.report_of[which] == report)
        blank = asking.answers(report, np.empty((0, 0)), np.empty((0, 2)))
        own = shares[at] @ blank.channel.T
        status = more * (shares[at] @ np.tile(np.eye(2), (GENOTYPES, 1)) @ blank.status_channel.T)
        if people is None:
            out[at] = answers_test(asking.answers(report, _MANY * own, _MANY * status)).statistic / _MANY
            continue
        asked, source = people * asking.asked_share, np.random.default_rng(0)
        times = math.ceil(_DRAWN / which.size)
        drawn = (source.poisson(asked * np.tile(each, (times, 1))).astype(np.float64) for each in (own, status))
        statistic = answers_test(asking.answers(report, *drawn)).statistic.reshape(times, at.size)
        out[at] = np.nan_to_num(statistic - 1).mean(axis=0) / asked
    return out * asking.asked_share


@dataclass(frozen=True, eq=False)
class SeenInAnswers:
    """The trend test by likelihood, of answers about a variant.

    ``channel`` (Y, 6) and ``status_channel`` (2, 2) are as in :class:`optrr.genomics.answers.Told`; ``asked`` is the share of
    people who answer about the variant, and ``others`` of those who tell about the status alone.
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
