"""One random table each: a person answers one table of the workload only, drawn at random, with the whole ε (SMP).

The table is drawn with public probabilities that do not depend on the record, its cell is reported by the best local report
(:mod:`optrr.ways.protocols.supports`), so the record's ε is the largest of the reports'. Nobody's answers can be linked: only
the tables asked for can ever be estimated. With one table, everybody answers it.

How a table is estimated from what is released is in :mod:`optrr.ways.protocols.supports`.

What people release who answer one table each: two columns, ``table`` and ``cells``.

``table`` says which table was asked (1, 2, …), ``cells`` which of its cells the report supports: numbers from 0 in row-major
order, last attribute fastest, separated by spaces; an empty text supports none.

The file of sampled tables: versioned JSON that both the people asked and those who estimate work from.

One object: ``format``, ``software``, ``epsilon`` (what the answers spend as they are drawn), ``answer_epsilon`` (what they are
made for), ``attributes`` (:mod:`optrr.domain.domain`) and ``tables`` (attributes, share, report: grr, oue or ss).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from math import inf, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optrr.designs.asking import Asking
from optrr.designs.design import Design
from optrr.designs.design_file import load_design
from optrr.domain.domain import Attribute, DeclaredAttribute, Domain, declaration
from optrr.errors import InvalidInput, TooFewRecords, in_one_line, warn
from optrr.mechanisms.mechanism import FileRelease, ReleaseOptions, released_by
from optrr.records.counts import encoded_batches, record_batches
from optrr.records.origins import randomized_before
from optrr.records.reading.registry import open_source
from optrr.records.reading.source import Places
from optrr.records.reports import OpenedRecords
from optrr.records.whole_files import whole_file
from optrr.records.writing import refuse_input_as_target, released_file
from optrr.releases.account import checked_epsilon
from optrr.releases.provenance import digest_of
from optrr.releases.sealed import SAMPLED_TABLES, Given, Sealed, content_of, kind_of, read_small
from optrr.show.text import category_word, crossed
from optrr.show.version import SOFTWARE
from optrr.tables.estimation.estimator import Estimate, check_confidence
from optrr.ways.protocols.supports import (
    ORACLES,
    Oracle,
    best_report,
    drawn_epsilon,
    estimate_of_supports,
    report,
    report_error,
    subset_size,
    support_probabilities,
)
from optrr_solvers.arrays import FloatArray
from optrr_solvers.randomness import BitSource, RandomState, as_source

if TYPE_CHECKING:
    from optrr.tables.estimation.fake_reports import Poisoning


SCHEMA = pa.schema([("table", pa.int32()), ("cells", pa.string())])
# A domain that names the two columns for the readers; it declares placeholders, because their values are read in this module.
_COLUMNS = Domain((Attribute("table", ("1", "2")), Attribute("cells", ("", "0"))))


def report_texts(answers: NDArray[np.integer]) -> NDArray[np.object_]:
    """Each report as text, shape (n,): its category's number, or the numbers of the bits that are 1."""
    if answers.ndim == 1:
        return answers.astype(str).astype(object)
    return np.asarray([" ".join(map(str, np.flatnonzero(row))) for row in answers], dtype=object)


def released(asked: NDArray[np.integer], cells: NDArray[np.object_]) -> pa.RecordBatch:
    """One batch, from the number of the table that each person was asked (from 0) and the texts of the reports."""
    return pa.RecordBatch.from_arrays([pa.array(asked + 1, pa.int32()), pa.array(cells, pa.string())], schema=SCHEMA)


def counted(answers: Any, table: int, size: int, supported: int | None) -> tuple[FloatArray, int]:
    """How many answers support each cell of a table (numbered from 0), shape (size,), and how many answers there are.

    Every answer supports ``supported`` different cells; None where that may be any number. An answer that named a cell twice
    would count twice for it, so that one fake could move an estimate anywhere.

    Raises
    ------
    InvalidInput
        for cells outside the table, texts that are no cell numbers, answers that support another number of cells or one of
        them twice, or a table that nobody was asked.
    """
    n, out = 0, np.zeros(size)
    for batch in record_batches(answers, _COLUMNS, None):
        chosen = batch.column("table").cast(pa.string()).to_numpy(zero_copy_only=False) == str(table + 1)
        texts = batch.column("cells").cast(pa.string()).to_numpy(zero_copy_only=False)[chosen]
        n += int(chosen.sum())
        cells = _numbers(texts)
        if cells.size and (cells.min() < 0 or cells.max() >= size):
            raise InvalidInput(f"an answer names a cell outside 0..{size - 1}; estimate with the file it was asked by")
        _check_supports(texts, cells, size, supported)
        out += np.bincount(cells, minlength=size)
    if not n:
        raise TooFewRecords(f"nobody was asked for table {table + 1}; collect from more people")
    return out, n


def in_words(answers: Any, tables: Sequence[Domain]) -> pa.Table:
    """The answers as people read them, a row each: what each is ``about``, and the categories that it ``supports``.

    Raises
    ------
    InvalidInput
        for answers that are none to these tables.
    """
    about: list[str] = []
    supported: list[list[str]] = []
    titles, labels = [crossed(table.names) for table in tables], [_cell_texts(table) for table in tables]
    for batch in record_batches(answers, _COLUMNS, None):
        asked, cells = (batch.column(name).cast(pa.string()).to_pylist() for name in SCHEMA.names)
        for number, text in zip(asked, cells, strict=True):
            if number not in _numbered(len(tables)):
                raise InvalidInput(
                    f"an answer is to none of the {len(tables)} tables; read it by the file it was asked by"
                )
            k, named = int(number) - 1, _numbers([text]).tolist()
            if named and not 0 <= min(named) <= max(named) < len(labels[k]):
                raise InvalidInput(
                    f"an answer names a cell outside 0..{len(labels[k]) - 1}; read it by the file it was asked by"
                )
            about.append(titles[k])
            supported.append([labels[k][c] for c in named])
    return pa.table({"about": pa.array(about, pa.string()), "supports": pa.array(supported, pa.list_(pa.string()))})


@cache
def _numbered(tables: int) -> frozenset[str]:
    return frozenset(str(k + 1) for k in range(tables))


def _cell_texts(table: Domain) -> list[str]:
    """Each cell's categories, in the order of the cells' numbers."""
    return [crossed(map(category_word, cell)) for cell in product(*(a.texts for a in table))]


def _check_supports(texts: Sequence[Any], cells: NDArray[np.int64], size: int, supported: int | None) -> None:
    """Refuse answers that name a cell twice, or not as many as an answer to this table does."""
    lengths = np.array([len(text.split()) if text else 0 for text in texts], dtype=np.int64)
    if supported is not None and np.any(lengths != supported):
        raise InvalidInput(
            f"an answer names {lengths[lengths != supported][0]} cells where every answer to this table names {supported}; "
            "take the answers that perturb wrote"
        )
    each = np.repeat(np.arange(lengths.size), lengths) * size + cells
    if np.unique(each).size < each.size:
        raise InvalidInput("an answer names a cell twice; take the answers that perturb wrote")


def _numbers(texts: Sequence[Any]) -> NDArray[np.int64]:
    """All numbers in the texts, one after another; an empty answer supports nothing."""
    joined = " ".join(text for text in texts if text)
    try:
        return np.asarray(joined.split(), dtype=np.int64)
    except (ValueError, OverflowError) as error:
        raise InvalidInput("an answer is no list of cell numbers; give the file that perturb wrote") from error


FORMAT = "optrr-sampled-tables/1"


class TableRecord(msgspec.Struct, forbid_unknown_fields=True):
    """One table as it stands in the file; without a report it is the most accurate one."""

    attributes: list[str]
    share: float
    report: str | None = None


class SampledTablesRecord(msgspec.Struct, forbid_unknown_fields=True):
    """What the file holds."""

    format: str
    software: str
    epsilon: float
    answer_epsilon: float
    attributes: list[DeclaredAttribute]
    tables: list[TableRecord]


_SEALED = Sealed(SampledTablesRecord, FORMAT, "", "cannot be read", lambda _: "")


# A report by bits holds one for each cell; a table of more cells should be coarsened first.
MAX_CELLS = 1 << 16
# Shares of the tables are drawn as whole numbers of 2^-32: no table's share is off by more.
_SHARE_BITS = 32
# Tables listed in a message.
_LISTED = 5


@dataclass(frozen=True, eq=False)
class SampledTables(Asking):
    """Which tables are asked, how often each, by which report, and the ε that one person spends.

    Parameters
    ----------
    domain
        the attributes that the tables are of.
    tables
        attribute names of each table.
    shares
        probability of each table, shape (number of tables,); positive, summing to 1.
    answer_epsilon
        ε in nats of the one answer, 1e-6..50.
    reports
        how a cell is reported, of each table or of all: grr, oue (unary encoding), ss (subset selection); None or left out,
        the one with the smallest error at this ε.

    Raises
    ------
    InvalidInput
        for an unknown report, tables of unknown or repeated attributes or more than 65,536 cells, or shares that are no
        probabilities.
    """

    domain: Domain
    tables: tuple[tuple[str, ...], ...]
    shares: FloatArray
    answer_epsilon: float
    reports: str | tuple[str | None, ...] = ()

    def __post_init__(self) -> None:
        checked_epsilon(self.answer_epsilon)
        if not self.tables or len({frozenset(t) for t in self.tables}) != len(self.tables):
            raise InvalidInput("sampled tables must be one or more, each named once")
        shares = np.asarray(self.shares, dtype=np.float64)
        if shares.shape != (len(self.tables),) or not (shares > 0).all() or abs(float(shares.sum()) - 1) > 1e-9:
            raise InvalidInput(f"{len(self.tables)} tables need as many positive shares that sum to 1")
        for names, size in zip(self.tables, self.sizes, strict=True):
            if size > MAX_CELLS:
                raise InvalidInput(
                    f"table {' × '.join(names)} has {size} cells; at most {MAX_CELLS} can be reported: merge categories"
                )

        unknown = next((r for r in self._reports if r is not None and r not in ORACLES), None)
        if unknown is not None or len(self._reports) != len(self.tables):
            raise InvalidInput(
                f"reports are {self.reports!r}; give one of {', '.join(ORACLES)}, or one for each of {len(self.tables)} tables"
            )

    @property
    def _reports(self) -> tuple[str | None, ...]:
        given: tuple[str | None, ...] = (self.reports,) if isinstance(self.reports, str) else self.reports
        return given * len(self.tables) if len(given) == 1 else given or (None,) * len(self.tables)

    @property
    def name(self) -> str:
        """Sampled tables, or one report where there is one table."""
        return "sampled tables" if len(self.tables) > 1 else "one report"

    @property
    def keeps_records(self) -> bool:
        """False: only the tables asked for can be estimated."""
        return False

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of cells of each table."""
        return tuple(prod(self.domain.attributes[i].size for i in self.domain.indices(t)) for t in self.tables)

    @cached_property
    def oracles(self) -> tuple[Oracle, ...]:
        """The report that each table is answered with."""
        return tuple(
            best_report(size, self.answer_epsilon) if report is None else report  # type: ignore[misc]  # checked above
            for size, report in zip(self.sizes, self._reports, strict=True)
        )

    @cached_property
    def epsilon(self) -> float:
        """Total ε in nats of the record, of the answers as drawn; rounded up."""
        return max(drawn_epsilon(o, r, self.answer_epsilon) for o, r in zip(self.oracles, self.sizes, strict=True))

    def table_error(self, names: str | Iterable[str]) -> float:
        """V/p of a table that a share p of people is asked, V its report's; ``inf`` for any other.

        It is what n E‖π̂ − π‖² tends to. With n people it is V E[n/N], N of whom are asked: larger by about (1 − p)/(n p).
        """
        place = self._place(names)
        if place is None:
            return inf
        report_of = self.oracles[place], self.sizes[place], self.answer_epsilon
        return report_error(*report_of) / float(self.shares[place])

    def _place(self, names: str | Iterable[str]) -> int | None:
        """Which of the tables is over exactly these attributes."""
        wanted = set(self.domain.indices(names))
        return next((k for k, t in enumerate(self.tables) if set(self.domain.indices(t)) == wanted), None)

    @cached_property
    def digest(self) -> str:
        """Of the domain, the tables, their shares and reports, and the answers' ε."""
        tables = [
            {"attributes": [*names], "share": share, "report": report}
            for names, share, report in zip(self.tables, self.shares.tolist(), self.oracles, strict=True)
        ]
        return digest_of(self.domain, {"tables": tables, "answer_epsilon": self.answer_epsilon})

    def perturb(self, data: Any, random_state: RandomState = None, again: bool = False) -> pa.Table:
        """Everybody's answer, one row per person in the order of the data; columns ``table`` and ``cells``.

        No ε covers the order: where the data are sorted or grouped by a value, a row's place tells it. :meth:`release_file`
        shuffles.

        Parameters
        ----------
        data
            a data frame, a file's path or record batches, with one column per attribute.
        random_state
            None draws random bits from the operating system; anything else is for studies.
        """
        known, bits = randomized_before(data, again), as_source(random_state)
        batches = list(self.batches(data, bits))
        if not batches:
            raise InvalidInput("the data holds no records; give at least one")
        provenance = released_by(self, bits, known)
        return pa.Table.from_batches(batches, schema=SCHEMA).replace_schema_metadata(provenance.metadata())

    def release_file(
        self,
        source: Places,
        target: str | os.PathLike[str],
        random_state: RandomState = None,
        options: ReleaseOptions | None = None,
    ) -> FileRelease:
        """Everybody's answer from one file into another, shuffled, whole or not at all, bound to this way of asking.

        Columns that are no attributes are refused, for the answers hold no others.
        """
        how = options or ReleaseOptions()
        if how.drop or how.drop_undeclared:
            raise InvalidInput("answers hold no columns to drop; leave the column out of the records")
        bits = as_source(random_state)
        # answers have other columns than records, and are refused for what they are before that is noticed
        randomized_before(source, how.again)
        opened = open_source(source, self.domain)
        provenance = how.provenance(self, bits, source, opened)
        refuse_input_as_target(Path(target), opened)
        people = 0
        with released_file(Path(target), SCHEMA, provenance) as writer:
            for batch in how.in_order(how.watched(self.batches(opened, bits)), bits, writer.folder):
                people += batch.num_rows
                writer.write(batch)
            if not people:
                raise InvalidInput(f"{source} holds no records; give at least one")
        return FileRelease(people, provenance)

    def in_words(self, answers: Any) -> pa.Table:
        """Answers as people read them: columns ``about``, the table, and ``supports``, a list of its categories.

        Parameters
        ----------
        answers
            what :meth:`perturb` or :meth:`release_file` wrote, a frame or a file.

        Raises
        ------
        InvalidInput
            for answers of another way of asking.
        """
        (opened,) = OpenedRecords.of(self, answers).places
        return in_words(opened, [self.domain.subset(names) for names in self.tables])

    def batches(self, data: Any, random_state: RandomState | BitSource = None) -> Iterator[pa.RecordBatch]:
        """Everybody's answer, batch by batch; time O(n R) for a table of R cells, memory for one batch."""
        source = as_source(random_state)
        return (self._answers(codes, source) for codes in encoded_batches(data, self.domain))

    def _answers(self, codes: NDArray[np.int32], source: BitSource) -> pa.RecordBatch:
        asked = self._drawn(codes.shape[0], source)
        cells = np.empty(codes.shape[0], dtype=object)
        for k, (names, size, oracle) in enumerate(zip(self.tables, self.sizes, self.oracles, strict=True)):
            rows = np.flatnonzero(asked == k)
            if not rows.size:
                continue
            members = list(self.domain.indices(names))
            shape = tuple(self.domain.attributes[i].size for i in members)
            true = np.ravel_multi_index(tuple(codes[rows][:, members].T), shape)
            cells[rows] = report_texts(report(true, oracle, size, self.answer_epsilon, source))
        return released(asked, cells)

    def _drawn(self, n: int, source: BitSource) -> NDArray[np.int64]:
        """Which table each of n people is asked, shape (n,)."""
        ends = np.round(np.cumsum(self.shares) * 2.0**_SHARE_BITS).astype(np.uint64)
        words = source.words(n) >> np.uint64(64 - _SHARE_BITS)
        return np.minimum(np.searchsorted(ends, words, side="right"), len(self.tables) - 1)

    def estimate(self, answers: Any, attributes: str | Iterable[str], confidence: float = 0.95) -> Estimate:
        """Proportions of one of the tables from the released answers, a frame or a file; axes in the table's order.

        Raises
        ------
        InvalidInput
            for a table that was not asked, answers that this way of asking cannot give, or a table nobody was asked.
        """
        check_confidence(confidence)
        reports = OpenedRecords.of(self, answers)
        warn(reports.unbound)
        place, supports, n = self._counted(reports, attributes)
        chances = support_probabilities(self.oracles[place], self.sizes[place], self.answer_epsilon)
        out = estimate_of_supports(self.domain.subset(self.tables[place]), supports, n, chances, confidence)
        return replace(out, warnings=(*reports.twice, *out.warnings))

    def poisoning(self, answers: Any, attributes: str | Iterable[str], fakes: int) -> Poisoning:
        """How far ``fakes`` fake answers, all to this table, can move each cell (:mod:`optrr.tables.estimation.fake_reports`).

        Raises
        ------
        InvalidInput
            as :meth:`estimate`; for a number of fakes that is not below the number of answers to this table.
        """
        # few ask for it, and estimators take a while to import
        from optrr.tables.estimation.fake_reports import supported_poisoning  # noqa: PLC0415

        place, supports, n = self._counted(answers, attributes)
        domain = self.domain.subset(self.tables[place])
        chances = support_probabilities(self.oracles[place], self.sizes[place], self.answer_epsilon)
        return supported_poisoning(domain, supports.astype(np.int64), n, chances, fakes)

    def _counted(self, answers: Any, attributes: str | Iterable[str]) -> tuple[int, FloatArray, int]:
        """Which table this is, its cells' supports, and how many people answered it."""
        place = self._place(attributes)
        if place is None:
            names = [attributes] if isinstance(attributes, str) else attributes
            asked = "; ".join(",".join(t) for t in self.tables[:_LISTED])
            raise InvalidInput(
                f"nobody was asked for the table {' × '.join(sorted(names))}; the tables asked are {asked}"
                + (", …" if len(self.tables) > _LISTED else "")
            )
        (opened,) = OpenedRecords.of(self, answers).places
        return place, *counted(opened, place, self.sizes[place], self._supported(place))

    def _supported(self, place: int) -> int | None:
        """How many cells each answer to a table supports; None where it may be any number."""
        if self.oracles[place] == "ss":
            return subset_size(self.sizes[place], self.answer_epsilon)
        return 1 if self.oracles[place] == "grr" else None


def save_sampled_tables(asking: SampledTables, path: str | Path) -> None:
    """Write the way of asking as a JSON file, whole or not at all."""
    rows = zip(asking.tables, asking.shares.tolist(), asking.oracles, strict=True)
    record = SampledTablesRecord(
        FORMAT,
        SOFTWARE,
        asking.epsilon,
        asking.answer_epsilon,
        [DeclaredAttribute(**declaration(a)) for a in asking.domain],
        [TableRecord(list(names), share, oracle) for names, share, oracle in rows],
    )
    with whole_file(Path(path)) as partial:
        text = json.dumps(msgspec.to_builtins(record), indent=1, ensure_ascii=False)
        partial.write_text(text + "\n", encoding="utf-8")


def load_sampled_tables(path: Given) -> SampledTables:
    """Read a file of sampled tables; see :func:`optrr.load`.

    Raises
    ------
    InvalidInput
        where it cannot be read, is malformed or of another version, or its ε is not the one drawn.
    """
    try:
        raw = read_small(path)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {in_one_line(error)}") from error
    record = _SEALED.decoded(raw, path)
    asking = SampledTables(
        Domain(tuple(a.attribute() for a in record.attributes)),
        tuple(tuple(t.attributes) for t in record.tables),
        np.asarray([t.share for t in record.tables]),
        record.answer_epsilon,
        tuple(t.report for t in record.tables),
    )
    if not record.epsilon >= asking.epsilon * (1 - 1e-12):
        raise InvalidInput(
            f"{path} states a total epsilon of {record.epsilon:g} and its answers spend {asking.epsilon:g}"
        )
    return asking


def load_asking(path: Given) -> Design | SampledTables:
    """The design, or the sampled tables, of a file: what ``optrr perturb`` and ``optrr estimate`` take.

    Raises
    ------
    InvalidInput
        where the file is missing, malformed, of an unknown version, or states a number that does not hold.
    """
    held = content_of(path, "design file")
    return load_sampled_tables(held) if kind_of(held) == SAMPLED_TABLES else load_design(held)
