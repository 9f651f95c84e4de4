"""Results with a row for each variant: columns by name, as arrow, as a file of tab separated columns, and as rows in JSON."""

import gzip
import math
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optrr.core.display import TableResult, in_json
from optrr.core.records import whole_file
from optrr_solvers.arrays import IntArray

# Rows formatted at once, so that text takes a few megabytes.
_ROWS = 1 << 14

Columns = Mapping[str, NDArray[np.generic]]


def arrow_columns(columns: Columns) -> pa.Table:
    """Convert the columns to a table; undefined numbers are null."""
    return pa.table({name: pa.array(values.tolist(), from_pandas=True) for name, values in columns.items()})


def write_columns(path: Path, columns: Columns) -> None:
    """Write columns to a tab-separated file, NA where undefined.

    The file is complete or not written; it is compressed if its name ends in .gz.
    """
    rows = len(next(iter(columns.values())))
    with whole_file(path) as partial, partial.open("wb") as raw, ExitStack() as opened:
        out: Any = raw
        if path.suffix.lower() == ".gz":
            # no name and no time inside, so that one result is one file
            out = opened.enter_context(gzip.GzipFile("", "wb", fileobj=raw, mtime=0))
        out.write(("\t".join(columns) + "\n").encode())
        for start in range(0, rows, _ROWS):
            pieces = [_texts(column[start : start + _ROWS]) for column in columns.values()]
            out.write("".join("\t".join(row) + "\n" for row in zip(*pieces, strict=True)).encode())


class ColumnsResult(TableResult):
    """A result of columns under the field's names, with a row for each variant."""

    @abstractmethod
    def rows(self, which: slice | IntArray) -> dict[str, NDArray[np.generic]]:
        """Select rows, column by column."""

    @cached_property
    def columns(self) -> dict[str, NDArray[np.generic]]:
        """The table, column by column, shape (V,) each."""
        return self.rows(slice(None))

    def to_arrow(self) -> pa.Table:
        """Convert to a table with one row per variant and the TSV's columns.

        Undefined numbers are null.
        """
        return arrow_columns(self.columns)

    def write_tsv(self, path: Path) -> None:
        """Write the table, whole or not at all; compressed where the name ends in .gz."""
        write_columns(path, self.columns)


def rows_in_json(columns: Columns) -> list[dict[str, Any]]:
    """Convert to one object per row, with None for undefined numbers."""
    values = [in_json(c) if c.dtype.kind == "f" else c.tolist() for c in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def _texts(values: NDArray[np.generic]) -> list[str]:
    if values.dtype.kind != "f":
        return [str(v) for v in values]
    return ["NA" if math.isnan(v) else f"{v:.6g}" for v in values.tolist()]
