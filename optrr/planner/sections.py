"""Sections of the planning page: HTML fragments by their place in the page.

All numbers are computed here and written by the macros of ``answer.html``; the page's script only inserts the
fragments. Interpolated numbers have ≈ and two digits, exact ones four.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from json import dumps
from typing import Any

from markupsafe import Markup

from optrr.allocation.strategies import Strategy
from optrr.core.display import (
    category_word,
    changed_text,
    crossed,
    epsilon_text,
    example,
    page_environment,
    promise,
    two_digits_up,
)
from optrr.planner.meaning import PROTECTS_LITTLE, RULE, Meaning, meaning_of_rule, surest
from optrr.planner.plan_file import meaning_of
from optrr.planner.preview import LADDER, Point, Preview, nearest, people_needed, total_for, typical_margin
from optrr.planner.question import MOST_MARGIN, Question
from optrr.planner.statement import least_protected
from optrr.survey.charts import frontier_chart
from optrr.survey.words import LANGUAGES, name_of, words_of

# Places of the page, and those that show exact numbers only.
PLACES = ("verdict", "unneeded", "chance", "drafts", "see", "told", "pairs", "frontier", "ways", "spend", "python")
_EXACT_ONLY = ("ways", "spend")
# Rows of a table, and protocols.
_MOST_ROWS, _MOST_WAYS = 40, 5
# Numbers of people of the table of pairs, as multiples of the chosen one.
_MULTIPLES = (0.25, 0.5, 1, 2, 4, 10)
# Margin of the example if none is required.
_USEFUL = 10.0
CANNOT_TELL = "cannot tell"


def points_text(value: float, exact: bool, count: int = 4) -> str:
    """Format ± percentage points; words if they say nothing about a proportion."""
    if value > MOST_MARGIN:
        return CANNOT_TELL
    return f"±\u00a0{digits(value, count)}" if exact else f"≈\u00a0±\u00a0{digits(value, 2)}"


def digits(value: float, count: int) -> str:
    """Format a number with ``count`` significant digits, without exponent between 10^-4 and 10^12."""
    rounded = float(f"{value:.{count}g}")
    if rounded != 0 and not 1e-4 <= abs(rounded) < 1e12:
        return f"{rounded:.{count}g}"
    decimals = 0 if rounded == 0 else max(count - 1 - math.floor(math.log10(abs(rounded))), 0)
    text = f"{rounded:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def interval_text(share: float, margin: float) -> str:
    """Format an interval around a proportion in percent, rounded outwards."""
    lower, upper = max(share - margin, 0.0), min(share + margin, 100.0)
    # an interval narrower than two points needs a decimal to be one
    scale = 1 if margin >= 1 else 10 if margin >= 0.1 else 100
    return f"{math.floor(lower * scale) / scale:g}–{math.ceil(upper * scale) / scale:g} %"


@dataclass(frozen=True)
class Shown:
    """A question, the results at its total (or None), and its curve."""

    question: Question
    preview: Preview | None
    curve: Sequence[Point]
    error: str | None = None

    def fragments(self) -> dict[str, str]:
        """Render HTML by its place; what is not exact leaves out protocols, so that the page keeps its list of them."""
        exact = self.preview is not None and self.preview.point.exact
        kept = [place for place in PLACES if exact or self.error or place not in _EXACT_ONLY]
        return {place: str(getattr(self._macros, place)()) for place in kept}

    def said(self, macro: str, value: object) -> str:
        """Say what a macro of the template says about a value, as plain text."""
        return " ".join(getattr(self._macros, macro)(value).unescape().split())

    @cached_property
    def _macros(self) -> Any:
        """Macros of the template with the values of this page."""
        exact = self.preview is not None and self.preview.point.exact
        values = {"shown": self, "question": self.question, "preview": self.preview, "exact": exact}
        values |= {"most": _MOST_ROWS, "rule": RULE, "most_margin": MOST_MARGIN, "languages": LANGUAGES}
        values |= {"points": partial(points_text, exact=exact), "infinite": math.inf}
        helpers = [category_word, changed_text, crossed, digits, dumps, epsilon_text, example, interval_text]
        helpers += [least_protected, meaning_of_rule, name_of, promise, surest, typical_margin, words_of]
        template = page_environment("optrr.planner").get_template("answer.html")
        return template.make_module(values | {each.__name__: each for each in helpers})

    @cached_property
    def meaning(self) -> Meaning:
        """Effect of the total on an attacker's belief."""
        if self.preview is not None:
            return meaning_of(self.preview)
        return Meaning(self.question.total, self.question.prior, None, self.question.releases)

    @property
    def frontier(self) -> Markup:
        """Chart of the margin against ε."""
        seen = [Preview(self.question, each) for each in self.curve]
        curve = [(each.point.total, each.typical_margin) for each in seen]
        bound = [(each.point.total, each.bound_margin) for each in seen]
        chosen = [] if self.preview is None else [(self.question.total, self.preview.typical_margin)]
        return frontier_chart(curve, bound, chosen, LADDER[::2], PROTECTS_LITTLE / self.question.releases)

    @property
    def pairs(self) -> list[tuple[int, float | None]]:
        """Numbers of people, and the least total with which each reaches the margins."""
        numbers = sorted({max(two_digits_up(self.question.n * times), 1) for times in _MULTIPLES})
        return [(people, total_for(self.curve, self.wished, people)) for people in numbers]

    @property
    def wished(self) -> Question:
        """The question with its margins, or with an example of one."""
        return self.question if self.question.has_margins else replace(self.question, margin=_USEFUL)

    @property
    def complete(self) -> bool:
        """Whether all points of the curve are computed."""
        return {point.total for point in self.curve} >= set(LADDER)

    @property
    def way_out(self) -> tuple[float, float, float] | None:
        """The largest total that protects better, the people it needs, and by how much margins could grow instead."""
        question = self.question.at(math.floor(100 * PROTECTS_LITTLE / self.question.releases) / 100)
        point = nearest(self.curve, question) if question.has_margins else None
        needed = math.inf if point is None else people_needed(question, point)
        return (question.total, two_digits_up(needed), math.sqrt(needed / question.n)) if needed < math.inf else None

    @property
    def ways(self) -> list[Strategy]:
        """The best protocols, and the chosen one."""
        found = self.preview.point.ways if self.preview else ()
        return [*found[:_MOST_WAYS], *(way for way in found[_MOST_WAYS:] if way.name == self.question.way)]
