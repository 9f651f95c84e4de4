"""Genotype × status counts of many variants, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optrr.errors import InvalidInput
from optrr.genomics.chromosomes import copies, single_copy_chromosomes
from optrr.genomics.cohort import Cohort
from optrr.genomics.genotypes import BLOCK, GENOTYPES, MISSING, Codes
from optrr_solvers.arrays import FloatArray, IntArray

Progress = Callable[[int, int], None]

# A byte can count this many ones.
_ROWS = 255


@dataclass(frozen=True, eq=False)
class CopyTables:
    """Counts (V, R, 2) of people who have ``two`` copies and of those who have ``one``."""

    two: IntArray
    one: IntArray

    def part(self, which: slice | IntArray) -> CopyTables:
        """Some of the variants."""
        return CopyTables(self.two[which], self.one[which])

    @property
    def people(self) -> FloatArray:
        """People of each variant, (V,)."""
        return np.asarray(self.two.sum(axis=(1, 2)) + self.one.sum(axis=(1, 2)), dtype=np.float64)

    @property
    def observed(self) -> FloatArray:
        """Shares of all reports, first of people with two copies, (V, 2R, 2)."""
        both = np.concatenate([self.two, self.one], axis=1).astype(np.float64)
        return np.asarray(both / np.maximum(self.people, 1.0)[:, None, None])


def genotype_tables(codes: Codes, status: Codes, missing: bool) -> IntArray:
    """Counts of each column of ``codes`` (n, k) against ``status`` (n,): shape (k, R, 2).

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
    """How many are true in each column, (n, k) → (k,); sums of bytes, a handful of rows at a time so that none overflows."""
    out = np.zeros(flags.shape[1], dtype=np.int64)
    for start in range(0, flags.shape[0], _ROWS):
        out += np.add.reduce(flags[start : start + _ROWS].view(np.uint8), axis=0, dtype=np.uint8)
    return out


def cohort_tables(
    cohort: Cohort, missing: bool, progress: Progress | None = None, size: int = BLOCK
) -> Iterator[tuple[slice, IntArray]]:
    """Tables of all variants in blocks, of people who have two copies; ``progress`` is told how many of how many are done."""
    total = len(cohort.variants)
    for chosen, codes in cohort.blocks(size):
        if codes.size and (codes.max() >= GENOTYPES or codes.min() < MISSING):
            raise InvalidInput(
                f"a genotype code is outside 0, 1, 2 and missing in variants {chosen.start}..{chosen.stop}"
            )
        yield chosen, _counted(cohort, chosen, codes, missing, 2)
        if progress is not None:
            progress(chosen.stop, total)


def all_tables(cohort: Cohort, missing: bool, progress: Progress | None = None) -> IntArray:
    """Tables of all variants, of people who have two copies, shape (V, R, 2): 64 bytes a variant at most."""
    out = np.empty((len(cohort.variants), GENOTYPES + missing, 2), dtype=np.int64)
    for chosen, tables in cohort_tables(cohort, missing, progress):
        out[chosen] = tables
    return out


def copy_tables(cohort: Cohort, missing: bool, progress: Progress | None = None) -> CopyTables:
    """Tables of all variants, of people who have two copies and of those who have one."""
    two = all_tables(cohort, missing, progress)
    one = np.zeros_like(two)
    if single_copy_chromosomes(cohort.variants.chromosome).astype(bool).any():
        for chosen, codes in cohort.blocks():
            one[chosen] = _counted(cohort, chosen, codes, missing, 1)
    return CopyTables(two, one)


def _counted(cohort: Cohort, chosen: slice, codes: Codes, missing: bool, number: int) -> IntArray:
    """Tables of a block's variants, of the people who have this number of copies."""
    kinds = single_copy_chromosomes(cohort.variants.chromosome[chosen])
    if not kinds.astype(bool).any() and number == 2:
        return genotype_tables(codes, cohort.status, missing)
    out = np.zeros((kinds.size, GENOTYPES + missing, 2), dtype=np.int64)
    for kind in set(kinds):
        at, who = np.flatnonzero(kinds == kind), copies(str(kind), cohort.n, cohort.male) == number
        out[at] = genotype_tables(codes[:, at][who], cohort.status[who], missing)
    return out
