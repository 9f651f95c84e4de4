"""Tests of the proportions of one attribute set: in one group against given ones, and in several groups against each other.

    Goodness of fit, π = π_0:    T = n Σ (λ̂ − λ_0)²/λ_0,  λ_0 = Pᵀπ_0,  df = R − 1, counts multinomial (n, λ_0): Rao's score
                                 test, because P is invertible and the alternative therefore leaves λ free;
    Homogeneity of G groups:     T = Σ_g n_g Σ (λ̂_g − λ̂)²/λ̂,  λ̂ of all groups together, df = (G−1)(R−1).

p-values come from χ², or, where some report expects few records, from tables drawn from λ_0 or λ̂: the first is the
exact law, so that a drawn test rejects at level α at most α of the time. Pᵀ is injective, so reports have the same law
in every group only if the true records have.

The test that is wrong on randomized records is here for warnings and comparisons only (theory §4.4, POR §V-B).
Pearson's χ² of the randomized counts is valid only where λ_ij = λ_i λ_j (independent RR) or a true margin is uniform.
Elsewhere its type I error grows with the number of records, up to 100 %. The warning example, at nominal 5 %, with the
score test for comparison, on independent attributes with proportions falling as 1/k (2000 tables each; the optimum for
sizes 6, 3 and 4 at ε_i = 2):

    n          naive    score
    1,000      14 %     5.5 %
    10,000     93 %     5.1 %
    100,000    100 %    5.5 %
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optrr.core.errors import InvalidInput
from optrr.core.estimation.distributions import chi2
from optrr.core.estimation.plausibility import warn_of_records
from optrr.core.inference.result import TestResult, calibrated_result, check_testable
from optrr.core.inference.simulation import Draw, LimitOrDrawn, Simulation, drawn_statistics, in_blocks
from optrr.core.mechanisms.kernel import Kernel
from optrr.core.mechanisms.mechanism import Randomizer, kernel_from
from optrr.core.records.counts import Counts
from optrr_solvers.arrays import FloatArray, IntArray

# The most cells drawn for one p-value: random tables for about two seconds.
_MOST_CELLS = 20_000_000


def goodness_tests(
    tables: FloatArray, expected: FloatArray, rng: np.random.Generator, rule: Simulation | None = None
) -> LimitOrDrawn:
    """Test tables of counts (B, R) against expected proportions (R,).

    The proportions sum to 1. Cells with expectation 0 must have count 0.
    """
    n, cells = tables.sum(axis=1), expected.size

    def statistics(counts: FloatArray) -> FloatArray:
        return _distance(counts, counts.sum(axis=1, keepdims=True) * expected)

    def draw(where: IntArray) -> Draw:
        return drawn_statistics(n[where], np.tile(expected, (where.size, 1)), statistics, cells, rng)

    return LimitOrDrawn.of(statistics(tables), cells - 1, n * expected.min(), draw, rule or _rule(cells))


def _rule(cells: int) -> Simulation:
    return Simulation(most=min(Simulation.most, max(999, _MOST_CELLS // cells)))


def _distance(counts: FloatArray, expected: FloatArray) -> FloatArray:
    difference = (counts - expected) ** 2
    terms = np.divide(difference, expected, out=np.where(difference > 0, np.inf, 0.0), where=expected > 0)
    return np.asarray(terms.sum(axis=-1))


def naive_pearson(tables: FloatArray) -> tuple[FloatArray, int, FloatArray]:
    """Compute Pearson's test of *randomized* counts as if they were true.

    Statistics (B,), df, p-values (B,). Not valid.

    ``tables`` has shape (B, r_a, r_b); rows or columns without records add nothing.
    """
    counts = np.asarray(tables, dtype=np.float64)
    n = counts.sum(axis=(1, 2), keepdims=True)
    expected = counts.sum(axis=2, keepdims=True) * counts.sum(axis=1, keepdims=True) / n
    terms = np.divide((counts - expected) ** 2, expected, out=np.zeros_like(counts), where=expected > 0)
    statistic = terms.sum(axis=(1, 2))
    df = (counts.shape[1] - 1) * (counts.shape[2] - 1)
    return statistic, df, np.asarray(chi2.sf(statistic, df))


def goodness_of_fit(
    counts: Counts,
    mechanism: Randomizer | Kernel,
    proportions: ArrayLike,
    *,
    random_state: int | np.random.Generator | None = None,
) -> TestResult:
    """Test that the true proportions of the counts' attribute set are the given ones.

    ``random_state`` is the seed or generator of the simulation of sparse tables.

    Raises
    ------
    InvalidInput
        for fewer than two records, proportions of another shape, negative, or not summing to 1, or a kernel of other sizes.
    """
    kernel = kernel_from(mechanism, counts.domain.names)
    check_sizes(counts, kernel)
    check_testable(counts.n, "how well proportions fit")
    warn_of_records([counts], mechanism)
    kernel.check_invertible()
    expected = kernel.expected(checked_proportions(proportions, counts.table.shape)).ravel()
    table, rng = counts.table.reshape(1, -1).astype(np.float64), np.random.default_rng(random_state)
    return calibrated_result("goodness-of-fit", goodness_tests(table, expected / expected.sum(), rng), counts.n)


def checked_proportions(proportions: ArrayLike, shape: tuple[int, ...], parameter: str = "proportions") -> FloatArray:
    """Check that proportions have this shape and sum to 1.

    Raises InvalidInput, which names the ``parameter``.
    """
    pi = np.asarray(proportions, dtype=np.float64)
    # written as a condition that must hold, so that a NaN is refused too
    if pi.shape != shape or not pi.min() >= 0 or not np.isclose(pi.sum(), 1):
        raise InvalidInput(
            f"``{parameter}``: numbers of shape {pi.shape} with sum {pi.sum():.6g} and smallest {pi.min():.6g}; give "
            f"proportions of shape {shape} that sum to 1, none negative (of an estimate, those of method projection)"
        )
    return np.asarray(pi / pi.sum())


def check_sizes(counts: Counts, kernel: Kernel) -> None:
    """Raise InvalidInput for no records, or a kernel of another table."""
    if kernel.sizes != counts.table.shape:
        raise InvalidInput(
            f"the kernel is of sizes {kernel.sizes} and the table of {counts.table.shape}; give the kernel of these attributes"
        )
    if counts.n == 0:
        raise InvalidInput("a table counts no records; leave that table out")


def homogeneity(
    groups: Sequence[Counts],
    mechanism: Randomizer | Kernel,
    *,
    random_state: int | np.random.Generator | None = None,
) -> TestResult:
    """Test that several groups have the same true proportions of a table.

    Parameters
    ----------
    groups
        counts of every group, over the same attributes; at least two, none empty.
    mechanism
        Mechanism that randomized all groups.
    random_state
        Seed or generator of the simulation of sparse tables.

    Raises
    ------
    InvalidInput
        for fewer than two groups, an empty one, different domains, or a kernel of other sizes.
    """
    if len(groups) < 2 or any(g.domain != groups[0].domain for g in groups):
        raise InvalidInput(f"{len(groups)} groups of counts; give at least two over the same attributes and categories")
    kernel = kernel_from(mechanism, groups[0].domain.names)
    kernel.check_invertible()
    for group in groups:
        check_sizes(group, kernel)
        # each group by itself, so that each doubtful one gets a warning
        warn_of_records([group], mechanism)
    tables = np.stack([g.table.ravel() for g in groups])[None]
    tested = homogeneity_tests(tables, np.random.default_rng(random_state))
    return calibrated_result("homogeneity", tested, int(tables.sum()))


def homogeneity_tests(
    tables: NDArray[np.integer], rng: np.random.Generator, rule: Simulation | None = None
) -> LimitOrDrawn:
    """Test tables (B, G, R) against one distribution for all groups.

    Every group has the same number of records.
    """
    groups, cells = tables.shape[1:]
    n = tables[0].sum(axis=1)
    statistic, expected = homogeneity_statistics(tables)

    def draw_from(where: IntArray) -> Draw:
        law = expected[where] / expected[where].sum(axis=2, keepdims=True)

        def draw(of: IntArray, size: int) -> FloatArray:
            drawn = rng.multinomial(n[None, None], law[of, None], size=(of.size, size, groups))
            return homogeneity_statistics(drawn.reshape(-1, groups, cells))[0].reshape(of.size, size)

        return lambda of, size: in_blocks(of, size, groups * cells, draw)

    fewest = (n[:, None] * expected).min(axis=(1, 2))
    rule = rule or _rule(groups * cells)
    return LimitOrDrawn.of(statistic, (groups - 1) * (cells - 1), fewest, draw_from, rule)


def homogeneity_statistics(tables: NDArray[np.integer]) -> tuple[FloatArray, FloatArray]:
    """Compute T of tables (B, G, R) and λ̂ of all groups together, (B, G, R).

    Every group has the same number of records.
    """
    n = tables[0].sum(axis=1).astype(np.float64)
    together = np.broadcast_to(tables.sum(axis=1, keepdims=True) / n.sum(), tables.shape)
    return np.sum(_distance(tables.astype(np.float64), n[:, None] * together), axis=1), together
