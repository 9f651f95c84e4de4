"""CountLaw: classes of alike attributes, where only how many of each class change matters (design §3.3).

By convexity the optimum treats alike attributes alike, so 2^m change sets collapse to Π(m_g+1) counts. Within a class,
given the count k, every set of k attributes is as likely.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from scipy.special import gammaln, logsumexp

from optrr_solvers.laws.base import BoolArray, Law, checked_subset
from optrr_solvers.laws.excess import ExcessTable, uniform_changes
from optrr_solvers.problem import FloatArray, IntArray
from optrr_solvers.randomness import BitSource

# 2^21 cells of 8 bytes: 16 MB an array.
MAX_CELLS = 1 << 21


class CountLaw(Law):
    """Density of every vector of counts.

    Parameters
    ----------
    sizes
        r_i, shape (m,); alike within a class.
    classes
        index arrays that partition 0..m−1.
    log_density
        ln q, up to one constant, for every vector of counts: shape (m_1+1, …, m_G+1), at most 2^21 cells.
    """

    def __init__(self, sizes: IntArray, classes: Sequence[IntArray], log_density: FloatArray) -> None:
        self.sizes = np.asarray(sizes, dtype=np.int64)
        self.classes = tuple(np.asarray(c, dtype=np.int64) for c in classes)
        if sorted(int(i) for c in self.classes for i in c) != list(range(self.m)):
            raise ValueError(f"the classes must hold every attribute 0..{self.m - 1} exactly once")
        if any(np.ptp(self.sizes[c]) for c in self.classes):
            raise ValueError("attributes of one class must have the same size")
        self.log_density = np.asarray(log_density, dtype=np.float64)
        shape = tuple(c.size + 1 for c in self.classes)
        if self.log_density.shape != shape or not np.all(np.isfinite(self.log_density)):
            raise ValueError(f"a CountLaw of these classes needs finite log densities of shape {shape}")

    @cached_property
    def class_of(self) -> IntArray:
        """Class number of each attribute, shape (m,)."""
        out = np.empty(self.m, dtype=np.int64)
        for g, members in enumerate(self.classes):
            out[members] = g
        return out

    @cached_property
    def probabilities(self) -> FloatArray:
        """Probability of every vector of counts, shape (m_1+1, …, m_G+1)."""
        logs = self.log_density + log_uniform_counts(self.sizes, self.classes)
        return np.asarray(np.exp(logs - logsumexp(logs)))

    def one_way(self) -> FloatArray:
        """Pr(kept), Pr(changed) per attribute, shape (m, 2)."""
        return np.stack([self.marginal((int(c[0]),)) for c in self.classes])[self.class_of]

    def marginal(self, subset: Sequence[int]) -> FloatArray:
        """Shape (2,)*k; each class's axis is contracted with the chance of one pattern given its count."""
        chosen = checked_subset(subset, self.m)
        where = self.class_of[list(chosen)]
        used = np.bincount(where, minlength=len(self.classes))
        out = self.probabilities
        for members, u in zip(self.classes, used, strict=True):
            out = np.tensordot(out, pattern_given_count(members.size, int(u)), axes=(0, 0))
        bits = np.indices((2,) * len(chosen)).reshape(len(chosen), -1)
        changed = [bits[where == g].sum(axis=0) for g in range(len(self.classes))]
        return np.asarray(out[tuple(changed)].reshape((2,) * len(chosen)))

    def pair_eigenvalues(self) -> FloatArray:
        """λ_ij off the diagonal, λ_i on it: one marginal per pair of classes, then spread over the members."""
        whole = np.diag(self.one_way_eigenvalues())
        for g, a in enumerate(self.classes):
            for h, b in enumerate(self.classes[: g + 1]):
                if g != h or a.size > 1:
                    value = self.eigenvalues((int(a[0]), int(b[-1])))[1, 1]
                    diagonal = np.diag(whole).copy()
                    whole[np.ix_(a, b)] = value
                    whole[np.ix_(b, a)] = value
                    np.fill_diagonal(whole, diagonal)
        return whole

    def log_density_range(self) -> tuple[float, float]:
        """Exact: smallest and largest stored number."""
        return float(self.log_density.min()), float(self.log_density.max())

    def conditional_epsilons(self) -> FloatArray:
        """Largest step along each class's axis, rounded up, spread over the members."""
        steps = np.asarray([np.abs(np.diff(self.log_density, axis=g)).max() for g in range(len(self.classes))])
        return np.where(steps > 0, np.nextafter(steps, np.inf), 0.0)[self.class_of]

    @cached_property
    def _excess(self) -> ExcessTable:
        # ln(e^{l}−1) in logarithms, because e^{l} overflows for many attributes
        above = self.log_density - self.log_density.min()
        with np.errstate(divide="ignore"):
            logs = above + np.log(-np.expm1(-above)) + log_uniform_counts(self.sizes, self.classes)
        return ExcessTable(np.exp(logs - np.logaddexp(0.0, logsumexp(logs))))

    def sample(self, n: int, source: BitSource) -> BoolArray:
        """Uniform answers plus excess counts; given the counts, random subsets of each class. O(n m log m)."""
        cells = self._excess.draw(n, source)
        out = np.empty((n, self.m), dtype=np.bool_)
        uniform = np.flatnonzero(cells < 0)
        out[uniform] = uniform_changes(uniform.size, self.sizes, source)
        rest = np.flatnonzero(cells >= 0)
        counts = np.unravel_index(cells[rest], self.log_density.shape)
        for members, k in zip(self.classes, counts, strict=True):
            out[np.ix_(rest, members)] = random_subsets(k, members.size, source)
        return out


def random_subsets(counts: IntArray, size: int, source: BitSource) -> BoolArray:
    """For every row a uniformly random subset of ``counts[row]`` out of ``size`` places, shape (rows, size)."""
    keys = source.words(counts.size * size).reshape(counts.size, size)
    ranks = np.argsort(np.argsort(keys, axis=1), axis=1)
    return np.asarray(ranks < counts[:, None])


def pattern_given_count(size: int, used: int) -> FloatArray:
    """Pr(one given pattern with s of ``used`` places changed | k of ``size`` changed): shape (size+1, used+1).

    Equal to C(size−used, k−s)/C(size, k), written with falling factorials so that nothing cancels or overflows.
    """
    k = np.arange(size + 1.0)
    out = np.ones((size + 1, used + 1))
    for s in range(used + 1):
        for t in range(used):
            top = k - t if t < s else (size - k) - (t - s)
            out[:, s] *= np.maximum(top, 0) / (size - t)
    return out


def log_binomial(size: int, chance: float) -> FloatArray:
    """ln Pr(k) of a Binomial(size, chance), k = 0..size; absolute error about 2^-50 times ln(size!)."""
    k = np.arange(size + 1.0)
    choose = gammaln(size + 1.0) - gammaln(k + 1) - gammaln(size - k + 1)
    return np.asarray(choose + k * np.log(chance) + (size - k) * np.log1p(-chance))


def log_uniform_counts(sizes: IntArray, classes: Sequence[IntArray]) -> FloatArray:
    """ln of the law of the counts of a uniformly random answer, shape (m_1+1, …, m_G+1)."""
    out = np.zeros((1,) * len(classes))
    for g, members in enumerate(classes):
        shape = [1] * len(classes)
        shape[g] = -1
        out = out + log_binomial(members.size, 1 - 1 / float(sizes[members[0]])).reshape(shape)
    return out
