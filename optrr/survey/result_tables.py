"""What the stored reports of a survey say: tables with intervals and charts, as a page and for spreadsheets.

Everything is computed by the one way from randomized records to numbers: counts, the mechanism's kernel, estimates and tests;
of answers to one question each, by their way of asking.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from optrr.designs.design import Design
from optrr.domain.public import NONE
from optrr.errors import InvalidInput, OptrrError
from optrr.pages.table_pages import estimate_parts
from optrr.records.counts import Counts, count_many
from optrr.show.parts import Page, Part, Section, Text, warned
from optrr.show.text import amount, crossed, epsilon_text, sentence
from optrr.survey.stored_records import StoredRecords
from optrr.tables.estimation.estimator import estimate
from optrr.tables.estimation.fake_reports import poisoning
from optrr.ways.protocols.sampled_tables import SampledTables

# Attributes whose tables stand on the page when none are named.
MOST_TABLES = 30
# Attributes of one table, and its cells.
_MOST_CROSSED = 3
_MOST_CELLS = 2000
# Below this many reports nothing can be estimated.
FEWEST = 2
# Attributes of a test of independence.
_PAIR = 2
_NUMBERS = ["estimate", "standard_error", "lower", "upper"]


class Results:
    """Tables of one survey's stored reports."""

    def __init__(self, design: Design | SampledTables, records: StoredRecords, title: str) -> None:
        self.design, self.title = design, title
        self._tables: _Tables = (
            _OfRecords(design, records) if isinstance(design, Design) else _OfAnswers(design, records)
        )

    def page(self, names: Sequence[str] = ()) -> Page:
        """One table of the named attributes crossed, or one of every attribute.

        Raises
        ------
        InvalidInput
            for unknown or repeated names, or too large a table.
        """
        sets = self._sets(names, MOST_TABLES)
        n, tables = self._tables.read(sets)
        lead = [
            f"{amount(n, 'report')}, {self._tables.each}, at a total epsilon of {epsilon_text(self.design.epsilon)} nats."
        ]
        if n < FEWEST:
            waiting = Text("Estimates begin with the second report.")
            return Page(self.title, [Section("Results", [waiting])], lead)
        sections = [self._section(each, known) for each, known in zip(sets, tables, strict=True)]
        if not names and self.design.domain.m > MOST_TABLES:
            more = f"The first {MOST_TABLES} of {self.design.domain.m} attributes; choose others by name."
            sections.append(Section("Further attributes", [Text(more)]))
        return Page(self.title, sections, lead)

    def table(self, names: Sequence[str] = ()) -> pa.Table:
        """Counts and estimates, a row per cell.

        Columns are the named attributes, or ``attribute`` and ``category`` for all attributes one by one; then count (of
        randomized records), estimate, standard_error, lower, upper (proportions; null where there are none). Answers to
        questions have no counts, and attributes that they do not tell about no rows.
        """
        _, tables = self._tables.read(self._sets(names, self.design.domain.m))
        if not tables:
            raise InvalidInput("there are no reports yet; come back after the first")
        parts, hidden = list[pa.Table](), OptrrError()
        for known in tables:
            try:
                parts.append(self._tables.rows(known, bool(names)))
            except OptrrError as error:
                hidden = error
        if not parts:
            raise hidden
        return pa.concat_tables(parts)

    def _section(self, names: Sequence[str], known: Any) -> Section:
        try:
            return Section(crossed(names), self._tables.parts(known))
        except OptrrError as error:  # where a table is hidden, the page says so and shows the other tables
            return Section(crossed(names), warned([str(error)]))

    def _sets(self, names: Sequence[str], most: int) -> list[tuple[str, ...]]:
        return [self._crossed(names)] if names else [(name,) for name in self.design.domain.names[:most]]

    def _crossed(self, names: Sequence[str]) -> tuple[str, ...]:
        domain = self.design.domain.subset(names)
        cells = int(np.prod(domain.sizes.astype(float)))
        if domain.m > _MOST_CROSSED or cells > _MOST_CELLS:
            raise InvalidInput(
                f"a table of {domain.m} attributes with {cells} cells is not shown here; cross at most {_MOST_CROSSED} "
                f"with {_MOST_CELLS} cells, or download the reports"
            )
        return domain.names


class _Tables(ABC):
    """How reports of one kind become tables; ``each`` says what one of them is."""

    each: str

    @abstractmethod
    def read(self, sets: Sequence[tuple[str, ...]]) -> tuple[int, list[Any]]:
        """How many reports there are, and what is known of each table, from one state of the database; none without reports."""

    @abstractmethod
    def parts(self, known: Any) -> list[Part]:
        """A table's section. Raises OptrrError where the reports do not tell about it."""

    @abstractmethod
    def rows(self, known: Any, together: bool) -> pa.Table:
        """A table's rows, with the attributes' names as columns, or without ``together`` those of one attribute.

        Raises OptrrError where answers do not tell about it.
        """


class _OfRecords(_Tables):
    """Of whole records; each table is known by its counts and, where it is of two attributes, the reports."""

    each = "each randomized where it was given"

    def __init__(self, design: Design, records: StoredRecords) -> None:
        # a survey's records have no other columns beside the attributes
        self._design, self._records = replace(design, public=NONE), records

    def read(self, sets: Sequence[tuple[str, ...]]) -> tuple[int, list[tuple[Counts, Any]]]:
        """The counts, in one pass; where one pair is asked for, its columns are held in memory."""
        data: Any = _held(self._records, sets[0]) if len(sets[0]) == _PAIR else self._records
        first = data if isinstance(data, pa.Table) else next(data.batches(sets[0][:1]), None)
        if first is None or not first.num_rows:
            return 0, []
        counted = list(count_many(data, self._design.domain, sets, allow_extra=True).values())
        return counted[0].n, [(counts, data) for counts in counted]

    def parts(self, known: tuple[Counts, Any]) -> list[Part]:
        """Chart, table, test of independence of two attributes, and how few fake reports would be seen."""
        counts, data = known
        estimated = estimate(counts, self._design.mechanism)
        parts: list[Part] = [*estimate_parts(estimated, counts), *warned(estimated.warnings)]
        if counts.domain.m == _PAIR:
            parts.append(self._association(counts, data))
        parts.append(Text(sentence(poisoning(counts, self._design.mechanism, 1).hundredth)))
        return parts

    def _association(self, counts: Counts, data: Any) -> Text:
        try:
            tested = self._design.reports(data).test(*counts.domain.names, random_state=0)
        except OptrrError as error:
            return Text(f"No test of independence: {error}", warning=True)
        return Text(f"Test of {tested.headline()}.{' '.join(('', *tested.warnings))}")

    def rows(self, known: tuple[Counts, Any], together: bool) -> pa.Table:
        """With the counts; the numbers are null where the mechanism hides the table."""
        counts, _ = known
        try:
            numbers = estimate(counts, self._design.mechanism).to_arrow().select(_NUMBERS)
        except OptrrError:
            missing = pa.nulls(counts.table.size, pa.float64())
            numbers = pa.table(dict.fromkeys(_NUMBERS, missing))
        cells = counts.to_arrow()
        tallies = cells.column(cells.num_columns - 1)
        names, columns = ["count", *_NUMBERS], [tallies, *numbers.columns]
        return _with_names(cells, counts.domain.names, together, names, columns)


class _OfAnswers(_Tables):
    """Of answers to one question each; each table is known by its attributes and the answers."""

    def __init__(self, asking: SampledTables, records: StoredRecords) -> None:
        self._asking, self._records = asking, records
        self.each = f"each an answer to one of {amount(len(asking.tables), 'question')}, randomized where it was given"

    def read(self, sets: Sequence[tuple[str, ...]]) -> tuple[int, list[tuple[tuple[str, ...], pa.Table]]]:
        """All answers, which are held in memory and looked through for each table."""
        answers = _held(self._records, self._records.column_names())
        return answers.num_rows, [(names, answers) for names in sets if answers.num_rows]

    def parts(self, known: tuple[tuple[str, ...], pa.Table]) -> list[Part]:
        """Chart, table, and how few fake reports would be seen, where that is known."""
        names, answers = known
        estimated = self._asking.estimate(answers, names)
        try:
            moved = self._asking.poisoning(answers, names, 1).hundredth
        except OptrrError as error:
            moved = str(error)
        told = Text(f"From {amount(estimated.n, 'answer')} to questions about it, or about a part of it.")
        return [*estimate_parts(estimated), told, *warned(estimated.warnings), Text(sentence(moved))]

    def rows(self, known: tuple[tuple[str, ...], pa.Table], together: bool) -> pa.Table:
        """Without counts, since an answer names several cells."""
        names, answers = known
        cells = self._asking.estimate(answers, names).to_arrow()
        return _with_names(cells, cells.column_names[: len(names)], together, _NUMBERS, cells.select(_NUMBERS).columns)


def _held(records: StoredRecords, columns: Sequence[str]) -> pa.Table:
    """These columns of all reports, in memory."""
    schema = pa.schema([records.schema.field(name) for name in columns], metadata=records.schema.metadata)
    return pa.Table.from_batches(records.batches(columns), schema)


def _with_names(
    cells: pa.Table, names: Sequence[str], together: bool, heads: Sequence[str], columns: Sequence[pa.ChunkedArray]
) -> pa.Table:
    """Rows of numbers beside the cells that they are of; a number's column gets another name where an attribute has it."""
    if together:
        out = cells.select(list(names))
    else:
        out = pa.table({"attribute": [names[0]] * cells.num_rows, "category": cells.column(0)})
    for name, column in zip(heads, columns, strict=True):
        free = name
        while free in out.column_names:
            free += "_"
        out = out.append_column(free, _without_nan(column))
    return out


def _without_nan(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(pc.is_nan(column), None, column) if pa.types.is_floating(column.type) else column
