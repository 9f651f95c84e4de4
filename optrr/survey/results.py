"""The results of a survey while it runs: how many reports, tables with intervals and charts, and what can be downloaded.

Everything is computed from the stored reports by the one way from randomized records to numbers: counts, the mechanism's
kernel, estimates and tests.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from optrr.designs.design import Design
from optrr.errors import InvalidInput, OptrrError
from optrr.models.tests import test as test_association
from optrr.pages.estimate_page import estimate_parts
from optrr.records.counts import Counts, count_many
from optrr.show.parts import Page, Part, Section, Text, warned
from optrr.show.printable import crossed, sentence
from optrr.show.rounding import epsilon_text
from optrr.survey.stored_records import StoredRecords
from optrr.tables.estimation import estimate, poisoning

# Attributes whose tables stand on the page when none are named.
MOST_TABLES = 30
# Attributes of one table, and its cells.
_MOST_CROSSED = 3
_MOST_CELLS = 2000
# Below this many reports nothing can be estimated.
FEWEST = 2


class Results:
    """Tables of one survey's stored reports."""

    def __init__(self, design: Design, records: StoredRecords, title: str) -> None:
        self.design, self.title = design, title
        self._records = records

    def page(self, names: Sequence[str] = ()) -> Page:
        """One table of the named attributes crossed, or one of every attribute.

        Raises
        ------
        InvalidInput
            for unknown or repeated names, or too large a table.
        """
        tables = self._counts(names)
        n = tables[0].n if tables else 0
        lead = [
            f"{n} {'report' if n == 1 else 'reports'}, each randomized where it was given, at a total epsilon of "
            f"{epsilon_text(self.design.epsilon)} nats."
        ]
        if n < FEWEST:
            waiting = Text("Estimates begin with the second report.")
            return Page(self.title, [Section("Results", [waiting])], lead)
        sections = [self._section(counts) for counts in tables]
        if not names and self.design.domain.m > MOST_TABLES:
            more = f"The first {MOST_TABLES} of {self.design.domain.m} attributes; choose others by name."
            sections.append(Section("Further attributes", [Text(more)]))
        return Page(self.title, sections, lead)

    def table(self, names: Sequence[str] = ()) -> pa.Table:
        """Counts and estimates, a row per cell.

        Columns are the named attributes, or ``attribute`` and ``category`` for all attributes one by one; then count (of
        randomized reports), estimate, standard_error, lower, upper (proportions; null where there are none).
        """
        tables = self._counts(names, most=self.design.domain.m)
        parts = [self._rows(counts, bool(names)) for counts in tables]
        if not parts or not tables[0].n:
            raise InvalidInput("there are no reports yet; come back after the first")
        return pa.concat_tables(parts)

    def _counts(self, names: Sequence[str], most: int = MOST_TABLES) -> list[Counts]:
        """The tables' counts, in one pass; none where there are no reports."""
        sets = [self._crossed(names)] if names else [(name,) for name in self.design.domain.names[:most]]
        if next(self._records.batches(self.design.domain.names[:1]), None) is None:
            return []
        return list(count_many(self._records, self.design.domain, sets, allow_extra=True).values())

    def _crossed(self, names: Sequence[str]) -> tuple[str, ...]:
        domain = self.design.domain.subset(names)
        cells = int(np.prod(domain.sizes.astype(float)))
        if domain.m > _MOST_CROSSED or cells > _MOST_CELLS:
            raise InvalidInput(
                f"a table of {domain.m} attributes with {cells} cells is not shown here; cross at most {_MOST_CROSSED} "
                f"with {_MOST_CELLS} cells, or download the reports"
            )
        return domain.names

    def _section(self, counts: Counts) -> Section:
        title = crossed(counts.domain.names)
        try:
            estimated = estimate(counts, self.design.mechanism)
        except OptrrError as error:  # where the mechanism hides a table, the page says so and shows the other tables
            return Section(title, warned([str(error)]))
        parts: list[Part] = [*estimate_parts(estimated, counts), *warned(estimated.warnings)]
        if counts.domain.m == 2:
            parts.append(self._association(counts))
        parts.append(Text(sentence(poisoning(counts, self.design.mechanism, 1).hundredth)))
        return Section(title, parts)

    def _association(self, counts: Counts) -> Text:
        try:
            tested = test_association(counts, self.design.mechanism, random_state=0)
        except OptrrError as error:
            return Text(f"No test of independence: {error}", warning=True)
        return Text(f"Test of {tested.headline()}.{' '.join(('', *tested.warnings))}")

    def _rows(self, counts: Counts, crossed: bool) -> pa.Table:
        shape = counts.table.shape
        try:
            numbers = estimate(counts, self.design.mechanism).to_arrow().select(_NUMBERS)
        except OptrrError:
            missing = pa.nulls(int(np.prod(shape)), pa.float64())
            numbers = pa.table(dict.fromkeys(_NUMBERS, missing))
        cells = counts.to_arrow()
        tallies = cells.column(cells.num_columns - 1)
        if crossed:
            out = cells.select(list(counts.domain.names))
        else:
            name = counts.domain.names[0]
            out = pa.table({"attribute": [name] * tallies.length(), "category": cells.column(0)})
        for name, column in zip(("count", *_NUMBERS), (tallies, *numbers.columns), strict=True):
            free = name
            while free in out.column_names:
                free += "_"
            out = out.append_column(free, _without_nan(column))
        return out


_NUMBERS = ["estimate", "standard_error", "lower", "upper"]


def _without_nan(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(pc.is_nan(column), None, column) if pa.types.is_floating(column.type) else column
