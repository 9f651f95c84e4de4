"""POR Fig. 5: as published, then with its slip mended, with unbiased statistics, and with the certified optimum.

Setting of POR §V-B: N people, one allele × status attribute for each SNP, a ~ Bin(N, 1/3), b ~ Bin(N−a, 1/3),
c ~ Bin(N−a−b, 2/5), ε_i uniform in 3..5, error = mean |χ² − χ²_true|.

The authors' public code (https://github.com/ay0408/Optimized-RR, Example.ipynb) lays out the records of one SNP after the
other in one array and randomizes only when all are laid out, so that every SNP's reports come from the records of the last
SNP; they are then compared with each SNP's own true statistic. Two rows repeat that slip; all others are without it.

    published heuristic, published Kronecker
                every SNP randomized from the last one's records; Kronecker scales the ε_i that the heuristic achieved
    requested   randomized response at the ε_i asked for: the accuracy that POR's heuristic and the optimum promise
    heuristic   POR's, which replaces some of the ε_i; its total E is what kronecker and optimum may spend
    records     the same on whole records, as a check
    kronecker   every ε_i scaled down until they sum to E
    optimum     every ε_i scaled until the certified optimum's total is E (within 0.01, or 0.1 beyond 20 SNPs)

A SNP's reports under any of these are ordinary randomized response at its achieved ε_i, so its counts are drawn directly.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq

from optrr.errors import InvalidInput
from optrr.genomics.study.running import CellResult, run_grid
from optrr.genomics.tests import Progress, association_chi_squared, naive_score_test
from optrr.mechanisms.kernel import EffectKernel
from optrr.show import SOFTWARE
from optrr.show.result import TableResult
from optrr_solvers import Law, Problem, Solution, SolveOptions, solve
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.randomness import as_source, bounded

if TYPE_CHECKING:
    import pyarrow as pa

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

SIZES = tuple(range(10, 101, 10))
# Where the optimum is solved, too, which takes minutes.
SOLVED = (10, 20, 50, 100)
# So that no two seeds have a number of SNPs whose draws agree.
_APART = 1000


@dataclass(frozen=True)
class PorSetting:
    """Numbers of ``snps``, draws of the ε_i (``repeats``), and for how many at 50 SNPs the optimum is solved (``optima``)."""

    snps: Sequence[int] = SIZES
    repeats: int = 20
    optima: int = 6
    seed: int = 1

    def __post_init__(self) -> None:
        if not self.snps or min(self.snps) < 2 or len(set(self.snps)) < len(self.snps):
            raise InvalidInput(f"numbers of SNPs {list(self.snps)}; give different ones of at least 2")
        if self.repeats < 2:
            raise InvalidInput(f"{self.repeats} repeats; give at least 2, standard errors come from their spread")
        if self.optima < 0:
            raise InvalidInput(f"{self.optima} optima; give 0 or more")

    @property
    def digest(self) -> str:
        """Of the setting and the version."""
        return hashlib.sha256(json.dumps([asdict(self), SOFTWARE]).encode()).hexdigest()


@dataclass(frozen=True)
class PorRow:
    """Means over ``repeats`` draws of the ε_i, and standard errors between them.

    ``total`` ε in nats, ``epsilon`` the mean ε_i, ``naive`` and ``unbiased`` mean |χ² − χ² of the true table| of the statistic
    of the perturbed counts and of the one from the unbiased table.
    """

    snps: int
    method: str
    repeats: int
    total: float
    total_se: float
    epsilon: float
    epsilon_se: float
    naive: float
    naive_se: float
    unbiased: float
    unbiased_se: float


@dataclass(frozen=True, eq=False, repr=False)
class PorErrors(TableResult):
    """The rows of Fig. 5, and the digest of its setting and version."""

    setting: PorSetting
    digest: str
    rows: tuple[PorRow, ...]

    in_summary = ("setting", "digest", "rows")
    drawn = ("naive",)

    def _keys(self) -> int:
        return 1

    def headline(self) -> str:
        """What was repeated, and how often."""
        numbers = ", ".join(map(str, self.setting.snps))
        return f"POR Fig. 5: {PEOPLE} people, {numbers} SNPs, {self.setting.repeats} draws of the ε_i each"

    def to_arrow(self) -> pa.Table:
        """One row for each number of SNPs and way."""
        import pyarrow as pa  # noqa: PLC0415 (slow to import, and --help needs none of it)

        # the way first, by which charts name rows
        names = ("method", *(name for name in PorRow.__dataclass_fields__ if name != "method"))
        return pa.table({name: [getattr(row, name) for row in self.rows] for name in names})


def run_por(setting: PorSetting, progress: Progress | None = None, state: Path | None = None) -> PorErrors:
    """The experiment; twenty minutes with the optimum, seconds without it (``optima=0``).

    ``progress`` is told how many of how many numbers of SNPs are done; ``state`` is a file that keeps finished ones
    (:func:`optrr.genomics.study.running.run_grid`).
    """
    rows: list[PorRow] = []
    names = [str(n) for n in setting.snps]
    for name, kept in run_grid(names, lambda name: _cell(int(name), setting), setting.digest, state):
        rows += [PorRow(int(name), way, *numbers) for way, numbers in kept.items()]
        if progress is not None:
            progress(names.index(name) + 1, len(names))
    return PorErrors(setting, setting.digest, tuple(rows))


def _cell(snps: int, setting: PorSetting) -> CellResult:
    """Every way at this number of SNPs: the fields of its row."""
    generator = np.random.default_rng(snps + _APART * (setting.seed - 1))
    measured: dict[str, list[tuple[float, float, float, float]]] = {name: [] for name in WAYS}
    search = ScaledOptimum()
    for k in range(setting.repeats):
        solved = snps in SOLVED and setting.optima > 0 and (snps <= FEW or k * snps < setting.optima * 50)
        for name, *values in one_set(generator, snps, search if solved else None):
            measured[name].append((values[0], values[1], values[2], values[3]))
    out: CellResult = {}
    for name, each in measured.items():
        if each:
            drawn = np.array(each)
            spread = drawn.std(axis=0, ddof=1) / np.sqrt(len(drawn)) if len(drawn) > 1 else np.full(4, np.nan)
            out[name] = [len(drawn), *np.stack([drawn.mean(axis=0), spread], axis=1).ravel().tolist()]
    return out


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
        out[run] = allele_tables(codes).reshape(-1, CELLS)
    return out


def allele_tables(records: IntArray) -> IntArray:
    """Counts of allele × status of every SNP, (V, 2, 2), from records (n, V) of the codes 2 · allele + status."""
    return np.stack([np.bincount(column, minlength=CELLS) for column in records.T]).reshape(-1, 2, 2)


def naive_chi_squared(tables: IntArray) -> FloatArray:
    """Pearson's χ² of tables (V, 2, 2) of allele × status, which takes randomized counts for true ones; (V,)."""
    return naive_score_test(tables).statistic


def statistic_errors(counts: IntArray, perturbed: IntArray, epsilons: FloatArray) -> tuple[float, float]:
    """Mean |χ² − χ²_true| of the naive statistic and of the one from the unbiased table."""
    true = naive_chi_squared(counts.reshape(-1, 2, 2))
    lam = np.tile(eigenvalues(epsilons), counts.shape[0])
    seen = perturbed.reshape(-1, 2, 2)
    naive = naive_chi_squared(seen)
    # one report in four: every effect of allele and status shrinks alike
    shrunk = np.broadcast_to(lam[:, None, None], (lam.size, 2, 2)).copy()
    shrunk[:, 0, 0] = 1.0
    debiased = association_chi_squared(seen, EffectKernel((2, 2), shrunk))
    return float(np.mean(np.abs(naive - true))), float(np.mean(np.abs(debiased - true)))


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
