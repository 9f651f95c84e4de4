"""Sections of the planning page: HTML fragments by their place in the page.

All numbers are computed here and written by the macros of ``answer.html``; the page's script only inserts the
fragments. Interpolated numbers have ≈ and two digits, exact ones four. The Python lines that make the same plan are
written here, too.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from optrr.core.display import (
    Chart,
    category_word,
    changed_of_hundred,
    changed_text,
    crossed,
    epsilon_text,
    example,
    page_environment,
    promise,
    sum_of_epsilons,
    two_digits_up,
)
from optrr.planner.figures import dots_chart, frontier_chart
from optrr.planner.meaning import PROTECTS_LITTLE, RULE, Meaning, curator, protects_little
from optrr.planner.plan_file import meaning_of
from optrr.planner.preview import LADDER, POINTS, Expected, Point, Preview, people_needed, total_for, typical_margin
from optrr.planner.question import MOST_MARGIN, Question
from optrr.survey.words import LANGUAGES, name_of, words_of

PLACES = ("verdict", "unneeded", "drafts", "see", "told", "pairs", "frontier", "ways", "spend", "python")
# Digits of exact and of interpolated numbers, and decimals of an ε.
_EXACT, _INTERPOLATED, _DECIMALS = 4, 2, 4
# Rows of a table, and protocols.
_MOST_ROWS, _MOST_WAYS = 40, 5
# Numbers of people of the table of pairs, as multiples of the chosen one.
_MULTIPLES = (0.25, 0.5, 1, 2, 4, 10)
# Proportion in the example sentence, in percent, and margin for which a remedy is computed if none is required.
_SHARE, _USEFUL = 30, 10.0
CANNOT_TELL = "cannot tell"
# Belief of the rule by which an ε protects little.
_BELIEF = 0.1


@dataclass(frozen=True)
class Figures:
    """How the numbers of one preview are written."""

    exact: bool

    def number(self, value: float | None) -> str:
        """Format a nonnegative number; nothing if missing, words if infinite."""
        if value is None or math.isinf(value):
            return "" if value is None else "without bound"
        return digits(value, _EXACT) if self.exact else f"≈\u00a0{digits(value, _INTERPOLATED)}"

    def points(self, value: float) -> str:
        """Format ± percentage points; words if they say nothing about a proportion."""
        if value > MOST_MARGIN:
            return CANNOT_TELL
        return f"±\u00a0{digits(value, _EXACT)}" if self.exact else f"≈\u00a0±\u00a0{digits(value, _INTERPOLATED)}"

    def epsilon(self, value: float) -> str:
        """Format ε in nats, rounded up if exact, so that it is never understated."""
        return epsilon_text(value, _DECIMALS) if self.exact else self.number(value)


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
    low, high = math.floor(lower * scale) / scale, math.ceil(upper * scale) / scale
    return f"{low:g}–{high:g} %"


def people_text(number: int) -> str:
    """Format a number of people."""
    return "one person" if number == 1 else f"{number:,} people"


@dataclass(frozen=True)
class Shown:
    """A question, the results at its total (or None), and its curve."""

    question: Question
    preview: Preview | None
    curve: Sequence[Point]
    error: str | None = None

    def fragments(self) -> dict[str, str]:
        """Render HTML by its place in the page.

        Protocols and budgets are left out until they are exact, so that the page keeps the list in which the user may
        just have chosen.
        """
        template = page_environment("optrr.planner").get_template("answer.html")
        figures = Figures(self.preview is not None and self.preview.point.exact)
        names = {"shown": self, "question": self.question, "preview": self.preview, "f": figures, "most": _MOST_ROWS}
        helpers = (crossed, digits, people_text, epsilon_text, python_lines, comparison)
        module = template.make_module(names | {each.__name__: each for each in helpers})
        kept = [place for place in PLACES if figures.exact or self.error or place not in ("ways", "spend")]
        return {place: str(getattr(module, place)()) for place in kept}

    @cached_property
    def total(self) -> float:
        """ε of one report in nats: that of the protocol, once it is known."""
        return self.question.total if self.preview is None else self.preview.point.epsilon

    @cached_property
    def meaning(self) -> Meaning:
        """Effect of the total on an attacker's belief."""
        if self.preview is not None:
            return meaning_of(self.preview)
        return Meaning(self.question.total, self.question.prior, None, self.question.releases)

    @property
    def told(self) -> list[str]:
        """Sentences for respondents, about all releases together first."""
        spent = sum_of_epsilons([self.total] * self.question.releases)
        return [promise(spent), example(spent), *self.meaning.sentences()]

    @property
    def changes(self) -> list[str]:
        """How many of 100 answers chance replaces, for the first answer of each question."""
        labels = self.preview.point.labels if self.preview else ()
        if not labels:
            changed = changed_text("yes", changed_of_hundred(2, self.total), "no")
            return [f"If one question with the answers “yes” and “no” used the whole ε: {changed}"]
        said = []
        for label in labels[:_MOST_ROWS]:
            size = self.question.domain[label.name].size
            first, second = map(category_word, self.question.domain[label.name].texts[:2])
            changed = changed_text(first, changed_of_hundred(size, label.epsilon), second if size == 2 else None)
            said.append(f"{label.name}: {changed}")
        return said

    @property
    def notes(self) -> list[str]:
        """What is missing in the texts for respondents."""
        wording, notes = self.question.specification.wording, []
        if missing := [name for name in self.question.domain.names if name not in wording.questions]:
            notes.append(f"Without a wording, respondents read the short name: {', '.join(missing[:_MOST_WAYS])}.")
        for language in wording.languages:
            if language.split("-")[0] not in LANGUAGES:
                notes.append(f"The survey's page has no texts of its own in {name_of(language)}: they are in English.")
            elif not words_of(language).reviewed:
                notes.append(
                    f"The page's own texts in {name_of(language)} are drafts by a machine, not reviewed: let someone who "
                    "speaks the language read them."
                )
        return notes

    @property
    def dots(self) -> Chart:
        """Belief before and after as dots."""
        before, after = (math.ceil(100 * share - 1e-9) for share in (self.question.prior, self.meaning.bounds[1]))
        return dots_chart(before, after, "How sure someone can be that a statement about one person is true.")

    @property
    def frontier(self) -> Chart:
        """Margin against ε."""
        seen = [Preview(self.question, each) for each in self.curve]
        curve = [(each.point.total, each.typical_margin) for each in seen]
        bound = [(each.point.total, each.bound_margin) for each in seen]
        chosen = None if self.preview is None else (self.question.total, self.preview.typical_margin)
        little = PROTECTS_LITTLE / self.question.releases
        return frontier_chart(curve, bound, chosen, (LADDER[0], LADDER[-1]), little)

    @property
    def pairs(self) -> list[tuple[int, float | None, int, bool]]:
        """Numbers of people, the total with which they reach the margins, the surest belief, and if it protects little."""
        rows, releases = [], self.question.releases
        for people in sorted({max(two_digits_up(self.question.n * times), 1) for times in _MULTIPLES}):
            total = total_for(self.curve, self.question, people)
            after = 100 if total is None else Meaning(total, _BELIEF, None, releases).people[1]
            rows.append((people, total, after, total is not None and protects_little(total, releases)))
        return rows

    @property
    def surest(self) -> int:
        """The surest belief of 100, from that of the rule."""
        return Meaning(self.total, _BELIEF, None, self.question.releases).people[1]

    @property
    def rule(self) -> str:
        """Rule by which an ε protects little."""
        return RULE

    @property
    def protects_little(self) -> bool:
        """Whether the total protects little."""
        return protects_little(self.total, self.question.releases)

    @property
    def bound(self) -> float:
        """Lower bound of the typical margin at the total."""
        return typical_margin(self.question, self.question.learn.error_bound(self.question.domain, self.question.total))

    @property
    def interval(self) -> tuple[str, Expected] | None:
        """The interval of an example estimate in the least accurate table that tells anything."""
        tables = self.preview.tables if self.preview else ()
        worst = max((t for t in tables if t.margin <= MOST_MARGIN), key=lambda t: t.margin, default=None)
        return None if worst is None else (interval_text(_SHARE, worst.margin), worst)

    @property
    def remedy(self) -> str | None:
        """What to do about tables of which nothing can be learned; None without such tables."""
        if self.preview is None or not any(table.margin > MOST_MARGIN for table in self.preview.tables):
            return None
        question = self.question
        wished = question if question.has_margins else Question(question.specification, question.learn, margin=_USEFUL)
        needed = people_needed(wished, self.preview.point)
        enough = f"; about {two_digits_up(needed):,} people would give {wished.margins_text}"
        return f"Ask more people, raise ε, or merge answers{enough if math.isfinite(needed) else ''}."

    @property
    def ways(self) -> list[dict[str, Any]]:
        """The best protocols, and the chosen one."""
        if self.preview is None:
            return []
        chosen = [way for way in self.preview.point.ways[_MOST_WAYS:] if way.name == self.question.way]
        return [
            {
                "way": way,
                "margin": self.preview.margin_of(way),
                "refused": "it keeps no records, but tables outside the list must be possible later"
                if self.question.keep is not None and not way.keeps_records
                else ""
                if math.isfinite(way.error)
                else "it cannot estimate every table",
            }
            for way in (*self.preview.point.ways[:_MOST_WAYS], *chosen)
        ]

    @property
    def best(self) -> str:
        """Title of the best protocol."""
        point = None if self.preview is None else self.preview.point
        return next((way.title for way in point.ways if way.name == point.best), "") if point else ""


def comparison(preview: Preview) -> str:
    """Compare the margins with those of a trusted curator and without privacy, in one sentence."""
    wanted = [
        (t.cells, t.standard_error, t.sampling_margin / POINTS)
        for t in preview.tables
        # if randomizing adds no computable error, a curator needs no noise
        if math.isfinite(t.margin) and t.sampling_margin < t.margin
    ]
    if not wanted:
        return "No comparison with other approaches is possible."
    bare = POINTS * math.sqrt(math.fsum(s * s for *_, s in wanted) / len(wanted))
    return (
        f"For comparison: a trusted curator who holds all true answers, and adds Laplace noise to the counts, would need "
        f"an ε of {digits(curator(wanted, preview.n), 2)} nats for the same accuracy; without any protection, the "
        f"margin would be ± {digits(bare, 2)} points."
    )


def found_text(question: Question, total: float) -> str:
    """Say what a total that was found means for one person."""
    little = protects_little(total, question.releases)
    after = Meaning(total, _BELIEF, None, question.releases).people[1]
    return (
        f"{'That protects little' if little else 'What it means'}: someone who thinks that 10 of 100 people like you have "
        f"done something can be {after} of 100 sure that you did it, after seeing what you send."
    )


def python_lines(question: Question) -> list[str]:
    """Format the plan in Python, with its saved specification."""
    arguments = ['"specification.toml"', repr(question.total), f"n={question.n}"]
    if question.learn.word != "marginals":
        wanted = question.learn.word or [list(table.attributes) for table in question.learn.tables]
        arguments.append(f"workload={json.dumps(wanted, ensure_ascii=False)}")
    if question.has_margins:
        tables = [table.attributes for table in question.learn.tables]
        each = {t if len(t) > 1 else t[0]: question.margin_of(t) for t in tables if question.margin_of(t) is not None}
        arguments.append(f"margin={each if question.margins else question.margin!r}")
    arguments += ["records_only=True"] if question.keep else []
    arguments += [f"protocol={question.way!r}"] if question.way else []
    return ["import optrr", "", f"plan = optrr.plan({', '.join(arguments)})", "print(plan)"]
