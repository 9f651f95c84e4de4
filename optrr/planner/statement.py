"""The numbers of a plan's statement for an ethics board; its text is ``templates/statement.html``.

Beliefs, factors, ε and margins are rounded up; people whose answer is changed, of 100, to the nearest number, as on the
survey's page. Long lists are cut, so that the statement prints on two sheets.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any
from unicodedata import east_asian_width

from optrr.core.design import Asking, ReportPart
from optrr.core.display import (
    ENGLISH,
    SOFTWARE,
    Words,
    changed_text,
    page_environment,
    sum_of_epsilons,
)
from optrr.planner.device import Device
from optrr.planner.meaning import PROTECTS_LITTLE, surest
from optrr.planner.preview import POINTS, Preview, typical_margin
from optrr.planner.question import MOST_MARGIN

# Maximum number of tables of several questions.
_CROSSED = 6
# Printed lines for questions, of one, and for a reason by hand; characters of a line; maximum characters and answers of one.
_LINES, _OF_EACH, _NO_REASON, _WIDTH, _QUESTION, _ANSWERS = 28, (2, 3), 3, 46, 100, 6
# A number this near to a whole one is that number: doubles err by less.
_WHOLE = 1e-9


def statement(preview: Preview, asking: Asking, reason: str, device: Device) -> str:
    """Render the statement of a choice, with its reason, as HTML."""
    question = preview.question
    once = max(preview.point.epsilon, device.epsilon)
    conditional = max([device.conditional, *(each for *_, each in asking.budgets)]) if asking.budgets else once
    spent, known = (sum_of_epsilons([e] * question.releases) for e in (once, min(once, conditional)))
    crossings = [table for table in preview.tables if len(table.attributes) > 1]
    rows = [*_rows(preview, asking)]
    left = _LINES - 2 * (question.releases > 1) - (_lines(reason[:280], 90) or _NO_REASON)
    left -= max(_lines(row["text"], _QUESTION + 1) for row in rows)
    fitting, spare = _fitting(rows, left - (2 + math.ceil(len(crossings[:_CROSSED]) / 2) if crossings else 0))
    bare = math.fsum(
        t.weight * (1 - 1 / t.cells(question.domain)) for t in getattr(question, "wanted", question.learn).tables
    )
    values: dict[str, Any] = {
        "rows": fitting,
        "spare": spare,
        "crossings": crossings[:_CROSSED],
        "more_crossings": max(0, sum(len(t.attributes) > 1 for t in question.learn.tables) - _CROSSED),
        "drawn": len({query.attributes for query in asking.queries}) > 1,
        "one": all(len(query.attributes) == 1 for query in asking.queries),
        "replaced": all(len(p.attributes) == p.named == 1 for query in asking.queries for p in query.parts),
        # the least protected question
        "shown": min(rows, key=lambda row: (len(row["part"].attributes) > 1, row["changed"])),
        "once": once,
        "spent": spent,
        "known": known,
        "weak": spent > PROTECTS_LITTLE,
        "unprotected": typical_margin(question, bare),
        "believed": lambda epsilon: percent_up(surest(question.prior, epsilon)),
        "numbers": lambda table: [i + 1 for i in question.domain.indices(table.attributes)],
    }
    given = {"preview": preview, "asking": asking, "reason": reason, "software": SOFTWARE}
    helpers = {"margin": margin_text, "nats": nats_text, "changed_text": changed_text}
    words = _words(question.specification.wording.languages[0])
    template = page_environment("optrr.planner").get_template("statement.html")
    return template.render(values | given | helpers, words=words)


def margin_text(points: float) -> str:
    """Round ± percentage points up to a decimal, or two below 1; "" if any guess is as close."""
    scale = 10 if points >= 1 else 100
    return f"{math.ceil(scale * points * (1 - _WHOLE)) / scale:g}" if points <= MOST_MARGIN else ""


def nats_text(epsilon: float) -> str:
    """Round ε up to three decimals."""
    return f"{math.ceil(1000 * epsilon - _WHOLE) / 1000:.3f}".rstrip("0").rstrip(".")


def percent_up(chance: float) -> int:
    """Convert a probability to percent, rounded up."""
    return min(100, math.ceil(100 * chance - _WHOLE))


def least_protected(asking: Asking, name: str) -> ReportPart:
    """Return the part of a report that tells most about an attribute, on its own if possible."""
    parts = [part for query in asking.queries for part in query.parts if name in part.attributes]
    return max(parts, key=lambda part: (len(part.attributes) == 1, part.holds - part.named / part.of))


def _rows(preview: Preview, asking: Asking) -> Iterator[dict[str, Any]]:
    """Iterate over the questions with their answers, what chance does to these, and the margin."""
    question, specification = preview.question, preview.question.specification
    wording, wanted = specification.wording, {table.attributes for table in question.learn.tables}
    for attribute in question.domain:
        name, branch = attribute.name, specification.branches.get(attribute.name)
        labels = wording.text(wording.labels.get(name))[0] or [
            text or "I prefer not to say" for text in attribute.texts
        ]
        first = (
            attribute.texts.index("yes")
            if "yes" in attribute.texts
            else int(branch is not None and attribute.texts[0] == branch.otherwise)
        )
        part = least_protected(asking, name)
        text = wording.text(wording.questions.get(name, name))[0]
        yield {
            "text": text if len(text) <= _QUESTION else f"{text[:_QUESTION]}…",
            "answers": [
                t for t, own in zip(labels, attribute.texts, strict=True) if not branch or own != branch.otherwise
            ],
            "when": branch.when if branch else {},
            "number": question.domain.index(name) + 1,
            "part": part,
            "changed": round(100 * (1 - part.holds)),
            "held": round(100 * part.holds),
            "first": labels[first],
            "other": labels[1 - first] if part.of == 2 else None,
            "margin": POINTS * asking.standard_error(name, preview.n),
            "required": question.margin_of((name,)) if (name,) in wanted else None,
        }


def _fitting(rows: Sequence[dict[str, Any]], left: int) -> tuple[Sequence[dict[str, Any]], int]:
    """Return the first rows that fit on so many lines, and the lines that are left."""
    for k, row in enumerate(rows):
        printed = f"1. {row['text']} ({', '.join(row['answers'][:_ANSWERS])})"
        lines = min(max(_lines(printed, _WIDTH), _OF_EACH[0]), _OF_EACH[1])
        if lines > left:
            return rows[:k], 0
        left -= lines
    return rows, left


def _lines(text: str, width: int) -> int:
    """Count the lines of a text; capitals and East Asian characters are wide."""
    return math.ceil(sum(1 + (c.isupper() or east_asian_width(c) in "WF") for c in text) / width)


def _words(language: str) -> Words:
    """Return the words in a language; English ones need no catalogues."""
    if language.partition("-")[0] == "en":
        return ENGLISH
    from optrr.survey.words import words_of  # noqa: PLC0415 (needs Babel, which English does without)

    return words_of(language)
