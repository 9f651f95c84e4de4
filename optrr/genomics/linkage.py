"""Linkage disequilibrium of pairs of variants from randomized genotypes: r² with standard errors and intervals.

r² is the squared correlation of the numbers of copies of A1 (composite disequilibrium; Weir 1979), which needs no phase, as
``plink1.9 --r2`` has it. A pair is seen through the kernel of its own law, λ_i, λ_j and λ_ij, of genotype × genotype, so that
covariance C and variances V_i, V_j are those of an unbiased table; a missing call, where it is a category, is estimated, too,
and people without both calls are left out.

Ĉ² is larger than C² by the variance of Ĉ, which the mechanism makes large. With Σ the covariance of (Ĉ, V̂_i, V̂_j), and Σ⁰
what it would be without a mechanism, both estimated,

    r̂² = Ĉ² / (V̂_i V̂_j) − tr(H (Σ − Σ⁰)) / 2,    H the second derivatives,

takes off what the mechanism adds, to the order of 1/n, and nothing of what sampling people adds: without a mechanism r̂² is
PLINK's. Noise may take it below 0. Its standard error is that of the square of a normal r̂, √(4 r² σ² + 2 σ⁴), σ by the delta
method. The interval is Fieller's: every r² with (Ĉ − r Ŝ)² within 1.96² of its variance, S² = V_i V_j, for either sign of r.
Where Ŝ is within 1.96 standard errors of 0 it is 0..1. Of pairs with fewer than ten carriers of an allele it is too short, as
it is without a mechanism: it held r² in 91 % at five carriers.

r̂² is given where (Ĉ, Ŝ) Ω⁻¹ (Ĉ, Ŝ)ᵀ ≥ 10², Ω what the mechanism adds to their covariance. Of pairs near a border noise chooses
which are printed; a border of Ŝ alone would choose those whose r̂² is too small. Where Ω is made round, r is a direction and
this border a distance, so that what is printed errs to either side alike.

    CHR_A BP_A SNP_A CHR_B BP_B SNP_B N R2 SE L95 U95      N: people with both calls, or reports where these are randomized

Pairs are of variants at most ``window`` places apart in the file, on one chromosome of which somebody has two copies; of
chromosome X, their tables are of women.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optrr.core.display.charts import interval_figure
from optrr.core.display.parts import Table
from optrr.core.display.text import amount
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms.kernel import EffectKernel
from optrr.genomics.cohort import Cohort
from optrr.genomics.genotypes import GENOTYPES, MISSING, Codes, Variants, copies, single_copy_chromosomes
from optrr.genomics.layout import Layout, star_eigenvalues
from optrr.genomics.odds import REACH
from optrr.genomics.result_files import ColumnsResult, rows_in_json
from optrr.genomics.scan import places_of
from optrr.genomics.score_tests import Progress
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.laws import Law

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Pairs that a chart and a summary show.
_SHOWN = 40
# Products of variances below this share of their square are rounding.
_LEAST = 1e-12
# r̂² is given where (Ĉ, Ŝ) is so many standard errors of the mechanism's noise from 0; measured in docs/design.md, §4.4.
_CLEAR = 10.0
# Variants whose pairs with those before them are counted at once.
_RIGHT = 64
# People at once, whose genotypes are written as zeros and ones; counts of so many are exact in single precision.
_PEOPLE = 1 << 14

Pairs = tuple[IntArray, IntArray, FloatArray]


@dataclass(frozen=True, eq=False)
class Correlations:
    """r² of P pairs of variants, ``standard_error``, NaN where noise hides them, and interval; (P,) each."""

    r2: FloatArray
    standard_error: FloatArray
    low: FloatArray
    high: FloatArray


def squared_correlations(counts: FloatArray, kernel: EffectKernel) -> Correlations:
    """r² from counts of genotype × genotype (P, R, R) and their kernels, one or one for each. O(P), some 10 µs each."""
    pairs, cells = len(counts), kernel.cells
    n = np.maximum(counts.sum(axis=(1, 2)), 1.0)
    seen = counts.reshape(pairs, cells) / n[:, None]
    known, x, y = _functions(kernel.sizes[0])
    of_cells = np.stack([known, x, y, x * x, y * y, x * y])
    pulled = kernel.solve_adjoint(of_cells.reshape(1, -1, *kernel.sizes)).reshape(-1, len(of_cells), cells)
    means = np.sum(pulled * seen[:, None], axis=2)
    there = means[:, 0] > _LEAST
    share = np.where(there, means[:, 0], 1.0)
    m_x, m_y, xx, yy, xy = (means[:, 1:] / share[:, None]).T
    c, v_x, v_y = xy - m_x * m_y, xx - m_x**2, yy - m_y**2
    # (x − m)(y − m') − C, and the same of both variances, over the six functions: what a cell adds to each
    zero, one = np.zeros(pairs), np.ones(pairs)
    amounts = np.array(
        [
            [m_x * m_y - c, -m_y, -m_x, zero, zero, one],
            [m_x**2 - v_x, -2 * m_x, zero, one, zero, zero],
            [m_y**2 - v_y, zero, -2 * m_y, zero, one, zero],
        ]
    )
    amounts = np.moveaxis(amounts, 2, 0) / share[:, None, None]
    of_reports, of_people = amounts @ pulled, amounts @ of_cells
    variance = np.einsum("pc,pkc,plc->pkl", seen, of_reports, of_reports) / n[:, None, None]
    k, row = np.triu_indices(3), np.empty((pairs, 3, 3))
    products = (of_people[:, k[0]] * of_people[:, k[1]]).reshape(pairs, -1, *kernel.sizes)
    plain = np.sum(kernel.solve_adjoint(products).reshape(pairs, -1, cells) * seen[:, None], axis=2) / n[:, None]
    row[:, k[0], k[1]] = row[:, k[1], k[0]] = plain
    return _correlations(np.stack([c, v_x, v_y]), there, variance, variance - row)


def _functions(rows: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Of each cell, flat: whether both calls are known, and copies of either variant in known ones."""
    inside = (np.arange(rows) < GENOTYPES).astype(np.float64)
    copies = np.arange(rows) * inside
    return tuple(np.outer(a, b).ravel() for a, b in ((inside, inside), (copies, inside), (inside, copies)))  # type: ignore[return-value]


def _correlations(
    moments: FloatArray, there: NDArray[np.bool_], variance: FloatArray, added: FloatArray
) -> Correlations:
    """From Ĉ, V̂_i, V̂_j, (3, P), their covariance, and what of it the mechanism adds, (P, 3, 3)."""
    c, v_x, v_y = moments
    product = v_x * v_y
    there = there & (v_x > 0) & (v_y > 0)
    s = np.sqrt(np.where(there, product, 1.0))
    slope = np.stack([np.zeros_like(s), v_y / (2 * s), v_x / (2 * s)], axis=1)
    of_c, of_s, both = _with_root(variance, slope)
    top, middle, bottom = c**2 - REACH**2 * of_c, c * s - REACH**2 * both, s**2 - REACH**2 * of_s
    there &= bottom > _LEAST * s**2
    bottom = np.where(there, bottom, 1.0)
    root = np.sqrt(np.maximum(middle**2 - bottom * top, 0.0))
    ends = np.clip(np.stack([middle - root, middle + root]) / bottom, -1.0, 1.0) ** 2
    low = np.where((middle - root) * (middle + root) <= 0, 0.0, ends.min(axis=0))
    safe_x, safe_y = np.where(there, v_x, 1.0), np.where(there, v_y, 1.0)
    r2 = c**2 / (safe_x * safe_y) - np.einsum("pkl,pkl->p", _curvature(c, safe_x, safe_y), added) / 2
    r = c / s
    spread = np.maximum(of_c - 2 * r * both + r**2 * of_s, 0.0) / s**2
    # where r² is 0, r̂² is above it by noise, which would be counted twice
    error = np.sqrt(4 * np.clip(r2 - spread, 0.0, 1.0) * spread + 2 * spread**2)
    # the mechanism may add nothing
    noise_c, noise_s, along = _with_root(added, slope)
    noise_s = np.maximum(noise_s, _LEAST * s**2)
    rest = np.maximum(noise_c - along**2 / noise_s, _LEAST * s**2)
    clear = there & (s**2 / noise_s + (c - along / noise_s * s) ** 2 / rest >= _CLEAR**2)
    r2, error = (np.where(clear, each, np.nan) for each in (r2, error))
    return Correlations(r2, error, np.where(there, low, 0.0), np.where(there, ends.max(axis=0), 1.0))


def _with_root(covariance: FloatArray, slope: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Variances of Ĉ and Ŝ and their covariance, (P,) each, from the covariance of (Ĉ, V̂_i, V̂_j)."""
    both = np.einsum("pl,pl->p", covariance[:, 0], slope)
    return covariance[:, 0, 0], np.einsum("pk,pkl,pl->p", slope, covariance, slope), both


def _curvature(c: FloatArray, v_x: FloatArray, v_y: FloatArray) -> FloatArray:
    """Second derivatives of C²/(V_i V_j), (P, 3, 3)."""
    whole = v_x * v_y
    square = c**2 / whole
    rows = [
        [2 / whole, -2 * c / (whole * v_x), -2 * c / (whole * v_y)],
        [-2 * c / (whole * v_x), 2 * square / v_x**2, square / whole],
        [-2 * c / (whole * v_y), square / whole, 2 * square / v_y**2],
    ]
    return np.moveaxis(np.array(rows), 2, 0)


@dataclass(frozen=True, eq=False, repr=False)
class Linkage(ColumnsResult):
    """r² of pairs of variants: numbers of ``first`` and ``second`` among ``variants``, and reports ``n``; (P,) each.

    ``window``: how many places apart they are at most.
    """

    variants: Variants
    window: int
    first: IntArray
    second: IntArray
    n: IntArray
    correlations: Correlations
    warnings: tuple[str, ...] = ()

    in_summary = ("window", "warnings")

    def headline(self) -> str:
        """How many pairs, and the largest r²."""
        top = self.rows(self.top(1))
        most = f", largest r² {top['R2'][0]:.3g} ({top['SNP_A'][0]}, {top['SNP_B'][0]})" if len(top["R2"]) else ""
        return f"r² of {amount(self.first.size, 'pair')} of variants up to {self.window} apart{most}"

    def top(self, count: int) -> IntArray:
        """Numbers of the pairs of largest r², best first; undefined ones never."""
        known = np.flatnonzero(np.isfinite(self.correlations.r2))
        return known[np.argsort(-self.correlations.r2[known], kind="stable")[:count]]

    def summary(self) -> dict[str, Any]:
        """The command line's JSON object, with the pairs of largest r²."""
        undefined = int(np.sum(~np.isfinite(self.correlations.r2)))
        top = rows_in_json(self.rows(self.top(_SHOWN)))
        return {"pairs": int(self.first.size), "undefined": undefined, "top": top} | super().summary()

    def top_table(self) -> Table:
        """The pairs of largest r², for people to read."""
        rows = self.rows(self.top(_SHOWN))
        return Table(
            list(rows), [list(row) for row in zip(*(column.tolist() for column in rows.values()), strict=True)]
        )

    def plot(self) -> "Figure":
        """The pairs of largest r² with their intervals."""
        rows = self.rows(self.top(_SHOWN))
        names = [f"{a} × {b}" for a, b in zip(rows["SNP_A"], rows["SNP_B"], strict=True)]
        middle, low, high = (np.asarray(rows[name], dtype=np.float64) for name in ("R2", "L95", "U95"))
        return interval_figure(names, middle, (low, high), "r²", 0.0)

    def rows(self, which: slice | IntArray) -> dict[str, NDArray[np.generic]]:
        """The rows of the pairs of these numbers, column by column."""
        out: dict[str, NDArray[np.generic]] = {}
        for letter, at in (("A", self.first[which]), ("B", self.second[which])):
            v = self.variants
            out |= {f"CHR_{letter}": v.chromosome[at], f"BP_{letter}": v.position[at], f"SNP_{letter}": v.name[at]}
        r = self.correlations
        numbers = {"R2": r.r2, "SE": r.standard_error, "L95": r.low, "U95": r.high}
        return out | {"N": self.n[which]} | {name: each[which] for name, each in numbers.items()}


def linkage(cohort: Cohort, law: Law, layout: Layout, window: int = 50, progress: Progress | None = None) -> Linkage:
    """r² of all pairs of variants of a randomized cohort that are at most ``window`` places apart on one chromosome.

    O(n V window) time, 100 bytes a pair.

    Raises
    ------
    InvalidInput
        for a window below 1, variants that are not in the design, and a law through which some pair cannot be seen.
    """
    if window < 1:
        raise InvalidInput(f"a window of {window} variants; give at least 1")
    attributes, rows = layout.attributes[places_of(cohort.variants, layout)], GENOTYPES + layout.missing
    one = law.one_way_eigenvalues()
    parts: list[tuple[IntArray, IntArray, IntArray, Correlations]] = []
    for first, second, counts in pair_tables(cohort, window, layout.missing, progress):
        eigenvalues = np.empty((first.size, 2, 2))
        for j in np.unique(second):
            at = np.flatnonzero(second == j)
            eigenvalues[at] = star_eigenvalues(law, attributes[first[at]], int(attributes[j]), one)
        kernel = EffectKernel((rows, rows), eigenvalues, ("variant", "other variant"))
        parts.append((first, second, counts.sum(axis=(1, 2)).astype(np.int64), squared_correlations(counts, kernel)))
    if not parts:
        raise InvalidInput("no two variants are on one chromosome of which somebody has two copies; there is no pair")
    first, second, n = (np.concatenate([part[k] for part in parts]) for k in range(3))
    order = np.lexsort((second, first))
    names = ("r2", "standard_error", "low", "high")
    joined = Correlations(*(np.concatenate([getattr(part[3], name) for part in parts])[order] for name in names))
    undefined = int(np.sum(~np.isfinite(joined.r2)))
    doubt = f"r² of {undefined} of {amount(first.size, 'pair')} is NA: noise hides it, and only limits are given"
    warnings = (doubt,) if undefined else ()
    return Linkage(cohort.variants, window, first[order], second[order], n[order], joined, warnings)


def pair_tables(cohort: Cohort, window: int, missing: bool, progress: Progress | None = None) -> Iterator[Pairs]:
    """Numbers of the first and the second variant of each pair, (P,), and the counts, (P, R, R), some hundreds at a time.

    R is 4 with ``missing``, the last for missing calls, which are left out otherwise. O(n V (window + 64)) time; memory of one
    block of genotypes.
    """
    total, kinds = len(cohort.variants), single_copy_chromosomes(cohort.variants.chromosome)
    chromosome = np.unique(cohort.variants.chromosome.astype(str), return_inverse=True)[1]
    women = {kind: copies(str(kind), cohort.n, cohort.male) == 2 for kind in set(kinds)}
    before: Codes = np.empty((cohort.n, 0), dtype=np.int8)
    for chosen, codes in cohort.blocks():
        block = np.concatenate([before, codes], axis=1)
        first = chosen.start - before.shape[1]
        for start in range(chosen.start, chosen.stop, _RIGHT):
            right = np.arange(start, min(start + _RIGHT, chosen.stop))
            left = np.arange(max(first, start - window), right[-1] + 1)
            i, j = np.nonzero((left[:, None] < right) & (right - left[:, None] <= window))
            known = (chromosome[left[i]] == chromosome[right[j]]) & np.isin(kinds[left[i]], ("", "X"))
            i, j = i[known], j[known]
            if i.size:
                columns = block[:, left[0] - first : right[-1] + 1 - first]
                counts = _products(columns, right.size, [women[kind] for kind in kinds[left]], missing)
                yield left[i], right[j], counts[i, :, j]
        before = block[:, max(0, block.shape[1] - window) :]
        if progress is not None:
            progress(chosen.stop, total)


def _products(columns: Codes, right: int, counted: list[NDArray[np.bool_]], missing: bool) -> FloatArray:
    """Counts of all columns against the last ones, (columns, R, right, R), of the people who are ``counted`` for a column."""
    rows = [*range(GENOTYPES), MISSING] if missing else list(range(GENOTYPES))
    everyone = all(who.all() for who in counted)
    whom = None if everyone else np.stack(counted, axis=1)
    width, r = columns.shape[1], len(rows)
    out = np.zeros((width * r, right * r))
    for start in range(0, columns.shape[0], _PEOPLE):
        piece = columns[start : start + _PEOPLE]
        flags = np.stack([piece == row for row in rows], axis=2)
        if whom is not None:
            flags &= whom[start : start + _PEOPLE, :, None]
        ones = flags.reshape(piece.shape[0], -1).astype(np.float32)
        out += ones.T @ ones[:, (width - right) * r :]
    return out.reshape(width, r, right, r)
