"""The shape of the code: which way imports point, and what is exported. How much a function decides, ruff counts."""

import ast
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

PACKAGES = ("optrr", "optrr_solvers")


def folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations)))


def modules(package: str) -> list[str]:
    walked = pkgutil.walk_packages([str(folder(package))], package + ".")
    return [package, *(m.name for m in walked if not m.name.endswith("__main__"))]


def imported_names(source: str) -> set[str]:
    """Top-level packages a module imports anywhere in it, also inside functions and by importlib.import_module."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {a.name.split(".")[0] for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
        elif isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called in ("import_module", "__import__"):
                names |= {str(a.value).split(".")[0] for a in node.args if isinstance(a, ast.Constant)}
    return names


def test_the_reader_of_imports_sees_every_form():
    source = "import a.b\nfrom c.d import e\nfrom . import f\ndef g():\n    import h\n"
    assert imported_names(source + "    importlib.import_module('i.j')\n") == {"a", "c", "h", "i"}


def test_the_solvers_import_nothing_of_the_user_package():
    files = sorted(folder("optrr_solvers").rglob("*.py"))
    assert len(files) > 10
    for file in files:
        assert "optrr" not in imported_names(file.read_text()), file


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_has_a_docstring(package):
    for file in sorted(folder(package).rglob("*.py")):
        assert ast.get_docstring(ast.parse(file.read_text())), file


def isort_order(name: str) -> tuple[int, str]:
    """The order ruff keeps: constants, classes, the rest."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


@pytest.mark.parametrize("package", PACKAGES)
def test_exports_are_sorted_exist_and_are_documented(package):
    exporting = 0
    for name in modules(package):
        module = importlib.import_module(name)
        exported = getattr(module, "__all__", None)
        if exported is None:
            continue
        exporting += 1
        assert list(exported) == sorted(set(exported), key=isort_order), f"{name}.__all__ is not sorted"
        for entry in exported:
            thing = getattr(module, entry)
            if inspect.isclass(thing) or inspect.isroutine(thing):
                assert inspect.getdoc(thing), f"{name}.{entry} has no docstring"
    assert exporting, f"{package} exports nothing"


def module_edges(package: str, types: bool = False) -> dict[str, set[str]]:
    """Which modules import which of their package, functions' own imports included; with ``types`` those for types, too."""
    here, known = folder(package), set(modules(package))
    edges: dict[str, set[str]] = {}
    for file in sorted(here.rglob("*.py")):
        if file.name == "__init__.py":
            continue
        name = ".".join((package, *file.relative_to(here).with_suffix("").parts))
        tree = ast.parse(file.read_text())
        typed = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)]
        skipped = set() if types else {id(n) for block in typed for n in ast.walk(block)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and id(node) not in skipped:
                for alias in node.names:
                    target = f"{node.module}.{alias.name}"
                    edges.setdefault(name, set()).add(target if target in known else node.module)
    return edges


def on_a_circle(edges: dict[str, set[str]]) -> set[str]:
    """Everything that can be reached from itself."""

    def reached(start: str) -> set[str]:
        seen, waiting = set(), list(edges.get(start, ()))
        while waiting:
            at = waiting.pop()
            if at not in seen:
                seen.add(at)
                waiting += edges.get(at, ())
        return seen

    return {name for name in edges if name in reached(name)}


def test_circles_are_found():
    assert on_a_circle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == {"b", "c"}


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_no_modules_and_no_rooms_import_each_other(package):
    edges = module_edges(package)
    assert len(edges) > 50
    assert not on_a_circle(module_edges(package, types=True))
    rooms: dict[str, set[str]] = {}
    for name, targets in edges.items():
        room = name.split(".")[1]
        inside = {t.split(".")[1] for t in targets if t.startswith(package + ".")}
        rooms.setdefault(room, set()).update(inside - {room})
    assert not on_a_circle(rooms)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_two_classes_share_a_name(package):
    names: dict[str, list[Path]] = {}
    for file in sorted(folder(package).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                names.setdefault(node.name, []).append(file)
    assert len(names) > 50
    assert {name: files for name, files in names.items() if len(files) > 1} == {}


def test_the_front_door_stays_narrow():
    """What a newcomer sees at once; everything else stands in its room."""
    assert len(importlib.import_module("optrr").__all__) <= 45
