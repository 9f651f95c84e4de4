"""Fuzzes every target, guided by coverage: ``python -m tests.fuzz.run [TARGET…] [--inputs 200000] [--keep]``.

libFuzzer chooses inputs through atheris, from the kept corpus, by its own changes and those of :mod:`tests.fuzz.changes`. With
--keep small inputs that reached new code, and those that something went wrong with, join the corpus.
"""

import argparse
import math
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import atheris

from tests.fuzz.changes import changed
from tests.fuzz.engine import Finding, Worker, in_a_worker
from tests.fuzz.kept import keep, kept

if TYPE_CHECKING:
    from tests.fuzz.targets import Target

# Inputs of a target that join the corpus in one run, and their length in bytes.
_KEPT, _SHORT = 24, 1024
# Signals that end a worker are its parent's to tell, and limits are the engine's.
_OPTIONS = [
    *(f"-handle_{name}=0" for name in ("segv", "bus", "abrt", "ill", "fpe", "int", "term", "xfsz", "usr1", "usr2")),
    "-timeout=100000",
    "-rss_limit_mb=0",
    "-verbosity=0",
    "-len_control=0",
]


def fuzzed(target: "Target", inputs: int, seed: int, corpus: Path) -> tuple[int, list[Finding]]:
    """Feed so many inputs to a target; what reached new code is in ``corpus`` afterwards."""
    for k, data in enumerate(target.corpus()):
        (corpus / f"start-{k}").write_bytes(data)
    count, findings = 0, {}
    while count < inputs:
        begun, noted = in_a_worker(
            target.feed, lambda worker, done=count: _guided(worker, target, inputs - done, seed + done, corpus)
        )  # type: ignore[misc]
        count += max(begun, 1)
        findings |= {each.what: each for each in noted if each.what not in findings}
    return count, list(findings.values())


def _guided(worker: Worker, target: "Target", inputs: int, seed: int, corpus: Path) -> None:
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


def _keep(target: "Target", corpus: Path, findings: list[Finding]) -> None:
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
    with atheris.instrument_imports(include=["optrr", "optrr_solvers"]):
        from tests.fuzz.targets import TARGETS  # noqa: PLC0415 (instrumented while it is imported)

    chosen = [t for t in TARGETS if not options.names or t.name in options.names]
    whole, wrong = sum(t.share for t in chosen), 0
    for target in chosen:
        with tempfile.TemporaryDirectory() as name:
            inputs = math.ceil(options.inputs * target.share / whole)
            count, findings = fuzzed(target, inputs, options.seed, Path(name))
            print(f"{target.name}: {count} inputs, {len(findings)} findings", flush=True)
            for each in findings:
                print(f"  {each.what}: {each.data[:300]!r}\n{each.report[-3000:]}", flush=True)
            if options.keep:
                _keep(target, Path(name), findings)
            wrong += len(findings)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
