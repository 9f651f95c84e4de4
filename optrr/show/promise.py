"""What an ε means, in the words that those who are asked read.

The sentences stand once, in ``sentences.json``; the survey's page and the readers of reports see the same.
"""

from __future__ import annotations

import json
import math
from functools import cache
from importlib.resources import files

# As in words.js: math.exp may be off by a unit in the last place, and a factor is never said to be smaller than it is.
_OUTWARD = 1 + 2.0**-48
# From here a factor is written as a power of ten.
_LONGEST = 1e6
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@cache
def sentences() -> dict[str, str]:
    """The sentences by name, with their numbers left open."""
    return dict(json.loads((files("optrr.show") / "sentences.json").read_text(encoding="utf-8")))


def factor_text(epsilon: float) -> str:
    """e^ε with three digits, rounded up; what is read is never below what is spent. From a million on as a power of ten."""
    if epsilon <= 0:
        return "1"
    if epsilon < math.log(_LONGEST) and (factor := math.exp(epsilon) * _OUTWARD) < _LONGEST:
        digits = 2 - math.floor(math.log10(factor))
        scale = 10 ** abs(digits)
        up = math.ceil(factor * scale) / scale if digits > 0 else math.ceil(factor / scale) * scale
        return f"{up:,.2f}".rstrip("0").rstrip(".") if digits > 0 else f"{up:,}"
    exponent = math.floor(epsilon / math.log(10))
    # far more than the digits that the logarithm lost
    lead = math.ceil(10 ** (epsilon / math.log(10) - exponent) * (1 + 1e-9) * 10) / 10
    lead, exponent = (lead / 10, exponent + 1) if lead >= 10 else (lead, exponent)
    return f"{lead:g} × 10{str(exponent).translate(_SUPERSCRIPTS)}"


def percent_at_best(epsilon: float) -> int:
    """The odds after a report where they were even before, in percent, rounded up: 100 e^ε/(1 + e^ε)."""
    return min(100, math.ceil(100 * _OUTWARD / (1 + math.exp(-epsilon))))


def promise(epsilon: float) -> str:
    """What a total ε, in nats, promises to everybody who is asked."""
    return sentences()["promise"].format(factor=factor_text(epsilon))


def example(epsilon: float) -> str:
    """The same for a reader who does not think in odds."""
    said, percent = sentences(), percent_at_best(epsilon)
    if epsilon <= 0:
        return said["before"] + said["nothing"]
    return said["before"] + (said["percent"].format(percent=percent) if percent < 100 else said["certain"])


def changed_of_hundred(size: int, epsilon: float) -> int:
    """In how many of 100 reports, to the nearest whole number, an attribute's value is replaced: f_i = (r−1)/(r−1+e^ε)."""
    return round(100 * (size - 1) / (size - 1 + math.exp(min(epsilon, 700.0))))
