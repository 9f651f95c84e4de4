"""Files made to take long: ``optrr verify`` ends each within 10 s of processor time and 1 GB, whatever it says of them."""

import gzip
import json
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import optrr
from optrr.core.design.design_file import encoded_design
from optrr.core.design.specification import read_specification
from optrr.core.domain.domain import Domain
from optrr.core.errors import InvalidInput
from optrr.core.records.reading.registry import open_source
from optrr.longitudinal.design import longitudinal
from tests.core.design.test_design_file_lies import each_ball, resealed
from tests.devices.test_python_client import of_layers
from tests.mutations import Content, cost_of_command

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory of processes is read from /proc"),
]

MOST_SECONDS, MOST_MEMORY = 10.0, 1e9


@cache
def honest(m: int) -> str:
    """A design of so many different attributes."""
    rng = np.random.default_rng(m)
    sizes = {f"a{i}": int(r) for i, r in enumerate(rng.integers(2, 8, m))}
    return encoded_design(optrr.design(sizes, rng.uniform(0.2, 2, m).tolist())).decode()


def balls(times: int, c: Content) -> None:
    c["law"]["balls"] = [{**x, "share": x["share"] / times} for x in c["law"]["balls"] for _ in range(times)]


def finer(times: int, c: Content) -> None:
    for field in ("floors", "knots"):
        each_ball(c, field, lambda numbers: [x * times for x in numbers])


def sharper(_: int, c: Content) -> None:
    """A ball whose frequencies all matter: no radius is soft, and only one attribute weighs anything."""
    ball = c["law"]["balls"][0]
    heaviest = max(ball["floors"]) * 500
    ball.update(floors=[heaviest] + [0] * (len(ball["floors"]) - 1), knots=[heaviest - 1, heaviest], levels=[1.0, 0.0])
    c["law"]["balls"] = [ball]


def heavier(times: int, c: Content) -> None:
    """Larger multipliers, so that the lower bound's sums have more totals."""
    c["certificate"]["weights"] = [str(int(w) * times) for w in c["certificate"]["weights"]]


def longer(size: int, c: Content) -> None:
    for a in c["attributes"]:
        a["name"] += "x" * (size // len(c["attributes"]))


def larger(size: int, c: Content) -> None:
    for a in c["attributes"]:
        a["categories"] = list(range(size // len(c["attributes"])))


# Attributes, what is changed, and how much of it there is.
RESEALED: list[tuple[int, Callable[[int, Content], None], int]] = [
    (1000, balls, 2500),
    (10_000, balls, 1000),
    (1000, finer, 256),
    (10_000, finer, 16),
    (1000, sharper, 1),
    (10_000, sharper, 1),
    (1000, heavier, 10**400),
    (10_000, heavier, 10),
    (10_000, longer, 60_000_000),
    (100, larger, 4_000_000),
]


@cache
def honest_longitudinal() -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "d.json"
        optrr.save(longitudinal({"sex": ["F", "M"], "age": 3}, 0.5, 2.0), path)
        return path.read_text(encoding="utf-8")


HONEST = {
    "design": lambda: honest(24),
    "rounds": honest_longitudinal,
    "deployment": lambda: '{"format": "optrr-deployment/1", "z": 0}',
}
# An honest file, the part of it that something stands behind, and what; made where it is needed: together they take a gigabyte.
MOSTLY = {
    "deep lists": ("design", '"notes": [', lambda: "[" * 30_000_000 + "]" * 30_000_000 + ","),
    "deep objects": ("design", '"law": {', lambda: '"a":{' * 12_000_000),
    "a key repeated": ("design", "{", lambda: '"epsilon": 1,' * 4_500_000),
    "many keys, one twice": ("design", '"law": {', lambda: "".join(f'"k{i % 3_999_999}":1,' for i in range(4_000_000))),
    "many notes": ("design", '"notes": [', lambda: '"",' * 20_000_000),
    "one long note": ("design", '"notes": [', lambda: '"' + "x" * 60_000_000 + '",'),
    "many pairs": ("design", '"pairs": [', lambda: "[0,1]," * 10_000_000),
    "many numbers": ("design", '"floors": [', lambda: "1," * 30_000_000),
    "a number of many digits": ("design", '"knots": [', lambda: "1" * 60_000_000 + ","),
    "many classes": ("design", '"classes": [', lambda: "[]," * 20_000_000),
    "too many bytes": ("design", '"notes": [', lambda: '"' + "x" * 300_000_000 + '",'),
    "rounds of many pairs": ("rounds", '"pairs": [', lambda: "[0,1]," * 9_000_000),
    "rounds of many numbers": ("rounds", '"requested": [', lambda: "1.0," * 14_000_000),
    "rounds of deep lists": ("rounds", '"requested": [', lambda: "[" * 50_000_000),
    "rounds of a key repeated": ("rounds", "{", lambda: '"epsilon":1,' * 4_000_000),
    "a deployment of many numbers": ("deployment", '/1", ', lambda: '"a":[' + "1," * 100_000_000 + "1],"),
    "a deployment of deep lists": ("deployment", '/1", ', lambda: '"a":' + "[" * 60_000_000),
    "a deployment of a key repeated": ("deployment", '/1", ', lambda: '"a":1,' * 40_000_000),
}


def ends_in_time(path: Path) -> str:
    code, said, cost = cost_of_command("verify", str(path))
    print(f"exit {code}, {cost.processor_seconds:.1f} s, {cost.memory / 1e6:.0f} MB")
    assert code in (0, 1, 2) and said.count("\n") <= 1, said[:300]
    assert cost.processor_seconds < MOST_SECONDS and cost.memory < MOST_MEMORY
    return said


@pytest.mark.parametrize(("m", "tell", "times"), RESEALED)
def test_a_design_that_asks_for_much_work(
    m: int, tell: Callable[[int, Content], None], times: int, tmp_path: Path
) -> None:
    content = json.loads(honest(m))
    tell(times, content)
    ends_in_time(resealed(content, tmp_path / "d.json"))


@pytest.mark.parametrize("kind", MOSTLY)
def test_a_file_that_is_mostly_something_else(kind: str, tmp_path: Path) -> None:
    path, (what, before, more) = tmp_path / "d.json", MOSTLY[kind]
    whole = json.dumps(json.loads(HONEST[what]())).replace('"pairs": []', '"pairs": [[0, 1]]')
    assert before in whole
    path.write_text(whole.replace(before, before + more(), 1), encoding="utf-8")
    assert ends_in_time(path).startswith("error: ")


@pytest.mark.parametrize("m", [1000, 100_000])
def test_an_honest_design_verifies(m: int, tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_text(honest(m))
    assert ends_in_time(path) == ""


@pytest.mark.parametrize(("m", "states", "bits"), [(12, 1000, 64), (40, 18, 6144), (500, 30, 512), (16_000, 60, 64)])
def test_a_deployment_that_asks_for_much_work(m: int, states: int, bits: int, tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_bytes(of_layers(m, bits, states=states))
    ends_in_time(path)


@pytest.mark.parametrize(("opened", "closed"), [('{"a":', "}"), ("[", "]")])
def test_json_that_is_nested_deeply_is_refused(tmp_path, opened, closed):
    """20,000 levels of one record take 60 to 120 kB."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"sex": "]]]]"}\n{"sex": "F", "y": ' + opened * 20_000 + "1" + closed * 20_000 + "}\n")
    with pytest.raises(InvalidInput, match=r"a\.jsonl: line 2 is not one whole JSON object, or nested too deeply"):
        open_source(path)


def refused_at_once(said: str, read: Callable[[], object]) -> None:
    start = time.process_time()
    with pytest.raises(InvalidInput, match=said) as refused:
        read()
    assert time.process_time() - start < 2 and "\n" not in str(refused.value) and len(str(refused.value)) < 1000


def test_gigabytes_before_the_names_of_columns_are_refused_at_once(tmp_path):
    for piece in (b"\xc2\xa0", b'""'):
        (tmp_path / "a.csv.gz").write_bytes(gzip.compress(piece * (1 << 19)) * 500)
        refused_at_once("more than 2097152 names or 16777216 bytes", lambda: open_source(tmp_path / "a.csv.gz"))


@pytest.mark.parametrize(
    ("name", "pieces", "said"),
    [
        # a fault behind a hundred million fields
        ("a.csv.gz", (b"a,b\n", *[b"x,y\n" * (1 << 20)] * 20, b"x\n"), "record 20971521 has 1 fields"),
    ],
)
def test_a_fault_is_named_at_once(tmp_path, name, pieces, said):
    packed = {piece: gzip.compress(piece) if name.endswith(".gz") else piece for piece in set(pieces)}
    (tmp_path / name).write_bytes(b"".join(packed[piece] for piece in pieces))

    def read() -> None:
        source = open_source(tmp_path / name)
        for _ in source.batches(source.column_names()):
            pass

    refused_at_once(said, read)


@pytest.mark.parametrize("key", ["x" + ".y" * 50_000 + " = 1", "[" + "x." * 50_000 + "y]", "x = " + "[" * 50_000])
def test_deep_keys_and_brackets_in_toml_are_refused_at_once(tmp_path, key):
    """The standard reader takes the square of a key's parts, in time and in memory."""
    (tmp_path / "a.toml").write_text(f"{key}\n")
    refused_at_once("more than 300 points|recursion depth", lambda: read_specification(tmp_path / "a.toml"))


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_deep_types_are_refused(tmp_path, kind):
    deep = pa.int64()
    for _ in range(1000):
        deep = pa.struct([("x", deep)])
    table = pa.table({"a": ["x", "y"], "deep": pa.nulls(2, deep)})
    path = tmp_path / f"a.{kind}"
    if kind == "arrow":
        with pa.ipc.new_file(path, table.schema):
            pass
    else:
        pq.write_table(table, path)
    refused_at_once("cannot read", lambda: open_source(path))


def test_a_list_without_end_in_a_page_of_parquet_is_refused_at_once(tmp_path):
    """2^62 numbers of eight bytes, in the header of the first page."""
    pq.write_table(pa.table({"a": ["x"] * 1000}), tmp_path / "a.parquet", compression="none")
    data = bytearray((tmp_path / "a.parquet").read_bytes())
    data[4:16] = b"\x19\xf7" + b"\xff" * 8 + b"\x7f\x00"
    (tmp_path / "a.parquet").write_bytes(data)
    refused_at_once("it is damaged", lambda: list(open_source(tmp_path / "a.parquet").batches(["a"])))


def test_many_columns_of_parquet_are_read_in_time(tmp_path):
    """Their places among the file's columns were once looked up for each in all of them, which took 30 s."""
    names = [f"c{k}" for k in range(20_000)]
    pq.write_table(pa.table([[1]] * len(names), names=names), tmp_path / "a.parquet")
    start = time.process_time()
    (batch,) = open_source(tmp_path / "a.parquet").batches(names)
    assert batch.num_columns == len(names) and time.process_time() - start < 6


@pytest.mark.parametrize("value", [-(2**62), 2**62])
def test_dates_beyond_those_of_python_are_refused(tmp_path, value):
    pq.write_table(pa.table({"a": pa.array([value], pa.timestamp("us"))}), tmp_path / "a.parquet")
    refused_at_once(
        "dates beyond the years 1 to 9999", lambda: optrr.count(tmp_path / "a.parquet", Domain.of({"a": 2}), ["a"])
    )


def test_json_texts_with_many_marks_are_read_in_time(tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({"a": "x" * 3_000_000 + '"' * 100_000}) + "\n")
    refused_at_once("a value of 3100000 bytes", lambda: list(open_source(tmp_path / "a.jsonl").batches(["a"])))


def test_a_nul_in_the_name_of_a_column_of_polars_is_refused():
    frame, domain = pl.DataFrame({"a\0b": [1]}), Domain.of({"a\0b": [1, 2]})
    refused_at_once("has a NUL in its name", lambda: optrr.count(frame, domain, ["a\0b"]))
    refused_at_once("has a NUL in its name", lambda: optrr.count(frame.lazy(), domain, ["a\0b"]))
