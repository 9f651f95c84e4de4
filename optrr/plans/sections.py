"""What a plan's page says of a question at a total: HTML fragments by the place where they stand.

Everything that is a number comes from here; the page's script only puts the fragments where they belong. Numbers between two
totals that were computed are previews, and carry ≈.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from optrr.plans.alternatives import elsewhere_parts, ways_html
from optrr.plans.commands import python_lines, shell_lines
from optrr.plans.drawing import MarginCurve, dots_chart, frontier_chart
from optrr.plans.figures import Figures, digits
from optrr.plans.meaning import Meaning, surest
from optrr.plans.preview import HALF_WIDTH, LADDER, Point, Preview, Way
from optrr.plans.question import Question
from optrr.plans.seeing import interval_charts, table_parts
from optrr.show.parts import Chart, Commands, Part, Table, Text, page_environment, parts_html, warned
from optrr.show.text import category_word, changed_of_hundred, example, one_line, promise

# Rows of a table that a page shows.
_MOST_ROWS = 40


@dataclass(frozen=True)
class Shown:
    """A question, what is known at its total (None where nothing is yet), and the points of its curve."""

    question: Question
    preview: Preview | None
    curve: Sequence[Point]
    all_charts: bool = False
    error: str | None = None

    @cached_property
    def figures(self) -> Figures:
        """How numbers are written."""
        return Figures(self.preview is not None and self.preview.point.exact)

    def fragments(self) -> dict[str, str]:
        """HTML by the place where it stands.

        The ways of asking are left out while they are computed, so that those that are there, one of which was perhaps just
        chosen, stay.
        """
        question, preview, figures = self.question, self.preview, self.figures
        places = {
            "spend": parts_html(self._spend(), "What you spend"),
            "frontier": _charts_html([self._frontier()]),
            "told": parts_html(self._told(), "What a person is told") + _charts_html([self._dots()]),
            "shell": parts_html([Commands(shell_lines(question))], "Commands"),
            "python": parts_html([Commands(python_lines(question))], "Python"),
        }
        if preview is None:
            said = parts_html([Text(self.error or "These numbers are being computed.")], "")
            places |= dict.fromkeys(("see", "charts", "elsewhere"), said)
            return places | ({"ways": ways_html(question, None, figures)} if self.error else {})
        return places | {
            "ways": ways_html(question, preview, figures),
            "see": parts_html(table_parts(preview, figures), "What you will see"),
            "charts": _charts_html(interval_charts(preview, self.all_charts)),
            "elsewhere": parts_html(elsewhere_parts(preview, figures), "Compared with"),
        }

    def _spend(self) -> list[Part]:
        question, preview = self.question, self.preview
        total = question.total if preview is None else preview.point.epsilon
        drawn = Figures(exact=True).epsilon(total) if self.figures.exact else digits(total, 4)
        parts: list[Part] = [
            Text(f"In all, each person spends ε = {drawn} nats."),
            Text(f"{promise(total)} {example(total)}", quoted=True),
        ]
        if preview is None:
            bound = question.learn.error_bound(question.domain, question.total)
            margin = _bound_margin(question, bound)
            known = "no mechanism of this total, of whatever form, has a typical margin below"
            parts.append(Text(f"Known at once: {known} ± {margin} points."))
            return parts
        point, figures = preview.point, self.figures
        rows = [_beside(preview, point.way, f"chosen: {point.way.title}", figures)]
        for way in point.ways:
            if way.name == "kronecker" != point.way.name:
                rows.append(_beside(preview, way, "Kronecker: every answer for itself", figures))
        columns = ("way of asking", "typical margin, points", "error over the bound", "largest conditional ε")
        note = (
            "The bound is what no mechanism of this total, of whatever form, can be below: ± "
            f"{digits(preview.bound_margin, 4)} points. The conditional ε is what an answer gives away to "
            "somebody who knows all other answers of the same person."
        )
        parts.append(Table(columns, rows, note=note))
        if point.labels:
            each = [(a.name, figures.epsilon(a.epsilon), figures.epsilon(a.conditional_epsilon)) for a in point.labels]
            title = "Of the total, for each answer"
            parts.append(Table(("answer", "accuracy ε", "conditional ε"), each, title).first(_MOST_ROWS))
        parts += [Text(one_line(sentence)) for sentence in point.sentences]
        return [*parts, *warned(point.warnings)]

    def _frontier(self) -> Chart:
        question, preview = self.question, self.preview
        seen = [Preview(question, each) for each in self.curve]
        totals = [each.point.total for each in seen]
        curve = MarginCurve(totals, [each.typical_margin for each in seen])
        bound = MarginCurve(totals, [each.bound_margin for each in seen])
        chosen = None if preview is None else (question.total, preview.typical_margin)
        return frontier_chart(curve, bound, chosen, (LADDER[0], LADDER[-1]))

    @cached_property
    def _meaning(self) -> Meaning:
        question, point = self.question, self.preview.point if self.preview else None
        total = question.total if point is None else point.epsilon
        conditional = max(a.conditional_epsilon for a in point.labels) if point is not None and point.labels else None
        return Meaning(total, question.prior, conditional, question.releases)

    def _told(self) -> list[Part]:
        meaning, domain = self._meaning, self.question.domain
        parts: list[Part] = [Text(" ".join(meaning.sentences()), quoted=True)]
        if self.question.releases > 1:
            once = Meaning(meaning.total, meaning.prior).people[1]
            times = self.question.releases
            parts.append(Text(f"After the first of {times} times it is at most {once:,} of {meaning.out_of:,}."))
        point = self.preview.point if self.preview else None
        if point is not None and point.labels:
            rows = [
                (a.name, category_word(domain[a.name].texts[0]), changed_of_hundred(domain[a.name].size, a.epsilon))
                for a in point.labels
            ]
            columns = ("answer", "of 100 people who would say", "so many reports say something else")
            parts.append(Table(columns, rows).first(_MOST_ROWS))
        else:
            changed = changed_of_hundred(2, meaning.total)
            parts.append(
                Text(
                    f"Asked one yes/no question with the whole ε, of 100 people whose answer is “yes” {changed} say “no”."
                )
            )
        return parts

    def _dots(self) -> Chart:
        question, meaning = self.question, self._meaning
        before = math.ceil(100 * question.prior - 1e-9)
        after = math.ceil(100 * surest(question.prior, meaning.total, question.releases) - 1e-9)
        return dots_chart(before, after, "How sure somebody can become of something about one person.")


def _charts_html(charts: Sequence[Chart]) -> str:
    return page_environment("optrr.plans").get_template("charts.html").render(charts=charts)


def _bound_margin(question: Question, error: float) -> str:
    typical = question.learn.typical_standard_error(question.domain, error, question.n)
    return digits(100 * HALF_WIDTH * (typical or 0.0), 4)


def _beside(preview: Preview, way: Way, title: str, figures: Figures) -> tuple[str | None, ...]:
    over = way.error / preview.point.error_bound
    return title, figures.points(preview.margin_of(way)), figures.number(over), figures.epsilon(way.conditional_epsilon)
