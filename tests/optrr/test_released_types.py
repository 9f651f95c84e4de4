"""Nothing about a release depends on the true records except the randomized values.

A mechanism that always releases the same values makes this a comparison of bytes: whatever the true records, and wherever they
are read, the release is the same. Neighbouring records differ in one person's answers, in every way; besides, everybody or
nobody has a missing value, which is what readers take types from.
"""

from __future__ import annotations

import json
import sqlite3
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from optrr.domain.domain import Attribute, Domain
from optrr.mechanisms.mechanism import Mechanism
from optrr.mechanisms.perturb import perturb
from optrr.records import frames
from optrr.records.reading import text_files
from optrr.records.reading.source import RecordsAt
from optrr.ways.longitudinal.design import longitudinal
from optrr.ways.longitudinal.rounds import Key, release_round
from optrr_solvers.laws import ProductLaw

DOMAIN = Domain(
    (
        Attribute("kids", (0, 1, 2), missing=("NA",)),
        Attribute("works", (True, False, None)),
        Attribute("share", (0.5, 2, None)),
        Attribute("level", ("low", "high", None), ordered=True),
        Attribute("sex", ("F", "M", None)),
    )
)
REST = [(1, True, 0.5, "low", "F"), (0, False, 2, "high", "M")]
NEIGHBOURS = [[record, *REST] for record in product(*(a.categories for a in DOMAIN))]
# One of each kind of change, and everybody without any answer.
FEW = [
    [(0, True, 0.5, "low", "F"), *REST],
    *([tuple(None if k == i else v for k, v in enumerate(REST[0])), *REST] for i in range(DOMAIN.m)),
    [(None,) * DOMAIN.m, *REST],
    [(None,) * DOMAIN.m] * 3,
]


class Constant(Mechanism):
    """Releases the codes 0, 1, 2, 0, … of every attribute, whatever is true."""

    def randomize_in_place(self, codes, source):
        codes[:] = np.arange(len(codes))[:, None] % self.domain.sizes


MECHANISM = Constant(DOMAIN, ProductLaw(DOMAIN.sizes, np.ones(DOMAIN.m)))


def _columns(records):
    return {a.name: list(column) for a, column in zip(DOMAIN, zip(*records, strict=True), strict=True)}


def _arrow(records):
    return pa.table(_columns(records))


def _categorical(records):
    frame = pd.DataFrame(_columns(records))
    return frame.assign(sex=frame["sex"].astype("category"), level=frame["level"].astype("category"))


def _coded(records):
    return pa.table([column.combine_chunks().dictionary_encode() for column in _arrow(records)], list(DOMAIN.names))


MADE = {
    "pandas": lambda records: pd.DataFrame(_columns(records)),
    "pandas objects": lambda records: pd.DataFrame(_columns(records), dtype=object),
    "pandas categories": _categorical,
    "pandas nullable": lambda records: pd.DataFrame(_columns(records)).convert_dtypes(),
    "polars": lambda records: pl.DataFrame(_columns(records), strict=False),
    "arrow": _arrow,
    "arrow dictionaries": _coded,
    "batch": lambda records: _arrow(records).to_batches()[0],
}


def _bytes(frame):
    """Everything that a frame holds, as bytes."""
    if isinstance(frame, pl.DataFrame):
        return repr(frame.schema), frame.write_ipc(None).getvalue()
    index = (repr(frame.index), repr(frame.columns)) if isinstance(frame, pd.DataFrame) else ()
    table = pa.Table.from_pandas(frame) if isinstance(frame, pd.DataFrame) else frame
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write(table)
    return *index, sink.getvalue().to_pybytes()


@pytest.mark.slow
@pytest.mark.parametrize("kind", MADE)
def test_frames_of_neighbours_are_alike(kind):
    released = [perturb(MADE[kind](records), MECHANISM, random_state=1) for records in (*NEIGHBOURS, *FEW)]
    assert len({_bytes(frame) for frame in released}) == 1


def _jsonl(records, path):
    rows = [dict(zip(DOMAIN.names, record, strict=True)) for record in records]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _sqlite(records, path):
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE people ({', '.join(DOMAIN.names)})")
        connection.executemany(f"INSERT INTO people VALUES ({', '.join('?' * DOMAIN.m)})", records)
    connection.close()


FILES = {
    "a.csv": lambda records, path: pa_csv.write_csv(_arrow(records), path),
    "a.jsonl": _jsonl,
    "a.parquet": lambda records, path: pq.write_table(_arrow(records), path),
    "b.parquet": lambda records, path: _categorical(records).to_parquet(path),
    "c.parquet": lambda records, path: pd.DataFrame(_columns(records)).to_parquet(path),
    "a.feather": lambda records, path: feather.write_feather(_arrow(records), path),
}


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_files_of_neighbours_are_alike_whatever_they_are_read_from(tmp_path, suffix):
    released = set()
    for (name, write), records in product(FILES.items(), FEW):
        write(records, tmp_path / name)
        perturb(tmp_path / name, MECHANISM, tmp_path / f"released{suffix}", 1)
        released.add((tmp_path / f"released{suffix}").read_bytes())
    assert len(released) == 1


def test_files_of_neighbours_in_a_database_are_alike(tmp_path):
    """SQLite has no booleans, so that they are declared as numbers here."""
    pytest.importorskip("adbc_driver_sqlite")
    numbers = Domain(tuple(Attribute(a.name, (1, 0, None)) if a.name == "works" else a for a in DOMAIN))
    released = set()
    for k, records in enumerate(FEW):
        _sqlite(records, tmp_path / f"{k}.sqlite")
        where = RecordsAt(f"sqlite:{tmp_path / f'{k}.sqlite'}", query="SELECT * FROM people")
        perturb(where, Constant(numbers, MECHANISM.law), tmp_path / "released.parquet", 1)
        released.add((tmp_path / "released.parquet").read_bytes())
    assert len(released) == 1


@pytest.mark.parametrize("kind", ["csv", "jsonl", "arrow"])
@pytest.mark.parametrize("keep_order", [False, True])
def test_the_sizes_of_row_groups_do_not_follow_the_lengths_of_true_values(tmp_path, monkeypatch, kind, keep_order):
    """Readers of text take so many bytes at once, and so fewer records where true values are long."""
    monkeypatch.setattr(frames, "RECORDS", 300)
    monkeypatch.setattr(text_files, "BLOCK", 1 << 14)
    monkeypatch.setattr(text_files, "_BLOCK", 1 << 14)
    domain = Domain.of({"x": ["a", "b" * 200]})
    same = Constant(domain, ProductLaw(domain.sizes, np.ones(1)))
    released = set()
    for text in domain["x"].categories:
        table = pa.table({"x": [text] * 1000})
        if kind == "csv":
            pa_csv.write_csv(table, tmp_path / "a.csv")
        elif kind == "jsonl":
            (tmp_path / "a.jsonl").write_text(f'{{"x": "{text}"}}\n' * 1000)
        else:
            feather.write_feather(table, tmp_path / "a.arrow", chunksize=7 + len(text), compression="uncompressed")
        perturb(tmp_path / f"a.{kind}", same, tmp_path / "b.parquet", 1, keep_order=keep_order)
        index = pq.ParquetFile(tmp_path / "b.parquet").metadata
        assert [index.row_group(k).num_rows for k in range(index.num_row_groups)] == [300, 300, 300, 100]
        released.add(tuple(pq.read_schema(tmp_path / "b.parquet")))
    assert len(released) == 1


def test_chunks_of_a_table_do_not_follow_those_of_the_true_one(monkeypatch):
    monkeypatch.setattr(frames, "RECORDS", 4)
    released = set()
    for sizes in ([10], [1, 9], [3, 3, 4]):
        table = pa.concat_tables([_arrow([REST[0]] * n) for n in sizes])
        released.add(_bytes(perturb(table, MECHANISM, random_state=1)) if len(sizes) == 1 else ())
        assert [len(chunk) for chunk in perturb(table, MECHANISM)["sex"].chunks] == [4, 4, 2]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_rounds_of_neighbours_have_one_schema(tmp_path, suffix):
    """Reports are drawn by a key from the true records here, so that values differ and all else is compared."""
    design = longitudinal(DOMAIN, [0.5] * DOMAIN.m, 3.0)
    key, seen = Key.new(), set()
    for records in FEW:
        rows = [dict(zip(DOMAIN.names, r, strict=True)) | {"person": k} for k, r in enumerate(records)]
        (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        target = tmp_path / f"b{suffix}"
        release_round(tmp_path / "a.jsonl", design, target, key=key, round_name="1", person="person")
        if suffix == ".parquet":
            seen.add(str(pq.read_schema(target)) + str(pq.read_metadata(target).num_row_groups))
        else:
            seen.add(target.read_text().partition("\n")[0])
            kids = pa_csv.read_csv(target)["kids"].to_pylist()
            # whole numbers, never 1.0
            assert set(kids) <= {0, 1, 2, None} and all(k is None or type(k) is int for k in kids)
    assert len(seen) == 1
