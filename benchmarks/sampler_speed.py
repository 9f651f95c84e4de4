"""Cells randomized per second: the automaton, plain numpy, and multi-freq-ldpy.

Three arrays of codes: 10^6 records of Adult's nine attributes, 10^5 of a hundred (sizes 2..5, ε_i 1..3, a ball on a
fine grid), 10^4 of a thousand alike (size 3, ε_i 0.1, counts). All methods randomize the same array, in turns, and the
best of the rounds counts, so that a busy machine slows all of them alike. Times are of the processor.

``plain`` is k-ary response at each attribute's ε_i, column by column: one double and one replacement a cell, from numpy's
generator, as a page of code would have it. It is not equivalent in privacy, because its total is Σ ε_i, nor in the
quality of its random numbers. ``direct``: the sampler that a law has for where its automaton would be too large (tables
have none). multi-freq-ldpy runs one value a call, so it is given fewer records. Writes sampler_speed.csv and
sampler_speed.md.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from writing import markdown, write_csv, write_text

ROUNDS = 12


@dataclass(frozen=True)
class Case:
    """An array's name, its records, sizes and ε_i, and the method that designs for it."""

    name: str
    records: int
    sizes: np.ndarray
    epsilons: np.ndarray
    method: str

    def law(self) -> Any:
        """The designed law."""
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
    """The function with which `Mechanism` randomizes."""
    from optrr.core.mechanisms.mechanism import flip
    from optrr_solvers.randomness import SystemSource

    flip(codes, law, SystemSource())


def seconds(run: Callable[[], None]) -> float:
    """Of the processor, for one run."""
    started = time.process_time()
    run()
    return time.process_time() - started


def measure(case: Case) -> dict[str, object]:
    """Millions of cells a second by method."""
    law, codes = case.law(), case.codes()
    cells, generator = codes.size / 1e6, np.random.default_rng(3)
    runs: dict[str, Callable[[], None]] = {
        "automaton": lambda: flipped(codes, law),
        "plain": lambda: plain(codes, case, generator),
    }
    if type(law).__name__ != "TableLaw":
        runs["direct"] = lambda: direct(codes, law)
    first = seconds(lambda: flipped(codes[:10], law))
    best = dict.fromkeys(runs, np.inf)
    for _ in range(ROUNDS):
        for name, run in runs.items():
            best[name] = min(best[name], seconds(run))
    row: dict[str, object] = {"array": case.name, "records": case.records, "states": law.automaton.states}
    row |= {"seconds to build": round(first, 2)} | {name: round(cells / value, 1) for name, value in best.items()}
    return row | {"multi-freq-ldpy": published(case)}


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
    return round(few.size / 1e6 / seconds(run), 2)


def main() -> None:
    rows = [measure(case) for case in cases()]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    rows = [{name: row.get(name, "") for name in columns} for row in rows]
    write_csv("sampler_speed.csv", rows)
    write_text(
        "sampler_speed.md",
        "# Cells randomized a second",
        f"Millions; on one core, best of {ROUNDS} in turns. ``direct`` is the sampler for distributions whose automaton would "
        "be too "
        "large, ``plain`` numpy's k-ary response, whose total is Kronecker's.",
        markdown([{"": name} | {str(row["array"]): row[name] for row in rows} for name in columns[1:]]),
    )


if __name__ == "__main__":
    main()
