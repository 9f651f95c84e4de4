"""Where χ² p-values of the score tests stop being reliable, against the simulated tail, down to the genome-wide 5e-8.

Run as ``python benchmarks/inference_tail.py`` (about two minutes). A category of 2 %, from strong to hardly any
randomization. For each setting, tables at growing distance from the null: the simulated p-value over the χ² one, with the
simulation's relative standard error, and the point below which ``reliable_down_to`` does not vouch for χ². Writes
results/inference_tail.csv and .md.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from inference_level import markdown, write
from scipy.stats import chi2

from optrr import Mechanism
from optrr.domain.domain import Domain
from optrr.mechanisms.kernel import EffectKernel
from optrr.models.tests.nullfit import NullFit, all_contrasts, independence_fit, score_tests, trend_contrast
from optrr.models.tests.tail import reliable_down_to, tail_probability, whitened_influence
from optrr_solvers.laws import ProductLaw

ROWS, COLUMNS = np.array([0.60, 0.38, 0.02]), np.array([0.7, 0.3])
DEPTHS = (1e-3, 1e-5, 5e-8)
TESTS = {"trend": trend_contrast([0, 1, 2], [0, 1]), "genotypic": all_contrasts(3, 2)}


def table_at(kernel: EffectKernel, contrasts: np.ndarray, n: int, p: float) -> np.ndarray:
    """A table about as far from independence as this p-value, along all contrasts alike."""
    lam = kernel.expected(np.outer(ROWS, COLUMNS))
    xi = whitened_influence(NullFit(ROWS[None], COLUMNS[None], lam[None]), kernel, contrasts)[0]
    k = contrasts.shape[0]
    tilt = np.exp(np.sqrt(chi2.isf(p, k) / n / k) * xi.sum(axis=0)) * lam.ravel()
    return np.round(n * tilt / tilt.sum()).reshape(lam.shape)


def measure() -> list[dict[str, object]]:
    rows = []
    domain = Domain.of({"genotype": 3, "status": 2})
    for epsilon in (1.0, 2.0, 4.0, 8.0):
        kernel = Mechanism(domain, ProductLaw(domain.sizes, np.full(2, epsilon))).kernel(domain.names)
        for name, contrasts in TESTS.items():
            for n in (300, 1000, 10_000, 100_000):
                row: dict[str, object] = {"test": name, "epsilon": epsilon, "n": n}
                for depth in DEPTHS:
                    table = table_at(kernel, contrasts, n, depth)
                    scores = score_tests(table[None], kernel, contrasts)
                    tail = tail_probability(table, kernel, contrasts, independence_fit, random_state=1)
                    row[f"χ² p near {depth:g}"] = float(scores.p_value[0])
                    row[f"simulated/χ² at {depth:g}"] = tail.p_value / float(scores.p_value[0])
                    row[f"± at {depth:g}"] = tail.relative_error
                    row["reliable down to"] = float(
                        reliable_down_to(scores.fit, table.sum()[None], kernel, contrasts)[0]
                    )
                rows.append(row)
    return rows


def main() -> None:
    rows = measure()
    write("inference_tail.csv", rows)
    vouched = [
        r[f"simulated/χ² at {d:g}"] for r in rows for d in DEPTHS if r[f"χ² p near {d:g}"] >= r["reliable down to"]
    ]
    other = [r[f"simulated/χ² at {d:g}"] for r in rows for d in DEPTHS if r[f"χ² p near {d:g}"] < r["reliable down to"]]
    text = [
        "# Simulated over χ² p-values, a category of 2 %",
        f"Where χ² is vouched for ({len(vouched)} cases): {min(vouched):.2f}–{max(vouched):.2f}. "
        f"Elsewhere ({len(other)} cases): {min(other, default=1):.2f}–{max(other, default=1):.2f}.",
        markdown(rows),
    ]
    (Path(__file__).parent / "results" / "inference_tail.md").write_text("\n\n".join(text) + "\n")
    print("\n\n".join(text))


if __name__ == "__main__":
    main()
