"""The audit of a client against its label: ask, then every check, each with its share of one stated level."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optrr.devices.auditing import bounds
from optrr.devices.auditing.clients import (
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
from optrr.devices.auditing.conformity import changes_together, replacements, true_values, uniformly_planted
from optrr.devices.auditing.independence import (
    Again,
    Repeated,
    noise_that_repeats,
    records_in_a_row,
    true_records_in_turns,
)
from optrr.devices.auditing.label import Codes, Label, Labelling, label_of
from optrr.devices.auditing.result import (
    AGAIN,
    CHANGES,
    DECLARED,
    IN_A_ROW,
    INPUTS,
    REPLACEMENTS,
    SHARING,
    TURNS,
    TWO_RUNS,
    Audit,
    Finding,
    Worst,
)
from optrr.errors import InvalidInput
from optrr_solvers.randomness import RandomState

__all__ = ["AuditOptions", "audit"]

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
    label: Labelling, client: AuditedClient | Answering | None = None, options: AuditOptions | None = None
) -> Audit:
    """Ask a client planted records, and test what it answers against the label by exact tests.

    Parameters
    ----------
    label
        a design, its mechanism, a deployment, a file of a design or deployment, or what :func:`label_of` made of one.
    client
        what is asked: a function of people's numbers, shape (n,), and codes, shape (n, m), to codes, which is run in two
        forked processes; a client of :mod:`optrr.devices.auditing.clients`; by default our own randomizer.

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
    if client is None:
        client = own_client(promised)
    elif callable(client):
        client = FunctionClient(client)
    if how.planted is not None:
        layout, runs = read_planted(how.planted, promised.domain)
    elif isinstance(client, LogClient):
        raise InvalidInput("a log answers records that were planted before; name their file in AuditOptions(planted=…)")
    else:
        layout = RecordKinds.of(how.queries, promised.domain.m)
        runs = planned(layout, promised.sizes, how.random_state)
    return _audited(promised, client, layout, runs, how)


def _audited(
    label: Label, client: AuditedClient, layout: RecordKinds, runs: Sequence[Questions], how: AuditOptions
) -> Audit:
    """The audit of a client that is asked these questions."""
    codes = client.answers(runs)
    asked = _asked_twice(client, layout, runs, codes)

    def result(findings: Sequence[Finding]) -> Audit:
        return Audit(client.name, 2 * layout.rows, how.level, label.epsilon, tuple(findings))

    foreign = sum(int(np.count_nonzero(((c < 0) | (c >= label.sizes)).any(axis=1))) for c in codes)
    if foreign:
        says = f"{foreign} answers of {2 * layout.rows} hold what is none of the label's categories; no more is tested"
        return result([Finding(DECLARED, True, says, 0.0)])
    answers = Answers.of(label.sizes, layout, runs, codes)
    if uniformly_planted(label, answers) < _NOT_UNIFORM:
        raise InvalidInput("the planted records are not uniformly random; plant those of optrr audit --plant")
    repeated = [Repeated.of(label, again, once=how.once) for again in asked]
    tests = {
        CHANGES: changes_together(label, answers),
        REPLACEMENTS: replacements(label, answers),
        INPUTS: true_values(label, answers),
        IN_A_ROW: records_in_a_row(label, answers),
        TWO_RUNS: noise_that_repeats(label, answers),
        TURNS: true_records_in_turns(label, answers),
    }
    return result(
        [
            Finding(DECLARED, False, f"all of {2 * layout.rows} answers hold the label's categories only"),
            bounds.total_epsilon(label, answers, how.level),
            bounds.conditional_epsilons(label, answers, how.level),
            bounds.attribute_epsilons(label, answers, how.level),
            *(Finding.of_tests(name, worst, how.level, len(SHARING)) for name, worst in tests.items()),
            _again(label, repeated, how),
        ]
    )


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


def _again(label: Label, asked: Sequence[Repeated], how: AuditOptions) -> Finding:
    worst = Worst()
    for repeated in asked:
        repeated.test(worst, label, once=how.once)
    finding = Finding.of_tests(AGAIN, worst, how.level, len(SHARING))
    if finding.violates:
        return finding
    said = ", ".join(f"{_given(repeated)}{repeated.when}" for repeated in asked)
    return Finding(
        AGAIN, False, f"{asked[0].people} people who were asked again got {said}", finding.p_value, worst.tests
    )


def _given(repeated: Repeated) -> str:
    if repeated.remembered:
        return "the same answer, by memory or by noise that is made from who they are and what they answer"
    if repeated.same == repeated.people:
        return "the same answer, which chance alone may do: ask more"
    return "a fresh answer: each is a release, and its epsilon adds up"
