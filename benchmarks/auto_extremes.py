"""Whether `auto` answers every specification, how fast and how tightly: 200 at random, extreme mixes of ε included.

m is log-uniform in 2..1000, r uniform in 2..10. In turn: ε log-uniform in 0.005..50; a few attributes of 5 to 50 nats among
light ones; ε near one of 0.005, 0.02, 0.1, 1, 5, 20 and 50; ε uniform in a narrow or wide range. Each total is compared with
Kronecker and with a product of two block optima: the largest ε_i, up to the largest fall of the sorted ε_i, apart from the
others (each block by `auto`; the product's total is the sum), the latter up to 200 attributes. Seconds are the processor's, of
one thread. Writes auto_extremes.csv and auto_extremes.md.
"""

from __future__ import annotations

import csv
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from optrr_solvers import OptrrError, Problem, solve

RESULTS = Path(__file__).parent / "results"
COUNT, SEED, JOBS = 200, 12, 4
# Product laws are compared up to this number of attributes; with more, the two further solves would take most of the time.
BLOCKS_UP_TO = 200
KINDS = ("log-uniform", "few heavy", "seven levels", "one range")
FIELDS = (
    "kind", "m", "largest_epsilon", "method", "status", "total", "lower_bound", "gap", "kronecker", "blocks", "seconds",
    "error",
)  # fmt: skip


def specification(number: int) -> Problem:
    """The problem of this number; the same whatever else is run."""
    rng = np.random.default_rng([SEED, number])
    m = round(float(np.exp(rng.uniform(np.log(2), np.log(1000)))))
    sizes = rng.integers(2, 11, m)
    match KINDS[number % len(KINDS)]:
        case "log-uniform":
            epsilons = np.exp(rng.uniform(np.log(0.005), np.log(50), m))
        case "few heavy":
            epsilons = np.exp(rng.uniform(np.log(0.005), np.log(0.5), m))
            heavy = int(rng.integers(1, min(m, 4) + 1))
            epsilons[rng.permutation(m)[:heavy]] = rng.uniform(5, 50, heavy)
        case "seven levels":
            epsilons = rng.choice([0.005, 0.02, 0.1, 1, 5, 20, 50], m) * rng.uniform(0.8, 1, m)
        case _:
            low = float(np.exp(rng.uniform(np.log(0.005), np.log(10))))
            epsilons = rng.uniform(low, min(50, low * float(np.exp(rng.uniform(0, 3)))), m)
    return Problem(sizes, epsilons)


def product_of_two(problem: Problem) -> float:
    """Total ε of the product of two block optima."""
    order = np.argsort(-problem.epsilons)
    cut = 1 + int(np.argmax(-np.diff(np.log(problem.epsilons[order]))))
    blocks = [Problem(problem.sizes[part], problem.epsilons[part]) for part in (order[:cut], order[cut:])]
    return sum(solve(block).upper for block in blocks)


def one(number: int) -> dict[str, object]:
    """What `auto` does with a specification."""
    problem = specification(number)
    row: dict[str, object] = dict.fromkeys(FIELDS, "")
    row |= {"kind": KINDS[number % len(KINDS)], "m": problem.m, "largest_epsilon": float(problem.epsilons.max())}
    started = time.process_time()
    try:
        solution = solve(problem)
    except OptrrError as error:
        return row | {"seconds": time.process_time() - started, "error": str(error)}
    row |= {"seconds": time.process_time() - started, "method": solution.method, "status": str(solution.status)}
    row |= {"total": solution.upper, "lower_bound": solution.lower, "gap": solution.gap}
    row["kronecker"] = problem.kronecker_epsilon
    return row | {"blocks": product_of_two(problem)} if problem.m <= BLOCKS_UP_TO else row


def summary(rows: list[dict[str, object]]) -> str:
    """The figures that count, as a page."""
    done = [r for r in rows if not r["error"]]

    def column(name: str) -> np.ndarray:
        return np.array([float(str(r[name])) if r[name] != "" else np.nan for r in done])

    total, seconds, gap = column("total"), column("seconds"), column("gap")
    # the two totals may be equal up to rounding
    slack = 1e-9 * (1 + total)
    lines = [
        f"# `auto` on {len(rows)} random specifications, extreme mixes of ε included",
        "",
        "| what | median | worst |",
        "|---|---|---|",
        f"| processor seconds to the answer | {np.median(seconds):.2f} | {seconds.max():.1f} |",
        f"| gap in nats | {np.median(gap):.2g} | {gap.max():.2g} |",
        f"| gap relative to the total | {np.median(gap / total):.2g} | {(gap / total).max():.2g} |",
        "",
        f"Refused or failed: {len(rows) - len(done)}. Above Kronecker: {int(np.sum(total > column('kronecker') + slack))}. "
        f"Above the product of two block optima: {int(np.sum(total > column('blocks') + slack))} "
        f"(of {int(np.isfinite(column('blocks')).sum())}, those up to {BLOCKS_UP_TO} attributes). "
        f"Called optimal: {sum(r['status'] == 'optimal' for r in done)}.",
        "",
        f"Kronecker's total is {np.median(column('kronecker') / total):.2f} times as large in the median, the product's "
        f"{np.nanmedian(column('blocks') / total):.3f} times and at most {np.nanmax(column('blocks') / total):.2f} times.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """All specifications, two at a time."""
    rows: list[dict[str, object]] = []
    with ProcessPoolExecutor(JOBS) as pool:
        for number, row in enumerate(pool.map(one, range(COUNT))):
            rows.append(row)
            print(
                number, *(f"{v:.5g}" if isinstance(v, float) else v for v in row.values()), file=sys.stderr, flush=True
            )
    with (RESULTS / "auto_extremes.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=FIELDS)
        writer.writeheader()
        writer.writerows({k: f"{v:.10g}" if isinstance(v, float) else v for k, v in r.items()} for r in rows)
    (RESULTS / "auto_extremes.md").write_text(summary(rows))


def probe() -> object:
    """A hundredth of the work, to see whether the whole would come out the same."""
    numbers = [k for k in range(60) if specification(k).m <= 10][:3]
    rows = [one(number) for number in numbers]
    return [[row[name] for name in FIELDS if name not in ("seconds", "blocks")] for row in rows]


if __name__ == "__main__":
    main()
