"""Charts: figures without a display, the colours they share, and the SVG that pages hold.

matplotlib is imported when a figure is made: most commands draw nothing.
"""

from __future__ import annotations

import hashlib
import io
import re
from typing import TYPE_CHECKING

from optrr.errors import InvalidInput
from optrr.printable import cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "figure_svg", "label_text", "new_figure"]

# Kept apart by lightness as well as by hue, so that they survive grey printing and colour blindness.
COLOURS = ("#1b4f9c", "#d1720d", "#3a8f5c", "#9a2f6f", "#777777", "#111111")
# Characters of a label: longer ones leave no room for the chart.
_LONGEST_LABEL = 40


def new_figure(width: float = 7.2, height: float = 4.0) -> Figure:
    """An empty figure, sizes in inches; made without pyplot, so it needs no display and leaves no global state."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 (0.3 s to import, and only reports need it)
    except ImportError as error:
        raise InvalidInput("figures need matplotlib; install it with: pip install 'optrr[reports]'") from error
    return Figure(figsize=(width, height), layout="constrained")


def label_text(text: str) -> str:
    """Text from outside as a chart may show it: escaped, cut where it is long, and no formula."""
    return cell(" ".join(text.split()), _LONGEST_LABEL).replace("$", r"\$")


def figure_svg(figure: Figure) -> str:
    """The figure as an ``<svg>`` element: the same bytes for the same figure, no declaration, no metadata, own ids."""
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
