"""How many records would open a gate that so many do not: what a refusal says beside its reason.

What is refused or left out for noise would come with more records of such people. The number is that at which the very quantity
that was too small is large enough, if the shares of the reports stay those that were counted.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, sqrt

from optrr.show.rounding import records_enough, two_digits_up
from optrr.tables.estimation.faint import CLEAR_OF_ZERO

# Doublings of the records that are tried, and halvings of the last of them: to 9 %.
_DOUBLINGS, _HALVINGS = 40, 3
# With fewer standard errors than this, only a number that is too small is known.
_MEASURED = 1.0


def clear_with(n: float, errors: float) -> str:
    """Of how many records would bring what n of them show ``errors`` standard errors above 0 to `CLEAR_OF_ZERO` of them."""
    wanted = n * (CLEAR_OF_ZERO / max(errors, _MEASURED)) ** 2
    # nearer to 0, nobody knows how small it is, and a number could be wrong by a factor of ten
    return (
        records_enough(wanted) if errors >= _MEASURED else f"more than {two_digits_up(wanted)} records would be needed"
    )


def enough(n: float, opens: Callable[[float], bool]) -> float:
    """The least number of records beyond n, to 9 % upwards, at which the gate ``opens``; infinite where none is met."""
    closed, opened = n, 2 * n
    for _ in range(_DOUBLINGS):
        if opens(opened):
            break
        closed, opened = opened, 2 * opened
    else:
        return inf
    for _ in range(_HALVINGS):
        middle = sqrt(closed * opened)
        closed, opened = (closed, middle) if opens(middle) else (middle, opened)
    return opened
