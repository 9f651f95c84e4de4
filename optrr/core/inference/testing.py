"""The test of an association by name: a statistic of `ASSOCIATIONS`, a p-value by one of `CALIBRATIONS`.

The target is the population the records are a sample of. Under the null hypothesis the true attributes are independent,
and only their margins are unknown, which are fitted. p-values are those of χ² where it serves, and else from tables
drawn from the fitted hypothesis (:mod:`optrr.core.inference.simulation`).
"""

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from optrr.core.domain.domain import GivenScores, plain_scores
from optrr.core.errors import InvalidInput
from optrr.core.estimation.plausibility import warn_of_records
from optrr.core.inference.associations import Association, association
from optrr.core.inference.nullfit import ScoreTests
from optrr.core.inference.result import TestResult, calibrated_result, check_testable
from optrr.core.inference.simulation import LimitOrDrawn, Simulation
from optrr.core.mechanisms.kernel import Kernel
from optrr.core.mechanisms.mechanism import Randomizer, kernel_from
from optrr.core.records.counts import Counts
from optrr_solvers.arrays import FloatArray

# p-values of tables (B, r_a, r_b) with their tests; and how many tables a bootstrap draws.
Calibrate = Callable[[Association, FloatArray, ScoreTests, np.random.Generator, int], LimitOrDrawn]


@dataclass(frozen=True)
class Bootstrap:
    """A p-value from tables that are drawn under the fitted null hypothesis.

    Parameters
    ----------
    draws
        Number of tables drawn for each p-value, at least 1; no p-value is below 1/(draws + 1). None: as many as the
        p-value needs, and only where the χ² limit does not serve.
    random_state
        Seed or generator of the draws; the operating system's unless given.

    Raises
    ------
    InvalidInput
        For fewer than one table.

    Examples
    --------
    >>> import optrr
    >>> optrr.Bootstrap(draws=9999, random_state=1).draws
    9999
    """

    draws: int | None = None
    random_state: int | np.random.Generator | None = None

    def __post_init__(self) -> None:
        if self.draws is not None and self.draws < 1:
            raise InvalidInput(f"``draws``: {self.draws}; give a number of tables of at least 1")


# Tables that the calibration "bootstrap" draws.
_DRAWS = 1999
# Every calibration by name: module and function, resolved on first use.
CALIBRATIONS: dict[str, str] = {
    "auto": "optrr.core.inference.testing:served",
    "asymptotic": "optrr.core.inference.testing:limit",
    "bootstrap": "optrr.core.inference.testing:bootstrapped",
    "saddlepoint": "optrr.genomics.tail:saddlepoint",
}
# In tables whose reports expect fewer records a bootstrap keeps an error of the fitted null hypothesis, as that of a likelihood
# ratio does near the boundary: benchmarks/test_levels.py.
SPARSE = 5.0
_MEASURED = (
    "in tables as sparse as this one a bootstrapped test at level 5 % was measured to reject 3 to 7 % of the time"
)


def served(
    chosen: Association, tables: FloatArray, tests: ScoreTests, rng: np.random.Generator, _: int
) -> LimitOrDrawn:
    """Use χ² where it is valid and the bootstrap elsewhere."""
    return chosen.calibrated(tables, tests, rng)


def limit(chosen: Association, tables: FloatArray, tests: ScoreTests, rng: np.random.Generator, _: int) -> LimitOrDrawn:
    """Use χ² everywhere."""
    return chosen.calibrated(tables, tests, rng, drawn=False)


def bootstrapped(
    chosen: Association, tables: FloatArray, tests: ScoreTests, rng: np.random.Generator, draws: int
) -> LimitOrDrawn:
    """Use the bootstrap everywhere, with so many tables."""
    return chosen.calibrated(tables, tests, rng, Simulation(draws + 1, draws), drawn=True)


def test(
    counts: Counts,
    mechanism: Randomizer | Kernel,
    test: str = "independence",
    *,
    scores: GivenScores | None = None,
    calibration: str | Bootstrap = "auto",
) -> TestResult:
    """Test an association of two attributes from counts of their randomized records.

    Parameters
    ----------
    counts
        Counts of two attributes.
    mechanism
        Mechanism that randomized the records, or the kernel of exactly these two attributes.
    test
        "independence", "trend", "genotypic" or "likelihood-ratio", or another one of `ASSOCIATIONS`.
    scores
        numbers for the categories of the two attributes, for "trend": their own where all are numbers, 0..r−1 elsewhere, unless
        given. The result says which they were.
    calibration
        "auto": the χ² limit where it is good to a factor of two, a bootstrap elsewhere. "asymptotic": the χ² limit.
        "bootstrap": 1999 simulated tables. "saddlepoint": as in scans of variants, for tests of one or two degrees of freedom.
        :class:`optrr.Bootstrap`: another number of tables, or a seed. The result says which it was.

    Raises
    ------
    InvalidInput
        for an unknown test or calibration, or a table it cannot take. SingularMarginal if the mechanism hides the
        association.

    Examples
    --------
    >>> import numpy as np, optrr
    >>> design = optrr.design({"sex": ["F", "M"], "smokes": ["yes", "no"]}, 2.0)
    >>> counts = optrr.Counts(design.domain, np.array([[300, 200], [200, 300]]))
    >>> optrr.test(counts, design.mechanism).p_value < 0.001
    True
    """
    kernel = kernel_from(mechanism, counts.domain.names)
    if counts.table.ndim != 2 or kernel.sizes != counts.table.shape:
        shape = counts.table.shape
        raise InvalidInput(f"``attributes``: {test!r} tests two attributes, not {len(shape)}; name two")
    check_testable(counts.n)
    whole = association(kernel, test, scores, counts.domain)
    drawn = calibration if isinstance(calibration, Bootstrap) else Bootstrap()
    name = calibration if isinstance(calibration, str) else "auto" if drawn.draws is None else "bootstrap"
    if name not in CALIBRATIONS:
        raise InvalidInput(f"``calibration``: {name!r} is unknown; give one of {', '.join(CALIBRATIONS)}")
    warn_of_records([counts], mechanism)
    kernel.check_invertible()
    table = counts.table[None].astype(np.float64)
    ((_, chosen),) = whole.forms(table)
    tests = chosen.tested(table)
    calibrate: Any = pkgutil.resolve_name(CALIBRATIONS[name])
    made = calibrate(chosen, table, tests, np.random.default_rng(drawn.random_state), drawn.draws or _DRAWS)
    out = calibrated_result(test, made, counts.n)
    n = np.array([float(counts.n)])
    sparse = chosen.fewest(tests.fit, n)[0] < SPARSE or not chosen.clear(tests.fit, n)[0]
    measured = (_MEASURED,) if sparse and out.calibration == "bootstrap" else ()
    effect = float(tests.effect[0]) if np.isfinite(tests.effect[0]) else None
    warnings = (*chosen.warnings, *out.warnings, *measured)
    return replace(out, effect=effect, scores=plain_scores(chosen.scores), warnings=warnings)
