"""Type I error of the tests of independence, and of Pearson's test on the randomized counts as if they were true.

Run as ``python benchmarks/inference_level.py`` (about fifteen minutes, nearly all for the likelihood ratio of 6 × 3). Every
attribute at ε_i = 1, as part of a three-attribute record, under Kronecker, the optimum, and the optimum that keeps pairs;
independent, uneven true attributes. 20,000 tables for the 5 % level, standard error 0.15 %; with 2000, one exact test in 500
would leave 3.5–6.5 % by chance, and there are 54 here. Tails: 100,000 tables with a category of 2 %.
The likelihood ratio is tested table by table, 2000 of them (standard error 0.5 %), as ``test`` does by itself: χ² where the
fitted null is clear of the boundary, a bootstrap elsewhere. The bootstrap has 99 tables, with which p ≤ 0.05 has probability
5 % when the fitted null is the true one, as with the 1999 that ``test`` draws; the share that was bootstrapped stands beside.
Writes results/inference_level.csv and .md.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from optrr import Counts, Domain, design
from optrr.inference import naive_pearson, score_tests, test, trend_contrast
from optrr.kernel import EffectKernel

RESULTS = Path(__file__).parent / "results"
SHAPES = ((2, 2), (3, 2), (6, 3))
MECHANISMS = {"kronecker": {"method": "kronecker"}, "optimal": {}, "pairs": {"preserve": "pairs"}}
RUNS, TAIL_RUNS = 20_000, 100_000
RATIO_RUNS, BOOTSTRAP = 2000, 99
ALLOWED = (0.035, 0.065)
COLUMNS = ("score", "trend", "likelihood_ratio", "naive_pearson")


def kernels(shape: tuple[int, int]) -> Iterator[tuple[str, EffectKernel]]:
    domain = {"a": shape[0], "b": shape[1], "c": 4}
    for name, wish in MECHANISMS.items():
        yield name, design(domain, 1.0, **wish).mechanism.kernel(("a", "b"))


def uneven(r: int, rare: float | None = None) -> np.ndarray:
    """Shares falling as 1/k, the last one 2 % where asked."""
    shares = 1 / np.arange(1, r + 1)
    if rare is not None:
        shares = np.append(shares[:-1] / shares[:-1].sum() * (1 - rare), rare)
    return shares / shares.sum()


def tables(kernel: EffectKernel, truth: np.ndarray, n: int, runs: int, rng: np.random.Generator) -> np.ndarray:
    return rng.multinomial(n, kernel.expected(truth).ravel(), size=runs).reshape(runs, *kernel.sizes)


def ratio_tests(t: np.ndarray, kernel: EffectKernel, rng: np.random.Generator) -> tuple[float, float]:
    """Share rejected at 5 %, and share bootstrapped."""
    domain = Domain.of({"a": t.shape[1], "b": t.shape[2]})
    found = [test(Counts(domain, x), kernel, "likelihood-ratio", bootstrap=BOOTSTRAP, random_state=rng) for x in t]
    return (
        float(np.mean([f.p_value <= 0.05 + 1e-12 for f in found])),
        float(np.mean([f.calibration == "bootstrap" for f in found])),
    )


def level_rows() -> Iterator[dict[str, object]]:
    rng, bootstrap_rng = np.random.default_rng(1), np.random.default_rng(4)
    for shape in SHAPES:
        truth = np.outer(uneven(shape[0]), uneven(shape[1]))
        for name, kernel in kernels(shape):
            for n in (1000, 10_000, 100_000):
                t = tables(kernel, truth, n, RUNS, rng)
                row = {"table": f"{shape[0]}x{shape[1]}", "mechanism": name, "n": n}
                row["score"] = (score_tests(t, kernel).p_value < 0.05).mean()
                trend = trend_contrast(np.arange(shape[0]), np.arange(shape[1]))
                row["trend"] = (score_tests(t, kernel, trend).p_value < 0.05).mean()
                row["likelihood_ratio"], row["bootstrapped"] = ratio_tests(t[:RATIO_RUNS], kernel, bootstrap_rng)
                row["naive_pearson"] = (naive_pearson(t)[2] < 0.05).mean()
                print(row, file=sys.stderr, flush=True)
                yield row


def tail_rows() -> Iterator[dict[str, object]]:
    rng = np.random.default_rng(2)
    for shape in SHAPES:
        truth = np.outer(uneven(shape[0], 0.02), uneven(shape[1]))
        for name, kernel in kernels(shape):
            for n in (300, 1000, 10_000, 100_000):
                p = score_tests(tables(kernel, truth, n, TAIL_RUNS, rng), kernel).p_value
                yield {
                    "table": f"{shape[0]}x{shape[1]}",
                    "mechanism": name,
                    "n": n,
                    "at_1e-3": (p < 1e-3).mean(),
                    "at_1e-4": (p < 1e-4).mean(),
                }


def write(name: str, rows: list[dict[str, object]]) -> None:
    with (RESULTS / name).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def markdown(rows: list[dict[str, object]]) -> str:
    names = list(rows[0])
    lines = ["| " + " | ".join(names) + " |", "|" + " --- |" * len(names)]
    return "\n".join(lines + ["| " + " | ".join(shown(v) for v in r.values()) + " |" for r in rows])


def shown(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.2g}" if abs(value) < 0.01 else f"{value:.3f}"


def main() -> None:
    levels, tails = list(level_rows()), list(tail_rows())
    write("inference_level.csv", levels)
    write("inference_tail_level.csv", tails)
    inside = {k: all(ALLOWED[0] <= r[k] <= ALLOWED[1] for r in levels) for k in COLUMNS}
    text = [
        "# Type I error at nominal 5 %",
        f"{RUNS} tables each ({RATIO_RUNS} for the likelihood ratio). Within 3.5–6.5 % everywhere: "
        + ", ".join(f"{k} {v}" for k, v in inside.items()),
        markdown(levels),
        "# Tail of the score test, a category of 2 %",
        f"{TAIL_RUNS} tables each; standard error 1e-4 at 1e-3 and 3e-5 at 1e-4.",
        markdown(tails),
    ]
    (RESULTS / "inference_level.md").write_text("\n\n".join(text) + "\n")
    print("\n\n".join(text))


if __name__ == "__main__":
    main()
