"""Local queries about the status and a few variants, for tests of association.

Each participant answers one query, drawn at random, with the whole ε. There is a query for each variant: about it and
the ``each`` − 1 that follow it in the circular list of variants. The query is drawn independently of the record. With
one variant each, an answer names a set of cells of genotype × status, by the report that keeps most of the test's information
(:mod:`optrr_solvers.allocation.association`), and a proportion of the participants answers about the status alone,
which all tests need. With several, it names one cell of their table, by randomized response over all its cells. Which
of the two is better, and with how many variants, :mod:`optrr.genomics.designing` finds out from the total, the number
of variants, and the expected frequencies and cases; no genotype is used.

People release two columns. ``question`` is the number of its first variant, from 1, or one more than there are
variants for the status alone. ``answer`` is the number, from 0, of the set named, among those of the variant's report;
of the cell, status first and the last variant fastest; or of the status.

The design file, for participants and for the data collector, is versioned JSON, one object: ``format``,
``software``, ``digest``, ``epsilon`` (consumed by the answers as they are drawn), ``answer_epsilon`` (the requested ε),
``variants`` (name, alleles and place; ``report``, the number of its report), ``each``, ``status_share`` and ``reports``
(sets of cells 2·genotype + status, and their weights).
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa

from optrr.allocation.supports import report_subsets, reported_epsilon, unlikely_chance
from optrr.core.design import Check, Verification, total_check
from optrr.core.display import SOFTWARE, Result, amount, epsilon_text
from optrr.core.domain import NONE, Attribute, Domain, PublicColumns
from optrr.core.errors import InvalidInput
from optrr.core.provenance import (
    SAMPLED_VARIANTS,
    Given,
    Release,
    Sealed,
    checked_epsilon,
    digest_of,
    encoded,
    read_named,
)
from optrr.core.records import record_batches, whole_file
from optrr.genomics.genotypes import GENOTYPES, MISSING, Codes, Variants
from optrr.genomics.layout import Alleles, Layout, genomic_domain, layout_of
from optrr_solvers.allocation.association import SetReport
from optrr_solvers.allocation.questions import SubsetReport
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.enclosure import log_ceiling
from optrr_solvers.randomness import BitSource, bounded, threshold

SCHEMA = pa.schema([("question", pa.int32()), ("answer", pa.int32())])
# A domain that names the two columns for the readers; it declares placeholders, because their values are read in this
# module.
_COLUMNS = Domain((Attribute("question", ("1", "2")), Attribute("answer", ("0", "1"))))
# One cell is named of all, the true one most often.
_ONE_CELL = SubsetReport((1,))
_WORD = 1 << 64
# With so many variants, a table has 39,366 cells.
MOST_EACH = 9
# Proportions of missing calls for which a design states the proportion of nonrespondents.
_MISSING_CALLS = (0.01, 0.05)
# Smallest proportion of cases at the start of the iteration.
_LEAST_CASES = 0.002


@dataclass(frozen=True, eq=False)
class Told:
    """Counted answers about B variants, all through one channel.

    Parameters
    ----------
    counts
        of each answer, shape (B, Y).
    channel
        chance of each answer by the true cell, two for each genotype, control first, shape (Y, 6).
    status
        counts of the others' answers about the status alone, "control" and "case", shape (B, 2).
    status_channel
        chance of each by the true status, shape (2, 2).
    """

    counts: FloatArray
    channel: FloatArray
    status: FloatArray
    status_channel: FloatArray

    def part(self, which: slice | IntArray) -> "Told":
        """Select variants."""
        return Told(self.counts[which], self.channel, self.status[which], self.status_channel)

    @cached_property
    def cases(self) -> FloatArray:
        """Rough proportion of cases, (B,).

        From the answers about the status, or without these from the others.
        """
        observed = self.counts / np.maximum(self.counts.sum(axis=1, keepdims=True), 1.0)
        cells = observed @ np.linalg.pinv(self.channel).T
        own, asked = cells[:, 1::2].sum(axis=1), self.status.sum(axis=1)
        chances = self.status_channel[1]
        told = (self.status[:, 1] / np.maximum(asked, 1.0) - chances[0]) / (chances[1] - chances[0])
        return np.asarray(np.clip(np.where(asked > 0, told, own), _LEAST_CASES, 1 - _LEAST_CASES))

    @property
    def all_counts(self) -> FloatArray:
        """Counts of answers about the variants and about the status, (B, Y + 2)."""
        return np.concatenate([self.counts, self.status], axis=1)

    @property
    def likelihoods(self) -> FloatArray:
        """Chance of each of these by the true cell, (Y + 2, 6)."""
        return np.concatenate([self.channel, np.tile(self.status_channel, GENOTYPES)])

    @property
    def people(self) -> FloatArray:
        """Number of respondents to each answer's query, (B, Y + 2)."""
        asked = self.counts.sum(axis=1, keepdims=True), self.status.sum(axis=1, keepdims=True)
        return np.repeat(np.concatenate(asked, axis=1), [self.counts.shape[1], 2], axis=1)


@dataclass(frozen=True, eq=False, repr=False)
class SampledVariants(Result):
    """Queries, their probabilities, and their reports.

    Parameters
    ----------
    names, alleles, places
        of the variants; A1 and A2, and CHROMOSOME:POSITION, of each, empty texts where they are not known.
    answer_epsilon
        ε in nats of the one answer, 1e-6..50.
    each
        variants in a question, at most as many as there are.
    status_share
        proportion of the people who answer about the status alone.
    reports
        with one variant each, the existing reports; empty if a cell is named.
    report_of
        the number of each variant's report, shape (V,).
    kept, bound
        the proportion kept of the information of a true record about all variants, on average over the values expected
        at the design; and the upper bound of it for reports on one variant and the status. NaN if unknown.

    Raises
    ------
    InvalidInput
        for variants that :func:`optrr.genomics.layout.genomic_domain` refuses, questions of too many cells, invalid
        proportions, and reports that do not fit.
    """

    names: tuple[str, ...]
    alleles: tuple[Alleles, ...]
    answer_epsilon: float
    each: int
    status_share: float
    reports: tuple[SetReport, ...]
    report_of: IntArray
    kept: float = math.nan
    bound: float = math.nan
    places: tuple[str, ...] = ()
    mechanism_name = "sampled variants"
    file_format = SAMPLED_VARIANTS

    def __post_init__(self) -> None:
        checked_epsilon(self.answer_epsilon)
        _ = self.domain
        most = min(len(self.names), MOST_EACH)
        if not 1 <= self.each <= most:
            raise InvalidInput(f"{self.each} variants in a question; give 1 to {most}")
        if not 0 <= self.status_share < 1:
            raise InvalidInput(f"proportion of status queries {self.status_share}: must be at least 0 and less than 1")
        if self.status_share > 0 and not self.reports:
            raise InvalidInput(
                "every report on one variant covers the status; leave out queries about the status alone"
            )
        if self.reports and self.each != 1:
            raise InvalidInput("sets of cells cover one variant and the status; use one variant in each query")
        if self.report_of.shape != (len(self.names),) or not np.all(
            (self.report_of >= 0) & (self.report_of < max(len(self.reports), 1))
        ):
            raise InvalidInput("a variant refers to an unknown report; give the number of a report, from 0")
        for report in self.reports:
            _check_sets(report, self.answer_epsilon)

    name = "sampled variants"

    @cached_property
    def domain(self) -> Domain:
        """Status and genotypes."""
        return genomic_domain(self.names, alleles=self.alleles, places=self.places)

    @cached_property
    def layout(self) -> Layout:
        """Which attribute is what."""
        return layout_of(self.domain)

    @property
    def variants(self) -> Variants:
        """Names, alleles and places of the variants."""
        return Variants.named(self.names, self.alleles, self.places)

    @property
    def earlier(self) -> tuple[Release, ...]:
        """Earlier releases: none."""
        return ()

    @property
    def public(self) -> PublicColumns:
        """Public columns: none."""
        return NONE

    @property
    def asked_share(self) -> float:
        """Proportion of participants who answer about each variant."""
        return (1 - self.status_share) * self.each / len(self.names)

    @cached_property
    def digest(self) -> str:
        """Digest of the variants and the drawn probabilities."""
        drawn = {
            "answer_epsilon": self.answer_epsilon,
            "each": self.each,
            "status_share": self.status_share,
            "reports": [{"sets": r.sets, "weights": r.weights} for r in self.reports],
            "report_of": self.report_of.tolist(),
            # which allele the genotypes count
            "alleles": self.alleles,
        }
        return digest_of(self.domain, drawn)

    @cached_property
    def epsilon(self) -> float:
        """Total ε of the record in nats, of the answers as drawn.

        The value is computed in exact rationals and rounded up.
        """
        drawn = [_drawn_epsilon(_chances(report, self.answer_epsilon)) for report in self.reports]
        if not self.reports:
            drawn.append(reported_epsilon(_ONE_CELL, _sizes(self.each), self.answer_epsilon))
        if self.status_share > 0:
            drawn.append(reported_epsilon(_ONE_CELL, _sizes(0), self.answer_epsilon))
        return max(drawn)

    @property
    def questions_asked(self) -> str:
        """Description of one person's query."""
        out = f"the status and {amount(self.each, 'variant')} of {len(self.names)}, drawn at random"
        if self.status_share > 0:
            out += f"; or, of {100 * self.status_share:.3g} % of people, the status alone"
        return out

    def headline(self) -> str:
        """Summarize the queries and the privacy budget they consume."""
        return f"total epsilon {epsilon_text(self.epsilon)}; each person answers one query: {self.questions_asked}"

    def sentences(self) -> tuple[str, ...]:
        """State the information kept and who gives no answer."""
        out = []
        if math.isfinite(self.kept):
            out.append(f"1000 answers have the information on an association of {1000 * self.kept:.3g} true records")
            if math.isfinite(self.bound):
                out[0] += f"; answers about one variant each have at most that of {1000 * self.bound:.3g}"
        silent = ", ".join(
            f"{100 * (1 - (1 - share) ** self.each) * (1 - self.status_share):.2g} % at {share:.0%} missing calls"
            for share in _MISSING_CALLS
        )
        return (*out, f"people without a requested call give no answer: {silent}")

    in_summary = ("epsilon", "each", "status_share", "kept", "bound")

    def summary(self) -> dict[str, Any]:
        """Return the JSON object."""
        return super().summary() | {"variants": len(self.names)}

    def batches(self, records: Codes, source: BitSource, size: int = 1 << 20) -> Iterator[pa.RecordBatch]:
        """Draw all answers in the order of the records.

        Columns (n, 1 + V) with the status first; O(n) time, memory for a batch.

        People with a missing call of a requested variant do not answer.
        """
        for start in range(0, len(records), size):
            question, answer = self.answered(records[start : start + size], source)
            given = answer >= 0
            yield pa.RecordBatch.from_arrays(
                [pa.array(question[given] + 1, pa.int32()), pa.array(answer[given], pa.int32())], schema=SCHEMA
            )

    def answered(self, records: Codes, source: BitSource) -> tuple[IntArray, IntArray]:
        """Draw the number of each person's query and of the answer.

        Both count from 0, have shape (n,), and −1 is a missing call.
        """
        n = len(records)
        question = bounded(source, n, len(self.names))
        if self.status_share > 0:
            question[source.words(n) < threshold(self.status_share)] = len(self.names)
        answer = np.empty(n, dtype=np.int64)
        for rows, block in self._asked_alike(question):
            variants = np.empty((rows.size, 0), dtype=np.int64) if block is None else 1 + block
            codes = np.concatenate([records[rows, :1], records[rows[:, None], variants]], axis=1).astype(np.int64)
            gone = (codes == MISSING).any(axis=1)
            codes[gone] = 0
            answer[rows] = np.where(gone, -1, self._named(codes, block, source))
        return question, answer

    def _asked_alike(self, question: IntArray) -> Iterator[tuple[IntArray, IntArray | None]]:
        """Group rows by kind of report, with their variants (rows, k).

        Returns None for the status alone.
        """
        status = np.flatnonzero(question == len(self.names))
        if status.size:
            yield status, None
        asked = np.flatnonzero(question < len(self.names))
        of_report = self.report_of[question[asked]]
        for report in np.unique(of_report).tolist():
            rows = asked[of_report == report]
            yield rows, self._variants_of(question[rows])

    def _variants_of(self, question: IntArray) -> IntArray:
        """Look up the variants of these queries, (n, each)."""
        return np.asarray((question[:, None] + np.arange(self.each)) % len(self.names))

    def _named(self, codes: IntArray, variants: IntArray | None, source: BitSource) -> IntArray:
        if variants is None or not self.reports:
            sizes = _sizes(codes.shape[1] - 1)
            return report_subsets(codes, _ONE_CELL, sizes, self.answer_epsilon, source)[0][:, 0]
        report = self.reports[int(self.report_of[variants[0, 0]])]
        ends = np.cumsum(np.asarray(_chances(report, self.answer_epsilon), dtype=object), axis=1)[:, :-1]
        cell = 2 * codes[:, 1] + codes[:, 0]
        words = source.words(len(codes))
        # the last set takes what is left, so its end is not needed
        passed = words[:, None] >= ends.astype(np.uint64)[cell]
        return np.asarray(passed.sum(axis=1), dtype=np.int64)

    def told(self, batches: Iterable[tuple[IntArray, IntArray]]) -> list[tuple[IntArray, Told]]:
        """Count the answers by kind of report and variant; memory O(V).

        ``batches`` hold the numbers of query and answer, from 0.

        Raises
        ------
        InvalidInput
            for questions and answers that cannot be.
        """
        v = len(self.names)
        kinds = np.append([len(r.sets) for r in self.reports] or [math.prod(_sizes(self.each))], 2)
        # how many answers there are to each question, and how many of one variant are told apart
        most = np.append(kinds[self.report_of], 2 if self.status_share > 0 else 0)
        width = int(kinds.max()) if self.reports else 2 * GENOTYPES
        own, status = np.zeros(v * width, dtype=np.int64), np.zeros(2, dtype=np.int64)
        for question, answer in batches:
            if question.size and not (question.min() >= 0 and question.max() <= v):
                raise InvalidInput(f"an answer does not belong to a query of this design; {_REMEDY}")
            if not np.all((answer >= 0) & (answer < most[question])):
                raise InvalidInput(f"an answer is not one of its query's answers; {_REMEDY}")
            about = question < v
            status += np.bincount(answer[~about], minlength=2)
            if self.reports:
                own += np.bincount(question[about] * width + answer[about], minlength=own.size)
                continue
            case, *genotypes = np.unravel_index(answer[about], _sizes(self.each))
            status += np.bincount(case, minlength=2)
            for variant, genotype in zip(self._variants_of(question[about]).T, genotypes, strict=True):
                own += np.bincount(variant * width + 2 * genotype + case, minlength=own.size)
        return self._by_report(own.reshape(v, width).astype(np.float64), status.astype(np.float64))

    def _by_report(self, own: FloatArray, status: FloatArray) -> list[tuple[IntArray, Told]]:
        """Group counted answers about variants (V, most) and status (2,) by report."""
        everyone = np.arange(len(own))
        if not self.reports:
            # information on the status of respondents about other variants
            others = status - np.stack([own[:, ::2].sum(axis=1), own[:, 1::2].sum(axis=1)], axis=1)
            return [(everyone, self.answers(0, own, others))]
        return [
            (at, self.answers(k, own[at, : len(report.sets)], np.tile(status, (at.size, 1))))
            for k, report in enumerate(self.reports)
            if (at := everyone[self.report_of == k]).size
        ]

    def answers(self, report: int, own: FloatArray, status: FloatArray) -> Told:
        """Build the counted answers of one kind of report with their channels.

        Answers about the variants are (B, Y), those about the status alone (B, 2).
        """
        if self.reports:
            channel, cells = self.reports[report].likelihoods(self.answer_epsilon), 2
        else:
            cells = math.prod(_sizes(self.each))
            channel = one_cell(cells, 2 * GENOTYPES, self.answer_epsilon)
        return Told(own, channel, status, one_cell(cells, 2, self.answer_epsilon))


_REMEDY = "give the file that gwas randomize wrote with this design"


def read_answers(answers: Any) -> Iterator[tuple[IntArray, IntArray]]:
    """Read queries and answers in batches, from 0; −1 if not a number."""
    for batch in record_batches(answers, _COLUMNS, None):
        columns = (batch.column(name).cast(pa.string()).to_pylist() for name in SCHEMA.names)
        question, answer = (np.asarray([_number(text) for text in texts], dtype=np.int64) for texts in columns)
        yield question - 1, answer


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else -1


def _sizes(variants: int) -> tuple[int, ...]:
    """List the sizes of the table of the status and so many variants."""
    return (2, *([GENOTYPES] * variants))


def one_cell(cells: int, ours: int, epsilon: float) -> FloatArray:
    """Compute the probability that each class holds the reported cell.

    By the class of the true cell, for ``ours`` classes.
    """
    out = unlikely_chance(_ONE_CELL, (cells,), epsilon)
    # of the cells that are not the true one, each as likely, so many are in each class
    other = cells // ours
    return np.asarray(np.full((ours, ours), out * other / (cells - 1)) + np.eye(ours) * (1 - out - out / (cells - 1)))


def _chances(report: SetReport, epsilon: float) -> list[list[int]]:
    """Compute probabilities of sets by true cell in units of 2^-64.

    [cell][set]; every row sums to 2^64.
    """
    rows = []
    for likelihoods in report.likelihoods(epsilon).T.tolist():
        row = [int(Fraction(x) * _WORD) for x in likelihoods]
        # what rounding left, to the most likely one
        row[row.index(max(row))] += _WORD - sum(row)
        rows.append(row)
    return rows


def _drawn_epsilon(chances: Sequence[Sequence[int]]) -> float:
    """Compute the largest exact ratio of two cells' probabilities, rounded up."""
    ratio = max(Fraction(max(column), min(column)) for column in zip(*chances, strict=True))
    return log_ceiling(ratio)


def _check_sets(report: SetReport, epsilon: float) -> None:
    cells = 2 * GENOTYPES
    if not report.sets or len(report.sets) != len(report.weights):
        raise InvalidInput("a report needs as many weights as sets, and at least one set; give a weight for each set")
    if not all(s and len(s) < cells and list(s) == sorted(set(s)) and 0 <= s[0] <= s[-1] < cells for s in report.sets):
        raise InvalidInput(f"a set of a report must contain some, but not all, of the cells 0 to {cells - 1}, in order")
    if not all(math.isfinite(w) and w > 0 for w in report.weights):
        raise InvalidInput("the weights of a report's sets must be positive")
    if len(set(report.sets)) < len(report.sets):
        raise InvalidInput("a report has the same set twice; give each set once")
    with np.errstate(over="ignore", invalid="ignore"):
        whole = report.likelihoods(epsilon).sum(axis=0)
    if not np.abs(whole - 1).max() <= 1e-9:
        raise InvalidInput(
            "the probabilities of a report's sets do not add up to the same for each true cell; take it from its design"
        )
    if min(map(min, _chances(report, epsilon))) < 1:
        raise InvalidInput("a set of a report has a probability of less than 2^-64; leave the set out")


FORMAT = "optrr-sampled-variants/1"


class _VariantRecord(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    a1: str
    a2: str
    place: str
    report: Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]


class _ReportRecord(msgspec.Struct, forbid_unknown_fields=True):
    sets: tuple[tuple[int, ...], ...]
    weights: tuple[float, ...]


class SampledVariantsRecord(msgspec.Struct, forbid_unknown_fields=True):
    """Content of a file of sampled variants."""

    format: str
    software: str
    digest: str
    epsilon: float
    answer_epsilon: float
    each: int
    status_share: float
    variants: list[_VariantRecord]
    reports: list[_ReportRecord]


_SEALED = Sealed(SampledVariantsRecord, FORMAT, "", "cannot be read", lambda _: "")


def save_sampled_variants(made: SampledVariants, path: str | Path) -> None:
    """Write the protocol as a JSON file, atomically."""
    record = SampledVariantsRecord(
        FORMAT,
        SOFTWARE,
        made.digest,
        made.epsilon,
        made.answer_epsilon,
        made.each,
        made.status_share,
        [
            _VariantRecord(name, a1, a2, place, int(report))
            for name, (a1, a2), place, report in zip(
                made.names, made.alleles, made.layout.places, made.report_of, strict=True
            )
        ],
        [_ReportRecord(r.sets, r.weights) for r in made.reports],
    )
    with whole_file(Path(path)) as partial:
        partial.write_bytes(encoded(record) + b"\n")


def load_sampled_variants(path: Given, *, limited: bool = True) -> SampledVariants:
    """Read a file of sampled variants.

    Raises
    ------
    InvalidInput
        where it cannot be read, is malformed or of another version, was changed, or its ε is not the one drawn.
    """
    record, made = _decoded(path)
    if not _total_check(record, made).holds:
        raise InvalidInput(
            f"{path} states a total epsilon of {record.epsilon:g} but its answers consume {made.epsilon:g}"
        )
    if record.digest != made.digest:
        raise InvalidInput(f"{path} was changed after it was written (its digest differs); repeat the design")
    return made


def verify_sampled_variants(path: Given, *, limited: bool = True) -> Verification:
    """Recompute the total ε from the thresholds, and check the file's integrity.

    Raises
    ------
    InvalidInput
        where it cannot be read, or is malformed or of another version.
    """
    record, made = _decoded(path)
    return Verification((_total_check(record, made),), record.digest == made.digest, made.digest)


def _total_check(record: SampledVariantsRecord, made: SampledVariants) -> Check:
    how = "the largest over all answers, of 64-bit thresholds in exact rationals"
    return total_check(record.epsilon, made.epsilon, how)


def _decoded(path: Given) -> tuple[SampledVariantsRecord, SampledVariants]:
    record = _SEALED.decoded(read_named(path, "design file"), path)
    rows = record.variants
    return record, SampledVariants(
        tuple(v.name for v in rows),
        tuple((v.a1, v.a2) for v in rows),
        record.answer_epsilon,
        record.each,
        record.status_share,
        tuple(SetReport(r.sets, r.weights) for r in record.reports),
        np.asarray([v.report for v in rows], dtype=np.int64),
        places=tuple(v.place for v in rows),
    )
