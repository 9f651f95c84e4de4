"""A format of records that is added from outside: one small module and one line in the table of formats, read and written."""

import sys
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest

import optrr
from optrr.cli.main import run
from optrr.core.errors import InvalidInput
from optrr.core.records.reading import registry
from optrr.core.records.reading.registry import RecordFormat
from optrr.core.records.reading.source import RecordsAt

# The whole of what somebody writes: fields of a width each, below a line of names and widths.
MODULE = """
from pathlib import Path
import pyarrow as pa
from optrr.core.records.reading.source import Source

WIDTH = 8

def read(where, domain):
    path = Path(where.place)
    with path.open(encoding="utf-8") as file:
        names = file.readline().split()
    def batches(columns):
        rows = [line.rstrip("\\n") for line in path.open(encoding="utf-8")][1:]
        fields = [[row[k * WIDTH : (k + 1) * WIDTH].strip() for row in rows] for k in map(names.index, columns)]
        yield pa.RecordBatch.from_arrays([pa.array(f, pa.string()) for f in fields], names=columns)
    return Source(str(path), pa.schema([(name, pa.string()) for name in names]), batches, (path,))

class Writer:
    def __init__(self, path, schema):
        self.file = path.open("w", encoding="utf-8")
        self.file.write(" ".join(schema.names) + "\\n")
    def write_batch(self, batch):
        for row in batch.to_pylist():
            self.file.write("".join(str(value).ljust(WIDTH) for value in row.values()) + "\\n")
    def close(self):
        self.file.close()
"""


@pytest.fixture
def fixed_width(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("fixed_width")
    exec(MODULE, module.__dict__)
    monkeypatch.setitem(sys.modules, "fixed_width", module)
    monkeypatch.setattr(
        registry,
        "FORMATS",
        [*registry.FORMATS, RecordFormat("fixed", "fixed_width:read", (".fwf",), writer="fixed_width:Writer")],
    )


def test_a_format_from_outside_is_read_and_written(fixed_width, tmp_path, capsys):
    """Independent reference: the same records in memory; at ε = 60 no value changes."""
    rng = np.random.default_rng(1)
    table = pa.table({"sex": rng.choice(["F", "M"], 300), "kids": rng.integers(0, 3, 300).astype(str)})
    rows = ["sex kids", *(f"{s:8}{k:8}" for s, k in zip(*table.to_pydict().values(), strict=True))]
    (tmp_path / "true.fwf").write_text("\n".join(rows) + "\n")
    (tmp_path / "said.txt").write_text("\n".join(rows) + "\n")
    design = optrr.design({"sex": ["F", "M"], "kids": 3}, 30.0, method="kronecker")
    expected = optrr.count(table, design.domain, ["sex", "kids"]).table
    for place in (tmp_path / "true.fwf", RecordsAt(tmp_path / "said.txt", format="fixed")):
        np.testing.assert_array_equal(optrr.count(place, design.domain, ["sex", "kids"]).table, expected)
    design.randomize(tmp_path / "true.fwf", tmp_path / "out.fwf")
    assert sorted(p.name for p in tmp_path.glob("out*")) == ["out.fwf", "out.fwf.optrr.json"]
    reports = optrr.reports(tmp_path / "out.fwf", design)
    assert reports.table("sex").n == 300 and not reports.doubts
    np.testing.assert_array_equal(reports.counts(["sex", "kids"])[0].table, expected)
    with pytest.raises(InvalidInput, match="already randomized"):
        design.randomize(tmp_path / "out.fwf", tmp_path / "again.fwf")
    optrr.save(design, tmp_path / "d.json")
    randomize = ["randomize", str(tmp_path / "true.fwf"), "--design", str(tmp_path / "d.json"), "-o"]
    assert run([*randomize, str(tmp_path / "b.fwf")]) == 0
    assert (tmp_path / "b.fwf").read_text().startswith("sex kids\n")
    capsys.readouterr()
    assert run([*randomize, str(tmp_path / "b.xyz")]) == 2
    assert "records are written as .csv or .parquet or .fwf" in capsys.readouterr().err
