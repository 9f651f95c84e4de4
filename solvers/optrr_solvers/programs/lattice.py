"""The counts lattice and the requirement rows on it, shared by the reduced and the classes solver.

A cell k = (k_1, …, k_G) counts the changed attributes of each class; classes of one attribute give the 2^m change
sets. Every requirement is E_μ[q g] ≥ 0 (see :mod:`optrr_solvers.certificates.certificate`), averaged over alike
attributes:

    accuracy of class g    (f_g − k_g/m_g) / (f_g (1−f_g))            (so scaled that flips near 0 and near 1 count)
    pairs of classes g, h  (mean of χ_ij over the pairs − κ λ_g λ_h) / s_gh,  s_gh = max(1 − λ_g λ_h, |1 − κ λ_g λ_h|)

At large ε both χ and λ are near 1, so pair rows are computed from 1 − χ and 1 − λ, which lose no digits.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.certificates.certificate import EXACT_CELLS, Certificate
from optrr_solvers.errors import InvalidProblem, MethodTooLarge
from optrr_solvers.laws.count import MAX_CELLS, log_uniform_counts
from optrr_solvers.partition import Partition
from optrr_solvers.problem import Problem

# Integer multipliers carry this many bits in all: int64 sums stay exact on large lattices, and on lattices small enough
# for exact rationals there is room for weights of very different size.
_BITS = 60
_EXACT_BITS = 240


@dataclass(frozen=True, eq=False)
class Lattice:
    """Cells and requirement rows of a problem with classes of alike attributes."""

    problem: Problem
    classes: Partition

    def __post_init__(self) -> None:
        if self.cells > MAX_CELLS:
            raise MethodTooLarge(
                f"{self.cells} vectors of counts; at most {MAX_CELLS}: use method 'ball' or fewer different attributes"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """(m_1+1, …, m_G+1)."""
        return tuple((self.classes.counts + 1).tolist())

    @property
    def cells(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    @cached_property
    def log_mu(self) -> FloatArray:
        """ln μ of every cell, shape ``shape``."""
        return log_uniform_counts(self.problem.sizes, self.classes)

    @cached_property
    def class_pairs(self) -> tuple[tuple[int, int], ...]:
        """Preserved pairs as pairs of classes (g ≤ h).

        Each must be preserved for all members or for none.
        """
        class_of = self.classes.numbers
        numbers: dict[tuple[int, int], int] = {}
        for i, j in self.problem.pairs:
            a, b = sorted((int(class_of[i]), int(class_of[j])))
            numbers[a, b] = numbers.get((a, b), 0) + 1
        for (a, b), count in numbers.items():
            if count != self._pair_count(a, b):
                raise InvalidProblem(
                    "of identical attributes, either all pairs or none can be preserved; name all their pairs or use "
                    "method 'reduced'"
                )
        return tuple(sorted(numbers))

    def _pair_count(self, a: int, b: int) -> int:
        n, other = (int(self.classes.counts[g]) for g in (a, b))
        return n * (n - 1) // 2 if a == b else n * other

    def epsilon_weights(self) -> FloatArray:
        """Return the multipliers of w = ε_i, without pairs.

        They are optimal up to scale for many attributes (theory §3.3).
        """
        weights = self.problem.epsilons[self.firsts] * self._spread * self.classes.counts
        return np.append(weights, np.zeros(len(self.class_pairs)))

    def log_dual_guess(self) -> float:
        """Estimate ln(Q − 1) by the lower bound at w = ε_i.

        Programs scaled by it have y near 1.
        """
        w = self.epsilon_weights()
        with np.errstate(divide="ignore"):
            logs = self.log_mu + np.log(np.maximum(self.combine(w), 0))
        return float(np.log(-(w @ self.means)) - logsumexp(logs))

    @cached_property
    def firsts(self) -> IntArray:
        """One member of each class."""
        return self.classes.first

    @cached_property
    def means(self) -> FloatArray:
        """E_μ g of every row, shape (rows,).

        −(d−f)/(f(1−f)) for accuracies, −κ λ λ / s for pairs.
        """
        p = self.problem
        accuracy = -p.gaps[self.firsts] / self._spread
        lam = p.eigenvalues[self.firsts]
        pairs = [-p.kappa * lam[a] * lam[b] / s for (a, b), (_, s) in zip(self.class_pairs, self._margins, strict=True)]
        return np.append(accuracy, pairs)

    @cached_property
    def _margins(self) -> list[tuple[float, float]]:
        """Scaled need 1 − κ λ λ' and scale s of every pair of classes."""
        p, out = self.problem, []
        lam = p.eigenvalues[self.firsts]
        lost = (p.flips / p.uniform_flips)[self.firsts]
        for a, b in self.class_pairs:
            less = float(lost[a] + lam[a] * lost[b])
            margin = less if p.kappa == 1 else (1 - p.kappa) + p.kappa * less
            out.append((margin, max(less, abs(margin))))
        return out

    def _axis(self, values: FloatArray, g: int) -> FloatArray:
        shape = [1] * len(self.classes)
        shape[g] = -1
        return values.reshape(shape)

    @cached_property
    def _kept(self) -> FloatArray:
        """1 − f_g, without cancellation."""
        return np.asarray(self.problem.keeps[self.firsts])

    @cached_property
    def _spread(self) -> FloatArray:
        """f_g (1 − f_g)."""
        return np.asarray(self.problem.flips[self.firsts] * self._kept)

    @cached_property
    def _accuracy_values(self) -> list[FloatArray]:
        # written as (1−x)/(1−f) − x/f, which loses no digits at x = 0 and x = 1
        share = [np.arange(c.size + 1) / c.size for c in self.classes]
        f = self.problem.flips[self.firsts]
        return [(1 - x) / k - x / g for x, k, g in zip(share, self._kept, f, strict=True)]

    @cached_property
    def _lost(self) -> list[tuple[FloatArray, FloatArray]]:
        """1 minus the mean of χ_i, and 1 minus that of χ_i χ_j, per class and count."""
        out = []
        for members, r in zip(self.classes, self.problem.sizes[self.firsts], strict=True):
            n, k = members.size, np.arange(members.size + 1.0)
            u = k * (r / (r - 1))
            both = (u * (2 * n - u) - k + k / (r - 1) ** 2) / max(n * (n - 1), 1)
            out.append((u / n, both))
        return out

    def combine(self, multipliers: FloatArray) -> FloatArray:
        """Compute h = Σ multipliers · g on every cell, shape ``shape``.

        Takes O(cells · (1 + pairs)).
        """
        return self._pairs_added(self._accuracies_added(multipliers, self._accuracy_values), multipliers)

    def magnitude(self, multipliers: FloatArray) -> FloatArray:
        """Bound Σ |multipliers · g| on every cell, shape ``shape``.

        The rounding error of h is relative to it.
        """
        sizes = [np.abs(values) for values in self._accuracy_values]
        out = self._accuracies_added(np.abs(multipliers), sizes)
        extra = np.abs(multipliers[len(self.classes) :])
        for (a, b), v, (margin, scale) in zip(self.class_pairs, extra, self._margins, strict=True):
            out = out + v / scale * (abs(margin) + np.abs(self._lost_pair(a, b)))
        return out

    def _accuracies_added(self, multipliers: FloatArray, rows: list[FloatArray]) -> FloatArray:
        out = np.zeros((1,) * len(self.classes))
        for g, values in enumerate(rows):
            out = out + self._axis(multipliers[g] * values, g)
        return out

    def _pairs_added(self, out: FloatArray, multipliers: FloatArray) -> FloatArray:
        extra = multipliers[len(self.classes) :]
        for pair, v in enumerate(extra.tolist()):
            if v != 0:
                out = out + v * self._pair_values(pair)
        return out

    def _pair_values(self, pair: int) -> FloatArray:
        """Compute the row of a pair of classes, broadcastable to ``shape``."""
        margin, scale = self._margins[pair]
        return np.asarray((margin - self._lost_pair(*self.class_pairs[pair])) / scale)

    def _lost_pair(self, a: int, b: int) -> FloatArray:
        """Compute 1 − χ of two classes on every cell."""
        if a == b:
            return self._axis(self._lost[a][1], a)
        one, other = self._axis(self._lost[a][0], a), self._axis(self._lost[b][0], b)
        return one + (1 - one) * other

    def rows_at(self, cells: IntArray) -> FloatArray:
        """Compute every row at the flat cells, shape (rows, cells)."""
        counts = np.unravel_index(cells, self.shape)
        rows = [values[k] for values, k in zip(self._accuracy_values, counts, strict=True)]
        for pair in range(len(self.class_pairs)):
            rows.append(np.broadcast_to(self._pair_values(pair), self.shape)[counts])
        return np.stack(rows)

    def mass_times_rows(self, mass: FloatArray) -> FloatArray:
        """Sum mass · g over cells for each row, shape (rows,).

        ``mass`` has shape ``shape``. O(cells · (1 + pairs)).
        """
        axes = range(len(self.classes))
        out = []
        for g, values in enumerate(self._accuracy_values):
            out.append(float(mass.sum(axis=tuple(a for a in axes if a != g)) @ values))
        for pair in range(len(self.class_pairs)):
            out.append(float(np.sum(mass * self._pair_values(pair))))
        return np.asarray(out)

    def certificate(self, multipliers: FloatArray, caps: Sequence[tuple[int, int, bool, float]] = ()) -> Certificate:
        """Round multipliers to integers per attribute, pair and cap.

        Proportional to the rows' real ones; negative ones are dropped.
        """
        p, groups = self.problem, len(self.classes)
        r = p.sizes[self.firsts].astype(np.float64)
        n = self.classes.counts
        weights = np.maximum(multipliers[:groups], 0) / (n * self._spread)
        scales = np.asarray([self._pair_count(a, b) * (r[a] - 1) * (r[b] - 1) for a, b in self.class_pairs])
        pairs = np.maximum(multipliers[groups:], 0) / scales / [s for _, s in self._margins]
        total = float(weights @ n + pairs @ scales)
        if not (np.isfinite(total) and total > 0):
            weights, pairs, total = np.ones(groups), np.zeros(len(pairs)), float(n.sum())
        unit = (1 << (_EXACT_BITS if self.cells <= EXACT_CELLS else _BITS)) / total
        return Certificate(
            classes=self.classes,
            weights=tuple(round(x * unit) for x in weights.tolist()),
            pairs=tuple(
                (a, b, round(v * unit)) for (a, b), v in zip(self.class_pairs, pairs.tolist(), strict=True) if v > 0
            ),
            caps=tuple((cell, g, up, round(c * unit)) for cell, g, up, c in caps),
        )
