"""What a mixture of balls must answer where pairs are kept, and what each ball contributes (design §3.6).

With t = Σ_k p_k t_k a mixture of balls and y = 1/(Q−1),

    E_μ[t (f_i − 1_i)]             ≥ (d_i − f_i) y          accuracy at least as requested, for every class of alike attributes
    E_μ[t (χ_i χ_j − κ λ_i λ_j)]   ≥ κ λ_i λ_j y            every kept pair, for every pair of classes with one.

Each row is linear in the shares p, so the mechanism is scaled by the row that allows least.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.balls.moments import Classes
from optrr_solvers.balls.pair_pricing import Prices, Tilted
from optrr_solvers.errors import MethodTooLarge
from optrr_solvers.laws.ball import BallLaw, MixedBall
from optrr_solvers.laws.weighted_ball import WeightedBall
from optrr_solvers.partition import group_numbers
from optrr_solvers.problem import Problem

# Pair tables are (classes, classes).
MAX_CLASSES = 1024


@dataclass(frozen=True, eq=False)
class Column:
    """One ball: ln E_μ[t], and each row's E_μ[t (…)] relative to it: accuracies (G,), then pairs (P,)."""

    ball: WeightedBall
    log_mass: float
    rows: FloatArray


@dataclass(frozen=True, eq=False)
class Requirements:
    """Rows of a problem with pairs: classes, the pairs of classes (P,) that hold a kept pair, and their κλλ."""

    classes: Classes
    first: IntArray
    second: IntArray
    kept: FloatArray

    @classmethod
    def of(cls, problem: Problem, classes: Classes) -> "Requirements":
        """Every pair of classes with a kept pair between them: more than asked for where only some of its pairs are named."""
        where = group_numbers(classes.members)
        pairs = np.unique(np.sort(where[np.asarray(problem.pairs)], axis=1), axis=0)
        lam = classes.gaps / classes.d
        return cls(classes, pairs[:, 0], pairs[:, 1], problem.kappa * lam[pairs[:, 0]] * lam[pairs[:, 1]])

    @cached_property
    def needs(self) -> FloatArray:
        """Coefficients of y: d−f, then κλλ."""
        return np.concatenate([self.classes.gaps, self.kept])

    def column(self, ball: WeightedBall) -> Column:
        """Exact, from the law of the ball alone. Raises GridTooFine where the ball is empty."""
        law = BallLaw(self.classes.problem.sizes, self.classes.members, [MixedBall(1.0, ball)], 0.0)
        part = law.inside[0]
        chi = 1 / self.classes.d
        kept = 1 - chi * part.changed
        both = part.both_changed()[self.first, self.second]
        pairs = kept[self.first] + kept[self.second] - 1 + chi[self.first] * chi[self.second] * both
        return Column(ball, part.log_mass, np.concatenate([self.classes.f - part.changed, pairs - self.kept]))

    def prices(self, multipliers: FloatArray) -> Prices:
        """One multiplier per row, (G + P,), as prices; scaled so that the needs cost 1."""
        total = float(multipliers @ self.needs)
        multipliers = multipliers / total if total > 0 else multipliers
        return self._as_prices(multipliers)

    def _as_prices(self, multipliers: FloatArray) -> Prices:
        groups = self.classes.f.size
        v = np.zeros((groups, groups))
        v[self.first, self.second] += multipliers[groups:]
        return Prices.of(self.classes, multipliers[:groups], v + v.T, float(multipliers[groups:] @ self.kept))

    def real_rows(self, law: Tilted) -> FloatArray:
        """The rows of a ball with real weights, relative to its mass; (G + P,)."""
        pairs = law.effects_of_pairs()[self.first, self.second]
        return np.concatenate([self.classes.f - law.chances(), pairs - self.kept])

    def unscaled(self, multipliers: FloatArray, value: float, rows: FloatArray) -> Prices:
        """Multipliers as prices under which a law with the given rows is worth ``value`` of its mass."""
        prices = self._as_prices(multipliers)
        return replace(prices, constant=prices.constant + value - float(multipliers @ rows))

    def multipliers(self, prices: Prices) -> FloatArray:
        """The other way round: one multiplier per row."""
        v = prices.v[self.first, self.second] * np.where(self.first == self.second, 0.5, 1.0)
        return np.concatenate([prices.w, v])

    def rank_one(self, w: FloatArray, a: FloatArray) -> Prices:
        """Prices of multipliers w per attribute and a_i a_j per pair of attributes, for classes (G,)."""
        n = self.classes.counts
        v = np.outer(n * a, n * a)
        v[np.diag_indices_from(v)] -= n * a**2
        inside = v[self.first, self.second] * np.where(self.first == self.second, 0.5, 1.0)
        return self.prices(np.concatenate([n * w, inside]))

    def log_scale(self, columns: list[Column], shares: FloatArray) -> float:
        """ln y: the largest scale at which the mixture meets every row; −∞ where it meets none."""
        logs = np.array([c.log_mass for c in columns]) + np.log(shares)
        top = float(logsumexp(logs))
        mixed = np.exp(logs - top) @ np.stack([c.rows for c in columns])
        low = float(np.min(mixed / self.needs))
        return top + math.log(low) if low > 0 else -math.inf


def require_few_classes(classes: Classes) -> None:
    """Raise MethodTooLarge where the table of all pairs of classes would not fit."""
    if classes.counts.size > MAX_CLASSES:
        raise MethodTooLarge(
            f"method 'ball' keeps pairs among at most {MAX_CLASSES} different attributes, got {classes.counts.size}; "
            "give attributes the same size and epsilon, or design the ones whose pairs matter apart from the others"
        )
