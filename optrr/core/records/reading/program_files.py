"""Files of Excel, SPSS and Stata as record batches of text, through openpyxl and pyreadstat.

A value that SPSS or Stata labels is read as its label: 1, labelled "female", is ``female``. Numbers are read by their
shortest digits and dates in ISO form, so that they meet categories and bins as in CSV. Values that the file declares
missing are missing.
"""

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import islice, repeat
from typing import Any

import numpy as np
import pyarrow as pa

from optrr.core.domain.domain import Domain, shown
from optrr.core.errors import InvalidInput, library
from optrr.core.records.frames import RECORDS
from optrr.core.records.reading.source import Bytes, RecordsAt, Source, whole
from optrr.core.records.reading.text_files import category_column, settled


def excel_file(where: RecordsAt, domain: Domain | None) -> Source:
    """Read the first sheet of an Excel file, whose first row has the columns' names."""
    openpyxl, file = library("openpyxl", "reading Excel files needs", "files"), Bytes(where)

    def rows() -> Iterator[tuple[Any, ...]]:
        with (
            whole(file.name, "Excel"),
            closing(openpyxl.load_workbook(file.path, read_only=True, data_only=True)) as book,
        ):
            sheet = book.worksheets[0]
            # the extent that other programs write of a sheet may be wrong
            sheet.reset_dimensions()
            blank = 0
            for row in sheet.iter_rows(values_only=True):
                if all(value is None for value in row):
                    blank += 1
                    continue
                # a blank row among records is a record without answers; those below the last are not records
                yield from repeat((), blank)
                yield row
                blank = 0

    names = {at: str(name) for at, name in enumerate(next(filter(None, rows()), ())) if name is not None}
    if not names:
        raise InvalidInput(f"{file.name} is empty; write the columns' names into the first row of its first sheet")

    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        below, places = rows(), {name: at for at, name in names.items()}
        next(filter(None, below))
        while chunk := list(islice(below, RECORDS)):
            held = {name: [row[places[name]] if places[name] < len(row) else None for row in chunk] for name in columns}
            yield _texts(held, file.name, domain)

    return Source(file.name, pa.schema([(name, pa.string()) for name in names.values()]), read, file.paths)


def _labelled_file(reader: str, program: str, where: RecordsAt, domain: Domain | None) -> Source:
    pyreadstat, file = library("pyreadstat", f"reading {program} files needs", "files"), Bytes(where)
    parse = getattr(pyreadstat, reader)
    with whole(file.name, program):
        about = parse(file.path, metadataonly=True)[1]
    kinds, labels = about.readstat_variable_types, about.variable_value_labels

    def meant(name: str, values: list[Any]) -> list[Any]:
        """Replace values by their labels.

        In single precision 0.1 stays 0.1.
        """
        single, known = kinds[name] == "float", labels.get(name, {})
        of = {v: known.get(v) or (float(str(np.float32(v))) if single else v) for v in set(values) - {None}}
        if len(set(of.values())) < len(of):
            raise InvalidInput(f"{file.name}: column {shown(name)} gives two values one label; label each by itself")
        return [of.get(value) for value in values]

    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        asked = {"chunksize": RECORDS, "usecols": columns, "output_format": "dict"}
        with whole(file.name, program):
            for held, _ in pyreadstat.read_file_in_chunks(parse, file.path, **asked):
                yield _texts({name: meant(name, held[name]) for name in columns}, file.name, domain)

    schema = pa.schema([(name, pa.string()) for name in about.column_names])
    return Source(file.name, schema, read, file.paths, about.number_rows)


spss_file = partial(_labelled_file, "read_sav", "SPSS")
stata_file = partial(_labelled_file, "read_dta", "Stata")


def _texts(columns: dict[str, list[Any]], name: str, domain: Domain | None) -> pa.RecordBatch:
    arrays = {
        column: category_column(
            [None if value == "" else value for value in values], pa.field(column, pa.string()), name
        )
        for column, values in columns.items()
    }
    return settled(pa.RecordBatch.from_pydict(arrays), domain)
