"""Files of some hundred bytes that stand for gigabytes: every reader refuses them, or reads them, in bounded memory."""

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from optrr.core.domain.domain import Domain
from optrr.core.errors import InvalidInput
from optrr.core.records.counts import count
from optrr.core.records.observed import observed_domain
from optrr.core.records.reading import source
from optrr.core.records.reading.registry import open_source

# What a child process may take in all: half of it is Python with its libraries.
MOST_MEMORY_KB = 600 << 10
# The most that the process itself has taken: the system's other number, ru_maxrss, begins with that of whoever started it.
MEASURED = """
import sys
from pathlib import Path
from optrr.cli.main import run
code = run(sys.argv[1:])
status = Path("/proc/self/status").read_text()
print(status.partition("VmHWM:")[2].split()[0], file=sys.stderr)
sys.exit(code)
"""
LONG = "x" * (4 << 20)


def repeated(of: str | bytes = LONG) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(2000, np.int32)), pa.array([of]))


def written(path: Path, column: pa.Array) -> None:
    maker = pa.ipc.new_stream if path.suffix == ".arrows" else pa.ipc.new_file
    with (
        pa.OSFile(str(path), "wb") as sink,
        maker(sink, pa.schema([("a", column.type)]), options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer,
    ):
        writer.write_batch(pa.record_batch({"a": column}))


def parquet(column: Callable[[], pa.Array], **options) -> Callable[[Path], None]:
    return lambda path: pq.write_table(pa.table({"a": column()}), path, compression="zstd", **options)


HOSTILE: dict[str, tuple[str, Callable[[Path], object]]] = {
    "one text, two thousand times": ("a.parquet", parquet(repeated, store_schema=False)),
    "the same as bytes": ("a.parquet", parquet(lambda: repeated(of=LONG.encode()), store_schema=False)),
    "a dictionary": ("a.arrow", lambda path: written(path, repeated())),
    "a dictionary in a stream": ("a.arrows", lambda path: written(path, repeated())),
    "views of one text": ("a.arrow", lambda path: written(path, pa.array([LONG] * 64).cast(pa.string_view()))),
    "a name for each line": (
        "a.jsonl",
        lambda path: path.write_text("".join(f'{{"a{k}":1}}\n' for k in range(12_000))),
    ),
    "lines without names": (
        "a.jsonl",
        lambda path: path.write_text(json.dumps({f"a{k}": 1 for k in range(1000)}) + "\n" + "{}\n" * 300_000),
    ),
    "a first line of commas": ("a.csv.gz", lambda path: path.write_bytes(gzip.compress(b"," * (1 << 27), 1))),
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads what the process took from /proc")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_small_file_that_stands_for_gigabytes_takes_little_memory(name: str, tmp_path: Path) -> None:
    file, write = HOSTILE[name]
    write(tmp_path / file)
    assert (tmp_path / file).stat().st_size < 2 << 20
    asked = [sys.executable, "-c", MEASURED, "spec", str(tmp_path / file), "-o", str(tmp_path / "out.toml")]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    *said, memory = filter(None, done.stderr.splitlines())
    assert int(memory) < MOST_MEMORY_KB, (name, memory)
    assert done.returncode == 0 or (done.returncode == 2 and len(said) == 1 and said[0].startswith("error: ")), said
    assert (tmp_path / "out.toml").exists() is (done.returncode == 0)


@pytest.mark.parametrize("name", ["one text, two thousand times", "a dictionary", "a dictionary in a stream"])
def test_the_message_says_which_column_and_never_the_value(name: str, tmp_path: Path) -> None:
    file, write = HOSTILE[name]
    write(tmp_path / file)
    said = "column 'a' contains a value of 4194304 bytes, more than the maximum of 262144"
    with pytest.raises(InvalidInput, match=said) as error:
        observed_domain(tmp_path / file, ["a"])
    assert "xxx" not in str(error.value)


# Reads the file with every byte of its index changed, one after another, and says how many were read and how many refused.
EVERY_BYTE = """
import sys
from pathlib import Path
from optrr.core.errors import InvalidInput
from optrr.core.records.observed import observed_domain
path = Path(sys.argv[1])
data = path.read_bytes()
size = int.from_bytes(data[-8:-4], "little")
done = [0, 0]
for place in range(len(data) - 8 - size, len(data) - 8):
    for change in (1, 255, 128):
        path.write_bytes(data[:place] + bytes([(data[place] + change) % 256]) + data[place + 1 :])
        try:
            observed_domain(path, ["sex", "age"])
            done[0] += 1
        except InvalidInput:
            done[1] += 1
print(*done)
"""


@pytest.mark.slow
def test_no_damaged_index_of_a_parquet_file_ends_the_process(tmp_path: Path) -> None:
    """pyarrow's own view of the index ended it: "Definition level histogram size mismatch"."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"sex": ["F", "M", None], "age": [1, 2, 3]}), path)
    asked = [sys.executable, "-c", EVERY_BYTE, str(path)]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-1000:]
    read, refused = map(int, done.stdout.split())
    assert read > 100 and refused > 100


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".arrows", ".jsonl", ".csv"])
def test_what_is_cut_into_pieces_counts_the_same(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    values, weights = rng.integers(0, 3, 5000), rng.integers(1, 9, 5000)
    table = pa.table({"a": pa.array([["red", "green", "blue"][v] for v in values]), "w": pa.array(map(str, weights))})
    path = tmp_path / f"a{suffix}"
    if suffix == ".parquet":
        pq.write_table(table, path)
    elif suffix == ".csv":
        pa_csv.write_csv(table, path)
    elif suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()), "utf-8")
    else:
        maker = pa.ipc.new_stream if suffix == ".arrows" else pa.ipc.new_file
        with pa.OSFile(str(path), "wb") as sink, maker(sink, table.schema) as writer:
            writer.write_table(table)
    monkeypatch.setattr(source, "MOST_BYTES", 1000)
    domain = Domain.of({"a": ["red", "green", "blue"]})
    assert count(path, domain, "a", allow_extra=True).table.tolist() == np.bincount(values, minlength=3).tolist()
    batches = list(open_source(path, domain).batches(["a", "w"]))
    assert len(batches) > 20
    assert [w for b in batches for w in b.column(1).to_pylist()] == [str(w) for w in weights]


def test_lines_of_many_names_are_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"a": "{k % 3}"}}\n' for k in range(1000)), "utf-8")
    monkeypatch.setattr("optrr.core.records.reading.text_files._JSON_CELLS", 64)
    batches = list(open_source(path).batches(["a"]))
    assert sum(b.num_rows for b in batches) == 1000 and max(b.num_rows for b in batches) == 64
