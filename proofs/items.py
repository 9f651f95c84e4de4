"""The project's items (functions, methods, classes without their methods, constants) and digests of what each does.

An item has two digests. The *plain* one is of its text with every mention of something else left blank. The *linked* one has
in each blank the plain digest of what is mentioned. Neither knows where an item stands or what it is called, so moving a module
and renaming a function change no digest, and changing a constant changes the constant's and those of whatever mentions it.

Attributes are known by name only: ``x.solve`` may mean any method ``solve`` of the project, and stands for all of them.
"""

from __future__ import annotations

import ast
import importlib.util
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from syntax import DEFINITIONS, Hole, Shape, digest, filled, flat, shape

Item = tuple[str, str]
"""A module and the name in it: a function, ``Class.method``, a constant, or a class without its methods."""
BLANK = "?;"
PROBE = "probe"
"""A script's function that does a hundredth of its work."""


@dataclass
class Module:
    """A module's top-level statements by the names that they bind, and where its imported names come from."""

    name: str
    tree: ast.Module
    bound: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imported: dict[str, Item] = field(default_factory=dict)


class Project:
    """Packages and folders of modules, read when they are first asked for.

    Parameters
    ----------
    folders : dict
        By the name that its modules begin with, the folder of each. The modules of a folder whose name is in ``scripts``
        import each other without it.
    scripts : collection of str
        Such names.
    """

    def __init__(self, folders: Mapping[str, Path], scripts: Collection[str] = ()) -> None:
        self.folders = {name: Path(folder).resolve() for name, folder in folders.items()}
        self._scripts = tuple(scripts)
        self._modules: dict[str, Module | None] = {}
        self._shapes: dict[Item, Shape] = {}
        self._local: dict[Item, dict[str, Item]] = {}
        self._resolved: dict[Item, Item | None] = {}
        self._plain: dict[Item, str] = {}
        self._mentions: dict[Item, frozenset[Item]] = {}

    # where things are

    def file(self, module: str) -> Path | None:
        """The file of a module, None for what is not of the project."""
        first, *rest = module.split(".")
        if first not in self.folders:
            return None
        path = self.folders[first].joinpath(*rest)
        return next((f for f in (path.with_suffix(".py"), path / "__init__.py") if f.is_file()), None)

    def module_of(self, file: Path) -> str | None:
        """The module that a file holds, None for other files."""
        for name, folder in self.folders.items():
            if file.is_relative_to(folder):
                return ".".join((name, *(p for p in file.relative_to(folder).with_suffix("").parts if p != "__init__")))
        return None

    def module(self, name: str) -> Module | None:
        """The parsed module, None where the project has no such module."""
        if name not in self._modules:
            file = self.file(name)
            self._modules[name] = None if file is None else self._read(name, file)
        return self._modules[name]

    def _read(self, name: str, file: Path) -> Module:
        read = Module(name, ast.parse(file.read_bytes()))
        for statement in flat(read.tree.body):
            if isinstance(statement, DEFINITIONS):
                read.bound.setdefault(statement.name, []).append(statement)
            for target in _targets(statement):
                read.bound.setdefault(target, []).append(statement)
        read.imported.update(self._imports(read.tree.body, name))
        return read

    @cached_property
    def modules(self) -> list[str]:
        """Names of all modules."""
        files = (file for folder in self.folders.values() for file in sorted(folder.rglob("*.py")))
        return [name for name in map(self.module_of, files) if name]

    @cached_property
    def items(self) -> list[Item]:
        """Every item of every module; scripts also have what runs when they are imported, which has no name."""
        out: list[Item] = []
        for name in self.modules:
            read = self.module(name)
            if read is not None:
                out += [(name, inner) for inner in self._names(read)]
                out += [(name, "")] if name.split(".")[0] in self._scripts else []
        return out

    def _names(self, read: Module) -> Iterator[str]:
        for name, statements in read.bound.items():
            yield name
            for statement in statements:
                if isinstance(statement, ast.ClassDef):
                    yield from _members(statement, f"{name}.")

    @cached_property
    def _methods(self) -> dict[str, list[Item]]:
        out = defaultdict[str, list[Item]](list)
        for item in self.items:
            if "." in item[1] and not isinstance(self.trees(item)[0], ast.ClassDef):
                out[item[1].rpartition(".")[2]].append(item)
        return out

    def trees(self, item: Item) -> list[ast.AST]:
        """The statements that make up an item; a class comes without its methods. Empty where it no longer exists.

        The empty name stands for all of a script but its docstring and its probe, which tells whether its results would change.
        """
        home = self.module(item[0])
        if home and not item[1]:
            described = ast.get_docstring(home.tree) is not None
            body = home.tree.body[1:] if described else home.tree.body
            return [s for s in body if not (isinstance(s, ast.FunctionDef) and s.name == PROBE)]
        first, *rest = item[1].split(".")
        nodes: list[ast.stmt] = list(home.bound.get(first, ())) if home else []
        for name in rest:
            inside = [s for node in nodes if isinstance(node, ast.ClassDef) for s in flat(node.body)]
            nodes = [s for s in inside if isinstance(s, DEFINITIONS) and s.name == name]
        return [_without_methods(node) if isinstance(node, ast.ClassDef) else node for node in nodes]

    # what names mean

    def _imports(self, body: Iterable[ast.AST], module: str) -> dict[str, Item]:
        """Local name to (module, name in it); the second is empty where the module itself is bound."""
        file = self.file(module)
        package = module if file and file.stem == "__init__" else module.rpartition(".")[0]
        origins: dict[str, Item] = {}
        for statement in _within(body):
            if isinstance(statement, ast.Import):
                for alias in statement.names:
                    target = alias.name if alias.asname else alias.name.split(".")[0]
                    origins[alias.asname or target] = (target, "")
            elif isinstance(statement, ast.ImportFrom):
                base = ".".join(package.split(".")[: len(package.split(".")) - statement.level + 1])
                source = ".".join(filter(None, (base, statement.module))) if statement.level else statement.module or ""
                for alias in statement.names:
                    origins[alias.asname or alias.name] = (source, alias.name)
        return {name: (self._own(source), inner) for name, (source, inner) in origins.items()}

    def _own(self, name: str) -> str:
        """A module by its whole name, where scripts import each other without their folder's."""
        if "." in name or name in self.folders:
            return name
        return next((f"{script}.{name}" for script in self._scripts if self.file(f"{script}.{name}")), name)

    def resolved(self, home: str, name: str) -> Item | None:
        """Where a name used in a module is bound, through any number of imports; None for what is not of the project."""
        if (home, name) not in self._resolved:
            self._resolved[home, name] = self._follow(home, name)
        return self._resolved[home, name]

    def _follow(self, home: str, name: str) -> Item | None:
        for _ in range(20):
            read = self.module(home)
            if read is None:
                return None
            if name in read.bound:
                return (home, name)
            if name not in read.imported:
                return None
            source, inner = read.imported[name]
            if not inner or self.file(f"{source}.{inner}"):
                return (f"{source}.{inner}" if inner else source, "")
            home, name = source, inner
        return None

    def meant(self, item: Item, hole: Hole) -> Item | None:
        """The item that a hole of another one mentions; a module has an empty name."""
        if hole.quoted:
            module, _, name = hole.owner.partition(":")
            return (module, name) if self.file(module) else None
        if not hole.owner:
            return None
        local = self._locally(item)
        if hole.owner in local:
            source, inner = local[hole.owner]
            if not inner or self.file(f"{source}.{inner}"):
                return (f"{source}.{inner}" if inner else source, "")
            return self.resolved(source, inner)
        return self.resolved(item[0], hole.owner)

    def _locally(self, item: Item) -> dict[str, Item]:
        if item not in self._local:
            self._local[item] = self._imports(self.trees(item), item[0]) if item[1] else {}
        return self._local[item]

    # digests

    def shape(self, item: Item) -> Shape:
        """An item's text, with holes for what it mentions."""
        if item not in self._shapes:
            self._shapes[item] = shape(self.trees(item), item[1].rpartition(".")[2])
        return self._shapes[item]

    def plain(self, item: Item) -> str:
        """The digest of an item's own text, blank where it mentions another item."""
        if item not in self._plain:
            fill = self._labels(item, lambda _: BLANK, self._blank)
            self._plain[item] = digest([filled(self.shape(item), fill)])
        return self._plain[item]

    def _blank(self, name: str, otherwise: str) -> str:
        # a text stays, unless it may stand for a method of that name
        return otherwise if otherwise == repr(name) and name not in self._methods else BLANK

    def linked(self, item: Item, ran: Collection[str] | None = None) -> str:
        """The digest of an item's text and of what it mentions.

        Parameters
        ----------
        item : Item
            Any.
        ran : collection of str, optional
            Plain digests of what counts; what has another one is left blank. All of the project unless given.
        """

        def label(mentioned: Item) -> str:
            plain = self.plain(mentioned) if mentioned[1] else ""
            return f"{plain};" if plain and (ran is None or plain in ran) else BLANK

        def attribute(name: str, otherwise: str) -> str:
            plain = {self.plain(method) for method in self._methods.get(name, ())}
            counted = sorted(plain if ran is None else plain.intersection(ran))
            return " ".join(counted) + ";" if counted else otherwise

        return digest([filled(self.shape(item), self._labels(item, label, attribute))])

    def _labels(
        self, item: Item, label: Callable[[Item], str], attribute: Callable[[str, str], str]
    ) -> Callable[[Hole], str]:
        def fill(hole: Hole) -> str:
            meant = self.meant(item, hole)
            if hole.quoted and not hole.owner:
                return attribute(hole.name, repr(hole.name))
            if hole.quoted:
                return label(meant) if meant else f"{hole.owner!r};"
            after = "." + attribute(hole.name, f"{hole.name};") if hole.name else ""
            if meant is None:
                foreign = hole.owner in self._locally(item) or self._imported(item[0], hole.owner)
                return f"{hole.owner};" + (f".{hole.name};" if foreign else after)
            if meant[1]:
                return label(meant) + after
            inner = self.resolved(meant[0], hole.name) if hole.name else None
            return label(inner) if inner else BLANK

        return fill

    def _imported(self, module: str, name: str) -> bool:
        read = self.module(module)
        return read is not None and name in read.imported

    def mentions(self, item: Item) -> frozenset[Item]:
        """The constants and classes that an item names; what functions do is seen when they run."""
        if item not in self._mentions:
            self._mentions[item] = frozenset(self._mentioned(item))
        return self._mentions[item]

    def _mentioned(self, item: Item) -> Iterator[Item]:
        for hole in (part for part in self.shape(item) if isinstance(part, Hole) and not part.quoted):
            meant = self.meant(item, hole)
            if meant and not meant[1]:
                meant = self.resolved(meant[0], hole.name) if hole.name else None
            if meant and meant[1] and meant != item and not self._is_function(meant):
                yield meant

    def _is_function(self, item: Item) -> bool:
        home = self.module(item[0])
        last = home.bound[item[1]][-1] if home and item[1] in home.bound else None
        return isinstance(last, ast.FunctionDef | ast.AsyncFunctionDef)

    def closure(self, executed: Iterable[Item]) -> set[Item]:
        """The executed functions, their classes, and all constants and classes that these name; what is gone is left out."""
        reached: set[Item] = set()
        waiting = list(executed)
        while waiting:
            item = waiting.pop()
            if item in reached or not self.trees(item):
                continue
            reached.add(item)
            if "." in item[1]:
                waiting.append((item[0], item[1].rpartition(".")[0]))
            waiting.extend(self.mentions(item))
        return reached


def package_folder(package: str) -> Path:
    """Where the imported copy of a package lies, which for an installed package is not this repository.

    Raises
    ------
    ModuleNotFoundError
        Where there is none.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{package} cannot be imported; install the project first: pip install .")
    return Path(next(iter(spec.submodule_search_locations))).resolve()


def _within(statements: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Statements and those inside them; imports are in no expression, and looking there would take most of the time."""
    for statement in statements:
        yield statement
        for block in ("body", "handlers", "orelse", "finalbody", "cases"):
            yield from _within(getattr(statement, block, ()))


def _targets(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.For | ast.With):
        return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return set()


def _members(node: ast.ClassDef, prefix: str) -> Iterator[str]:
    for inner in flat(node.body):
        if isinstance(inner, DEFINITIONS):
            yield f"{prefix}{inner.name}"
        if isinstance(inner, ast.ClassDef):
            yield from _members(inner, f"{prefix}{inner.name}.")


def _without_methods(node: ast.ClassDef) -> ast.ClassDef:
    body = [s for s in node.body if not isinstance(s, DEFINITIONS)]
    fields = {name: getattr(node, name) for name in node._fields if name != "body"}
    return ast.ClassDef(**fields, body=body or [ast.Pass()])
