"""Time of `reduced` against POR's own program (`lp`) for m = 8..14, and of `reduced` alone to m = 20 with peak memory.

POR's run-time setting: r uniform in 2..5, ε_i uniform in 1..10 (Table I). Every size is solved in a process of its own, so
that peak memory is that size's; times are processor seconds of one thread. Writes exact_solvers.csv and exact_solvers.svg.
"""

from __future__ import annotations

import csv
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import matplotlib as mpl
import numpy as np

RESULTS = Path(__file__).parent / "results"
SIZES = {"lp": range(8, 15), "reduced": range(8, 21)}
RUNS = 3


def one(method: str, m: int) -> dict[str, float]:
    """Median time over the runs, worst gap, and this process's peak memory."""
    from optrr_solvers import Problem, solve

    times, gaps = [], []
    for run in range(RUNS):
        rng = np.random.default_rng(1000 * m + run)
        problem = Problem(rng.integers(2, 6, m), rng.uniform(1, 10, m))
        start = time.process_time()
        gaps.append(solve(problem, method).gap)
        times.append(time.process_time() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {"seconds": float(np.median(times)), "gap": max(gaps), "peak_gb": peak}


def measure() -> list[dict[str, float | str]]:
    rows: list[dict[str, float | str]] = []
    for method, sizes in SIZES.items():
        for m in sizes:
            out = subprocess.run(
                [sys.executable, __file__, method, str(m)], check=True, capture_output=True, text=True
            ).stdout
            rows.append({"method": method, "m": m, **json.loads(out)})
            print(rows[-1], flush=True)
    return rows


def write(rows: list[dict[str, float | str]]) -> None:
    mpl.use("svg")
    import matplotlib.pyplot as plt

    reduced = {r["m"]: float(r["seconds"]) for r in rows if r["method"] == "reduced"}
    for r in rows:
        r["ratio_to_reduced"] = float(r["seconds"]) / reduced[r["m"]]
    with (RESULTS / "exact_solvers.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in r.items()} for r in rows)
    figure, axes = plt.subplots(figsize=(6, 4))
    for method in SIZES:
        mine = [r for r in rows if r["method"] == method]
        axes.semilogy([r["m"] for r in mine], [r["seconds"] for r in mine], "o-", label=method)
    axes.set(xlabel="attributes m", ylabel="seconds (one thread)", title="POR's program and the reduced one, sifted")
    axes.legend()
    figure.tight_layout()
    figure.savefig(RESULTS / "exact_solvers.svg", metadata={"Date": None})


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(one(sys.argv[1], int(sys.argv[2]))))
    else:
        write(measure())
