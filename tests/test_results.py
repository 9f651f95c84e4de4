"""Every kept result is what its benchmark writes today: no older than its code, and the cheap ones are made again here."""

from __future__ import annotations

import re
from pathlib import Path

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


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", NAMED)
def test_a_result_is_no_older_than_its_code(benchmark: Benchmark) -> None:
    records = staleness.recorded()
    if benchmark.script not in records and not benchmark.cheap:
        # where no result is kept none can be old; another test checks that no file is kept without its record
        pytest.skip(f"no result is kept; run: python benchmarks/run.py {benchmark.script}")
    reason = staleness.why_stale(benchmark, records)
    assert reason is None, f"{reason}; run: python benchmarks/run.py {benchmark.script}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "benchmark",
    [
        pytest.param(b, id=b.script, marks=[pytest.mark.full] if b.script in SLOWER else [])
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
        text = (ROOT / file).read_text(encoding="utf-8")
        assert "/tmp/" not in text, file
        assert str(Path.home()) not in text or str(Path.home()) == "/", file
        assert "<dc:date>20" not in text, file


SAMPLE = {
    "dataset": "from settings import WIDTH\nimport settings\n\n"
    "def read():\n    row = [WIDTH]\n    return row * settings.HEIGHT\n",
    "settings": '"""Sizes."""\n\nWIDTH = 2\nHEIGHT = 3\nDEPTH = 4\n\ndef unused():\n    return 1\n',
    "figure": "import settings\nfrom dataset import read\n\nprint(read(), settings.DEPTH)\n",
}
CHANGES = {
    "a constant that is imported": ("settings", "WIDTH = 2", "WIDTH = 3", True),
    "a constant reached through its module": ("settings", "HEIGHT = 3", "HEIGHT = 5", True),
    "the function that ran": ("dataset", "return row", "return 2 * row", True),
    "which variable is used": ("dataset", "return row", "return rows", True),
    "the name of a variable": ("dataset", "row", "line", False),
    "the script": ("figure", "print(read()", "print(1, read()", True),
    "a constant that the script alone names": ("settings", "DEPTH = 4", "DEPTH = 5", True),
    "a docstring": ("settings", "Sizes.", "Widths.", False),
    "a comment": ("figure", "settings.DEPTH)", "settings.DEPTH)  # all", False),
    "a function that did not run": ("settings", "return 1", "return 2", False),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_digest_changes_with_what_the_run_depends_on(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sample stands for a package, so that only what its functions name counts."""
    module, old, new, expected = CHANGES[change]
    monkeypatch.setattr(sources, "FOLDER", tmp_path)
    monkeypatch.setattr(sources, "PACKAGES", ("dataset", "settings"))

    def digests() -> dict[str, str]:
        sources.forget()
        return sources.digests("figure", {"dataset": ["read"]})

    def file(name: str) -> Path | None:
        return tmp_path / f"{name.removeprefix('benchmarks.')}.py" if name.rpartition(".")[2] in SAMPLE else None

    monkeypatch.setattr(sources, "module_file", file)
    for name, text in SAMPLE.items():
        (tmp_path / f"{name}.py").write_text(text)
    before = digests()
    (tmp_path / f"{module}.py").write_text(SAMPLE[module].replace(old, new))
    after = digests()
    sources.forget()
    assert set(before) == {"benchmarks.figure", "dataset", "settings"}
    assert (before != after) is expected


def test_methods_bring_their_class_and_its_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "class A:\n    size = {}\n    def f(self):\n        return self.size\n    def g(self):\n        return {}\n"
    monkeypatch.setattr(sources, "module_file", lambda name: tmp_path / "a.py" if name == "a" else None)
    digests = []
    for size, unused in ((1, 1), (1, 2), (2, 1)):
        (tmp_path / "a.py").write_text(text.format(size, unused))
        sources.forget()
        digests.append(sources.digests("none", {"a": ["A.f"]})["a"])
    sources.forget()
    assert digests[0] == digests[1] != digests[2]


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
        "code = 'from optrr.records.datasets import adult; print(len(adult()))'\n"
        "printed = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True).stdout\n"
        "(Path(__file__).parent / 'results' / 'sample.csv').write_text(printed)\n"
    )
    tracer = FOLDER / "tracer"
    (folder / "tracer").symlink_to(tracer)
    (folder / "matplotlibrc").write_text("")
    for home in (runner, sources):
        monkeypatch.setattr(home, "FOLDER", folder)
        monkeypatch.setattr(home, "ROOT", tmp_path)
    sources.package_folder.cache_clear()
    with runner.finished(cheap("sample", 0.0)) as run:
        assert run.written == ("benchmarks/results/sample.csv",)
        assert (run.root / run.written[0]).read_text() == "32561\n"
        assert run.read == ("optrr/records/data/adult.csv.gz",)
        assert "adult" in run.executed["optrr.records.datasets"]
    sources.package_folder.cache_clear()
