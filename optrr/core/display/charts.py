"""Charts: figures without a display, the colours they share, and the SVG that pages hold.

matplotlib is imported when a figure is made: most commands draw nothing.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from optrr.core.display.text import cell
from optrr.core.errors import not_installed
from optrr_solvers.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Kept apart by lightness as well as by hue, so that they survive grey printing and colour blindness.
COLOURS = ("#1b4f9c", "#d1720d", "#3a8f5c", "#9a2f6f", "#777777", "#111111")
# Characters of a label: longer ones leave no room for the chart.
_LONGEST_LABEL = 40
# Inches of a chart that a telephone shows whole and still legible.
PAGE_WIDTH = 4.6
# Characters of all labels of an axis that have room beside each other at that width, and of a line of a label beside rows.
_LEVEL_CHARACTERS, _LINE_CHARACTERS = 42, 22
# Decades of a logarithmic axis beside whose powers of ten there is no room for more numbers.
_MANY_DECADES = 2.5
# Colours of a shaded table; with fifty or more, its scale would be a picture inside the chart.
_SHADES = 32
# Inches of a line of text in a cell, and the luminance below which that text is white.
_CELL_LINE, _DARK = 0.19, 0.5


def new_figure(width: float = 7.2, height: float = 4.0) -> Figure:
    """Create an empty figure, sizes in inches.

    Made without pyplot: it needs no display and leaves no global state.
    """
    figure = figure_class()(figsize=(width, height), layout="constrained")
    # without pyplot notebooks do not know how to show a figure, so the figure defines it
    figure._repr_svg_ = partial(figure_svg, figure)  # type: ignore[attr-defined]
    return figure


def figure_class() -> type[Figure]:
    """Import the class of figures; raise InvalidInput if it is not installed."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 (0.3 s to import, and only figures need it)
    except ImportError as error:
        raise not_installed(error, "figures need", "reports") from error
    return Figure


def label_text(text: str, most: int = _LONGEST_LABEL) -> str:
    """Format external text for a chart.

    Escaped, cut after ``most`` characters, and without formulas.
    """
    return cell(" ".join(text.split()), most).replace("$", r"\$")


def figure_svg(figure: Figure) -> str:
    """Convert the figure to an ``<svg>`` element.

    The same bytes for the same figure; no declaration, no metadata, its own ids.
    """
    import matplotlib as mpl  # noqa: PLC0415 (as above)

    sink = io.StringIO()
    # text stays text: it can be searched and copied, and the file is a fifth of the size
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "optrr"}):
        figure.savefig(sink, format="svg", metadata={"Date": None})
    drawn = sink.getvalue()
    inner = re.sub(r"<metadata>.*?</metadata>", "", drawn[drawn.index("<svg") :], flags=re.DOTALL)
    prefix = "c" + hashlib.sha256(inner.encode()).hexdigest()[:8] + "-"
    # two charts on a page must not share ids
    inner = re.sub(r'\bid="', f'id="{prefix}', inner)
    return re.sub(r'(url\(#|href="#)', rf"\1{prefix}", inner).strip()


def legend_below(figure: Figure, columns: int = 2) -> None:
    """Place the legend of all axes below the chart."""
    figure.legend(loc="outside lower center", ncols=columns, frameon=False)


def plain_logarithms(axis: Any) -> None:
    """Label 1, 2 and 5 of every decade of a logarithmic axis.

    Fewer labels if there are many decades, more if there are few.
    """
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter  # noqa: PLC0415 (as above)

    low, high = axis.get_data_interval()
    decades = np.log10(high / low) if 0 < low < high else 0.0
    subs = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if decades < 1 else (1.0, 2.0, 5.0) if decades < _MANY_DECADES else (1.0,)
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def _in_lines(text: str) -> str:
    """Wrap a label so that the chart has enough room."""
    return "\n".join(wrap(text, _LINE_CHARACTERS))


def label_lines(text: str) -> str:
    """Format external text as a label of a row.

    As :func:`label_text`, in up to three lines.
    """
    return _in_lines(label_text(text, 3 * _LINE_CHARACTERS))


def interval_figure(
    labels: Sequence[str],
    middle: ArrayLike,
    ends: tuple[ArrayLike, ArrayLike],
    said: str,
    nothing: float | None = None,
) -> Figure:
    """Plot a row for each label, from the top.

    A dot at ``middle`` and a line between the ``ends``, shape (R,) each.

    ``said`` is the text below the axis, and ``nothing`` the position of a reference line. Without ends, NaN, there is
    no line; infinite ones are drawn up to the largest finite number.
    """
    drawn = np.array([ends[0], middle, ends[1]], dtype=np.float64)
    finite = drawn[np.isfinite(drawn)]
    low, centre, high = np.clip(drawn, finite.min(initial=0.0), finite.max(initial=0.0))
    places = np.arange(len(labels))
    texts = [label_lines(each) for each in labels]
    tall = max((text.count("\n") for text in texts), default=0)
    # a legible row, and the axis below
    figure = new_figure(PAGE_WIDTH, 0.9 + (0.26 + 0.14 * tall) * len(labels))
    axes = figure.subplots()
    axes.hlines(places, low, high, color=COLOURS[0])
    axes.plot(centre, places, "o", color=COLOURS[0], markersize=4)
    axes.set_yticks(places, texts)
    # the first row on top, and half a row above and below, so that no point lies on the frame
    axes.set_ylim(places.size - 0.5, -0.5)
    axes.grid(visible=True, axis="x", color="#dddddd")
    axes.set_axisbelow(True)
    axes.set_xlabel(said)
    if nothing is not None:
        axes.axvline(nothing, color=COLOURS[4], linewidth=0.8)
    return figure


@dataclass(frozen=True, eq=False)
class Shading:
    """Content of the cells of a shaded table.

    Parameters
    ----------
    values
        shape (rows, columns), NaN for cells that stay empty.
    texts
        the texts of the cells, same shape.
    said
        the meaning of the colours, below the scale.
    limits
        values of the first and the last colour.
    colours
        a colour map of matplotlib; "RdBu" if the middle means no effect and the ends are opposites.
    """

    values: FloatArray
    texts: np.ndarray[Any, np.dtype[np.str_]]
    said: str
    limits: tuple[float, float]
    colours: str = "Blues"


def heat_figure(names: tuple[str, str], labels: tuple[Sequence[str], Sequence[str]], shading: Shading) -> Figure:
    """Plot a table as shaded cells.

    ``names`` are those of rows and columns, ``labels`` their categories'.
    """
    from matplotlib import colormaps  # noqa: PLC0415 (as above)

    rows, columns = shading.values.shape
    height = _CELL_LINE * (1 + max((text.count("\n") for text in shading.texts.flat), default=0))
    figure = new_figure(PAGE_WIDTH, 1.3 + max(height, 0.3) * rows)
    axes = figure.subplots()
    low, high = shading.limits
    # cells as paths, because a page shows no picture inside a picture
    shades = colormaps[shading.colours].resampled(_SHADES)
    drawn = axes.pcolormesh(
        np.ma.masked_invalid(shading.values), cmap=shades, vmin=low, vmax=high, edgecolors="white", linewidth=1
    )
    axes.set_ylim(rows, 0)
    slanted = max(len(label_text(x)) for x in labels[1]) * columns > _LEVEL_CHARACTERS
    turn: dict[str, Any] = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if slanted else {}
    axes.set_xticks(np.arange(columns) + 0.5, [label_text(x) for x in labels[1]], **turn)
    axes.set_yticks(np.arange(rows) + 0.5, [_in_lines(label_text(x)) for x in labels[0]])
    axes.set_xlabel(label_text(names[1]))
    axes.set_ylabel(label_text(names[0]))
    axes.tick_params(length=0)
    for (i, j), text in np.ndenumerate(shading.texts):
        red, green, blue, _ = drawn.cmap(drawn.norm(shading.values[i, j]))
        dark = 0.2126 * red + 0.7152 * green + 0.0722 * blue < _DARK
        axes.text(j + 0.5, i + 0.5, text, ha="center", va="center", fontsize=8.5, color="white" if dark else "black")
    figure.colorbar(drawn, label=shading.said, orientation="horizontal", shrink=0.6, aspect=30, pad=0.02)
    return figure
