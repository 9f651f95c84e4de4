"""2,504 people of five superpopulations at 55 ancestry markers (1000 Genomes Project; see make_data.py), as a table."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SOURCE = Path(__file__).parent / "data" / "people.csv.gz"


@contextmanager
def people_table() -> Iterator[Path]:
    """A CSV file with the columns sample, superpopulation and one for each marker, there while the context lasts."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "people.csv"
        table.write_bytes(gzip.decompress(SOURCE.read_bytes()))
        yield table
