"""The last digits of maximum likelihood on large tables: L-BFGS-B on the cells that can be above 0.

EM creeps where the optimum is 0 or a cell should grow from almost nothing, and both are common: the likeliest distribution of a
large table has few cells above 0. Σλ − Σ λ̂ ln λ over x ≥ 0 has its minimum at Σx = 1 by itself, so bounds are the only
constraints and a library's quasi-Newton method applies, started from EM, on the cells that EM has not nearly emptied and
those where the gradient says that mass is missing. What that leaves out shows in the bound max g − 1 over all cells, and
enters the next round.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, minimize

from optrr.mechanisms.kernel import Kernel
from optrr_solvers.arrays import FloatArray

# A cell below this share of an even one is left out, unless its gradient calls for it.
_NEARLY_EMPTY = 1e-3
# Cells are scaled by the root of their share, as their curvature is, and of this share of an even one at least, so that an
# empty cell can come back.
_SMALLEST_SCALE = 0.1
# All cells are looked at after this many steps; and this many pairs of gradients are remembered, because twice as many gain
# nothing.
_ROUND = 60
_MEMORY = 10


def on_support(  # noqa: PLR0913 (the state of the iteration and its two limits)
    pi: FloatArray, gradient: FloatArray, observed: FloatArray, kernel: Kernel, tolerance: float, max_iterations: int
) -> tuple[FloatArray, int]:
    """A likelier distribution than ``pi``, whose gradient g = P(λ̂/λ) is given, and the updates it took (gradients computed).

    Stops at max g − 1 ≤ tolerance, after the given number of updates and the line search then under way (20 at most), or where
    rounding lets nothing more be gained.
    """
    used, best = 0, np.inf
    while used < max_iterations and best > tolerance:
        chosen = ((pi * kernel.cells > _NEARLY_EMPTY) | (gradient > 1)).ravel()
        raised, count = _round(pi, chosen, observed, kernel, min(_ROUND, max_iterations - used))
        used += count
        after = _gradient(raised, observed, kernel)
        gap = float(after.max()) - 1
        if not gap < best and not _likelier(raised, pi, observed, kernel):
            break
        pi, gradient, best = raised, after, min(gap, best)
    return pi, used


def _placed(values: FloatArray, chosen: NDArray[np.bool_], shape: tuple[int, ...]) -> FloatArray:
    x = np.zeros(chosen.size)
    x[chosen] = values
    return x.reshape(shape)


def _expected(x: FloatArray, kernel: Kernel) -> FloatArray:
    """λ of weights that need not sum to 1, positive: the transform's rounding is absolute."""
    return np.maximum(kernel.forward(x), max(kernel.range[0] * float(x.sum()), np.finfo(float).tiny))


def _gradient(x: FloatArray, observed: FloatArray, kernel: Kernel) -> FloatArray:
    return np.asarray(kernel.adjoint(observed / _expected(x, kernel)))


def _likelier(one: FloatArray, other: FloatArray, observed: FloatArray, kernel: Kernel) -> bool:
    return float(np.sum(observed * np.log(_expected(one, kernel) / _expected(other, kernel)))) > 0


def _round(
    pi: FloatArray, chosen: NDArray[np.bool_], observed: FloatArray, kernel: Kernel, steps: int
) -> tuple[FloatArray, int]:
    shares = pi.ravel()[chosen] * kernel.cells
    scale = np.sqrt(shares + _SMALLEST_SCALE) / kernel.cells
    at = shares / kernel.cells / scale
    start = _expected(_placed(at * scale, chosen, pi.shape), kernel)
    count = 0

    def loss(z: FloatArray) -> tuple[float, FloatArray]:
        """The loss, times the cells, as a difference from the start: near the optimum the digits that matter are there."""
        nonlocal count
        count += 1
        moved = (z - at) * scale
        change = kernel.forward(_placed(moved, chosen, pi.shape)) / start
        # the start is positive everywhere, and rounding must not take what is left of it below 0
        ratio = np.maximum(change, np.finfo(float).eps - 1)
        value = float(moved.sum()) - float(np.sum(observed * np.log1p(ratio)))
        slope = 1 - kernel.adjoint(observed / (start * (1 + ratio))).ravel()[chosen]
        return kernel.cells * value, kernel.cells * slope * scale

    options = {"maxiter": steps, "maxfun": steps, "maxcor": _MEMORY, "ftol": 0.0, "gtol": 0.0}
    optimum = minimize(loss, at, jac=True, method="L-BFGS-B", bounds=Bounds(0.0, np.inf), options=options)
    x = _placed(optimum.x * scale, chosen, pi.shape)
    return np.asarray(x / x.sum()), count
