"""Reports of devices as a collector stored them (docs/deployment-format.md, §7): one JSON object for each respondent.

Each has the digest of its design, an identifier, and either the ``values`` of a randomized record, in the order of the design's
attributes, or the ``table`` and ``cells`` of an answer. They come as columns of these names, such as JSON lines have, or as one
column of JSON text in CSV, Parquet or a database. A report of another design is refused; one that was sent twice counts once.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from optrr.core.domain.domain import shown
from optrr.core.errors import InvalidInput
from optrr.core.provenance.accounting import Release
from optrr.core.provenance.provenance import Provenance
from optrr.core.records.reading.registry import open_source
from optrr.core.records.reading.source import STANDARD_INPUT, Bytes, Source, is_text, place_of

_SENT = ("design", "id")
_VALUES, _ANSWER = ("values",), ("table", "cells")
_FORMAT = '"optrr-report/1"'


class _Report(msgspec.Struct):
    """The fields of a report that are read."""

    design: str | None
    id: str | None
    values: list[str | None] | None = None
    table: int | None = None
    cells: str | None = None


_REPORT = msgspec.json.Decoder(_Report)


def as_reports(data: Any, asking: Any) -> Any:
    """Convert devices' reports of the design to records.

    ``data`` itself if it has none or cannot be opened.
    """
    where = place_of(data)
    piped = where is not None and where.place == STANDARD_INPUT
    with suppress(InvalidInput):
        if where and piped and Bytes(where).head(1) != b"{":
            # a pipe is opened once; only JSON lines are looked at without being used up
            return data
        source = open_source(data)
        names = set(source.column_names())
        if names.issuperset((*_SENT, *(_VALUES if hasattr(asking, "mechanism") else _ANSWER))):
            return _device_reports(source, asking)
        if (
            not (piped or source.once)
            and not names & {*asking.domain.names, *_ANSWER}
            and (column := _column_of_json(source))
        ):
            return _device_reports(_decoded(source, column), asking)
    return data


def _column_of_json(source: Source) -> str | None:
    """Find the column whose first text is a report."""
    texts: list[str] = [field.name for field in source.schema if is_text(field.type)]
    for batch in source.batches(texts) if texts else ():
        for name, column in zip(texts, batch.columns, strict=True):
            first = next((value.as_py() for value in column if value.is_valid), "")
            if _FORMAT in (first if isinstance(first, str) else first.decode("utf-8", "replace")):
                return name
        break
    return None


def _decoded(source: Source, column: str) -> Source:
    """Decode a column of JSON reports to columns."""

    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        for batch in source.batches([column]):
            try:
                reports = [_REPORT.decode(value.as_py() or "") for value in batch.column(0)]
            except (msgspec.DecodeError, RecursionError, UnicodeError):
                raise InvalidInput(
                    f"{source.name}: column {shown(column)} holds a text that is not a report; leave its row out"
                ) from None
            yield pa.RecordBatch.from_pydict({name: [getattr(each, name) for each in reports] for name in columns})

    return source.passing(read, pa.schema([(name, pa.null()) for name in (*_SENT, *_VALUES, *_ANSWER)]))


def _device_reports(source: Source, asking: Any) -> Source:
    """Convert reports to randomized records or answers, each once."""
    design = asking.digest.partition(":")[2]
    values = list(asking.domain.names) if hasattr(asking, "mechanism") else []
    schema = pa.schema([(name, pa.string()) for name in values or _ANSWER])

    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        seen: set[str] = set()
        for batch in source.batches([*_SENT, *(_VALUES if values else _ANSWER)]):
            designs, identifiers, *sent = batch.columns
            if any(each != design for each in designs.to_pylist()):
                raise InvalidInput(
                    f"{source.name}: a report is of another design than {design[:12]}…; give the reports that were "
                    "collected by this design"
                )
            if identifiers.null_count or pa.types.is_nested(identifiers.type):
                raise InvalidInput(f"{source.name}: a report has no id that is a text; leave the report out")
            rows = []
            for row, identifier in enumerate(identifiers.to_pylist()):
                if identifier not in seen:
                    seen.add(identifier)
                    rows.append(row)
            held = dict(zip(schema.names, _attributes(sent[0], len(values), source) if values else sent, strict=True))
            yield pa.RecordBatch.from_pydict({name: held[name] for name in columns}).take(pa.array(rows, pa.int64()))

    return source.passing(read, schema.with_metadata(Provenance(Release.of(asking)).metadata()))


def _attributes(values: pa.Array, size: int, source: Source) -> list[pa.Array]:
    """Build the attributes' columns."""
    are_lists = pa.types.is_list(values.type) or pa.types.is_large_list(values.type)
    lengths = pc.list_value_length(values).to_pylist() if are_lists else [None]
    if any(length != size for length in lengths):
        raise InvalidInput(
            f"{source.name}: a report does not have the {size} values of the design's attributes; leave the report out"
        )
    return [pc.list_element(values, i) for i in range(size)]
