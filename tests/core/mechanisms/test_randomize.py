"""Files: round trips, all or nothing, bounded memory, and the law in what is written."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import naive
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from optrr.core.domain.domain import Domain
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms.mechanism import Mechanism, ReleaseOptions
from optrr.core.mechanisms.release import release_file
from optrr.core.records.reading.source import RecordsAt
from optrr_solvers.laws import ProductLaw, TableLaw

# How often a statistical test of this file would fail by chance; seeds are fixed besides.
FALSE_ALARM = 1e-6

DOMAIN = Domain.of({"sex": ["F", "M"], "code": ["007", "7", None], "age": 3})


def _mechanism(domain, epsilon):
    return Mechanism(domain, ProductLaw(domain.sizes, np.full(domain.m, float(epsilon))))


# e^-1000 is 0: the flip probability and its 64-bit threshold are exactly 0, so nothing ever changes.
def _identity(domain):
    return _mechanism(domain, 1000)


def _csv(path, rows, header=DOMAIN.names):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def _rows(path):
    with path.open(newline="") as file:
        return list(csv.reader(file))


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=5)


@st.composite
def records(draw):
    """A domain of text columns, perhaps with empty or missing values, and records of it."""
    names = draw(st.lists(TEXT.filter(lambda t: t.strip()), min_size=1, max_size=3, unique=True))
    declared = {n: draw(st.lists(st.none() | TEXT, min_size=2, max_size=5, unique=True)) for n in names}
    n = draw(st.integers(1, 20))
    values = {k: draw(st.lists(st.sampled_from(c), min_size=n, max_size=n)) for k, c in declared.items()}
    return Domain.of(declared), pa.table({k: pa.array(v, pa.string()) for k, v in values.items()})


@pytest.mark.slow
@given(records())
@settings(derandomize=True, deadline=None, max_examples=60)
def test_round_trips_through_files(tmp_path_factory, drawn):
    domain, table = drawn
    folder = tmp_path_factory.mktemp("trip")
    pq.write_table(table, folder / "a.parquet")
    same = _identity(domain)
    for source, target in (("a.parquet", "b.csv"), ("b.csv", "c.csv"), ("c.csv", "d.parquet")):
        (folder / f"{source}.optrr.json").unlink(missing_ok=True)  # randomized records are refused
        assert (
            release_file(folder / source, same, folder / target, options=ReleaseOptions(keep_order=True)).records
            == table.num_rows
        )
    assert pq.read_table(folder / "d.parquet").equals(table)
    assert sorted(p.name for p in folder.iterdir()) == ["a.parquet", "b.csv", "c.csv", "d.parquet"]


def test_csv_from_other_programs(tmp_path):
    """A byte order mark, Windows line ends, everything quoted, blank lines, a line break inside a value."""
    domain = Domain.of({"a": ["x", "y\nz", None], "b": ["1", "2"]})
    source = tmp_path / "a.csv"
    source.write_bytes(b'\xef\xbb\xbf"a","b"\r\n"x","1"\r\n\r\n"y\nz","2"\r\n"","2"\r\n')
    assert (
        release_file(source, _identity(domain), tmp_path / "b.parquet", options=ReleaseOptions(keep_order=True)).records
        == 3
    )
    assert pq.read_table(tmp_path / "b.parquet").to_pydict() == {"a": ["x", "y\nz", None], "b": ["1", "2", "2"]}


def test_empty_fields(tmp_path):
    """An empty field is the missing value or the empty text, whichever is declared; with both, quotes tell."""
    source = tmp_path / "a.csv"
    source.write_text('a,b\n,1\n"",1\nx,1\n')
    for categories, expected in [
        (["x", None], [None, None, "x"]),
        (["x", ""], ["", "", "x"]),
        (["x", "", None], [None, "", "x"]),
    ]:
        domain = Domain.of({"a": categories, "b": ["1", "2"]})
        release_file(source, _identity(domain), tmp_path / "b.parquet", options=ReleaseOptions(keep_order=True))
        assert pq.read_table(tmp_path / "b.parquet")["a"].to_pylist() == expected


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_files_follow_the_law(tmp_path, suffix):
    """χ² of 150,000 randomized copies of one record against its row of the matrix, built independently."""
    law = TableLaw(DOMAIN.sizes, np.random.default_rng(2).uniform(0, 2, 8))
    n = 150_000
    table = pa.table({"sex": ["M"] * n, "code": pa.array([None] * n, pa.string()), "age": ["1"] * n})
    write = pa_csv.write_csv if suffix == ".csv" else pq.write_table
    write(table, tmp_path / f"a{suffix}")
    seen = []
    place = RecordsAt(tmp_path / f"a{suffix}").watched(lambda done, _: seen.append(done))
    release = release_file(place, Mechanism(DOMAIN, law), tmp_path / "b.parquet", 11)
    assert release.records == n
    assert seen == sorted(seen)
    assert (len(seen) > 1 or suffix == ".csv") and seen[-1] == n
    out = pq.read_table(tmp_path / "b.parquet").to_pylist()
    sizes = DOMAIN.sizes.tolist()
    cells = {record: k for k, record in enumerate(naive.outputs(sizes))}
    observed = np.zeros(len(cells))
    for r in out:
        observed[cells["FM".index(r["sex"]), ["007", "7", None].index(r["code"]), int(r["age"])]] += 1
    expected = n * naive.matrix(sizes, naive.density(law))[cells[1, 2, 1]]
    assert chi2.sf(np.sum((observed - expected) ** 2 / expected), len(cells) - 1) > FALSE_ALARM


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_undeclared_columns_are_refused_or_left_out(tmp_path, suffix):
    table = pa.table({"id": ["p", "q"], "sex": ["F", "M"], "code": ["7", "007"], "age": [0, 2], "note": ["r", "s"]})
    source = tmp_path / f"a{suffix}"
    (pa_csv.write_csv if suffix == ".csv" else pq.write_table)(table, source)
    with pytest.raises(InvalidInput, match="columns 'id', 'note' are not attributes"):
        release_file(source, _identity(DOMAIN), tmp_path / "b.csv")
    assert not (tmp_path / "b.csv").exists()
    options = ReleaseOptions(keep_order=True, drop_undeclared=True)
    made = release_file(source, _identity(DOMAIN), tmp_path / "b.csv", options=options)
    assert made.records == 2 and made.dropped == ("id", "note")
    assert _rows(tmp_path / "b.csv") == [["sex", "code", "age"], ["F", "7", "0"], ["M", "007", "2"]]


def test_a_pandas_index_without_a_name_is_left_out(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"sex": ["F", "M"], "code": ["7", None], "age": [0, 2]}, index=[5, 9])
    frame.to_parquet(tmp_path / "a.parquet")
    assert "__index_level_0__" in pq.read_schema(tmp_path / "a.parquet").names
    release_file(
        tmp_path / "a.parquet", _identity(DOMAIN), tmp_path / "b.parquet", options=ReleaseOptions(keep_order=True)
    )
    assert pq.read_table(tmp_path / "b.parquet").to_pydict() == {"sex": ["F", "M"], "code": ["7", None], "age": [0, 2]}
    # where the design declares a column of that name, it is an ordinary column
    declared = Domain.of({"__index_level_0__": [5, 9], "sex": ["F", "M"], "code": ["7", None], "age": 3})
    release_file(
        tmp_path / "a.parquet", _identity(declared), tmp_path / "c.parquet", options=ReleaseOptions(keep_order=True)
    )
    assert pq.read_table(tmp_path / "c.parquet")["__index_level_0__"].to_pylist() == [5, 9]


def test_bad_paths(tmp_path):
    mechanism = _mechanism(DOMAIN, 1)
    source = _csv(tmp_path / "a.csv", [["F", "7", "0"]])
    pq.write_table(pa.table({n: pa.array([], pa.string()) for n in DOMAIN.names}), tmp_path / "e.parquet")
    (tmp_path / "linked.csv").symlink_to(source)
    before = sorted(tmp_path.iterdir())
    for given_source, target, message in [
        ("e.parquet", "b.csv", "contains no records"),
        ("a.csv", "linked.csv", "is the input itself"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            release_file(tmp_path / given_source, mechanism, tmp_path / target)
    assert sorted(tmp_path.iterdir()) == before


# Megabytes that 3 million records may take beyond 300,000: measured 0 to 45, the readers' buffers filling up; holding the
# records in any form would take 96 or more.
STREAMING_SLACK_MB = 90
# Arrow's own allocator keeps what was freed, up to 80 MB more or less by chance; the system's does not.
PLAIN_MEMORY = {"ARROW_DEFAULT_MEMORY_POOL": "system"}

MEASURE = """
import sys
import numpy as np
from itertools import combinations
from optrr.core.domain.domain import Domain
from optrr.core.mechanisms.mechanism import Mechanism
from optrr.core.mechanisms.release import release_file
from optrr.core.records.counts import count_many
from optrr_solvers.laws import ProductLaw
source, target, n = sys.argv[1:]
domain = Domain.of({f"a{i}": [f"category {k}" for k in range(4)] for i in range(4)})
if target:
    release_file(source, Mechanism(domain, ProductLaw(domain.sizes, np.ones(4))), target)
else:
    assert all(t.n == int(n) for t in count_many(source, domain, combinations(domain.names, 2)).values())
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
@pytest.mark.parametrize(("source", "target"), [("a.csv", "b.csv"), ("a.parquet", "b.parquet"), ("a.parquet", "")])
def test_long_files_stream(tmp_path, monkeypatch, source, target):
    """Randomized, and counted where there is no target."""
    monkeypatch.chdir(tmp_path)
    peaks = []
    generator = np.random.default_rng(1)
    labels = pa.array([f"category {k}" for k in range(4)])
    for n in (300_000, 3_000_000):
        table = pa.table({f"a{i}": labels.take(pa.array(generator.integers(0, 4, n))) for i in range(4)})
        (pa_csv.write_csv if source.endswith(".csv") else pq.write_table)(table, source)
        command = [sys.executable, "-c", MEASURE, source, target, str(n)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | PLAIN_MEMORY)
        peaks.append(int(done.stdout) / 1024)
    assert peaks[1] - peaks[0] < STREAMING_SLACK_MB, peaks


@pytest.mark.parametrize("failure", [OSError("disk full"), KeyboardInterrupt(), MemoryError()], ids=repr)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_failure_midway_leaves_nothing_behind(tmp_path, monkeypatch, failure, suffix):
    """The third batch cannot be written; two are on disk by then."""
    monkeypatch.setattr("optrr.core.records.reading.arrow_files.RECORDS", 10)
    pq.write_table(pa.table({n: ["0" if n == "age" else "7" if n == "code" else "F"] * 100 for n in DOMAIN.names}),
                   tmp_path / "a.parquet")  # fmt: skip
    target = tmp_path / f"b{suffix}"
    target.write_text("before")
    partial_files = []

    def fail(done, _):
        partial_files.append(len(list(tmp_path.glob(".b*.partial"))))
        if done == 30:
            raise failure

    place = RecordsAt(tmp_path / "a.parquet").watched(fail)
    # what the system refuses is reported in one line; anything else passes through
    with pytest.raises(InvalidInput if isinstance(failure, OSError) else type(failure)) as caught:
        release_file(place, _mechanism(DOMAIN, 1), target)
    assert partial_files == [1, 1, 1]
    assert not isinstance(failure, OSError) or re.search(r"cannot write .*disk full", str(caught.value))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.parquet", target.name]
    assert target.read_text() == "before"
