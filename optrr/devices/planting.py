"""Plant records of invented people with a client, and read its answers.

An audit asks in two runs, processes that start at the same time. Each run asks, in this order:

- **alike**: records that both runs share at the same places, so that noise made from the record or from a clock repeats;
- **random**: records drawn uniformly and independently. The bound of ε rests on these (:mod:`optrr.devices.epsilon_bounds`);
- **again**: people of the first part, half of them with the same record, half with another.

Lines between an auditor and a client are JSON in UTF-8, one record each. A client reads
``{"person": 17, "values": ["F", null]}``: the texts of the record's categories in the label's order, null for the missing
value. It answers with the randomized record in the same form, as an object with ``values`` (such as the reports of
docs/deployment-format.md) or as a list alone. Other keys of the object are ignored.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from optrr.core.domain import Domain, category_text
from optrr.core.errors import InvalidInput
from optrr.core.provenance import MALFORMED
from optrr_solvers.arrays import IntArray
from optrr_solvers.randomness import RandomState, as_source, bounded

Codes: TypeAlias = NDArray[np.integer]
# Shares of a run, and the maximum number of people who are asked again.
_ALIKE, _AGAIN = 0.1, 0.05
_MOST_AGAIN = 200
# People of the second run have the numbers of the first plus a multiple of this: seeds of up to 16 bits that a client makes
# from a person's number repeat in the second run.
_NUMBERS = 1 << 16
# Minimum number of queries of an audit.
FEWEST = 200
# Codes that an audit holds at once, in three arrays; records of many attributes are asked less often.
MOST_CELLS = 1 << 26


@dataclass(frozen=True)
class PlantedRecords:
    """How many records of a run are of each kind."""

    alike: int
    random: int
    again: int

    @classmethod
    def of(cls, queries: int, width: int) -> "PlantedRecords":
        """Divide this many queries between two runs; ask fewer where records are wide.

        Raises InvalidInput for fewer than 200 queries.
        """
        if queries < FEWEST:
            raise InvalidInput(f"``n``: {queries} queries are too few for an audit; use at least {FEWEST}")
        each = max(FEWEST, min(queries, MOST_CELLS // width)) // 2
        alike, again = int(_ALIKE * each), min(_MOST_AGAIN, int(_AGAIN * each))
        return cls(alike, each - alike - again, again)

    @property
    def once(self) -> int:
        """Records of different people in a run."""
        return self.alike + self.random

    @property
    def rows(self) -> int:
        """All records of a run."""
        return self.once + self.again

    @property
    def runs(self) -> tuple[slice, slice]:
        """Different people of each run, if the second run's stand behind the first's."""
        return slice(0, self.once), slice(self.once, 2 * self.once)

    @property
    def parts(self) -> tuple[slice, slice, slice]:
        """Rows of uniform records in three parts.

        They order events, choose among them and bound ε: half a run, half a run, a run.
        """
        first, second = (slice(run.start + self.alike, run.stop) for run in self.runs)
        middle = (first.start + first.stop) // 2
        return slice(first.start, middle), slice(middle, first.stop), second


@dataclass(frozen=True, eq=False)
class Run:
    """People by number, shape (n,), and their records as codes, shape (n, m)."""

    people: IntArray
    records: Codes


def planned(layout: PlantedRecords, sizes: IntArray, random_state: RandomState = None) -> list[Run]:
    """Draw the records of both runs."""
    source = as_source(random_state)
    kind = np.min_scalar_type(int(sizes.max()))

    def uniform(rows: int) -> Codes:
        out = np.empty((rows, sizes.size), dtype=kind)
        for i, r in enumerate(sizes.tolist()):
            out[:, i] = bounded(source, rows, r)
        return out

    alike, same, runs = uniform(layout.alike), layout.again // 2, []
    for run in range(2):
        # the second half gets the record of the previous person
        again = np.concatenate([alike[:same], np.roll(alike, 1, axis=0)[same : layout.again]])
        people = np.arange(layout.once) + run * _NUMBERS * -(-layout.once // _NUMBERS)
        records = np.concatenate([alike, uniform(layout.random), again])
        runs.append(Run(np.concatenate([people, people[: layout.again]]), records))
    return runs


Value = str | int | float | bool | None


class _Answer(msgspec.Struct):
    values: list[Value]


def asked_lines(run: Run, domain: Domain) -> Iterator[bytes]:
    """Yield one line for each record, without its line feed."""
    texts = [[msgspec.json.encode(text) for text in a.texts] for a in domain]
    for person, record in zip(run.people.tolist(), run.records.tolist(), strict=True):
        values = b",".join([known[code] for known, code in zip(texts, record, strict=True)])
        yield b'{"person":%d,"values":[%b]}' % (person, values)


def read_answers(lines: Sequence[bytes], count: int, name: str, kind: Any, form: str) -> Iterator[Any]:
    """Yield the answers of ``count`` lines of JSON, each of this kind.

    Raises InvalidInput if there are more or fewer lines, or a line has another ``form``; the message shows nothing of it.
    """
    answers = [line for line in lines if line.strip()]
    if len(answers) != count:
        raise InvalidInput(f"{name} answered {len(answers)} of {count} records; it must answer each with one line")
    decode = msgspec.json.Decoder(kind).decode
    for row, line in enumerate(answers, 1):
        try:
            yield decode(line)
        except MALFORMED:
            raise InvalidInput(f"{name}: line {row} is not an answer; write {form}") from None


def answered_codes(lines: Sequence[bytes], domain: Domain, count: int, name: str) -> Codes:
    """Read the answers' codes, shape (count, m); −1 for undeclared values.

    Raises InvalidInput as :func:`read_answers`.
    """
    out, known = np.empty((count, domain.m), dtype=np.int32), [a.codes for a in domain]
    form = '{"values": […]} with one value for each attribute'
    for row, answer in enumerate(read_answers(lines, count, name, list[Value] | _Answer, form)):
        values = answer.values if isinstance(answer, _Answer) else answer
        if len(values) != domain.m:
            raise InvalidInput(f"{name}: line {row + 1} has {len(values)} values for {domain.m} attributes")
        out[row] = [codes.get(category_text(v), -1) for codes, v in zip(known, values, strict=True)]
    return out
