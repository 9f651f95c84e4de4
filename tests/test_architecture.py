"""What a package exports is there and documented. Which package imports which, `lint-imports` checks (pyproject.toml)."""

import importlib
import inspect
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = ("optrr", "optrr_solvers")


def folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations)))


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_exported_names_exist_and_are_documented(package):
    exporting = {}
    walked = pkgutil.walk_packages([str(folder(package))], package + ".")
    for name in [package, *(m.name for m in walked if not m.name.endswith("__main__"))]:
        module = importlib.import_module(name)
        exporting[name] = getattr(module, "__all__", ())
        for entry in exporting[name]:
            thing = getattr(module, entry)
            if inspect.isclass(thing) or inspect.isroutine(thing):
                assert inspect.getdoc(thing), f"{name}.{entry} has no docstring"
    assert exporting[package], f"{package} exports nothing"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_two_classes_share_a_name(package):
    names: dict[str, list[Path]] = {}
    for file in sorted(folder(package).rglob("*.py")):
        for name in re.findall(r"^ *class (\w+)[:(]", file.read_text(), re.MULTILINE):
            names.setdefault(name, []).append(file)
    assert len(names) > 50
    assert {name: files for name, files in names.items() if len(files) > 1} == {}


def test_the_public_api_stays_small():
    assert len(importlib.import_module("optrr").__all__) <= 45


ROOT = Path(__file__).parents[1]
PLANTED = {
    "optrr/core/estimation/__init__.py": ("import optrr.genomics.scan", "the core imports no extension"),
    "optrr/analysis/__init__.py": (
        "import optrr.planner.plan",
        "an extension imports the core and the extensions below",
    ),
    "optrr/studies/__init__.py": ("import optrr.core.records.counts", "an extension imports what the core's packages"),
    "solvers/optrr_solvers/laws/__init__.py": ("import optrr.core.domain", "solvers know arrays"),
}


@pytest.mark.slow
@pytest.mark.parametrize("file", PLANTED)
def test_contracts_fail_on_a_planted_import(tmp_path, file):
    line, contract = PLANTED[file]
    for name in ("optrr", "solvers"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / file).open("a", encoding="utf-8") as module:
        module.write(f"\n{line}\n")
    code = "import sys; sys.path[:0] = ['.', 'solvers']; from importlinter.cli import *; lint_imports_command()"
    command = [sys.executable, "-c", code, "--no-cache"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 1, ran.stderr
    assert re.search(rf"{contract}.* BROKEN", ran.stdout)
