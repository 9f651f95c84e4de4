"""Tests of the proportions of one attribute set: in one group against given ones, and in several groups against each other.

    Goodness of fit, π = π_0:    T = n Σ (λ̂ − λ_0)²/λ_0,  λ_0 = Pᵀπ_0,  df = R − 1, counts multinomial (n, λ_0): Rao's score
                                 test, because P is invertible and the alternative therefore leaves λ free;
    Homogeneity of G groups:     T = Σ_g n_g Σ (λ̂_g − λ̂)²/λ̂,  λ̂ of all groups together, df = (G−1)(R−1).

p-values come from χ², or, where some report expects few records, from tables drawn from λ_0 or λ̂: the first is the exact law,
so that a drawn test rejects at level α at most α of the time. Pᵀ is injective, so reports have the same law in every group only
where people have.

With mechanisms P_g that differ between groups:

    T = min over π of Σ_g n_g Σ (λ̂_g − P_gᵀπ)²/λ̃_g,    λ̃_g = P_gᵀπ̃,    df = (G−1)(R−1),

with π̃ the likeliest common *proper* distribution. The minimum is over every π that sums to 1, proper or not, as the
alternative leaves every λ_g free: were π kept proper there, a category that nobody has would add its noise to T and to nothing
else. π̃ only weighs, so that its own errors do not count at first order, and it is never near an impossible report. With one
mechanism, and no estimate below 0, T is Pearson's statistic.

The test that is wrong on randomized records is here for warnings and comparisons only (design §4.4, POR §V-B). Pearson's χ² of
the randomized counts is valid only where λ_ij = λ_i λ_j (Kronecker) or a true margin is uniform. Elsewhere its type I error
grows with the number of records, up to 100 %. The warning example, at nominal 5 %, beside the score test, on independent
attributes with shares falling as 1/k (2000 tables each; the optimum for sizes 6, 3 and 4 at ε_i = 2):

    n          naive    score
    1,000      14 %     5.5 %
    10,000     93 %     5.1 %
    100,000    100 %    5.5 %
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optrr.core.errors import InvalidInput
from optrr.core.estimation.distributions import chi2
from optrr.core.estimation.likelihood import likeliest_weights
from optrr.core.estimation.plausibility import warn_of_records
from optrr.core.inference.result import TestResult, calibrated_result, check_testable
from optrr.core.inference.simulation import FIT_WORK, Draw, LimitOrDrawn, Simulation, drawn_statistics, in_blocks
from optrr.core.mechanisms.kernel import Kernel
from optrr.core.mechanisms.mechanism import Randomizer, kernel_from
from optrr.core.records.counts import Counts
from optrr_solvers.arrays import FloatArray, IntArray

# The most cells drawn for one p-value: random tables for about two seconds.
_MOST_CELLS = 20_000_000
# Newton's matrices and the distortion matrices grow with the square of the cells: 8 MB a group at this size.
_MAX_CELLS = 1024
# Bound on the distance of the common fit from the likeliest one, in nats per record. The fit only sets weights, so this need
# not be small.
_TOLERANCE = 1e-10
# Work of one simulation between different mechanisms: draws times the cube of the cells, a few seconds.
_MOST_WORK = 50_000_000
_FEWEST_DRAWS = 1999
# An expected share this small is 0: the mechanism changes nothing there and nobody reports it.
_IMPOSSIBLE = 1e-12


def goodness_tests(
    tables: FloatArray, expected: FloatArray, rng: np.random.Generator, rule: Simulation | None = None
) -> LimitOrDrawn:
    """Tables of counts (B, R) against expected proportions (R,) that sum to 1. Cells that expect nothing may be 0 only."""
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
    """Pearson's statistic of *randomized* counts as if they were true: statistics (B,), df, p-values (B,). Not valid.

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

    ``random_state`` is of the simulation of sparse tables.

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


def checked_proportions(proportions: ArrayLike, shape: tuple[int, ...], what: str = "hypothesis") -> FloatArray:
    """Proportions of this shape, summing to 1. Raises InvalidInput for others."""
    pi = np.asarray(proportions, dtype=np.float64)
    # written as a condition that must hold, so that a NaN is refused too
    if pi.shape != shape or not pi.min() >= 0 or not np.isclose(pi.sum(), 1):
        raise InvalidInput(
            f"the {what} must be proportions of shape {shape}, none negative, that sum to 1, got shape {pi.shape}, sum "
            f"{pi.sum():.6g} and smallest {pi.min():.6g}; of estimates take those of method projection"
        )
    return np.asarray(pi / pi.sum())


def check_sizes(counts: Counts, kernel: Kernel) -> None:
    """Raise InvalidInput for no records, or a kernel of another table."""
    if kernel.sizes != counts.table.shape:
        raise InvalidInput(
            f"the kernel is of sizes {kernel.sizes} and the table of {counts.table.shape}; give the kernel of these attributes"
        )
    if counts.n == 0:
        raise InvalidInput("a table counts no records; leave it out")


def homogeneity(
    groups: Sequence[Counts],
    mechanisms: Randomizer | Kernel | Sequence[Randomizer | Kernel],
    *,
    random_state: int | np.random.Generator | None = None,
) -> TestResult:
    """Test that several groups of people have the same true proportions of one attribute set.

    Parameters
    ----------
    groups
        counts of every group, over the same attributes; at least two, none empty.
    mechanisms
        one for all groups or one for each.
    random_state
        of the simulation of sparse tables.

    Raises
    ------
    InvalidInput
        for fewer than two groups, an empty one, different domains, a kernel of other sizes, or, with several mechanisms, more
        than 1024 cells.
    """
    if len(groups) < 2 or any(g.domain != groups[0].domain for g in groups):
        raise InvalidInput(f"{len(groups)} groups of counts; give at least two over the same attributes and categories")
    each = list(mechanisms) if isinstance(mechanisms, Sequence) else [mechanisms]
    if len(each) not in (1, len(groups)):
        raise InvalidInput(f"{len(each)} mechanisms for {len(groups)} groups; give one for all or one for each")
    each = each * len(groups) if len(each) == 1 else each
    kernels = [kernel_from(m, groups[0].domain.names) for m in each]
    for group, mechanism, kernel in zip(groups, each, kernels, strict=True):
        check_sizes(group, kernel)
        # each group by itself, so that every one that is in doubt is told of
        warn_of_records([group], mechanism)
    tables = np.stack([g.table.ravel() for g in groups])[None]
    tested = Homogeneity.of(kernels).tested(tables, np.random.default_rng(random_state))
    return calibrated_result("homogeneity", tested, int(tables.sum()))


@dataclass(frozen=True, eq=False)
class Homogeneity:
    """The test for groups; ``matrices`` P_g, (G, R, R), or None where all groups have one mechanism."""

    matrices: FloatArray | None

    @classmethod
    def of(cls, kernels: Sequence[Kernel]) -> "Homogeneity":
        """For groups with these kernels. Raises InvalidInput for different ones of many cells; SingularMarginal."""
        first = kernels[0]
        for kernel in dict.fromkeys(kernels):
            kernel.check_invertible()
        if all(k is first for k in kernels):
            return cls(None)
        if first.cells > _MAX_CELLS:
            raise InvalidInput(
                f"the table has {first.cells} cells; homogeneity between different mechanisms takes at most {_MAX_CELLS}"
            )
        matrices = np.stack([k.matrix() for k in kernels])
        return cls(None if np.array_equal(matrices, np.broadcast_to(matrices[0], matrices.shape)) else matrices)

    def work(self, groups: int, cells: int) -> int:
        """Multiplications that one table takes, about."""
        return groups * cells if self.matrices is None else FIT_WORK + 10 * cells**2 * (groups + cells)

    def tested(
        self, tables: NDArray[np.integer], rng: np.random.Generator, rule: Simulation | None = None
    ) -> LimitOrDrawn:
        """Of tables (B, G, R) with the same number of records in each group."""
        groups, cells = tables.shape[1:]
        n = tables[0].sum(axis=1)
        statistic, expected = self.statistics(tables)

        def draw_from(where: IntArray) -> Draw:
            law = expected[where] / expected[where].sum(axis=2, keepdims=True)

            def draw(of: IntArray, size: int) -> FloatArray:
                drawn = rng.multinomial(n[None, None], law[of, None], size=(of.size, size, groups))
                return self.statistics(drawn.reshape(-1, groups, cells))[0].reshape(of.size, size)

            return lambda of, size: in_blocks(of, size, groups * cells * (1 if self.matrices is None else cells), draw)

        affordable = Simulation.most if self.matrices is None else max(_FEWEST_DRAWS, _MOST_WORK // (cells**2 * groups))
        rule = rule or Simulation(most=min(_rule(groups * cells).most, affordable))
        fewest = (n[:, None] * expected).min(axis=(1, 2))
        return LimitOrDrawn.of(statistic, (groups - 1) * (cells - 1), fewest, draw_from, rule)

    def statistics(self, tables: NDArray[np.integer]) -> tuple[FloatArray, FloatArray]:
        """T of tables (B, G, R) with the same number of records in each group, and λ̃, (B, G, R)."""
        n = tables[0].sum(axis=1).astype(np.float64)
        observed = tables / n[:, None]
        if self.matrices is None:
            pooled = np.broadcast_to(tables.sum(axis=1, keepdims=True) / n.sum(), tables.shape)
            return np.sum(_distance(n[:, None] * observed, n[:, None] * pooled), axis=1), pooled
        expected = self._likeliest(observed, n)
        difference = observed - expected
        scaled = n[:, None] / expected
        cells = expected.shape[2]
        tangent = np.concatenate([np.eye(cells - 1), -np.ones((cells - 1, 1))], axis=1) @ self.matrices
        information = np.einsum("gar,zgr,gbr->zab", tangent, scaled, tangent, optimize=True)
        slope = np.einsum("gar,zgr->za", tangent, scaled * difference)
        scale = 1 / np.sqrt(np.einsum("zaa->za", information))
        correlation = information * scale[:, :, None] * scale[:, None, :]
        explained = np.linalg.solve(correlation, (scale * slope)[:, :, None])[:, :, 0]
        statistic = np.sum(scaled * difference**2, axis=(1, 2)) - np.sum(scale * slope * explained, axis=1)
        return np.maximum(statistic, 0.0), expected

    def _likeliest(self, observed: FloatArray, n: FloatArray) -> FloatArray:
        """Expected reports at the likeliest common proper π: a mixture over (group, report)."""
        assert self.matrices is not None
        groups, cells = observed.shape[1:]
        share = n / n.sum()
        components = np.moveaxis(share[:, None, None] * self.matrices, 0, 1).reshape(1, cells, groups * cells)
        start = np.full((observed.shape[0], cells), 1 / cells)
        flat = (share[:, None] * observed).reshape(-1, groups * cells)
        weights, _, _ = likeliest_weights(flat, components, start, _TOLERANCE)
        # the weight of a report that is impossible, and that nobody made, must stay finite
        return np.asarray(np.maximum(np.einsum("za,gar->zgr", weights, self.matrices), _IMPOSSIBLE))
