"""Total ε against accuracy on Adult's nine attributes (results/readme.csv, readme.svg), and the numbers of the README.

The README's other numbers are read from the results of ball_totals.py, rivals.py and inference_level.py. Seconds to run.
"""

from pathlib import Path
from textwrap import wrap

import numpy as np
from matplotlib import pyplot as plt
from writing import read_csv, save, write_csv

from optrr import Constraints, design
from optrr.core.domain.datasets import adult_domain
from optrr_solvers import kl_bound
from optrr_solvers.allocation.any_mechanism import total_bound

QUICK = True
ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- claims: written by benchmarks/readme.py -->", "<!-- end of claims -->"


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
    """Draw total ε against the ε of every attribute; texts are legible on a phone, 390 pixels wide."""
    figure, axes = plt.subplots(figsize=(4.6, 4.9), layout="constrained")
    x = [r["epsilon_i"] for r in rows]
    for key, label, style in (
        ("kronecker", "independent RR per attribute", "-"),
        ("heuristic", "POR's heuristic (changes the requested ε)", ":"),
        ("pairs_kept", "optimum, pairs preserved", "-"),
        ("optimum", "optimum (equals its certified lower bound)", "-"),
        ("kl_bound", "closed-form lower bound", "--"),
        ("any_mechanism", "lower bound, any mechanism of equal variance", ":"),
    ):
        axes.plot(x, [r[key] for r in rows], style, label=label)
    axes.set(
        xlabel="ε of every attribute, nats",
        ylabel="total ε of the record, nats",
        title="Adult, nine categorical attributes",
        yscale="log",
        xscale="log",
    )
    figure.legend(loc="outside lower center", fontsize=9)
    save(figure, "readme.svg")


def claim_lines(curve_at_one: dict[str, float]) -> list[str]:
    """One sentence for each of the four claims, with the number that shows it."""
    different = [r for r in read_csv("ball_totals.csv") if r["setting"].startswith("epsilon 0.05")]
    largest = max(different, key=lambda r: int(r["m"]))
    low, high, seconds = (float(largest[key]) for key in ("lower", "upper", "seconds"))
    pairs = [r for r in read_csv("rivals.csv") if r["people"] == "Adult" and r["tables"] == "pairs"]
    over = max(float(r["mixture"]) for r in pairs)
    totals = [float(r["total"]) for r in pairs]
    worst = max(read_csv("inference_level.csv"), key=lambda r: float(r["naive_pearson"]))
    smallest, independent = curve_at_one["optimum"], curve_at_one["kronecker"]
    claims = (
        "**The smallest ε, with a certificate.** If each of nine attributes of the Adult data must be as accurate as under "
        f"randomized response at ε = 1, the whole record takes a total ε of {smallest:.3f} instead of {independent:g}. The "
        "design file proves that no mechanism with these flip probabilities has a smaller total.",
        f"**Any number of attributes.** For {int(largest['m']):,} attributes with distinct ε (0.05 to 1), the smallest total, "
        f"{low:,.1f} nats, is known to within {high - low:.3f} nats after {seconds:.0f} seconds.",
        "**The most accurate protocol for a given ε**, with a lower bound for every ε-LDP mechanism. The squared error of all "
        f"pair tables of Adult is at most {np.ceil(100 * (over - 1)):.0f} % above that bound for ε from {min(totals):g} to "
        f"{max(totals):g}.",
        f"**Valid inference.** On {worst['table'].replace('x', '×')} tables of independent attributes, n = {int(worst['n']):,}"
        ", pairs preserved, Pearson's χ² test of the randomized counts at a nominal 5 % rejects "
        f"{float(worst['naive_pearson']):.1%} of the time; the test of `optrr` rejects {float(worst['score']):.1%}.",
    )
    return [line for claim in claims for line in wrap(claim, 118, initial_indent="- ", subsequent_indent="  ")]


def write_claims(lines: list[str]) -> None:
    """Replace the text between the markers in README.md."""
    readme = ROOT / "README.md"
    head, rest = readme.read_text(encoding="utf-8").split(BEGIN)
    readme.write_text(head + "\n".join([BEGIN, *lines, END]) + rest.split(END)[1], encoding="utf-8")


if __name__ == "__main__":
    curve = measure(np.geomspace(0.05, 8, 40))
    write_csv("readme.csv", curve, 6)
    write_picture(curve)
    write_claims(claim_lines(measure(np.ones(1))[0]))
