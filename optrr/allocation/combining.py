"""Estimates of a table from reports on several queries: each effect from the reports that observe it (theory §3.9).

A report on a question names subsets S_i of categories (or one of cells). With g_i(v) = 1[v ∈ S_i] − k_i/r_i, of an effect W of
the question's attributes

    E Π_{i∈W} g_i(v_i) = a_W E Π_{i∈W} (1[x_i = v_i] − 1/r_i) = a_W θ_W(v),

so that the mean over the N reports on it, divided by a_W, is unbiased. Several questions' estimates of one effect are weighted
by their information N e_W, and the table is the sum of its effects. Given the number of people per query, an estimate of a
cell is a sum of means, one per query, of weights z that depend on the reports. The first two moments of z depend on which of
the table's attributes a record shares with the cell, so that the variance follows from a fitted table, for any proportion p of
the cell (:mod:`optrr.core.estimation.score_interval`).

A table that one question alone tells about, all of it, has the binomial law of its cells' supports instead, without
approximation.

How estimates vary together is the covariance of a table's cells, whatever the table: over N reports on each question

    Cov = Σ_questions (E z zᵀ − E z E zᵀ)/N.

E[z_v z_w | x] depends, attribute by attribute, on which of record x and cells v, w are alike: one of five cases. So it is a sum
of products of the five functions 1, 1[x = v], 1[x = w], 1[v = w], 1[x = v = w] of each attribute, with coefficients that add up
over questions: 5^m numbers for a table of m attributes, however many questions there are, and the covariance is linear in the
table's margins but for E z E zᵀ, which is a sum of products of two of them.

A report that names a subset S_i of each attribute, and matches on some, has independent subsets given these matches; one that
names k of the K cells c of a table has z = Σ_{c∈S} a(c) with Σ_c a(c) = 0, so that

    E[z_v z_w | x] = (q − q₂) Σ_c a_v(c) a_w(c) + (p − q − 2 p₁ + 2 q₂) a_v(x) a_w(x),

p and q the chances that the true and another cell are named, p₁ and q₂ that a pair with and without the true one is.

Letters: W effect, v and w cells, x record, a_W what of an effect is seen, e_W its energy, z a report's weight, N reports on a
question.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import count

import numpy as np

from optrr.allocation.supports import unlikely_chance
from optrr.core.display import crossed
from optrr.core.domain import Domain
from optrr.core.errors import InvalidInput, TooFewRecords
from optrr.core.estimation import (
    Estimate,
    EstimatedTable,
    Sampling,
    check_records,
    projection,
    unbiased_estimate,
    wilson,
)
from optrr.core.mechanisms import unrandomized
from optrr_solvers.allocation.questions import SubsetReport, transformed
from optrr_solvers.arrays import FloatArray

# Replacement for variances of 0 or less, whose powers are finite.
_NO_VARIANCE = 1e-100
# Chances held at once: 8 MB.
_ENTRIES = 1 << 20
# From the five cases (all different, x = v, x = w, v = w, all alike) to the coefficients of the five functions.
_FUNCTIONS = np.array([[1, 0, 0, 0, 0], [-1, 1, 0, 0, 0], [-1, 0, 1, 0, 0], [-1, 0, 0, 1, 0], [2, -1, -1, -1, 1]])
_X_IS_V, _X_IS_W, _V_IS_W, _ALIKE = 1, 2, 3, 4
# Products of as many numbers are added up for one covariance, a second or two; and an operator of so many, 32 MB, is kept.
_MOST_PRODUCTS, _KEPT = 1 << 29, 1 << 22
# Tables whose covariance is added up by itself, before what each record adds is kept for further ones.
_FEW = 3


@dataclass(frozen=True, eq=False)
class Answered:
    """Counted reports of one query for one table.

    ``shared`` are the positions in the query's table of the attributes shared with the required table, ``axes`` their
    positions in the required table. ``supports`` counts, per cell over the shared attributes, the listed cells; for a
    report with a subset of each attribute, the cells whose categories are all listed.
    """

    report: SubsetReport
    sizes: tuple[int, ...]
    epsilon: float
    shared: tuple[int, ...]
    axes: tuple[int, ...]
    supports: FloatArray
    n: int

    @property
    def joint(self) -> bool:
        """Whether one subset of cells of the whole table is named."""
        return len(self.report.subset_sizes) < len(self.sizes)

    def effect_means(self) -> dict[int, FloatArray]:
        """Compute a_W θ̂_W of the effects W of the shared attributes.

        By Σ 2^axis, with as many axes as W has attributes.
        """
        out = {}
        for subset in range(1, 1 << len(self.shared)):
            members = [k for k in range(len(self.shared)) if subset >> k & 1]
            others = tuple(k for k in range(len(self.shared)) if not subset >> k & 1)
            table = self.supports.sum(axis=others) / self.n
            if not self.joint:
                table = table / math.prod(self.report.subset_sizes[self.shared[k]] for k in others)
            for axis in range(table.ndim):
                table = table - table.mean(axis=axis, keepdims=True)
            out[sum(1 << self.axes[k] for k in members)] = table
        return out

    def seen(self) -> FloatArray:
        """Compute a_W of the effects of the shared attributes, shape (2^u,).

        By Σ 2^k over their places among the shared.
        """
        chances = pattern_chances(self.report, self.sizes, self.epsilon)
        r, k = np.asarray(self.report.parts(self.sizes))[:, None], np.asarray(self.report.subset_sizes)[:, None]
        ones = np.ones_like(k)
        every = transformed(chances[:, None], (ones, ones, -k / (r - 1), (r - k) / (r - 1))).ravel()
        if self.joint:
            return np.concatenate([[1.0], np.full((1 << len(self.shared)) - 1, every[1])])
        return np.asarray(every[self._places()])

    def energies(self) -> FloatArray:
        """Compute e_W of the effects of the shared attributes, shape (2^u,)."""
        return np.asarray(self.report.energies(self.sizes, self.epsilon)[self._places()])

    def _places(self) -> list[int]:
        """List Σ 2^place over the members of each subset of the shared attributes."""
        return [_lifted(subset, self.shared) for subset in range(1 << len(self.shared))]

    def cell_chances(self) -> tuple[float, float]:
        """Compute probabilities that a reported subset has the true or another cell."""
        return self._with_others(float(pattern_chances(self.report, self.sizes, self.epsilon)[1]))

    def likely_chances(self) -> tuple[float, float]:
        """Compute the same if the true cell is likely to be named, without rounding.

        From the probability that is drawn with.
        """
        return self._with_others(1 - unlikely_chance(self.report, self.sizes, self.epsilon))

    def _with_others(self, p: float) -> tuple[float, float]:
        """Return probabilities of naming the true cell and each other one."""
        cells, k = math.prod(self.sizes), self.report.subset_sizes[0]
        return p, (p * (k - 1) + (1 - p) * k) / (cells - 1)

    def moments(self, weights: FloatArray) -> FloatArray:
        """Compute first and second moments of a weighted product of indicators, (2, 2^u).

        z = Σ_W weight_W Π_{i∈W} g_i, by which shared attributes agree in record and cell.
        """
        return self._joint_moments(weights) if self.joint else self._match_moments(weights)

    def _match_moments(self, weights: FloatArray) -> FloatArray:
        u = len(self.shared)
        r = np.asarray([self.sizes[i] for i in self.shared], dtype=np.float64)[:, None]
        k = np.asarray([self.report.subset_sizes[i] for i in self.shared], dtype=np.float64)[:, None]
        # z by which subsets hold the cell's categories
        ones = np.ones_like(k)
        z = transformed(weights[:, None], (ones, -k / r, ones, 1 - k / r)).ravel()
        matches = self.matches().T.reshape(-1, 1)
        # probability that a subset without the record's category, and one with it, contains a given other category
        without, within = k / (r - 1), (k - 1) / (r - 1)
        powers, out = np.stack([z, z**2]), np.empty((2, 1 << u))
        step = max(1, _ENTRIES >> u)
        for start in range(0, 1 << u, step):
            alike = (np.arange(start, min(start + step, 1 << u)) >> np.arange(u)[:, None] & 1) == 1
            none, both = np.where(alike, 0.0, without), np.where(alike, 1.0, within)
            chance = transformed(np.repeat(matches, alike.shape[1], axis=1), (1 - none, 1 - both, none, both))
            out[:, start : start + step] = powers @ chance
        return out

    def _joint_moments(self, weights: FloatArray) -> FloatArray:
        sizes = [self.sizes[i] for i in self.shared]
        # what naming a cell adds, and how many cells there are, by which shared attributes it shares with the one asked about
        added = _by_bits([np.asarray([[1, -1 / r], [1, 1 - 1 / r]]) for r in sizes]) @ weights
        number = _by_bits([np.asarray([r - 1.0, 1.0]) for r in sizes]) * (math.prod(self.sizes) / math.prod(sizes))
        named, other = self.cell_chances()
        of_all, of_own = self.pair_chances()
        return np.stack([(named - other) * added, of_all * (number @ added**2) + of_own * added**2])

    def pair_chances(self) -> tuple[float, float]:
        """Compute q − q₂ and p − q − 2 p₁ + 2 q₂ of a reported subset of cells."""
        cells, (k,) = math.prod(self.sizes), self.report.subset_sizes
        p, q = self.cell_chances()
        with_own = p * (k - 1) / (cells - 1)
        without = (p * (k - 1) * (k - 2) + (1 - p) * k * (k - 1)) / ((cells - 1) * (cells - 2)) if cells > 2 else 0.0
        return q - without, p - q - 2 * with_own + 2 * without

    def matches(self) -> FloatArray:
        """Compute probabilities of matches on the shared attributes, (2,)*u."""
        # the first attribute's bit is the lowest, hence the last axis
        chances = pattern_chances(self.report, self.sizes, self.epsilon).reshape((2,) * len(self.sizes)).T
        beside = tuple(i for i in range(len(self.sizes)) if i not in self.shared)
        return np.asarray(np.transpose(chances.sum(axis=beside), np.argsort(np.argsort(self.shared))))


def alone(answered: Sequence[Answered]) -> Answered | None:
    """Return the only query that informs about a table, if it is about all of it.

    Its reports must name likely cells.
    """
    told = [a for a in answered if a.n]
    if len(told) != 1 or len(told[0].shared) < len(told[0].sizes):
        return None
    report = told[0].report
    return told[0] if len(report.subset_sizes) == 1 and report.likely == (1,) else None


def pattern_chances(report: SubsetReport, sizes: Sequence[int], epsilon: float) -> FloatArray:
    """Compute probabilities of patterns of matches as drawn, shape (2^parts,).

    They do not depend on the record.
    """
    weights = np.asarray(report.weights(sizes), dtype=np.float64)
    likely = np.zeros(weights.size, dtype=np.bool_)
    likely[list(report.likely)] = True
    chance = 1 - unlikely_chance(report, sizes, epsilon)
    return np.asarray(
        np.where(likely, chance * weights / weights[likely].sum(), (1 - chance) * weights / weights[~likely].sum())
    )


def _by_bits(factors: Sequence[FloatArray]) -> FloatArray:
    """Compute the Kronecker product with the first factor for the lowest bit."""
    out = factors[0]
    for factor in factors[1:]:
        out = np.asarray(np.kron(factor, out))
    return out


@dataclass(frozen=True, eq=False)
class Pooled:
    """Unbiased proportions of a table from all informative queries.

    With the information on each of its effects.
    """

    answered: list[Answered]
    proportions: FloatArray
    information: dict[int, float]

    @property
    def n(self) -> int:
        """Reports on any of the questions."""
        return sum(a.n for a in self.answered)

    def weights(self, a: Answered) -> FloatArray:
        """Compute the cells' weights of a query's Π_{i∈W} g_i, shape (2^u,)."""
        seen, energies = a.seen(), a.energies()
        out = np.zeros(energies.size)
        for subset in range(1, energies.size):
            if energies[subset] > 0:
                w = _lifted(subset, a.axes)
                share = _share(w, self.proportions.shape)
                out[subset] = share * a.n * energies[subset] / seen[subset] / self.information[w]
        return out


def pooled(domain: Domain, answered: Sequence[Answered], partly: bool = False) -> Pooled:
    """Estimate every effect of a table from each query that observes it.

    Raises TooFewRecords as :func:`combined` does.

    Where a table may be known ``partly``, effects that no report tells about count as 0.
    """
    sizes = tuple(int(r) for r in domain.sizes)
    told = [a for a in answered if a.n]
    n = sum(a.n for a in told)
    check_records(n)
    every = range(1, 1 << len(sizes))
    sums, information = {w: np.zeros([sizes[i] for i in _members(w)]) for w in every}, dict.fromkeys(every, 0.0)
    for a in told:
        means, seen, energies = a.effect_means(), a.seen(), a.energies()
        for subset in range(1, 1 << len(a.shared)):
            w = _lifted(subset, a.axes)
            if energies[subset] > 0:
                axes = np.argsort([a.axes[k] for k in range(len(a.shared)) if subset >> k & 1])
                sums[w] += a.n * energies[subset] / seen[subset] * np.transpose(means[w], axes)
                information[w] += a.n * energies[subset]
    missing = next((w for w in every if not information[w] > 0), None)
    if missing is not None and not partly:
        about = crossed([domain.names[i] for i in _members(missing)])
        raise TooFewRecords(f"no answer contains information about {about}; collect more answers")
    effects = {w: sums[w] / information[w] for w in every if information[w] > 0}
    raw = np.full(sizes, 1 / math.prod(sizes))
    for w, effect in effects.items():
        raw += _share(w, sizes) * _spread(effect, w, len(sizes))
    return Pooled(told, raw, information)


def error_where(answered: Sequence[Answered], proportions: FloatArray) -> float:
    """Compute Σ Var of a table's cells at these true proportions.

    Supports are not considered.
    """
    information = dict.fromkeys(range(1, 1 << proportions.ndim), 0.0)
    for a in answered:
        for subset, energy in enumerate(a.energies()[1:].tolist(), 1):
            information[_lifted(subset, a.axes)] += a.n * energy
    told = Pooled(list(answered), proportions, information)
    return float(_at(_variances(told, proportions), proportions).sum())


def combined(domain: Domain, answered: Sequence[Answered], confidence: float) -> Estimate:
    """Estimate a table over ``domain`` from all informative queries.

    Raises TooFewRecords for fewer than 2 reports, or an effect of the table that no report tells about.
    """
    told = pooled(domain, answered)
    raw = told.proportions
    fit = projection(raw.ravel()).reshape(raw.shape)
    variances = _variances(told, fit)
    ends = wilson(raw.ravel(), variances, 1 - confidence)
    return unbiased_estimate(domain, told.n, raw, np.sqrt(_at(variances, fit)), confidence, ends)


def _at(variances: FloatArray, shares: FloatArray) -> FloatArray:
    """Evaluate the variances (R,) at these proportions of the cells."""
    p = shares.ravel()
    return np.asarray(np.maximum(variances[0] + p * (variances[1] + p * variances[2]), _NO_VARIANCE))


def _variances(told: Pooled, fit: FloatArray) -> FloatArray:
    """Compute variances as polynomials of each cell's proportion, (3, R).

    All other cells are as in a fit.
    """
    sizes, share = fit.shape, fit.ravel()
    out = np.zeros((3, fit.size))

    @cache
    def margin(kept: int) -> FloatArray:
        return np.asarray(fit.sum(axis=tuple(i for i in range(len(sizes)) if not kept >> i & 1), keepdims=True))

    rest = np.maximum(1 - share, 1e-12)
    for a in told.answered:
        moments = a.moments(told.weights(a))
        # a function of what record and cell share is a sum over attribute sets B of F_B 1[x_B = v_B]
        inside, means = moments[:, -1][:, None], np.zeros((2, *sizes))
        one, zero = np.ones((len(a.shared), 1)), np.zeros((len(a.shared), 1))
        factors = transformed(moments.T, (one, zero, -one, one)).reshape(-1, 2, *(1 for _ in sizes))
        for subset, factor in enumerate(factors):
            means += factor * margin(_lifted(subset, a.axes))
        first, second = (means.reshape(2, -1) - share * inside) / rest
        to_first, to_second = inside - np.stack([first, second])
        out += np.stack([second - first**2, to_second - 2 * first * to_first, -(to_first**2)]) / a.n
    return out


def _members(subset: int) -> list[int]:
    return [i for i in range(subset.bit_length()) if subset >> i & 1]


def _lifted(subset: int, axes: Sequence[int]) -> int:
    """Convert attributes to their places in the requested table."""
    return sum(1 << axes[k] for k in _members(subset))


def _share(subset: int, sizes: Sequence[int]) -> float:
    """Compute Π 1/r_i of the attributes outside an effect."""
    return 1 / math.prod(r for i, r in enumerate(sizes) if not subset >> i & 1)


def _spread(effect: FloatArray, subset: int, axes: int) -> FloatArray:
    """Expand an effect to one axis per attribute of the table."""
    shape = iter(effect.shape)
    return effect.reshape([next(shape) if subset >> i & 1 else 1 for i in range(axes)])


def answered_table(domain: Domain, answered: Sequence[Answered], partly: bool = False) -> EstimatedTable:
    """Estimate a table with its distribution, for measures, tests and models.

    Where it may be known ``partly``, effects that no report tells about are 0 and have no variance.

    Time and memory O(5^m R²) for m attributes and R cells, whatever the number of reports.

    Raises TooFewRecords for fewer than 2 reports, or an effect of the table that no report tells about. InvalidInput for large
    tables.
    """
    sizes = tuple(int(r) for r in domain.sizes)
    cells = math.prod(sizes)
    if 5 ** len(sizes) * cells**2 > _MOST_PRODUCTS:
        raise InvalidInput(
            f"the table has {cells} cells of {len(sizes)} attributes, too many for the covariance of answers; use "
            "fewer attributes, or estimate the cells alone: reports.table(…)"
        )
    told = pooled(domain, answered, partly)
    kernel = unrandomized(sizes, domain.names)
    return EstimatedTable(domain, told.n, told.proportions, kernel, AnsweredSampling(kernel, told.n, None, _law(told)))


@dataclass(frozen=True, eq=False)
class AnsweredLaw:
    """Components of the covariance of an estimated table.

    ``second`` (5,)*m are the coefficients of Σ E z zᵀ/N; ``means`` (2^m, 2^m) those of Σ E z E zᵀ/N, by the attributes of both
    margins, the first one's bit the highest.
    """

    sizes: tuple[int, ...]
    second: FloatArray
    means: FloatArray
    _asked: Iterator[int] = field(default_factory=count, init=False, repr=False)

    def covariance(self, table: FloatArray) -> FloatArray:
        """Compute the covariance (R, R) under a table (R,) that sums to 1."""
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
        """Second moments per true record, shape (R, R²)."""
        return np.stack([self._seconds(each).ravel() for each in np.eye(math.prod(self.sizes))])

    def _margins(self, table: FloatArray) -> FloatArray:
        """Compute every margin at every cell, (2^m, R)."""
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
    """Sampling variation of estimates from answers.

    The observed table is the unbiased estimate, and the kernel has no noise.
    """

    answers: AnsweredLaw | None = None

    def expected(self, table: FloatArray) -> FloatArray:
        """Return a proper table near this one."""
        return projection(table.ravel())

    def padded(self, observed: FloatArray) -> FloatArray:
        """Return a proper table near the estimate, with half a record in every cell."""
        return self.expected(super().padded(observed))

    def spread(self, observed: FloatArray, directions: FloatArray) -> FloatArray:
        """Compute covariances of the cells with sums of them under a table."""
        assert self.answers is not None
        return np.asarray(self.answers.covariance(observed.ravel()) @ directions)

    def proper(self, observed: FloatArray) -> FloatArray:
        """Return the nearest proper table."""
        return projection(observed)

    def third(self, observed: FloatArray, gradient: FloatArray) -> float:
        """Return 0 for the third moment.

        Reports have bounded weight, and skewness decreases with noise; coverage was measured without it.
        """
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
    return AnsweredLaw(told.proportions.shape, second, means)


def _by_axis(values: FloatArray, axes: int) -> FloatArray:
    """Reshape values by Σ 2^k, (2^u,), to an axis for each k, (2,)*u."""
    return values.reshape((2,) * axes).T


def _centred(a: Answered, weights: FloatArray) -> FloatArray:
    """Expand Σ_W weight_W Π_{i∈W} (1[x_i = v_i] − 1/r_i) in Π 1[x_i = v_i].

    Coefficients of shape (2,)*u.
    """
    for k, place in enumerate(a.shared):
        weights = _along(np.array([[1, -1 / a.sizes[place]], [0, 1]]), weights, k)
    return weights


def _along(matrix: FloatArray, array: FloatArray, axis: int, axes: int = 1) -> FloatArray:
    """Multiply by a matrix along one axis, or several that become one."""
    flat = array.reshape(*array.shape[:axis], -1, *array.shape[axis + axes :])
    return np.moveaxis(np.tensordot(matrix, flat, (1, axis)), 0, axis)


def _of_matches(a: Answered, weights: FloatArray) -> FloatArray:
    """Compute E z zᵀ of a report on subsets of each attribute, (5,)*u."""
    u = len(a.shared)
    out = np.multiply.outer(np.multiply.outer(a.matches(), weights), weights)
    # matched, in W, in the other W: of each attribute side by side
    out = out.transpose([k + u * part for k in range(u) for part in range(3)])
    for k, place in enumerate(a.shared):
        out = _along(_FUNCTIONS @ _cases(a.sizes[place], a.report.subset_sizes[place]), out, k, 3)
    return out


def _cases(r: int, k: int) -> FloatArray:
    """Compute means of 1, g(v), g(w), g(v) g(w) in the five cases, (5, 8).

    The axes are the match and the subset that counts.
    """
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
    """Compute E z zᵀ of a report on a subset of the table's cells, (5,)*u."""
    u, cells = len(a.shared), math.prod(a.sizes)
    of_all, of_own = a.pair_chances()
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
    return np.asarray(of_all * over_cells + of_own * at_record)
