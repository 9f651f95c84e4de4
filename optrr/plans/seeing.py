"""What a plan lets one see: the margin of every wanted table with n people, and charts of tables as they may turn out."""

from __future__ import annotations

import math
from collections.abc import Sequence

from optrr.plans.drawing import MOST_BARS, Bar, intervals_chart, plausible_shares
from optrr.plans.figures import PLUS_MINUS, Figures, digits, interval_text
from optrr.plans.preview import Expected, Preview
from optrr.plans.question import Question
from optrr.show.parts import Chart, Part, Table, Text
from optrr.show.text import amount, category_word, crossed, two_digits_up

# Charts of tables that are drawn before anybody asks for more; rows of the table of tables.
MOST_CHARTS, _MOST_ROWS = 12, 40
# A standard error beyond which any guess within 0..1 is closer, in percentage points as half of an interval.
_USELESS = 100 * 1.959964 * 0.5
# The margin that a remedy aims at, where nothing can be learned and nobody said which is wanted.
_USEFUL = 10.0
# The share that the sentence is about, in percent.
_SHARE = 30
_COLUMNS = ("table", "cells", "± points", "sampling alone", "smallest difference", "smallest odds ratio")
_NOTE = "± points: half of a 95 % interval of a share, in percentage points, at most."
_OF_PAIRS = (
    " The smallest difference is the one between two groups of equal size, in points, that a test at 5 % finds in 80 of 100 "
    "surveys, and the odds ratio that of the same table; for more than two categories Cramér's V, times 100."
)


def table_parts(preview: Preview, figures: Figures) -> list[Part]:
    """A sentence that can be pictured, a remedy where nothing can be learned, and a row for each table."""
    parts: list[Part] = []
    if useless := [table for table in preview.tables if table.margin > _USELESS]:
        parts.append(Text(_remedy(preview, useless), warning=True))
    if readable := [table for table in preview.tables if table.margin <= _USELESS]:
        worst = max(readable, key=lambda table: table.margin)
        interval = interval_text(_SHARE, worst.margin)
        only = "" if len(preview.tables) == 1 else f", in the least certain table ({crossed(worst.attributes)})"
        who = "With one person" if preview.n == 1 else f"With {preview.n:,} people"
        parts.append(Text(f"{who}, {_SHARE} % looks like {'' if figures.exact else '≈ '}{interval}{only}."))
    if preview.question.margin is not None:
        parts.append(Text(_wish(preview, preview.question.margin, figures)))
    rows = [
        (
            crossed(t.attributes),
            t.cells,
            figures.points(t.margin),
            f"{PLUS_MINUS}{digits(t.sampling_margin, 4)}",
            figures.number(t.difference),
            figures.number(t.odds_ratio),
        )
        for t in preview.tables
    ]
    # only pairs have a smallest difference, and only those of two categories an odds ratio
    width = 6 if any(row[5] for row in rows) else 5 if any(row[4] for row in rows) else 4
    note = _NOTE + (_OF_PAIRS if width > 4 else "")
    if (listed := len(preview.question.learn.tables)) > len(rows):
        note += f" Of {listed:,} tables, the first {len(rows)} are predicted one by one."
    return [*parts, Table(_COLUMNS[:width], [row[:width] for row in rows], note=note).first(_MOST_ROWS)]


def interval_charts(preview: Preview, every: bool) -> list[Chart]:
    """A chart of each table with shares that are made up, the first ones unless every one is asked for."""
    shown = preview.tables if every else preview.tables[:MOST_CHARTS]
    return [_intervals(preview.question, table) for table in shown if math.isfinite(table.margin)]


def _remedy(preview: Preview, useless: Sequence[Expected]) -> str:
    which = "any table" if len(useless) == len(preview.tables) else amount(len(useless), "table")
    if len(useless) == 1:
        which = crossed(useless[0].attributes)
    margin = preview.question.margin or _USEFUL
    needed = preview.people_for(margin)
    enough = "" if needed is None else f"; about {two_digits_up(needed):,} people would give ± {margin:g} points"
    return (
        f"With n = {preview.n:,} nothing can be learned of {which}: any guess is as close. Ask more people, raise the "
        f"total, or merge categories{enough}."
    )


def _wish(preview: Preview, wished: float, figures: Figures) -> str:
    margins = [table.margin for table in preview.tables]
    if not (short := sum(margin > wished for margin in margins)):
        return f"Every table is known to ± {wished:g} points or better, as you wished."
    worst = figures.points(max(margins))
    if len(margins) == 1:
        return f"You wished ± {wished:g} points; the table has {worst}."
    return (
        f"You wished ± {wished:g} points; {short} of {len(margins)} tables {_miss(short)} it, the worst with {worst}."
    )


def _miss(count: int) -> str:
    return "misses" if count == 1 else "miss"


def _intervals(question: Question, table: Expected) -> Chart:
    """The table's first cells with made-up shares."""
    attributes = [question.domain[name] for name in table.attributes]
    words = [""]
    for attribute in attributes:
        words = [
            f"{before} · {category_word(text)}" if before else category_word(text)
            for before in words[:MOST_BARS]
            for text in attribute.texts[:MOST_BARS]
        ]
    shares = plausible_shares([attribute.size for attribute in attributes], MOST_BARS)
    bars = [
        Bar(word, 100 * share, max(100 * share - table.margin, 0), min(100 * share + table.margin, 100))
        for word, share in zip(words[:MOST_BARS], shares, strict=True)
    ]
    more = table.cells - len(bars)
    title = crossed(table.attributes) + (f" (the first {len(bars)} of {table.cells:,} cells)" if more else "")
    return intervals_chart(title, bars, more)
