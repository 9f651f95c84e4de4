"""One statement for an ethics board: a page that prints on two sheets, with every number that a design and its plan can give.

What only people can know is asked of them in six lines; everything else is answered. The questions are by the topics of NIST
SP 800-226 and in the words of :mod:`optrr.devices.worksheet`; NIST has not seen them. The numbers are those of the plan,
which ``optrr verify`` recomputes. What is not promised is the list of docs/security.md, §4, without
what it says of files that are read and of waiting for them, which is nothing that a plan is about.
"""

import math
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

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
from optrr.planner.figures import Figures
from optrr.planner.plan_file import SeenWay, meaning_of
from optrr.planner.preview import Expected, Preview
from optrr.planner.sections import elsewhere_parts

# One sentence each, by the names of docs/security.md, §4.
NOT_PROMISED = {
    "Timing, memory, power": "Whoever can measure the device while it randomizes, or shares its processor, may learn the true "
    "answers.",
    "Repetition": "Every fresh answer spends the epsilon again, and releases that are in no account cannot be added up.",
    "Place, index and names": "A record's place in a list may tell what is true of it, so lists are shuffled before they are "
    "handed on.",
    "That somebody took part": "Who took part, when, and from which address, is not hidden.",
    "Inference about an attribute": "Answers that go together tell about one another, up to the total epsilon; and what is "
    "learned of a population tells about its members, also about those who did not answer.",
    "Poisoning": "Whoever may send reports may send made-up ones, and each of them counts like many people.",
    "The analyst": "Whoever estimates can choose tables until something shows; intervals hold for what was asked beforehand.",
    "Seeds": "What was drawn from a seed is not private; here random bits come from the operating system.",
    "The true data": "Forms, logs, caches and backups that hold true answers elsewhere are not protected.",
    "The program that is served": "Whoever serves a page can serve another one tomorrow; files can be compared with the "
    "published package.",
    "What verification takes for granted": "Verification takes for granted that the software, Python and the processor compute "
    "what they should.",
}
# Commands that recompute a plan in its folder.
VERIFYING = ("optrr verify design.json", "optrr verify plan.toml")
_MARGIN = "± points"
# Rows of the alternatives, so that a statement stands on two sheets, how many of them are protocols at least, and
# characters of what one gives up.
_COMPARED, _LEAST_WAYS, _GIVEN_UP = 9, 5, 100
# Rows of the tables of questions and of crossed questions, so that all of it stands on two sheets; one line says how many are
# left out.
_ASKED, _CROSSED = 12, 7
# Characters of a question, of a crossed table's name, of a title, and of a reason.
_QUESTION, _NAMES, _TITLE, _REASON = 46, 38, 60, 280
_WHOLE_RECORDS = "You answer {count}. Before anybody sees what you say, chance may change some of it."
_ONE_QUESTION = (
    "Lots decide what you are asked, and you are asked one thing only. Before anybody sees your answer, chance may "
    "change it."
)


def statement(preview: Preview, asking: Asking, seen: Sequence[SeenWay], reason: str) -> Page:
    """Build the statement of a choice, with alternatives and the reason."""
    question, wording = preview.question, preview.question.specification.wording
    public, line = question.specification.public, "_" * 24
    unprotected = [f"{name}. {text}" for name, text in NOT_PROMISED.items()]
    if public:
        names = ", ".join(public.names)
        unprotected.append(f"Public columns ({names}) stand beside the answers as they are, and nothing protects them.")
    signing = [[party, line, line, line] for party in ("who asks", "who answers for data protection", "ethics board")]
    title = wording.title or f"asking {amount(question.domain.m, 'question')}"
    who = cell(one_line(wording.asker), _TITLE) if wording.asker else "Whoever signs below"
    lead = [
        f"{who}: {amount(f'{question.n:,}', 'person').replace('persons', 'people')} will be asked "
        f"{amount(question.domain.m, 'question')}, and each of them spends a total epsilon of "
        f"{epsilon_text(preview.point.epsilon)} nats{_in_all(preview)}.",
        *([f"Why this choice: {cell(one_line(reason), _REASON)}"] if reason.strip() else []),
    ]
    sections = [
        Section("What is collected, and what is learned", _learned(preview, asking)),
        Section("What people are promised", _promised(preview, asking)),
        Section("What is not promised", [Text(said) for said in unprotected]),
        Section("What evaluators ask, by the topics of NIST SP 800-226", _evaluated(preview, asking)),
        Section("Alternatives considered", alternatives(preview, seen)),
        Section(
            "What the same accuracy comes to elsewhere",
            elsewhere_parts(preview, Figures(exact=True)),
        ),
        Section("How to verify this", _verified(asking)),
        Section("For you to answer", [Table(["question", "answer"], [[asked, None] for asked in for_you(reason)])]),
        Section("Signatures", [Table(["for", "name", "place and date", "signature"], signing)]),
    ]
    return Page(f"Statement for an ethics board: {cell(one_line(title), _TITLE)}", sections, lead, dense=True)


def device_numbers(asking: Asking) -> dict[str, Any]:
    """Total ε that a device spends, and the size of its deployment file; what stands against it under ``refused``."""
    with TemporaryDirectory(prefix="optrr-plan-") as folder:
        try:
            numbers = files.export(asking, Path(folder) / "sampler.json").numbers
        except InvalidInput as error:
            return {"refused": str(error)}
    return {key: numbers[key] for key in ("epsilon", "compressed_bytes")}


def for_you(reason: str) -> list[str]:
    """List at most six questions that neither design nor plan can answer."""
    small = "For what harm to people is this epsilon small enough, and which of the answers are sensitive?"
    return [
        small if reason.strip() else f"Who chose this epsilon, and why? {small}",
        "Where are answers randomized: on each person's own device, or where true ones are gathered, which is then trusted?",
        "Can one person answer more than once, and which other surveys ask the same people? Who keeps that account?",
        "Where are true answers written on the way (forms, logs, backups), and when are they deleted?",
        "What else is gathered (addresses, times, names), and who may read the reports, which by law may be personal data?",
        "Who does not answer, whom do the categories leave out, and may people leave a question out?",
    ]


def margin_text(points: float) -> str:
    """Format ± percentage points with four digits, or words if impossible."""
    return f"{points:.4g}" if math.isfinite(points) else "not known"


def more_of(count: int, shown: int, noun: str) -> str:
    """Write the note below a table that shows only some rows."""
    return f"And {amount(count - shown, f'more {noun}')}, listed in plan.toml." if count > shown else ""


def alternatives(preview: Preview, seen: Sequence[SeenWay]) -> list[Part]:
    """List the protocols at this total, then the alternatives considered."""
    point = preview.point
    # what was seen takes the places of the last ways
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
        said = f"seen with {each.n:,} people"
        rows.append([each.way, epsilon_text(each.total, 3), margin_text(each.margin), over, said])
    heads = ["protocol", "total", _MARGIN, "over bound", "what it gives up"]
    rows = rows[:_COMPARED]
    return [Table(heads, rows, strong=[0], note=more_of(len(ways) + len(seen), len(rows), "alternative"))]


def _in_all(preview: Preview) -> str:
    times = preview.question.releases
    return "" if times == 1 else f" each time, {epsilon_text(_spent(preview))} nats in {times} releases"


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
        asked = cell(one_line(wording.questions.get(attribute.name, attribute.name)), _QUESTION)
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
            "Points are percentage points: half of a 95 % interval, as a root mean square over a table's cells, and at most "
            "that whatever is true. An epsilon is in nats and rounded up, the conditional one to whoever knows all other "
            "answers. The error is squared, times people, summed over all tables. A difference that is seen is one between two "
            "halves of the people that a test at 5 % finds in 80 % of all surveys; for more than two categories it is "
            "Cramér's V, times 100."
        ),
        Table(heads, rows, note=more_of(question.domain.m, _ASKED, "question")),
        _numbers(preview, asking),
    ]
    if crossings:
        shown = [_crossing(table) for table in crossings[:_CROSSED]]
        wanted = sum(len(t.attributes) > 1 for t in question.learn.tables)
        parts.append(
            Table(
                ["table", "cells", _MARGIN, "by sampling", "difference seen"],
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
    point, device = preview.point, device_numbers(asking)
    spent = epsilon_text(device["epsilon"]) if "epsilon" in device else None
    rows: list[list[object]] = [
        ["total epsilon", epsilon_text(point.epsilon)],
        ["the same on a device", spent],
        ["protocol", point.way.name],
        ["largest conditional epsilon", epsilon_text(_conditional(preview))],
        ["error", f"{point.way.error:.6g}"],
        ["no mechanism has less than", f"{point.error_bound:.6g}"],
        ["the error is", nearness(preview.over_bound)],
        [f"typical {_MARGIN}", margin_text(preview.typical_margin)],
    ]
    if preview.question.margin is not None:
        rows.append([f"{_MARGIN} wished for", f"{preview.question.margin:.4g}"])
    return Table(["the choice", "value"], rows)


def _conditional(preview: Preview) -> float:
    labels = preview.point.labels
    return max(each.conditional_epsilon for each in labels) if labels else preview.point.epsilon


def _promised(preview: Preview, asking: Asking) -> list[Part]:
    spent, count = _spent(preview), preview.question.domain.m
    asked = f"all {amount(count, 'question')}" if count > 1 else "one question"
    how = _WHOLE_RECORDS.format(count=asked) if asking.budgets else _ONE_QUESTION
    said = [how, promise(spent), example(spent), *meaning_of(preview).sentences()]
    return [Text("This can be read out to everybody who is asked:"), Text(" ".join(said), quoted=True)]


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
    """List answers that differ from the worksheet's, by question.

    The plan knows more than the design.
    """
    believed, released = (
        next(q for q in entries if q.startswith(begin)) for begin in ("Why believe", "What else is released")
    )
    checks, *drawn = entries[believed].holds
    times = preview.question.releases
    planned = (
        f"this plan is for {amount(times, 'release')} of the same people: {epsilon_text(_spent(preview))} nats in all"
    )
    single = (
        "an attribute's epsilon is an accuracy; to whoever knows all other answers an attribute gives away at most "
        f"{epsilon_text(_conditional(preview))} nats, and to anybody at most the total"
        if asking.budgets
        else "an answer gives away at most the total, whatever an observer knows already"
    )
    useful = (
        f"the tables above say how accurate, with {preview.n:,} people; typically ± {margin_text(preview.typical_margin)} "
        f"points, where no mechanism of this total is below ± {margin_text(preview.bound_margin)}"
    )
    return {
        next(q for q in entries if q.startswith("What does it mean")): [single],
        released: [planned, *entries[released].holds],
        believed: [checks.partition(", by recomputation")[0], *drawn],
        next(q for q in entries if q.startswith("Are the results")): [useful],
        next(q for q in entries if q.startswith("What can be observed")): [
            "not covered: see timing, memory and power above"
        ],
        next(q for q in entries if q.startswith("Can results")): ["yes, by made-up reports: see poisoning above"],
    }


def _verified(asking: Asking) -> list[Part]:
    text = (
        "design.json and plan.toml come with this statement; nobody who made them need be trusted to recompute them. "
        f"The protocol has the digest {asking.digest}, which every report carries."
    )
    return [Text(text), Commands(VERIFYING)]
