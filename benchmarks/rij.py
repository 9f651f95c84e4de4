"""RIJ: its example (§3.3), the trends of Fig. 5–8, and the settings of Table 1 on Adult.

Run as ``python benchmarks/rij.py`` (seconds). Synthetic data as §4.1: two attributes with shares ∝ 1/a for a = 2..d+1
(the paper's a = 2..d has d−1 values; its axes call that d), joined to a given Cramér's V by mixing independence with a
common diagonal. RR-Ind estimates the joint by the product of the margins, RR-Ind-Joint by the inverse of P ⊗ P. MAE is the
mean over RUNS perturbations. Table 1: retained with probability p = 0.5, else uniformly drawn (a binary attribute that moves
with probability 1/2 could not be estimated at all). Its printed errors of RR-Ind-Joint, of the order of 1e-33, can only be
those of expected instead of drawn reports, so both are shown. Writes results/rij.csv, rij_table1.csv and rij.md.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from inference_level import markdown, write
from scipy.optimize import brentq

from optrr import count
from optrr.estimation import independence_bound, mean_absolute_error, mean_squared_error
from optrr.kernel import EffectKernel
from optrr.records import datasets
from optrr_solvers.problem import keep_probabilities

RUNS = 200
RETAINED = 0.5
RESULTS = Path(__file__).parent / "results"
BASE = {"d": 10, "epsilon": 1.0, "n": 1000, "v": 0.5}
SWEEPS = {
    "Fig. 5": ("v", (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)),
    "Fig. 6": ("epsilon", (0.25, 0.5, 1.0, 1.5, 2.0)),
    "Fig. 7": ("n", (10, 100, 1000, 10_000, 100_000)),
    "Fig. 8": ("d", (2, 5, 10, 15, 20)),
}
# Table 1 as printed: attributes, V, MSE of RR-Ind, MSE of RR-Ind-Joint.
PRINTED = [
    (("sex", "income"), 0.2159802, 0.00188, 2.93e-33),
    (("sex", "race"), 0.1181155, 0.00011, 3.61e-33),
    (("education", "occupation"), 0.1873341, 2.14e-5, 5.48e-33),
]


def cramers_v(pi: np.ndarray) -> float:
    e = np.outer(pi.sum(1), pi.sum(0))
    terms = np.divide((pi - e) ** 2, e, out=np.zeros_like(pi), where=e > 0)
    return float(np.sqrt(terms.sum() / (min(pi.shape) - 1)))


def synthetic(d: int, v: float) -> np.ndarray:
    shares = 1 / np.arange(2.0, d + 2)
    shares /= shares.sum()

    def mixed(w: float) -> np.ndarray:
        return (1 - w) * np.outer(shares, shares) + w * np.diag(shares)

    return mixed(float(brentq(lambda w: cramers_v(mixed(w)) - v, 0, 1))) if 0 < v < 1 else mixed(v)


def kronecker(keeps: tuple[float, float], sizes: tuple[int, int]) -> EffectKernel:
    """Each attribute keeps with this probability, else moves to another category."""
    lam = [1 - (1 - p) * r / (r - 1) for p, r in zip(keeps, sizes, strict=True)]
    return EffectKernel(sizes, np.outer([1, lam[0]], [1, lam[1]]))


def product_estimate(kernel: EffectKernel, lam: np.ndarray) -> np.ndarray:
    joint = kernel.solve(lam)
    return np.outer(joint.sum(1), joint.sum(0))


def swept(figure: str) -> list[dict[str, object]]:
    name, values = SWEEPS[figure]
    rng, rows = np.random.default_rng(5), []
    for value in values:
        at = BASE | {name: value}
        d = int(at["d"])
        keep = float(keep_probabilities(d, at["epsilon"]))
        kernel, pi, n = kronecker((keep, keep), (d, d)), synthetic(d, at["v"]), int(at["n"])
        draws = rng.multinomial(n, kernel.expected(pi).ravel(), size=RUNS).reshape(RUNS, d, d) / n
        joint = [mean_absolute_error(kernel.solve(x), pi) for x in draws]
        alone = [mean_absolute_error(product_estimate(kernel, x), pi) for x in draws]
        row = {"figure": figure, "varied": name, "value": value}
        rows.append(row | {"rr_ind": float(np.mean(alone)), "rr_ind_joint": float(np.mean(joint))})
    return rows


def trends(rows: list[dict[str, object]]) -> dict[str, bool]:
    """What the text says of each figure."""
    by = {f: [r for r in rows if r["figure"] == f] for f in SWEEPS}

    def line(figure: str, method: str) -> np.ndarray:
        return np.array([r[method] for r in by[figure]])

    alone_v, joint_v = line("Fig. 5", "rr_ind"), line("Fig. 5", "rr_ind_joint")
    joint_n = line("Fig. 7", "rr_ind_joint")
    return {
        "Fig. 5: RR-Ind grows with V": bool(np.all(np.diff(alone_v[1:]) > 0)),
        "Fig. 5: RR-Ind-Joint does not depend on V (within 10 %)": bool(np.ptp(joint_v) / joint_v.mean() < 0.1),
        "Fig. 6: RR-Ind-Joint falls with ε": bool(np.all(np.diff(line("Fig. 6", "rr_ind_joint")) < 0)),
        "Fig. 7: RR-Ind-Joint falls with n": bool(np.all(np.diff(joint_n) < 0)),
        "Fig. 7: in the order of 1/n, as the text says": bool(joint_n[-2] / joint_n[-1] > 8),
        "Fig. 7: in the order of 1/sqrt(n)": bool(2.8 < joint_n[-2] / joint_n[-1] < 3.5),
        "Fig. 8: RR-Ind-Joint grows with d": bool(np.all(np.diff(line("Fig. 8", "rr_ind_joint")) > 0)),
    }


def table_1() -> list[dict[str, object]]:
    data, rng, rows = datasets.adult(), np.random.default_rng(6), []
    domain = datasets.adult_domain()
    for names, v, alone, joint in PRINTED:
        counts = count(data, domain, names, allow_extra=True)
        pi, n = counts.proportions, counts.n
        kernel = EffectKernel(pi.shape, np.outer([1, RETAINED], [1, RETAINED]))
        draws = rng.multinomial(n, kernel.expected(pi).ravel(), size=RUNS).reshape(RUNS, *pi.shape) / n
        rows.append(
            {
                "attributes": " × ".join(names),
                "n": n,
                "V printed": v,
                "V": cramers_v(pi),
                "MSE RR-Ind printed": alone,
                "MSE RR-Ind from expected": mean_squared_error(product_estimate(kernel, kernel.forward(pi)), pi),
                "V²/d of Theorem 3": independence_bound(cramers_v(pi), min(pi.shape)),
                "MSE RR-Ind-Joint printed": joint,
                "MSE RR-Ind-Joint from expected": mean_squared_error(kernel.solve(kernel.forward(pi)), pi),
                "MSE RR-Ind-Joint drawn": float(np.mean([mean_squared_error(kernel.solve(x), pi) for x in draws])),
            }
        )
    return rows


def example() -> str:
    kernel = kronecker((0.75, 0.75), (2, 2))
    found = kernel.solve(np.array([[0.3, 0.2], [0.2, 0.3]]))
    mae = mean_absolute_error(found, [[0.4, 0.0], [0.2, 0.4]])
    return (
        f"(P⊗P)⁻¹(.3, .2, .2, .3) = {np.round(found.ravel(), 12).tolist()}, V = {cramers_v(found):.3f}, MAE = {mae:.4f}"
    )


def main() -> None:
    rows = [r for figure in SWEEPS for r in swept(figure)]
    adult = table_1()
    write("rij.csv", rows)
    write("rij_table1.csv", adult)
    said = "\n".join(f"- {k}: {v}" for k, v in trends(rows).items())
    parts = ["# RIJ §3.3, corrected", example(), "# Fig. 5–8", said, markdown(rows), "# Table 1", markdown(adult)]
    (RESULTS / "rij.md").write_text("\n\n".join(parts) + "\n")
    print("\n\n".join(parts))


if __name__ == "__main__":
    main()
