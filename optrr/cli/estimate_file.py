"""An estimate's table as a file: CSV or Parquet with one row per cell, or the JSON object that --json prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from optrr.cli.targets import OUTPUT
from optrr.errors import InvalidInput
from optrr.records.whole_files import whole_file
from optrr.show.result import TableResult

_SUFFIXES = (".csv", ".parquet", ".json")

table_option = click.option("-o", "--output", type=OUTPUT, help="CSV, Parquet or JSON file for the table.")


def check_estimate_suffix(path: Path) -> None:
    """Refuse files that an estimate is not written to. Raises InvalidInput."""
    if path.suffix.lower() not in _SUFFIXES:
        raise InvalidInput(f"{path} ends in {path.suffix!r}; an estimate is written as {', '.join(_SUFFIXES)}")


def write_estimate(result: TableResult, summary: dict[str, Any], path: Path) -> None:
    """Write the table, whole or not at all."""
    suffix = path.suffix.lower()
    with whole_file(path) as partial:
        if suffix == ".json":
            partial.write_bytes(msgspec.json.encode(summary) + b"\n")
        elif suffix == ".csv":
            from pyarrow.csv import write_csv  # noqa: PLC0415 (Arrow is slow to import, and the other kinds need none of it)

            from optrr.records.spreadsheets import without_formulas  # noqa: PLC0415 (as above)

            write_csv(without_formulas(result.to_arrow()), partial)
        else:
            from pyarrow.parquet import write_table  # noqa: PLC0415 (as above)

            write_table(result.to_arrow(), partial)
