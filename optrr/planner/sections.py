"""Sections of the planning page: HTML fragments by their place in the page.

All numbers are computed here; the page's script only inserts the fragments. Numbers between two computed totals are
previews, marked by ≈. The Python lines that make the same plan are written here, too.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from optrr.allocation.strategies import Strategy
from optrr.core.display import (
    Chart,
    Commands,
    Part,
    Table,
    Text,
    amount,
    category_word,
    changed_of_hundred,
    crossed,
    example,
    one_line,
    page_environment,
    parts_html,
    promise,
    two_digits_up,
    warned,
)
from optrr.planner.figures import (
    PLUS_MINUS,
    Figures,
    digits,
    dots_chart,
    frontier_chart,
    interval_text,
)
from optrr.planner.meaning import Meaning, curator, surest
from optrr.planner.plan_file import meaning_of
from optrr.planner.preview import LADDER, POINTS, Expected, Point, Preview, typical_margin
from optrr.planner.question import Question

# Rows of a table.
_MOST_ROWS = 40


@dataclass(frozen=True)
class Shown:
    """A question, the results at its total (or None), and its curve."""

    question: Question
    preview: Preview | None
    curve: Sequence[Point]
    error: str | None = None

    @property
    def figures(self) -> Figures:
        """How numbers are written."""
        return Figures(self.preview is not None and self.preview.point.exact)

    def fragments(self) -> dict[str, str]:
        """Render HTML by its place in the page.

        The protocols are left out during a computation, so that the page keeps the list in which the user may just have
        chosen.
        """
        question, preview, figures = self.question, self.preview, self.figures
        places = {
            "spend": parts_html(self._spend(), "Privacy budget"),
            "frontier": _charts_html([self._frontier()]),
            "told": parts_html(self._told(), "What respondents are told") + _charts_html([self._dots()]),
            "python": parts_html([Commands(python_lines(question))], "Python"),
        }
        if preview is None:
            said = parts_html([Text(self.error or "These numbers are being computed.")], "")
            places |= dict.fromkeys(("see", "elsewhere"), said)
            return places | ({"ways": ways_html(question, None, figures)} if self.error else {})
        return places | {
            "ways": ways_html(question, preview, figures),
            "see": parts_html(table_parts(preview, figures), "Expected accuracy"),
            "elsewhere": parts_html(elsewhere_parts(preview, figures), "Compared with"),
        }

    def _spend(self) -> list[Part]:
        question, preview = self.question, self.preview
        total = question.total if preview is None else preview.point.epsilon
        drawn = Figures(exact=True).epsilon(total) if self.figures.exact else digits(total, 4)
        parts: list[Part] = [
            Text(f"The total privacy budget of each person is ε = {drawn} nats."),
            Text(f"{promise(total)} {example(total)}", quoted=True),
        ]
        if preview is None:
            bound = question.learn.error_bound(question.domain, question.total)
            margin = digits(typical_margin(question, bound), 4)
            known = "with this total, the typical margin of any mechanism is at least"
            parts.append(Text(f"Lower bound: {known} ± {margin} points."))
            return parts
        point, figures = preview.point, self.figures
        rows = [_beside(preview, point.way, f"chosen: {point.way.title}", figures)]
        for way in point.ways:
            if way.name == "kronecker" != point.way.name:
                rows.append(_beside(preview, way, "independent randomized response per attribute", figures))
        columns = ("protocol", "typical margin, points", "error / lower bound", "largest conditional ε")
        note = (
            f"The lower bound holds for any mechanism of this total: ± {digits(preview.bound_margin, 4)} points. "
            "The conditional ε limits the information of an answer for an attacker who knows all other answers of the "
            "same person."
        )
        parts.append(Table(columns, rows, note=note))
        if point.labels:
            each = [(a.name, figures.epsilon(a.epsilon), figures.epsilon(a.conditional_epsilon)) for a in point.labels]
            title = "Privacy and accuracy per answer"
            parts.append(Table(("answer", "accuracy ε", "conditional ε"), each, title).first(_MOST_ROWS))
        parts += [Text(one_line(sentence)) for sentence in point.sentences]
        return [*parts, *warned(point.warnings)]

    def _frontier(self) -> Chart:
        question, preview = self.question, self.preview
        seen = [Preview(question, each) for each in self.curve]
        curve = [(each.point.total, each.typical_margin) for each in seen]
        bound = [(each.point.total, each.bound_margin) for each in seen]
        chosen = None if preview is None else (question.total, preview.typical_margin)
        return frontier_chart(curve, bound, chosen, (LADDER[0], LADDER[-1]))

    @cached_property
    def _meaning(self) -> Meaning:
        if self.preview is not None:
            return meaning_of(self.preview)
        return Meaning(self.question.total, self.question.prior, None, self.question.releases)

    def _told(self) -> list[Part]:
        meaning, domain = self._meaning, self.question.domain
        parts: list[Part] = [Text(" ".join(meaning.sentences()), quoted=True)]
        if self.question.releases > 1:
            once = Meaning(meaning.total, meaning.prior).people[1]
            times = self.question.releases
            parts.append(
                Text(f"After the first of {times} answers, the chance is at most {once:,} in {meaning.out_of:,}.")
            )
        point = self.preview.point if self.preview else None
        if point is not None and point.labels:
            rows = [
                (a.name, category_word(domain[a.name].texts[0]), changed_of_hundred(domain[a.name].size, a.epsilon))
                for a in point.labels
            ]
            columns = ("answer", "category", "of 100 such answers, changed by chance")
            parts.append(Table(columns, rows).first(_MOST_ROWS))
        else:
            changed = changed_of_hundred(2, meaning.total)
            parts.append(
                Text(f"If one yes/no question used the whole ε, {changed} of 100 “yes” answers would be sent as “no”.")
            )
        return parts

    def _dots(self) -> Chart:
        question, meaning = self.question, self._meaning
        before = math.ceil(100 * question.prior - 1e-9)
        after = math.ceil(100 * surest(question.prior, meaning.total, question.releases) - 1e-9)
        return dots_chart(before, after, "Largest chance that someone can give to a statement about one person.")


def _charts_html(charts: Sequence[Chart]) -> str:
    return page_environment("optrr.planner").get_template("charts.html").render(charts=charts)


def _beside(preview: Preview, way: Strategy, title: str, figures: Figures) -> tuple[str | None, ...]:
    over = way.error / preview.point.error_bound
    return title, figures.points(preview.margin_of(way)), figures.number(over), figures.epsilon(way.conditional_epsilon)


def ways_html(question: Question, preview: Preview | None, figures: Figures) -> str:
    """Render every protocol as a choice, or only the best before results."""
    template = page_environment("optrr.planner").get_template("ways.html")
    if preview is None:
        return template.render(ways=[], best="", chosen=question.way)
    point = preview.point
    ways = [
        {
            "name": way.name,
            "title": way.title,
            "margin": figures.points(preview.margin_of(way)),
            "gives_up": "; ".join(way.gives_up) or "nothing",
            "refused": _refused(preview, way),
        }
        for way in point.ways
    ]
    best = next((way.title for way in point.ways if way.name == point.best), point.best)
    return template.render(ways=ways, best=best, chosen=question.way)


def _refused(preview: Preview, way: Strategy) -> str:
    if preview.question.keep is not None and not way.keeps_records:
        return "it keeps no records, but tables outside the list must be possible later"
    return "it cannot estimate every table" if not math.isfinite(way.error) else ""


def elsewhere_parts(preview: Preview, figures: Figures) -> list[Part]:
    """List the margins with a trusted curator and without privacy."""
    wanted = [
        (t.cells, t.standard_error, t.sampling_margin / POINTS)
        for t in preview.tables
        # if randomizing adds no computable error, a curator needs no noise
        if math.isfinite(t.margin) and t.sampling_margin < t.margin
    ]
    if not wanted:
        return [
            Text(
                "No comparison is possible: no table can be estimated, or randomization costs none of them "
                "any accuracy."
            )
        ]
    margin, bare = (figures.points(_typical([t[k] for t in wanted])) for k in (1, 2))
    central = figures.number(curator(wanted, preview.n))
    trusted = "a curator who holds all true records and adds Laplace noise to counts"
    rows = [
        ["this plan", figures.epsilon(preview.point.epsilon), margin, "only the respondent's own device"],
        ["central Laplace noise", central, margin, trusted],
        ["no protection", "none", bare, "everyone who sees the true answers"],
    ]
    note = "The last two rows are for comparison only."
    if len(preview.question.learn.tables) > len(wanted):
        note += f" They cover {amount(len(wanted), 'table')}."
    return [Table(("what", "ε, nats", "± points", "who must be trusted"), rows, note=note, strong=(0,))]


def _typical(standard_errors: Sequence[float]) -> float:
    """Compute the root mean square half-width of 95 % intervals in points."""
    return POINTS * math.sqrt(math.fsum(e * e for e in standard_errors) / len(standard_errors))


# Margin in percentage points beyond which any guess within 0..1 is as close.
_USELESS = POINTS * 0.5
# Margin for which a remedy is computed if none is required.
_USEFUL = 10.0
# Proportion in the example sentence, in percent.
_SHARE = 30
_COLUMNS = ("table", "cells", "± points", "sampling alone", "smallest difference", "smallest odds ratio")
_NOTE = (
    "± points: half of a 95 % confidence interval in percentage points, at most, as a root mean square over the cells of the "
    "table. A single cell can have a wider one."
)
_OF_PAIRS = (
    " Smallest difference: between two groups of equal size, in points, detected by a test at the 5 % level in 80 "
    "of 100 surveys; the odds ratio is that of the same table. For more than two categories, it is Cramér's V, "
    "times 100."
)


def table_parts(preview: Preview, figures: Figures) -> list[Part]:
    """List an example sentence, a remedy if needed, and a row for each table."""
    parts: list[Part] = []
    if useless := [table for table in preview.tables if table.margin > _USELESS]:
        parts.append(Text(_remedy(preview, useless), warning=True))
    if readable := [table for table in preview.tables if table.margin <= _USELESS]:
        worst = max(readable, key=lambda table: table.margin)
        interval = interval_text(_SHARE, worst.margin)
        only = "" if len(preview.tables) == 1 else f", in the least accurate table ({crossed(worst.attributes)})"
        who = "With one person" if preview.n == 1 else f"With {preview.n:,} people"
        parts.append(
            Text(f"{who}, an estimate of {_SHARE} % has the interval {'' if figures.exact else '≈ '}{interval}{only}.")
        )
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
    # only pairs have a smallest difference, and only 2 × 2 tables an odds ratio
    width = 6 if any(row[5] for row in rows) else 5 if any(row[4] for row in rows) else 4
    note = _NOTE + (_OF_PAIRS if width > 4 else "")
    if (listed := len(preview.question.learn.tables)) > len(rows):
        note += f" Only the first {len(rows)} of {listed:,} tables are predicted one by one."
    return [*parts, Table(_COLUMNS[:width], [row[:width] for row in rows], note=note).first(_MOST_ROWS)]


def _remedy(preview: Preview, useless: Sequence[Expected]) -> str:
    which = "any table" if len(useless) == len(preview.tables) else amount(len(useless), "table")
    if len(useless) == 1:
        which = crossed(useless[0].attributes)
    margin = preview.question.margin or _USEFUL
    needed = preview.people_for(margin)
    enough = "" if needed is None else f"; about {two_digits_up(needed):,} people would give ± {margin:g} points"
    return (
        f"With n = {preview.n:,}, nothing can be learned about {which}: any guess is as close. Ask more people, "
        f"raise the total, or merge categories{enough}."
    )


def _wish(preview: Preview, wished: float, figures: Figures) -> str:
    margins = [table.margin for table in preview.tables]
    if not (short := sum(margin > wished for margin in margins)):
        return f"Every table reaches the required ± {wished:g} points."
    worst = figures.points(max(margins))
    if len(margins) == 1:
        return f"± {wished:g} points are required; the table has {worst}."
    miss = "misses" if short == 1 else "miss"
    return f"± {wished:g} points are required; {short} of {len(margins)} tables {miss} this, the worst with {worst}."


def python_lines(question: Question) -> list[str]:
    """Format the plan in Python, with its saved specification."""
    arguments = ['"specification.toml"', repr(question.total), f"n={question.n}"]
    if question.learn.word != "marginals":
        wanted = question.learn.word or [list(table.attributes) for table in question.learn.tables]
        arguments.append(f"workload={json.dumps(wanted, ensure_ascii=False)}")
    arguments += ["records_only=True"] if question.keep else []
    arguments += [f"protocol={question.way!r}"] if question.way else []
    return ["import optrr", "", f"plan = optrr.plan({', '.join(arguments)})", "print(plan)"]
