"""Compare two versions of a result: equal words, and numbers within the benchmark's tolerance."""

import math
import re
from pathlib import Path

# A number that is a word of its own: digits inside a name or an identifier are text.
_NUMBER = re.compile(r"(?<![A-Za-z_#0-9.])[-+−]?\d+(?:,\d{3}(?!\d))*(?:\.\d+)?(?:e[-+]?\d+)?(?![A-Za-z_0-9])")
# matplotlib names shapes by a hash of their content
_SHAPE = re.compile(r"\b[a-z]?[0-9a-f]{10,12}\b")
# Embedded pixels: compared by the other results of the same benchmark, which hold the numbers.
_PIXELS = re.compile(r'"data:image[^"]*"', re.DOTALL)
# In a picture a difference of less than a point cannot be seen; numbers there are positions.
PICTURE = 1.0


def difference(before: Path, now: Path, agrees: float) -> str | None:
    """What differs between two files by more than ``agrees``, relative, in one line; None where they agree.

    Numbers rounded for print may also differ by one unit of their last digit. In SVG pictures coordinates may differ by a
    point, and no more than words and coordinates are compared.
    """
    old, new = (file.read_text(encoding="utf-8") for file in (before, now))
    if old == new:
        return None
    picture = before.suffix == ".svg"
    if picture:
        old, new = (_SHAPE.sub("shape", _PIXELS.sub("pixels", text)) for text in (old, new))
    if _NUMBER.sub("#", old) != _NUMBER.sub("#", new):
        lines = (_NUMBER.sub("#", text).splitlines() for text in (old, new))
        first = next(((a, b) for a, b in zip(*lines, strict=False) if a != b), ("fewer or more lines", "than before"))
        return f"text changed: {first[0].strip()[:120]!r} became {first[1].strip()[:120]!r}"
    for a, b in zip(_NUMBER.findall(old), _NUMBER.findall(new), strict=True):
        if not (abs(_value(a) - _value(b)) <= PICTURE if picture else _close(a, b, agrees)):
            return f"{a} became {b}"
    return None


def _value(number: str) -> float:
    return float(number.replace("−", "-").replace(",", ""))


def _unit(number: str) -> float:
    """One unit of the last digit printed."""
    mantissa, _, exponent = number.partition("e")
    return 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def _close(a: str, b: str, agrees: float) -> bool:
    x, y = _value(a), _value(b)
    if a == b:
        return True
    printed = 1.01 * max(_unit(a), _unit(b)) if "." in a or "e" in a else 0.0
    return math.isclose(x, y, rel_tol=agrees, abs_tol=printed)
