"""Type I error of Pearson's test on randomized counts treated as true, and of the tests of independence.

Every attribute at ε_i = 1, as part of a three-attribute record, under independent randomized response, the optimum, and
the optimum that keeps pairs; independent, uneven true attributes. 20,000 tables for the 5 % level, standard error 0.15
%. Sparse tables, deeper levels and all other tests: test_levels.py. Writes results/inference_level.csv and .md.
"""

from collections.abc import Iterator

import numpy as np
from writing import markdown, three_decimals, write

from optrr import Constraints, design
from optrr.core.inference.groups import naive_pearson
from optrr.core.inference.nullfit import score_tests, trend_contrast
from optrr.core.mechanisms.kernel import EffectKernel

QUICK = True
SEED = 1
SHAPES = ((2, 2), (3, 2), (6, 3))
MECHANISMS = {
    "kronecker": {"method": "kronecker"},
    "optimal": {},
    "pairs": {"constraints": Constraints(preserve="pairs")},
}
RUNS = 20_000
ALLOWED = (0.035, 0.065)
COLUMNS = ("score", "trend", "naive_pearson")


def kernels(shape: tuple[int, int]) -> Iterator[tuple[str, EffectKernel]]:
    domain = {"a": shape[0], "b": shape[1], "c": 4}
    for name, wish in MECHANISMS.items():
        yield name, design(domain, 1.0, **wish).mechanism.kernel(("a", "b"))


def uneven(r: int) -> np.ndarray:
    """Shares falling as 1/k."""
    shares = 1 / np.arange(1, r + 1)
    return shares / shares.sum()


def tables(kernel: EffectKernel, truth: np.ndarray, n: int, runs: int, rng: np.random.Generator) -> np.ndarray:
    return rng.multinomial(n, kernel.expected(truth).ravel(), size=runs).reshape(runs, *kernel.sizes)


def level_rows() -> Iterator[dict[str, object]]:
    rng = np.random.default_rng(SEED)
    for shape in SHAPES:
        truth = np.outer(uneven(shape[0]), uneven(shape[1]))
        for name, kernel in kernels(shape):
            for n in (1000, 10_000, 100_000):
                t = tables(kernel, truth, n, RUNS, rng)
                row = {"table": f"{shape[0]}x{shape[1]}", "mechanism": name, "n": n}
                row["score"] = (score_tests(t, kernel).p_value < 0.05).mean()
                trend = trend_contrast(np.arange(shape[0]), np.arange(shape[1]))
                row["trend"] = (score_tests(t, kernel, trend).p_value < 0.05).mean()
                row["naive_pearson"] = (naive_pearson(t)[2] < 0.05).mean()
                yield row


def main() -> None:
    levels = list(level_rows())
    inside = {k: all(ALLOWED[0] <= r[k] <= ALLOWED[1] for r in levels) for k in COLUMNS}
    write(
        "inference_level",
        levels,
        "# Type I error at nominal 5 %",
        f"{RUNS} tables each. Within {ALLOWED[0]:.1%}–{ALLOWED[1]:.1%} everywhere: "
        + ", ".join(f"{k} {v}" for k, v in inside.items()),
        markdown(levels, three_decimals),
    )


if __name__ == "__main__":
    main()
