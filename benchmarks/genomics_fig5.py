"""POR Fig. 5 as published, then with unbiased statistics, then with the certified optimum; benchmarks/results/genomics_fig5.*.

Run as ``python benchmarks/genomics_fig5.py [SETS] [OPTIMA]``: how many draws of the ε_i (20 unless told), and for how many
of them the optimum is solved at 50 SNPs (6 unless told), with half as many at 100.
Setting of POR §V-B: N = 2000 people, one allele × status attribute of size 4 for each SNP, a ~ Bin(N, 1/3),
b ~ Bin(N−a, 1/3), c ~ Bin(N−a−b, 2/5), ε_i uniform in 3..5, error = mean |χ² − χ²_true|.

    requested   randomized response at the ε_i asked for: the accuracy that POR's heuristic and the optimum promise
    heuristic   POR's, which replaces some of the ε_i; its total E is what kronecker and optimum may spend
    ascending   POR's heuristic with the ε_i in ascending order: which ε_i it lowers or raises depends on the order
    kronecker   every ε_i scaled down until they sum to E
    optimum     every ε_i scaled until the certified optimum's total is E (within 0.01, or 0.1 beyond 20 SNPs)

A SNP's reports under any of these are ordinary randomized response at its achieved ε_i, so its counts are drawn directly;
the row "records" runs POR's heuristic on whole records instead, as a check.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

from optrr.charts import COLOURS, new_figure
from optrr.genomics.effects import PairEigenvalues
from optrr.genomics.scores import association_chi_squared, naive_score_test, score_test
from optrr_solvers import Law, Problem, Solution, SolveOptions, solve
from optrr_solvers.randomness import as_source, bounded

PEOPLE = 2000
SIZES = (10, 20, 50, 100)
RUNS = 25
CELLS = 4
# nats; a hundredth of one changes no error here in its third digit, a tenth beyond 20 SNPs none by more than two hundredths
FINE, COARSE, FEW = 0.01, 0.1, 20
# Gap that beyond 20 SNPs the solver may leave between its bounds: the upper one is then already within a tenth of the optimum.
GAP = 0.5
# First step of the search for a factor, and how far beyond the expected one later searches step.
STEP, BEYOND = 0.04, 1.3
# POR's plot, read off: mean errors over its 10 to 100 SNPs
PUBLISHED = {"heuristic": 20.0, "kronecker": 63.0}
RESULTS = Path(__file__).parent / "results"
PLAIN = PairEigenvalues.untouched()
METHODS = ("requested", "heuristic", "ascending", "records", "kronecker", "optimum")


def true_counts(generator: np.random.Generator, snps: int) -> np.ndarray:
    """Shape (RUNS, snps, 4): allele × status."""
    a = generator.binomial(PEOPLE, 1 / 3, size=(RUNS, snps))
    b = generator.binomial(PEOPLE - a, 1 / 3)
    c = generator.binomial(PEOPLE - a - b, 2 / 5)
    return np.stack([a, b, c, PEOPLE - a - b - c], axis=-1)


def eigenvalues(epsilons: np.ndarray) -> np.ndarray:
    return np.expm1(epsilons) / (np.exp(epsilons) + CELLS - 1)


def randomized(generator: np.random.Generator, counts: np.ndarray, epsilons: np.ndarray) -> np.ndarray:
    """Counts after randomized response at each SNP's ε."""
    lam = eigenvalues(epsilons)[None, :, None, None]
    matrix = lam * np.eye(CELLS) + (1 - lam) / CELLS
    out = np.zeros_like(counts)
    for cell in range(CELLS):
        out += generator.multinomial(counts[..., cell], np.broadcast_to(matrix[:, :, cell], (*counts.shape[:2], CELLS)))
    return out


def through_records(generator: np.random.Generator, counts: np.ndarray, law: Law) -> np.ndarray:
    """Counts after whole records went through the law; people are matched at random across SNPs."""
    out = np.zeros_like(counts)
    source = as_source(generator)
    for run in range(counts.shape[0]):
        codes = np.stack([generator.permutation(np.repeat(np.arange(CELLS), c)) for c in counts[run]], axis=1)
        changes = law.sample(PEOPLE, source)
        codes[changes] = (codes[changes] + 1 + bounded(source, int(changes.sum()), CELLS - 1)) % CELLS
        out[run] = [np.bincount(column, minlength=CELLS) for column in codes.T]
    return out


def errors(counts: np.ndarray, perturbed: np.ndarray, epsilons: np.ndarray) -> tuple[float, float]:
    """Mean |χ² − χ²_true| of the naive statistic and of the one from the unbiased table."""
    true = score_test(counts.reshape(-1, 2, 2), PLAIN, "allelic")
    lam = np.tile(eigenvalues(epsilons), counts.shape[0])
    seen = perturbed.reshape(-1, 2, 2)
    naive = naive_score_test(seen, "allelic").statistic
    debiased = association_chi_squared(seen, PairEigenvalues(lam, lam, lam), "allelic")
    return float(np.mean(np.abs(naive - true.statistic))), float(np.mean(np.abs(debiased - true.statistic)))


@dataclass
class Search:
    """``factor`` of the ε_i at which the last draw's optimum was found, and the total's ``slope`` there: the next is near."""

    factor: float = 1.0
    slope: float = 0.0

    def optimum_at(self, total: float, epsilons: np.ndarray) -> Solution:
        """The optimum for the ε_i scaled by one factor, its total within the tolerance of ``total``."""
        near = FINE if epsilons.size <= FEW else COARSE
        found: dict[float, Solution] = {}

        def excess(factor: float) -> float:
            problem = Problem(np.full(epsilons.size, CELLS), factor * epsilons)
            found[factor] = solve(problem, "auto", SolveOptions(tolerance=near if near == FINE else GAP))
            over = found[factor].upper - total
            # exactly 0 ends the search
            return over if abs(over) > near else 0.0

        first = last = excess(self.factor)
        other, step = self.factor, BEYOND * abs(first) / self.slope if self.slope else STEP
        while first * last > 0:
            other -= np.sign(first) * step
            last, step = excess(other), 2 * step
        if first * last < 0:
            self.slope = (last - first) / (other - self.factor)
        self.factor = other if last == 0 else self.factor if first == 0 else brentq(excess, self.factor, other)
        return found[self.factor]


def one_set(
    generator: np.random.Generator, snps: int, search: Search | None
) -> Iterator[tuple[str, float, float, float, float]]:
    """Method, total, mean ε_i, naive error, unbiased error."""
    epsilons = generator.uniform(3, 5, snps)
    counts = true_counts(generator, snps)
    heuristic = solve(Problem(np.full(snps, CELLS), epsilons), "inductive")
    achieved = heuristic.attribute_epsilons
    ascending = solve(Problem(np.full(snps, CELLS), np.sort(epsilons)), "inductive")
    total = heuristic.upper
    each = {
        "requested": (np.nan, epsilons),
        "heuristic": (total, achieved),
        "ascending": (ascending.upper, ascending.attribute_epsilons),
        "kronecker": (total, epsilons * total / epsilons.sum()),
    }
    if search is not None:
        best = search.optimum_at(total, epsilons)
        each["optimum"] = (best.upper, best.attribute_epsilons)
    for name, (spent, own) in each.items():
        yield name, spent, float(own.mean()), *errors(counts, randomized(generator, counts, own), own)
    seen = through_records(generator, counts[:4], heuristic.law)
    yield "records", total, float(achieved.mean()), *errors(counts[:4], seen, achieved)


def rows_of(snps: int, sets: int, optima: int) -> list[list[object]]:
    """Every method at this number of SNPs."""
    generator = np.random.default_rng(snps)
    found: dict[str, list[tuple[float, float, float, float]]] = {name: [] for name in METHODS}
    search = Search()
    for k in range(sets):
        for name, *values in one_set(generator, snps, search if snps <= FEW or k * snps < optima * 50 else None):
            found[name].append(tuple(values))
    rows: list[list[object]] = []
    for name in METHODS:
        if not found[name]:
            continue
        values = np.array(found[name])
        spread = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.full(4, np.nan)
        pairs = zip(values.mean(axis=0), spread, strict=True)
        rows.append([snps, name, len(values), *(f"{x:.3f}" for pair in pairs for x in pair)])
        print(*rows[-1], flush=True)
    return rows


def main(sets: int, optima: int) -> None:
    write([row for snps in SIZES for row in rows_of(snps, sets, optima)])


def write(rows: list[list[object]]) -> None:
    columns = [
        "snps",
        "method",
        "sets",
        "total",
        "total_se",
        "epsilon",
        "epsilon_se",
        "naive",
        "naive_se",
        "unbiased",
        "unbiased_se",
    ]
    with (RESULTS / "genomics_fig5.csv").open("w", newline="") as out:
        csv.writer(out).writerows([columns, *rows])
    draw([dict(zip(columns, row, strict=True)) for row in rows])


def draw(rows: list[dict[str, str]]) -> None:
    figure = new_figure(9.0, 3.8)
    for place, (key, title) in enumerate(
        (("naive", "as published: naive statistics"), ("unbiased", "unbiased statistics"))
    ):
        axes = figure.add_subplot(1, 2, place + 1)
        for name, colour in zip(METHODS, COLOURS, strict=False):
            mine = [r for r in rows if r["method"] == name]
            x, y, e = ([float(r[c]) for r in mine] for c in ("snps", key, f"{key}_se"))
            axes.errorbar(x, y, yerr=np.nan_to_num(e), color=colour, marker="o", markersize=4, label=name)
        for name, level in PUBLISHED.items() if key == "naive" else ():
            axes.axhline(level, color=COLOURS[METHODS.index(name)], linewidth=0.8, linestyle=":")
        axes.set_xlabel("SNPs")
        axes.set_ylabel("mean |χ² − χ² of the true table|")
        axes.set_ylim(bottom=0)
        axes.set_title(title, fontsize=9)
        axes.legend(fontsize=7)
    figure.savefig(RESULTS / "genomics_fig5.svg", metadata={"Date": None})


if __name__ == "__main__":
    given = [int(x) for x in sys.argv[1:3]]
    main(*given, *(20, 6)[len(given) :])
