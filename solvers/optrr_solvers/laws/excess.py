"""Drawing from "uniform plus excess", with rounding that can only add privacy.

Every law here is a mixture ν = α μ + Σ_k e_k δ_k: answer uniformly at random with probability α = min ν/μ, otherwise draw
the excess of one cell. Each e_k is rounded *down* to a multiple of 2^-64 and the remainder goes to the uniform part: the
largest density can only fall and the smallest only rise, so the sampled mechanism's ε is never above the law's.
"""

from __future__ import annotations

import numpy as np

from optrr_solvers.problem import FloatArray, IntArray
from optrr_solvers.randomness import BitSource, bounded

# Relative error of a normalised sum of up to 2^20 nonnegative doubles is below 2^-50; the margin is four times that.
_ROUND_DOWN = 1 - 2.0**-48


class ExcessTable:
    """Cells with excess mass e_k ≥ 0, Σ e_k ≤ 1; the remainder 1 − Σ e_k belongs to the uniform answer."""

    def __init__(self, masses: FloatArray) -> None:
        flat = np.ravel(masses)
        self._cells = np.flatnonzero(flat > 0)
        whole = np.floor(flat[self._cells] * (2.0**64 * _ROUND_DOWN)).astype(np.uint64)
        self._cumulative = np.cumsum(whole, dtype=np.uint64)

    def draw(self, n: int, source: BitSource) -> IntArray:
        """``n`` cell numbers, −1 where the answer is uniform; O(n log K) for K cells."""
        if not self._cells.size:
            return np.full(n, -1, dtype=np.int64)
        at = np.searchsorted(self._cumulative, source.words(n), side="right")
        return np.append(self._cells, -1)[at].astype(np.int64)


def uniform_changes(n: int, sizes: IntArray, source: BitSource) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Change sets of ``n`` uniformly random answers: attribute i changes with probability exactly 1 − 1/r_i."""
    out = np.empty((n, sizes.size), dtype=np.bool_)
    for i, r in enumerate(sizes):
        out[:, i] = bounded(source, n, int(r)) != 0
    return out
