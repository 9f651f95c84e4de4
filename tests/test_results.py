"""Every kept result is what its benchmark writes today: cheap ones are made again, long ones are no older than their code.

A long result that is older than its code is told of in the summary; runs of all tests, which come before a release, fail on it.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import warnings
from pathlib import Path

import items
import numpy as np
import probing
import pytest
import run as runner
import sources
import staleness
from comparison import difference
from registry import BENCHMARKS, Benchmark, cheap

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks"
# What serves the benchmarks and writes no result.
SERVING = {
    "broken_clients",
    "comparison",
    "count_queries",
    "paper_settings",
    "people",
    "probing",
    "published",
    "registry",
    "run",
    "rvl_data",
    "sources",
    "staleness",
}
# More than two and a half seconds of processor time each: between full runs the digests of the code hold their results to it.
SLOWER = {"mdr_fig2", "rij", "rij_age_sex", "rvl_derived", "rvl_proportions"}
NAMED = [pytest.param(b, id=b.script) for b in BENCHMARKS]


def test_every_script_is_registered() -> None:
    scripts = {f.stem for f in FOLDER.glob("*.py") if not f.stem.startswith("make_")}
    assert scripts - SERVING == {b.script for b in BENCHMARKS}


@pytest.mark.parametrize("script", sorted(FOLDER.glob("*.py")), ids=lambda script: script.stem)
def test_what_a_script_imports_of_the_project_is_there(script: Path) -> None:
    """Long benchmarks run seldom, so that a name that has moved would be missed for long."""
    imports = [
        node for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))) if isinstance(node, ast.ImportFrom)
    ]
    for node in imports:
        if (node.module or "").split(".")[0] not in sources.PACKAGES:
            continue
        try:
            module = importlib.import_module(str(node.module))
        except ModuleNotFoundError as error:  # of a package that is not installed
            assert str(error.name).split(".")[0] not in sources.PACKAGES
            continue
        for alias in node.names:
            inner = hasattr(module, "__path__") and importlib.util.find_spec(f"{node.module}.{alias.name}")
            assert hasattr(module, alias.name) or inner, f"{node.module} has no {alias.name}"


@pytest.mark.parametrize("page", ["por", "mdr", "sic", "rij", "rvl"])
def test_a_paper_s_page_shows_pictures_that_are_there(page: str) -> None:
    text = (ROOT / "docs" / "papers" / f"{page}.md").read_text(encoding="utf-8")
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert shown
    for name in shown:
        assert (ROOT / "docs" / "papers" / name).resolve().is_file(), name
    assert "**Published:**" in text or page == "rvl"


def test_every_result_was_written_by_one_benchmark() -> None:
    written = [file for record in staleness.recorded().values() for file in record["outputs"]]
    assert len(written) == len(set(written))
    kept = {f.relative_to(ROOT).as_posix() for f in (FOLDER / "results").iterdir()}
    assert kept - {"benchmarks/results/made_by.json"} == {f for f in written if f.startswith("benchmarks/results/")}


def stale_results() -> dict[str, str]:
    """Why each stale result is stale; where none is kept none can be old, and another test looks for files without a record."""
    records = staleness.recorded()
    reasons = {b.script: staleness.why_stale(b, records) for b in BENCHMARKS if b.script in records}
    return {script: reason for script, reason in reasons.items() if reason is not None}


@pytest.mark.slow
def test_stale_results_are_told_of() -> None:
    for script, reason in stale_results().items():
        warnings.warn(
            f"results of {script} are stale: {reason}; run: benchmarks/run.py --restamp {script}", stacklevel=1
        )
    assert {b.script for b in BENCHMARKS if b.cheap} <= set(staleness.recorded())


@pytest.mark.slow
def test_no_result_is_older_than_its_code() -> None:
    assert stale_results() == {}, "run: python benchmarks/run.py --restamp, and run.py all --stale for what is left"


@pytest.mark.slow
@pytest.mark.parametrize(
    "benchmark",
    [
        pytest.param(b, id=b.script, marks=[pytest.mark.slow] if b.script in SLOWER else [])
        for b in BENCHMARKS
        if b.cheap
    ],
)
def test_a_cheap_result_is_what_its_benchmark_writes_today(benchmark: Benchmark) -> None:
    absent = runner.missing(benchmark)
    if absent:
        pytest.skip(f"needs {absent}")
    assert runner.differences(benchmark) == []


@pytest.mark.parametrize("benchmark", NAMED)
def test_no_result_names_a_folder_or_a_day(benchmark: Benchmark) -> None:
    for file in staleness.recorded().get(benchmark.script, {"outputs": ()})["outputs"]:
        # pictures may be no text
        text = (ROOT / file).read_text(encoding="utf-8", errors="replace")
        assert "/tmp/" not in text, file
        assert str(Path.home()) not in text or str(Path.home()) == "/", file
        assert "<dc:date>20" not in text, file


SAMPLE = {
    "settings": '"""Sizes."""\n\nWIDTH = 2\nHEIGHT = 3\nDEPTH = 4\n\ndef unused():\n    return 1\n',
    "dataset": """
from sample.settings import WIDTH, unused
from sample import settings

class Rows:
    size = 1

    def first(self):
        return self.size

    def last(self):
        return 7

def read(rows):
    cells = [WIDTH]
    if not cells:
        unused()
    return doubled(cells) * settings.HEIGHT + rows.first()

def doubled(row):
    return row + row
""",
    "figure": """
from sample.dataset import Rows, read
from sample import settings

print(read(Rows()), settings.DEPTH)
""",
}
RAN = {"sample.dataset": ["read", "doubled", "Rows.first"]}
# what changes, the file, what stands there and what then does, and whether the result is stale
CHANGES = {
    "a constant that is imported": ("dataset", "settings", "WIDTH = 2", "WIDTH = 3", True),
    "a constant reached through its module": ("dataset", "settings", "HEIGHT = 3", "HEIGHT = 5", True),
    "a function that ran": ("dataset", "dataset", "row + row", "row + row + row", True),
    "which function is called": ("dataset", "dataset", "doubled(cells) *", "read(cells) *", True),
    "which variable is used": ("dataset", "dataset", "(cells) *", "(rows) *", True),
    "a field of a class": ("dataset", "dataset", "size = 1", "size = 2", True),
    "the script": ("figure", "figure", "print(read", "print(1, read", True),
    "a constant that the script alone names": ("figure", "settings", "DEPTH = 4", "DEPTH = 5", True),
    "the name of a variable": ("dataset", "dataset", "cells", "line", False),
    "a docstring": ("settings", "settings", "Sizes.", "Widths.", False),
    "a comment": ("figure", "figure", "settings.DEPTH)", "settings.DEPTH)  # all", False),
    "a function that did not run": ("settings", "settings", "return 1", "return 2", False),
    "a method that did not run": ("dataset", "dataset", "return 7", "return 8", False),
    "a script's probe": ("figure", "figure", "print(", "def probe():\n    return 1\n\nprint(", False),
}


def gone(before: dict[str, str], after: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a result of these files depended on and is nowhere in those."""
    (folder / "sample").mkdir()
    (folder / "scripts").mkdir()
    monkeypatch.setattr(sources, "OWN", "scripts")

    def write(files: dict[str, str]) -> None:
        for old in folder.rglob("*.py"):
            old.unlink()
        for name, text in files.items():
            (folder / ("scripts" if name == "figure" else "sample") / f"{name}.py").write_text(text)
        project = items.Project({"sample": folder / "sample", "scripts": folder / "scripts"}, ["scripts"])
        monkeypatch.setattr(sources, "project", lambda: project)
        sources._by_plain.cache_clear()

    write(before)
    recorded = staleness.unpacked(staleness.packed(sources.digests(sources.executed_items("figure", RAN))))
    assert set(recorded) == {"scripts.figure", "sample.dataset", "sample.settings"}
    assert sources.surviving(recorded)[1] == []
    write(after)
    out = sources.surviving(recorded)[1]
    sources._by_plain.cache_clear()
    return [".".join(each) for each in out]


@pytest.mark.parametrize("change", CHANGES)
def test_a_result_is_stale_where_what_it_depends_on_changed(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, module, old, new, stale = CHANGES[change]
    after = SAMPLE | {module: re.sub(re.escape(old) if " " in old else rf"\b{re.escape(old)}", new, SAMPLE[module])}
    assert after != SAMPLE
    assert bool(gone(SAMPLE, after, tmp_path, monkeypatch)) is stale


MOVES = {
    "a function to another module": {
        "dataset": SAMPLE["dataset"].partition("def doubled")[0].replace("import WIDTH", "import WIDTH, doubled"),
        "settings": SAMPLE["settings"] + "\ndef doubled(row):\n    return row + row\n",
    },
    "a module to another name": {
        "dataset": None,
        "records": SAMPLE["dataset"],
        "figure": SAMPLE["figure"].replace("sample.dataset", "sample.records"),
    },
    "a constant to another name": {
        "dataset": SAMPLE["dataset"].replace("WIDTH", "BREADTH"),
        "settings": SAMPLE["settings"].replace("WIDTH", "BREADTH"),
    },
    "a function to another name": {"dataset": SAMPLE["dataset"].replace("doubled", "twice")},
    "a method to another name": {"dataset": SAMPLE["dataset"].replace("first", "smallest")},
    "a class to another name": {
        "dataset": SAMPLE["dataset"].replace("Rows", "Lines"),
        "figure": SAMPLE["figure"].replace("Rows", "Lines"),
    },
}


@pytest.mark.parametrize("move", MOVES)
def test_no_result_is_stale_where_code_only_moved(move: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    after = {name: text for name, text in (SAMPLE | MOVES[move]).items() if text is not None}
    assert gone(SAMPLE, after, tmp_path, monkeypatch) == []


def test_no_result_is_stale_where_a_public_name_only_lives_elsewhere() -> None:
    assert staleness.changed_code({"code": {"optrr": "_HOMES:0123456789abcdef _named:0123456789abcdef"}}) == []
    assert staleness.changed_code({"code": {"optrr": "_OTHER:0123456789abcdef"}}) == ["optrr._OTHER"]


def test_a_probe_is_compared_to_nine_digits() -> None:
    before = list(probing.flattened({"a": [1, "x"], "b": np.array([[0.5, np.nan]]), "c": None}))
    assert before == [1.0, "x", 0.5, "nan", None]
    assert probing.equal(before, [1.0 + 1e-10, "x", 0.5, "nan", None])
    for other in ([1.0 + 1e-8, "x", 0.5, "nan", None], [1.0, "y", 0.5, "nan", None], [1.0, "x", 0.5, "nan"]):
        assert not probing.equal(before, other)


@pytest.mark.parametrize(
    ("old", "new", "agrees"),
    [
        ("error 1.000001 at ε 2", "error 1.000002 at ε 2", True),
        ("error 0.137", "error 0.139", False),
        ("137 of 1000", "138 of 1000", False),
        ("better at ε = 1", "worse at ε = 1", False),
        ("1.2e-10", "1.3e-10", True),
        ("a,1.5\nb,2.5", "a,1.5", False),
    ],
)
def test_results_agree_in_words_and_numbers(tmp_path: Path, old: str, new: str, agrees: bool) -> None:
    """Printed numbers may differ by one unit of their last digit, whole numbers not at all."""
    for name, text in (("old", old), ("new", new)):
        (tmp_path / f"{name}.md").write_text(text)
    assert (difference(tmp_path / "old.md", tmp_path / "new.md", 1e-6) is None) is agrees


@pytest.mark.slow
def test_a_run_is_traced_into_the_processes_that_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small benchmark: it computes in another process, reads bundled data and writes one file."""
    folder = tmp_path / "benchmarks"
    (folder / "results").mkdir(parents=True)
    (tmp_path / "README.md").write_text("")
    (folder / "sample.py").write_text(
        "import subprocess, sys\n"
        "from pathlib import Path\n"
        "code = 'from optrr.domain.datasets import adult; print(len(adult()))'\n"
        "printed = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True).stdout\n"
        "(Path(__file__).parent / 'results' / 'sample.csv').write_text(printed)\n"
    )
    tracer = FOLDER / "tracer"
    (folder / "tracer").symlink_to(tracer)
    (folder / "matplotlibrc").write_text("")
    for home in (runner, sources):
        monkeypatch.setattr(home, "FOLDER", folder)
        monkeypatch.setattr(home, "ROOT", tmp_path)
    sources.forget()
    with runner.finished(cheap("sample", 0.0)) as run:
        assert run.written == ("benchmarks/results/sample.csv",)
        assert (run.root / run.written[0]).read_text() == "32561\n"
        assert run.read == ("optrr/domain/data/adult.csv.gz",)
        assert "adult" in run.executed["optrr.domain.datasets"]
    sources.forget()
