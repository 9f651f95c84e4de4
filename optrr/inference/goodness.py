"""Goodness of fit and homogeneity: hypotheses that fix what the mechanism should have shown.

Goodness of fit, π = π_0:           n Σ (λ̂ − λ_0)²/λ_0 with λ_0 = Pᵀπ_0, df = R − 1.
Homogeneity, π the same in G groups: Σ_g n_g Σ (λ̂_g − λ_g)²/λ_g with λ_g = P_gᵀπ at the likeliest common π, df = (G−1)(R−1).

Both are Rao's score tests, because P is invertible and the alternative therefore leaves λ free. Groups may be randomized by
different mechanisms; with one mechanism, homogeneity is Pearson's test on the randomized counts themselves, which is valid
since the groups are not randomized.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2

from optrr.errors import InvalidInput
from optrr.inference.result import TestResult
from optrr.kernel import Kernel
from optrr.mechanisms.randomizer import Randomizer, kernel_from
from optrr.records.counts import Counts
from optrr_solvers.problem import FloatArray

# Pearson's statistic is off in the tail where few records are expected in a cell (Cochran's rule).
_FEWEST_EXPECTED = 5.0
# Scoring steps for the common distribution; the likelihood is concave and three or four are enough.
_STEPS = 30
_TOLERANCE = 1e-12
# A dense information matrix of 1024 cells takes 8 MB and a second.
_MAX_CELLS = 1024


def goodness_of_fit(counts: Counts, mechanism: Randomizer | Kernel, proportions: ArrayLike) -> TestResult:
    """Test that the true proportions of the counts' attribute set are the given ones.

    Raises
    ------
    InvalidInput
        for proportions of another shape, negative, or not summing to 1, or a kernel of other sizes.
    """
    kernel = kernel_from(mechanism, counts.domain.names)
    _check_sizes(counts, kernel)
    kernel.check_invertible()
    pi = np.asarray(proportions, dtype=np.float64)
    if pi.shape != counts.table.shape or pi.min() < 0 or not np.isclose(pi.sum(), 1):
        raise InvalidInput(
            f"the hypothesis must be proportions of shape {counts.table.shape}, none negative, that sum to 1, got shape "
            f"{pi.shape} and sum {pi.sum():.6g}; of estimates take those of method projection"
        )
    expected = kernel.expected(pi)
    statistic = float(counts.n * np.sum(_pearson_terms(counts.proportions, expected)))
    df = kernel.cells - 1
    notes = _few(counts.n * expected)
    return TestResult(
        "goodness-of-fit", statistic, df, float(chi2.sf(statistic, df)), counts.n, reliable=not notes, notes=notes
    )


def homogeneity(
    groups: Sequence[Counts], mechanisms: Randomizer | Kernel | Sequence[Randomizer | Kernel]
) -> TestResult:
    """Test that several groups of people have the same true proportions of one attribute set.

    Parameters
    ----------
    groups
        counts of every group, over the same attributes; at least two.
    mechanisms
        one for all groups or one for each.

    Raises
    ------
    InvalidInput
        for fewer than two groups, different domains, a kernel of other sizes, or more than 1024 cells.
    """
    if len(groups) < 2 or any(g.domain != groups[0].domain for g in groups):
        raise InvalidInput(f"{len(groups)} groups of counts; give at least two over the same attributes and categories")
    each = list(mechanisms) if isinstance(mechanisms, Sequence) else [mechanisms] * len(groups)
    if len(each) != len(groups):
        raise InvalidInput(f"{len(each)} mechanisms for {len(groups)} groups; give one for all or one for each")
    kernels = [kernel_from(m, groups[0].domain.names) for m in each]
    cells = kernels[0].cells
    if cells > _MAX_CELLS:
        raise InvalidInput(f"the table has {cells} cells; the homogeneity test takes at most {_MAX_CELLS}")
    for kernel in kernels:
        _check_sizes(groups[0], kernel)
        kernel.check_invertible()
    n = np.array([g.n for g in groups], dtype=np.float64)
    observed = np.stack([g.proportions.ravel() for g in groups])
    expected = _common_fit(observed, n, kernels)
    statistic = float(np.sum(n * np.sum(_pearson_terms(observed, expected), axis=1)))
    df = (len(groups) - 1) * (cells - 1)
    notes = _few(n[:, None] * expected)
    p = float(chi2.sf(statistic, df))
    return TestResult("homogeneity", statistic, df, p, int(n.sum()), reliable=not notes, notes=notes)


def _check_sizes(counts: Counts, kernel: Kernel) -> None:
    if kernel.sizes != counts.table.shape:
        raise InvalidInput(
            f"the kernel is of sizes {kernel.sizes} and the table of {counts.table.shape}; give the kernel of these attributes"
        )


def _common_fit(observed: FloatArray, n: FloatArray, kernels: Sequence[Kernel]) -> FloatArray:
    """Expected proportions (G, R) at the likeliest common π, which may leave the simplex: λ is free, as it is under H1."""
    cells = observed.shape[1]
    forward = np.stack([k.matrix().T for k in kernels])
    floors = np.array([max(k.range[0], 1e-12) for k in kernels])[:, None]
    tangent = np.concatenate([np.eye(cells - 1), -np.ones((1, cells - 1))])
    each = [k.solve(o.reshape(k.sizes)).ravel() for k, o in zip(kernels, observed, strict=True)]
    pi = (n / n.sum()) @ np.stack(each)
    j = forward @ tangent
    for _ in range(_STEPS):
        expected = np.maximum(forward @ pi, floors)
        weighted = (n[:, None] / expected)[:, :, None] * j
        information = np.einsum("gra,grb->ab", weighted, j)
        step = tangent @ np.linalg.solve(information, np.einsum("gra,gr->a", weighted, observed - expected))
        pi = pi + step
        if np.abs(step).max() < _TOLERANCE:
            break
    return np.asarray(np.maximum(forward @ pi, floors))


def _pearson_terms(observed: FloatArray, expected: FloatArray) -> FloatArray:
    difference = (observed - expected) ** 2
    return np.divide(difference, expected, out=np.where(difference > 0, np.inf, 0.0), where=expected > 0)


def _few(expected: FloatArray) -> tuple[str, ...]:
    few = int(np.count_nonzero(expected < _FEWEST_EXPECTED))
    if not few:
        return ()
    return (
        f"{few} of {expected.size} cells expect fewer than {_FEWEST_EXPECTED:g} records, so small p-values are not reliable; "
        "merge categories",
    )
