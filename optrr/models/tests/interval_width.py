"""How many records make the intervals of a table narrow enough."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.mechanisms.kernel import Kernel
from optrr.mechanisms.randomizer import Randomizer, checked_mechanism
from optrr.models.tests.power_analysis import LARGEST_SURVEY, checked_effect
from optrr.records.counts import Counts
from optrr.tables.estimation.estimator import estimate
from optrr.tables.estimation.result import check_confidence
from optrr_solvers.arrays import FloatArray

# Fewer records have no standard error.
_FEWEST = 2
# This share of the records fewer is not enough: it changes widths by half as much, less than whole counts do.
_CLOSE = 1e-3
# Widths jump up where one more rare report is expected, and fall below the wanted one again within few records more. So many
# numbers up to this multiple are tried: 2 % of the records apart, over which widths fall by 1 %.
_BEYOND, _CHECKS = 1.5, 26


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
        """The widest interval of a cell from n records whose reports are as expected, rounded to counts that sum to n."""
        exact = n * self._expected.ravel()
        counts = np.floor(exact).astype(np.int64)
        # the largest remainders are rounded up
        short = n - int(counts.sum())
        counts[np.argsort(counts - exact, kind="stable")[:short]] += 1
        made = Counts(self.domain, counts.reshape(self._expected.shape))
        out = estimate(made, self.mechanism, confidence=self.confidence, simultaneous=self.simultaneous)
        return float(np.max(out.upper - out.lower))

    def records(self, width: float) -> int:
        """Number n of records whose widest interval is at most as wide as wanted, and so at the larger numbers of `checked`.

        A thousandth fewer (or one fewer) have a wider one. Counts are whole, so that the widest interval jumps up wherever
        one more rare report is expected, and widths do not just fall with n: some smaller number may do, but somewhere
        between it and half as many again the interval is too wide.

        Raises
        ------
        InvalidInput
            for a width that is not above 0 and below 1, or where 10^15 records are not enough.
        """
        if not 0 < width < 1:
            raise InvalidInput(f"width = {width}; give a number above 0 and below 1, such as 0.05")
        variance = float(np.max(self._kernel.exact_variance(self._expected, 1.0)))
        # what far from the ends of the range is the number
        guess = 4 * norm.isf((1 - self.confidence) / 2) ** 2 * variance / width**2
        high = self._enough(int(np.clip(guess, _FEWEST, LARGEST_SURVEY)), width)
        low = high // 2
        while low >= _FEWEST and self.widest(low) <= width:
            low, high = low // 2, low
        while True:
            n = self._between(max(low, _FEWEST - 1), high, width)
            wider = [more for more in self.checked(n) if self.widest(more) > width]
            if not wider:
                return n
            low, high = wider[-1], self._enough(wider[-1], width)

    def checked(self, n: int) -> list[int]:
        """The numbers, from n to half as many again, at which `records` made sure of the width: all where n is up to 50."""
        last = min(int(_BEYOND * n), LARGEST_SURVEY)
        return sorted({int(k) for k in np.linspace(n, last, _CHECKS)})

    def _enough(self, n: int, width: float) -> int:
        """The first of n, 2n, 4n, … that is enough."""
        while self.widest(n) > width:
            if n == LARGEST_SURVEY:
                raise InvalidInput(
                    f"10^15 records do not make intervals {width} wide through this mechanism; randomize less"
                )
            n = min(2 * n, LARGEST_SURVEY)
        return n

    def _between(self, low: int, high: int, width: float) -> int:
        """Number that is enough and a `_CLOSE` share or one fewer is not, where ``high`` is and ``low`` is not."""
        step = max(1, int(_CLOSE * low))
        inner = range(low + step, high, step)
        first = bisect_left(inner, True, key=lambda n: self.widest(n) <= width)
        return inner[first] if first < len(inner) else high
