"""Do samples follow the ball law? 10^6 draws at 100 attributes for five fixed seeds, and all change sets of eight attributes.

For each seed: the largest |z| over the 100 flips and over the 4950 pairs (both changed), and the χ² of all 2^8 change sets of
a law of eight attributes. A correct sampler's largest |z| of 4950 exceeds 4 in about 27 runs of 100, so no single run
decides; pooled tests do, on what a correct sampler leaves uniform:

- the seeds' largest |z|, through the law of a maximum of that many independent normal z (pairs depend a little on
  each other, which makes the maxima a little smaller), by Kolmogorov and Smirnov's test;
- the z of the flips of all seeds, and of 50 disjoint pairs a seed, independent up to the ball's weak dependence, by the same
  test;
- the sum of the seeds' χ².

r uniform in 2..8, ε_i uniform in 1..3. Writes ball_sampling.csv and ball_sampling.md.
"""

from __future__ import annotations

import csv
import math
import sys
import time
from pathlib import Path

import numpy as np
from scipy.stats import chi2, kstest, norm

from optrr_solvers import Problem
from optrr_solvers.balls.solve import solve
from optrr_solvers.laws.ball import BallLaw, MixedBall
from optrr_solvers.laws.weighted_ball import soft
from optrr_solvers.randomness import SeededSource

RESULTS = Path(__file__).parent / "results"
SEEDS = (1, 2, 3, 4, 5)
DRAWS, M, SMALL, BATCH = 1_000_000, 100, 8, 100_000


def source(seed: int) -> SeededSource:
    return SeededSource(np.random.default_rng(seed))


def frequencies(law: BallLaw, seed: int, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """z of every flip and of every pair."""
    bits, both = source(seed), np.zeros((M, M))
    for _ in range(draws // BATCH):
        changed = law.sample(BATCH, bits).astype(np.float32)
        both += changed.T @ changed
    f = law.one_way()[:, 1]
    chi = 1 / (1 - 1 / law.sizes)
    expected = (law.pair_eigenvalues() - np.add.outer(1 - chi * f, 1 - chi * f) + 1) / np.outer(chi, chi)
    np.fill_diagonal(expected, f)
    z = (both / draws - expected) / np.sqrt(expected * (1 - expected) / draws)
    return np.diag(z), z


def all_change_sets(seed: int, draws: int) -> tuple[float, int]:
    """χ² of eight attributes' change sets and its degrees of freedom; cells expected below 5 are one cell."""
    rng = np.random.default_rng(0)
    weights = rng.uniform(20, 60, SMALL)
    ball = soft(weights.astype(np.int64), weights % 1, 100.0, 6.0)
    law = BallLaw(rng.integers(2, 9, SMALL), [np.array([i]) for i in range(SMALL)], [MixedBall(1.0, ball)], 5.0)
    expected = draws * law.marginal(range(SMALL)).ravel()
    codes = law.sample(draws, source(seed)) @ (1 << np.arange(SMALL - 1, -1, -1))
    observed = np.bincount(codes, minlength=1 << SMALL).astype(float)
    rare = expected < 5
    if rare.any():
        expected = np.append(expected[~rare], expected[rare].sum())
        observed = np.append(observed[~rare], observed[rare].sum())
    return float(((observed - expected) ** 2 / expected).sum()), expected.size - 1


def measure(draws: int) -> None:
    rng = np.random.default_rng(1000 + M)
    law = solve(Problem(rng.integers(2, 9, M), rng.uniform(1, 3, M))).law
    assert isinstance(law, BallLaw)
    upper, rows, flips, disjoint = np.triu_indices(M, 1), [], [], []
    for seed in SEEDS:
        start = time.process_time()
        of_flips, z = frequencies(law, seed, draws)
        statistic, cells = all_change_sets(seed, draws)
        rows.append({
            "seed": seed, "draws": draws, "largest_flip_z": float(np.abs(of_flips).max()),
            "largest_pair_z": float(np.abs(z[upper]).max()), "pairs_above_4": int((np.abs(z[upper]) > 4).sum()),
            "chi_squared": statistic, "degrees": cells, "chi_squared_p": float(chi2.sf(statistic, cells)),
            "seconds": time.process_time() - start,
        })  # fmt: skip
        print(rows[-1], flush=True)
        flips.append(of_flips)
        disjoint.append(z[np.arange(0, M, 2), np.arange(1, M, 2)])
    write(rows, np.concatenate(flips), np.concatenate(disjoint))


def largest_of(count: int, value: float) -> float:
    """Pr(the largest of ``count`` independent normal |z| is at most ``value``)."""
    return math.exp(count * math.log1p(-2 * norm.sf(value)))


def write(rows: list[dict[str, float]], flips: np.ndarray, disjoint: np.ndarray) -> None:
    with (RESULTS / "ball_sampling.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    count = M * (M - 1) // 2
    tests = {
        f"largest z of {M} flips, by seed": kstest(
            [largest_of(M, r["largest_flip_z"]) for r in rows], "uniform"
        ).pvalue,
        f"largest z of {count} pairs, by seed": kstest(
            [largest_of(count, r["largest_pair_z"]) for r in rows], "uniform"
        ).pvalue,
        f"z of all {flips.size} flips": kstest(flips, "norm").pvalue,
        f"z of {disjoint.size} disjoint pairs": kstest(disjoint, "norm").pvalue,
        f"sum of the χ² of all 2^{SMALL} change sets": chi2.sf(
            sum(r["chi_squared"] for r in rows), sum(r["degrees"] for r in rows)
        ),
    }
    lines = [
        f"{rows[0]['draws']:,} draws a seed. A correct sampler's largest |z| of {count} pairs exceeds 4 with probability "
        f"{1 - largest_of(count, 4.0):.2f}; its median is {median_of_largest(count):.2f} "
        f"(of {M} flips {median_of_largest(M):.2f}).",
        "",
        "| seed | largest flip z | largest pair z | pairs above 4 | χ² p of all change sets |",
        "|---|---|---|---|---|",
        *(
            f"| {r['seed']} | {r['largest_flip_z']:.2f} | {r['largest_pair_z']:.2f} | {r['pairs_above_4']} "
            f"| {r['chi_squared_p']:.2f} |"
            for r in rows
        ),
        "",
        "| pooled test | p |",
        "|---|---|",
        *(f"| {name} | {p:.2f} |" for name, p in tests.items()),
    ]
    (RESULTS / "ball_sampling.md").write_text("\n".join(lines) + "\n")


def median_of_largest(count: int) -> float:
    return float(norm.isf(-math.expm1(math.log(0.5) / count) / 2))


if __name__ == "__main__":
    measure(int(sys.argv[1]) if len(sys.argv) > 1 else DRAWS)
