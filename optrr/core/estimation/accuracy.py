"""Errors of estimates: the papers' measures, and the exact expected error of the unbiased estimate.

    e_abs = max_u sqrt(B λ_u (1−λ_u)/n),  e_rel = max_u sqrt(B (1−λ_u)/(λ_u n))      (MDR eqs. 5, 6)

with B the upper α/r quantile of χ² with one degree of freedom: simultaneous over the r cells, by Bonferroni. They measure the
*observed* proportions λ; the inverse of the mechanism makes the error of π̂ larger, as the exact formula of theory §3.2 has it:

    n E‖π̂ − π‖² = Σ_{∅≠W} (c_W/λ_W² − ‖π_W‖²),   c_W = Π_{i∈W}(r_i−1)/Π_i r_i,

and Σ c_W (1/λ_W² − 1) around the data set itself (π_W the effect component of W).
"""

import numpy as np
from numpy.typing import ArrayLike

from optrr.core.errors import InvalidInput
from optrr.core.estimation.distributions import chi2
from optrr.core.estimation.estimator import Target
from optrr.core.mechanisms.kernel import EffectKernel
from optrr_solvers.arrays import FloatArray


def bonferroni_quantile(cells: int, alpha: float = 0.05) -> float:
    """Compute B, the upper α/r quantile of χ²_1 (MDR §2.3).

    Raises InvalidInput for fewer than one cell, or an α that is not above 0 and below 1.
    """
    if not cells >= 1:
        raise InvalidInput(f"{cells} cells; give a number of cells of at least 1")
    if not 0 < alpha < 1:
        raise InvalidInput(f"``alpha``: {alpha}; give a number above 0 and below 1, such as 0.05")
    return float(chi2.isf(alpha / cells, 1))


def absolute_error(observed: ArrayLike, n: int, alpha: float = 0.05) -> float:
    """Compute e_abs (MDR eq. 5).

    With confidence 1−α no observed proportion is further than this from its expectation.

    Raises InvalidInput for observed values that are not proportions summing to 1, n below 1, or an α outside (0, 1); so for the
    next one.
    """
    lam = _observed(observed)
    _check_records(n)
    return float(np.sqrt(bonferroni_quantile(lam.size, alpha) * lam * (1 - lam) / n).max())


def relative_error(observed: ArrayLike, n: int, alpha: float = 0.05) -> float:
    """Compute e_rel (MDR eq. 6).

    As e_abs, relative to each observed proportion; infinite if one is 0.
    """
    lam = _observed(observed)
    _check_records(n)
    if lam.min() <= 0:
        return float("inf")
    return float(np.sqrt(bonferroni_quantile(lam.size, alpha) * (1 - lam) / (lam * n)).max())


def expected_squared_error(
    kernel: EffectKernel, n: int, proportions: ArrayLike | None = None, target: Target = "population"
) -> float:
    """Compute E‖π̂ − π‖² exactly, summed over cells.

    Of the unbiased estimate from n records.

    ``proportions`` are the true π, for the ``target`` "population" only, where leaving them out takes the even distribution
    (the worst case); "data" is around the proportions of the data set, where only the randomization varies. Raises
    SingularMarginal if the attribute set cannot be estimated.
    """
    kernel.check_invertible()
    _check_records(n)
    weights = effect_weights(kernel)
    squares = 1 / kernel.eigenvalues**2
    if target == "data":
        if proportions is not None:
            raise InvalidInput(
                "around the data set the error does not depend on the proportions; leave the proportions out"
            )
        return float(np.sum(weights * (squares - 1)) / n)
    even = 1 / kernel.cells
    spread = 0.0 if proportions is None else float(np.sum((np.asarray(proportions) - even) ** 2))
    return float((np.sum(weights * squares) - even - spread) / n)


def effect_weights(kernel: EffectKernel) -> FloatArray:
    """Compute c_W = Π_{i∈W}(r_i−1)/Π_i r_i for each W, shape (2,)*k.

    They sum to 1, c_∅ = 1/Π r_i.
    """
    out = np.ones((1,) * len(kernel.sizes))
    for axis, r in enumerate(kernel.sizes):
        shape = [1] * len(kernel.sizes)
        shape[axis] = 2
        out = out * np.reshape([1 / r, (r - 1) / r], shape)
    return out


def _observed(values: ArrayLike) -> FloatArray:
    lam = np.asarray(values, dtype=np.float64)
    # written as a condition that must hold, so that a NaN is refused too
    if not (lam.size and lam.min() >= 0 and np.isclose(lam.sum(), 1)):
        raise InvalidInput(
            f"observed proportions of shape {lam.shape} are not a distribution; give proportions that sum to 1"
        )
    return lam


def _check_records(n: int) -> None:
    if not 1 <= n < float("inf"):
        raise InvalidInput(f"``n``: {n}; give a number of records of at least 1")
