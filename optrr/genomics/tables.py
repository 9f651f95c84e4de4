"""Genotype × status counts of many variants, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from optrr.errors import InvalidInput
from optrr.genomics.cohort import Cohort
from optrr.genomics.genotypes import BLOCK, GENOTYPES, MISSING, Codes
from optrr_solvers.arrays import IntArray

Progress = Callable[[int, int], None]

# A byte can count this many ones.
_ROWS = 255


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
    """Tables of all variants in blocks; ``progress`` is told how many of how many are done."""
    total = len(cohort.variants)
    for chosen, codes in cohort.blocks(size):
        if codes.size and (codes.max() >= GENOTYPES or codes.min() < MISSING):
            raise InvalidInput(
                f"a genotype code is outside 0, 1, 2 and missing in variants {chosen.start}..{chosen.stop}"
            )
        yield chosen, genotype_tables(codes, cohort.status, missing)
        if progress is not None:
            progress(chosen.stop, total)


def all_tables(cohort: Cohort, missing: bool, progress: Progress | None = None) -> IntArray:
    """Tables of all variants, shape (V, R, 2): 64 bytes a variant at most."""
    out = np.empty((len(cohort.variants), GENOTYPES + missing, 2), dtype=np.int64)
    for chosen, tables in cohort_tables(cohort, missing, progress):
        out[chosen] = tables
    return out
