"""Charts of the survey's pages as text: HTML placed by inline styles, without scripts or pictures.

Positions are logical, so that a page from right to left mirrors them. Colours and sizes are classes of ``style.css``.
Each row of a chart states its numbers in words, which are the text alternative of its drawing.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from optrr.core.display import Words

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
