"""Which code a result depends on: the functions that ran, and the constants and classes that they name.

Functions are known from a trace of the run. What they refer to is read from their syntax trees: a constant or a class of a
module, followed through imports. A function that was named but did not run does not count, so a result stays current while
code that it never reached is being changed.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent
sys.path.append(str(ROOT / "proofs"))

from syntax import digest_of_shapes, shape  # noqa: E402 (the proofs' folder is not a package)

PACKAGES = ("optrr", "optrr_solvers")
OWN = "benchmarks"
Item = tuple[str, str]
"""A module and the name in it: a function, ``Class.method``, a constant, or a class without its methods."""

_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@cache
def package_folder(package: str) -> Path:
    """Where the imported copy of a package lies, which for an installed package is not this repository."""
    if package == OWN:
        return FOLDER
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{package} cannot be imported; install the project first: pip install .")
    return Path(next(iter(spec.submodule_search_locations))).resolve()


def module_file(module: str) -> Path | None:
    """The file of a module of the project, None for anything else."""
    package, *rest = module.split(".")
    if package not in (*PACKAGES, OWN):
        return None
    path = package_folder(package).joinpath(*rest)
    return next((f for f in (path.with_suffix(".py"), path / "__init__.py") if f.is_file()), None)


def module_of(file: Path) -> str | None:
    """The module that a file of the project holds, None for other files."""
    for package in (*PACKAGES, OWN):
        if file.is_relative_to(package_folder(package)):
            parts = file.relative_to(package_folder(package)).with_suffix("").parts
            return ".".join((package, *(p for p in parts if p != "__init__")))
    return None


def files() -> dict[str, bytes]:
    """A digest of every source file of the project as it stands, by module."""
    contents: dict[str, bytes] = {}
    for package in (*PACKAGES, OWN):
        for file in package_folder(package).rglob("*.py"):
            name = module_of(file)
            if name:
                contents[name] = hashlib.sha256(file.read_bytes()).digest()
    return contents


@dataclass(frozen=True)
class Module:
    """A module's top-level statements by the names that they bind."""

    name: str
    tree: ast.Module
    bound: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imported: dict[str, Item] = field(default_factory=dict)


@cache
def module(name: str) -> Module | None:
    """The parsed module, None where the project has no such module."""
    file = module_file(name)
    if file is None:
        return None
    package = name if file.stem == "__init__" else name.rpartition(".")[0]
    read = Module(name, ast.parse(file.read_text(encoding="utf-8")))
    for statement in _flat(read.tree.body):
        if isinstance(statement, _DEFINITIONS):
            read.bound.setdefault(statement.name, []).append(statement)
        for target in _targets(statement):
            read.bound.setdefault(target, []).append(statement)
    read.imported.update(_imports(read.tree.body, package))
    return read


def forget() -> None:
    """Read every module anew, where files may have changed."""
    for kept in (module, shapes, _named):
        kept.cache_clear()


@cache
def shapes(item: Item) -> tuple[bytes, ...]:
    """What a digest sees of an item's statements; empty where it no longer exists."""
    return tuple(shape(tree) for tree in trees(item))


def _flat(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements, also those inside ``if`` and ``try``."""
    for statement in statements:
        if isinstance(statement, ast.If | ast.Try):
            inner = [*statement.body, *statement.orelse]
            inner += [s for handler in getattr(statement, "handlers", ()) for s in handler.body]
            yield from _flat(inner)
        else:
            yield statement


def _targets(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.For | ast.With):
        return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return set()


def _imports(body: Iterable[ast.AST], package: str) -> dict[str, Item]:
    """Local name to (module, name in it); the second is empty where the module itself is bound."""
    origins: dict[str, Item] = {}
    for statement in (n for s in body for n in ast.walk(s)):
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                target = alias.name if alias.asname else alias.name.split(".")[0]
                origins[alias.asname or target] = (target, "")
        elif isinstance(statement, ast.ImportFrom):
            base = ".".join(package.split(".")[: len(package.split(".")) - statement.level + 1])
            source = ".".join(filter(None, (base, statement.module))) if statement.level else statement.module or ""
            for alias in statement.names:
                origins[alias.asname or alias.name] = (source, alias.name)
    return {name: (_own(source), inner) for name, (source, inner) in origins.items()}


def _own(name: str) -> str:
    """Benchmarks import each other without their folder's name."""
    own = "." not in name and name not in PACKAGES and (FOLDER / f"{name}.py").is_file()
    return f"{OWN}.{name}" if own else name


def trees(item: Item) -> list[ast.AST]:
    """The statements that make up an item; a class comes without its methods. Empty where it no longer exists.

    The empty name stands for the whole module.
    """
    home = module(item[0])
    if home and not item[1]:
        return [home.tree]
    first, *rest = item[1].split(".")
    nodes: list[ast.stmt] = list(home.bound.get(first, ())) if home else []
    for name in rest:
        inside = [s for node in nodes if isinstance(node, ast.ClassDef) for s in _flat(node.body)]
        nodes = [s for s in inside if isinstance(s, _DEFINITIONS) and s.name == name]
    return [_shell(node) if isinstance(node, ast.ClassDef) else node for node in nodes]


def _shell(node: ast.ClassDef) -> ast.ClassDef:
    body = [s for s in node.body if not isinstance(s, _DEFINITIONS)] or [ast.Pass()]
    return ast.ClassDef(node.name, node.bases, node.keywords, body, node.decorator_list)


def _resolved(home: str, name: str) -> Item | None:
    """Where a name used in a module is bound, through any number of imports."""
    for _ in range(20):
        read = module(home)
        if read is None:
            return None
        if name in read.bound:
            return (home, name)
        if name not in read.imported:
            return None
        home, inner = read.imported[name]
        if not inner or module_file(f"{home}.{inner}"):
            return (f"{home}.{inner}" if inner else home, "")
        name = inner
    return None


@cache
def _named(item: Item) -> frozenset[Item]:
    """Constants and classes that an item's statements name."""
    home = module(item[0])
    if home is None:
        return frozenset()
    file = module_file(item[0])
    package = item[0] if file and file.stem == "__init__" else item[0].rpartition(".")[0]
    nodes = trees(item)
    local = _imports(nodes, package)
    named = set()
    for node in (n for tree in nodes for n in ast.walk(tree)):
        meant: Item | None = None
        if isinstance(node, ast.Name):
            meant = _from(local, item[0], node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = _from(local, item[0], node.value.id)
            meant = _resolved(owner[0], node.attr) if owner and not owner[1] else None
        if meant and meant[1] and not isinstance(module_bound(meant), ast.FunctionDef | ast.AsyncFunctionDef):
            named.add(meant)
    return frozenset(named)


def _from(local: dict[str, Item], home: str, name: str) -> Item | None:
    if name not in local:
        return _resolved(home, name)
    source, inner = local[name]
    if not inner or module_file(f"{source}.{inner}"):
        return (f"{source}.{inner}" if inner else source, "")
    return _resolved(source, inner)


def module_bound(item: Item) -> ast.stmt | None:
    """The last top-level statement that binds an item."""
    home = module(item[0])
    return home.bound[item[1]][-1] if home and item[1] in home.bound else None


def closure(executed: Iterable[Item]) -> set[Item]:
    """The executed functions, their classes, and all constants and classes that these name."""
    reached: set[Item] = set()
    waiting = list(executed)
    while waiting:
        item = waiting.pop()
        if item in reached:
            continue
        reached.add(item)
        if "." in item[1]:
            waiting.append((item[0], item[1].rpartition(".")[0]))
        waiting.extend(_named(item))
    return reached


def digests(script: str, executed: dict[str, list[str]]) -> dict[str, str]:
    """One digest for each module that a script's run depends on.

    Of ``script`` itself and of the benchmarks that it imports everything outside functions counts, since it runs at import.

    Parameters
    ----------
    script : str
        Name of the benchmark, without suffix.
    executed : dict
        Names of the functions that ran, by module.

    Returns
    -------
    dict
        By module, sixteen hexadecimal digits, or "missing" where a function that ran no longer exists.
    """
    own = f"{OWN}.{script}"
    items = {(own, ""), *((home, name) for home, names in executed.items() for name in names)}
    by_module: dict[str, list[str]] = {}
    for home, name in closure(items):
        by_module.setdefault(home, []).append(name)
    out = {}
    for home, names in sorted(by_module.items()):
        parts = [shapes((home, name)) for name in sorted(names)]
        loaded = module(home)
        if loaded is None or not all(parts):
            out[home] = "missing"
        elif home == own:
            out[home] = digest_of_shapes([shape(_undocumented(loaded.tree))])
        else:
            rest = _run_at_import(loaded) if home.startswith(f"{OWN}.") else ()
            out[home] = digest_of_shapes([*(kept for part in parts for kept in part), *map(shape, rest)])
    return out


def _run_at_import(loaded: Module) -> list[ast.stmt]:
    """The statements of a module that are neither definitions nor imports, without its docstring."""
    apart = _DEFINITIONS | ast.ImportFrom | ast.Import
    return [s for s in _undocumented(loaded.tree).body if not isinstance(s, apart)]


def _undocumented(tree: ast.Module) -> ast.Module:
    return ast.Module(tree.body[1:] if ast.get_docstring(tree) is not None else tree.body, tree.type_ignores)
