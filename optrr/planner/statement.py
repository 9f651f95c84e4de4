"""A statement for an ethics board: a page that prints on two sheets, with every number of the design and its plan.

Six questions that only people can answer are left open; all others are answered. The questions follow the topics of
NIST SP 800-226 in the words of :mod:`optrr.devices.worksheet`; NIST has not reviewed them. The numbers are those of the
plan, which ``optrr verify`` recomputes. The list of limits is that of docs/security.md, §4, except for its entries
about files and waiting times, which do not concern a plan.
"""

import gzip
import json
import math
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from optrr.core import files
from optrr.core.design import Asking
from optrr.core.display import (
    Commands,
    Page,
    Part,
    Section,
    Table,
    Text,
    amount,
    cell,
    changed_of_hundred,
    crossed,
    epsilon_text,
    example,
    nearness,
    one_line,
    promise,
    sentence,
    sum_of_epsilons,
)
from optrr.core.errors import InvalidInput
from optrr.devices.worksheet import Entry, entries_of, worksheet
from optrr.planner.plan_file import SeenWay, meaning_of
from optrr.planner.preview import Expected, Preview
from optrr.planner.sections import comparison

# Limits of the guarantee, one or two sentences each, by the names of docs/security.md, §4.
NOT_PROMISED = {
    "Timing, memory, power": "Anyone who can measure the device while it randomizes, or who shares its processor, "
    "may learn the true answers.",
    "Repetition": (
        "Every fresh answer consumes the epsilon again, and releases that are missing from the privacy "
        "accounting cannot be added up."
    ),
    "Place, index and names": "The position of a record in a list may reveal its true values, so lists are "
    "shuffled before they are passed on.",
    "That somebody took part": "Who took part, when, and from which address is not hidden.",
    "Inference about an attribute": "Associated answers reveal each other, up to the total epsilon. Results about "
    "a population also say something about its members, including those who did "
    "not answer.",
    "Poisoning": "Anyone who may send reports may send false ones, and each of them counts like many people.",
    "The analyst": (
        "An analyst can choose tables until something shows; confidence intervals hold for tables that "
        "were chosen beforehand."
    ),
    "Seeds": "Records randomized from a seed are not private; here the random bits come from the operating system.",
    "The true data": "Forms, logs, caches and backups that hold true answers are not protected.",
    "The program that is served": "Anyone who serves a page can serve another one tomorrow; its files can be "
    "compared with the published package.",
    "What verification takes for granted": "Verification assumes that the software, Python and the processor "
    "compute correctly.",
}
# Commands that recompute a plan in its folder.
VERIFYING = ("optrr verify design.json", "optrr verify plan.toml")
_MARGIN = "± points"
# Maximum number of alternatives, for a statement of two sheets; minimum number of protocols among them; and maximum length of
# their last column.
_COMPARED, _LEAST_WAYS, _GIVEN_UP = 9, 5, 100
# Maximum rows of the tables of questions and of crossed questions, for two sheets; a note counts the rows left out.
_ASKED, _CROSSED = 12, 7
# Maximum characters of a question, of a crossed table's name, of a title, and of a reason.
_QUESTION, _NAMES, _TITLE, _REASON = 46, 38, 60, 280
_WHOLE_RECORDS = "You answer {count}. Before anyone sees your answers, chance may change some of them."
_LIST = (
    "Your answers are not sent. Your device sends a list of possible answers; chance decides whether yours are on it."
)
_SOME_QUESTIONS = f"Chance decides which of the questions you are asked. {_LIST}"


def statement(preview: Preview, asking: Asking, seen: Sequence[SeenWay], reason: str) -> Page:
    """Build the statement of a choice, with alternatives and the reason."""
    question, wording = preview.question, preview.question.specification.wording
    public, line = question.specification.public, "_" * 24
    unprotected = [f"{name}. {text}" for name, text in NOT_PROMISED.items()]
    if public:
        names = ", ".join(public.names)
        unprotected.append(
            f"Public columns ({names}) are published unchanged, next to the randomized answers, and are not protected."
        )
    signing = [[party, line, line, line] for party in ("data collector", "data protection officer", "ethics board")]
    title = wording.text(wording.title)[0] or f"Survey of {amount(question.domain.m, 'question')}"
    who = cell(one_line(wording.text(wording.asker)[0]), _TITLE) if wording.asker else "The data collector named below"
    lead = [
        f"{who}: {amount(f'{question.n:,}', 'person').replace('persons', 'people')} will be asked "
        f"{amount(question.domain.m, 'question')}. The privacy budget of each person is a total epsilon of "
        f"{epsilon_text(preview.point.epsilon)} nats{_in_all(preview)}.",
        *([f"Reason for this choice: {cell(one_line(reason), _REASON)}"] if reason.strip() else []),
    ]
    sections = [
        Section("Data collected, and expected accuracy", _learned(preview, asking)),
        Section("What respondents are promised", _promised(preview, asking)),
        Section("What is not promised", [Text(said) for said in unprotected]),
        Section("Questions of evaluators, by the topics of NIST SP 800-226", _evaluated(preview, asking)),
        Section("Alternatives considered", alternatives(preview, seen)),
        Section(
            "The same accuracy without local randomization",
            [Text(comparison(preview))],
        ),
        Section("How to verify this statement", _verified(asking)),
        Section("For you to answer", [Table(["question", "answer"], [[asked, None] for asked in for_you(reason)])]),
        Section("Signatures", [Table(["for", "name", "place and date", "signature"], signing)]),
    ]
    return Page(f"Statement for an ethics board: {cell(one_line(title), _TITLE)}", sections, lead, dense=True)


class Device(NamedTuple):
    """What a person's device draws with: its file, and the ε in nats that it states.

    ``refusal`` says why there is no file; ``conditional`` is that of whole records.
    """

    raw: bytes
    epsilon: float
    conditional: float
    refusal: str = ""

    @classmethod
    def of(cls, asking: Asking) -> "Device":
        """Export a protocol for devices, once."""
        with TemporaryDirectory(prefix="optrr-plan-") as folder:
            path = Path(folder) / "sampler.json"
            try:
                files.export(asking, path)
            except InvalidInput as error:
                return cls(b"", asking.epsilon, asking.epsilon, str(error))
            raw = path.read_bytes()
        stated = json.loads(raw)["epsilon"]
        total = float(stated["total"])
        return cls(raw, total, max(map(float, stated.get("conditional", [total]))))

    def numbers(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        if self.refusal:
            return {"refused": self.refusal}
        return {"epsilon": self.epsilon, "compressed_bytes": len(gzip.compress(self.raw, 9, mtime=0))}


def for_you(reason: str) -> list[str]:
    """List at most six questions that neither design nor plan can answer."""
    small = "What harm to people does this epsilon prevent, and which of the answers are sensitive?"
    return [
        small if reason.strip() else f"Who chose this epsilon, and why? {small}",
        (
            "Where are answers randomized: on each person's own device, or where true answers are collected, which "
            "must then be trusted?"
        ),
        (
            "Can one person answer more than once, which other surveys ask the same people, and who keeps the privacy "
            "accounting?"
        ),
        "Where are true answers written on the way (forms, logs, backups), and when are they deleted?",
        (
            "What else is collected (addresses, times, names), and who may read the reports, which by law may be "
            "personal data?"
        ),
        "Who does not answer, whom do the categories leave out, and may people skip a question?",
    ]


def margin_text(points: float) -> str:
    """Format ± percentage points with four digits, or words if impossible."""
    return f"{points:.4g}" if math.isfinite(points) else "not known"


def more_of(count: int, shown: int, noun: str) -> str:
    """Write the note below a table that shows only some rows."""
    return f"{amount(count - shown, f'more {noun}')}: see plan.toml." if count > shown else ""


def alternatives(preview: Preview, seen: Sequence[SeenWay]) -> list[Part]:
    """List the protocols at this total, then the alternatives considered."""
    point = preview.point
    # alternatives take the places of the last protocols
    most = max(_LEAST_WAYS, _COMPARED - len(seen))
    ways = [point.way, *(way for way in point.ways if way.name != point.way.name)]
    rows: list[list[object]] = [
        [
            way.title,
            epsilon_text(way.epsilon, 3),
            margin_text(preview.margin_of(way)),
            f"{way.error / point.error_bound:.4g}" if math.isfinite(way.error) else None,
            cell("; ".join(way.gives_up) or "nothing", _GIVEN_UP),
        ]
        for way in ways[:most]
    ]
    for each in seen:
        over = f"{each.over_bound:.4g}" if math.isfinite(each.over_bound) else None
        said = f"considered, with {each.n:,} people"
        rows.append([each.way, epsilon_text(each.total, 3), margin_text(each.margin), over, said])
    heads = ["protocol", "total epsilon", _MARGIN, "error / bound", "gives up"]
    rows = rows[:_COMPARED]
    return [Table(heads, rows, strong=[0], note=more_of(len(ways) + len(seen), len(rows), "alternative"))]


def _in_all(preview: Preview) -> str:
    times = preview.question.releases
    return "" if times == 1 else f" for each release, {epsilon_text(_spent(preview))} nats for all {times} releases"


def _spent(preview: Preview) -> float:
    """Total ε of all releases, rounded up."""
    return sum_of_epsilons([preview.point.epsilon] * preview.question.releases)


def _learned(preview: Preview, asking: Asking) -> list[Part]:
    question, wording = preview.question, preview.question.specification.wording
    single = {t.attributes[0]: t for t in preview.tables if len(t.attributes) == 1}
    labels = {label.name: label for label in preview.point.labels}
    heads = ["question", "answers", *(["changed in 100", "conditional epsilon"] if labels else []), _MARGIN]
    rows: list[list[object]] = []
    for attribute in islice(question.domain, _ASKED):
        asked = cell(one_line(wording.text(wording.questions.get(attribute.name, attribute.name))[0]), _QUESTION)
        label, table = labels.get(attribute.name), single.get(attribute.name)
        changed = (
            []
            if label is None
            else [changed_of_hundred(attribute.size, label.epsilon), epsilon_text(label.conditional_epsilon)]
        )
        rows.append([asked, attribute.size, *changed, None if table is None else margin_text(table.margin)])
    crossings = [t for t in preview.tables if len(t.attributes) > 1]
    parts: list[Part] = [
        Text(
            "± points are half of a 95 % confidence interval in percentage points, as a root mean square over the "
            "cells of a table; they are upper bounds for any population. Each epsilon is in nats and rounded up; "
            "the conditional epsilon holds against an attacker who knows all other answers of the person. The "
            "detectable difference is between two groups of half of the people each: a test at the 5 % level finds "
            "it in 80 % of surveys. For more than two categories it is Cramér's V, times 100."
        ),
        Table(heads, rows, note=more_of(question.domain.m, _ASKED, "question")),
        _numbers(preview, asking),
    ]
    if crossings:
        shown = [_crossing(table) for table in crossings[:_CROSSED]]
        wanted = sum(len(t.attributes) > 1 for t in question.learn.tables)
        parts.append(
            Table(
                ["table", "cells", _MARGIN, "sampling error alone", "detectable difference"],
                shown,
                note=more_of(wanted, _CROSSED, "table"),
            )
        )
    return parts


def _crossing(table: Expected) -> list[object]:
    difference = None if table.difference is None else f"{table.difference:.3g}"
    return [
        cell(crossed(table.attributes), _NAMES),
        table.cells,
        margin_text(table.margin),
        f"{table.sampling_margin:.4g}",
        difference,
    ]


def _numbers(preview: Preview, asking: Asking) -> Table:
    point, device = preview.point, Device.of(asking)
    spent = None if device.refusal else epsilon_text(device.epsilon)
    rows: list[list[object]] = [
        ["total epsilon", epsilon_text(point.epsilon)],
        ["total epsilon on a device", spent],
        ["protocol", point.way.title],
        ["largest conditional epsilon", epsilon_text(_conditional(preview))],
        ["expected squared error, times n", f"{point.way.error:.6g}"],
        ["lower bound of this error for any mechanism", f"{point.error_bound:.6g}"],
        ["compared with any mechanism", nearness(preview.over_bound)],
        [f"typical {_MARGIN}", margin_text(preview.typical_margin)],
    ]
    if preview.question.margin is not None:
        rows.append([f"required {_MARGIN}", f"{preview.question.margin:.4g}"])
    return Table(["the choice", "value"], rows)


def _conditional(preview: Preview) -> float:
    labels = preview.point.labels
    return max(each.conditional_epsilon for each in labels) if labels else preview.point.epsilon


def _promised(preview: Preview, asking: Asking) -> list[Part]:
    spent, count = _spent(preview), preview.question.domain.m
    asked = f"all {amount(count, 'question')}" if count > 1 else "one question"
    how = _LIST if len(getattr(asking, "tables", ())) == 1 else _SOME_QUESTIONS
    how = _WHOLE_RECORDS.format(count=asked) if asking.budgets else how
    said = [how, promise(spent), example(spent), *meaning_of(preview).sentences()]
    return [Text("Text to read to all respondents:"), Text(" ".join(said), quoted=True)]


def _evaluated(preview: Preview, asking: Asking) -> list[Part]:
    """List the worksheet's entries, without attributes and errors shown above."""
    n = preview.n
    entries = entries_of(worksheet(asking, n))
    answers: dict[str, Sequence[str]] = {question: entry.holds for question, entry in entries.items()}
    answers |= _shortened(preview, asking, entries)
    return [
        Text(" ".join([f"{entries[asked].topic.capitalize()}. {asked}", *(sentence(one_line(line)) for line in lines)]))
        for asked, lines in answers.items()
    ]


def _shortened(preview: Preview, asking: Asking, entries: dict[str, Entry]) -> dict[str, Sequence[str]]:
    """List answers that replace the worksheet's, since the plan knows more."""
    believed, released = (
        next(q for q in entries if q.startswith(begin)) for begin in ("Why believe", "What else is released")
    )
    checks, *drawn = entries[believed].holds
    times = preview.question.releases
    planned = (
        f"this plan is for {amount(times, 'release')} of the same people: {epsilon_text(_spent(preview))} nats in total"
    )
    single = (
        "the epsilon of an attribute measures accuracy; an attribute reveals at most "
        f"{epsilon_text(_conditional(preview))} nats to an attacker who knows all other answers, and at most the "
        "total to any attacker"
        if asking.budgets
        else "an answer reveals at most the total, whatever an attacker already knows"
    )
    useful = (
        f"the tables above state the accuracy with {preview.n:,} people; it is typically ± "
        f"{margin_text(preview.typical_margin)} points, and any mechanism of this total has at least ± "
        f"{margin_text(preview.bound_margin)}"
    )
    return {
        next(q for q in entries if q.startswith("What does it mean")): [single],
        released: [planned, *entries[released].holds],
        believed: [checks.partition(", by recomputation")[0], *drawn],
        next(q for q in entries if q.startswith("Are the results")): [useful],
        next(q for q in entries if q.startswith("What can be observed")): [
            "not covered: see timing, memory and power above"
        ],
        next(q for q in entries if q.startswith("Can results")): ["yes, by false reports: see poisoning above"],
    }


def _verified(asking: Asking) -> list[Part]:
    text = (
        "design.json and plan.toml come with this statement; anyone can recompute them without trusting their "
        f"authors. The protocol has the digest {asking.digest}, which every report contains."
    )
    return [Text(text), Commands(VERIFYING)]
