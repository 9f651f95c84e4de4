"""The audit of a client against its label: ask, then every check, each with its share of one stated level."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import msgspec
import numpy as np

from optrr.devices import bounds
from optrr.devices.asked import (
    QuestionAnswers,
    answer_events,
    answers_by_record,
    asked_twice,
    matching_patterns,
    other_members,
    pattern_events,
    questions_answered,
)
from optrr.devices.clients import (
    Answering,
    Answers,
    AuditedClient,
    FunctionClient,
    LogClient,
    Questions,
    RecordKinds,
    own_client,
    planned,
    read_planted,
)
from optrr.devices.label import Codes, Label, Labelling, QuestionLabel, label_of
from optrr.devices.noise import (
    Again,
    Repeated,
    add_neighbours,
    add_repeats,
    changes_together,
    noise_that_repeats,
    records_in_a_row,
    replacements,
    true_records_in_turns,
    true_values,
    uniformly_planted,
)
from optrr.devices.result import (
    AGAIN,
    CHANGES,
    IN_A_ROW,
    INPUTS,
    REPLACEMENTS,
    TURNS,
    TWO_RUNS,
    Audit,
    Finding,
    Worst,
)
from optrr.errors import InvalidInput
from optrr_solvers.arrays import IntArray
from optrr_solvers.randomness import RandomState

# A function that answers questions: people's numbers and codes to one object with table and cells for each.
Replying: TypeAlias = Callable[[IntArray, Codes], Sequence[Any]]
QUERIES = 100_000
LEVEL = 1e-6
# Planted records that are this unlikely to be uniform were not drawn by us.
_NOT_UNIFORM = 1e-9


@dataclass(frozen=True)
class AuditOptions:
    """How an audit is done.

    Parameters
    ----------
    queries
        records to plant in all; fewer where records are wide. At least 200.
    level
        the largest probability of a false alarm, in (0, 1).
    once
        the client promises one answer for each person.
    random_state
        of the planted records.
    planted
        the file of records that were planted already (``optrr audit --plant``), which a log answers; ``queries`` and
        ``random_state`` are then not looked at.

    Raises
    ------
    InvalidInput
        for a level outside (0, 1).
    """

    queries: int = QUERIES
    level: float = LEVEL
    once: bool = False
    random_state: RandomState = None
    planted: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise InvalidInput(f"a level of {self.level} is no probability of a false alarm; give one between 0 and 1")


def audit(
    label: Labelling, client: AuditedClient | Answering | Replying | None = None, options: AuditOptions | None = None
) -> Audit:
    """Ask a client planted records, and test what it answers against the label by exact tests.

    Parameters
    ----------
    label
        a design, its mechanism, a deployment, a file of a design or deployment, or what :func:`label_of` made of one.
    client
        what is asked: a function of people's numbers, shape (n,), and codes, shape (n, m), to codes, or to objects with
        ``table`` and ``cells`` for a file of questions, which is run in two forked processes; a client of
        :mod:`optrr.devices.clients`; by default our own randomizer of records.

    Returns
    -------
    Audit
        ``holds`` is false with probability at most the level if the client does what its label says. That it holds is no
        proof: what so many queries would have seen is in the bounds.

    Raises
    ------
    InvalidInput
        where the label does not hold by itself, or the client fails.
    """
    how, promised = options or AuditOptions(), label_of(label)
    client = _asked_client(promised, client)
    if how.planted is not None:
        layout, runs = read_planted(how.planted, promised.domain)
    elif isinstance(client, LogClient):
        raise InvalidInput("a log answers records that were planted before; name their file in AuditOptions(planted=…)")
    else:
        layout = RecordKinds.of(how.queries, max(promised.width, promised.domain.m))
        runs = planned(layout, promised.sizes, how.random_state)
    codes = client.answers(runs)
    asked = _asked_twice(client, layout, runs, codes)

    def result(findings: Sequence[Finding]) -> Audit:
        return Audit(client.name, 2 * layout.rows, how.level, promised.epsilon, tuple(findings))

    foreign = sum(promised.foreign(c) for c in codes)
    if foreign:
        says = f"{foreign} answers of {2 * layout.rows} hold what is none of the label's categories; no more is tested"
        return result([Finding("categories", True, says, 0.0)])
    records = np.concatenate([run.records[: layout.once] for run in runs]).T
    if uniformly_planted(promised.sizes, records, layout) < _NOT_UNIFORM:
        raise InvalidInput("the planted records are not uniformly random; plant those of optrr audit --plant")
    says = f"all of {2 * layout.rows} answers hold the label's categories only"
    if isinstance(promised, QuestionLabel):
        findings = _of_questions(promised, QuestionAnswers.of(promised, layout, runs, codes), asked, how)
    else:
        findings = _of_records(promised, Answers.of(promised.sizes, layout, runs, codes), asked, how)
    return result([Finding("categories", False, says), *findings])


def _asked_client(label: Label | QuestionLabel, client: AuditedClient | Answering | Replying | None) -> AuditedClient:
    """The client that is asked: a function as one, and our own randomizer where none is named."""
    if isinstance(label, QuestionLabel):
        if client is None:
            raise InvalidInput("a file of questions is drawn by clients only; name one to ask (optrr audit --command)")
        return _replying(label, client) if callable(client) else client
    if client is None:
        return own_client(label)
    return FunctionClient(cast(Answering, client)) if callable(client) else client


def _replying(label: QuestionLabel, function: Any) -> FunctionClient:
    """A function that answers questions with objects."""

    def answer(people: IntArray, records: Codes) -> Codes:
        lines = [msgspec.json.encode(reply) for reply in function(people, records)]
        return label.read(lines, people.size, "function")

    return FunctionClient(answer, width=label.width)


def _of_questions(
    label: QuestionLabel, answers: QuestionAnswers, asked: Sequence[Again], how: AuditOptions
) -> list[Finding]:
    """The findings of answers to questions."""
    tests = {
        "questions": questions_answered(answers),
        "matches": matching_patterns(answers),
        REPLACEMENTS: other_members(answers),
        INPUTS: answers_by_record(answers),
        IN_A_ROW: add_neighbours(Worst(), answers.noise, answers.agreement, answers.layout),
        TWO_RUNS: add_repeats(Worst(), answers.noise, answers.agreement, answers.layout),
    }
    families = [cells for cells in (list(pattern_events(answers)), list(answer_events(answers))) if cells]
    return [
        bounds.total_bound(families, label.epsilon, how.level),
        *(Finding.of_tests(name, worst, how.level) for name, worst in tests.items()),
        _again([asked_twice(label, again, once=how.once) for again in asked], how),
    ]


def _of_records(label: Label, answers: Answers, asked: Sequence[Again], how: AuditOptions) -> list[Finding]:
    """The findings of randomized records."""
    tests = {
        CHANGES: changes_together(label, answers),
        REPLACEMENTS: replacements(label, answers),
        INPUTS: true_values(label, answers),
        IN_A_ROW: records_in_a_row(label, answers),
        TWO_RUNS: noise_that_repeats(label, answers),
        TURNS: true_records_in_turns(label, answers),
    }
    return [
        bounds.total_epsilon(label, answers, how.level),
        bounds.conditional_epsilons(label, answers, how.level),
        bounds.attribute_epsilons(label, answers, how.level),
        *(Finding.of_tests(name, worst, how.level) for name, worst in tests.items()),
        _again([Repeated.of(label, again, once=how.once) for again in asked], how),
    ]


def _asked_twice(
    client: AuditedClient, layout: RecordKinds, runs: Sequence[Questions], codes: Sequence[Codes]
) -> list[Again]:
    """First and second answers of the same people, half of whose records have changed: within the runs, and after a restart.

    A client that outlives a run, or starts again, is asked once more in a third run.
    """
    first, second = slice(0, layout.again), slice(layout.once, layout.rows)

    def joined(parts: Sequence[Codes], rows: slice) -> Codes:
        return np.concatenate([part[rows] for part in parts])

    records = [asked.records for asked in runs]
    within = Again((joined(records, first), joined(records, second)), (joined(codes, first), joined(codes, second)))
    if not client.lasting:
        return [within]
    later = Questions(runs[0].people[second], runs[0].records[second])
    answers = client.answers([later])[0]
    return [within, Again((records[0][first], later.records), (codes[0][first], answers), " after a restart")]


def _again(asked: Sequence[Repeated], how: AuditOptions) -> Finding:
    worst = Worst()
    for repeated in asked:
        repeated.test(worst, once=how.once)
    finding = Finding.of_tests(AGAIN, worst, how.level)
    if finding.violates:
        return finding
    said = ", ".join(f"{_given(repeated)}{repeated.when}" for repeated in asked)
    return replace(finding, says=f"{asked[0].people} people who were asked again got {said}")


def _given(repeated: Repeated) -> str:
    if repeated.remembered:
        return "the same answer, by memory or by noise that is made from who they are and what they answer"
    if repeated.same == repeated.people:
        return "the same answer, which chance alone may do: ask more"
    return "a fresh answer: each is a release, and its epsilon adds up"
