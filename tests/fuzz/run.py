"""Fuzzes every target, guided by coverage: ``python -m tests.fuzz.run [TARGET…] [--inputs 200000] [--keep]``.

Inputs are chosen by libFuzzer through atheris, from the kept corpus, by its own changes and those of :mod:`tests.fuzz.changes`;
the Python code of both packages is instrumented. Without atheris inputs are changed at random. Prints one line a target, then
every finding once; exit 1 where there is one. With --keep small inputs that reached new code, and those that something went
wrong with, join the corpus.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.fuzz.changes import changed
from tests.fuzz.engine import Finding, Worker, fed, in_a_worker
from tests.fuzz.kept import keep, kept

if TYPE_CHECKING:
    from tests.fuzz.targets import Target

# Inputs of a target that join the corpus in one run, and their length in bytes.
_KEPT, _SHORT = 24, 1024
GUIDED = importlib.util.find_spec("atheris") is not None
# Signals that end a worker are its parent's to tell, and limits are the engine's.
_OPTIONS = [
    *(f"-handle_{name}=0" for name in ("segv", "bus", "abrt", "ill", "fpe", "int", "term", "xfsz", "usr1", "usr2")),
    "-timeout=100000",
    "-rss_limit_mb=0",
    "-verbosity=0",
    "-len_control=0",
]


@contextmanager
def _instrumented() -> Iterator[None]:
    if not GUIDED:
        yield
        return
    import atheris  # noqa: PLC0415 (only where it is installed)

    with atheris.instrument_imports(include=["optrr", "optrr_solvers"]):
        yield


def fuzzed(target: Target, inputs: int, seed: int, corpus: Path) -> tuple[int, list[Finding]]:
    """Feed so many inputs to a target; what reached new code is in ``corpus`` afterwards."""
    start = target.corpus()
    if not GUIDED:
        rng = random.Random(seed)
        return fed(target.feed, [*start, *(changed(rng.choice(start), rng, target.longest) for _ in range(inputs))])
    for k, data in enumerate(start):
        (corpus / f"start-{k}").write_bytes(data)
    count, findings = 0, []
    while count < inputs:
        begun, noted = in_a_worker(
            target.feed, lambda worker, done=count: _guided(worker, target, inputs - done, seed + done, corpus)
        )  # type: ignore[misc]
        count += max(begun, 1)
        findings += noted
    return count, findings


def _guided(worker: Worker, target: Target, inputs: int, seed: int, corpus: Path) -> None:
    import atheris  # noqa: PLC0415 (only where it is installed)

    def mutator(data: bytes, longest: int, number: int) -> bytes:
        rng = random.Random(number)
        return changed(data, rng, longest) if rng.random() < 0.5 else bytes(atheris.Mutate(data, longest))

    def one(data: bytes) -> None:
        worker.one(data)
        if worker.count >= inputs:
            # libFuzzer would run the libraries' exit handlers while it holds the interpreter's lock, for which Arrow's threads
            # may be waiting
            os._exit(0)

    options = [f"-runs={inputs}", f"-seed={seed % (1 << 31) + 1}", f"-max_len={target.longest}", *_OPTIONS, str(corpus)]
    atheris.Setup([target.name, *options], one, custom_mutator=mutator)
    atheris.Fuzz()


def distinct(findings: list[Finding]) -> list[Finding]:
    """One of each kind, the shortest."""
    by_kind: dict[str, Finding] = {}
    for each in sorted(findings, key=lambda f: len(f.data)):
        by_kind.setdefault(each.what, each)
    return list(by_kind.values())


def _keep(target: Target, corpus: Path, findings: list[Finding]) -> None:
    known = set(target.corpus())
    reached = [p.read_bytes() for p in sorted(corpus.iterdir(), key=lambda p: p.stat().st_size)]
    new = [data for data in reached if len(data) <= _SHORT and data not in known][:: max(1, len(reached) // _KEPT)]
    keep(target.name, [*kept(target.name), *(f.data for f in findings if len(f.data) <= target.longest), *new[:_KEPT]])


def main() -> int:
    """Fuzz, and tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="TARGET")
    parser.add_argument("--inputs", type=int, default=200_000, help="over all targets")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    with _instrumented():
        from tests.fuzz.targets import TARGETS  # noqa: PLC0415 (instrumented while it is imported)

        chosen = [t for t in TARGETS if not options.names or t.name in options.names]
        whole, all_findings, total = sum(t.share for t in chosen), [], 0
        for target in chosen:
            with tempfile.TemporaryDirectory() as name:
                started = time.perf_counter()
                inputs = math.ceil(options.inputs * target.share / whole)
                count, findings = fuzzed(target, inputs, options.seed, Path(name))
                seconds = time.perf_counter() - started
                findings = distinct(findings)
                reached = len(list(Path(name).iterdir()))
                print(
                    f"{target.name}: {count} inputs in {seconds:.0f} s, {reached} reached new code, {len(findings)} findings",
                    flush=True,
                )
                if options.keep:
                    _keep(target, Path(name), findings)
            total += count
            for each in findings:
                print(f"  {each.what}: {each.data[:300]!r}\n{each.report[-3000:]}", flush=True)
            all_findings += findings
    print(f"{total} inputs, {len(all_findings)} findings, {'guided by coverage' if GUIDED else 'changed at random'}")
    return 1 if all_findings else 0


if __name__ == "__main__":
    sys.exit(main())
