"""How estimates from answers to questions vary together: the covariance of a table's cells, whatever the table (design §3.9).

Given how many people answered which question, the estimate of cell v is a sum of means of weights z_v, one for every question
(:mod:`optrr.ways.protocols.combining`), so that over N reports on each

    Cov = Σ_questions (E z zᵀ − E z E zᵀ)/N.

E[z_v z_w | x] depends, attribute by attribute, on which of record x and cells v, w are alike: one of five cases. So it is a sum
of products of the five functions 1, 1[x = v], 1[x = w], 1[v = w], 1[x = v = w] of each attribute, with coefficients that add up
over questions: 5^m numbers for a table of m attributes, however many questions there are, and the covariance is linear in the
table's margins but for E z E zᵀ, which is a sum of products of two of them.

A report that names a subset S_i of each attribute, and matches on some, has independent subsets given these matches; one that
names k of the K cells c of a table has z = Σ_{c∈S} a(c) with Σ_c a(c) = 0, so that

    E[z_v z_w | x] = (q − q₂) Σ_c a_v(c) a_w(c) + (p − q − 2 p₁ + 2 q₂) a_v(x) a_w(x),

p and q the chances that the true and another cell are named, p₁ and q₂ that a pair with and without the true one is.

Letters: x record, v and w cells, z a report's weight, W effect, g_i = 1[v_i ∈ S_i] − k_i/r_i.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count

import numpy as np

from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.mechanisms.kernel import unrandomized
from optrr.tables.distributions import norm
from optrr.tables.estimation.impossible import CountedTable
from optrr.tables.estimation.intervals import Sampling
from optrr.tables.estimation.simplex import projection
from optrr.ways.protocols.combining import Answered, Pooled, pattern_chances, pooled
from optrr_solvers.arrays import FloatArray

# From the five cases (all different, x = v, x = w, v = w, all alike) to the coefficients of the five functions.
_FUNCTIONS = np.array([[1, 0, 0, 0, 0], [-1, 1, 0, 0, 0], [-1, 0, 1, 0, 0], [-1, 0, 0, 1, 0], [2, -1, -1, -1, 1]])
_X_IS_V, _X_IS_W, _V_IS_W, _ALIKE = 1, 2, 3, 4
# Products of as many numbers are added up for one covariance, a second or two; and an operator of so many, 32 MB, is kept.
_MOST_PRODUCTS, _KEPT = 1 << 29, 1 << 22
# Tables whose covariance is added up by itself, before what each record adds is kept for further ones.
_FEW = 3


def answered_table(domain: Domain, answered: Sequence[Answered], partly: bool = False) -> CountedTable:
    """The estimate of a table over ``domain`` with the law that it has, for measures, tests and models.

    Where it may be known ``partly``, effects that no report tells about are 0 and have no variance.

    Time and memory O(5^m R²) for m attributes and R cells, whatever the number of reports.

    Raises TooFewRecords for fewer than 2 reports, or an effect of the table that no report tells about. InvalidInput for large
    tables.
    """
    sizes = tuple(int(r) for r in domain.sizes)
    cells = math.prod(sizes)
    if 5 ** len(sizes) * cells**2 > _MOST_PRODUCTS:
        raise InvalidInput(
            f"the table has {cells} cells of {len(sizes)} attributes, too many for what varies together in answers; ask for "
            "fewer attributes, or its cells alone: reports.table(…)"
        )
    told = pooled(domain, answered, partly)
    kernel = unrandomized(sizes, domain.names)
    return CountedTable(domain, told.n, told.proportions, kernel, AnsweredSampling(kernel, told.n, None, _law(told)))


@dataclass(frozen=True, eq=False)
class AnsweredLaw:
    """What the covariance is made of, for ``n`` reports in all.

    ``second`` (5,)*m are the coefficients of Σ E z zᵀ/N; ``means`` (2^m, 2^m) those of Σ E z E zᵀ/N, by the attributes of both
    margins, the first one's bit the highest.
    """

    n: int
    sizes: tuple[int, ...]
    second: FloatArray
    means: FloatArray
    _asked: Iterator[int] = field(default_factory=count, init=False, repr=False)

    def covariance(self, table: FloatArray) -> FloatArray:
        """(R, R) under a table (R,) that sums to 1."""
        margins = self._margins(table)
        return self._operated(table) - margins.T @ self.means @ margins

    def _operated(self, table: FloatArray) -> FloatArray:
        # what each record adds takes as long as so many tables
        if table.size**3 > _KEPT or next(self._asked) < _FEW:
            return self._seconds(table)
        cells = table.size
        return np.asarray((table @ self._operator).reshape(cells, cells))

    @cached_property
    def _operator(self) -> FloatArray:
        """(R, R²): what each record adds."""
        return np.stack([self._seconds(each).ravel() for each in np.eye(math.prod(self.sizes))])

    def _margins(self, table: FloatArray) -> FloatArray:
        """(2^m, R): every margin, at every cell."""
        shaped, m = table.reshape(self.sizes), len(self.sizes)
        out = []
        for kept in np.ndindex((2,) * m):
            margin = shaped.sum(axis=tuple(i for i in range(m) if not kept[i]), keepdims=True)
            out.append(np.broadcast_to(margin, self.sizes).ravel())
        return np.stack(out)

    def _seconds(self, table: FloatArray) -> FloatArray:
        m, cells = len(self.sizes), table.size
        shaped, out = table.reshape(self.sizes), np.zeros(self.sizes * 2)
        for functions in np.argwhere(self.second):
            free = tuple(i for i in range(m) if functions[i] in (0, _V_IS_W))
            margin = shaped.sum(axis=free, keepdims=True)
            # an axis of x stands where v has its own, and where w has it if x is bound to w alone
            places = [i + m * int(f == _X_IS_W) for i, f in enumerate(functions)]
            shape = [1] * (2 * m)
            for i, place in enumerate(places):
                shape[place] = margin.shape[i]
            product = margin.transpose(np.argsort(places)).reshape(shape)
            for i in np.flatnonzero(functions >= _V_IS_W).tolist():
                alike = [1] * (2 * m)
                alike[i] = alike[m + i] = self.sizes[i]
                product = product * np.eye(self.sizes[i]).reshape(alike)
            out += self.second[tuple(functions)] * product
        return out.reshape(cells, cells)


@dataclass(frozen=True, eq=False)
class AnsweredSampling(Sampling):
    """How estimates from answers vary: what is observed is the unbiased estimate itself, and the kernel that of no noise."""

    law_of_answers: AnsweredLaw | None = None

    def observed(self, table: FloatArray) -> FloatArray:
        """A proper table near this one."""
        return projection(table.ravel())

    def padded(self, observed: FloatArray) -> FloatArray:
        """A proper table near the estimate with half a record more in every cell."""
        return self.observed(super().padded(observed))

    def covariance(self, observed: FloatArray, n: float | None = None) -> FloatArray:
        """(K, K) of the estimates under a table."""
        cells = self._cells(observed, n)
        return cells if self.sums is None else np.asarray(self.sums @ cells @ self.sums.T)

    def across(self, observed: FloatArray) -> FloatArray:
        """(R, K) of the cells with the sums."""
        cells = self._cells(observed, None)
        return cells if self.sums is None else np.asarray(cells @ self.sums.T)

    def _cells(self, table: FloatArray, n: float | None) -> FloatArray:
        law = self.law_of_answers
        assert law is not None
        return law.covariance(table.ravel()) * (law.n / (n or self.n))

    def variances(self, observed: FloatArray) -> FloatArray:
        """Unbiased estimates of the variances of the cells, of the table's shape; not below 0."""
        return np.maximum(np.diag(self._cells(observed, self.n - 1)), 0.0).reshape(self.kernel.sizes)

    def most(self, members: FloatArray, observed: FloatArray, tail: float) -> float:
        """Normal upper limit of the share of some cells."""
        error = math.sqrt(members.ravel() @ self._cells(self.padded(observed), None) @ members.ravel())
        return min(max(float(members.ravel() @ observed.ravel()), 0.0) + float(norm.isf(tail)) * error, 1.0)

    def third(self, observed: FloatArray, gradient: FloatArray) -> float:
        """Left out: what a report weighs is bounded, and skewness falls as noise grows; intervals were measured without it."""
        return 0.0


def _law(told: Pooled) -> AnsweredLaw:
    m = len(told.proportions.shape)
    second, means = np.zeros((5,) * m), np.zeros((1 << m, 1 << m))
    for a in told.answered:
        weights = _by_axis(told.weights(a), len(a.shared))
        seen = _by_axis(a.seen(), len(a.shared))
        own = (_of_cells if a.joint else _of_matches)(a, weights)
        order = np.argsort(a.axes)
        place = tuple(slice(None) if i in a.axes else 0 for i in range(m))
        second[place] += np.transpose(own, order) / a.n
        lifted = np.zeros((2,) * m)
        lifted[place] = np.transpose(_centred(a, weights * seen), order)
        means += np.outer(lifted, lifted) / a.n
    return AnsweredLaw(told.n, told.proportions.shape, second, means)


def _by_axis(values: FloatArray, axes: int) -> FloatArray:
    """Values by Σ 2^k, (2^u,), with an axis for each k, (2,)*u."""
    return values.reshape((2,) * axes).T


def _centred(a: Answered, weights: FloatArray) -> FloatArray:
    """Σ_W weight_W Π_{i∈W} (1[x_i = v_i] − 1/r_i) as coefficients of Π 1[x_i = v_i], (2,)*u."""
    for k, place in enumerate(a.shared):
        weights = _along(np.array([[1, -1 / a.sizes[place]], [0, 1]]), weights, k)
    return weights


def _along(matrix: FloatArray, array: FloatArray, axis: int, axes: int = 1) -> FloatArray:
    """The product with a matrix along one axis, or several from there on that become one."""
    flat = array.reshape(*array.shape[:axis], -1, *array.shape[axis + axes :])
    return np.moveaxis(np.tensordot(matrix, flat, (1, axis)), 0, axis)


def _of_matches(a: Answered, weights: FloatArray) -> FloatArray:
    """E z zᵀ of a report on subsets of each attribute, (5,)*u."""
    u = len(a.shared)
    out = np.multiply.outer(np.multiply.outer(a.matches(), weights), weights)
    # matched, in W, in the other W: of each attribute side by side
    out = out.transpose([k + u * part for k in range(u) for part in range(3)])
    for k, place in enumerate(a.shared):
        out = _along(_FUNCTIONS @ _cases(a.sizes[place], a.report.subset_sizes[place]), out, k, 3)
    return out


def _cases(r: int, k: int) -> FloatArray:
    """Means of 1, g(v), g(w), g(v) g(w) in the five cases, by match and by which of the two count, (5, 8)."""
    share, out = k / r, np.empty((5, 2, 2, 2))
    for match in (0, 1):
        own, other = float(match), (k - match) / (r - 1)
        pair = other * (k - match - 1) / (r - 2) if r > 2 else 0.0
        cases = ((other, other, pair), (own, other, own * other), (other, own, own * other), (other,) * 3, (own,) * 3)
        for case, (first, second, both) in enumerate(cases):
            product = both - share * (first + second) + share**2
            out[case, match] = [[1.0, second - share], [first - share, product]]
    return out.reshape(5, 8)


def _of_cells(a: Answered, weights: FloatArray) -> FloatArray:
    """E z zᵀ of a report on a subset of the cells of its table, (5,)*u."""
    u, cells, (k,) = len(a.shared), math.prod(a.sizes), a.report.subset_sizes
    p = float(pattern_chances(a.report, a.sizes, a.epsilon)[1])
    q = (p * (k - 1) + (1 - p) * k) / (cells - 1)
    with_own = p * (k - 1) / (cells - 1)
    without = (p * (k - 1) * (k - 2) + (1 - p) * k * (k - 1)) / ((cells - 1) * (cells - 2)) if cells > 2 else 0.0
    own = _centred(a, weights)
    pairs = np.multiply.outer(own, own).transpose([k + u * part for k in range(u) for part in range(2)])
    at_record = over_cells = pairs
    for i, place in enumerate(a.shared):
        alike, summed = np.zeros((5, 2, 2)), np.zeros((5, 2, 2))
        alike[[0, _X_IS_W, _X_IS_V, _ALIKE], [0, 0, 1, 1], [0, 1, 0, 1]] = 1
        summed[[0, 0, 0, _V_IS_W], [0, 0, 1, 1], [0, 1, 0, 1]] = a.sizes[place], 1, 1, 1
        at_record = _along(alike.reshape(5, 4), at_record, i, 2)
        over_cells = _along(summed.reshape(5, 4), over_cells, i, 2)
    over_cells = over_cells * (cells / math.prod(a.sizes[place] for place in a.shared))
    return np.asarray((q - without) * over_cells + (p - q - 2 * with_own + 2 * without) * at_record)
