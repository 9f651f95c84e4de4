"""Files that appear whole or not at all, and record batches written to CSV or Parquet by suffix."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from optrr.errors import InvalidInput, in_one_line

SUFFIXES = (".csv", ".parquet")


def checked_suffix(path: Path) -> None:
    """Refuse targets that are neither CSV nor Parquet by name."""
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidInput(f"{path} ends in {path.suffix!r}; records are written as .csv or .parquet")


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """A path beside ``target`` to write to; moved in place when the block ends, removed when it fails.

    An existing target stays untouched until then.

    Raises
    ------
    InvalidInput
        where the system does not let the file be written (no such directory, no permission, no space).
    """
    if not target.name or target.is_dir():
        raise InvalidInput(f"cannot write {target}: it is a directory; name a file in it")
    if not target.parent.is_dir():
        raise InvalidInput(f"cannot write {target}: there is no directory {target.parent}; create it first")
    partial = target.with_name(f".{target.name}.{secrets.token_hex(8)}.partial")
    try:
        yield partial
        with partial.open("rb+") as written:
            os.fsync(written.fileno())  # or a power failure after the move could leave an empty target
        os.replace(partial, target)
    except OSError as error:
        raise InvalidInput(
            f"cannot write {target}: {in_one_line(error.strerror or error)}; choose another path"
        ) from error
    finally:
        partial.unlink(missing_ok=True)


class RecordWriter:
    """Writes record batches of one schema to a CSV or Parquet file, by the suffix of ``target``."""

    def __init__(self, path: Path, target: Path, schema: pa.Schema) -> None:
        parquet = target.suffix.lower() == ".parquet"
        self._writer = pq.ParquetWriter(path, schema) if parquet else pa_csv.CSVWriter(path, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append one batch."""
        self._writer.write_batch(batch)

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self._writer.close()
