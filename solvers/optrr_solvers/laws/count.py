"""CountLaw: classes of alike attributes, where only how many of each class change matters (theory §3.3).

By convexity the optimum treats alike attributes alike, so 2^m change sets collapse to Π(m_g+1) counts. Within a class,
given the count k, every set of k attributes is as likely.

The number k of changes among n attributes of r categories in a uniformly random answer is Binomial(n, d), d = 1 − 1/r.
ln n! − ln k! − ln (n−k)! cancels: near n = 10^6 it is off by 1e-8. Loader's saddle-point form is within a few roundings of the
distance from the mean (C. Loader, *Fast and accurate computation of binomial probabilities*, 2000):

    ln Pr(k) = δ(n) − δ(k) − δ(n−k) − D(k, nd) − D(n−k, n(1−d)) + ½ ln(n / (2π k (n−k))),   0 < k < n

with Stirling's remainder δ(n) = ln n! − (n+½) ln n + n − ½ ln 2π and the deviance D(x, y) = x ln(x/y) + y − x ≥ 0.
"""

from collections.abc import Sequence
from functools import cached_property, reduce

import msgspec
import numpy as np
from scipy.special import gammaln

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.laws.base import BoolArray, DensityLaw, SparseTable, checked_subset, dense, joint_by_class, sparse
from optrr_solvers.laws.excess import ExcessTable, accuracies_drawn, log_expm1, uniform_changes
from optrr_solvers.partition import partition
from optrr_solvers.randomness import BitSource
from optrr_solvers.sampling.diagram import MOST_STATES, Diagram, Totals, totals_diagram
from optrr_solvers.work import MARGINAL, STEP, Work

# From here on Stirling's series with four terms is good to 1e-16; below, the direct difference is good to 1e-14.
_SERIES_FROM = 16
# 2^21 cells of 8 bytes: 16 MB an array.
MAX_CELLS = 1 << 21


def log_change_counts(n: int, size: int) -> FloatArray:
    """Compute ln Pr(k of ``n`` attributes change) for a uniform answer, (n+1,).

    The attributes have ``size`` categories.

    Absolute error below :func:`log_change_counts_error`: 1e-11 at 10^6 attributes where it is not negligible.
    """
    k = np.arange(n + 1.0)
    out = np.empty(n + 1)
    out[0] = -n * np.log(size)
    out[n] = n * np.log1p(-1 / size)
    if n > 1:
        x = k[1:-1]
        rest = _stirling(np.float64(n)) - _stirling(x) - _stirling(n - x) + 0.5 * np.log(n / (2 * np.pi * x * (n - x)))
        out[1:-1] = rest - _deviance(x, n * (size - 1) / size) - _deviance(n - x, n / size)
    return out


def log_change_counts_error(n: int, size: int) -> FloatArray:
    """Bound the absolute error of :func:`log_change_counts`, shape (n+1,).

    The tests check it against 40 digits.

    Both deviances are within a few roundings of |k − nd| and of themselves, hence of −ln Pr(k); the constant covers the
    Stirling remainders below 16, which come from a cancelling difference of terms up to 30.
    """
    k = np.arange(n + 1.0)
    return np.asarray(2.0**-53 * (512 + 8 * np.abs(k - n * (size - 1) / size) + 8 * np.abs(log_change_counts(n, size))))


def _stirling(x: FloatArray | np.float64) -> FloatArray:
    safe = np.maximum(x, _SERIES_FROM)
    square = safe * safe
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / square) / square) / square) / safe
    small = np.minimum(x, _SERIES_FROM)
    direct = gammaln(small + 1) - (small + 0.5) * np.log(small) + small - 0.5 * np.log(2 * np.pi)
    return np.asarray(np.where(x < _SERIES_FROM, direct, series))


def _deviance(x: FloatArray, y: float) -> FloatArray:
    # near the mean log1p keeps the difference small; far from it 1 + (y−x)/x would cancel, and ln(x/y) does not
    part = (y - x) / x
    near = np.abs(part) < 0.5
    return np.where(near, x * (part - np.log1p(np.where(near, part, 0.0))), x * np.log(x / y) + (y - x))


class CountRecord(msgspec.Struct, forbid_unknown_fields=True):
    """Classes, and densities over their counts.

    The most common density, the cells that differ, and theirs.
    """

    classes: list[list[int]]
    most: float
    cells: list[int]
    log_density: list[float]


class CountLaw(DensityLaw):
    """Density of every vector of counts.

    Parameters
    ----------
    sizes
        r_i, shape (m,); alike within a class.
    classes
        index arrays that partition 0..m−1.
    log_density
        ln q, up to one constant, for each vector of counts: shape (m_1+1, …, m_G+1), at most 2^21 cells.
    """

    kind = "count"
    Record = CountRecord

    def __init__(self, sizes: IntArray, classes: Sequence[Sequence[int] | IntArray], log_density: FloatArray) -> None:
        self.sizes = np.asarray(sizes, dtype=np.int64)
        self.classes = partition(classes, self.m)
        if any(np.ptp(self.sizes[c]) for c in self.classes):
            raise ValueError("attributes of one class must have the same size")
        self.log_density = np.asarray(log_density, dtype=np.float64)
        shape = tuple(c.size + 1 for c in self.classes)
        if self.log_density.shape != shape or not np.all(np.isfinite(self.log_density)):
            raise ValueError(f"a CountLaw of these classes needs finite log densities of shape {shape}")

    def to_record(self) -> CountRecord:
        """Return classes and densities."""
        table = sparse(self.log_density)
        return CountRecord([c.tolist() for c in self.classes], table.most, table.cells, table.log_density)

    @classmethod
    def from_record(cls, record: CountRecord, sizes: IntArray) -> "CountLaw":
        """Build the noise distribution of a record."""
        classes = partition(record.classes, sizes.size)
        table = SparseTable(record.most, record.cells, record.log_density)
        return cls(sizes, classes, dense(tuple(c.size + 1 for c in classes), table, MAX_CELLS))

    def with_densities(self, log_density: FloatArray) -> "CountLaw":
        """Return the distribution with other numbers."""
        return CountLaw(self.sizes, self.classes, log_density)

    @property
    def log_mu(self) -> FloatArray:
        """Shape (m_1+1, …, m_G+1)."""
        return log_uniform_counts(self.sizes, self.classes)

    def joint_eigenvalues(self, others: IntArray, center: int) -> FloatArray:
        """Compute λ_ic from one marginal per class."""
        return joint_by_class(self, self.class_of, others, center)

    def one_way(self) -> FloatArray:
        """Compute Pr(kept), Pr(changed) per attribute, shape (m, 2)."""
        return np.stack([self.marginal((int(c[0]),)) for c in self.classes])[self.class_of]

    def marginal(self, subset: Sequence[int]) -> FloatArray:
        """Compute the marginal, shape (2,)*k.

        Each class's axis is contracted with the probability of one pattern given its count.
        """
        chosen = checked_subset(subset, self.m)
        where = self.class_of[list(chosen)]
        used = np.bincount(where, minlength=len(self.classes))
        out = self.probabilities
        for members, u in zip(self.classes, used, strict=True):
            out = np.tensordot(out, pattern_given_count(members.size, int(u)), axes=(0, 0))
        bits = np.indices((2,) * len(chosen)).reshape(len(chosen), 1 << len(chosen))
        changed = [bits[where == g].sum(axis=0) for g in range(len(self.classes))]
        return np.asarray(out[tuple(changed)].reshape((2,) * len(chosen)))

    def pair_eigenvalues(self) -> FloatArray:
        """Compute λ_ij off the diagonal and λ_i on it.

        Takes one marginal per pair of classes, repeated for the members.
        """
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

    def diagram(self, most: int = MOST_STATES) -> Diagram | None:
        """Build the diagram class by class, with one state for each vector of counts."""
        strides = np.cumprod([1, *self.log_density.shape[:0:-1]])[::-1]
        density = self.log_density.ravel()
        totals = Totals(strides[self.class_of], lambda at: density[at])
        return totals_diagram(totals, most, np.concatenate(self.classes))

    def work(self) -> Work:
        """Bound the work by one state per cell and attribute."""
        return self._work(self.log_density.size * self.m)

    def pair_work(self) -> Work:
        """Bound the work by one marginal per pair of classes."""
        seconds = len(self.classes) ** 2 / 2 * (MARGINAL + STEP * self.log_density.size)
        return Work(seconds, 32.0 * self.m**2)

    @cached_property
    def _excess(self) -> ExcessTable:
        above = self.log_density - self.log_density.min()
        logs = log_expm1(above) + log_uniform_counts(self.sizes, self.classes)
        return ExcessTable(logs, log_uniform_counts_error(self.sizes, self.classes) + 2.0**-51 * above)

    def drawn_accuracies(self) -> FloatArray:
        """Compute the accuracies after the sampler's rounding."""
        return accuracies_drawn(self.one_way(), self.sizes, self._excess.gain)

    def sample_directly(self, n: int, source: BitSource) -> BoolArray:
        """Draw uniform answers and excess counts; O(n m log m).

        Given the counts, random subsets of each class.
        """
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
    """Draw for each row a uniform subset of ``counts[row]`` of ``size`` places.

    The shape is (rows, size).
    """
    out = np.broadcast_to((counts == size)[:, None], (counts.size, size)).copy()
    redo = np.flatnonzero((counts > 0) & (counts < size))
    while redo.size:
        keys = source.words(-(-redo.size * size // 2)).view(np.uint32)[: redo.size * size].reshape(redo.size, size)
        ordered = np.sort(keys, axis=1)
        row, k = np.arange(redo.size), counts[redo]
        out[redo] = keys < ordered[row, k][:, None]
        # two equal keys at the border would favour one place: draw that row again
        redo = redo[ordered[row, k - 1] == ordered[row, k]]
    return out


def pattern_given_count(size: int, used: int) -> FloatArray:
    """Compute Pr(a given pattern with s of ``used`` changes | k of ``size``).

    The shape is (size+1, used+1).

    Equal to C(size−used, k−s)/C(size, k), written with falling factorials so that nothing cancels or overflows.
    """
    k = np.arange(size + 1.0)
    out = np.ones((size + 1, used + 1))
    for s in range(used + 1):
        for t in range(used):
            top = k - t if t < s else (size - k) - (t - s)
            out[:, s] *= np.maximum(top, 0) / (size - t)
    return out


def log_uniform_counts(sizes: IntArray, classes: Sequence[IntArray]) -> FloatArray:
    """Compute ln probabilities of a uniform answer's counts, (m_1+1, …, m_G+1)."""
    return reduce(np.add.outer, (log_change_counts(c.size, int(sizes[c[0]])) for c in classes), np.array(0.0))


def log_uniform_counts_error(sizes: IntArray, classes: Sequence[IntArray]) -> FloatArray:
    """Bound on the absolute error of :func:`log_uniform_counts`, same shape."""
    each = (log_change_counts_error(c.size, int(sizes[c[0]])) for c in classes)
    parts = reduce(np.add.outer, each, np.array(0.0))
    return np.asarray(parts + len(classes) * 2.0**-53 * np.abs(log_uniform_counts(sizes, classes)))
