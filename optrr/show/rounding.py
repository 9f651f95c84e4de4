"""Numbers for people: an ε is rounded up and a bound down, so that what is read holds, and records that are needed up.

Files and JSON have every digit. A sum of ε is rounded up to the next double.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from optrr_solvers.enclosure import sum_ceiling

_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[-+]\d+)?|-?inf|nan")
# A double has at most 767 significant digits.
_EXACT = 800
# A number of records beyond this is no advice.
_MOST_RECORDS = 1e15


def sum_of_epsilons(epsilons: Iterable[float]) -> float:
    """Smallest double not below the exact sum; inf where any is. What a person spends in all (sequential composition)."""
    each = list(epsilons)
    return math.inf if math.inf in each else sum_ceiling(each)


def epsilon_text(epsilon: float, decimals: int = 6) -> str:
    """An ε with that many decimals, rounded up: what is read is never below what is spent."""
    return _rounded(epsilon, decimals, ROUND_CEILING)


def bound_text(bound: float, decimals: int = 6) -> str:
    """A lower bound with that many decimals, rounded down: what is read still holds."""
    return _rounded(bound, decimals, ROUND_FLOOR)


def records_enough(n: float) -> str:
    """Of how many records would do, rounded up to two digits; in words where nobody has so many."""
    if not n <= _MOST_RECORDS:
        return "more records than anybody has would be needed"
    return f"about {two_digits_up(n)} records would do"


def two_digits_up(n: float) -> int:
    """The least number of two digits and zeros, or of fewer digits, that is not below n > 0."""
    unit = int(10 ** max(int(math.log10(n)) - 1, 0)) if n > 1 else 1
    return math.ceil(n / unit) * unit


def reads_as_number(text: str) -> bool:
    """Whether a table's cell belongs to the right."""
    return _NUMBER.fullmatch(text) is not None


def _rounded(value: float, decimals: int, rounding: str) -> str:
    if not math.isfinite(value):
        return f"{value}"
    return f"{Decimal(value).quantize(Decimal(1).scaleb(-decimals), rounding, Context(prec=_EXACT)):f}"
