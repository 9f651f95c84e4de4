"""What a package exports is there and documented. Which package imports which, `lint-imports` checks (pyproject.toml)."""

import importlib
import inspect
import pkgutil
import re
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
