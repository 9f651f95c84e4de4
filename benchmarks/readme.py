"""The README's picture and numbers.

Total ε on Adult's nine attributes against the accuracy asked for is computed here (results/readme.csv, readme.svg); the other
numbers are read from the results of ball_totals.py and inference_level.py. Each stands between its markers. Seconds to run.
"""

from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from writing import read_csv, save, write_csv

from optrr import Constraints, design
from optrr.core.domain.datasets import adult_domain
from optrr_solvers import kl_bound
from optrr_solvers.allocation.any_mechanism import total_bound

QUICK = True
ROOT = Path(__file__).parent.parent
TABLE = (0.25, 0.5, 1.0, 2.0, 4.0)
SHOWN = (10, 100, 1000, 10_000, 100_000)


def measure(epsilons: np.ndarray) -> list[dict[str, float]]:
    domain = adult_domain()
    rows = []
    for e in epsilons:
        plain, pairs = design(domain, float(e)), design(domain, float(e), constraints=Constraints(preserve="pairs"))
        rows.append(
            {
                "epsilon_i": float(e),
                "kronecker": plain.kronecker_epsilon,
                "heuristic": design(domain, float(e), method="inductive").epsilon,
                "pairs_kept": pairs.epsilon,
                "optimum": plain.epsilon,
                "lower_bound": plain.lower_bound,
                "kl_bound": kl_bound(plain.solution.problem),
                "any_mechanism": total_bound(domain.sizes, np.full(domain.m, float(e))),
                "conditional": float(plain.conditional_epsilons.max()),
            }
        )
    return rows


def write_picture(rows: list[dict[str, float]]) -> None:
    figure, axes = plt.subplots(figsize=(7, 4))
    x = [r["epsilon_i"] for r in rows]
    for key, label, style in (
        ("kronecker", "Kronecker: every attribute on its own", "-"),
        ("heuristic", "POR's heuristic (replaces the accuracies asked for)", ":"),
        ("pairs_kept", "optimum with all pairs kept", "-"),
        ("optimum", "optimum (equals its certified lower bound)", "-"),
        ("kl_bound", "closed-form lower bound", "--"),
        ("any_mechanism", "no mechanism of any form whose estimates vary as little is below", ":"),
    ):
        axes.plot(x, [r[key] for r in rows], style, label=label)
    axes.set(
        xlabel="accuracy asked for, ε of every attribute (nats)",
        ylabel="total ε of the record (nats)",
        title="Adult, nine categorical attributes",
        yscale="log",
        xscale="log",
    )
    axes.legend(fontsize=8)
    save(figure, "readme.svg")


def write_block(name: str, lines: list[str]) -> None:
    """Replace what stands between the markers of ``name`` in README.md."""
    readme = ROOT / "README.md"
    begin, end = f"<!-- {name}: written by benchmarks/readme.py -->", f"<!-- end of {name} -->"
    head, rest = readme.read_text(encoding="utf-8").split(begin)
    readme.write_text(head + "\n".join([begin, *lines, end]) + rest.split(end)[1], encoding="utf-8")


def adult_lines(rows: list[dict[str, float]]) -> list[str]:
    lines = [
        "| ε of every attribute | Kronecker | optimum, pairs kept | optimum | largest conditional ε of the optimum "
        "| any mechanism whose estimates vary as little, at least |",
        "|---|---|---|---|---|---|",
    ]
    for r in rows:
        cells = [f"{r[k]:.3f}" for k in ("kronecker", "pairs_kept", "optimum", "conditional")]
        cells.append(f"{np.floor(1000 * r['any_mechanism']) / 1000:.3f}")  # a lower bound
        lines.append(f"| {r['epsilon_i']:g} | " + " | ".join(cells) + " |")
    return lines


def scale_lines() -> list[str]:
    """Certified totals for many different attributes, beside the two baselines."""
    every = read_csv("ball_totals.csv")
    rows = [r for r in every if r["setting"].startswith("epsilon 0.05") and int(r["m"]) in SHOWN]
    lines = ["| m | optimum lies in | Kronecker | POR's heuristic | seconds |", "|---|---|---|---|---|"]
    for r in rows:
        bracket = f"{float(r['lower']):.4f} .. {float(r['upper']):.4f}"
        rest = f"{float(r['kronecker']):.1f} | {float(r['inductive']):.1f} | {float(r['seconds']):.2g}"
        lines.append(f"| {int(r['m'])} | {bracket} | {rest} |")
    return lines


def naive_lines() -> list[str]:
    """Where Pearson's χ² on randomized counts goes wrong most, and the score test on the same tables."""
    worst = max(read_csv("inference_level.csv"), key=lambda r: float(r["naive_pearson"]))
    return [
        f"  On {worst['table'].replace('x', '×')} tables of independent attributes, randomized with pairs kept and "
        f"n = {int(worst['n']):,}, a Pearson χ² at nominal 5 %",
        f"  rejects {float(worst['naive_pearson']):.1%} of the time; `optrr.core.inference`'s test rejects "
        f"{float(worst['score']):.1%}.",
    ]


if __name__ == "__main__":
    curve = measure(np.geomspace(0.05, 8, 40))
    write_csv("readme.csv", curve, 6)
    write_picture(curve)
    write_block("adult", adult_lines(measure(np.asarray(TABLE))))
    write_block("scale", scale_lines())
    write_block("naive", naive_lines())
