"""Which ball a mixture that keeps pairs lacks most: weights and radius with the largest E_μ[t h] (design §3.6).

The mixture's linear program prices change sets by h(S) = Σ w_i (f_i − 1_i) + Σ v_ij (χ_i χ_j − κ λ_i λ_j), quadratic in the
indicators. For a ball with weights ω and a normal radius of mean R and standard deviation T,

    E_μ[Φ((R − X)/T) h] = 1/(2πi) ∫ e^{sR + s²T²/2} s^{−1} Π_j (1−d_j + d_j e^{−sω_j}) h̄(A(s)) ds,

where A_j(s) is the chance that j changes under the complex tilt and h̄ the multilinear extension of h: under a product law
the attributes are independent. Its derivatives need one more factor: E_s[1_i h] = A_i (h̄ + (1−A_i) ∂h̄/∂A_i). So value and
gradient cost O(G² × frequencies) together, whatever the number of pairs.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from optrr_solvers.arrays import FloatArray
from optrr_solvers.balls.moments import Classes
from optrr_solvers.laws.tilting import saddle_point, wrapping_distance

# e^{−(Tt)²/2} is 1e-10 here: pricing steers, it proves nothing.
_REACH = 6.8
# A wider radius serves as well for finding a direction, and has fewer frequencies.
BLUR = 2.5
# Frequencies below this share of the first are left out.
_SILENT = 1e-11
# How many frequencies are looked at together: at least this many, by how many numbers they come to, and at most.
_BLOCK, _NUMBERS, _MOST = 64, 1 << 12, 1 << 14


@dataclass(frozen=True, eq=False)
class Prices:
    """Multipliers of accuracies w, shape (G,), and of pairs of classes v, (G, G): symmetric, doubled on the diagonal."""

    w: FloatArray
    v: FloatArray
    constant: float

    @classmethod
    def of(cls, classes: Classes, w: FloatArray, v: FloatArray, kept: float) -> "Prices":
        """``kept``: Σ v_ij κ λ_i λ_j over the pairs."""
        return cls(w, v, float(w @ classes.f) - kept)

    def mixed(self, other: "Prices", share: float) -> "Prices":
        """With a share of another's multipliers."""
        rest = 1 - share
        return Prices(
            rest * self.w + share * other.w,
            rest * self.v + share * other.v,
            rest * self.constant + share * other.constant,
        )

    def touching(self, classes: Classes, changed: FloatArray) -> tuple[FloatArray, float]:
        """Weights and radius of the half-space in which h's tangent at the given chances of change is positive."""
        effects = 1 - changed / classes.d
        height = self.constant - float(self.w @ changed) + 0.5 * float(effects @ self.v @ effects)
        weights = self.weights(classes, changed)
        return weights, float(classes.counts @ (weights * changed)) + height

    def weights(self, classes: Classes, changed: FloatArray) -> FloatArray:
        """−∂h̄ at the given chances of change: the weights of the half-space that touches {h > 0} there."""
        slope = self.w + (self.v @ (1 - changed / classes.d)) / classes.d
        return np.asarray(np.maximum(slope, 0.0) / classes.counts)


@dataclass(frozen=True, eq=False)
class Soft:
    """A ball with real weights ω in nats, shape (G,), and a normal radius."""

    weights: FloatArray
    radius: float
    width: float


def best_ball(classes: Classes, prices: Prices, start: Soft, steps: int) -> Soft:
    """A local maximum of E_μ[t h], by quasi-Newton steps from ``start``; the best ball met where they lead nowhere."""
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
    """A ball's law under μ, frequency by frequency: what every E_μ[t g] with g quadratic in the indicators comes from.

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
        """The transform, the frequencies and every class's chance of change."""
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
        """Pr(i changes) inside, per class."""
        return np.asarray((self._a @ (self._product / self._s)).real / self.mass)

    def effects_of_pairs(self) -> FloatArray:
        """E[χ_i χ_j] inside, for two members of each pair of classes, (G, G)."""
        q, half = self._product / self._s, self._s.size
        real, imaginary = self.effects[:, :half], self.effects[:, half:]
        turned = np.concatenate([real * q.real - imaginary * q.imag, -real * q.imag - imaginary * q.real], axis=1)
        return np.asarray(turned @ self.effects.T / self.mass)

    def value(self, prices: Prices) -> tuple[float, FloatArray]:
        """E_μ[t h] and its gradient in (ω, R), shape (G + 1,), relative to the base."""
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
