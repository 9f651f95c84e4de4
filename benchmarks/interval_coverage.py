"""Coverage of intervals of cells and of counts: 42 chosen settings and 42 drawn at random, 3000 data sets each.

Takes a minute. A setting is a table, a mechanism, a number of records and a skewed truth: kronecker, the optimum, the
optimum that keeps pairs, or one Laplace matrix for each attribute; ε_i 0.5..6, 300..20,000 records, shares drawn from a
Dirichlet law of parameter 0.1..2, so that many cells are nearly empty. Of each, at 95 %:

    each cell        coverage of every cell alone: mean over the cells, the worst cell, and its misses on both sides
    all cells        how often all intervals of ``simultaneous=True`` hold together
    data             the cells of one data set, randomized again and again, by ``target="data"``

The standard error of one cell's
coverage is 0.4 % at 3000 data sets, so the worst of 40 cells at a true 95 % shows about 94.1 %.
Writes results/interval_coverage.csv and .md.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, log, prod

import numpy as np
from writing import markdown, measure_all, three_decimals, write

from optrr import Constraints, Domain, design
from optrr.core.estimation.score_interval import cell_intervals
from optrr.core.mechanisms.kernel import Kernel
from optrr.core.mechanisms.matrix import MatrixMechanism
from optrr.core.mechanisms.mechanism import Randomizer
from optrr.studies.laplace import laplace

SEED = 100
RUNS = 3000
LEVEL, ROUNDING = 0.05, 1e-12
SHAPES = ((10,), (4, 4, 3), (6, 5), (2, 2, 2, 2), (3, 3))
EPSILONS = (0.5, 1.0, 2.0, 4.0)
KINDS = ("kronecker", "optimal", "pairs", "matrix")
MOST_CELLS = 48
WISHES = {"kronecker": {"method": "kronecker"}, "optimal": {}, "pairs": {"constraints": Constraints(preserve="pairs")}}


@dataclass(frozen=True, eq=False)
class Setting:
    """A table and how its records are randomized."""

    origin: str
    kind: str
    sizes: tuple[int, ...]
    epsilons: tuple[float, ...]
    n: int
    truth: np.ndarray

    @property
    def domain(self) -> Domain:
        """Attributes a0, a1, … of these sizes."""
        return Domain.of({f"a{k}": r for k, r in enumerate(self.sizes)})

    def mechanism(self) -> Randomizer:
        """Designed, or a product of Laplace matrices."""
        if self.kind == "matrix":
            return MatrixMechanism(self.domain, tuple(map(laplace, self.sizes, self.epsilons)))
        return design(self.domain, list(self.epsilons), **WISHES[self.kind]).mechanism


def chosen_settings() -> Iterator[Setting]:
    rng = np.random.default_rng(1)
    sparse = rng.dirichlet(np.full(48, 0.3)).reshape(4, 4, 3)
    yield Setting("chosen", "kronecker", (4, 4, 3), (4.0, 3.0, 5.0), 500, sparse)
    rare = np.array([0.01, *np.full(9, 0.11)])
    yield Setting("chosen", "kronecker", (10,), (4.0,), 500, rare)
    place = 0
    for sizes in SHAPES:
        for epsilon in EPSILONS:
            for n in (400, 8000):
                kind = KINDS[place % len(KINDS)] if len(sizes) > 1 else KINDS[3 * (place % 2)]
                place += 3 if n == 400 else 2
                truth = rng.dirichlet(np.full(prod(sizes), 0.3)).reshape(sizes)
                yield Setting("chosen", kind, sizes, (epsilon,) * len(sizes), n, truth)


def random_settings(many: int) -> Iterator[Setting]:
    rng = np.random.default_rng(2)
    made = 0
    while made < many:
        sizes = tuple(int(r) for r in rng.integers(2, 9, size=rng.integers(1, 4)))
        if prod(sizes) > MOST_CELLS:
            continue
        epsilons = tuple(float(e) for e in np.exp(rng.uniform(log(0.5), log(6), len(sizes))))
        n = int(exp(rng.uniform(log(300), log(20_000))))
        truth = rng.dirichlet(np.full(prod(sizes), exp(rng.uniform(log(0.1), log(2))))).reshape(sizes)
        kind = str(rng.choice(KINDS)) if len(sizes) > 1 else str(rng.choice(["kronecker", "matrix"]))
        setting = Setting("random", kind, sizes, epsilons, n, truth)
        if setting.mechanism().kernel(setting.domain.names).is_invertible:
            made += 1
            yield setting


def misses(
    kernel: Kernel, tables: np.ndarray, truth: np.ndarray, level: float, fixed: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Where the intervals of all tables lie above the truth, and where below; (runs, cells) each."""
    n = int(tables[0].sum())
    lower, upper = (end.reshape(len(tables), -1) for end in cell_intervals(kernel, tables / n, n, level, fixed))
    return lower > truth.ravel() + ROUNDING, upper < truth.ravel() - ROUNDING


def drawn(kernel: Kernel, truth: np.ndarray, n: int, runs: int, rng: np.random.Generator) -> np.ndarray:
    lam = kernel.expected(truth).ravel()
    return rng.multinomial(n, lam / lam.sum(), size=runs).reshape(runs, *kernel.sizes)


def randomized(kernel: Kernel, people: np.ndarray, runs: int, rng: np.random.Generator) -> np.ndarray:
    rows = kernel.matrix()
    draws = [rng.multinomial(k, row / row.sum(), size=runs) for k, row in zip(people, rows, strict=True) if k]
    return np.sum(draws, axis=0).reshape(runs, *kernel.sizes)


def of_cells(kernel: Kernel, tables: np.ndarray, truth: np.ndarray, fixed: bool) -> dict[str, float]:
    above, below = misses(kernel, tables, truth, LEVEL, fixed)
    covered = 1 - (above | below).mean(axis=0)
    worst = int(covered.argmin())
    together = ~np.logical_or(*misses(kernel, tables, truth, LEVEL / kernel.cells, fixed)).any(axis=1)
    return {
        "mean": float(covered.mean()),
        "worst": float(covered.min()),
        "largest": float(covered.max()),
        "share_of_worst": float(truth.ravel()[worst]),
        "missed_below": float(above[:, worst].mean()),
        "missed_above": float(below[:, worst].mean()),
        "together": float(together.mean()),
    }


def measured(setting: Setting, place: int) -> dict[str, object]:
    rng = np.random.default_rng(SEED + place)
    mechanism = setting.mechanism()
    kernel = mechanism.kernel(setting.domain.names)
    tables = drawn(kernel, setting.truth, setting.n, RUNS, rng)
    cells = of_cells(kernel, tables, setting.truth, fixed=False)
    people = rng.multinomial(setting.n, setting.truth.ravel())
    data = of_cells(kernel, randomized(kernel, people, RUNS, rng), people / setting.n, fixed=True)
    return {
        "settings": setting.origin,
        "mechanism": setting.kind,
        "sizes": "x".join(map(str, setting.sizes)),
        "epsilons": " ".join(f"{e:.2f}" for e in setting.epsilons),
        "n": setting.n,
        **cells,
        "data_mean": data["mean"],
        "data_worst": data["worst"],
        "data_together": data["together"],
    }


def summary(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    out = []
    for name in ("mean", "worst", "together", "data_mean", "data_worst", "data_together"):
        values = np.array([row[name] for row in rows if np.isfinite(row[name])])
        spread = {"least": float(values.min()), "average": float(values.mean()), "largest": float(values.max())}
        outside = {"below 93 %": int((values < 0.93).sum()), "above 97 %": int((values > 0.97).sum())}
        out.append({"coverage": name, "settings": len(values)} | spread | outside)
    return out


def main() -> None:
    settings = [*chosen_settings(), *random_settings(42)]
    rows = measure_all(measured, settings, range(len(settings)))
    write(
        "interval_coverage",
        rows,
        "# Coverage of 95 % intervals",
        markdown(summary(rows), three_decimals),
        "## Every setting",
        markdown(rows, three_decimals),
    )


if __name__ == "__main__":
    main()
