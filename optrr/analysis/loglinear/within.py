"""Independence within strata by likelihood ratio, with the strata free (Wilks, Ann. Math. Stat. 9, 1938).

    T = 2n (ℓ_1 − ℓ_0),    ℓ = Σ_v λ̂_v ln λ_v,    λ = Pᵀπ,    both maxima over proper tables π.

By the hypothesis π_abc ∝ u_ac v_bc: a and b are the two attributes, c the categories of all strata together. The
alternative is any table, or π_abc ∝ u_ac v_bc θ_ab: the same odds ratios in all strata, free or θ_ab = exp(β x_a y_b)
for scores x and y. λ is linear in each of the factors u, v and θ while the others stay, so that each in turn is the
maximum-likelihood mixture of known distributions (:func:`optrr.core.estimation.likelihood.likeliest_weights`, exact at
empty cells too); β goes by scoring.

In a noisy table seldom all estimated margins are proportions, and each is imprecise. Then most of the information is
that true proportions are at least 0, and the likelihood uses it. T has no χ² law there; it is drawn from the fitted
hypothesis, whose margins get half a record's worth more in every cell, a tenth in all at most, as its law for even
margins is shorter than for uneven ones (:meth:`NullModel.cautious`). The likelihood may have several maxima; the one
that turns reach from the estimated margins is taken, for drawn tables by the same rule, so that p-values are right for
whichever maximum that is. *Checked*: benchmarks/strata_levels.py.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optrr.analysis.loglinear.fitting import NullModel, TableFits
from optrr.core.estimation import likeliest_weights
from optrr.core.inference import HELD, Draw, Simulation, drawn_statistics
from optrr_solvers.arrays import FloatArray, IntArray

# Tables of more cells take too long to draw and fit: this many takes some 40 ms each.
MOST_CELLS = 160
# Draws are fewer for larger tables, whose fits take the cube of their cells: between the two numbers, some ten seconds in all.
_WORK, _FEWEST_DRAWS, _MOST_DRAWS = 5e8, 499, 9999
# Rounds of turns, and the nats over all records that a round must gain for there to be another.
_ROUNDS, _GAIN = 40, 1e-3
# Each turn starts with this part of even weights, so that no observed report is impossible and no category is lost for
# good.
_EVEN = 0.01
# Bound on the distance of each turn from its maximum, in nats over all records: far below what a round must gain.
_CLOSE = 1e-5
# Smallest factor, so that laws of empty categories are defined.
_NOBODY = 1e-12
# Statistics below this, in nats, are 0: the tolerance of the fits.
_ZERO = 1e-3
# The longest step of an exponent, and how often it is halved.
_LONGEST, _HALVINGS = 2.0, 5
# Letters of each factor beside z, the table's number.
_LETTERS = ("ac", "bc", "ab")


@dataclass(frozen=True, eq=False)
class StrataRatio:
    """The likelihood ratio of a ⊥ b within strata: ``null`` is a*c + b*c.

    Without a ``trend`` the alternative is any table; θ is free where ``trend`` is empty, and else it holds x_a y_b,
    (r_a, r_b).
    """

    null: NullModel
    trend: FloatArray | None

    @classmethod
    def of(cls, null: NullModel, added: FloatArray | None) -> "StrataRatio | None":
        """Build the test against added columns (d, *sizes), or any table.

        None if it is not one of these tests.
        """
        sizes = null.kernel.sizes
        strata = tuple(range(2, len(sizes)))
        if not strata or set(null.terms.generators) != {(0, *strata), (1, *strata)} or null.kernel.cells > MOST_CELLS:
            return None
        if added is None:
            return cls(null, None)
        each = added.reshape(len(added), *sizes[:2], -1)
        free = (sizes[0] - 1) * (sizes[1] - 1)
        if np.ptp(each, axis=3).any() or len(each) not in (1, free):
            return None
        return cls(null, np.zeros((0, 0)) if len(each) == free else each[0, :, :, 0])

    @property
    def rule(self) -> Simulation:
        """How many tables are drawn for a p-value."""
        return Simulation(most=int(np.clip(_WORK / self.null.kernel.cells**3, _FEWEST_DRAWS, _MOST_DRAWS)))

    def tested(self, tables: FloatArray, fits: TableFits) -> FloatArray:
        """Compute T of tables of counts (B, *sizes), (B,).

        ``fits`` are consistent fits of the hypothesis.
        """
        step = max(1, HELD // self.null.kernel.cells**2)
        pieces = [np.arange(b, min(b + step, len(tables))) for b in range(0, len(tables), step)]
        return np.concatenate([self._statistics(_Turns.of(self, tables[p], fits.part(p))) for p in pieces])

    def likeliest(self, tables: FloatArray, fits: TableFits) -> FloatArray:
        """Maximize the likelihood under the hypothesis, (B, *sizes).

        ``fits`` are consistent fits of it.
        """
        turns = _Turns.of(self, tables, fits)
        turns.rounds((0, 1))
        return turns.table.reshape(tables.shape)

    def draw(self, tables: FloatArray, fits: TableFits, rng: np.random.Generator) -> Draw:
        """Draw statistics under the best fit of the hypothesis to these tables."""
        n = tables.sum(axis=self.null.kernel.axes)
        best = self.likeliest(tables, fits)
        laws = self.null.cautious(TableFits(best, self.null.reports(best), fits.proper), n.astype(np.int64))
        return drawn_statistics(
            n, laws, lambda drawn: self.tested(drawn, self.null.started(drawn)), self.null.kernel.cells, rng
        )

    def _statistics(self, turns: "_Turns") -> FloatArray:
        by_null = turns.rounds((0, 1))
        if self.trend is None:
            matrix = self.matrix.reshape(self.null.kernel.cells, -1)
            start, close = turns.table.reshape(len(turns.n), -1), _CLOSE / float(turns.n.max())
            weights = likeliest_weights(turns.observed, matrix[None], _padded(start), close)[0]
            free = turns.n * _nats(turns.observed, weights @ matrix)
        else:
            free = turns.rounds((2, 0, 1))
        ratio = 2 * (free - by_null)
        return np.where(ratio > _ZERO, ratio, 0.0)

    @cached_property
    def matrix(self) -> FloatArray:
        """P, (r_a, r_b, S, R)."""
        kernel = self.null.kernel
        return kernel.matrix().reshape(*kernel.sizes[:2], -1, kernel.cells)


@dataclass(eq=False)
class _Turns:
    """Factors u (B, r_a, S), v (B, r_b, S) and θ (B, r_a, r_b), fitted in turns."""

    test: StrataRatio
    observed: FloatArray
    n: FloatArray
    factors: list[FloatArray]

    @classmethod
    def of(cls, test: StrataRatio, tables: FloatArray, fits: TableFits) -> "_Turns":
        """Start from fits of the hypothesis."""
        b, (r_a, r_b, strata, cells) = len(tables), test.matrix.shape
        n = tables.reshape(b, -1).sum(axis=1)
        start = fits.proportions.reshape(b, r_a, r_b, strata)
        rows, columns = (np.maximum(start.sum(axis=axis), _NOBODY) for axis in (2, 1))
        factors = [rows / rows.sum(axis=1, keepdims=True), columns, np.ones((b, r_a, r_b))]
        return cls(test, tables.reshape(b, cells) / n[:, None], n, factors)

    @property
    def table(self) -> FloatArray:
        """Fitted proportions, (B, r_a, r_b, S), with sum 1."""
        table = np.einsum("zac,zbc,zab->zabc", *self.factors)
        return np.asarray(table / table.sum(axis=(1, 2, 3), keepdims=True))

    def rounds(self, order: tuple[int, ...]) -> FloatArray:
        """Fit the factors in turns until convergence; return nats of all, (B,)."""
        open_, reached = np.arange(self.n.size), np.full(self.n.size, -np.inf)
        for _ in range(_ROUNDS):
            before = reached[open_]
            for which in order:
                scored = which == 2 and self.test.trend is not None and self.test.trend.size
                reached[open_] = self._scored(open_) if scored else self._mixed(open_, which)
            open_ = open_[reached[open_] - before > _GAIN]
            if not open_.size:
                break
        return reached

    def _mixed(self, of: IntArray, which: int) -> FloatArray:
        """Maximize one factor while the others are fixed."""
        own, (first, second) = _LETTERS[which], (k for k in range(3) if k != which)
        others = [self.factors[first][of], self.factors[second][of]]
        letters = f"z{_LETTERS[first]},z{_LETTERS[second]}"
        total = np.maximum(np.einsum(f"{letters}->z{own}", *others), np.finfo(np.float64).tiny)
        laws = np.einsum(f"{letters},abcv->z{own}v", *others, self.test.matrix) / total[..., None]
        laws = laws.reshape(of.size, -1, laws.shape[-1])
        start = (self.factors[which][of] * total).reshape(of.size, -1)
        close = _CLOSE / float(self.n[of].max())
        weights = likeliest_weights(self.observed[of], laws, _padded(start / start.sum(axis=1, keepdims=True)), close)[
            0
        ]
        factor = np.maximum(weights, _NOBODY).reshape(total.shape) / total
        self.factors[which][of] = factor / factor.mean(axis=(1, 2), keepdims=True)
        return self.n[of] * _nats(self.observed[of], (weights[:, None, :] @ laws)[:, 0])

    def _scored(self, of: IntArray) -> FloatArray:
        """Take a step of β, halved until the likelihood rises."""
        goal, matrix, shape = self.test.trend, self.test.matrix, self.test.matrix.shape
        assert goal is not None
        table, observed = self._of(of, self.factors[2][of]), self.observed[of]
        expected = np.einsum("zabc,abcv->zv", table, matrix)
        centred = goal[None] - np.einsum("zabc,ab->z", table, goal)[:, None, None]
        slope = np.einsum("zabc,zab,abcv->zv", table, centred, matrix, optimize=True)
        information = np.maximum(np.sum(slope**2 / expected, axis=1), np.finfo(np.float64).tiny)
        farthest = _LONGEST / max(float(np.ptp(goal)), np.finfo(np.float64).tiny)
        step = np.clip(np.sum(observed * slope / expected, axis=1) / information, -farthest, farthest)
        best, left = self.n[of] * _nats(observed, expected), np.arange(of.size)
        for _ in range(_HALVINGS):
            theta = self.factors[2][of[left]] * np.exp(step[left, None, None] * goal)
            there = self._of(of[left], theta).reshape(left.size, -1) @ matrix.reshape(-1, shape[-1])
            nats = self.n[of[left]] * _nats(observed[left], there)
            better = nats > best[left]
            self.factors[2][of[left[better]]], best[left[better]] = theta[better], nats[better]
            left, step = left[~better], step / 2
            if not left.size:
                break
        return best

    def _of(self, of: IntArray, theta: FloatArray) -> FloatArray:
        table = np.einsum("zac,zbc,zab->zabc", self.factors[0][of], self.factors[1][of], theta)
        return np.asarray(table / table.sum(axis=(1, 2, 3), keepdims=True))


def _padded(weights: FloatArray) -> FloatArray:
    """Mix weights (B, K) with a little of even ones."""
    return np.asarray((1 - _EVEN) * weights + _EVEN / weights.shape[1])


def _nats(observed: FloatArray, expected: FloatArray) -> FloatArray:
    """Compute ℓ per record, (B,), of reports (B, R)."""
    logs = np.log(expected, out=np.zeros_like(expected), where=observed > 0)
    return np.asarray(np.sum(observed * logs, axis=1))
