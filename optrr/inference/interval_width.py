"""How many records make the intervals of a table narrow enough."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from optrr.errors import InvalidInput
from optrr.estimation.estimator import estimate
from optrr.estimation.result import check_confidence
from optrr.inference.power_analysis import LARGEST_SURVEY, checked_effect
from optrr.kernel import Kernel
from optrr.mechanisms.randomizer import Randomizer, checked_mechanism
from optrr.records.counts import Counts
from optrr.records.domain import Domain
from optrr_solvers.arrays import FloatArray

# Fewer records have no standard error.
_FEWEST = 2
# The width that is reached is at most this share below the wanted one.
_CLOSE, _STEPS = 1e-3, 60


@dataclass(frozen=True, eq=False)
class IntervalWidths:
    """The intervals of `estimate` for the table of ``domain``, where reports are as expected at true ``proportions``.

    Raises
    ------
    InvalidInput
        for proportions or a confidence that are none. SingularMarginal where the mechanism hides the attribute set.
    """

    domain: Domain
    mechanism: Randomizer
    proportions: ArrayLike
    confidence: float = 0.95
    simultaneous: bool = False

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        checked_effect(self.proportions, self._kernel.sizes)
        self._kernel.check_invertible()

    @cached_property
    def _kernel(self) -> Kernel:
        return checked_mechanism(self.mechanism).kernel(self.domain.names)

    @cached_property
    def _expected(self) -> FloatArray:
        return self._kernel.expected(self.proportions)

    def widest(self, n: int) -> float:
        """The widest interval of a cell from n records."""
        counts = Counts(self.domain, np.rint(n * self._expected).astype(np.int64))
        out = estimate(counts, self.mechanism, confidence=self.confidence, simultaneous=self.simultaneous)
        return float(np.max(out.upper - out.lower))

    def records(self, width: float) -> int:
        """Number of records, to a fifth of a percent, whose widest interval is as wide as wanted.

        Raises
        ------
        InvalidInput
            for a width that is not above 0 and below 1, or where 10^15 records are not enough.
        """
        if not 0 < width < 1:
            raise InvalidInput(f"width = {width}; give a number above 0 and below 1, such as 0.05")
        variance = float(np.max(self._kernel.exact_variance(self._expected, 1.0)))
        n = 4 * norm.isf((1 - self.confidence) / 2) ** 2 * variance / width**2
        # widths fall as 1/√n, but for the ends of the range, near which a step may not suffice
        for _ in range(_STEPS):
            n = float(np.clip(np.ceil(n), _FEWEST, LARGEST_SURVEY))
            ratio = self.widest(int(n)) / width
            if ratio <= 1 and (ratio >= 1 - _CLOSE or n == _FEWEST):
                break
            n *= (ratio / (1 - _CLOSE / 2)) ** 2
        if ratio > 1:
            raise InvalidInput(
                f"10^15 records do not make intervals {width} wide through this mechanism; randomize less"
            )
        return int(n)
