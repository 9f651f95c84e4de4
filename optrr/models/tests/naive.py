"""The tests that are wrong on randomized records, for warnings and comparisons only (design §4.4, POR §V-B).

Pearson's χ² of the randomized counts is valid only where λ_ij = λ_i λ_j (Kronecker) or a true margin is uniform. Elsewhere its
type I error grows with the number of records, up to 100 %. The warning example, at nominal 5 %, beside the score test, on
independent attributes with shares falling as 1/k (2000 tables each; the optimum for sizes 6, 3 and 4 at ε_i = 2):

    n          naive    score
    1,000      14 %     5.5 %
    10,000     93 %     5.1 %
    100,000    100 %    5.5 %
"""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2

from optrr_solvers.arrays import FloatArray


def naive_pearson(tables: FloatArray) -> tuple[FloatArray, int, FloatArray]:
    """Pearson's statistic of *randomized* counts as if they were true: statistics (B,), df, p-values (B,). Not valid.

    ``tables`` has shape (B, r_a, r_b); rows or columns without records add nothing.
    """
    counts = np.asarray(tables, dtype=np.float64)
    n = counts.sum(axis=(1, 2), keepdims=True)
    expected = counts.sum(axis=2, keepdims=True) * counts.sum(axis=1, keepdims=True) / n
    terms = np.divide((counts - expected) ** 2, expected, out=np.zeros_like(counts), where=expected > 0)
    statistic = terms.sum(axis=(1, 2))
    df = (counts.shape[1] - 1) * (counts.shape[2] - 1)
    return statistic, df, np.asarray(chi2.sf(statistic, df))
