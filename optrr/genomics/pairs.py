"""Tables of genotype × genotype of all pairs of variants in a window, counted block by block from a randomized cohort.

Pairs are of variants at most ``window`` places apart in the file, on one chromosome of which somebody has two copies; of
chromosome X, the tables are of women.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from optrr.genomics.cohort import Cohort
from optrr.genomics.genotypes import GENOTYPES, MISSING, Codes, copies, single_copy_chromosomes
from optrr.genomics.tests import Progress
from optrr_solvers.arrays import FloatArray, IntArray

# Variants whose pairs with those before them are counted at once.
_RIGHT = 64
# People at once, whose genotypes are written as zeros and ones; counts of so many are exact in single precision.
_PEOPLE = 1 << 14

Pairs = tuple[IntArray, IntArray, FloatArray]


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
