"""Designs that keep every pair as visible as under Kronecker: random specifications, and a few named ones.

m is log-uniform in 2..300, r uniform in 2..10, each ε_i log-uniform in 0.02..6, every pair kept (κ = 1). Up to 17 attributes
``auto`` takes the exact program; beyond them the ball solver is measured, with Kronecker's product among
its candidates. ``auto`` then tries products of blocks as well, which takes 15 seconds more and is left out here. Every label is
checked: accuracies and all pair eigenvalues from the law, both bounds from law and certificate. Writes pairs_kept.csv and
pairs_kept.md.

Run with a number to stop after so many specifications.
"""

from __future__ import annotations

import csv
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations
from pathlib import Path

import numpy as np

from optrr_solvers import Problem, Solution, lower_bound, solve
from optrr_solvers.solution import require

RESULTS = Path(__file__).parent / "results"
SPECIFICATIONS, MOST, EXACT_UP_TO = 200, 300, 17
_PROCESSES = 2
ADULT = (9, 16, 7, 15, 6, 5, 2, 42, 2)
FIELDS = (
    "name",
    "m",
    "method",
    "kronecker",
    "upper",
    "lower",
    "gap_share",
    "ratio",
    "balls",
    "processor_seconds",
    "failure",
)


def named() -> list[tuple[str, Problem, str]]:
    """The cases that are quoted: Adult's nine attributes, by the ball solver and exactly, and a hundred alike in ε."""
    hundred = [2 + i % 7 for i in range(100)]
    return [
        ("adult 0.349", kept(ADULT, 0.349), "ball"),
        ("adult 0.349", kept(ADULT, 0.349), "auto"),
        ("adult 1.25", kept(ADULT, 1.25), "ball"),
        ("adult 1.25", kept(ADULT, 1.25), "auto"),
        ("hundred 0.5", kept(hundred, 0.5), "ball"),
    ]


def kept(sizes: object, epsilons: object) -> Problem:
    r = np.asarray(sizes)
    return Problem(
        r, np.broadcast_to(np.asarray(epsilons, dtype=float), r.shape), tuple(combinations(range(r.size), 2))
    )


def draw(k: int) -> tuple[str, Problem, str]:
    rng = np.random.default_rng(20_000 + k)
    m = int(np.exp(rng.uniform(np.log(2), np.log(MOST + 1))))
    problem = kept(rng.integers(2, 11, m), np.exp(rng.uniform(np.log(0.02), np.log(6), m)))
    return f"random {k}", problem, "auto" if m <= EXACT_UP_TO else "ball"


def one(name: str, problem: Problem, method: str) -> dict[str, object]:
    started = time.process_time()
    row: dict[str, object] = {"name": name, "m": problem.m, "method": method, "kronecker": problem.kronecker_epsilon}
    try:
        solution = solve(problem, method)
        check(problem, solution)
    except (ValueError, RuntimeError, AssertionError) as failed:
        return {**row, "failure": f"{type(failed).__name__}: {failed}"}
    return {
        **row,
        "upper": solution.upper, "lower": solution.lower, "gap_share": solution.gap / solution.upper,
        "ratio": solution.upper / problem.kronecker_epsilon, "balls": len(getattr(solution.law, "balls", ())),
        "processor_seconds": round(time.process_time() - started, 2), "failure": "",
    }  # fmt: skip


def check(problem: Problem, solution: Solution) -> None:
    """Accuracies, pairs and both bounds once more, from law and certificate alone."""
    require(problem, solution.method, solution.law)
    bound = lower_bound(problem, solution.certificate)
    assert solution.lower <= bound * (1 + 1e-9) and solution.lower <= solution.upper, "the lower bound does not hold"
    assert solution.upper <= problem.kronecker_epsilon * (1 + 1e-12), "above Kronecker"


def measure(count: int) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    with ProcessPoolExecutor(_PROCESSES) as pool:
        for row in pool.map(one, *zip(*[*named(), *map(draw, range(count))], strict=True)):
            rows.append(row)
            print(row, flush=True)
            write(rows)
    return rows


def write(rows: list[dict[str, object]]) -> None:
    with (RESULTS / "pairs_kept.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def page(rows: list[dict[str, object]]) -> str:
    drawn = [r for r in rows if str(r["name"]).startswith("random")]
    good = [r for r in drawn if not r["failure"]]
    lines = [
        "# Every pair kept", "",
        f"{len(drawn)} random specifications: {len(drawn) - len(good)} failures; largest ratio to Kronecker "
        f"{max(float(str(r['ratio'])) for r in good):.4f}.", "",
        "| attributes | specifications | gap, median | gap, worst | processor seconds, median | worst |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for low, high in ((2, 20), (21, 50), (51, 100), (101, 200), (201, 300), (2, 200), (2, 300)):
        some = [r for r in good if low <= int(str(r["m"])) <= high]
        if some:
            gap, cost = (np.array([float(str(r[x])) for r in some]) for x in ("gap_share", "processor_seconds"))
            lines.append(
                f"| {low}–{high} | {len(some)} | {np.median(gap):.3%} | {gap.max():.3%} | {np.median(cost):.1f} | "
                f"{cost.max():.1f} |"
            )
    lines += ["", "The gap is (upper − lower)/upper, both bounds certified.", ""]
    lines += ["| case | method | Kronecker | total | lower bound |", "|---|---|---|---|---|"]
    for r in rows:
        if not str(r["name"]).startswith("random") and not r["failure"]:
            lines.append(
                f"| {r['name']} | {r['method']} | {float(str(r['kronecker'])):.4f} | {float(str(r['upper'])):.4f} | "
                f"{float(str(r['lower'])):.4f} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    rows = measure(int(sys.argv[1]) if len(sys.argv) > 1 else SPECIFICATIONS)
    (RESULTS / "pairs_kept.md").write_text(page(rows))


def probe() -> object:
    """A hundredth of the work, to see whether the whole would come out the same."""
    few = [one("few", kept(sizes, 0.7), method) for sizes in ([2, 3, 4], [2, 5, 3]) for method in ("auto", "ball")]
    return [[value for name, value in row.items() if name != "processor_seconds"] for row in few]


if __name__ == "__main__":
    main()
