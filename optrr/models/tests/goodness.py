"""Goodness of fit: the true proportions of an attribute set are given ones, π = π_0.

T = n Σ (λ̂ − λ_0)²/λ_0 with λ_0 = Pᵀπ_0, df = R − 1: Rao's score test, because P is invertible and the alternative therefore
leaves λ free. The law of the counts under the null hypothesis is known, so small p-values and sparse tables are exact.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from optrr.errors import InvalidInput
from optrr.mechanisms.kernel import Kernel
from optrr.mechanisms.randomizer import Randomizer, kernel_from
from optrr.models.tests.chi_square import LimitOrDrawn
from optrr.models.tests.exact import goodness_tests
from optrr.models.tests.result import Calibration, TestResult, check_testable, simulated_result
from optrr.records.counts import Counts
from optrr.tables.estimation.impossible import warn_of_records


def goodness_of_fit(
    counts: Counts,
    mechanism: Randomizer | Kernel,
    proportions: ArrayLike,
    *,
    random_state: int | np.random.Generator | None = None,
) -> TestResult:
    """Test that the true proportions of the counts' attribute set are the given ones.

    ``random_state`` is of the simulation of small p-values and sparse tables; see :mod:`optrr.models.tests.exact`.

    Raises
    ------
    InvalidInput
        for fewer than two records, proportions of another shape, negative, or not summing to 1, or a kernel of other sizes.
    """
    kernel = kernel_from(mechanism, counts.domain.names)
    check_sizes(counts, kernel)
    check_testable(counts.n, "how well proportions fit")
    warn_of_records([counts], mechanism)
    kernel.check_invertible()
    pi = np.asarray(proportions, dtype=np.float64)
    if pi.shape != counts.table.shape or not pi.min() >= 0 or not np.isclose(pi.sum(), 1):
        raise InvalidInput(
            f"the hypothesis must be proportions of shape {counts.table.shape}, none negative, that sum to 1, got shape "
            f"{pi.shape}, sum {pi.sum():.6g} and smallest {pi.min():.6g}; of estimates take those of method projection"
        )
    expected = kernel.expected(pi / pi.sum()).ravel()
    tested = goodness_tests(
        counts.table.reshape(1, -1).astype(np.float64), expected / expected.sum(), np.random.default_rng(random_state)
    )
    return result_of_one("goodness-of-fit", tested, counts.n)


def result_of_one(name: str, tested: LimitOrDrawn, n: int, source: Calibration = "exact") -> TestResult:
    """The result of a batch of one table, which was drawn from the ``source`` where it was drawn."""
    plain = TestResult(name, float(tested.statistic[0]), tested.df, float(tested.p_value[0]), n)
    if not tested.simulated[0]:
        return plain
    drawn = simulated_result(plain, tested.p_value[0], tested.reached[0], tested.rule, source)
    if tested.p_value[0] >= 1 / (tested.rule.most + 1):
        return drawn
    # the χ² limit shows how much smaller the p-value may be, though not within a factor of two
    return replace(drawn, calibration="asymptotic", relative_error=None)


def check_sizes(counts: Counts, kernel: Kernel) -> None:
    """Raise InvalidInput for no records, or a kernel of another table."""
    if kernel.sizes != counts.table.shape:
        raise InvalidInput(
            f"the kernel is of sizes {kernel.sizes} and the table of {counts.table.shape}; give the kernel of these attributes"
        )
    if counts.n == 0:
        raise InvalidInput("a table counts no records; leave it out")
