"""The README's picture and numbers: total ε on Adult's nine attributes against the accuracy asked for.

Writes results/readme.csv and results/readme.svg, and the table between the markers in README.md. Seconds to run.
"""

from __future__ import annotations

import csv
from pathlib import Path

import matplotlib as mpl
import numpy as np

from optrr import design
from optrr.datasets import adult_domain
from optrr_solvers import kl_bound

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
BEGIN, END = "<!-- benchmarks/readme.py writes from here -->", "<!-- to here -->"
TABLE = (0.25, 0.5, 1.0, 2.0, 4.0)


def measure(epsilons: np.ndarray) -> list[dict[str, float]]:
    domain = adult_domain()
    rows = []
    for e in epsilons:
        plain, pairs = design(domain, float(e)), design(domain, float(e), preserve="pairs")
        rows.append(
            {
                "epsilon_i": float(e),
                "kronecker": plain.kronecker_epsilon,
                "heuristic": design(domain, float(e), method="inductive").epsilon,
                "pairs_kept": pairs.epsilon,
                "optimum": plain.epsilon,
                "lower_bound": plain.lower_bound,
                "kl_bound": kl_bound(plain.solution.problem),
                "conditional": float(plain.conditional_epsilons.max()),
            }
        )
    return rows


def write_csv(rows: list[dict[str, float]]) -> None:
    with (RESULTS / "readme.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows({k: f"{v:.6g}" for k, v in row.items()} for row in rows)


def write_picture(rows: list[dict[str, float]]) -> None:
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "optrr"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    x = [r["epsilon_i"] for r in rows]
    for key, label, style in (
        ("kronecker", "Kronecker: every attribute on its own", "-"),
        ("heuristic", "POR's heuristic (replaces the accuracies asked for)", ":"),
        ("pairs_kept", "optimum with all pairs kept", "-"),
        ("optimum", "optimum (equals its certified lower bound)", "-"),
        ("kl_bound", "closed-form lower bound", "--"),
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
    figure.tight_layout()
    figure.savefig(RESULTS / "readme.svg", metadata={"Date": None})


def write_table(rows: list[dict[str, float]]) -> None:
    lines = [
        "| ε of every attribute | Kronecker | optimum, pairs kept | optimum | largest conditional ε of the optimum |",
        "|---|---|---|---|---|",
    ]
    for r in rows:
        cells = [f"{r[k]:.3f}" for k in ("kronecker", "pairs_kept", "optimum", "conditional")]
        lines.append(f"| {r['epsilon_i']:g} | " + " | ".join(cells) + " |")
    readme = ROOT / "README.md"
    text = readme.read_text()
    head, rest = text.split(BEGIN)
    readme.write_text(head + BEGIN + "\n" + "\n".join(lines) + "\n" + END + rest.split(END)[1])


if __name__ == "__main__":
    curve = measure(np.geomspace(0.05, 8, 40))
    write_csv(curve)
    write_picture(curve)
    write_table(measure(np.asarray(TABLE)))
