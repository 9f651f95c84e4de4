"""Which ball a mixture that keeps pairs lacks most: weights and radius with the largest E_μ[t h] (design §3.6).

The mixture's linear program prices change sets by h(S) = Σ w_i (f_i − 1_i) + Σ v_ij (χ_i χ_j − κ λ_i λ_j), quadratic in the
indicators. For a ball with weights ω and a normal radius of mean R and standard deviation T,

    E_μ[Φ((R − X)/T) h] = 1/(2πi) ∫ e^{sR + s²T²/2} s^{−1} Π_j (1−d_j + d_j e^{−sω_j}) h̄(A(s)) ds,

where A_j(s) is the chance that j changes under the complex tilt and h̄ the multilinear extension of h: under a product law
the attributes are independent. Its derivatives need one more factor: E_s[1_i h] = A_i (h̄ + (1−A_i) ∂h̄/∂A_i). So value and
gradient cost O(G² × frequencies) together, whatever the number of pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from optrr_solvers.arrays import FloatArray
from optrr_solvers.balls.moments import Classes
from optrr_solvers.laws.tilting import saddle_point, wrapping_distance

# e^{−(Tt)²/2} is 1e-10 here: pricing steers, it proves nothing.
_REACH = 6.8
# A wider radius steers as well, and has fewer frequencies.
_BLUR = 2.5
# Frequencies below this share of the first are silent.
_SILENT = 1e-11
# Frequencies looked at at once, at least and by the numbers they come to; and at most.
_BLOCK, _NUMBERS, _MOST = 64, 1 << 12, 1 << 14


@dataclass(frozen=True, eq=False)
class Prices:
    """Multipliers of accuracies w, shape (G,), and of pairs of classes v, (G, G): symmetric, doubled on the diagonal."""

    w: FloatArray
    v: FloatArray
    constant: float

    @classmethod
    def of(cls, classes: Classes, w: FloatArray, v: FloatArray, kept: float) -> Prices:
        """``kept``: Σ v_ij κ λ_i λ_j over the pairs."""
        return cls(w, v, float(w @ classes.f) - kept)

    def mixed(self, other: Prices, share: float) -> Prices:
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
    pricing = _Pricing(classes, prices, _BLUR * start.width)
    unit = np.maximum(start.weights, 0.05 * float(np.mean(start.weights)))
    first, _, scale = pricing.at(start.weights, start.radius)
    size = max(abs(first), 1e-3)

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        value, gradient, log = pricing.at(x[:-1] * unit, float(x[-1]))
        factor = float(np.exp(min(log - scale, 600.0))) / size
        slope = -np.append(gradient[:-1] * unit, gradient[-1]) * factor
        # a trial step into nowhere is refused by the line search
        return (
            (-value * factor, slope) if np.all(np.isfinite(slope)) and np.isfinite(value) else (1e30, np.zeros(x.size))
        )

    bounds = [(0.0, 20.0)] * classes.counts.size + [(start.radius / 20, 20 * start.radius)]
    found = minimize(
        objective, np.append(start.weights / unit, start.radius),
        jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": steps, "maxfun": 2 * steps},
    )  # fmt: skip
    return Soft(found.x[:-1] * unit, float(found.x[-1]), start.width)


class _Pricing:
    """E_μ[t h] and its gradient in (ω, R)."""

    def __init__(self, classes: Classes, prices: Prices, width: float) -> None:
        self._c, self._prices, self._width = classes, prices, width

    def at(self, w: FloatArray, radius: float) -> tuple[float, FloatArray, float]:
        """Value, gradient (G + 1,) and the logarithm both are relative to."""
        c, width = self._c, self._width
        theta = saddle_point(c.log_odds, c.counts, w, radius)
        reach = wrapping_distance(c.log_odds, c.counts, w, radius, theta) + 2 * _REACH * width
        step = 2 * np.pi / reach
        most = min(int(np.ceil(_REACH / width / step)) + 1, _MOST)
        value, gradient = 0.0, np.zeros(w.size + 1)
        block = max(_BLOCK, _NUMBERS // w.size)
        for start in range(0, most, block):
            t = step * np.arange(start, min(most, start + block), dtype=np.float64)
            part, slope, loud = self._block(w, radius, theta, t)
            value, gradient = value + part, gradient + slope
            if not loud:
                break
        base = float(c.counts @ (np.log1p(-c.d) + np.logaddexp(0.0, c.log_odds - theta * w))) + theta * radius
        return value, gradient, base + 0.5 * (theta * width) ** 2 + float(np.log(step / np.pi))

    def _block(self, w: FloatArray, radius: float, theta: float, t: FloatArray) -> tuple[float, FloatArray, bool]:
        c, p = self._c, self._prices
        s = theta + 1j * t
        z0 = np.exp(c.log_odds - theta * w)
        share = z0 / (1 + z0)
        z: NDArray[np.complex128] = z0[:, None] * np.exp(-1j * np.multiply.outer(w, t))
        logs = c.counts @ (np.log1p((z - z0[:, None]) / (1 + z0)[:, None]) + 1j * np.multiply.outer(share * w, t))
        logs = logs + 1j * t * (radius - float(c.counts @ (share * w))) + 0.5 * self._width**2 * (s**2 - theta**2)
        product = np.exp(logs) * np.where(t == 0, 0.5, 1.0)
        loud = bool(np.abs(product[-1]) > _SILENT)
        a = z / (1 + z)
        effects = 1 - a / c.d[:, None]
        # real times complex as two real products
        pulled = (p.v @ effects.real + 1j * (p.v @ effects.imag)) / c.d[:, None]
        mean = p.constant - p.w @ a + 0.5 * ((pulled * c.d[:, None]) * effects).sum(axis=0)
        slopes = -(p.w[:, None] + pulled) / c.counts[:, None]
        bell = product * mean
        value = float((bell / s).sum().real)
        by_weight = -c.counts * ((a * (mean + (1 - a) * slopes)) @ product).real
        return value, np.append(by_weight, float(bell.sum().real)), loud
