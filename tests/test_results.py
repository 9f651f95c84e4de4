"""Kept results: what their scripts write, each with one line in the index; scripts that run seldom import names that exist."""

import ast
import csv
import importlib.util
import re
import shutil
from pathlib import Path

import make_results
import pytest
from comparison import difference

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks"
SIMULATED, SOLVED = 0.1, 2e-3  # relative: what other versions of the libraries may change in draws, and elsewhere


@pytest.mark.slow
@pytest.mark.parametrize("script", make_results.quick())
def test_quick_script_writes_its_kept_results(script: str, tmp_path: Path) -> None:
    copy = tmp_path / "benchmarks"
    shutil.copytree(FOLDER, copy)
    shutil.copytree(ROOT / "docs" / "papers", tmp_path / "docs" / "papers")
    shutil.copy(ROOT / "README.md", tmp_path)
    written = make_results.run(script, copy)
    listed = {name for name, row in make_results.index().items() if row["script"] == script}
    assert {file.name for file in written if file.parent.name == "results"} == listed
    closeness = SIMULATED if "\nSEED = " in make_results.scripts()[script] else SOLVED
    for file in (*sorted(written), tmp_path / "README.md"):
        assert difference(ROOT / file.relative_to(tmp_path), file, closeness) is None, file.name


def test_index_has_one_row_for_each_result() -> None:
    rows = list(csv.DictReader(make_results.INDEX.read_text(encoding="utf-8").splitlines()))
    assert tuple(rows[0]) == make_results.COLUMNS
    kept = [file.name for file in (FOLDER / "results").iterdir() if file != make_results.INDEX]
    assert sorted(row["file"] for row in rows) == sorted(kept)
    for row in rows:
        assert row["script"] in make_results.scripts()
        assert re.fullmatch(r"[0-9a-f]{7,40}(-dirty)?", row["commit"]) and re.fullmatch(r"\d{4}-\d\d-\d\d", row["date"])
        assert re.findall(r"(\w+) [\d.]+", row["versions"]) == ["optrr", "numpy", "scipy", "highspy"]


@pytest.mark.parametrize("script", sorted(FOLDER.glob("*.py")), ids=lambda script: script.stem)
def test_script_imports_names_that_exist(script: Path) -> None:
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or str(node.module).partition(".")[0] not in ("optrr", "optrr_solvers"):
            continue
        module = importlib.import_module(str(node.module))
        for alias in node.names:
            inner = hasattr(module, "__path__") and importlib.util.find_spec(f"{node.module}.{alias.name}")
            assert hasattr(module, alias.name) or inner, f"{node.module} has no {alias.name}"


@pytest.mark.parametrize("paper", ["por", "mdr", "sic", "rij", "rvl"])
def test_pictures_of_a_paper_s_page_exist(paper: str) -> None:
    text = (ROOT / "docs" / "papers" / f"{paper}.md").read_text(encoding="utf-8")
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert shown and all((ROOT / "docs" / "papers" / name).resolve().is_file() for name in shown)
    assert "**Published:**" in text or paper == "rvl"


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
def test_results_are_compared_in_words_and_numbers(tmp_path: Path, old: str, new: str, agrees: bool) -> None:
    before, now = tmp_path / "old.md", tmp_path / "new.md"
    assert before.write_text(old) and now.write_text(new)
    assert (difference(before, now, 1e-6) is None) is agrees
