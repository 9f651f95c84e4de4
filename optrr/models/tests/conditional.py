"""p-values of score tests: the χ² limit, or what is nearer to the truth in the tail, for one table or for a scan of many.

    p of χ² above 0.0455 (one contrast; two standard deviations) or 0.01 (two): the χ² limit, as long as every output
                                                   expects 50 records; above 0.3 and 0.1 it is kept in sparser tables, too
    below it, one contrast:                        conditional saddlepoint (:mod:`optrr.models.tests.saddlepoint`)
    below it, two contrasts:                       the same where every output expects at least 5 records,
                                                   tilted simulation (:mod:`optrr.models.tests.tail`) elsewhere
    three contrasts or more, or many categories:   the χ² limit here; :func:`optrr.models.tests.test` simulates

One rule for both `optrr test` and `optrr gwas`: one table has one p-value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optrr.mechanisms.kernel import Kernel
from optrr.models.tests.chi_square import MANY_EXPECTED
from optrr.models.tests.nullfit import Fitter
from optrr.models.tests.result import TOO_NOISY
from optrr.models.tests.saddlepoint import conditional_p_values, conditional_tail
from optrr.models.tests.score import ScoreTests
from optrr.models.tests.tail import tail_probability
from optrr.tables.distributions import chi_squared_tails
from optrr_solvers.arrays import FloatArray

# χ² p-values above these are kept, because both agree there (two standard deviations as in SPAtest, Dey et al. 2017).
_KEPT = {1: 0.0455, 2: 0.01}
# In tables where some output expects fewer than MANY_EXPECTED records, its p-values are kept only above these.
_KEPT_IF_SPARSE = {1: 0.3, 2: 0.1}
# With fewer records expected in some output, the points of the lattice are too far apart for an integral over directions.
FEW_EXPECTED = 5.0
# Up to this many categories of both attributes together, Newton's matrices, whose size is the square of that, stay small.
_MOST_CATEGORIES = 64
# Tables simulated for one p-value of two contrasts: relative error 2 to 4 %.
_SAMPLES = 4000
# The seed of the simulation; it is always the same, so that a table always has the same p-value.
_SEED = 20_260


@dataclass(frozen=True, eq=False)
class Calibrated:
    """``p_value`` and where it comes from: ``asymptotic``, ``saddlepoint`` or ``tilted``; shape (B,).

    ``relative_error`` of simulated p-values, 0 elsewhere.
    """

    p_value: FloatArray
    source: NDArray[np.object_]
    relative_error: FloatArray


def is_conditional(kernel: Kernel, contrasts: FloatArray) -> bool:
    """Whether `calibrated` may differ from the χ² limit: with one or two contrasts, and not too many categories."""
    return contrasts.shape[0] in _KEPT and sum(kernel.sizes) <= _MOST_CATEGORIES


def calibrated(
    scores: ScoreTests, tables: NDArray[np.number], kernel: Kernel, contrasts: FloatArray, fitter: Fitter
) -> Calibrated:
    """p-values of the tests of every table of counts; the arguments are those that `score_tests` took, and its result."""
    p, error = scores.p_value.copy(), np.zeros(scores.p_value.size)
    source = np.full(p.size, "asymptotic", dtype=object)
    if not is_conditional(kernel, contrasts):
        return Calibrated(p, source, error)
    far = np.flatnonzero(p < _KEPT_IF_SPARSE[scores.df])
    n = tables[far].sum(axis=(1, 2)).astype(np.float64)
    fewest = n * scores.fit.expected[far].reshape(far.size, kernel.cells).min(axis=1)
    chosen = (p[far] < _KEPT[scores.df]) | (fewest < MANY_EXPECTED)
    far, fewest = far[chosen], fewest[chosen]
    if scores.df > 1:
        for k in far[fewest < FEW_EXPECTED]:
            tail = _simulated(tables[k], kernel.part(k), contrasts, fitter)
            if tail[1] < TOO_NOISY:
                p[k], error[k], source[k] = *tail, "tilted"
        far = far[fewest >= FEW_EXPECTED]
    if far.size:
        counts = tables[far].astype(np.float64)
        exact = conditional_p_values(scores.fit.part(far), counts, scores.statistic[far], kernel.part(far), contrasts)
        known = np.isfinite(exact)
        p[far[known]], source[far[known]] = exact[known], "saddlepoint"
    return Calibrated(p, source, error)


def tail_of_one(weights: FloatArray, law: FloatArray, counts: FloatArray, statistic: FloatArray) -> FloatArray:
    """p-values (B,) of one contrast with fixed weights (B, R): by the same rule, but without conditioning on a null fit.

    For statistics n mean² / variance that were made elsewhere; ``law`` (B, R) are the outputs' chances under the null fit,
    ``counts`` (B, R) the tables. NaN where the statistic is.
    """
    p = chi_squared_tails(statistic, 1)
    far = np.flatnonzero(p < _KEPT[1])
    if far.size:
        nothing = np.empty((far.size, 0, law.shape[1]))
        exact = conditional_tail(weights[far, None], nothing, law[far], counts[far], statistic[far])
        p[far] = np.where(np.isfinite(exact), exact, p[far])
    return p


def _simulated(table: NDArray[np.number], kernel: Kernel, contrasts: FloatArray, fitter: Fitter) -> tuple[float, float]:
    tail = tail_probability(table.astype(np.float64), kernel, contrasts, fitter, _SEED, _SAMPLES)
    return tail.p_value, tail.relative_error
