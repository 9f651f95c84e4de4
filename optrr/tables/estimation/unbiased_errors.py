"""Standard errors and intervals by the unbiased estimate, whatever method a table of estimates comes from.

The intervals hold for the truth (:mod:`optrr.tables.estimation.score_interval`); where the method's own estimate lies outside,
its interval is moved outwards to it, which can only make it cover more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from optrr.domain.domain import Domain
from optrr.mechanisms.kernel import Kernel, SingularMarginal
from optrr.tables.estimation.result import Convergence, Estimate, Target
from optrr.tables.estimation.score_interval import score_intervals
from optrr.tables.estimation.weighted_mean import cell_means
from optrr_solvers.arrays import FloatArray

# Tables with more cells have no intervals unless asked for: a cell's takes about 0.3 ms.
INTERVAL_CELLS = 1 << 15
# A variance this small against the mean square of the weights it is computed from is rounding.
_ALIKE = 1e-12


@dataclass(frozen=True, eq=False)
class TableErrors:
    """Which table the errors are for, and what is wished of its intervals; see :class:`Estimate`."""

    domain: Domain
    n: int
    method: str
    confidence: float
    target: Target = "population"
    simultaneous: bool = False

    def around(self, proportions: FloatArray, bias: str = "", convergence: Convergence | None = None) -> Estimate:
        """An estimate without errors and intervals so far."""
        unknown = np.full(proportions.shape, np.nan)
        return Estimate(
            **vars(self),
            proportions=proportions,
            standard_errors=unknown,
            lower=unknown,
            upper=unknown,
            interval="none",
            bias=bias,
            errors="none",
            convergence=convergence,
        )


def with_standard_errors(out: Estimate, kernel: Kernel, observed: FloatArray) -> Estimate:
    """With the unbiased estimate's standard errors around its target; with a warning where there are none."""
    try:
        variance = kernel.variance if out.target == "population" else kernel.data_variance
        variances = variance(observed, out.n)
    except SingularMarginal as reason:
        warning = f"no standard errors, and the table is not identified by the data alone: {reason}"
        return replace(out, warnings=(warning, *out.warnings))
    if out.target == "data":
        return replace(out, standard_errors=np.sqrt(variances), errors="unbiased")
    # all reports that tell about a cell are alike here, so they show no variance, although there is one
    alike = variances * (out.n - 1) <= _ALIKE * kernel.solve_squared(observed)
    warnings = (*without_error(alike, "the reports that tell about them are"), *out.warnings)
    return replace(
        out, standard_errors=np.where(alike, np.nan, np.sqrt(variances)), errors="unbiased", warnings=warnings
    )


def without_error(alike: NDArray[np.bool_], what: str) -> tuple[str, ...]:
    """The warning on cells whose reports are all alike."""
    if not alike.any():
        return ()
    cells = f"{np.count_nonzero(alike)} of {alike.size} cells"
    return (f"{cells} have no standard error: {what} all alike; count more records",)


def with_intervals(out: Estimate, kernel: Kernel, observed: FloatArray, most: int = INTERVAL_CELLS) -> Estimate:
    """With intervals at its confidence and for its target; with a warning for tables of more than ``most`` cells."""
    if out.errors == "none":
        return out
    if kernel.cells > most:
        warning = (
            f"no intervals for {kernel.cells} cells, more than {most}; ask for them with interval_cells={kernel.cells}"
        )
        return replace(out, warnings=(*out.warnings, warning))
    means = cell_means(kernel, observed, out.n, fixed=out.target == "data")
    low, high = score_intervals(means, (1 - out.confidence) / (kernel.cells if out.simultaneous else 1))
    shape, inside = out.proportions.shape, np.clip(out.proportions, 0.0, 1.0)
    low, high = np.minimum(low.reshape(shape), inside), np.maximum(high.reshape(shape), inside)
    return replace(out, lower=low, upper=high, interval="score")
