"""Writing record batches to CSV and Parquet, whole or not at all, with what the records say of themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from optrr.errors import InvalidInput
from optrr.records.reading.source import Source
from optrr.records.whole_files import whole_files
from optrr.releases.provenance import Provenance, SyntheticNote
from optrr.releases.sidecar import sidecar_path, write_sidecar

WRITTEN = (".csv", ".parquet")


def check_written_suffix(path: Path) -> None:
    """Refuse to write anything but CSV and Parquet, by name."""
    if path.suffix.lower() not in WRITTEN:
        raise InvalidInput(f"{path} ends in {path.suffix!r}; records are written as .csv or .parquet")


def refuse_input_as_target(target: Path, source: Source) -> None:
    """Refuse to write randomized records over the true ones. Raises InvalidInput."""
    if any(target.exists() and target.samefile(path) for path in source.paths):
        raise InvalidInput(f"{target} is the input itself; write the randomized records to another file")


class RecordWriter:
    """Writes record batches of one schema to a CSV or Parquet file, in ``folder``."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.folder = path.parent
        parquet = path.suffix.lower() == ".parquet"
        self._writer = pq.ParquetWriter(path, schema) if parquet else pa_csv.CSVWriter(path, schema)
        self._schema = schema

    def write(self, batch: pa.RecordBatch) -> None:
        """Append one batch; its metadata is of no account."""
        self._writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=self._schema))

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self._writer.close()


@contextmanager
def released_file(target: Path, schema: pa.Schema, provenance: Provenance | SyntheticNote) -> Iterator[RecordWriter]:
    """A writer of randomized records to ``target``: the file appears, bound to its provenance, when the block ends, or not.

    Parquet carries it in its metadata, CSV in a sidecar (:mod:`optrr.releases.sidecar`).

    Raises
    ------
    InvalidInput
        for another suffix, or where the system does not let the file be written.
    """
    check_written_suffix(target)
    if target.suffix.lower() == ".parquet":
        with (
            whole_files([target]) as (path,),
            RecordWriter(path, schema.with_metadata(provenance.metadata())) as writer,
        ):
            yield writer
        return
    with whole_files([target, sidecar_path(target)]) as (path, beside):
        with RecordWriter(path, schema.remove_metadata()) as writer:
            yield writer
        write_sidecar(beside, [path], provenance)
