"""Test a client from outside against its label: a design or deployment file.

Four checks have an equal share of the level: joint flips, replacements, repeats and lags, and a lower bound of the total ε.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import msgspec
import numpy as np

from optrr.core.errors import InvalidInput
from optrr.devices.audit_checks import AskedAgain, Evidence, lags_and_shifts, tested
from optrr.devices.clients import Answering, AuditedClient, FunctionClient, LogClient, own_client
from optrr.devices.epsilon_bounds import total_bound
from optrr.devices.label import Labelling, label_of
from optrr.devices.planting import Codes, PlantedRecords, Run, planned, read_planted
from optrr.devices.query_audit import QueryLabel
from optrr.devices.record_audit import Label
from optrr.devices.result import FLIPS, REPEATS, REPLACEMENTS, Audit, Finding, Worst, at_least
from optrr_solvers.arrays import IntArray

# A function that answers queries: people's numbers and codes to one object with table and cells for each.
Replying: TypeAlias = Callable[[IntArray, Codes], Sequence[Any]]
QUERIES = 100_000
LEVEL = 1e-6
# Planted records that are this unlikely to be uniform were not drawn by us.
_NOT_UNIFORM = 1e-9
# Attributes of more categories are not tested for uniform planting.
_MOST_CATEGORIES = 256


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
    planted
        the file of records that were planted already (``optrr audit --plant``), which a log answers; ``queries`` is
        then ignored.

    Raises
    ------
    InvalidInput
        for a level outside (0, 1).
    """

    queries: int = QUERIES
    level: float = LEVEL
    once: bool = False
    planted: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise InvalidInput(f"a level of {self.level} is no probability of a false alarm; give one between 0 and 1")


def audit(
    label: Labelling, client: AuditedClient | Answering | Replying | None = None, options: AuditOptions | None = None
) -> Audit:
    """Ask a client planted records, and test its answers against the label by exact tests.

    Parameters
    ----------
    label
        a design, its mechanism, a deployment, a file of a design or deployment, or what :func:`label_of` made of one.
    client
        the client to ask: a function of people's numbers, shape (n,), and codes, shape (n, m), to codes, or to objects with
        ``table`` and ``cells`` for a file of queries, which is run in two forked processes; a client of
        :mod:`optrr.devices.clients`; by default our own randomizer of records.

    Returns
    -------
    Audit
        ``holds`` is false with probability at most the level if the client does what its label says. That it holds is no
        proof: the bound shows how much so many queries can see.

    Raises
    ------
    InvalidInput
        if the label does not hold by itself, or the client fails.
    """
    how, promised = options or AuditOptions(), label_of(label)
    client = _asked_client(promised, client)
    if how.planted is not None:
        layout, runs = read_planted(how.planted, promised.domain)
    elif isinstance(client, LogClient):
        raise InvalidInput("a log answers records that were planted before; name their file in AuditOptions(planted=…)")
    else:
        layout = PlantedRecords.of(how.queries, max(promised.width, promised.domain.m))
        runs = planned(layout, promised.sizes)
    codes = client.answers(runs)
    asked = _asked_again(client, layout, runs, codes)

    def result(findings: Sequence[Finding]) -> Audit:
        return Audit(client.name, 2 * layout.rows, how.level, promised.epsilon, tuple(findings))

    foreign = sum(promised.foreign(c) for c in codes)
    if foreign:
        says = f"{foreign} of {2 * layout.rows} answers hold a value outside the label's categories; nothing else is tested"
        return result([Finding("categories", True, says, 0.0)])
    records = np.concatenate([run.records[: layout.once] for run in runs])
    if _uniform(promised.sizes, records, layout) < _NOT_UNIFORM:
        raise InvalidInput("the planted records are not uniformly random; plant those of optrr audit --plant")
    evidence: Evidence = promised.answers(records, np.concatenate([c[: layout.once] for c in codes]))
    return result(
        [
            total_bound(evidence.events(layout.parts), promised.epsilon, how.level),
            Finding.of_tests(FLIPS, tested(evidence.flips()), how.level),
            Finding.of_tests(REPLACEMENTS, tested(evidence.replacements()), how.level),
            _repeats(promised, evidence, layout, asked, how),
        ]
    )


def _asked_client(label: Label | QueryLabel, client: AuditedClient | Answering | Replying | None) -> AuditedClient:
    """The client that is asked: a function as one, and our own randomizer if none is named."""
    if isinstance(label, QueryLabel):
        if client is None:
            raise InvalidInput("a file of queries is drawn by clients only; name one to ask (optrr audit --command)")
        return _replying(label, client) if callable(client) else client
    if client is None:
        return own_client(label)
    return FunctionClient(cast(Answering, client)) if callable(client) else client


def _replying(label: QueryLabel, function: Any) -> FunctionClient:
    """A function that answers queries with objects."""

    def answer(people: IntArray, records: Codes) -> Codes:
        lines = [msgspec.json.encode(reply) for reply in function(people, records)]
        return label.read(lines, people.size, "function")

    return FunctionClient(answer, width=label.width)


def _uniform(sizes: IntArray, records: Codes, layout: PlantedRecords) -> float:
    """Compute a p-value for uniform planted records, on which the bound of ε rests."""
    worst = Worst()
    for rows in (slice(run.start + layout.alike, run.stop) for run in layout.runs):
        for i, r in enumerate(sizes.tolist()):
            if r <= _MOST_CATEGORIES:
                most = np.bincount(records[rows, i], minlength=r).max()
                worst.add(2 * at_least(most, layout.random, 1 / r) * r, lambda _: "")
    return worst.adjusted


def _asked_again(
    client: AuditedClient, layout: PlantedRecords, runs: Sequence[Run], codes: Sequence[Codes]
) -> list[AskedAgain]:
    """First and second answers of the same people: within the runs, and after a restart.

    A client that may remember people beyond a run is asked once more in a third run.
    """
    first, second = slice(0, layout.again), slice(layout.once, layout.rows)

    def joined(parts: Sequence[Codes], rows: slice) -> Codes:
        return np.concatenate([part[rows] for part in parts])

    records = [run.records for run in runs]
    within = AskedAgain(
        (joined(records, first), joined(records, second)), (joined(codes, first), joined(codes, second))
    )
    if not client.lasting:
        return [within]
    later = Run(runs[0].people[second], runs[0].records[second])
    answers = client.answers([later])[0]
    return [within, AskedAgain((records[0][first], later.records), (codes[0][first], answers), " after a restart")]


def _repeats(
    label: Label | QueryLabel,
    evidence: Evidence,
    layout: PlantedRecords,
    asked: Sequence[AskedAgain],
    how: AuditOptions,
) -> Finding:
    worst = Worst()
    for fingerprints in evidence.fingerprints():
        lags_and_shifts(worst, fingerprints, layout)
    got = []
    for again in asked:
        both = label.answers(np.concatenate(again.records), np.concatenate(again.answers))
        got.append(again.test(worst, both.fingerprints()[0], once=how.once))
    finding = Finding.of_tests(REPEATS, worst, how.level)
    if finding.violates:
        return finding
    people = asked[0].answers[0].shape[0]
    return replace(finding, says=f"{finding.says}; {people} people who were asked again got {', '.join(got)}")
