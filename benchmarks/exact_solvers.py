"""POR's Table I: time of its program (`lp`) and of its heuristic (`inductive`), compared with the sifted program (`reduced`).

POR's run-time setting (paper_settings.py). The program goes to m = 14, sifted to m = 20, the heuristic to m = 100,000, and so
does its recursion alone (`recursion`), which is what POR timed. Each size is solved in a separate process, so peak
memory is that size's; times are processor seconds of one thread. The heuristic's gap is to the KL bound. Writes
exact_solvers.csv and exact_solvers.svg.
"""

import json
import resource
import subprocess
import sys
import time

import numpy as np
from paper_settings import POR_SECONDS, POR_TIMED_EPSILONS, POR_TIMED_SIZES

SEED = 0
SIZES = {
    "lp": range(3, 15),
    "reduced": range(3, 21),
    "inductive": [*range(3, 21), 100, 500, 1000, 10_000, 100_000],
    "recursion": [3, 5, 10, 100, 500, 1000, 10_000, 100_000],
}
RUNS = 3
# the published times of the heuristic are those of its recursion
PUBLISHED = POR_SECONDS | {"recursion": POR_SECONDS["inductive"]}


def one(method: str, m: int) -> dict[str, float]:
    """Median time over the runs, worst gap, and this process's peak memory."""
    from optrr_solvers import Problem, solve
    from optrr_solvers.baselines import few_changes

    times, gaps = [], []
    for run in range(RUNS):
        rng = np.random.default_rng(SEED + 1000 * m + run)
        low, high = POR_TIMED_SIZES
        problem = Problem(rng.integers(low, high + 1, m), rng.uniform(*POR_TIMED_EPSILONS, m))
        start = time.process_time()
        if method == "recursion":
            few_changes(problem)
        else:
            gaps.append(solve(problem, method).gap)
        times.append(time.process_time() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {"seconds": float(np.median(times)), "gap": max(gaps, default=0.0), "peak_gb": peak}


def measure() -> list[dict[str, float | str]]:
    rows: list[dict[str, float | str]] = []
    for method, sizes in SIZES.items():
        for m in sizes:
            out = subprocess.run(
                [sys.executable, __file__, method, str(m)], check=True, capture_output=True, text=True
            ).stdout
            rows.append({"method": method, "m": m, **json.loads(out)})
    return rows


def write(rows: list[dict[str, float | str]]) -> None:
    # the processes that solve import no pictures, whose memory would count as theirs
    from matplotlib import pyplot as plt
    from writing import save, write_csv

    reduced = {r["m"]: float(r["seconds"]) for r in rows if r["method"] == "reduced"}
    for r in rows:
        r["published_seconds"] = PUBLISHED.get(r["method"], {}).get(r["m"], "")
        r["ratio_to_reduced"] = float(r["seconds"]) / reduced[r["m"]] if r["m"] in reduced else ""
    write_csv("exact_solvers.csv", rows)
    figure, axes = plt.subplots(figsize=(6, 4))
    for method in SIZES:
        mine = [r for r in rows if r["method"] == method]
        axes.loglog([r["m"] for r in mine], [r["seconds"] for r in mine], "o-", ms=3, label=method)
        there = POR_SECONDS.get(method, {})
        if there:
            colour = axes.lines[-1].get_color()
            axes.loglog(list(there), list(there.values()), "x--", color=colour, label=f"{method}, published")
    axes.set(
        xlabel="attributes m", ylabel="seconds (one thread)", title="POR's program, the same sifted, POR's heuristic"
    )
    axes.legend()
    save(figure, "exact_solvers.svg")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(one(sys.argv[1], int(sys.argv[2]))))
    else:
        write(measure())
