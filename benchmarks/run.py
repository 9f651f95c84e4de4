"""Runs the benchmarks and records what made each result.

Run as ``python benchmarks/run.py [PART | SCRIPT...] [--stale] [--jobs N] [--check]``:

    cheap, long, all   which benchmarks, or their names; all unless told
    --stale            only those whose result is missing, edited or older than the code and data that made it
    --jobs N           so many at a time
    --check            run in a scratch folder and compare with what is kept, which is not touched
    --restamp          where only code changed and a benchmark's probe says what it said before, call its result current
    --list             say what each is, how many seconds of processor time it took, and whether it is current; run nothing

Each runs in a scratch copy of this folder and its results are moved here when it has succeeded, so an interrupted run can be
taken up again with ``--stale``. ``results/made_by.json`` holds for every benchmark the functions that ran, and digests of
them, of the data that was read and of the files that were written, and what its probe said (`probing.py`); it is written by
this script only.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))

import probing  # noqa: E402
import sources  # noqa: E402
from comparison import difference  # noqa: E402
from registry import BENCHMARKS, BY_NAME, Benchmark  # noqa: E402
from staleness import (  # noqa: E402
    MADE_BY,
    changed_code,
    changed_data,
    digest_of_file,
    kept_file,
    packed,
    recorded,
    unpacked,
    why_stale,
)

ROOT = FOLDER.parent
# Files that several benchmarks write into or that other hands edit as well: compared, but not part of a record.
SHARED = ("README.md",)


class Failed(RuntimeError):
    """A benchmark ended with an error, or wrote what it may not write."""


def missing(benchmark: Benchmark) -> str | None:
    """The first package that a benchmark needs and that is not installed."""
    return next((name for name in benchmark.needs if importlib.util.find_spec(name) is None), None)


@dataclass(frozen=True)
class Run:
    """One finished run in its scratch folder; ``seconds`` of processor time, which other work on the machine leaves alone."""

    root: Path
    written: tuple[str, ...]
    read: tuple[str, ...]
    executed: dict[str, list[str]]
    seconds: float
    printed: str


@contextmanager
def finished(benchmark: Benchmark, probe: bool = False) -> Iterator[Run]:
    """Run a benchmark, or its probe, in a scratch copy of this folder.

    Raises
    ------
    Failed
        Where the script ends with an error.
    """
    with tempfile.TemporaryDirectory(prefix="optrr-benchmark-") as name:
        scratch = Path(name).resolve()
        shutil.copytree(FOLDER, scratch / "benchmarks", ignore=shutil.ignore_patterns("__pycache__"))
        (scratch / "docs" / "papers").mkdir(parents=True)
        for file in SHARED:
            shutil.copy(ROOT / file, scratch / file)
        trace, log, printed = scratch / "trace", scratch / "log", scratch / "printed"
        own = [f"benchmarks/{benchmark.script}.py", *benchmark.arguments]
        command = [sys.executable, *(["benchmarks/probing.py", benchmark.script] if probe else own)]
        with log.open("w") as said, printed.open("w") as out:
            process = subprocess.Popen(command, cwd=scratch, env=_environment(scratch), stdout=out, stderr=said)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise Failed(f"{benchmark.script} ended with {process.returncode}:\n" + log.read_text()[-3000:])
        yield _read(scratch, trace.read_text().splitlines(), used.ru_utime + used.ru_stime, printed.read_text())


def _environment(scratch: Path) -> dict[str, str]:
    """One thread, no window, no time of day; the project's own folders and the tracer on the path."""
    packages = [str(sources.folder(p)) for p in sources.PACKAGES]
    paths = [str(FOLDER / "tracer"), *dict.fromkeys(str(Path(p).parent) for p in packages)]
    one = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
    return (
        os.environ
        | one
        | {
            "PYTHONPATH": os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH")])]),
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "MATPLOTLIBRC": str(FOLDER / "matplotlibrc"),
            "SOURCE_DATE_EPOCH": "0",
            "TZ": "UTC",
            # a benchmark that compares with earlier code reads it from the history, which the scratch copy has not
            "GIT_DIR": str(ROOT / ".git"),
            "OPTRR_TRACE": str(scratch / "trace"),
            "OPTRR_TRACE_FOLDERS": os.pathsep.join(
                [*packages, str(scratch / "benchmarks"), str(scratch / "docs"), *(str(scratch / s) for s in SHARED)]
            ),
        }
    )


def _read(scratch: Path, lines: Sequence[str], seconds: float, printed: str) -> Run:
    executed: dict[str, set[str]] = {}
    written, read = set(), set()
    for kind, name, *rest in (line.split("\t") for line in lines):
        path = Path(name)
        own = path.is_relative_to(scratch)
        if kind == "F":
            home = sources.project().module_of(ROOT / path.relative_to(scratch) if own else path)
            function = rest[0].partition(".<locals>")[0]
            if home and not function.startswith("<") and "<" not in function:
                executed.setdefault(home, set()).add(function)
        elif own:
            (written if kind == "W" else read).add(path.relative_to(scratch).as_posix())
        elif kind == "R":
            package = next(p for p in sources.PACKAGES if path.is_relative_to(sources.folder(p)))
            read.add(f"{package}/{path.relative_to(sources.folder(package)).as_posix()}")
    kept = {f for f in written if (scratch / f).is_file()}
    known = {home: sorted(names) for home, names in sorted(executed.items())}
    return Run(scratch, tuple(sorted(kept)), tuple(sorted(read - kept - set(SHARED))), known, seconds, printed)


def _clean(run: Run) -> None:
    """Nothing of this machine may stand in a result."""
    for file in run.written:
        text = (run.root / file).read_bytes()
        for trace in (run.root, ROOT, Path.home()):
            if len(str(trace)) > 1 and str(trace).encode() in text:
                raise Failed(f"{file} names a folder of this machine; write names relative to the project instead")


def keep(benchmark: Benchmark) -> dict[str, Any]:
    """Run a benchmark, move its results here and return its record."""
    shared = {file: digest_of_file(ROOT / file) for file in SHARED}
    code_before = sources.files()
    with finished(benchmark) as run:
        _clean(run)
        for file in set(run.written) & set(SHARED):
            if digest_of_file(ROOT / file) != shared[file]:
                raise Failed(f"{file} was edited while {benchmark.script} ran, which writes into it; run it again")
        data = {
            file: digest_of_file(run.root / file if file.startswith("benchmarks/") else kept_file(file))
            for file in run.read
        }
        sources.forget()
        code = sources.digests(sources.executed_items(benchmark.script, run.executed))
        code_after = sources.files()
        edited = sorted(home for home in code if code_after.get(home) != code_before.get(home))
        if edited:
            raise Failed(f"{', '.join(edited)} was edited while {benchmark.script} ran; run it again")
        for file in run.written:
            (ROOT / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(run.root / file, ROOT / file)
        outputs = {file: digest_of_file(ROOT / file) for file in run.written if file not in SHARED}
    return {
        "arguments": list(benchmark.arguments),
        "code": packed(code),
        "data": data,
        "outputs": outputs,
        "probe": probed(benchmark)[0] if has_probe(benchmark) else None,
        "seconds": round(run.seconds, 1 if run.seconds < 10 else None),
    }


def has_probe(benchmark: Benchmark) -> bool:
    """Whether a script has a probe."""
    read = sources.project().module(f"{sources.OWN}.{benchmark.script}")
    return read is not None and sources.PROBE in read.bound


def probed(benchmark: Benchmark) -> tuple[list[Any], dict[str, list[str]]]:
    """What a benchmark's probe says, and the functions that it ran."""
    with finished(benchmark, probe=True) as run:
        return json.loads(run.printed), run.executed


def probed_in(tree: Path, benchmark: Benchmark, record: dict[str, Any]) -> list[Any]:
    """What the probe says in another checkout, on this machine; nothing where it has another record, or a stale one."""
    kept = json.loads((tree / "benchmarks" / "results" / MADE_BY.name).read_text()).get(benchmark.script)
    listed = [sys.executable, str(tree / "benchmarks" / "run.py"), "--list", benchmark.script]
    paths = os.pathsep.join(map(str, (tree, tree / "solvers")))
    there = os.environ | {"PYTHONPATH": paths, "OPTRR_TRACE": ""}
    said = subprocess.run(listed, cwd=tree, env=there, capture_output=True, text=True, check=True).stdout
    if kept != record or not said.rstrip().endswith("current"):
        return []
    probe = [sys.executable, "benchmarks/probing.py", benchmark.script]
    out = subprocess.run(probe, cwd=tree, env=_environment(tree) | there, capture_output=True, text=True, check=True)
    return list(json.loads(out.stdout))


def restamped(benchmark: Benchmark, record: dict[str, Any], beside: Path | None = None) -> dict[str, Any] | str:
    """A record of today's code where it would make the same result, else why it may not.

    What the record then names is what the probe ran and what is left of what the whole run ran. A current result whose script
    has got a probe since keeps what that says. Searches end elsewhere in the last digits on another kind of processor: then a
    checkout ``beside`` this one, in which the result is current, says what the probe says on this machine.
    """
    other = "never run" if not record else changed_data(record)
    if other or tuple(record["arguments"]) != benchmark.arguments:
        return other or "its arguments changed"
    if not changed_code(record):
        new = record.get("probe") is None and has_probe(benchmark)
        return record | {"probe": probed(benchmark)[0]} if new else "current"
    if record.get("probe") is None or not has_probe(benchmark):
        return "it has no probe: run it again"
    said, executed = probed(benchmark)
    if not probing.equal(record["probe"], said) and not (
        beside is not None and probing.equal(probed_in(beside, benchmark, record), said)
    ):
        return "its probe says something else: run it again"
    kept, _ = sources.surviving(unpacked(record["code"]))
    code = sources.digests(kept | sources.executed_items(benchmark.script, executed))
    return record | {"code": packed(code)}


def restamp_all(chosen: Sequence[Benchmark], beside: Path | None = None) -> list[str]:
    """Restamp what may be; returns what may not."""
    left = []
    for benchmark in chosen:
        record = recorded().get(benchmark.script, {})
        new = restamped(benchmark, record, beside)
        if isinstance(new, dict):
            write(benchmark.script, new)
        elif record and new != "current":
            left.append(f"{benchmark.script}: {new}")
        print(f"{benchmark.script}: {'restamped' if isinstance(new, dict) else new}", flush=True)
    return left


def differences(benchmark: Benchmark) -> list[str]:
    """Run a benchmark again and say where it differs from what is kept by more than it may."""
    with finished(benchmark) as run:
        kept = set(recorded().get(benchmark.script, {"outputs": {}})["outputs"])
        out = [f"{file} is no longer written" for file in sorted(kept - set(run.written))]
        for file in run.written:
            if not (ROOT / file).is_file():
                out.append(f"{file} is not kept; run: python benchmarks/run.py {benchmark.script}")
            elif benchmark.agrees is not None:
                differing = difference(ROOT / file, run.root / file, benchmark.agrees)
                out += [f"{file}: {differing}"] if differing else []
    return out


def write(script: str, record: dict[str, Any]) -> None:
    """Put one benchmark's record among the others; those of benchmarks that are gone are dropped."""
    records = {name: r for name, r in recorded().items() if name in BY_NAME} | {script: record}
    MADE_BY.write_text(json.dumps(records, indent=1, sort_keys=True) + "\n")


def run_all(chosen: Sequence[Benchmark], only_stale: bool, jobs: int) -> list[str]:
    """Run benchmarks, each after those that it reads from; returns what failed."""
    # the longest come first, so that none is left running alone at the end; those that never ran count as long
    records, failed = recorded(), list[str]()
    waiting = sorted(chosen, key=lambda b: -records.get(b.script, {}).get("seconds", math.inf))
    running: dict[Future[dict[str, Any]], Benchmark] = {}
    with ThreadPoolExecutor(jobs) as pool:
        while waiting or running:
            blocked = {b.script for b in (*waiting, *running.values())}
            ready = [b for b in waiting if not blocked & set(b.after)][: jobs - len(running)]
            for benchmark in ready:
                waiting.remove(benchmark)
                reason = why_stale(benchmark, recorded()) if only_stale else "asked for"
                absent = missing(benchmark)
                if absent or reason is None:
                    print(f"{benchmark.script}: {f'skipped, needs {absent}' if absent else 'current'}", flush=True)
                    continue
                print(f"{benchmark.script}: running ({reason})", flush=True)
                running[pool.submit(keep, benchmark)] = benchmark
            if not running:
                continue
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                benchmark = running.pop(done)
                try:
                    record = done.result()
                except Failed as problem:
                    failed.append(str(problem))
                    print(f"{benchmark.script}: failed", flush=True)
                else:
                    write(benchmark.script, record)
                    print(f"{benchmark.script}: {record['seconds']} s", flush=True)
    return failed


def check_all(chosen: Sequence[Benchmark], jobs: int) -> list[str]:
    """Run benchmarks again beside what is kept; returns the differences."""
    able = [b for b in chosen if not missing(b)]
    with ThreadPoolExecutor(jobs) as pool:
        reports = list(pool.map(differences, able))
    return [f"{b.script}: {line}" for b, lines in zip(able, reports, strict=True) for line in lines]


def listing(chosen: Sequence[Benchmark]) -> Iterator[str]:
    """A line for each benchmark."""
    records = recorded()
    for b in chosen:
        seconds = records.get(b.script, {}).get("seconds", "")
        yield f"{b.script:24} {'cheap' if b.cheap else 'long':5} {seconds!s:>7} s  {why_stale(b, records) or 'current'}"


def chosen_by(names: Sequence[str]) -> list[Benchmark]:
    """Benchmarks by part or by name, in the registry's order."""
    parts = {"all": {True, False}, "cheap": {True}, "long": {False}}
    unknown = set(names) - set(BY_NAME) - set(parts)
    if unknown:
        sys.exit(f"error: no benchmark {', '.join(sorted(unknown))}; known: {', '.join(BY_NAME)}")
    return [b for b in BENCHMARKS if b.script in names or any(b.cheap in parts.get(n, ()) for n in names)]


def main() -> int:
    """The command line; 1 where a benchmark failed or differs."""
    parser = argparse.ArgumentParser(description="Run the benchmarks and record what made each result.")
    parser.add_argument("names", nargs="*", default=["all"], metavar="PART|SCRIPT")
    parser.add_argument("--stale", action="store_true", help="only what is missing, edited or older than its code")
    parser.add_argument("--jobs", type=int, default=1, help="so many at a time")
    parser.add_argument("--check", action="store_true", help="compare a second run with what is kept")
    parser.add_argument(
        "--restamp", action="store_true", help="call results current whose probe says what it said before"
    )
    parser.add_argument(
        "--beside",
        type=Path,
        metavar="CHECKOUT",
        help="with --restamp: where results are current, for another processor",
    )
    parser.add_argument("--list", action="store_true", help="say what each is and whether it is current")
    given = parser.parse_args()
    chosen = chosen_by(given.names or ["all"])
    if given.list:
        print("\n".join(listing(chosen)))
        return 0
    if given.restamp:
        problems = restamp_all(chosen, given.beside)
    else:
        problems = check_all(chosen, given.jobs) if given.check else run_all(chosen, given.stale, given.jobs)
    print("\n".join(problems), file=sys.stderr, end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
