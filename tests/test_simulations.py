"""A simulation is skipped where the functions that it ran are there as they were, wherever they are now."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import simulations
from items import Project

CODE = "LEVEL = 0.05\n\n\ndef level(n):\n    return LEVEL / n\n\n\ndef other(n):\n    return n\n"
TEST = (
    "from package.one import level\nfrom cases import records\n\n\ndef test_level():\n    assert level(records()) < 1\n"
)
EXECUTED = {"package.one": {"level"}, "tests.test_one": {"test_level"}, "tests.cases": {"records"}}
NAMES = ["test_level[1]", "test_level[2]"]
Changed = dict[str, str]


@pytest.fixture
def before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What is kept of a simulation in a small project, which stands in for the real one."""
    monkeypatch.setattr(simulations.sources, "PACKAGES", ("package",))
    files = {"package/one.py": CODE, "tests/test_one.py": TEST, "tests/cases.py": "def records():\n    return 9\n"}
    for file, text in {**files, "package/data.csv": "1\n"}.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    record = simulations.record(project(tmp_path), EXECUTED, [tmp_path / "package/data.csv"], NAMES)
    return json.loads(json.dumps({"versions": simulations.versions(), "files": {"tests/test_one.py": record}}))


def project(root: Path) -> Project:
    return Project({"package": root / "package", "tests": root / "tests"}, ["tests"])


def unchanged(before: dict[str, Any], root: Path, changed: Changed) -> bool:
    for file, text in changed.items():
        (root / file).unlink(missing_ok=True)
        if text:
            (root / file).write_text(text)
    kept = simulations.unchanged(before, project(root))
    assert kept in ({}, {"tests/test_one.py": NAMES})
    return bool(kept)


MOVED: dict[str, Changed] = {
    "nothing": {},
    "a comment": {
        "package/one.py": CODE.replace("    return LEVEL", '    """Says it."""\n    # why\n    return LEVEL')
    },
    "a function that did not run": {"package/one.py": CODE.replace("return n", "return n + 1")},
    "a function that moved": {
        "package/one.py": "",
        "package/two.py": CODE,
        "tests/test_one.py": TEST.replace("package.one", "package.two"),
    },
    "a function with another name": {
        "package/one.py": CODE.replace("level", "rate"),
        "tests/test_one.py": TEST.replace("import level", "import rate").replace("assert level", "assert rate"),
    },
    "data that moved": {"package/data.csv": "", "package/table.csv": "1\n"},
    "another test": {"tests/test_one.py": TEST + "\n\ndef test_other():\n    pass\n"},
}
CHANGED: dict[str, Changed] = {
    "a function": {"package/one.py": CODE.replace("LEVEL / n", "LEVEL * n")},
    "a constant": {"package/one.py": CODE.replace("0.05", "0.01")},
    "the test": {"tests/test_one.py": TEST.replace("< 1", "< 2")},
    "what the test shares with others": {"tests/cases.py": "def records():\n    return 8\n"},
    "data": {"package/data.csv": "2\n"},
    "a function that is gone": {"package/one.py": CODE.replace("level", "_")},
}


@pytest.mark.parametrize("what", MOVED)
def test_what_changes_nothing_leaves_it_unchanged(what: str, before: dict[str, Any], tmp_path: Path) -> None:
    assert unchanged(before, tmp_path, MOVED[what])


@pytest.mark.parametrize("what", CHANGED)
def test_what_may_change_its_outcome_makes_it_run(what: str, before: dict[str, Any], tmp_path: Path) -> None:
    assert unchanged(before, tmp_path, {})
    assert not unchanged(before, tmp_path, CHANGED[what])


def test_other_versions_make_it_run(before: dict[str, Any], tmp_path: Path) -> None:
    assert not unchanged({**before, "versions": "python 3.11, numpy 0, scipy 0"}, tmp_path, {})


def test_a_trace_names_functions_and_files(before: dict[str, Any], tmp_path: Path) -> None:
    data = tmp_path / "package/data.csv"
    lines = [f"F\t{tmp_path}/package/one.py\tlevel", f"F\t{tmp_path}/other.py\tlevel", f"R\t{data}", f"W\t{data}"]
    assert simulations.traced(project(tmp_path), lines) == ({"package.one": {"level"}}, {data})


def test_what_is_kept_names_simulations_that_are_there() -> None:
    for file, record in simulations.kept()["files"].items():
        text = (simulations.ROOT / file).read_text()
        assert "mark.simulation" in text, file
        assert all(f"def {name.partition('[')[0]}(" in text for name in record["tests"]), file


TWO = """
import pytest


@pytest.mark.simulation
def test_known():
    pass


@pytest.mark.simulation
def test_new():
    pass
"""
KNOWN = """
import simulations

simulations.digest_of_tree = str
simulations.unchanged = lambda kept, tree: {"test_two.py": ["test_known"]}
"""


def selected(root: Path, expression: str) -> str:
    """What a run of two simulations says, of which one is taken to be unchanged."""
    (root / "test_two.py").write_text(TWO)
    (root / "plugin.py").write_text(KNOWN)
    plugins = [part for name in ("plugin", "conftest", "no:cacheprovider") for part in ("-p", name)]
    own = ["-n", "0", f"--rootdir={root}", "-c", str(simulations.ROOT / "pyproject.toml"), "-m", expression]
    paths = [root, *(simulations.ROOT / name for name in ("tests", "proofs", "benchmarks"))]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *own, "-v", "test_two.py"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))},
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_usual_run_skips_it_and_others_run_it(tmp_path: Path) -> None:
    usual = selected(tmp_path, "not full")
    assert "1 passed, 1 skipped" in usual and f"1 simulations are {simulations.REASON}" in usual
    for expression in ("full or not full", "simulation"):
        assert "2 passed" in selected(tmp_path, expression)
