"""Errors of mixtures of local queries, and the bound, relative to the optimal mechanism on all domains of up to 16 cells.

Takes ten minutes. Writes exact_optimum.csv and exact_optimum.md.

Seen from one report, the records' likelihoods lie in a cube, so they are an average of densities (1 + g 1_A)/(1 + gp) over
sets A of records, g = e^ε − 1, p = |A|/N, whose energies e_S(A) = w_S(A) g²/(1 + gp)², w_S = ‖P_S 1_A‖², are on average no
smaller. A mechanism that draws A, then one of its images under exchanges of categories, has these energies. A set and its
complement have the same w_S, so p ≤ 1/2 suffices. Therefore the least error of any ε-LDP mechanism is

    F = min Σ_S a_S/e_S   over averages e of the e(A),     a_S = dim_S² Σ_{U⊇S} weight_U/Π_{i∈U} r_i,

a convex program with one share for each spectrum that sets have, some 2,000 for the 2^16 sets of 16 cells. At the
energies e of any proportions the gradient proves

    F ≥ (Σ_S a_S/e_S)² / max_A Σ_S a_S e_S(A)/e_S².
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations, islice

import numpy as np
from scipy.optimize import nnls
from writing import write_csv, write_text

from optrr_solvers.allocation.any_mechanism import error_bound
from optrr_solvers.allocation.mixture import mixture
from optrr_solvers.allocation.workload import TableWorkload
from optrr_solvers.partition import singles

SEED = 0
TOTALS = (0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
# All tables of one, two or three attributes, and random tables of random weights.
WORKLOADS = 20
# Sets of records are listed of up to so many cells.
MOST_CELLS = 16
# Newton steps at most, the relative gap that ends them, and the shortest step.
STEPS, CLOSE, SHORTEST = 100, 1e-9, 1e-9
# Relative difference of errors that are alike.
ALIKE = 1e-6

Sizes = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Spectra:
    """Every spectrum that sets of at most half of the records have, and for each one such set.

    ``sets`` are sums of 2^record, records in the order of :func:`numpy.ravel_multi_index`; ``share`` p, and ``energies`` w_S by
    the effects in the order of :func:`effects`, shape (spectra, effects).
    """

    sets: np.ndarray
    share: np.ndarray
    energies: np.ndarray


@dataclass(frozen=True, eq=False)
class Optimum:
    """The least error of all mechanisms is between ``lower`` and ``error``, which ``shares`` of the spectra have."""

    error: float
    lower: float
    shares: np.ndarray


def domains(most: int = MOST_CELLS) -> list[Sizes]:
    """The sizes, ascending, of every domain of so many cells at most."""

    def grown(sizes: Sizes, least: int, left: int) -> Iterator[Sizes]:
        for r in range(least, left + 1):
            yield (*sizes, r)
            yield from grown((*sizes, r), r, left // r)

    return list(grown((), 2, most))


def effects(sizes: Sizes) -> list[tuple[int, ...]]:
    """Every set of attributes but the empty one."""
    return [s for k in range(1, len(sizes) + 1) for s in combinations(range(len(sizes)), k)]


@cache
def spectra(sizes: Sizes) -> Spectra:
    """The spectra of all sets of records."""
    cells = math.prod(sizes)
    if cells > MOST_CELLS:
        raise ValueError(f"{cells} cells; sets of up to {MOST_CELLS} are listed")
    numbers = np.arange(1, 1 << cells, dtype=np.int64)
    inside = (numbers[:, None] >> np.arange(cells) & 1).astype(np.uint8)
    few = inside.sum(axis=1) <= cells // 2
    numbers, inside = numbers[few], inside[few].reshape(-1, *sizes)
    held = inside.reshape(len(inside), -1).sum(axis=1, dtype=np.int64)
    # N² w_S, whole numbers: those of all subsets of S add up to Π_{i∈S} r_i Σ (members of A in a cell of the table S)²
    whole = {(): held**2}
    for s in effects(sizes):
        others = tuple(1 + i for i in range(len(sizes)) if i not in s)
        counts = inside.sum(axis=others, dtype=np.int64).reshape(len(inside), -1)
        squares = math.prod(sizes[i] for i in s) * np.square(counts).sum(axis=1)
        whole[s] = squares - sum(v for t, v in whole.items() if set(t) < set(s))
    rows, first = np.unique(np.stack([held, *(whole[s] for s in effects(sizes))], axis=1), axis=0, return_index=True)
    return Spectra(numbers[first], rows[:, 0] / cells, rows[:, 1:] / cells**2)


def exact_optimum(workload: TableWorkload, total: float) -> Optimum:
    """The best of all mechanisms of this total ε in nats; attributes are told apart, so the classes must be single ones."""
    sizes = tuple(workload.sizes.tolist())
    every, gain, place = spectra(sizes), math.expm1(total), effects(sizes)
    wanted = every.energies[:, [place.index(tuple(sorted(s))) for s in workload.effects]]
    columns = wanted * np.square(gain / (1 + gain * every.share))[:, None]
    dims = [math.prod((workload.sizes[list(s)] - 1).tolist()) for s in workload.effects]
    needs = workload.coefficients * dims
    shares = best_shares(columns, needs)
    held = shares @ columns
    error = float((needs / held).sum())
    return Optimum(error, error**2 / float((columns @ (needs / held**2)).max()), shares)


def best_shares(columns: np.ndarray, needs: np.ndarray) -> np.ndarray:
    """Shares π of the columns, (columns, effects), with the least Σ_S a_S/e_S at e = Σ π e(A).

    A multiple of them minimises Σ_S a_S/e_S + (Σ π)²/2 over π ≥ 0, by Newton's steps: non-negative least squares.
    """
    unit = columns.max(axis=0)
    columns, needs = columns / unit, needs / unit / (needs / unit).sum()
    shares = np.full(len(columns), 1 / len(columns))

    def value(tried: np.ndarray) -> float:
        held = tried @ columns
        return float((needs / held).sum() + tried.sum() ** 2 / 2) if held.min() > 0 else math.inf

    for _ in range(STEPS):
        held = shares @ columns
        error = float((needs / held).sum())
        if float((columns @ (needs / held**2)).max()) * shares.sum() <= error * (1 + CLOSE):
            break
        # the best multiple of these shares has (Σ π)² = Σ a/e
        more = (error * shares.sum()) ** (1 / 3) / shares.sum()
        shares, held = shares * more, held * more
        root = np.sqrt(2 * needs / held**3)
        step = nnls(np.vstack([root[:, None] * columns.T, np.ones(len(columns))]), np.append(1.5 * root * held, 0))[0]
        step, length = step - shares, 1.0
        while length > SHORTEST and value(shares + length * step) > value(shares):
            length /= 2
        shares = shares + length * step
    return shares / shares.sum()


def workloads(sizes: Sizes, count: int = WORKLOADS) -> Iterator[tuple[str, TableWorkload]]:
    """All tables of so many attributes, then random tables whose weights differ by a factor of twenty or so; by name."""
    rng, every = np.random.default_rng(SEED), effects(sizes)

    def named() -> Iterator[tuple[str, list[tuple[int, ...]], np.ndarray]]:
        for width, name in enumerate(("marginals", "pairs", "triples")[: len(sizes)], 1):
            tables = [t for t in every if len(t) == width]
            yield name, tables, np.ones(len(tables))
        # one attribute has one table, whose weight does not matter
        while len(every) > 1:
            chosen = rng.choice(len(every), rng.integers(1, len(every) + 1), replace=False)
            yield "random", [every[k] for k in chosen], np.exp(rng.normal(0, 1.5, len(chosen)))

    for name, tables, weights in islice(named(), count):
        yield name, TableWorkload(np.asarray(sizes), singles(len(sizes)), tuple(tables), weights)


def measured(sizes: Sizes, total: float) -> Iterator[dict[str, object]]:
    """Both over the optimum, for every workload."""
    for name, workload in workloads(sizes):
        best = exact_optimum(workload, total)
        yield {
            "sizes": " ".join(map(str, sizes)),
            "total": total,
            "workload": name,
            "spectra used": int(np.count_nonzero(best.shares > ALIKE)),
            "optimum": best.error,
            "mixture over optimum": mixture(workload, total).error / best.error,
            "bound over optimum": error_bound(workload, total) / best.error,
        }


def report(rows: list[dict]) -> str:
    several = [r for r in rows if " " in r["sizes"]]
    ranges = "median | 90 % | largest | equal |", "median | 10 % | least | equal |"
    lines = [
        f"Mixtures of questions, and the bound, over the least error of any ε-LDP mechanism: all {len(domains())} "
        "domains of "
        f"at most {MOST_CELLS} cells, {WORKLOADS} workloads for each domain of several attributes (all tables of one, "
        "of two "
        f"and of three; random tables of random weights). Equal means to a relative {ALIKE:g}.",
        "",
        f"| total ε | workloads | mixture: {ranges[0]} above 1.02 | bound: {ranges[1]}",
        "|---" * 11 + "|",
    ]
    for total in TOTALS:
        chosen = [r for r in several if r["total"] == total]
        above, below = (np.array([r[f"{what} over optimum"] for r in chosen]) for what in ("mixture", "bound"))
        shown = (np.median(above), np.quantile(above, 0.9), above.max())
        under = (np.median(below), np.quantile(below, 0.1), below.min())
        lines.append(
            f"| {total:g} | {len(chosen)} | {' | '.join(f'{x:.4f}' for x in shown)} | {np.mean(above < 1 + ALIKE):.0%} "
            f"| {np.mean(above > 1.02):.1%} | {' | '.join(f'{x:.4f}' for x in under)} | "
            f"{np.mean(below > 1 - ALIKE):.0%} |"
        )
    worst = max(rows, key=lambda r: r["mixture over optimum"])
    one = [r[f"{what} over optimum"] for r in rows if " " not in r["sizes"] for what in ("mixture", "bound")]
    lines += [
        "",
        f"The mixture is furthest from the optimum for sizes {worst['sizes']} at ε = {worst['total']:g}. "
        f"For one attribute both are the optimum, to a relative {max(abs(x - 1) for x in one):.0e}.",
    ]
    return "\n".join(lines)


def main() -> None:
    rows = [row for sizes in domains() for total in TOTALS for row in measured(sizes, total)]
    if (
        min(r["mixture over optimum"] for r in rows) < 1 - CLOSE
        or max(r["bound over optimum"] for r in rows) > 1 + CLOSE
    ):
        raise AssertionError("a mixture is below the optimum, or the bound is above it")
    write_csv("exact_optimum.csv", rows)
    write_text("exact_optimum.md", report(rows))


if __name__ == "__main__":
    main()
