"""Which code a result depends on: the functions that ran, and the constants and classes that they name.

Functions are known from a trace of the run. What they refer to is read from their syntax trees: a constant or a class of a
module, followed through imports. A function that was named but did not run does not count, so a result stays current while
code that it never reached is being changed. Each is known by two digests of what it does (`proofs/items.py`), and neither its
place nor its name counts.
"""

from __future__ import annotations

import hashlib
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent
sys.path.append(str(ROOT / "proofs"))

from items import PROBE, Item, Project, package_folder  # noqa: E402 (the proofs' folder is not a package)

__all__ = ["OWN", "PACKAGES", "PROBE"]

PACKAGES = ("optrr", "optrr_solvers")
OWN = "benchmarks"
Digests = dict[str, dict[str, str]]
"""By module, and by name in it, the plain and the linked digest of an item in one text of sixteen digits."""


@cache
def project() -> Project:
    """The two packages and this folder."""
    return Project({**{name: package_folder(name) for name in PACKAGES}, OWN: FOLDER}, [OWN])


def folder(package: str) -> Path:
    """Where a package's files lie."""
    return project().folders[package]


def files() -> dict[str, bytes]:
    """A digest of every source file of the project as it stands, by module."""
    contents = {}
    for name in Project(project().folders, [OWN]).modules:
        file = project().file(name)
        if file is not None:
            contents[name] = hashlib.sha256(file.read_bytes()).digest()
    return contents


def forget() -> None:
    """Read every module anew, where files may have changed."""
    project.cache_clear()
    _by_plain.cache_clear()


def executed_items(script: str, executed: Mapping[str, Iterable[str]]) -> set[Item]:
    """What a run depends on: its script, the functions that it ran by module, and what these name."""
    own = (f"{OWN}.{script}", "")
    traced = {(home, name) for home, names in executed.items() for name in names if home != own[0]}
    return project().closure({own, *traced})


def digests(items: Iterable[Item], tree: Project | None = None) -> Digests:
    """The digests of items that depend on each other, in the benchmarks' project unless another is given."""
    tree = tree or project()
    chosen = sorted(items)
    ran = {tree.plain(item) for item in chosen}
    out: Digests = {}
    for item in chosen:
        out.setdefault(item[0], {})[item[1]] = tree.plain(item) + tree.linked(item, ran)
    return out


@cache
def _by_plain(tree: Project) -> dict[str, list[Item]]:
    out = defaultdict[str, list[Item]](list)
    for item in tree.items:
        out[tree.plain(item)].append(item)
    return out


def surviving(recorded: Digests, tree: Project | None = None) -> tuple[set[Item], list[Item]]:
    """Of a record's digests, the items of today's tree that have them, and what has them no more by its recorded place."""
    tree = tree or project()
    ran = {both[:8] for names in recorded.values() for both in names.values()}
    today = defaultdict[str, list[Item]](list)
    for plain in ran:
        for item in _by_plain(tree).get(plain, ()):
            today[plain + tree.linked(item, ran)].append(item)
    kept, gone = set[Item](), list[Item]()
    for home, names in recorded.items():
        for name, both in names.items():
            kept.update(today.get(both, ()))
            gone += [] if both in today else [(home, name)]
    return kept, gone
