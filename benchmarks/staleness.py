"""Whether a kept result is what its code and data of today would make, by the record that the runner keeps of every run."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import sources
from registry import Benchmark
from sources import Digests

ROOT = sources.ROOT
MADE_BY = sources.FOLDER / "results" / "made_by.json"
SCRIPT = "*"
"""Stands in a record for a script as a whole."""
# Tables of which module a public name comes from: what comes from there has digests of its own.
_WHERE_NAMES_LIVE = {"_HOMES", "_named", "_names"}


def recorded() -> dict[str, Any]:
    """What made the results, by benchmark."""
    return dict(json.loads(MADE_BY.read_text())) if MADE_BY.exists() else {}


def packed(digests: Digests) -> dict[str, str]:
    """Digests as a record holds them: a line for each module."""
    return {
        home: " ".join(f"{name or SCRIPT}:{both}" for name, both in sorted(names.items()))
        for home, names in sorted(digests.items())
    }


def unpacked(lines: dict[str, str]) -> Digests:
    """Digests from a record."""
    return {
        home: {name.removeprefix(SCRIPT): both for name, both in (entry.split(":") for entry in line.split())}
        for home, line in lines.items()
    }


def digest_of_file(file: Path) -> str:
    """Sixteen hexadecimal digits, or "missing"."""
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16] if file.is_file() else "missing"


def kept_file(name: str) -> Path:
    """A file by its recorded name: those of a package lie where the package was imported from."""
    package, _, rest = name.partition("/")
    return sources.folder(package) / rest if package in sources.PACKAGES else ROOT / name


@cache
def _data_files() -> frozenset[str]:
    """Digests of all that lies in the packages and in this folder and is no code."""
    others = (file for package in (*sources.PACKAGES, sources.OWN) for file in sources.folder(package).rglob("*"))
    return frozenset(digest_of_file(f) for f in others if f.is_file() and f.suffix not in (".py", ".pyc"))


def changed_data(record: dict[str, Any]) -> str | None:
    """Why a result is stale for another reason than its code, None where there is none."""
    for file, digest in record["outputs"].items():
        if digest_of_file(ROOT / file) != digest:
            return f"{file} is not what the run wrote"
    for file, digest in record["data"].items():
        # a data file may have moved, as code may
        if digest_of_file(kept_file(file)) != digest and digest not in _data_files():
            return f"{file} changed"
    return None


def changed_code(record: dict[str, Any]) -> list[str]:
    """What ran and is nowhere in today's tree, by the places where it stood."""
    gone = sources.surviving(unpacked(record["code"]))[1]
    return [f"{home}.{name}".rstrip(".") for home, name in gone if name not in _WHERE_NAMES_LIVE]


def why_stale(benchmark: Benchmark, records: dict[str, Any]) -> str | None:
    """Why a result must be made again, None where it is current."""
    record = records.get(benchmark.script)
    if record is None:
        return "never run"
    if tuple(record["arguments"]) != benchmark.arguments:
        return "its arguments changed"
    gone = changed_code(record)
    shown = ", ".join(gone[:5]) + (f" and {len(gone) - 5} more" if len(gone) > 5 else "")
    return changed_data(record) or (f"code changed: {shown}" if gone else None)
