"""Sampled tables: each respondent answers one random table of the workload, with the whole ε.

The table is drawn with public probabilities that do not depend on the record, and answered by a report
(:class:`optrr_solvers.allocation.questions.SubsetReport`) of subsets of its categories, or of its cells. A table can be
estimated if its effects occur in the sampled tables, and uses all of them together (:mod:`optrr.allocation.combining`).
Answers cannot be linked, so no other table can be estimated. With one table, all respondents answer it.

An answer has two columns, ``table`` and ``cells``. ``table`` is the number of the table (1, 2, …). ``cells`` lists the
subsets: numbers from 0 of categories, or of cells in row-major order, last attribute fastest, ascending and separated
by spaces; ``|`` separates the subsets of several attributes.

The file of sampled tables is versioned JSON, used for asking and for estimation. One object: ``format``, ``software``,
``digest``, ``epsilon`` (consumed by an answer as drawn), ``answer_epsilon`` (nominal ε of an answer), ``attributes``
(:mod:`optrr.core.domain.domain`) and ``tables`` (attributes, share, ``subset_sizes`` and ``likely`` patterns of the
report).
"""

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optrr.allocation.combining import Answered, alone, answered_table, combined
from optrr.allocation.supports import report_subsets, reported_epsilon, unlikely_chance
from optrr.core.design import SAME, Asking, Check, Design, Query, ReportPart, Verification, load_design, total_check
from optrr.core.display import SOFTWARE, TableResult, amount, crossed, epsilon_text
from optrr.core.domain import Attribute, DeclaredAttribute, Domain, declaration
from optrr.core.errors import InvalidInput, TooFewRecords, in_one_line, warn
from optrr.core.estimation import Estimate, check_confidence, estimate_of_supports
from optrr.core.mechanisms import FileRelease, ReleaseOptions, is_seeded, replaced_release
from optrr.core.provenance import (
    SAMPLED_TABLES,
    Given,
    Provenance,
    Release,
    Sealed,
    checked_epsilon,
    content_of,
    digest_of,
    kind_of,
    read_small,
)
from optrr.core.records import (
    OpenedRecords,
    Places,
    checked_columns,
    encoded_batches,
    open_source,
    refuse_input_as_target,
    refuse_randomized,
    released_file,
    whole_file,
)
from optrr_solvers.allocation.error_certificate import ErrorCertificate
from optrr_solvers.allocation.questions import MAX_CELLS, MOST_PATTERNS, SubsetReport, patterns_of, whole_table
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.errors import InvalidProblem
from optrr_solvers.problem import EPSILON_RANGE
from optrr_solvers.randomness import BitSource, RandomState, as_source

if TYPE_CHECKING:
    from optrr.core.estimation import EstimatedTable, Poisoning


SCHEMA = pa.schema([("table", pa.int32()), ("cells", pa.string())])
# A domain that names the two columns for the readers; it declares placeholders, because their values are read in this module.
_COLUMNS = Domain((Attribute("table", ("1", "2")), Attribute("cells", ("", "0"))))

FORMAT = "optrr-sampled-tables/2"
# Named cells counted at once: 64 MB.
_ENTRIES = 1 << 23
# Shares of the tables are drawn as whole numbers of 2^-32: no table's share is off by more.
SHARE_BITS = 32
# Tables listed in a message.
_LISTED = 5


def _members(texts: Iterable[str | None], parts: Sequence[int], subset_sizes: Sequence[int]) -> list[IntArray]:
    """Parse the members of each reported subset, (n, k_i); ``parts`` are r_i.

    A report that named more members than it may, or one twice, would count for more than one, so that a fake could move an
    estimate anywhere.

    Raises InvalidInput for texts that are no numbers, members outside their attribute, too many or too few of them, or one of
    them twice.
    """
    split = [(text or "").split("|") for text in texts]
    if any(len(subsets) != len(parts) for subsets in split):
        raise InvalidInput(
            f"an answer does not have {amount(len(parts), 'subset')}; give the answers that randomize wrote"
        )
    out = []
    for i, (r, k) in enumerate(zip(parts, subset_sizes, strict=True)):
        texts_of_part = [subsets[i] for subsets in split]
        try:
            # an empty answer counts for no cell
            members = np.asarray(" ".join(text for text in texts_of_part if text).split(), dtype=np.int64)
        except (ValueError, OverflowError) as error:
            raise InvalidInput("an answer is not a list of cell numbers; give the file that randomize wrote") from error
        if members.size and (members.min() < 0 or members.max() >= r):
            raise InvalidInput(f"an answer has a cell outside 0..{r - 1}; read it with the file of the right protocol")
        named = next((n for n in (len(text.split()) for text in texts_of_part) if n != k), k)
        if named != k:
            raise InvalidInput(
                f"an answer has {named} cells, but each answer to this table has {k}; give the answers that "
                "randomize wrote"
            )
        members = np.sort(members.reshape(-1, k), axis=1)
        if (np.diff(members, axis=1) == 0).any():
            raise InvalidInput("an answer has a cell twice; give the answers that randomize wrote")
        out.append(members)
    return out


def _named_cells(subsets: Sequence[IntArray], sizes: Sequence[int]) -> FloatArray:
    """Count each combination of one member of every subset.

    With as many axes as subsets.
    """
    out = np.zeros(tuple(sizes))
    step = max(1, _ENTRIES // max(1, math.prod(s.shape[1] for s in subsets)))
    for start in range(0, len(subsets[0]), step):
        flat = np.zeros((len(subsets[0][start : start + step]), 1), dtype=np.int64)
        for members, r in zip(subsets, sizes, strict=True):
            flat = (flat[:, :, None] * r + members[start : start + step, None, :]).reshape(len(flat), -1)
        out += np.bincount(flat.ravel(), minlength=out.size).reshape(out.shape)
    return out


class TableRecord(msgspec.Struct, forbid_unknown_fields=True):
    """One table of a file.

    Without a report it has the most accurate one on all its cells.
    """

    attributes: list[str]
    share: float
    subset_sizes: tuple[int, ...] = ()
    likely: tuple[int, ...] = (1,)


class SampledTablesRecord(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Content of a file of sampled tables."""

    format: str
    software: str
    epsilon: float
    answer_epsilon: float
    attributes: list[DeclaredAttribute]
    tables: list[TableRecord]
    digest: str = ""
    bound: ErrorCertificate | None = None


_SEALED = Sealed(SampledTablesRecord, FORMAT, "", "cannot be read", lambda _: "")


@dataclass(frozen=True, eq=False, repr=False)
class SampledTables(Asking, TableResult):
    """Tables of which each respondent answers one at random.

    Their probabilities, their reports, and the total ε.

    Parameters
    ----------
    domain
        attributes of the tables.
    tables
        attribute names of each table.
    shares
        probability of each table, shape (number of tables,); positive, summing to 1.
    answer_epsilon
        ε in nats of the one answer, 1e-6..50.
    subset_reports
        report of each table; by default the subset of its cells that is most accurate at this ε.
    bound
        lower bound of the error of any mechanism of this total, with its proof; not part of the protocol.

    Raises
    ------
    InvalidInput
        for tables of unknown or repeated attributes or more than 65,536 cells, reports that do not fit them, or invalid
        probabilities.

    Examples
    --------
    >>> import optrr
    >>> domain = optrr.Domain.of({"sex": 2, "age": 5})
    >>> asking = optrr.SampledTables(domain, (("sex",), ("age",)), [0.5, 0.5], 1.0)
    >>> round(asking.epsilon, 6), asking.keeps_records
    (1.0, False)
    """

    domain: Domain
    tables: tuple[tuple[str, ...], ...]
    shares: FloatArray
    answer_epsilon: float
    subset_reports: tuple[SubsetReport, ...] = ()
    bound: ErrorCertificate | None = None
    mechanism_name = "sampled tables"
    file_format = SAMPLED_TABLES

    def __post_init__(self) -> None:
        object.__setattr__(self, "answer_epsilon", checked_epsilon(self.answer_epsilon))
        object.__setattr__(self, "shares", np.asarray(self.shares, dtype=np.float64))
        if not self.subset_reports:
            best = (whole_table(shape, self.answer_epsilon) for shape in self.shapes)
            object.__setattr__(self, "subset_reports", tuple(best))
        if len(self.subset_reports) != len(self.tables) or not all(
            isinstance(r, SubsetReport) for r in self.subset_reports
        ):
            raise InvalidInput(
                f"subset_reports = {self.subset_reports!r}; give a SubsetReport for each of the {len(self.tables)} "
                "tables, or none"
            )
        asked = {(frozenset(t), report) for t, report in zip(self.tables, self.subset_reports, strict=True)}
        if not self.tables or len(asked) != len(self.tables):
            raise InvalidInput("give one or more sampled tables, each once and with its attributes in the same order")
        shares = self.shares
        if shares.shape != (len(self.tables),) or not (shares > 0).all() or abs(float(shares.sum()) - 1) > 1e-9:
            raise InvalidInput(f"{len(self.tables)} tables need the same number of positive shares, which sum to 1")
        for names, shape, report in zip(self.tables, self.shapes, self.subset_reports, strict=True):
            if flaw := report.flaw(shape):
                raise InvalidInput(f"table {crossed(names)} {flaw}")
        if (patterns := patterns_of(self.subset_reports)) > MOST_PATTERNS:
            raise InvalidInput(
                f"the reports have {patterns} patterns of matches in total, more than {MOST_PATTERNS}; use fewer "
                "questions, or fewer attributes per question"
            )

    @classmethod
    def within(
        cls,
        domain: Domain,
        tables: tuple[tuple[str, ...], ...],
        shares: FloatArray,
        total: float,
        reports: tuple[SubsetReport, ...] = (),
    ) -> "SampledTables":
        """Build a protocol whose stated total ε is at most ``total`` nats.

        Rounding up could otherwise exceed it.
        """
        made = cls(domain, tables, shares, total, reports)
        while made.epsilon > total > EPSILON_RANGE[0]:
            lower = made.answer_epsilon - 2 * (made.epsilon - total)
            made = replace(made, answer_epsilon=max(lower, EPSILON_RANGE[0]))
        return made

    @property
    def name(self) -> str:
        """Sampled tables, or one report where there is one table."""
        return "sampled tables" if len(self.tables) > 1 else "one report"

    @cached_property
    def keeps_records(self) -> bool:
        """Whether any table can be estimated, now or later.

        Every effect of all attributes has energy in some query.

        Each person may still have told of a few attributes only; :meth:`table_error` says how accurate a table is.
        """
        whole = range(self.domain.m)
        return any(len(members) == len(whole) for members in self.indices) and not self._missing(whole)

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Number of categories of each attribute of each table."""
        return tuple(tuple(self.domain.attributes[i].size for i in self.domain.indices(t)) for t in self.tables)

    @cached_property
    def epsilon(self) -> float:
        """Total ε in nats of the record, of the answers as drawn; rounded up."""
        each = set(zip(self.subset_reports, self.shapes, strict=True))
        return max(reported_epsilon(report, shape, self.answer_epsilon) for report, shape in each)

    def headline(self) -> str:
        """Total, and how many tables."""
        return f"total epsilon {epsilon_text(self.epsilon)}, each person answers one of {amount(len(self.tables), 'table')}"

    drawn = ("share",)

    def to_arrow(self) -> pa.Table:
        """Convert to a table with one row per table.

        Columns are attributes, share, subset_sizes, likely.
        """
        rows = zip(self.tables, self.shares.tolist(), self.subset_reports, strict=True)
        return pa.Table.from_pylist(
            [{"attributes": t, "share": s, "subset_sizes": r.subset_sizes, "likely": r.likely} for t, s, r in rows]
        )

    @property
    def share_ends(self) -> NDArray[np.uint64]:
        """Cumulative probabilities of the tables in units of 2^-32, as drawn.

        Whole numbers, shape (number of tables,).
        """
        return np.round(np.cumsum(self.shares) * 2.0**SHARE_BITS).astype(np.uint64)

    def table_error(self, names: str | Iterable[str]) -> float:
        """Compute the limit of n E‖π̂ − π‖² for a uniform population.

        Approximate for others; ``inf`` without an estimate.

        Every effect W adds c_W dim_W/e_W, e_W its energy over all tables asked.
        """
        wanted = self.domain.indices(names)
        energies = self._energies_of(wanted)
        sizes = [self.domain.attributes[i].size for i in wanted]
        dims = [math.prod(r - 1 for k, r in enumerate(sizes) if s >> k & 1) for s in range(energies.size)]
        if not (energies[1:] > 0).all():
            return inf
        return float(np.sum(np.asarray(dims[1:], dtype=np.float64) ** 2 / energies[1:])) / math.prod(sizes)

    def half_variance(self, names: str | Iterable[str]) -> float:
        """Compute about the variance of one answer's estimate of a cell of proportion 1/2; ``inf`` without an estimate.

        That of a uniform population, and the sampling variance beyond it of the proportion of people who are asked.
        """
        wanted = set(self.domain.indices(names))
        cells = math.prod(self.domain.attributes[i].size for i in wanted)
        asked = sum(s for i, s in zip(self.indices, self.shares.tolist(), strict=True) if wanted <= set(i)) or 1.0
        return self.table_error(names) / cells + (1 / 4 - (cells - 1) / cells**2) / asked

    @cached_property
    def energies(self) -> tuple[FloatArray, ...]:
        """e_S of each table's effects, by Σ 2^i over S's places in the table.

        0 for effects that its report does not observe.
        """
        each = zip(self.subset_reports, self.shapes, strict=True)
        return tuple(report.energies(shape, self.answer_epsilon) for report, shape in each)

    @cached_property
    def indices(self) -> tuple[tuple[int, ...], ...]:
        """Numbers of each table's attributes."""
        return tuple(self.domain.indices(t) for t in self.tables)

    @cached_property
    def queries(self) -> tuple[Query, ...]:
        """Tables of which each person answers one, and the subsets of its report."""
        each = zip(self.tables, self.shares.tolist(), self.subset_reports, self.shapes, strict=True)
        return tuple(
            Query(share, tuple(_parts(names, report, shape, self.answer_epsilon)))
            for names, share, report, shape in each
        )

    @cached_property
    def digest(self) -> str:
        """Digest of the domain, tables, proportions, reports and ε."""
        tables = [
            {"attributes": [*names], "share": share, "subset_sizes": report.subset_sizes, "likely": report.likely}
            for names, share, report in zip(self.tables, self.shares.tolist(), self.subset_reports, strict=True)
        ]
        return digest_of(self.domain, {"tables": tables, "answer_epsilon": self.answer_epsilon})

    def bounded(self, certify: Callable[[], ErrorCertificate]) -> "SampledTables":
        """Add a lower bound on any mechanism's error, with its proof.

        Unless the tables are too many for one.
        """
        with suppress(InvalidProblem):
            return replace(self, bound=certify())
        return self

    def verification(self, stated: float | None = None, *, intact: bool | None = None) -> Verification:
        """Check the total ε, or a stated one, against the drawn thresholds.

        ``intact`` states whether a file is unchanged.

        The bound on errors, too, where there is one.
        """
        how = f"the largest of {amount(len(self.tables), 'report')}, from 64-bit thresholds in exact rationals"
        said = self.epsilon if stated is None else stated
        bounds = () if self.bound is None else (self._bound_check(self.bound),)
        return Verification((total_check(said, self.epsilon, how), *bounds), intact, self.digest)

    def _bound_check(self, bound: ErrorCertificate) -> Check:
        """Check that the multipliers prove the bound for these attributes.

        For mechanisms of at least this total.
        """
        how, value = "lower bound of any mechanism's error, from multipliers in doubles rounded outward", 0.0
        if bound.sizes == self.domain.sizes.tolist() and bound.total >= self.answer_epsilon * (1 - SAME):
            try:
                value = bound.proved()
            except InvalidInput as error:
                how = str(error)
        return Check("error bound", repr(bound.bound), repr(value), how, bool(bound.bound <= value * (1 + SAME)))

    def randomize_frame(self, data: Any, random_state: RandomState = None) -> pa.Table:
        """Draw everybody's answer, one row per person in the order of the data.

        Columns are ``table`` and ``cells``.

        No ε covers the order: where the data are sorted or grouped by a value, a row's place tells it. :meth:`release_file`
        shuffles. ``data`` is a data frame, a file's path or record batches, with one column per attribute; ``random_state``
        None draws random bits from the operating system, and anything else is for studies.
        """
        refuse_randomized(data)
        bits = as_source(random_state)
        batches = list(self.batches(data, bits))
        if not batches:
            raise InvalidInput("the data contains no records; give at least one")
        provenance = Provenance(Release.drawn(self, is_seeded(bits)))
        return pa.Table.from_batches(batches, schema=SCHEMA).replace_schema_metadata(provenance.metadata())

    def release_file(
        self,
        source: Places,
        target: str | os.PathLike[str],
        random_state: RandomState = None,
        options: ReleaseOptions | None = None,
    ) -> FileRelease:
        """Draw everybody's answer from one file into another, shuffled.

        The file is complete or not written, and has provenance metadata.

        Columns that are no attributes are refused unless they are dropped, for the answers hold no others.
        """
        how = options or ReleaseOptions()
        if how.public:
            raise InvalidInput(
                "``public``: answers have no other columns; leave it out, or use a design of whole records"
            )
        bits, path = as_source(random_state), Path(target)
        replaced = replaced_release(path)
        # refuse answers before their missing columns cause another error
        refuse_randomized(source)
        opened = open_source(source, self.domain)
        provenance = how.provenance(self, bits, source, opened)
        refuse_input_as_target(path, opened)
        with released_file(path, SCHEMA, provenance) as writer:
            answers = self.batches(opened, bits, allow_extra=how.drop_undeclared)
            people = writer.write(how.in_order(answers, bits, writer.folder))
            if not people:
                raise InvalidInput(f"{source} contains no records; give at least one")
        notes = (*how.warnings(str(path)), *replaced)
        dropped = [name for name in opened.schema.names if name not in self.domain.columns]
        return FileRelease.written(path, people, provenance, self.domain, notes=notes, dropped=dropped)

    def batches(
        self, data: Any, random_state: RandomState | BitSource = None, *, allow_extra: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Draw everybody's answer, batch by batch.

        Time O(n R) for a table of R cells, memory for one batch.
        """
        source, declared = as_source(random_state), None if allow_extra else self.domain
        return (self._answers(codes, source) for codes in encoded_batches(data, self.domain, declared))

    def _answers(self, codes: NDArray[np.int32], source: BitSource) -> pa.RecordBatch:
        asked = self._drawn(codes.shape[0], source)
        cells = np.empty(codes.shape[0], dtype=object)
        order = np.argsort(asked, kind="stable")
        ends = np.cumsum(np.bincount(asked, minlength=len(self.tables)))
        for k, rows in enumerate(np.split(order, ends[:-1])):
            if rows.size:
                records = codes[rows[:, None], self.indices[k]].astype(np.int64)
                subsets = report_subsets(records, self.subset_reports[k], self.shapes[k], self.answer_epsilon, source)
                each = ([" ".join(map(str, row)) for row in members.tolist()] for members in subsets)
                cells[rows] = ["|".join(parts) for parts in zip(*each, strict=True)]
        return pa.RecordBatch.from_arrays(
            [pa.array(asked + 1, pa.int32()), pa.array(cells, pa.string())], schema=SCHEMA
        )

    def _drawn(self, n: int, source: BitSource) -> NDArray[np.int64]:
        """Draw the tables of n people, shape (n,)."""
        words = source.words(n) >> np.uint64(64 - SHARE_BITS)
        return np.minimum(np.searchsorted(self.share_ends, words, side="right"), len(self.tables) - 1)

    def estimate(self, answers: Any, attributes: str | Iterable[str], confidence: float = 0.95) -> Estimate:
        """Estimate a table from released answers, a frame or a file.

        All informative tables are combined.

        Axes in the order of a table asked that is over these attributes, else in the domain's.

        Reports of devices (``design`` and ``id`` beside ``table`` and ``cells``) count once each, however often they were sent.

        Raises InvalidInput for a table that no answers tell about, answers that this protocol cannot give, or reports of
        another design.
        """
        check_confidence(confidence)
        reports = OpenedRecords.of(self, answers)
        warn(reports.unbound)
        domain, answered = self._answered(reports, attributes)
        if (one := alone(answered)) is None:
            out = combined(domain, answered, confidence)
        else:
            out = estimate_of_supports(domain, one.supports.ravel(), one.n, one.likely_chances(), confidence)
        return out

    def counted(self, answers: Any, attributes: str | Iterable[str], partly: bool = False) -> "EstimatedTable":
        """Estimate a table with its distribution, for measures and tests.

        Axes are in this order; raises as :meth:`estimate` does.

        ``partly``: effects that no answer tells about are 0 and have no variance.
        """
        reports = OpenedRecords.of(self, answers)
        warn(reports.unbound)
        known, answered = self._answered(reports, attributes, partly)
        domain = self.domain.subset([self.domain.names[i] for i in self.domain.indices(attributes)])
        places = [domain.names.index(name) for name in known.names]
        moved = [replace(a, axes=tuple(places[k] for k in a.axes)) for a in answered]
        return answered_table(domain, moved, partly)

    def poisoning(self, answers: Any, attributes: str | Iterable[str], fakes: int) -> "Poisoning":
        """Compute the effect of ``fakes`` fake answers on each cell.

        All are to this table; see :mod:`optrr.core.estimation.poisoned`.

        Raises InvalidInput as :meth:`estimate`; for a table that several of the tables asked tell about; for a number of fakes
        that is not below the number of answers to this table.
        """
        # rarely needed, and estimators take long to import
        from optrr.core.estimation import supported_poisoning  # noqa: PLC0415

        domain, answered = self._answered(OpenedRecords.of(self, answers), attributes)
        if (one := alone(answered)) is None:
            raise InvalidInput(
                f"the table {crossed(domain.names)} combines answers to several tables, for which the effect of "
                "fake reports is not known; choose a table that one of the sampled tables contains"
            )
        return supported_poisoning(domain, one.supports.ravel().astype(np.int64), one.n, one.likely_chances(), fakes)

    def _answered(
        self, reports: OpenedRecords, attributes: str | Iterable[str], partly: bool = False
    ) -> tuple[Domain, list[Answered]]:
        """Return a table's domain and the counts of all tables that share attributes."""
        wanted = sorted(self.domain.indices(attributes))
        order = next((i for i in self.indices if sorted(i) == wanted), tuple(wanted))
        domain = self.domain.subset([self.domain.names[i] for i in order])
        if math.prod(domain.sizes.tolist()) > MAX_CELLS:
            raise InvalidInput(
                f"the table {crossed(domain.names)} has more than {MAX_CELLS} cells; use fewer attributes"
            )
        missing = self._missing(order)
        if missing and not partly:
            asked = "; ".join(",".join(t) for t in self.tables[:_LISTED])
            raise InvalidInput(
                (
                    f"no answer contains information about {crossed([self.domain.names[i] for i in missing])}; the "
                    f"sampled tables are {asked}"
                )
                + (", …" if len(self.tables) > _LISTED else "")
            )
        counts = {k: 0 for k, members in enumerate(self.indices) if set(members) & set(order)}
        shared = {k: [i for i in self.indices[k] if i in order] for k in counts}
        supports = {k: np.zeros([self.domain.attributes[i].size for i in shared[k]]) for k in counts}
        (opened,) = reports.places
        for asked_of, texts in self._sent(opened):
            for k in counts:
                rows = np.flatnonzero(asked_of == k)
                if not rows.size:
                    continue
                report, shape = self.subset_reports[k], self.shapes[k]
                subsets = _members(texts[rows], report.parts(shape), report.subset_sizes)
                counts[k] += rows.size
                supports[k] += self._counted(k, subsets, shared[k])
        answered = [
            Answered(
                report=self.subset_reports[k],
                sizes=self.shapes[k],
                epsilon=self.answer_epsilon,
                shared=tuple(self.indices[k].index(i) for i in shared[k]),
                axes=tuple(order.index(i) for i in shared[k]),
                supports=supports[k],
                n=counts[k],
            )
            for k in counts
        ]
        if not any(a.n for a in answered):
            raise TooFewRecords(f"no respondent was asked about {crossed(domain.names)}; collect more answers")
        return domain, answered

    def _sent(self, answers: Any) -> Iterator[tuple[IntArray, NDArray[np.object_]]]:
        """Iterate over batches of table numbers, from 0, and answers.

        Raises InvalidInput for any other table.
        """
        source = open_source(answers, _COLUMNS)
        checked_columns(source.column_names(), _COLUMNS, None)
        for batch in source.batches(SCHEMA.names):
            table, texts = (column.cast(pa.string()).to_numpy(zero_copy_only=False) for column in batch.columns)
            numbers = [
                int(text) - 1 if text and text.isascii() and text.isdigit() and len(text) < 10 else -1 for text in table
            ]
            asked = np.asarray(numbers, dtype=np.int64)
            if asked.size and not 0 <= asked.min() <= asked.max() < len(self.tables):
                raise InvalidInput(
                    f"an answer belongs to none of the {len(self.tables)} tables; read it with the file of the "
                    "right protocol"
                )
            yield asked, texts

    def _energies_of(self, wanted: Sequence[int]) -> FloatArray:
        """Compute the energies of a table's effects over all tables, (2^k,).

        By Σ 2^k over their places in it.
        """
        out = np.zeros(1 << len(wanted))
        for every, members, share in zip(self.energies, self.indices, self.shares, strict=True):
            # number of each effect in this table, and whether the table has all of its attributes
            number, inside = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.bool_)
            for i in wanted:
                number = np.concatenate([number, number + (1 << members.index(i) if i in members else 0)])
                inside = np.concatenate([inside, inside & (i in members)])
            out += share * every[number] * inside
        return out

    def _missing(self, wanted: Sequence[int]) -> list[int]:
        """Find the smallest effect of a table without energy; empty if all have some."""
        unseen = np.flatnonzero(self._energies_of(wanted)[1:] == 0) + 1
        smallest = min(unseen.tolist(), key=int.bit_count, default=0)
        return [i for k, i in enumerate(wanted) if smallest >> k & 1]

    def _counted(self, place: int, subsets: Sequence[IntArray], shared: Sequence[int]) -> FloatArray:
        """Count how often each cell over the shared attributes was named.

        In the table's order.
        """
        shape, members = self.shapes[place], self.indices[place]
        if len(subsets) == len(shape):
            kept = [members.index(i) for i in shared]
            return _named_cells([subsets[i] for i in kept], [shape[i] for i in kept])
        cells = np.bincount(subsets[0].ravel(), minlength=math.prod(shape)).reshape(shape)
        return np.asarray(cells.sum(axis=tuple(k for k, i in enumerate(members) if i not in shared)), dtype=np.float64)


def _parts(
    names: tuple[str, ...], report: SubsetReport, shape: tuple[int, ...], epsilon: float
) -> Iterator[ReportPart]:
    """Compute how often each subset of a report holds the person's own value."""
    weights, likely, out = report.weights(shape), report.likely_weight(shape), unlikely_chance(report, shape, epsilon)
    chances = [
        w / likely * (1 - out) if pattern in report.likely else w / (math.prod(shape) - likely) * out
        for pattern, w in enumerate(weights)
    ]
    of_each = len(report.subset_sizes) == len(shape)
    for i, (named, of) in enumerate(zip(report.subset_sizes, report.parts(shape), strict=True)):
        holds = math.fsum(chance for pattern, chance in enumerate(chances) if pattern >> i & 1)
        yield ReportPart((names[i],) if of_each else names, named, of, holds)


def save_sampled_tables(asking: SampledTables, path: str | Path) -> None:
    """Write the protocol as a JSON file, whole or not at all."""
    rows = zip(asking.tables, asking.shares.tolist(), asking.subset_reports, strict=True)
    record = SampledTablesRecord(
        FORMAT,
        SOFTWARE,
        asking.epsilon,
        asking.answer_epsilon,
        [DeclaredAttribute(**declaration(a)) for a in asking.domain],
        [TableRecord(list(names), share, r.subset_sizes, r.likely) for names, share, r in rows],
        asking.digest,
        asking.bound,
    )
    with whole_file(Path(path)) as partial:
        text = json.dumps(msgspec.to_builtins(record), indent=1, ensure_ascii=False)
        partial.write_text(text + "\n", encoding="utf-8")


def load_sampled_tables(path: Given, *, limited: bool = True) -> SampledTables:
    """Read a file of sampled tables; see :func:`optrr.load`.

    Raises InvalidInput where it cannot be read, is malformed or of another version, was changed, or its ε is not the one drawn.
    """
    record, asking = _decoded(path)
    failed = asking.verification(record.epsilon).failed
    if failed and failed[0].name == "total epsilon":
        raise InvalidInput(
            f"{path} states a total epsilon of {record.epsilon:g}, but its answers consume {asking.epsilon:g}"
        )
    if failed:
        raise InvalidInput(f"{path} does not verify: {failed[0].line()}; allocate again")
    if record.digest not in ("", asking.digest):
        raise InvalidInput(f"{path} was changed after it was written (its digest differs); allocate again")
    return asking


def verify_sampled_tables(path: Given, *, limited: bool = True) -> Verification:
    """Recompute the total ε from the thresholds, and check the file's integrity.

    Raises InvalidInput where it cannot be read, or is malformed or of another version.
    """
    record, asking = _decoded(path)
    return asking.verification(record.epsilon, intact=record.digest == asking.digest)


def _decoded(path: Given) -> tuple[SampledTablesRecord, SampledTables]:
    try:
        raw = read_small(path)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {in_one_line(error)}") from error
    record = _SEALED.decoded(raw, path)
    domain = Domain(tuple(a.attribute() for a in record.attributes))
    tables = tuple(tuple(t.attributes) for t in record.tables)
    checked_epsilon(record.answer_epsilon)
    reports = tuple(
        SubsetReport(t.subset_sizes, t.likely)
        if t.subset_sizes
        else whole_table(domain.subset(names).sizes.tolist(), record.answer_epsilon)
        for t, names in zip(record.tables, tables, strict=True)
    )
    shares = np.asarray([t.share for t in record.tables])
    return record, SampledTables(domain, tables, shares, record.answer_epsilon, reports, record.bound)


def load_asking(path: Given) -> Design | SampledTables:
    """Load the design or the sampled tables of a file.

    For ``optrr randomize`` and ``optrr estimate``.

    Raises InvalidInput where the file is missing, malformed, of an unknown version, or states a number that does not hold.
    """
    held = content_of(path, "design file")
    return load_sampled_tables(held) if kind_of(held) == SAMPLED_TABLES else load_design(held)
