"""Whether a kept result is what its code and data of today would make, by the record that the runner keeps of every run."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import sources
from registry import Benchmark

ROOT = sources.ROOT
MADE_BY = sources.FOLDER / "results" / "made_by.json"


def recorded() -> dict[str, Any]:
    """What made the results, by benchmark."""
    return dict(json.loads(MADE_BY.read_text())) if MADE_BY.exists() else {}


def digest_of_file(file: Path) -> str:
    """Sixteen hexadecimal digits, or "missing"."""
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16] if file.is_file() else "missing"


def kept_file(name: str) -> Path:
    """A file by its recorded name: those of a package lie where the package was imported from."""
    package, _, rest = name.partition("/")
    return sources.package_folder(package) / rest if package in sources.PACKAGES else ROOT / name


def why_stale(benchmark: Benchmark, records: dict[str, Any]) -> str | None:
    """Why a result must be made again, None where it is current."""
    record = records.get(benchmark.script)
    if record is None:
        return "never run"
    if tuple(record["arguments"]) != benchmark.arguments:
        return "its arguments changed"
    for file, digest in record["outputs"].items():
        if digest_of_file(ROOT / file) != digest:
            return f"{file} is not what the run wrote"
    for file, digest in record["data"].items():
        if digest_of_file(kept_file(file)) != digest:
            return f"{file} changed"
    ran = {home: entry.partition(":")[2].split() for home, entry in record["code"].items()}
    now = sources.digests(benchmark.script, ran)
    before = {home: entry.partition(":")[0] for home, entry in record["code"].items()}
    changed = sorted(home for home in before | now if before.get(home) != now.get(home))
    return f"code changed in {', '.join(changed)}" if changed else None
