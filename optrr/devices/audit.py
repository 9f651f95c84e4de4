"""Test a client from outside against its label: a design or deployment file.

Four checks have an equal share of the level: joint flips, replacements, repeats and lags, and a lower bound of the total ε.
"""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast

import msgspec
import numpy as np

from optrr.core.errors import InvalidInput
from optrr.devices.audit_checks import AskedAgain, lags_and_shifts, tested
from optrr.devices.clients import Answering, CommandClient, FunctionClient, own_client
from optrr.devices.epsilon_bounds import total_bound
from optrr.devices.label import Labelling, label_of
from optrr.devices.planting import Codes, PlantedRecords, Run, planned
from optrr.devices.query_audit import QueryAnswers, QueryLabel
from optrr.devices.record_audit import Label, RecordAnswers
from optrr.devices.result import FLIPS, REPEATS, REPLACEMENTS, Audit, Finding, Worst
from optrr_solvers.arrays import IntArray

# A function that answers queries: people's numbers and codes to one object with table and cells for each.
Replying: TypeAlias = Callable[[IntArray, Codes], Sequence[Any]]

# A client to ask: a function, or a command line.
Client: TypeAlias = Answering | Replying | str


def audit(label: Labelling, client: Client | None = None, *, n: int = 100_000, alpha: float = 1e-6) -> Audit:
    """Test a client from outside against its privacy statement.

    The statement is that of a design or a deployment file.

    Parameters
    ----------
    label : Design, Mechanism, Deployment or path-like
        The privacy statement: a design, its mechanism, a deployment, or a file of a design or deployment.
    client : callable or str, optional
        The client to ask. A function takes respondents' numbers, shape (n,), and codes, shape (n, m), and returns codes,
        or for a file of local queries objects with ``table`` and ``cells``; it runs in two forked processes. A string is a
        command that reads lines of JSON and answers each with one line. The default is our own randomizer of records.
    n : int
        Number of records to plant, at least 200; wide records are planted less often.
    alpha : float
        Maximum probability of a false alarm, in (0, 1).

    Returns
    -------
    Audit
        ``holds`` is false with probability at most ``alpha`` if the client keeps its statement. That it holds is no proof: the
        lower bound of ε shows how much so many queries can see.

    Raises
    ------
    InvalidInput
        If the file does not verify, or the client fails.

    Examples
    --------
    >>> import optrr
    >>> design = optrr.design({"smokes": 2, "age": 4}, 1.0)
    >>> optrr.audit(design, n=2000).holds
    True
    """
    if not 0 < alpha < 1:
        raise InvalidInput(f"``alpha`` {alpha}: must be a probability between 0 and 1")
    promised = label_of(label)
    asked_client = _asked_client(promised, client)
    layout = PlantedRecords.of(n, max(promised.width, promised.domain.m))
    runs = planned(layout, promised.sizes)
    codes = asked_client.answers(runs)
    asked = _asked_again(asked_client, layout, runs, codes)

    def result(findings: Sequence[Finding]) -> Audit:
        return Audit(asked_client.name, 2 * layout.rows, alpha, promised.epsilon, tuple(findings))

    foreign = sum(promised.foreign(c) for c in codes)
    if foreign:
        says = (
            f"{foreign} of {2 * layout.rows} answers have a value outside the label's categories; no other check "
            "was run"
        )
        return result([Finding("categories", True, says, 0.0)])
    records = np.concatenate([run.records[: layout.once] for run in runs])
    evidence = promised.answers(records, np.concatenate([c[: layout.once] for c in codes]))
    return result(
        [
            total_bound(evidence.events(layout.parts), promised.epsilon, alpha),
            Finding.of_tests(FLIPS, tested(evidence.flips()), alpha),
            Finding.of_tests(REPLACEMENTS, tested(evidence.replacements()), alpha),
            _repeats(promised, evidence, layout, asked, alpha),
        ]
    )


def _asked_client(label: Label | QueryLabel, client: Client | None) -> FunctionClient | CommandClient:
    """Return the client to query: a function, a command, or our own randomizer."""
    if isinstance(client, str):
        try:
            arguments = shlex.split(client)
        except ValueError as error:
            raise InvalidInput(f"``client`` cannot be split into words: {error}") from error
        if not arguments:
            raise InvalidInput("``client`` is empty; name a program")
        return CommandClient(arguments, label)
    if isinstance(label, QueryLabel):
        if client is None:
            raise InvalidInput("``client`` is missing: only clients answer local queries; name one")
        return _replying(label, client)
    return own_client(label) if client is None else FunctionClient(cast(Answering, client))


def _replying(label: QueryLabel, function: Any) -> FunctionClient:
    """Wrap a function that answers queries with objects."""

    def answer(people: IntArray, records: Codes) -> Codes:
        lines = [msgspec.json.encode(reply) for reply in function(people, records)]
        return label.read(lines, people.size, "function")

    return FunctionClient(answer, width=label.width)


def _asked_again(
    client: FunctionClient | CommandClient, layout: PlantedRecords, runs: Sequence[Run], codes: Sequence[Codes]
) -> list[AskedAgain]:
    """Collect first and second answers of the same people.

    Within the runs, and after a restart.

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
    evidence: RecordAnswers | QueryAnswers,
    layout: PlantedRecords,
    asked: Sequence[AskedAgain],
    alpha: float,
) -> Finding:
    worst = Worst()
    for fingerprints in evidence.fingerprints():
        lags_and_shifts(worst, fingerprints, layout)
    got = []
    for again in asked:
        both = label.answers(np.concatenate(again.records), np.concatenate(again.answers))
        got.append(again.test(worst, both.fingerprints()[0]))
    finding = Finding.of_tests(REPEATS, worst, alpha)
    if finding.violates:
        return finding
    people = asked[0].answers[0].shape[0]
    return replace(finding, says=f"{finding.says}; {people} people who were asked again got {', '.join(got)}")
