"""Time and peak memory of the ball solver for m = 20..100,000, and how time grows: the slope of log time on log m.

POR's run-time setting (Table I): r uniform in 2..5, ε_i uniform in 1..10; beside it ε_i in 0.5..2. Every size runs in a process
of its own, one thread; seconds are processor seconds. Writes ball_scaling.csv and ball_scaling.svg.
"""

from __future__ import annotations

import csv
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results"
SIZES = (20, 50, 100, 300, 1000, 3000, 10_000, 30_000, 100_000, 1_000_000)
SETTINGS = {"r in 2..5, epsilon 1..10": (1.0, 10.0), "r in 2..5, epsilon 0.5..2": (0.5, 2.0)}
# The exponent is fitted from this size on; with fewer attributes, start-up and ties at the ball's border dominate.
FITTED_FROM = 100


def one(setting: str, m: int) -> dict[str, float]:
    from optrr_solvers import Problem
    from optrr_solvers.balls.solve import solve

    rng = np.random.default_rng(m)
    problem = Problem(rng.integers(2, 6, m), rng.uniform(*SETTINGS[setting], m))
    start = time.process_time()
    solution = solve(problem)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {
        "upper": solution.upper, "lower": solution.lower, "gap": solution.gap, "relative_gap": solution.gap / solution.upper,
        "seconds": seconds, "peak_gb": peak,
    }  # fmt: skip


def measure(largest: int) -> None:
    rows: list[dict[str, float | str]] = []
    single = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    for setting in SETTINGS:
        for m in (m for m in SIZES if m <= largest):
            command = [sys.executable, __file__, setting, str(m)]
            out = subprocess.run(command, check=True, capture_output=True, text=True, env=single).stdout
            rows.append({"setting": setting, "m": m, **json.loads(out)})
            print(rows[-1], flush=True)
            write(rows)


def exponent(rows: list[dict[str, float | str]]) -> float:
    """Slope of log seconds on log m."""
    fitted = [(float(r["m"]), float(r["seconds"])) for r in rows if float(r["m"]) >= FITTED_FROM]
    if len(fitted) < 2:
        return float("nan")
    return float(np.polyfit(*np.log(np.array(fitted)).T, 1)[0])


def write(rows: list[dict[str, float | str]]) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    of = {s: [r for r in rows if r["setting"] == s] for s in SETTINGS}
    for r in rows:
        r["exponent"] = exponent(of[str(r["setting"])])
    with (RESULTS / "ball_scaling.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    figure, axis = plt.subplots(figsize=(6, 4.2))
    for setting, mine in of.items():
        if mine:
            label = f"{setting.replace('epsilon', 'ε')}: m^{exponent(mine):.2f}"
            axis.loglog([r["m"] for r in mine], [r["seconds"] for r in mine], marker="o", markersize=3, label=label)
    axis.set(xlabel="attributes m", ylabel="processor seconds, one thread")
    axis.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(RESULTS / "ball_scaling.svg")
    plt.close(figure)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(one(sys.argv[1], int(sys.argv[2]))))
    else:
        measure(int(sys.argv[1]) if len(sys.argv) > 1 else SIZES[-1])
