"""One ball that keeps the pairs by itself, by smooth ascent (design §3.6).

With M = ln E_μ[t] and ρ_g = E_μ[t g] / (E_μ[t] need(g)), a ball alone reaches ln y = M + min_g ln ρ_g. Its smooth version,

    M − (1/β) ln Σ_g c_g ρ_g^{−β},

has the multipliers π_g ∝ c_g ρ_g^{−β}, and its gradient in weights and radius is that of E_μ[t h] / E_μ[t] for the h those
multipliers price: one pricing (:mod:`pair_pricing`) a step, whatever the number of pairs. c follows the multipliers from stage
to stage while β grows (the exponential method of multipliers: Tseng and Bertsekas, Math. Programming 60, 1993). Since the
multipliers change smoothly, they are a better guide for columns and for the lower side than those of a program with few
columns, which sit at vertices.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from optrr_solvers.arrays import FloatArray
from optrr_solvers.balls.pair_pricing import Prices, Soft, Tilted
from optrr_solvers.balls.pair_rows import Requirements

# Values of β, one for each stage; after a stage, c follows the multipliers.
_STAGES = (100.0, 100.0, 100.0, 100.0, 300.0, 300.0, 1000.0, 1000.0)
# Below this share of the rows' typical ρ, which may be negative, a straight line continues the logarithm.
_STRAIGHT, _TYPICAL, _LEAST = 0.2, 0.3, 1e-3
# On that line, a row that is missed by its whole need costs this much, relative to all the mass that could be gained.
_STEEP = 4.0
# No row's weight c falls below this share of the weight it would have if all were alike.
_FORGOTTEN = 1e-6
# Weights and radii may grow to at most this multiple of the first ones.
_FARTHEST = 30.0


@dataclass(frozen=True, eq=False)
class Polished:
    """A ball and the multipliers at which it was found."""

    ball: Soft
    prices: Prices


def polish(wanted: Requirements, start: Soft, steps: int) -> Iterator[Polished]:
    """One ball after each stage of at most ``steps`` quasi-Newton steps; the last one is usually the best."""
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
        yield Polished(Soft(x[:-1] * unit, float(x[-1]), start.width), wanted.prices(multipliers))


class _Merit:
    """The smooth ln y of one ball and its gradient; ``multipliers``: those of the last ball looked at, (G + P,)."""

    def __init__(self, wanted: Requirements, width: float) -> None:
        self._wanted, self._width = wanted, width
        rows = wanted.needs.size
        self._shares = np.full(rows, 1.0 / rows)
        self._sharpness, self._straight = 1.0, _LEAST
        self.multipliers = np.zeros(rows)

    def sharpen(self, weights: FloatArray, radius: float, sharpness: float) -> None:
        """A new β; the straight part starts below what the rows are typically met by."""
        law = Tilted(self._wanted.classes, weights, radius, self._width)
        met = self._wanted.real_rows(law) / self._wanted.needs
        typical = abs(float(np.median(met[: weights.size])))
        straight = _STRAIGHT * max(float(met.min()), _TYPICAL * typical, _LEAST)
        # a row that is missed by its whole need must cost more than all the mass there is to gain
        mass = abs(law.log_base + math.log(law.mass)) if law.mass > 0 else 0.0
        self._sharpness, self._straight = sharpness, min(straight, 1 / (_STEEP * (mass + 1)))

    def renew(self) -> None:
        """c follows the multipliers, and stays where there are none: the last ball was empty."""
        shares = self.multipliers * self._wanted.needs
        total = float(shares.sum())
        if total > 0:
            self._shares = np.maximum(shares / total, _FORGOTTEN / shares.size)

    def at(self, weights: FloatArray, radius: float) -> tuple[float, FloatArray]:
        """Value, −∞ where the ball is empty, and gradient in (ω, R)."""
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
