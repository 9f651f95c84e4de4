"""The house in figures, for the files as they are or for commits: ``python docs/house.py [COMMIT …]``.

A room is a module or folder directly inside a package; an arrow says that some module of one room imports some module of
another. Imports inside functions count; those for types alone and those of package ``__init__`` files make no arrows. A
circle is a module or room that can be reached from itself; between modules those for types alone count, too. Prints a table.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests"))

from test_architecture import on_a_circle  # noqa: E402 (the tests' folder is not a package)

PACKAGES = ("optrr", "solvers/optrr_solvers")
Edges = dict[str, set[str]]


@dataclass(frozen=True)
class House:
    """What is counted of one package."""

    lines: int
    modules: int
    rooms: int
    arrows: int
    circles: int
    longest: tuple[int, str]
    public: int

    @classmethod
    def of(cls, folder: Path) -> House:
        """Count a package's folder."""
        files = sorted(folder.rglob("*.py"))
        trees = {name_of(folder, f): ast.parse(f.read_text(encoding="utf-8")) for f in files}
        plain = {name_of(folder, f): trees[name_of(folder, f)] for f in files if f.name != "__init__.py"}
        between = module_edges(plain, set(trees))
        rooms: Edges = {}
        for module, targets in between.items():
            rooms.setdefault(room(module), set()).update({room(t) for t in targets} - {room(module)})
        functions = [
            (node.end_lineno - node.lineno + 1, node.name)
            for tree in trees.values()
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef) and node.end_lineno is not None
        ]
        return cls(
            sum(f.read_text(encoding="utf-8").count("\n") for f in files),
            len(files),
            len({room(m) for m in trees} - {""}),
            sum(map(len, rooms.values())),
            len(on_a_circle(module_edges(plain, set(trees), types=True))) + len(on_a_circle(rooms)),
            max(functions),
            len(exported(trees[folder.name])),
        )


def name_of(folder: Path, file: Path) -> str:
    """A module's dotted name."""
    return ".".join((folder.name, *file.relative_to(folder).with_suffix("").parts)).removesuffix(".__init__")


def room(module: str) -> str:
    """The room that a module is in; empty for the package itself."""
    return module.split(".")[1] if "." in module else ""


def module_edges(trees: dict[str, ast.Module], known: set[str], types: bool = False) -> Edges:
    """Which modules import which; with ``types`` also those that need each other's types alone."""
    out: Edges = {}
    for module, tree in trees.items():
        for name in imported(tree, types):
            target = name if name in known else name.rpartition(".")[0]
            if target in known and target != module:
                out.setdefault(module, set()).add(target)
    return out


def imported(tree: ast.Module, types: bool) -> Iterator[str]:
    """Dotted names that a module imports; without ``types``, except for types alone."""
    typed = [
        n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test) and not types
    ]
    skipped = {id(n) for block in typed for n in ast.walk(block)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def exported(tree: ast.Module) -> list[str]:
    """The names in a module's ``__all__``."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return list(ast.literal_eval(node.value))
    return []


def counted(commit: str | None) -> list[House]:
    """Both packages at a commit, or as they lie here."""
    if commit is None:
        return [House.of(ROOT / package) for package in PACKAGES]
    archive = subprocess.run(["git", "archive", commit, *PACKAGES], cwd=ROOT, check=True, capture_output=True).stdout
    with TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
        return [House.of(Path(folder) / package) for package in PACKAGES]


def table(commits: list[str | None]) -> str:
    """One column for each commit, the two packages side by side in each cell."""
    houses = [counted(c) for c in commits]
    rows = [["optrr / optrr_solvers", *(c or "here" for c in commits)]]
    for what in ("lines", "modules", "rooms", "arrows", "circles"):
        rows.append([what, *(" / ".join(f"{getattr(h, what):,}" for h in pair) for pair in houses)])
    rows.append(
        [
            "longest function, lines",
            *(" / ".join(f"{h.longest[0]} (`{h.longest[1]}`)" for h in pair) for pair in houses),
        ]
    )
    rows.append(["public names", *(" / ".join(str(h.public) for h in pair) for pair in houses)])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


if __name__ == "__main__":
    print(table([*sys.argv[1:], None]))
