"""Total ε of the optimum, independent randomized response and POR's heuristic, with lower bounds (POR's Figs. 1–4).

POR's random settings: ε_i uniform in 1..8 with r = 5 (Figs. 1, 2), r uniform in 2..10 with ε = 3 (Figs. 3, 4); and small ε_i,
0.05..1 with r uniform in 2..8, which POR leaves out, for m = 3..100,000. The heuristic changes the requested ε_i: its
total is next to the proportion of attributes changed, and independent randomized response at its achieved ε_i. `ball`
solves from 9 attributes on, the exact reduced program below. Writes ball_totals.csv and ball_totals.svg.
"""

import numpy as np
from matplotlib import pyplot as plt
from writing import save, write_csv

from optrr_solvers import Problem, kl_bound, solve
from optrr_solvers.balls.solve import BallOptions
from optrr_solvers.balls.solve import solve as solve_ball

SEED = 0
SIZES = (3, 5, 10, 20, 50, 100, 300, 1000, 10_000, 100_000)
SETTINGS = ("epsilon 1..8, r = 5", "epsilon 3, r in 2..10", "epsilon 0.05..1, r in 2..8")
# From here on one run, below it the mean of three.
ONE_RUN_FROM = 300


def draw(setting: str, m: int, run: int) -> Problem:
    rng = np.random.default_rng(SEED + 10_000 * SETTINGS.index(setting) + 10 * m + run)
    if setting == SETTINGS[0]:
        return Problem(np.full(m, 5), rng.uniform(1, 8, m))
    if setting == SETTINGS[1]:
        return Problem(rng.integers(2, 11, m), np.full(m, 3.0))
    return Problem(rng.integers(2, 9, m), rng.uniform(0.05, 1, m))


def one(problem: Problem) -> dict[str, float]:
    best = solve(problem, "reduced") if problem.m <= 8 else solve_ball(problem, BallOptions())
    heuristic = solve(problem, "inductive")
    achieved = heuristic.attribute_epsilons
    changed = np.abs(achieved - problem.epsilons) > 1e-6
    return {
        "upper": best.upper, "lower": best.lower, "seconds": best.seconds, "kl_bound": kl_bound(problem),
        "kronecker": problem.kronecker_epsilon, "inductive": heuristic.upper,
        "inductive_share_changed": float(changed.mean()), "kronecker_at_inductive": float(achieved.sum()),
    }  # fmt: skip


def measure() -> list[dict[str, float | str]]:
    rows: list[dict[str, float | str]] = []
    for setting in SETTINGS:
        for m in SIZES:
            runs = [one(draw(setting, m, run)) for run in range(1 if m >= ONE_RUN_FROM else 3)]
            rows.append({"setting": setting, "m": m, **{k: float(np.mean([r[k] for r in runs])) for k in runs[0]}})
            rows[-1]["largest_gap"] = max(r["upper"] - r["lower"] for r in runs)
    return rows


def write(rows: list[dict[str, float | str]]) -> None:
    write_csv("ball_totals.csv", rows, 10)
    figure, axes = plt.subplots(1, len(SETTINGS), figsize=(14, 4.2))
    lines = {
        "kronecker": "Kronecker", "inductive": "POR's heuristic (changes the ε_i)", "upper": "certified optimum",
        "kl_bound": "Σ KL lower bound",
    }  # fmt: skip
    for axis, setting in zip(axes, SETTINGS, strict=True):
        mine = [r for r in rows if r["setting"] == setting]
        for key, label in lines.items():
            axis.loglog([r["m"] for r in mine], [r[key] for r in mine], marker="o", markersize=3, label=label)
        axis.set(title=setting.replace("epsilon", "ε"), xlabel="attributes m", ylabel="total ε (nats)")
    axes[0].legend(fontsize=8)
    save(figure, "ball_totals.svg")


if __name__ == "__main__":
    write(measure())
