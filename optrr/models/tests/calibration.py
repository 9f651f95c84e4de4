"""p-values of tests of association, for many tables at once: from the χ² limit where it is good, from simulation elsewhere.

Under the null hypothesis the true attributes are independent, and what is left unknown are their margins.

Where the mechanism randomizes the two attributes independently of each other, reports are independent too. Given their
margins, every way to pair the reports of one attribute with those of the other is then alike: a permutation test, exact for
every statistic. Under other mechanisms reports are dependent by a known kernel and unknown margins, and tables are drawn from
the fitted null hypothesis (the parametric bootstrap), whose error they keep.

A score test trusts χ² where every report expects `MANY_EXPECTED` records and p is not below
:func:`~optrr.models.tests.tail.reliable_down_to`; far in the tail of such tables, tilted simulation. It is the reports that
count: categories that nobody has do no harm where the mechanism fills them. The likelihood ratio trusts χ² where no cell of the
fitted null hypothesis is near 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optrr.domain.scores import PairScores
from optrr.mechanisms.kernel import Kernel
from optrr.mechanisms.kernel.effects import EffectKernel
from optrr.mechanisms.kernel.products import ProductKernel
from optrr.models.tests.chi_square import MANY_EXPECTED
from optrr.models.tests.likelihood_ratio import likelihood_ratios, padded_null
from optrr.models.tests.nullfit import Fitter, NullFit
from optrr.models.tests.score import score_tests
from optrr.models.tests.simulation import MOST_RECORDS, SimulatedP, Simulation, dealt, in_blocks, simulated_p_values
from optrr.models.tests.tail import reliable_down_to
from optrr_solvers.arrays import FloatArray, IntArray

# Where every report expects many records, the χ² limit holds for all p-values above this.
_SURE = 0.05
# λ_ab may differ from λ_a λ_b by rounding.
_SEPARATE = 1e-12
# The most multiplications of one simulation, which take about two seconds.
_MOST_WORK = 400_000_000
# Simulations of fewer draws say little, so tables for which even these take more than about ten seconds are not simulated.
_FEWEST_DRAWS, _LARGEST_WORK = 999, 2_000_000


@dataclass(frozen=True, eq=False)
class Association:
    """A test made concrete: the kernel, the contrasts (K, r_a, r_b), the null hypothesis, what is to be said, its scores."""

    name: str
    kernel: Kernel
    contrasts: FloatArray
    fitter: Fitter
    warnings: tuple[str, ...] = ()
    scores: PairScores | None = None

    @property
    def is_ratio(self) -> bool:
        """Whether it is the likelihood ratio, which knows no contrasts."""
        return self.name == "likelihood-ratio"

    @property
    def work(self) -> int:
        """Multiplications that one table takes, about."""
        if self.is_ratio:
            return self.kernel.cells**3
        margins = sum(self.kernel.sizes)
        return self.kernel.cells * (len(self.contrasts) ** 2 + 6 * margins**2)

    def statistics(self, tables: FloatArray) -> FloatArray:
        """The test's statistic for a batch of tables (B, r_a, r_b)."""
        if self.is_ratio:
            return likelihood_ratios(tables, self.kernel).statistic
        return score_tests(tables, self.kernel, self.contrasts, self.fitter).statistic


@dataclass(frozen=True, eq=False)
class Limit:
    """What the χ² limit says of a batch, shape (B,): the ``fewest`` records that a report expects, and where χ² ``holds``.

    ``down_to`` is the p-value down to which it holds, infinite where it does not at all, 0 where it was not sought.
    """

    statistic: FloatArray
    df: int
    p_value: FloatArray
    effect: FloatArray
    fit: NullFit
    fewest: FloatArray
    down_to: FloatArray

    @property
    def holds(self) -> NDArray[np.bool_]:
        """Whether the p-value is within a factor of two."""
        return self.p_value >= self.down_to

    def part(self, which: IntArray) -> Limit:
        """The limit for some of the tables."""
        fit = self.fit.part(which)
        statistic, p, effect = self.statistic[which], self.p_value[which], self.effect[which]
        return Limit(statistic, self.df, p, effect, fit, self.fewest[which], self.down_to[which])


def chi_square_limit(test: Association, tables: FloatArray) -> Limit:
    """χ² p-values of tables (B, r_a, r_b) and how far they can be trusted."""
    n = tables.sum(axis=(1, 2))
    if test.is_ratio:
        ratios = likelihood_ratios(tables, test.kernel)
        down_to = np.where(ratios.near_boundary, np.inf, 0.0)
        nothing = np.full(n.size, np.nan)
        fewest = n * ratios.fit.expected.min(axis=(1, 2))
        return Limit(ratios.statistic, ratios.df, ratios.p_value, nothing, ratios.fit, fewest, down_to)
    scores = score_tests(tables, test.kernel, test.contrasts, test.fitter)
    fewest = n * scores.fit.expected.min(axis=(1, 2))
    many = fewest >= MANY_EXPECTED
    down_to = np.where(many, 0.0, np.inf)
    small = np.flatnonzero(many & (scores.p_value < _SURE))
    if small.size:
        fit = scores.fit.part(small)
        down_to[small] = reliable_down_to(fit, n[small], test.kernel, test.contrasts)
    return Limit(scores.statistic, scores.df, scores.p_value, scores.effect, scores.fit, fewest, down_to)


def can_be_simulated(test: Association) -> bool:
    """Whether simulation ends in about ten seconds."""
    return test.work <= _LARGEST_WORK


def affordable(test: Association) -> Simulation:
    """How many tables can be drawn in about two seconds."""
    return Simulation(most=min(Simulation.most, max(_FEWEST_DRAWS, _MOST_WORK // test.work)))


def is_separable(kernel: Kernel) -> bool:
    """Whether the two attributes are randomized independently: reports are then independent where people are."""
    if isinstance(kernel, EffectKernel):
        one = kernel.eigenvalues
        return bool(abs(one[1, 1] - one[1, 0] * one[0, 1]) <= _SEPARATE * abs(one[1, 0] * one[0, 1]))
    return isinstance(kernel, ProductKernel) and len(kernel.parts) == 2


def can_be_permuted(test: Association, tables: FloatArray) -> bool:
    """Whether simulation is exact: a separable kernel, and no more records than can be dealt."""
    return is_separable(test.kernel) and bool(tables.sum(axis=(1, 2)).max() < MOST_RECORDS)


def simulated(
    test: Association, tables: FloatArray, limit: Limit, rng: np.random.Generator, rule: Simulation
) -> SimulatedP:
    """p-values of tables (B, r_a, r_b) from permutations where the kernel is separable, from the bootstrap elsewhere."""
    draw_tables = (
        _permuted(tables, rng) if can_be_permuted(test, tables) else _bootstrapped(test, tables, limit.fit, rng)
    )

    def draw(of: IntArray, size: int) -> FloatArray:
        drawn = draw_tables(of, size).reshape(-1, *test.kernel.sizes).astype(np.float64)
        return test.statistics(drawn).reshape(of.size, size)

    doubles = test.kernel.cells
    return simulated_p_values(limit.statistic, lambda of, size: in_blocks(of, size, doubles, draw), rule)


DrawTables = Callable[[IntArray, int], IntArray]


def _permuted(tables: FloatArray, rng: np.random.Generator) -> DrawTables:
    rows, columns = (tables.sum(axis=axis).astype(np.int64) for axis in (2, 1))

    def draw(of: IntArray, size: int) -> IntArray:
        return dealt(rows[of], columns[of], size, rng)

    return draw


def _bootstrapped(test: Association, tables: FloatArray, fit: NullFit, rng: np.random.Generator) -> DrawTables:
    n = tables.sum(axis=(1, 2)).astype(np.int64)
    expected = padded_null(fit, n, test.kernel).expected.reshape(n.size, -1)
    expected /= expected.sum(axis=1, keepdims=True)

    def draw(of: IntArray, size: int) -> IntArray:
        return rng.multinomial(n[of, None], expected[of, None, :], size=(of.size, size))

    return draw
