"""Number formats and small charts of the planning page.

Interpolated numbers have ≈ and two digits, exact ones four. Charts are SVG: error against ε, and 100 dots that show a
chance. Colours are classes of the style sheet, so that light, dark and print differ. Every chart has its numbers as a
text alternative. The frontier's data attributes give the script the ends of its axis, so that it can move the chosen
point.
"""

import math
from collections.abc import Callable, Iterable, Sequence

from markupsafe import escape

from optrr.core.display import Chart

# Units of all charts' width.
_WIDTH = 340
_HEIGHT = 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 330, 12, 192
# Units of width that the words in the zone need.
_ROOM = 80
# Dots per row, and their distance.
_DOTS, _APART = 10, 13
# A total ε in nats with its margin in percentage points.
_At = tuple[float, float]


def frontier_chart(
    points: Sequence[_At], bound: Sequence[_At], chosen: _At | None, ends: tuple[float, float], little: float
) -> Chart:
    """Plot ± percentage points, and their lower bound, against the total ε.

    Both axes are logarithmic. Curves are totals with their margins; points without a logarithm are left out. ``chosen``
    is the current total with its margin, or None if that is unknown; ``ends`` are the totals at the ends of the axis. From
    the total ``little`` on, ε protects little.
    """
    points, bound, shown = _drawable(points), _drawable(bound), _drawable([chosen] if chosen else [])
    margins = [m for _, m in (*points, *bound, *shown)] or [1.0, 10.0]
    across = _logarithmic(*ends, _LEFT, _RIGHT)
    # a factor of ten at least, so that the first points do not look like all of the curve
    middle = math.sqrt(min(margins) * max(margins))
    lowest = min(min(margins) / 1.15, middle / math.sqrt(10))
    highest = max(max(margins) * 1.15, middle * math.sqrt(10))
    up = _logarithmic(lowest, highest, _BOTTOM, _TOP)
    start = across(min(max(little, ends[0]), ends[1]))
    out = [f'<rect class="little" x="{start:.1f}" y="{_TOP}" width="{_RIGHT - start:.1f}" height="{_BOTTOM - _TOP}"/>']
    if _RIGHT - start > _ROOM:
        out.append(_text(_RIGHT - 4, _TOP + 12, "protects little", "end"))
    out += [_axis_line(across(t), _TOP, _BOTTOM, f"{t:g}") for t in _doubles(*ends)]
    for margin in _nice(lowest, highest):
        y = up(margin)
        out += [f'<path class="grid" d="M{_LEFT} {y:.1f}H{_RIGHT}"/>', _text(_LEFT - 5, y + 4, f"±{margin:g}", "end")]
    out.append(_text((_LEFT + _RIGHT) / 2, _HEIGHT - 6, "total ε, nats", "middle"))
    for curve, kind in ((bound, "bound"), (points, "curve")):
        if path := _path(curve, across, up):
            out.append(f'<path class="{kind}" d="{path}"/>')
    out += [f'<circle class="point" cx="{across(t):.1f}" cy="{up(m):.1f}" r="2.5"/>' for t, m in points]
    said = "No margin is available yet for the chosen total"
    if shown:
        ((total, margin),) = shown
        x, y = (min(max(across(total), _LEFT), _RIGHT), up(margin))
        out.append(f'<path class="chosen-line" d="M{x:.1f} {y:.1f}V{_BOTTOM}"/>')
        out.append(f'<circle class="chosen" data-chosen="" cx="{x:.1f}" cy="{y:.1f}" r="8"/>')
        said = f"Chosen: ε = {total:g}, ±{_short(margin)} points"
    zone = f"Above {little:.2g}, ε protects little."
    curve_said = "; ".join(f"ε {t:.2g}: ±{_short(m)}" for t, m in points) or "none yet"
    label = f"Typical margin in percentage points against the total ε. {said}. {zone} Computed: {curve_said}."
    return Chart(_svg(_WIDTH, _HEIGHT, out, f' data-frontier="" data-left="{_LEFT}" data-right="{_RIGHT}"'), "", label)


def _drawable(curve: Sequence[_At]) -> list[_At]:
    """Select the points that logarithmic axes can show."""
    return [(total, margin) for total, margin in curve if 0 < margin < math.inf]


def dots_chart(before: int, after: int, what: str) -> Chart:
    """Plot 100 dots twice, with those filled before and after.

    ``what`` is a sentence that describes the chart.
    """
    side = _DOTS * _APART
    start, height = _WIDTH - 20 - side, side + 24
    out = [
        _text(20, 12, f"before: {before} of 100", "start"),
        _text(start, 12, f"at most after: {after} of 100", "start"),
    ]
    for origin, filled in ((20, before), (start, after)):
        for k in range(100):
            x, y = origin + _APART * (k % _DOTS) + 5, 24 + _APART * (k // _DOTS)
            kind = "dot filled" if k < filled else "dot"
            out.append(f'<circle class="{kind}" cx="{x}" cy="{y}" r="4.5"/>')
    return Chart(_svg(_WIDTH, height, out), what, f"{what} Before: {before} of 100; after: at most {after} of 100.")


def _svg(width: int, height: int, inner: Iterable[str], attributes: str = "") -> str:
    """Build the SVG without class and label on the root.

    :class:`optrr.core.display.parts.Chart` adds both.
    """
    # attributes come last, because the part inserts its own at the beginning
    return f'<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg"{attributes}>{"".join(inner)}</svg>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _axis_line(x: float, top: float, bottom: float, label: str) -> str:
    return f'<path class="grid" d="M{x:.1f} {top}V{bottom}"/>' + _text(x, bottom + 15, label, "middle")


def _path(points: Sequence[tuple[float, float]], across: Callable[[float], float], up: Callable[[float], float]) -> str:
    if len(points) < 2:
        return ""
    return "M" + "L".join(f"{across(t):.1f} {up(m):.1f}" for t, m in points)


def _linear(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    return lambda value: start + (end - start) * (value - low) / (high - low)


def _logarithmic(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    line = _linear(math.log(low), math.log(high), start, end)
    return lambda value: line(math.log(value))


def _doubles(low: float, high: float) -> list[float]:
    """List powers of 2 from low to high."""
    return [2.0**k for k in range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)]


def _nice(low: float, high: float) -> list[float]:
    """List a few round numbers (1, 2, 5 times powers of ten) from low to high."""
    powers = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
    numbers = [lead * 10.0**p for p in powers for lead in (1, 2, 5)]
    inside = [n for n in numbers if low <= n <= high]
    return inside if len(inside) <= 8 else [10.0**p for p in powers if low <= 10.0**p <= high]


def _short(value: float) -> str:
    """Write a positive number with two digits and no exponent."""
    return f"{float(f'{value:.2g}'):,.{max(1 - math.floor(math.log10(value)), 0)}f}"
