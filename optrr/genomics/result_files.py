"""Tables of results, and a scan's as other programs read them: PLINK 2's ``--glm`` columns.

A :class:`ColumnsResult` is the base of every result with a row for each variant or pair: its columns by name, as arrow, as a
file of tab separated columns, and as rows in JSON.

A scan's columns are taken by name: odds ratios of a status (OR), slopes of a trait (BETA), statistics with a sign where it has
them (Z_STAT, T_STAT) and else the root of χ² with the sign of the effect.
"""

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
from optrr.core.errors import InvalidInput
from optrr.core.records import whole_file
from optrr_solvers.arrays import FloatArray, IntArray

FORMATS = ("optrr", "plink2")

# PLINK 2's name of a test of one number for each copy of A1, and of both genotypes together.
_PLINK_TESTS = dict.fromkeys(("TREND", "ADD-COV", "LINEAR"), "ADD") | {"GENOTYPIC": "GENO_2DF"}
# Rows formatted at once, so that text takes a few megabytes.
_ROWS = 1 << 14

Columns = Mapping[str, NDArray[np.generic]]


def arrow_columns(columns: Columns) -> pa.Table:
    """The columns as a table; undefined numbers are null."""
    return pa.table({name: pa.array(values.tolist(), from_pandas=True) for name, values in columns.items()})


def write_columns(path: Path, columns: Columns) -> None:
    """A file of tab separated columns, NA where undefined; whole or not at all; compressed where the name ends in .gz."""
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
    """A result of columns under the field's names, with a row for each variant or pair."""

    @abstractmethod
    def rows(self, which: slice | IntArray) -> dict[str, NDArray[np.generic]]:
        """The rows of these numbers, column by column."""

    @cached_property
    def columns(self) -> dict[str, NDArray[np.generic]]:
        """The table, column by column, shape (V,) each, or (P,) of pairs."""
        return self.rows(slice(None))

    def to_arrow(self) -> pa.Table:
        """One row per variant or pair, the columns of the TSV; undefined numbers are null."""
        return arrow_columns(self.columns)

    def write_tsv(self, path: Path) -> None:
        """Write the table, whole or not at all; compressed where the name ends in .gz."""
        write_columns(path, self.columns)


def rows_in_json(columns: Columns) -> list[dict[str, Any]]:
    """One object for each row; undefined numbers are None."""
    values = [in_json(c) if c.dtype.kind == "f" else c.tolist() for c in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def check_form(form: str, naive: bool) -> None:
    """Raise InvalidInput where a form of ``FORMATS`` has no place for the naive test."""
    if naive and form != FORMATS[0]:
        raise InvalidInput(
            f"the form {form} has no columns for the naive test; leave that out (--naive), or write this program's own table"
        )


def write_plink2(columns: Columns, path: Path) -> None:
    """The columns of ``plink2 --glm``; NA where a number is not defined. Raises InvalidInput where it cannot be written."""
    effect, head = ("BETA", ("BETA", "SE", "T_STAT")) if "BETA" in columns else ("OR", ("OR", "LOG(OR)_SE", "Z_STAT"))
    tests = [_PLINK_TESTS.get(str(test), str(test)) for test in columns["TEST"]]
    texts = {"#CHROM": "CHR", "POS": "BP", "ID": "SNP", "REF": "A2", "ALT": "A1", "A1": "A1"}
    numbers = (columns[effect], columns["SE"], signed_statistic(columns), columns["P"])
    out: dict[str, NDArray[np.generic]] = {name: columns[own] for name, own in texts.items()}
    out |= {"TEST": np.array(tests, dtype=object), "OBS_CT": columns["N"].astype(str)}
    # an infinite number is one that is not defined, too
    write_columns(
        path, out | {n: np.where(np.isfinite(x), x, np.nan) for n, x in zip((*head, "P"), numbers, strict=True)}
    )


def signed_statistic(columns: Columns) -> FloatArray:
    """The scan's own z or t; else √χ² with the sign of the effect, where χ² has one degree of freedom. Shape (V,)."""
    for name in ("Z_STAT", "T_STAT"):
        if name in columns:
            return np.asarray(columns[name], dtype=np.float64)
    effect = np.asarray(columns["BETA"] if "BETA" in columns else columns["OR"], dtype=np.float64)
    chi_squared, df = (np.asarray(columns[name], dtype=np.float64) for name in ("STAT", "DF"))
    sign = np.sign(effect - (0 if "BETA" in columns else 1))
    return np.where(df == 1, sign * np.sqrt(chi_squared), np.nan)


def _texts(values: NDArray[np.generic]) -> list[str]:
    if values.dtype.kind != "f":
        return [str(v) for v in values]
    return ["NA" if math.isnan(v) else f"{v:.6g}" for v in values.tolist()]
