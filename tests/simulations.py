"""Which simulations need not run again: those that passed with functions that are all here today.

A test that is marked ``simulation`` draws many data sets, to see that intervals cover or that a test keeps its level. What it
says can change only where a function that it runs changes, or the versions of what computes. So a usual run skips it where
`kept_simulations.json` holds its name beside digests of all functions that ran when it passed, of this folder too, and of the
files that they read, and today's tree has each of them, wherever it stands now and whatever it is called (`proofs/items.py`).
A full run runs all. After a change, ``python tests/simulations.py [FILE...]`` runs those that the change concerns, each file in
a process of its own, whose calls are traced as those of a benchmark are, and keeps the digests of what passed.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.metadata import version
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent
sys.path.append(str(ROOT / "benchmarks"))

import sources  # noqa: E402 (the benchmarks' folder is not a package)
from items import Item, Project  # noqa: E402
from staleness import digest_of_file  # noqa: E402

KEPT = FOLDER / "kept_simulations.json"
MARKED = "simulation and not full"
REASON = "unchanged since it passed"
# They run in every test session, whatever a test is about.
MACHINERY = ("tests.conftest", "tests.simulations")


def versions() -> str:
    """Of what draws and computes: another one may say something else with the same functions."""
    return ", ".join(
        [f"python {sys.version_info[0]}.{sys.version_info[1]}", *(f"{p} {version(p)}" for p in ("numpy", "scipy"))]
    )


def tree() -> Project:
    """The packages as they are imported, and this folder."""
    return Project({**{name: sources.folder(name) for name in sources.PACKAGES}, "tests": FOLDER}, ["tests"])


def _files(project: Project) -> list[Path]:
    return sorted(
        file
        for name in (*sources.PACKAGES, "tests")
        for file in project.folders[name].rglob("*")
        if "node_modules" not in file.parts and file.suffix != ".pyc" and file.is_file()
    )


def digest_of_tree() -> str:
    """Of every file that a simulation may depend on, and of what is kept: where it is the same, so is `unchanged`."""
    text = hashlib.sha256(versions().encode())
    for file in _files(tree()):
        text.update(str(file).encode() + hashlib.sha256(file.read_bytes()).digest())
    return text.hexdigest()


def record(
    project: Project, executed: Mapping[str, Iterable[str]], read: Iterable[Path], names: Iterable[str]
) -> dict[str, Any]:
    """What is kept of a file's simulations: their names, and digests of what they ran and read."""
    ran: set[Item] = {(home, name) for home, inner in executed.items() for name in inner if home not in MACHINERY}
    digests = sources.digests(project.closure(ran), project)
    return {
        "tests": sorted(names),
        "code": " ".join(sorted({both for inner in digests.values() for both in inner.values()})),
        "data": " ".join(sorted(map(digest_of_file, read))),
    }


def unchanged(kept: Mapping[str, Any], project: Project) -> dict[str, list[str]]:
    """By file, the simulations that passed with what today's tree still has."""
    if kept.get("versions") != versions():
        return {}
    data = {digest_of_file(file) for file in _files(project) if file.suffix != ".py"}
    out = {}
    for file, each in kept["files"].items():
        gone = sources.surviving({"": {both: both for both in each["code"].split()}}, project)[1]
        if not gone and data.issuperset(each["data"].split()):
            out[file] = each["tests"]
    return out


def kept() -> dict[str, Any]:
    """What is kept, also where that is nothing."""
    return dict(json.loads(KEPT.read_text())) if KEPT.exists() else {"versions": versions(), "files": {}}


def _pytest(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-m", MARKED, "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False)


def collected(files: Iterable[str]) -> dict[str, list[str]]:
    """The simulations of files, or of all, by file."""
    out: dict[str, list[str]] = {}
    for line in _pytest("--collect-only", *files).stdout.splitlines():
        file, separator, name = line.partition("::")
        if separator:
            out.setdefault(file, []).append(name)
    return out


def passed(file: str, names: Iterable[str]) -> dict[str, Any] | None:
    """Run a file's simulations; their record where all pass, None after saying what does not."""
    project = tree()
    folders = [str(folder) for folder in project.folders.values()]
    with tempfile.TemporaryDirectory(prefix="optrr-simulation-") as scratch:
        trace = Path(scratch) / "trace"
        done = _pytest(
            # pytest's own rewriting of tests would pass by the tracer
            *("--assert=plain", file),
            PYTHONPATH=os.pathsep.join(filter(None, [str(sources.FOLDER / "tracer"), os.environ.get("PYTHONPATH")])),
            OPTRR_TRACE=str(trace),
            OPTRR_TRACE_FOLDERS=os.pathsep.join(folders),
        )
        if done.returncode:
            print(done.stdout[-3000:] + done.stderr[-1000:])
            return None
        executed, read = traced(project, trace.read_text().splitlines())
    return record(project, executed, read, names)


def traced(project: Project, lines: Iterable[str]) -> tuple[dict[str, set[str]], set[Path]]:
    """The functions by module, and the files, that a trace names."""
    executed: dict[str, set[str]] = {}
    read: set[Path] = set()
    for kind, name, *rest in (line.split("\t") for line in lines):
        home = project.module_of(Path(name)) if kind == "F" else None
        if home:
            executed.setdefault(home, set()).add(rest[0])
        elif kind == "R" and Path(name).is_file():
            read.add(Path(name))
    return executed, read


def main(files: list[str]) -> int:
    """Renew what is kept of the files, or of all, where something changed."""
    before = kept()
    current = unchanged(before, tree())
    now = before["files"] if before["versions"] == versions() else {}
    failed = 0
    simulations = collected(files)
    wanted = {file: names for file, names in simulations.items() if not set(names) <= set(current.get(file, ()))}
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # what they start are processes
        running = {pool.submit(passed, file, names): file for file, names in wanted.items()}
        for ended in as_completed(running):
            file, new = running[ended], ended.result()
            print(f"{file}: {len(wanted[file])} {'failed' if new is None else 'passed'}", flush=True)
            failed += new is None
            now = {**now, file: new} if new else {k: v for k, v in now.items() if k != file}
            KEPT.write_text(_written(now))
    if not files:
        KEPT.write_text(_written({file: each for file, each in now.items() if file in simulations}))
    return int(failed > 0)


def _written(files: dict[str, Any]) -> str:
    return json.dumps({"versions": versions(), "files": dict(sorted(files.items()))}, indent=1) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
