"""Association of genotype and status from randomized tables of many variants: trend and genotypic tests.

The tests are those of :mod:`optrr.core.inference.associations` that are of genotypes: null fit and statistic are the
same for one table and for a scan, and p-values are the scan's own (:mod:`optrr.genomics.tail`). The target is the
population the people were drawn from; a person's two alleles are one observation. A fourth genotype row, where the
mechanism has one, is "missing": it takes part in the estimate, and the hypothesis is about the other three. People with
one copy of a chromosome, such as males for X, are counted separately; the tests are of people with two, as in PLINK's
--model.

The naive test takes randomized counts for true ones. Under the null hypothesis it measures the mechanism's own
dependence, which is (λ_is − λ_i λ_s) times the two margins' departures from uniform ones: nothing where λ_is = λ_i λ_s
(independent randomized response) or where a margin is uniform.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta, chi2

from optrr.core.errors import InvalidInput
from optrr.core.estimation import chi_squared_tails
from optrr.core.inference import ASSOCIATIONS, Association, NullFit, association_class, influence
from optrr.core.mechanisms import Kernel, unrandomized
from optrr.genomics.cohort import Cohort
from optrr.genomics.genotypes import BLOCK, GENOTYPES, MISSING, Codes, copies, single_copy_chromosomes
from optrr.genomics.tail import saddlepoint
from optrr_solvers.arrays import FloatArray, IntArray

Progress = Callable[[int, int], None]

# Genome-wide significance for common variants (Pe'er et al. 2008).
GENOME_WIDE = 5e-8
# A byte can count this many ones.
_ROWS = 255
# Records that noncentralities are worked out for: so many that shares are as good as exact.
_MANY = 1e12
# λ counts as inflated if independent variants without an association have so large a one no more often than this.
_INFLATED = 0.01
# A variance of a person's contrast as small as this is rounding, which may make a matrix of them singular.
_NO_VARIANCE = 1e-15


def genotype_tests() -> dict[str, str]:
    """List the statistics for scans of variants, each with a description."""
    known = {name: association_class(name).of_genotypes for name in ASSOCIATIONS}
    return {name: text for name, text in known.items() if text}


def _statistic(test: str, kernel: Kernel) -> Association:
    """Choose the statistic of tables of genotypes or alleles by status."""
    return association_class(test)(kernel, rows=min(kernel.sizes[0], GENOTYPES))


def association_chi_squared(counts: NDArray[np.number], kernel: Kernel, test: str = "trend") -> FloatArray:
    """Estimate the χ² of the true table, shape (V,); not a test.

    n θ̂ᵀ V⁻¹ θ̂ minus the mean contribution of the mechanism's noise, tr(V⁻¹ (V' − V)); kept within 0..n·df, where χ²
    of a table lies. For POR's error measure |χ² − χ²_true|.
    """
    chosen = _statistic(test, kernel)
    contrasts = chosen.contrasts
    n = counts.sum(axis=(1, 2)).astype(np.float64)
    observed = counts / np.maximum(n, 1.0)[:, None, None]
    fit = chosen.fit(observed, kernel)
    plain, seen = covariances(fit, kernel, contrasts)
    # a genotype or a status that nobody has leaves a contrast without variance
    plain += np.eye(contrasts.shape[0]) * _NO_VARIANCE
    effect = np.einsum("zkr,zr->zk", influence(fit, kernel, contrasts), observed.reshape(n.size, -1))
    plug_in = n * np.einsum("zk,zk->z", effect, np.linalg.solve(plain, effect[:, :, None])[:, :, 0])
    noise = np.trace(np.linalg.solve(plain, seen), axis1=1, axis2=2)
    df = contrasts.shape[0]
    return np.where(n > 0, np.clip(plug_in - (noise - df), 0.0, n * df), np.nan)


def covariances(fit: NullFit, kernel: Kernel, contrasts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute covariances of one person's contrasts at the null fit.

    The first is without the mechanism, the second with it, (V, K, K) each.
    """

    def one(own: Kernel) -> FloatArray:
        psi = influence(fit, own, contrasts)
        law = own.forward(fit.table).reshape(psi.shape[0], 1, -1)
        return np.asarray((psi * law) @ np.swapaxes(psi, 1, 2))

    return one(unrandomized(kernel.sizes)), one(kernel)


def genomic_control(statistic: FloatArray, df: ArrayLike) -> float:
    """Compute λ_GC, the ratio of medians (Devlin & Roeder 1999).

    Median of the statistics over the median of χ²_df; NaN without tests.

    About 1 where few variants are associated; above 1 means inflation, or a trait with many real associations. ``df``
    is one number or one for each statistic.
    """
    tested = np.isfinite(statistic)
    return float(np.median((statistic / chi2.median(df))[tested])) if tested.any() else float("nan")


def inflation_chance(statistic: FloatArray, df: ArrayLike) -> float:
    """Compute the probability of as large a λ_GC under independent null variants.

    Returns NaN without tests.
    """
    tested = np.isfinite(statistic)
    count = int(tested.sum())
    if not count:
        return math.nan
    factor = genomic_control(statistic, df)
    below = np.mean(chi2.cdf(factor * chi2.median(df), df) * np.ones(statistic.shape), where=tested)
    # the middle one of so many uniform numbers is distributed like this
    return float(beta.sf(below, (count + 1) / 2, (count + 1) / 2))


def about_inflation(statistic: FloatArray, df: ArrayLike) -> tuple[str, ...]:
    """Warn if λ_GC exceeds 1 by more than chance."""
    chance = inflation_chance(statistic, df)
    if not chance <= _INFLATED:
        return ()
    return (
        f"P is too small if there is population structure or relatedness: λ = {genomic_control(statistic, df):.3g} is "
        f"more than expected by chance for independent variants (p = {chance:.2g}), unless very many are associated; "
        "adjust for public covariates or strata, or use P_GC",
    )


def controlled_p(statistic: FloatArray, df: ArrayLike) -> FloatArray:
    """Compute χ² p-values of the statistics divided by max(1, λ_GC)."""
    factor = genomic_control(statistic, df)
    if not np.isfinite(factor):
        return np.full(statistic.shape, np.nan)
    return chi_squared_tails(statistic / max(factor, 1.0), df)


@dataclass(frozen=True, eq=False)
class Scores:
    """One test for each variant, arrays of shape (V,).

    Returns NaN if the test is undefined because nothing varies.

    ``df`` are degrees of freedom, and ``notes`` are remarks on some variants, with their number. ``expected`` is the
    smallest expected count under the null hypothesis of an observed cell that is possible without noise: not of missing
    calls, nor of heterozygotes of one copy.
    """

    statistic: FloatArray
    df: IntArray
    p_value: FloatArray
    expected: FloatArray
    notes: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of_one(cls, statistic: FloatArray, p_value: FloatArray, expected: FloatArray) -> "Scores":
        """Build tests of 1 degree of freedom."""
        return cls(statistic, np.ones(statistic.size, dtype=np.int64), p_value, expected)


def score_test(counts: NDArray[np.number], kernel: Kernel, test: str = "trend", tail: bool = True) -> Scores:
    """Test each variant.

    Parameters
    ----------
    counts
        observed tables, shape (V, R, 2): rows are genotypes 0, 1, 2 and, as a fourth, missing; or two alleles, each
        counted one drawn on its own (not for genotypic). Columns control, case.
    kernel
        of the mechanism that randomized them, one for all variants or one for each;
        :func:`optrr.core.mechanisms.kernel.unrandomized` for data that are not randomized.
    test
        one of :func:`genotype_tests`.
    tail
        whether small p-values come from :mod:`optrr.genomics.tail`, which is more accurate there; False takes all of
        them from the χ² limit.

    Raises
    ------
    InvalidInput
        for an unknown test or tables of another shape.
    """
    if counts.shape[1:] not in ((2, 2), (3, 2), (4, 2)) or counts.shape[1:] != kernel.sizes:
        raise InvalidInput(
            f"{test!r} of counts of shape {counts.shape}; give tables of 3 or 4 genotypes, or of 2 alleles, by 2 "
            "statuses, "
            "shape (variants, rows, 2)"
        )
    v, which = counts.shape[0], np.flatnonzero(_varies(counts))
    out, statistic = np.full((3, v), np.nan), _statistic(test, kernel)
    df = np.full(v, len(statistic.contrasts))
    if not which.size:
        return Scores(out[0], df, out[1], out[2])
    chosen, own = counts[which], kernel.part(which)
    n, notes = chosen.sum(axis=(1, 2)), dict[str, int]()
    for at, form in statistic.through(own).forms(chosen):
        tested = form.tested(chosen[at])
        p = saddlepoint(form, chosen[at], tested).p_value if tail else tested.p_value
        # a missing call has no information on an association, so its row may be empty
        fewest = n[at] * tested.fit.expected[:, :GENOTYPES].min(axis=(1, 2))
        out[:, which[at]], df[which[at]] = (tested.statistic, p, fewest), tested.df
        notes |= dict.fromkeys(form.warnings, at.size)
    return Scores(out[0], df, out[1], out[2], notes)


def _varies(counts: NDArray[np.number]) -> NDArray[np.bool_]:
    """Check that genotype and status both vary in a table."""
    known = counts[:, :GENOTYPES] if counts.shape[1] > GENOTYPES else counts
    rows, columns = known.sum(axis=2) > 0, known.sum(axis=1) > 0
    return np.asarray((rows.sum(axis=1) > 1) & (columns.sum(axis=1) > 1))


def naive_score_test(counts: NDArray[np.number], test: str = "trend") -> Scores:
    """Test as if counts were true ones, by the χ² limit.

    This is only for comparison with the valid test.

    It is valid only if the mechanism itself creates no dependence.
    """
    return score_test(counts, unrandomized(counts.shape[1:]), test, tail=False)


def noncentralities(tables: NDArray[np.number], kernel: Kernel, test: str = "trend") -> FloatArray:
    """Compute the test's noncentrality per person, (V,).

    True tables (V, 3, 2) are sent through the kernel.
    """
    shares = tables / tables.sum(axis=(1, 2), keepdims=True)
    longer = np.pad(shares, ((0, 0), (0, kernel.sizes[0] - shares.shape[1]), (0, 0)))
    expected = np.maximum(kernel.forward(longer), 0.0) * _MANY
    return score_test(expected, kernel, test, tail=False).statistic / _MANY


@dataclass(frozen=True, eq=False)
class CopyTables:
    """Counts (V, R, 2) of people with ``two`` copies and with ``one``."""

    two: IntArray
    one: IntArray

    def part(self, which: slice | IntArray) -> "CopyTables":
        """Select variants."""
        return CopyTables(self.two[which], self.one[which])

    @property
    def people(self) -> FloatArray:
        """People of each variant, (V,)."""
        return np.asarray(self.two.sum(axis=(1, 2)) + self.one.sum(axis=(1, 2)), dtype=np.float64)


def genotype_tables(codes: Codes, status: Codes, missing: bool) -> IntArray:
    """Count each column of ``codes`` (n, k) against ``status`` (n,): (k, R, 2).

    R = 3, missing calls left out; with ``missing`` R = 4, the last row theirs. O(n k) time, n·k bytes.
    """
    rows = [0, 1, 2, MISSING] if missing else [0, 1, 2]
    out = np.empty((codes.shape[1], len(rows), 2), dtype=np.int64)
    for s in (0, 1):
        chosen = codes[status == s]
        for r, value in enumerate(rows[:-1] if missing else rows):
            out[:, r, s] = _column_counts(chosen == value)
        if missing:
            out[:, GENOTYPES, s] = chosen.shape[0] - out[:, :GENOTYPES, s].sum(axis=1)
    return out


def _column_counts(flags: NDArray[np.bool_]) -> IntArray:
    """Count true values in each column, (n, k) to (k,).

    Bytes are summed a few rows at a time so that none overflows.
    """
    out = np.zeros(flags.shape[1], dtype=np.int64)
    for start in range(0, flags.shape[0], _ROWS):
        out += np.add.reduce(flags[start : start + _ROWS].view(np.uint8), axis=0, dtype=np.uint8)
    return out


def people_with(cohort: Cohort, fewest: int) -> FloatArray:
    """Count people with at least so many copies of each chromosome, (V,)."""
    kinds = single_copy_chromosomes(cohort.variants.chromosome)
    out = np.zeros(kinds.size)
    for kind in set(kinds):
        out[kinds == kind] = np.count_nonzero(copies(str(kind), cohort.n, cohort.male) >= fewest)
    return out


def copy_tables(cohort: Cohort, missing: bool, progress: Progress | None = None, size: int = BLOCK) -> CopyTables:
    """Count the tables of all variants, at most 128 bytes each.

    ``progress`` receives the numbers done and in all after each block.

    Raises InvalidInput for invalid codes.
    """
    kinds = single_copy_chromosomes(cohort.variants.chromosome)
    out = CopyTables(*np.zeros((2, kinds.size, GENOTYPES + missing, 2), dtype=np.int64))
    for chosen, codes in cohort.blocks(size):
        if codes.size and (codes.max() >= GENOTYPES or codes.min() < MISSING):
            raise InvalidInput(
                f"a genotype code in variants {chosen.start}..{chosen.stop} is invalid; give 0, 1, 2 or missing"
            )
        for kind in set(kinds[chosen]):
            at, held = np.flatnonzero(kinds[chosen] == kind), copies(str(kind), cohort.n, cohort.male)
            theirs = codes if at.size == codes.shape[1] else codes[:, at]
            for number, tables in ((2, out.two), (1, out.one)):
                who = held == number
                if who.any():
                    own, status = (theirs, cohort.status) if who.all() else (theirs[who], cohort.status[who])
                    tables[chosen.start + at] = genotype_tables(own, status, missing)
        if progress is not None:
            progress(chosen.stop, kinds.size)
    return out
