"""One draw of POR Fig. 5: ε_i, true counts, every way to randomize them, and the errors of the statistics.

:mod:`optrr.genomics.study.por` says what the ways are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from optrr.genomics.tests import association_chi_squared, naive_score_test, score_test
from optrr.mechanisms.kernel import EffectKernel, unrandomized
from optrr_solvers import Law, Problem, Solution, SolveOptions, solve
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.randomness import as_source, bounded

PEOPLE, CELLS, SNP_EPSILONS = 2000, 4, (3, 5)
PUBLISHED = ("published heuristic", "published Kronecker")
WAYS = (*PUBLISHED, "requested", "heuristic", "records", "kronecker", "optimum")
# Draws of counts for each draw of the ε_i, and those of them that go through whole records.
RUNS, _BY_RECORDS = 25, 4
# nats; a hundredth of one changes no error here in its third digit, a tenth beyond 20 SNPs none by more than two hundredths
FINE, COARSE, FEW = 0.01, 0.1, 20
# Gap that beyond 20 SNPs the solver may leave between its bounds: the upper one is then already within a tenth of the optimum.
GAP = 0.5
# First step of the search for a factor, and how far beyond the expected one later searches step.
STEP, BEYOND = 0.04, 1.3
PLAIN = unrandomized((2, 2))


def true_counts(generator: np.random.Generator, snps: int) -> IntArray:
    """Shape (RUNS, snps, 4): allele × status."""
    a = generator.binomial(PEOPLE, 1 / 3, size=(RUNS, snps))
    b = generator.binomial(PEOPLE - a, 1 / 3)
    c = generator.binomial(PEOPLE - a - b, 2 / 5)
    return np.stack([a, b, c, PEOPLE - a - b - c], axis=-1)


def eigenvalues(epsilons: FloatArray) -> FloatArray:
    """Of randomized response over the four cells."""
    return np.asarray(np.expm1(epsilons) / (np.exp(epsilons) + CELLS - 1))


def randomized(generator: np.random.Generator, counts: IntArray, epsilons: FloatArray) -> IntArray:
    """Counts after randomized response at each SNP's ε."""
    lam = eigenvalues(epsilons)[None, :, None, None]
    matrix = lam * np.eye(CELLS) + (1 - lam) / CELLS
    out = np.zeros_like(counts)
    for cell in range(CELLS):
        out += generator.multinomial(counts[..., cell], np.broadcast_to(matrix[:, :, cell], (*counts.shape[:2], CELLS)))
    return out


def through_records(generator: np.random.Generator, counts: IntArray, law: Law) -> IntArray:
    """Counts after whole records went through the law; people are matched at random across SNPs."""
    out = np.zeros_like(counts)
    source = as_source(generator)
    for run in range(counts.shape[0]):
        codes = np.stack([generator.permutation(np.repeat(np.arange(CELLS), c)) for c in counts[run]], axis=1)
        changes = law.sample(PEOPLE, source)
        codes[changes] = (codes[changes] + 1 + bounded(source, int(changes.sum()), CELLS - 1)) % CELLS
        out[run] = [np.bincount(column, minlength=CELLS) for column in codes.T]
    return out


def statistic_errors(counts: IntArray, perturbed: IntArray, epsilons: FloatArray) -> tuple[float, float]:
    """Mean |χ² − χ²_true| of the naive statistic and of the one from the unbiased table."""
    true = score_test(counts.reshape(-1, 2, 2), PLAIN, "allelic")
    lam = np.tile(eigenvalues(epsilons), counts.shape[0])
    seen = perturbed.reshape(-1, 2, 2)
    naive = naive_score_test(seen, "allelic").statistic
    # one report in four: every effect of allele and status shrinks alike
    shrunk = np.broadcast_to(lam[:, None, None], (lam.size, 2, 2)).copy()
    shrunk[:, 0, 0] = 1.0
    debiased = association_chi_squared(seen, EffectKernel((2, 2), shrunk), "allelic")
    return float(np.mean(np.abs(naive - true.statistic))), float(np.mean(np.abs(debiased - true.statistic)))


@dataclass
class ScaledOptimum:
    """``factor`` of the ε_i at which the last draw's optimum was found, and the total's ``slope`` there: the next is near."""

    factor: float = 1.0
    slope: float = 0.0

    def optimum_at(self, total: float, epsilons: FloatArray) -> Solution:
        """The optimum for the ε_i scaled by one factor, its total within the tolerance of ``total``."""
        near = FINE if epsilons.size <= FEW else COARSE
        solutions: dict[float, Solution] = {}

        def excess(factor: float) -> float:
            problem = Problem(np.full(epsilons.size, CELLS), factor * epsilons)
            solutions[factor] = solve(problem, "auto", SolveOptions(tolerance=near if near == FINE else GAP))
            over = solutions[factor].upper - total
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
        return solutions[self.factor]


def one_set(
    generator: np.random.Generator, snps: int, search: ScaledOptimum | None
) -> Iterator[tuple[str, float, float, float, float]]:
    """Method, total, mean ε_i, naive error, unbiased error."""
    epsilons = generator.uniform(*SNP_EPSILONS, snps)
    counts = true_counts(generator, snps)
    heuristic = solve(Problem(np.full(snps, CELLS), epsilons), "inductive")
    achieved = heuristic.attribute_epsilons
    total = heuristic.upper
    each = {
        "requested": (np.nan, epsilons),
        "heuristic": (total, achieved),
        "kronecker": (total, epsilons * total / epsilons.sum()),
    }
    if search is not None:
        best = search.optimum_at(total, epsilons)
        each["optimum"] = (best.upper, best.attribute_epsilons)
    last = np.broadcast_to(counts[:, -1:], counts.shape)
    for name, own in zip(PUBLISHED, (achieved, achieved * total / achieved.sum()), strict=True):
        yield name, total, float(own.mean()), *statistic_errors(counts, randomized(generator, last, own), own)
    for name, (spent, own) in each.items():
        yield name, spent, float(own.mean()), *statistic_errors(counts, randomized(generator, counts, own), own)
    seen = through_records(generator, counts[:_BY_RECORDS], heuristic.law)
    yield "records", total, float(achieved.mean()), *statistic_errors(counts[:_BY_RECORDS], seen, achieved)
