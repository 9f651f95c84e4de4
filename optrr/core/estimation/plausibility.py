"""Detection of data that this mechanism did not randomize: true records, another design's, records randomized twice.

The unbiased estimate of cell v is a mean of weights, π̂_v = (1/n) Σ_k g(y_k) with g = P⁻¹e_v, and E g(y_k) is 1 for a person in
cell v and 0 for any other. So its expectation lies in 0..1 whatever the true records are, and by Chernoff's inequality

    Pr(π̂_v ≤ t) ≤ exp n (θ t + ln max_x E[e^(−θ g(y)) | x])      for all θ ≥ 0, t < 0,

and similarly above 1. The bound assumes nothing about the records: they need not be a sample, and n may be small. It is
multiplied by twice the number of cells of all tables looked at (Bonferroni). A warning at :data:`FALSE_ALARMS`
therefore has at most that probability for data of this mechanism. Data that are wrong but possible pass: no test that
is valid for all records could refuse them.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from optrr.core.errors import warn
from optrr.core.mechanisms.kernel import Kernel
from optrr.core.mechanisms.mechanism import Randomizer
from optrr.core.provenance.provenance import doubts, require_design
from optrr.core.records.counts import Counts
from optrr_solvers.arrays import FloatArray, IntArray

# How often right data may warn, over all tables looked at together.
FALSE_ALARMS = 1e-6
# An estimate fewer standard errors than this outside 0..1 is never that rare, so the bound is not computed.
_SUSPICIOUS = 4.0
# θ in units of one over the largest weight: below, e^(−θ g) is its linear part; above, its largest term alone.
_THETA = (1e-9, 700.0)
_FEWEST = 2


@dataclass(frozen=True, eq=False)
class Observed:
    """A table of counts with its kernel, or a batch of tables.

    The batch is the first axis; ``name`` is for messages.
    """

    name: str
    table: IntArray
    kernel: Kernel


def warn_of_records(counts: Sequence[Counts], mechanism: Randomizer | Kernel) -> None:
    """Raise Python warnings about the records that were counted.

    Every function that analyzes counts calls it first.

    A kernel does not identify its design, so records and design cannot be compared.

    Raises InvalidInput for records of another design, see :func:`optrr.core.provenance.provenance.require_design`.
    """
    if isinstance(mechanism, Kernel):
        return
    origins = dict.fromkeys(origin for each in counts for origin in each.origins)
    for origin in origins:
        require_design(origin, mechanism.digest)
    warn([*(line for origin in origins for line in doubts(origin)), *impossible(counts, mechanism)])


def impossible(counts: Iterable[Counts], mechanism: Randomizer) -> list[str]:
    """Warn if counts cannot come from this mechanism, including their margins."""
    different = {}
    for table in counts:
        margins = [table.marginal(name) for name in table.domain.names if table.domain.m > 1]
        # tables of the same records share margins, which are one; other records' tables of the same attributes are others
        different.update({(each.domain.names, each.table.tobytes()): each.table for each in (table, *margins)})
    return impossible_tables(
        [Observed(" × ".join(names), table, mechanism.kernel(names)) for (names, _), table in different.items()]
    )


def impossible_tables(observed: Sequence[Observed]) -> list[str]:
    """Warn of tables that cannot come from their kernels.

    Singular tables and empty batches are left out.
    """
    shown = [o for o in observed if o.table.size and o.kernel.is_invertible]
    cells = sum(o.table.size for o in shown)
    worst = min((_worst(o) for o in shown), key=lambda w: w.log_chance, default=None)
    if worst is None or worst.log_chance + math.log(2 * cells) >= math.log(FALSE_ALARMS):
        return []
    return [
        "estimates are probably wrong, because this does not look like data randomized by this design: the estimate "
        f"of a proportion in {worst.name} is "
        f"{worst.estimate:.3g}, {worst.errors:.0f} standard errors outside 0..1, which data of this design show less "
        "than once in "
        f"{1 / FALSE_ALARMS:,.0f} times"
    ]


@dataclass(frozen=True)
class _Cell:
    """The least likely cell of a table.

    Its estimate, its distance from 0..1, and ln of a bound on the probability.
    """

    name: str
    estimate: float = 0.0
    errors: float = 0.0
    log_chance: float = 0.0


def _worst(observed: Observed) -> _Cell:
    kernel = observed.kernel
    n = observed.table.sum(axis=kernel.axes, keepdims=True).astype(np.float64)
    kept = np.where(n >= _FEWEST, n, np.inf)
    lam = observed.table / kept
    estimate = kernel.solve(lam)
    outside = np.maximum(-estimate, estimate - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = outside / np.sqrt(np.maximum(kernel.solve_power(lam, 2) - estimate**2, 0.0) / (kept - 1))
    # where all reports are equal there is no standard error, and the bound decides
    errors = np.where((n >= _FEWEST) & (outside > 0), errors, 0.0)
    at = np.unravel_index(int(np.argmax(errors)), errors.shape)
    if not errors[at] >= _SUSPICIOUS:
        return _Cell(observed.name)
    batch = len(kernel.batch) or errors.ndim - len(kernel.sizes)
    single = kernel.part(int(np.ravel_multi_index(at[:batch], errors.shape[:batch]))) if batch else kernel
    people = float(n[(*at[:batch], *(0 for _ in kernel.sizes))])
    log_chance = log_chance_bound(single, at[batch:], float(estimate[at]), people)
    return _Cell(observed.name, float(estimate[at]), float(errors[at]), log_chance)


def log_chance_bound(kernel: Kernel, cell: Sequence[int | np.intp], estimate: float, n: float) -> float:
    """Bound ln of the probability of so extreme an estimate of a cell.

    As far outside 0..1, for any records of the n people.

    0 for an estimate inside.
    """
    if 0 <= estimate <= 1:
        return 0.0
    indicator = np.zeros(kernel.sizes)
    indicator[tuple(cell)] = 1.0
    # below 0 the weights change their sign, so that the same formula serves both sides
    sign = -1.0 if estimate < 0 else 1.0
    weights: FloatArray = sign * kernel.solve_adjoint(indicator)
    unit, most = 1 / float(np.abs(weights).max()), float(weights.max())

    def exponent(log_theta: float) -> float:
        theta = math.exp(log_theta) * unit
        moment = float(kernel.adjoint(np.exp(theta * (weights - most))).max())
        return theta * (most - sign * estimate) + math.log(moment)

    # takes long to import, and tables that are in doubt are rare
    from scipy.optimize import minimize_scalar  # noqa: PLC0415

    optimum = minimize_scalar(exponent, bounds=tuple(map(math.log, _THETA)), method="bounded", options={"xatol": 1e-3})
    return min(0.0, n * float(optimum.fun))
