"""Charts of the survey's pages as text: HTML placed by inline styles, without scripts or pictures.

Positions are logical, so that a page from right to left mirrors them. Colours and sizes are classes of ``style.css``.
Each row of a chart states its numbers in words, which are the text alternative of its drawing.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from optrr.core.display import Words, page_environment

# Ticks of an axis of percentages.
_TICKS = (0, 25, 50, 75, 100)


@dataclass(frozen=True)
class Interval:
    """A row of an interval chart in percent; ``share`` and ``between`` state the estimate and its interval in words."""

    label: str
    share: str
    between: str
    estimate: float
    lower: float
    upper: float


def interval_chart(rows: Iterable[Interval], words: Words) -> Markup:
    """Draw a dot and its interval for each row on one axis from 0 to 100 %."""
    drawn = Markup("").join(_ROW.format(row, *_placed(row)) for row in rows)
    ticks = Markup("").join(Markup("<span>{}</span>").format(words("{share} %", share=tick)) for tick in _TICKS)
    return Markup('<ul class="intervals">{}</ul><div class="axis" aria-hidden="true">{}</div>').format(drawn, ticks)


_ROW = Markup(
    '<li><span class="label">{0.label}</span> <span class="numbers">{0.share} ({0.between})</span>'
    '<span class="track" aria-hidden="true"><span class="range" style="inset-inline-start:{1}%;inline-size:{2}%"></span>'
    '<span class="point" style="inset-inline-start:{3}%"></span></span></li>\n'
)


def _placed(row: Interval) -> tuple[str, ...]:
    """Return the start and length of the interval and the place of the dot."""
    return tuple(f"{x:.2f}" for x in (row.lower, row.upper - row.lower, row.estimate))


# A total ε in nats with its margin in percentage points, and the edges of the frontier's axes.
At = tuple[float, float]
_FRAME = {"left": 44, "right": 330, "top": 12, "bottom": 192}


def frontier_chart(
    points: list[At], bound: list[At], chosen: list[At], ticks: Sequence[float], little: float
) -> Markup:
    """Plot ± percentage points, and their lower bound, against ε from the first to the last tick, on logarithmic axes.

    Margins without a logarithm are left out. From the total ``little`` on, ε protects little.
    """
    curves = [[(t, m) for t, m in curve if 0 < m < math.inf] for curve in (points, bound, chosen)]
    found = [m for curve in curves for _, m in curve] or [1.0, 10.0]
    # a factor of ten at least, so that the first points do not look like all of the curve
    middle = math.sqrt(min(found) * max(found) / 10)
    low, high = min(min(found) / 1.15, middle), max(max(found) * 1.15, 10 * middle)
    powers = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
    nice = [m for p in powers for m in (10.0**p, 2 * 10.0**p, 5 * 10.0**p) if low <= m <= high]
    x, y = _logarithmic(ticks[0], ticks[-1], 44, 330), _logarithmic(low, high, 192, 12)
    template = page_environment("optrr.survey").get_template("frontier.html")
    drawn = template.render(
        _FRAME,
        **dict(zip(("points", "bound", "chosen"), curves, strict=True)),
        **{"x": x, "y": y, "ticks": ticks, "margins": nice[:: len(nice) // 8 + 1], "little": little},
        short=lambda m: f"{float(f'{m:.2g}'):,.10g}",
    )
    return Markup(drawn)


def _logarithmic(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    return lambda value: start + (end - start) * math.log(value / low) / math.log(high / low)
