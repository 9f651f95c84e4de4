"""How many cells a second are randomized: the automaton, what it replaced, plain numpy, and multi-freq-ldpy.

Three arrays of codes: 10^6 records of Adult's nine attributes, 10^5 of a hundred (sizes 2..5, ε_i 1..3, a ball on a
fine grid), 10^4 of a thousand alike (size 3, ε_i 0.1, counts). All methods randomize the same array, in turns, and the
best of the rounds counts, so that a busy machine slows all of them alike. Times are of the processor on one thread;
for one core against two, of the wall clock, which only a quiet machine with two cores shows; both are run more often in
each round, because two cores are rarely left alone at the same time. Two processes at once are
each as fast as one alone; two threads take turns between numpy's operations, three a layer and six in balls, and one whose
turn it is not sleeps for longer than the other needs. So a second core gains less where blocks are short: ten thousand records
are shared by two threads that walk one after the other, each while the other draws random bits and moves values.

``older``: the version before the automaton, read from git, whose ``flip`` is run in a process of its own on the same arrays.
``plain`` is k-ary response at each attribute's ε_i, column by column: one double and one replacement a cell, from numpy's
generator, as a page of code would have it. It is no match in privacy, because its total is Kronecker's, nor in the quality of
its random numbers. ``direct``: the sampler that a law has for where its automaton would be too large (tables have none).
multi-freq-ldpy runs one value a call, so it is given fewer records.

Run as ``python benchmarks/sampler_speed.py [COMMIT]``; writes sampler_speed.csv and sampler_speed.md.
"""

from __future__ import annotations

import csv
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
ROUNDS = 12
# Runs by the wall clock in each round.
CLOCKED = 5
# The last commit before the automaton.
BEFORE = "39342c6"
# Asks this file to time a task with the version on the path.
TIMED = "--timed"
# One thread and two, by the wall clock.
ONE, TWO = "automaton by the clock", "automaton by the clock, two cores"


@dataclass(frozen=True)
class Case:
    """An array's name, its records, sizes and ε_i, and the method that designs for it."""

    name: str
    records: int
    sizes: np.ndarray
    epsilons: np.ndarray
    method: str

    def law(self) -> Any:
        """The designed law, by the version that is on the path."""
        from optrr_solvers import Problem, solve

        return solve(Problem(self.sizes, self.epsilons), self.method).law

    def codes(self) -> np.ndarray:
        """Uniform codes, the same for every method, shape (records, m)."""
        rng = np.random.default_rng(2)
        return np.stack([rng.integers(0, r, self.records) for r in self.sizes], axis=1).astype(np.int8)


def cases() -> list[Case]:
    """The three arrays."""
    adult = np.array([9, 16, 7, 15, 6, 5, 2, 42, 2])
    rng = np.random.default_rng(1)
    sizes, epsilons = rng.integers(2, 6, 100), rng.uniform(1, 3, 100)
    return [
        Case("Adult, 9 attributes", 10**6, adult, np.full(9, 1.0), "auto"),
        Case("100 different attributes", 10**5, sizes, epsilons, "ball"),
        Case("1000 alike attributes", 10**4, np.full(1000, 3), np.full(1000, 0.1), "auto"),
    ]


def plain(codes: np.ndarray, case: Case, generator: np.random.Generator) -> None:
    """k-ary response with numpy, column by column."""
    for i, (r, e) in enumerate(zip(case.sizes.tolist(), case.epsilons.tolist(), strict=True)):
        flipped = generator.random(codes.shape[0]) < (r - 1) / (r - 1 + np.exp(e))
        moved = codes[:, i] + generator.integers(1, r, codes.shape[0])
        codes[:, i] = np.where(flipped, moved % r, codes[:, i])


def direct(codes: np.ndarray, law: Any) -> None:
    """The law's own sampler and a replacement for every change, as where there is no automaton."""
    from optrr_solvers.randomness import SystemSource, bounded

    source = SystemSource()
    step = max(64, (1 << 22) // law.m)
    for start in range(0, codes.shape[0], step):
        piece = codes[start : start + step]
        changes = law.sample_directly(piece.shape[0], source)
        for r in np.unique(law.sizes):
            members = np.flatnonzero(law.sizes == r)
            rows, columns = np.nonzero(changes[:, members])
            at = (rows, members[columns])
            piece[at] = (piece[at].astype(np.int64) + 1 + bounded(source, rows.size, int(r) - 1)) % r


def flipped(codes: np.ndarray, law: Any) -> None:
    """The function with which the version on the path randomizes."""
    from optrr.mechanisms.mechanism import flip
    from optrr_solvers.randomness import SystemSource

    flip(codes, law, SystemSource())


def seconds(run: Callable[[], None], clock: Callable[[], float]) -> float:
    """Of one run."""
    started = clock()
    run()
    return clock() - started


def measure(case: Case, older: Path) -> dict[str, object]:
    """Millions of cells a second by method, and what the automaton gains."""
    law, codes = case.law(), case.codes()
    cells, generator = codes.size / 1e6, np.random.default_rng(3)
    runs: dict[str, tuple[Callable[[], None], Callable[[], float]]] = {
        "automaton": (lambda: flipped(codes, law), time.process_time),
        "plain": (lambda: plain(codes, case, generator), time.process_time),
        ONE: (lambda: flipped(codes, law), time.perf_counter),
        TWO: (lambda: flipped(codes, law), time.perf_counter),
    }
    if type(law).__name__ != "TableLaw":
        runs["direct"] = (lambda: direct(codes, law), time.process_time)
    first = seconds(lambda: flipped(codes[:10], law), time.perf_counter)
    best = dict.fromkeys([*runs, "older"], np.inf)
    for _ in range(ROUNDS):
        for name, (run, clock) in runs.items():
            os.environ["OPTRR_THREADS"] = "2" if name == TWO else "1"
            for _ in range(CLOCKED if name in (ONE, TWO) else 1):
                best[name] = min(best[name], seconds(run, clock))
        best["older"] = min(best["older"], of_older(case, older))
    row: dict[str, object] = {"array": case.name, "records": case.records, "states": law.automaton.states}
    row |= {"seconds to build": round(first, 2)} | {name: round(cells / value, 1) for name, value in best.items()}
    row |= {"multi-freq-ldpy": published(case)}
    gains = {"automaton / older": best["older"] / best["automaton"], "two cores / one": best[ONE] / best[TWO]}
    return row | {name: round(gain, 2) for name, gain in gains.items()}


def of_older(case: Case, folder: Path) -> float:
    """Seconds of an earlier version for the same array, in a process of its own."""
    with tempfile.TemporaryDirectory() as place:
        task = Path(place) / "case.pickle"
        task.write_bytes(pickle.dumps((case.name, case.records, case.sizes, case.epsilons, case.method)))
        path = f"{folder}{os.pathsep}{folder / 'solvers'}"
        environment = {**os.environ, "PYTHONPATH": path}
        command = [sys.executable, __file__, TIMED, str(task)]
        return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def timed(task: Path) -> None:
    """Print the seconds of one run of the version on the path."""
    case = Case(*pickle.loads(task.read_bytes()))
    law, codes = case.law(), case.codes()
    flipped(codes[:10], law)
    print(seconds(lambda: flipped(codes, law), time.process_time))


def published(case: Case) -> float | str:
    """multi-freq-ldpy's generalized randomized response, one value at a time."""
    try:
        from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Client
    except ImportError:
        return "not installed"
    few = case.codes()[: max(1, 20_000 // case.sizes.size)]

    def run() -> None:
        for row in few:
            for value, r, e in zip(row.tolist(), case.sizes.tolist(), case.epsilons.tolist(), strict=True):
                GRR_Client(value, r, e)

    run()
    return round(few.size / 1e6 / seconds(run, time.process_time), 2)


def main(commit: str) -> None:
    """Measure all arrays and write the tables."""
    with tempfile.TemporaryDirectory() as place:
        archive = subprocess.run(["git", "archive", commit], check=True, capture_output=True)
        subprocess.run(["tar", "x", "-C", place], input=archive.stdout, check=True)
        rows = []
        for case in cases():
            rows.append(measure(case, Path(place)))
            print(rows[-1], flush=True)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with (RESULTS / "sampler_speed.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)
    lines = [
        "# Cells randomized a second", "",
        f"Millions; on one core, best of {ROUNDS} in turns, by the clock of {ROUNDS * CLOCKED}. ``older`` is commit {commit}, "
        "``direct`` the sampler for laws whose automaton would be too large, ``plain`` numpy's k-ary response, whose total "
        "is Kronecker's.", "",
        "| | " + " | ".join(str(row["array"]) for row in rows) + " |",
        "|---" * (len(rows) + 1) + "|",
        *("| " + " | ".join([name, *(str(row.get(name, "")) for row in rows)]) + " |" for name in columns[1:]),
    ]  # fmt: skip
    (RESULTS / "sampler_speed.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == [TIMED]:
        timed(Path(sys.argv[2]))
    else:
        main(sys.argv[1] if len(sys.argv) > 1 else BEFORE)
