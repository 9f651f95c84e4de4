"""Power and required number of records for a given effect and design (design §4.4).

At a joint distribution π_1 the score statistic of expected counts, per record, is the noncentrality δ. Several contrasts:
T is about noncentral χ² with noncentrality n δ. One contrast: z is about normal with mean ± sqrt(n δ) and the standard
deviation that the outputs really have under π_1, which matters for strong effects.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2, ncx2, norm

from optrr.errors import InvalidInput
from optrr.inference.nullfit import Fitter, independence_fit
from optrr.inference.score import all_contrasts, influence, score_tests
from optrr.kernel import Kernel
from optrr_solvers.arrays import FloatArray

# No survey has more records than this.
_MOST_RECORDS = 10**15


@dataclass(frozen=True)
class Alternative:
    """An effect to detect: noncentrality per record, degrees of freedom, and the spread of z relative to the null's."""

    noncentrality: float
    df: int
    spread: float


def alternative(
    proportions: ArrayLike, kernel: Kernel, contrasts: FloatArray | None = None, fitter: Fitter = independence_fit
) -> Alternative:
    """What a test sees of a true joint distribution (r_a, r_b) through a mechanism.

    Raises
    ------
    InvalidInput
        where ``proportions`` is not a distribution of the kernel's shape.
    """
    pi = np.asarray(proportions, dtype=np.float64)
    # written as a condition that must hold, so that a NaN is refused too
    if pi.shape != kernel.sizes or not pi.min() >= 0 or not np.isclose(pi.sum(), 1):
        raise InvalidInput(
            f"the effect must be proportions of shape {kernel.sizes}, none negative, that sum to 1, got shape {pi.shape}, "
            f"sum {pi.sum():.6g} and smallest {pi.min():.3g}; of estimates take those of method projection"
        )
    chosen = all_contrasts(*kernel.sizes) if contrasts is None else contrasts
    expected = kernel.expected(pi)
    seen = score_tests(expected[None], kernel, chosen, fitter)
    spread = 1.0
    if chosen.shape[0] == 1:
        psi = influence(seen.fit, kernel, chosen)[0, 0]
        null = seen.fit.expected[0].ravel() @ psi**2
        spread = float(np.sqrt((expected.ravel() @ psi**2 - (expected.ravel() @ psi) ** 2) / null))
    return Alternative(float(seen.statistic[0]), chosen.shape[0], spread)


def power(effect: Alternative, n: float, level: float = 0.05) -> float:
    """Probability that n records reject at this level.

    Raises
    ------
    InvalidInput
        for a negative n, or a level that is not above 0 and below 1.
    """
    if not n >= 0:
        raise InvalidInput(f"n = {n}; give a number of records of at least 0")
    if not 0 < level < 1:
        raise InvalidInput(f"level = {level}; give a number above 0 and below 1, such as 0.05")
    critical = float(chi2.isf(level, effect.df))
    if effect.df > 1:
        return float(ncx2.sf(critical, effect.df, n * effect.noncentrality))
    mean, bound = np.sqrt(n * effect.noncentrality), np.sqrt(critical)
    return float(norm.sf((bound - mean) / effect.spread) + norm.cdf((-bound - mean) / effect.spread))


def required_records(effect: Alternative, wanted: float = 0.8, level: float = 0.05) -> int:
    """Smallest number of records with at least the wanted power.

    Raises
    ------
    InvalidInput
        where the effect is none, or no survey is large enough.
    """
    if not level < wanted < 1:
        raise InvalidInput(f"power = {wanted}; give a number above the level {level} and below 1")
    if power(effect, _MOST_RECORDS, level) < wanted:
        raise InvalidInput("this effect cannot be seen through this mechanism with 10^15 records; randomize less")
    low, high = 1, _MOST_RECORDS
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if power(effect, middle, level) >= wanted else (middle + 1, high)
    return low
