"""Balls that keep pairs: what they must answer, what each contributes, and which is lacked most (theory §3.6).

With t = Σ_k p_k t_k a mixture of balls and y = 1/(Q−1),

    E_μ[t (f_i − 1_i)]             ≥ (d_i − f_i) y          accuracy at least as requested, for every class of alike attributes
    E_μ[t (χ_i χ_j − κ λ_i λ_j)]   ≥ κ λ_i λ_j y            every kept pair, for every pair of classes with one.

Each row is linear in the shares p, so the mechanism is scaled by the row that allows least.

Multipliers of the rows price change sets by h(S) = Σ w_i (f_i − 1_i) + Σ v_ij (χ_i χ_j − κ λ_i λ_j), quadratic in the
indicators. For a ball with weights ω and a normal radius of mean R and standard deviation T,

    E_μ[Φ((R − X)/T) h] = 1/(2πi) ∫ e^{sR + s²T²/2} s^{−1} Π_j (1−d_j + d_j e^{−sω_j}) h̄(A(s)) ds,

where A_j(s) is the chance that j changes under the complex tilt and h̄ the multilinear extension of h: under a product law
the attributes are independent. Its derivatives need one more factor: E_s[1_i h] = A_i (h̄ + (1−A_i) ∂h̄/∂A_i). So value and
gradient cost O(G² × frequencies) together, whatever the number of pairs.

One ball that keeps the pairs by itself is found by smooth ascent. With M = ln E_μ[t] and ρ_g = E_μ[t g] / (E_μ[t] need(g)) it
reaches ln y = M + min_g ln ρ_g. The smooth version,

    M − (1/β) ln Σ_g c_g ρ_g^{−β},

has the multipliers π_g ∝ c_g ρ_g^{−β}, and its gradient in weights and radius is that of E_μ[t h] / E_μ[t] for the h those
multipliers price. c follows the multipliers from stage to stage while β grows (the exponential method of multipliers: Tseng and
Bertsekas, Math. Programming 60, 1993). Since the multipliers change smoothly, they are a better guide for columns and for the
lower side than those of a program with few columns, which sit at vertices.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.balls.moments import Classes
from optrr_solvers.errors import MethodTooLarge
from optrr_solvers.laws.ball import BallLaw, MixedBall
from optrr_solvers.laws.tilting import saddle_point, wrapping_distance
from optrr_solvers.laws.weighted_ball import WeightedBall
from optrr_solvers.problem import Problem

# e^{−(Tt)²/2} is 1e-10 here: pricing steers, it proves nothing.
_REACH = 6.8
# A wider radius serves as well for finding a direction, and has fewer frequencies.
BLUR = 2.5
# Frequencies below this share of the first are left out.
_SILENT = 1e-11
# How many frequencies are looked at together: at least this many, by how many numbers they come to, and at most.
_BLOCK, _NUMBERS, _MOST = 64, 1 << 12, 1 << 14
# Pair tables are (classes, classes).
MAX_CLASSES = 1024
# Values of β, one for each stage; after a stage, c follows the multipliers.
_STAGES = (100.0, 100.0, 100.0, 100.0, 300.0, 300.0, 1000.0, 1000.0)
# Below this share of the rows' typical ρ, which may be negative, a straight line continues the logarithm.
_STRAIGHT, _TYPICAL, _LEAST_MET = 0.2, 0.3, 1e-3
# On that line, a row that is missed by its whole need costs this much, relative to all the mass that could be gained.
_STEEP = 4.0
# No row's weight c falls below this share of the weight it would have if all were alike.
_FORGOTTEN = 1e-6
# Weights and radii may grow to at most this multiple of the first ones.
_FARTHEST = 30.0


@dataclass(frozen=True, eq=False)
class Prices:
    """Multipliers of accuracies and of pairs of classes.

    w has shape (G,), v (G, G), symmetric and doubled on the diagonal.
    """

    w: FloatArray
    v: FloatArray
    constant: float

    @classmethod
    def of(cls, classes: Classes, w: FloatArray, v: FloatArray, kept: float) -> "Prices":
        """Build multipliers; ``kept`` is Σ v_ij κ λ_i λ_j over the pairs."""
        return cls(w, v, float(w @ classes.f) - kept)

    def mixed(self, other: "Prices", share: float) -> "Prices":
        """Mix with a proportion of other multipliers."""
        rest = 1 - share
        return Prices(
            rest * self.w + share * other.w,
            rest * self.v + share * other.v,
            rest * self.constant + share * other.constant,
        )

    def touching(self, classes: Classes, changed: FloatArray) -> tuple[FloatArray, float]:
        """Compute the half-space in which h's tangent is positive.

        Returns its weights and radius; the tangent is at the given probabilities of change.
        """
        effects = 1 - changed / classes.d
        height = self.constant - float(self.w @ changed) + 0.5 * float(effects @ self.v @ effects)
        weights = self.weights(classes, changed)
        return weights, float(classes.counts @ (weights * changed)) + height

    def weights(self, classes: Classes, changed: FloatArray) -> FloatArray:
        """Compute −∂h̄ at the given probabilities of change.

        These are the weights of the half-space that touches {h > 0} there.
        """
        slope = self.w + (self.v @ (1 - changed / classes.d)) / classes.d
        return np.asarray(np.maximum(slope, 0.0) / classes.counts)


@dataclass(frozen=True, eq=False)
class Soft:
    """A ball with real weights ω in nats, shape (G,), and a normal radius."""

    weights: FloatArray
    radius: float
    width: float


def best_ball(classes: Classes, prices: Prices, start: Soft, steps: int) -> Soft:
    """Find a local maximum of E_μ[t h] by quasi-Newton steps from ``start``.

    If the steps do not converge, the best ball so far is returned.
    """
    if not start.weights.any():
        return start  # it holds every change set, and no step has a size
    width = BLUR * start.width
    unit = np.maximum(start.weights, 0.05 * float(np.mean(start.weights)))
    here = Tilted(classes, start.weights, start.radius, width)
    size = max(abs(here.value(prices)[0]), 1e-3)

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        there = Tilted(classes, x[:-1] * unit, float(x[-1]), width)
        value, gradient = there.value(prices)
        factor = float(np.exp(min(there.log_base - here.log_base, 600.0))) / size
        slope = -np.append(gradient[:-1] * unit, gradient[-1]) * factor
        # a trial step to where the function has no value is refused by the line search
        return (
            (-value * factor, slope) if np.all(np.isfinite(slope)) and np.isfinite(value) else (1e30, np.zeros(x.size))
        )

    bounds = [(0.0, 20.0)] * classes.counts.size + [(start.radius / 20, 20 * start.radius)]
    optimum = minimize(
        objective, np.append(start.weights / unit, start.radius),
        jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": steps, "maxfun": 2 * steps},
    )  # fmt: skip
    return Soft(optimum.x[:-1] * unit, float(optimum.x[-1]), start.width)


class Tilted:
    """A ball's tilted distribution under μ by frequency.

    Every E_μ[t g] with g quadratic in the indicators follows from it.

    ``effects``: χ̄ of each class at every loud frequency, real and imaginary parts side by side, (G, 2F).
    """

    def __init__(self, classes: Classes, weights: FloatArray, radius: float, width: float) -> None:
        c = self._c = classes
        theta = saddle_point(c.log_odds, c.counts, weights, radius)
        reach = wrapping_distance(c.log_odds, c.counts, weights, radius, theta) + 2 * _REACH * width
        step = 2 * np.pi / reach
        most = min(int(np.ceil(_REACH / width / step)) + 1, _MOST)
        block = max(_BLOCK, _NUMBERS // weights.size)
        parts = []
        for start in range(0, most, block):
            t = step * np.arange(start, min(most, start + block), dtype=np.float64)
            parts.append(self._block(weights, radius, theta, width, t))
            if not np.abs(parts[-1][0][-1]) > _SILENT:
                break
        self._product = np.concatenate([p[0] for p in parts])
        self._s = np.concatenate([p[1] for p in parts])
        self._a = np.concatenate([p[2] for p in parts], axis=1)
        base = float(c.counts @ (np.log1p(-c.d) + np.logaddexp(0.0, c.log_odds - theta * weights))) + theta * radius
        self.log_base = base + 0.5 * (theta * width) ** 2 + float(np.log(step / np.pi))

    def _block(
        self, w: FloatArray, radius: float, theta: float, width: float, t: FloatArray
    ) -> tuple[NDArray[np.complex128], NDArray[np.complex128], NDArray[np.complex128]]:
        """Compute the transform, frequencies and probabilities of change by class."""
        c = self._c
        s = (theta + 1j * t).astype(np.complex128)
        z0 = np.exp(c.log_odds - theta * w)
        share = z0 / (1 + z0)
        z: NDArray[np.complex128] = z0[:, None] * np.exp(-1j * np.multiply.outer(w, t))
        logs = c.counts @ (np.log1p((z - z0[:, None]) / (1 + z0)[:, None]) + 1j * np.multiply.outer(share * w, t))
        logs = logs + 1j * t * (radius - float(c.counts @ (share * w))) + 0.5 * width**2 * (s**2 - theta**2)
        product: NDArray[np.complex128] = np.exp(logs) * np.where(t == 0, 0.5, 1.0)
        return product, s, z / (1 + z)

    @cached_property
    def effects(self) -> FloatArray:
        """χ̄ at every frequency, (G, 2F)."""
        e = 1 - self._a / self._c.d[:, None]
        return np.concatenate([e.real, e.imag], axis=1)

    @cached_property
    def mass(self) -> float:
        """E_μ[t] relative to the base."""
        return float((self._product / self._s).sum().real)

    def chances(self) -> FloatArray:
        """Compute Pr(i changes) inside the ball, per class."""
        return np.asarray((self._a @ (self._product / self._s)).real / self.mass)

    def effects_of_pairs(self) -> FloatArray:
        """Compute E[χ_i χ_j] inside, for two members of each pair of classes, (G, G)."""
        q, half = self._product / self._s, self._s.size
        real, imaginary = self.effects[:, :half], self.effects[:, half:]
        turned = np.concatenate([real * q.real - imaginary * q.imag, -real * q.imag - imaginary * q.real], axis=1)
        return np.asarray(turned @ self.effects.T / self.mass)

    def value(self, prices: Prices) -> tuple[float, FloatArray]:
        """Compute E_μ[t h] and its gradient in (ω, R), shape (G + 1,).

        Both are relative to the base.
        """
        c, p, half = self._c, prices, self._s.size
        # real times complex as one product of twice the width
        both = p.v @ self.effects
        pulled = both[:, :half] + 1j * both[:, half:]
        effects = self.effects[:, :half] + 1j * self.effects[:, half:]
        mean = p.constant - p.w @ self._a + 0.5 * (pulled * effects).sum(axis=0)
        slopes = -(p.w[:, None] + pulled / c.d[:, None]) / c.counts[:, None]
        bell = self._product * mean
        by_weight = -c.counts * ((self._a * (mean + (1 - self._a) * slopes)) @ self._product).real
        return float((bell / self._s).sum().real), np.append(by_weight, float(bell.sum().real))


@dataclass(frozen=True, eq=False)
class Column:
    """Column of one ball: ln E_μ[t] and each row's relative E_μ[t (…)].

    Rows are accuracies (G,), then pairs (P,).
    """

    ball: WeightedBall
    log_mass: float
    rows: FloatArray


@dataclass(frozen=True, eq=False)
class Requirements:
    """Rows of a problem with pairs.

    Classes, the pairs of classes (P,) with a preserved pair, and their κλλ.
    """

    classes: Classes
    first: IntArray
    second: IntArray
    kept: FloatArray

    @classmethod
    def of(cls, problem: Problem, classes: Classes) -> "Requirements":
        """Build rows for every pair of classes with a preserved pair.

        They require more than the problem if only some pairs of two classes are named.
        """
        where = problem.classes.numbers
        pairs = np.unique(np.sort(where[np.asarray(problem.pairs)], axis=1), axis=0)
        lam = classes.gaps / classes.d
        return cls(classes, pairs[:, 0], pairs[:, 1], problem.kappa * lam[pairs[:, 0]] * lam[pairs[:, 1]])

    @cached_property
    def needs(self) -> FloatArray:
        """Coefficients of y: d−f, then κλλ."""
        return np.concatenate([self.classes.gaps, self.kept])

    def column(self, ball: WeightedBall) -> Column:
        """Compute the exact column of a ball; raise GridTooFine if it is empty."""
        law = BallLaw(self.classes.problem.sizes, self.classes.problem.classes, [MixedBall(1.0, ball)], 0.0)
        part = law.inside[0]
        chi = 1 / self.classes.d
        kept = 1 - chi * part.changed
        both = part.both_changed()[self.first, self.second]
        pairs = kept[self.first] + kept[self.second] - 1 + chi[self.first] * chi[self.second] * both
        return Column(ball, part.log_mass, np.concatenate([self.classes.f - part.changed, pairs - self.kept]))

    def prices(self, multipliers: FloatArray) -> Prices:
        """Convert one multiplier per row, (G + P,), to prices with needs of cost 1."""
        total = float(multipliers @ self.needs)
        multipliers = multipliers / total if total > 0 else multipliers
        return self._as_prices(multipliers)

    def _as_prices(self, multipliers: FloatArray) -> Prices:
        groups = self.classes.f.size
        v = np.zeros((groups, groups))
        v[self.first, self.second] += multipliers[groups:]
        return Prices.of(self.classes, multipliers[:groups], v + v.T, float(multipliers[groups:] @ self.kept))

    def real_rows(self, law: Tilted) -> FloatArray:
        """Compute the rows of a ball with real weights over its mass, (G + P,)."""
        pairs = law.effects_of_pairs()[self.first, self.second]
        return np.concatenate([self.classes.f - law.chances(), pairs - self.kept])

    def unscaled(self, multipliers: FloatArray, value: float, rows: FloatArray) -> Prices:
        """Convert multipliers to prices under which given rows have value ``value``.

        The value is relative to the mass.
        """
        prices = self._as_prices(multipliers)
        return replace(prices, constant=prices.constant + value - float(multipliers @ rows))

    def multipliers(self, prices: Prices) -> FloatArray:
        """Convert prices to one multiplier per row."""
        v = prices.v[self.first, self.second] * np.where(self.first == self.second, 0.5, 1.0)
        return np.concatenate([prices.w, v])

    def rank_one(self, w: FloatArray, a: FloatArray) -> Prices:
        """Build prices w per attribute and a_i a_j per pair, for classes (G,)."""
        n = self.classes.counts
        v = np.outer(n * a, n * a)
        v[np.diag_indices_from(v)] -= n * a**2
        inside = v[self.first, self.second] * np.where(self.first == self.second, 0.5, 1.0)
        return self.prices(np.concatenate([n * w, inside]))

    def log_scale(self, columns: list[Column], shares: FloatArray) -> float:
        """Compute ln y, the largest scale at which the mixture meets every row.

        −∞ if it meets none.
        """
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


def polish(wanted: Requirements, start: Soft, steps: int) -> Iterator[tuple[Soft, Prices]]:
    """Iterate over balls with multipliers after at most ``steps`` ascent steps.

    Steps are quasi-Newton; the last ball is usually the best.
    """
    merit = _Merit(wanted, start.width)
    unit = np.maximum(start.weights, 0.05 * float(np.mean(start.weights)))
    x = np.append(start.weights / unit, start.radius)
    bounds = [(0.0, _FARTHEST)] * unit.size + [(start.radius / _FARTHEST, _FARTHEST * start.radius)]

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = merit.at(x[:-1] * unit, float(x[-1]))
        slope = np.append(gradient[:-1] * unit, gradient[-1])
        # a trial step to where the function has no value is refused by the line search
        good = math.isfinite(value) and bool(np.all(np.isfinite(slope)))
        return (-value, -slope) if good else (1e6, np.zeros(x.size))

    for sharpness in _STAGES:
        merit.sharpen(x[:-1] * unit, float(x[-1]), sharpness)
        optimum = minimize(
            objective, x, jac=True, method="L-BFGS-B", bounds=bounds,
            options={"maxiter": steps, "maxfun": 2 * steps, "maxcor": 30},
        )  # fmt: skip
        x = optimum.x
        merit.at(x[:-1] * unit, float(x[-1]))
        multipliers = merit.multipliers
        merit.renew()
        yield Soft(x[:-1] * unit, float(x[-1]), start.width), wanted.prices(multipliers)


class _Merit:
    """Smooth ln y of one ball with its gradient.

    ``multipliers`` are those of the last evaluated ball, (G + P,).
    """

    def __init__(self, wanted: Requirements, width: float) -> None:
        self._wanted, self._width = wanted, width
        rows = wanted.needs.size
        self._shares = np.full(rows, 1.0 / rows)
        self._sharpness, self._straight = 1.0, _LEAST_MET
        self.multipliers = np.zeros(rows)

    def sharpen(self, weights: FloatArray, radius: float, sharpness: float) -> None:
        """Set a new β; the linear part starts below typical row values."""
        law = Tilted(self._wanted.classes, weights, radius, self._width)
        met = self._wanted.real_rows(law) / self._wanted.needs
        typical = abs(float(np.median(met[: weights.size])))
        straight = _STRAIGHT * max(float(met.min()), _TYPICAL * typical, _LEAST_MET)
        # a row that is missed by its whole need must cost more than all the mass there is to gain
        mass = abs(law.log_base + math.log(law.mass)) if law.mass > 0 else 0.0
        self._sharpness, self._straight = sharpness, min(straight, 1 / (_STEEP * (mass + 1)))

    def renew(self) -> None:
        """Update c by the multipliers, unless the last ball was empty."""
        shares = self.multipliers * self._wanted.needs
        total = float(shares.sum())
        if total > 0:
            self._shares = np.maximum(shares / total, _FORGOTTEN / shares.size)

    def at(self, weights: FloatArray, radius: float) -> tuple[float, FloatArray]:
        """Compute the value, −∞ if the ball is empty, and the gradient in (ω, R)."""
        law = Tilted(self._wanted.classes, weights, radius, self._width)
        if not law.mass > 0:
            return -math.inf, np.zeros(weights.size + 1)
        needs = self._wanted.needs
        rows = self._wanted.real_rows(law)
        met = rows / needs
        high = np.maximum(met, self._straight)
        logs = np.log(high) + np.minimum(met - self._straight, 0.0) / self._straight
        exponents = np.log(self._shares) - self._sharpness * logs
        total = float(logsumexp(exponents))
        self.multipliers = np.exp(exponents - total) / needs / high
        _, slope = law.value(self._wanted.unscaled(self.multipliers, 1.0, rows))
        return law.log_base + math.log(law.mass) - total / self._sharpness, slope / law.mass
