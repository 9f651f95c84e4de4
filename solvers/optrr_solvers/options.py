"""Options common to all solvers."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from optrr_solvers.arrays import real
from optrr_solvers.errors import InvalidProblem, written


@dataclass(frozen=True)
class SolveOptions:
    """Options common to all methods; None leaves the method's own default.

    ``tolerance``: largest gap in nats; ``time_limit``: seconds; ``progress``: called with (fraction, upper, lower),
    bounds in nats, initially infinite and 0. Raises InvalidProblem for a tolerance or limit that is not above 0.

    Examples
    --------
    >>> import optrr
    >>> options = optrr.SolveOptions(time_limit=10)
    >>> round(optrr.design({"sex": 2, "age": 3}, 1.0, options=options).epsilon, 4)
    1.6913
    """

    tolerance: float | None = None
    time_limit: float | None = None
    progress: Callable[[float, float, float], None] | None = None

    def __post_init__(self) -> None:
        for what, value, unit in (("tolerance", self.tolerance, "nats"), ("time_limit", self.time_limit, "seconds")):
            if value is not None and not (math.isfinite(real(value)) and value > 0):
                raise InvalidProblem(f"``{what}``: {written(value)}; give a finite number of {unit} above 0")

    def deadline(self, started: float) -> float:
        """Compute the end of the time limit of work that ``started`` then.

        The clock is time.perf_counter; infinite without a limit.
        """
        return math.inf if self.time_limit is None else started + self.time_limit

    def tolerance_or(self, usual: float) -> float:
        """Return the requested tolerance, or the method's default."""
        return usual if self.tolerance is None else self.tolerance
