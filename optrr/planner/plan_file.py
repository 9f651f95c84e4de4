"""The file of a plan: the question, the choice with its numbers, and the reason.

    format = "optrr-plan/1"
    reason, software        texts
    [question]              as :meth:`optrr.planner.question.Question.state`; margin of all tables
    [question.margins]      required margins of single tables by name, such as "theft × class" = 6
    [choice]                total as drawn in nats, way, error, error_bound, over_bound, margin, conditional_epsilon, meaning,
                            digest of the protocol, and digest of the question
    [[choice.tables]]       attributes and margin of each required table (the first 200)
    [[choice.labels]]       name, epsilon and conditional_epsilon of each attribute, if whole records are randomized

Margins are ± percentage points with 95 % confidence. Verifying a plan recomputes every number from its question.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from optrr.core.design import Asking, Check, Verification, read_declared, toml_text
from optrr.core.display import SOFTWARE, amount, brief
from optrr.core.errors import InvalidInput, OptrrError, in_one_line
from optrr.core.files import load
from optrr.core.provenance import Given, path_of
from optrr.planner.meaning import Meaning
from optrr.planner.preview import Preview, allocated, point
from optrr.planner.question import Question

FORMAT = "optrr-plan/1"
# Relative tolerance of recomputed numbers; solvers on other machines differ by less.
SAME = 1e-6


def meaning_of(preview: Preview) -> Meaning:
    """Compute the meaning of the drawn total for one person; of whole records also to who knows all other answers."""
    question, labels = preview.question, preview.point.labels
    conditional = max(label.conditional_epsilon for label in labels) if labels else None
    return Meaning(preview.point.epsilon, question.prior, conditional, question.releases)


def choice(preview: Preview, asking: Asking) -> dict[str, Any]:
    """Return the choice with its numbers as plain values for TOML and JSON."""
    point, way = preview.point, preview.point.way
    canonical = json.dumps(preview.question.state(), sort_keys=True, separators=(",", ":"))
    numbers = {"total": point.epsilon, "error": way.error, "error_bound": point.error_bound}
    numbers |= {"over_bound": preview.over_bound, "margin": preview.typical_margin}
    numbers |= {"conditional_epsilon": way.conditional_epsilon}
    return {
        "way": way.name,
        **{key: float(value) for key, value in numbers.items()},
        "meaning": list(meaning_of(preview).sentences()),
        "digest": asking.digest,
        # all inputs, including texts, to detect edits
        "question_digest": f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}",
        "tables": [{"attributes": list(t.attributes), "margin": float(t.margin)} for t in preview.tables],
        "labels": [label._asdict() for label in point.labels],
    }


def plan_toml(preview: Preview, asking: Asking, reason: str) -> str:
    """Format the whole file."""
    content = {"format": FORMAT, "reason": reason, "software": SOFTWARE, "question": preview.question.state()}
    return toml_text(content | {"choice": choice(preview, asking)})


class _PlanFile(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    question: dict[str, Any]
    choice: dict[str, Any]
    reason: str = ""
    software: str = ""


class RecordedPlan(NamedTuple):
    """Content of a file; the numbers in ``choice`` are stated, not recomputed."""

    question: Question
    reason: str
    choice: dict[str, Any]


def is_plan(path: Path) -> bool:
    """Check whether a file states that it is a plan; unreadable files are not."""
    try:
        raw = read_declared(path, "plan", "keys of a plan")
    except (OptrrError, OSError):
        return False
    return isinstance(raw, Mapping) and raw.get("format") == FORMAT


def read_plan(path: Given) -> RecordedPlan:
    """Read a plan; raise InvalidInput, in one line, if the file is not one, or is malformed or impossible."""
    raw = read_declared(path, "plan", "keys of a plan")
    stated = raw.get("format") if isinstance(raw, Mapping) else None
    if stated != FORMAT:
        raise InvalidInput(f"plan {path} has format {brief(stated)}; give a file that begins with format = {FORMAT!r}")
    try:
        held = msgspec.convert(raw, _PlanFile)
        question = Question.from_state(held.question)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"plan {path}: {in_one_line(error)}") from error
    return RecordedPlan(question, held.reason, held.choice)


def verify_plan(path: Given, *, limited: bool = True) -> Verification:
    """Recompute a plan from its question and compare; see :func:`optrr.verify`.

    A ``design.json`` in the folder of the plan must be the protocol that the plan names. Raises InvalidInput as
    :func:`read_plan`, and if nothing can be allocated for the question.
    """
    recorded = read_plan(path)
    made = allocated(recorded.question)
    preview, asking = Preview(recorded.question, point(recorded.question, made)), made.asking
    stated, recomputed = dict(_leaves(recorded.choice, "")), dict(_leaves(choice(preview, asking), ""))
    compared = [(name, stated.get(name), recomputed.get(name)) for name in {**recomputed, **stated}]
    beside = path_of(path).with_name("design.json")
    if beside.exists():
        named = recorded.choice.get("digest")
        try:
            saved = load(beside, limited=limited)
            compared.append((beside.name, named, saved.digest))
            if saved.digest == named and _as_good(saved, asking, preview):
                # another machine's solver may find another noise distribution with the same numbers
                compared = [each for each in compared if each[0] != "digest"]
        except OptrrError as error:
            compared.append((beside.name, named, str(error)))
    differing = [each for each in compared if not _same(*each[1:])]
    count, how = amount(len(compared), "number"), "from the question"
    checks = [Check("plan", count, f"{len(compared) - len(differing)} the same", how, not differing)]
    checks += [Check(name, brief(stated), brief(value), how, holds=False) for name, stated, value in differing]
    return Verification(tuple(checks), all(name != "question_digest" for name, *_ in differing))


def _leaves(content: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Iterate over name and value of every entry."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield from _leaves(value, f"{name}.{key}" if name else key)
    elif isinstance(content, list):
        for k, value in enumerate(content, 1):
            yield from _leaves(value, f"{name}[{k}]")
    else:
        yield name, content


def _same(recorded: Any, recomputed: Any) -> bool:
    if isinstance(recorded, int | float) and isinstance(recomputed, int | float):
        return recorded == recomputed or math.isclose(recorded, recomputed, rel_tol=SAME)
    return bool(recorded == recomputed)


def _as_good(saved: Asking, made: Asking, preview: Preview) -> bool:
    """Check whether two protocols have the same attributes, total and errors."""
    pairs = [(saved.epsilon, made.epsilon)]
    pairs += [(saved.table_error(t.attributes), t.error) for t in preview.point.tables]
    return saved.domain == made.domain and all(_same(*pair) for pair in pairs)
