"""Many tests at once: Bonferroni, Benjamini–Hochberg, genomic control. Undefined p-values (NaN) are not tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2, false_discovery_control

from optrr.tables.distributions import chi_squared_tails
from optrr_solvers.arrays import FloatArray

# Genome-wide significance for common variants (Pe'er et al. 2008).
GENOME_WIDE = 5e-8


def bonferroni(p: FloatArray) -> FloatArray:
    """min(1, p · number of tests), shape as ``p``."""
    return np.asarray(np.minimum(p * np.count_nonzero(np.isfinite(p)), 1.0))


def false_discovery_rate(p: FloatArray) -> FloatArray:
    """Benjamini–Hochberg adjusted p-values, shape as ``p``."""
    out = np.full(p.shape, np.nan)
    tested = np.isfinite(p)
    if tested.any():
        out[tested] = false_discovery_control(p[tested])
    return out


def genomic_control(statistic: FloatArray, df: ArrayLike) -> float:
    """λ_GC, median of the statistics over their χ²_df's medians (Devlin & Roeder 1999); NaN without tests.

    About 1 where few variants are associated; above 1 means inflation, or a trait with many real associations. ``df`` is one
    number or one for each statistic.
    """
    tested = np.isfinite(statistic)
    return float(np.median((statistic / chi2.median(df))[tested])) if tested.any() else float("nan")


def controlled_p(statistic: FloatArray, df: ArrayLike) -> FloatArray:
    """χ² p-values of the statistics divided by max(1, λ_GC)."""
    factor = genomic_control(statistic, df)
    if not np.isfinite(factor):
        return np.full(statistic.shape, np.nan)
    return chi_squared_tails(statistic / max(factor, 1.0), df)
