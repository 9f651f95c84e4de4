"""Numbers of a plan as people read them: interpolated ones with ≈ and two digits, exact ones with four."""

from __future__ import annotations

import math
from dataclasses import dataclass

from optrr.show.text import epsilon_text

# Digits of a number that is exact, and of one that is interpolated.
_EXACT, _INTERPOLATED = 4, 2
# Before a number that is an interval's half, or interpolated; with spaces at which no line breaks.
PLUS_MINUS, _ABOUT = "±\u00a0", "≈\u00a0"
# Decimals of an ε.
_DECIMALS = 4
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Figures:
    """How the numbers of one preview are written."""

    exact: bool

    def number(self, value: float | None) -> str | None:
        """A number that is not negative; None where there is none, in words where it is infinite."""
        if value is None:
            return None
        if math.isinf(value):
            return "without bound"
        return digits(value, _EXACT) if self.exact else f"{_ABOUT}{digits(value, _INTERPOLATED)}"

    def points(self, value: float | None) -> str | None:
        """± percentage points."""
        said = self.number(value)
        if value is None or said is None or math.isinf(value):
            return "cannot be estimated" if value is not None else None
        return f"{PLUS_MINUS}{said}" if self.exact else f"≈\u00a0{PLUS_MINUS}{said.removeprefix(_ABOUT)}"

    def epsilon(self, value: float) -> str:
        """An ε in nats, rounded up where it is exact: what is read is never below what is spent."""
        return epsilon_text(value, _DECIMALS) if self.exact else f"{_ABOUT}{digits(value, _INTERPOLATED)}"


def digits(value: float, count: int) -> str:
    """A number with so many significant digits, without an exponent from a ten thousandth to a million million."""
    rounded = float(f"{value:.{count}g}")
    if rounded != 0 and not 1e-4 <= abs(rounded) < 1e12:
        return f"{rounded:.{count}g}"
    decimals = 0 if rounded == 0 else max(count - 1 - math.floor(math.log10(abs(rounded))), 0)
    text = f"{rounded:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def power_of_ten(value: float) -> str:
    """A small number in two digits, such as 10⁻⁶ or 3.1 · 10⁻⁸."""
    lead, _, exponent = f"{value:.1e}".partition("e")
    power = f"10{str(int(exponent)).translate(_RAISED)}"
    return power if lead == "1.0" else f"{lead} · {power}"


def interval_text(share: float, margin: float) -> str:
    """An interval around a share as people would read it off a chart, both in percent, rounded outwards."""
    lower, upper = max(share - margin, 0.0), min(share + margin, 100.0)
    # an interval narrower than two points needs a decimal to be one
    scale = 1 if margin >= 1 else 10 if margin >= 0.1 else 100
    low, high = math.floor(lower * scale) / scale, math.ceil(upper * scale) / scale
    return f"{low:g}–{high:g} %"
