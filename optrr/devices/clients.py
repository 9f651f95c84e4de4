"""Clients that an auditor can ask: our own randomizer, any function, a command, the log of a page.

Every run of a client is a process of its own, and both runs start at the same time: what they share (a seed, a clock, a
source of random bits from before a fork) shows as answers that resemble each other.

What is asked: records planted for people who do not exist, in two runs that start at the same time.

Each run asks, in this order:

- **alike**: records that both runs share, at the same places, so that noise made from the record or from a clock shows;
- **random**: records drawn uniformly and afresh, from which the worst events are found in the first run and bounded in the
  second. Averaged over uniform records, a set of answers counted by how they differ from the record has a probability
  between the smallest and the largest of a single pair of record and answer; that is what bounds ε from below;
- **corners**: every attribute at its first or its last category;
- **again**: people of the first part, half of them with the same record, half with another.

What came back: true codes and noise, and which rows are of which part of a run.

The noise of an attribute is (answer − record) mod r: 0 where it is kept. Under any label it has the same law whatever the
record is, so that everything a right client may do is said by the law of independent noise.

Lines between an auditor and a client are JSON, one record each, in UTF-8. A question is
``{"person": 17, "values": ["F", null]}``: the texts of the record's categories in the label's order, null for the missing
value. An answer has the randomized record in the same form, as an object with ``values`` (such as the reports of
docs/deployment-format.md) or as a list alone; whatever else the object holds is not looked at.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from optrr.devices.label import Codes, Label, QuestionLabel, Value, answered_codes
from optrr.domain.domain import Domain
from optrr.errors import InvalidInput, in_one_line
from optrr.records.whole_files import whole_file
from optrr_solvers.arrays import IntArray
from optrr_solvers.randomness import RandomState, as_source, bounded

# Shares of a run, and the most people who are asked again.
_ALIKE, _CORNERS, _AGAIN = 0.1, 0.1, 0.05
_MOST_AGAIN = 200
# The second run's people have the first run's numbers and a multiple of this more: seeds of up to 16 bits that are made from
# the number meet again in it.
_NUMBERS = 1 << 16
# Fewer queries could show nothing.
FEWEST = 200
# Codes that one audit holds at once, three arrays of them; records of many attributes are asked less often.
MOST_CELLS = 1 << 26


@dataclass(frozen=True)
class RecordKinds:
    """How many records of a run are of each kind."""

    alike: int
    random: int
    corners: int
    again: int

    @classmethod
    def of(cls, queries: int, m: int) -> RecordKinds:
        """The layout of each of two runs with this many queries in all, fewer where records are wide.

        Raises InvalidInput for fewer than 200 queries.
        """
        if queries < FEWEST:
            raise InvalidInput(f"{queries} queries show nothing; ask at least {FEWEST}")
        each = max(FEWEST, min(queries, MOST_CELLS // m)) // 2
        alike, corners, again = int(_ALIKE * each), int(_CORNERS * each), min(_MOST_AGAIN, int(_AGAIN * each))
        return cls(alike, each - alike - corners - again, corners, again)

    @property
    def once(self) -> int:
        """Records of different people in a run."""
        return self.alike + self.random + self.corners

    @property
    def rows(self) -> int:
        """All records of a run."""
        return self.once + self.again

    @property
    def runs(self) -> tuple[slice, slice]:
        """Different people of each run, where the first run's stand before the second's."""
        return slice(0, self.once), slice(self.once, 2 * self.once)

    @property
    def uniform(self) -> tuple[slice, slice]:
        """Those of them whose records are uniform and independent of everything else."""
        first, second = (slice(r.start + self.alike, r.start + self.alike + self.random) for r in self.runs)
        return first, second

    @property
    def parts(self) -> tuple[slice, slice, slice]:
        """Rows that order, choose and bound: halves of the first run's uniform records, and the second's."""
        first, second = self.uniform
        middle = (first.start + first.stop) // 2
        return slice(first.start, middle), slice(middle, first.stop), second


@dataclass(frozen=True, eq=False)
class Questions:
    """People by number, shape (n,), and their records as codes, shape (n, m)."""

    people: IntArray
    records: Codes


def planned(layout: RecordKinds, sizes: IntArray, random_state: RandomState = None) -> list[Questions]:
    """The questions of both runs."""
    source = as_source(random_state)

    kind = np.min_scalar_type(int(sizes.max()))

    def uniform(rows: int, bounds: IntArray) -> Codes:
        out = np.empty((rows, sizes.size), dtype=kind)
        for i, r in enumerate(bounds.tolist()):
            out[:, i] = bounded(source, rows, r)
        return out

    alike = uniform(layout.alike, sizes)
    runs = []
    for run in range(2):
        corners = uniform(layout.corners, np.full(sizes.size, 2)) * (sizes - 1).astype(kind)
        once = np.concatenate([alike, uniform(layout.random, sizes), corners])
        same = layout.again // 2
        # the second half answers with somebody else's record: the one of the person before
        again = np.concatenate([alike[:same], np.roll(alike, 1, axis=0)[same : layout.again]])
        people = np.arange(layout.once) + run * _NUMBERS * -(-layout.once // _NUMBERS)
        runs.append(Questions(np.concatenate([people, people[: layout.again]]), np.concatenate([once, again])))
    return runs


BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Answers:
    """Records and noise of different people, shape (m, n), the first run's before the second's."""

    sizes: IntArray
    layout: RecordKinds
    records: Codes
    noise: Codes

    @classmethod
    def of(cls, sizes: IntArray, layout: RecordKinds, runs: Sequence[Questions], codes: Sequence[Codes]) -> Answers:
        """From the questions and the valid codes of the answers; those who are asked again are left out."""
        records = np.concatenate([asked.records[: layout.once] for asked in runs]).T
        answers = np.concatenate([c[: layout.once] for c in codes]).T
        noise = np.empty(records.shape, dtype=np.min_scalar_type(int(sizes.max())))
        for i, r in enumerate(sizes.tolist()):
            noise[i] = (answers[i].astype(np.int64) - records[i]) % r
        return cls(sizes, layout, np.ascontiguousarray(records.astype(noise.dtype)), noise)

    @property
    def count(self) -> int:
        """All records."""
        return int(self.noise.shape[1])

    @cached_property
    def changed(self) -> BoolArray:
        """Whether an attribute differs from the record, shape (m, n)."""
        return np.asarray(self.noise != 0)

    def reported(self, i: int, rows: slice = slice(None)) -> IntArray:
        """The answers' codes of one attribute."""
        return np.asarray((self.records[i, rows].astype(np.int64) + self.noise[i, rows]) % self.sizes[i])

    def pattern(self, chosen: Sequence[int], rows: slice = slice(None)) -> IntArray:
        """Which of the chosen attributes changed, as a number whose highest bit is the first of them; shape (n,)."""
        out = np.zeros(self.changed[0, rows].size, dtype=np.int64)
        for i in chosen:
            out = (out << 1) | self.changed[i, rows]
        return out


class _Question(msgspec.Struct, forbid_unknown_fields=True):
    person: int
    values: list[Value]


def asked_lines(asked: Questions, domain: Domain) -> Iterator[bytes]:
    """One line for each question, without its line feed."""
    texts = [[msgspec.json.encode(text) for text in a.texts] for a in domain]
    for person, record in zip(asked.people.tolist(), asked.records.tolist(), strict=True):
        values = b",".join([known[code] for known, code in zip(texts, record, strict=True)])
        yield b'{"person":%d,"values":[%b]}' % (person, values)


def plant(path: str | os.PathLike[str], runs: Sequence[Questions], domain: Domain) -> None:
    """Write the questions of all runs, one after another, whole or not at all."""
    with whole_file(Path(path)) as partial, partial.open("wb") as file:
        for asked in runs:
            file.writelines(line + b"\n" for line in asked_lines(asked, domain))


def _lines_of(path: str | os.PathLike[str]) -> list[bytes]:
    try:
        return Path(path).read_bytes().splitlines()
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}; check the path") from error


def read_planted(path: str | os.PathLike[str], domain: Domain) -> tuple[RecordKinds, list[Questions]]:
    """The questions that :func:`plant` wrote for two runs.

    Raises InvalidInput where the file is not such a one, or was planted for another label.
    """
    lines = _lines_of(path)
    layout = RecordKinds.of(len(lines), domain.m)
    if 2 * layout.rows != len(lines):
        raise InvalidInput(f"{path} has {len(lines)} lines; give the whole file that --plant wrote")
    decode = msgspec.json.Decoder(_Question).decode
    try:
        people = np.array([decode(line).person for line in lines], dtype=np.int64)
    except (msgspec.DecodeError, OverflowError, UnicodeDecodeError):
        raise InvalidInput(f"{path} holds a line that --plant did not write; plant again") from None
    codes = answered_codes(lines, domain, len(lines), str(path))
    if (codes < 0).any():
        raise InvalidInput(f"{path} holds values that this label does not declare; plant for this label")
    halves = zip(np.split(people, 2), np.split(codes, 2), strict=True)
    return layout, [Questions(p, c) for p, c in halves]


# Characters of a command's last words that an error shows.
_LAST_WORDS = 200


class AuditedClient(Protocol):
    """Turns records into randomized records."""

    @property
    def name(self) -> str:
        """What the findings call it."""
        ...

    @property
    def lasting(self) -> bool:
        """Whether what it remembers of people may outlast a run."""
        ...

    def answers(self, runs: Sequence[Questions]) -> list[Codes]:
        """Codes of the answers of every run, shape (n, m) each; −1 for what is none of the categories.

        Raises InvalidInput where the client fails, or does not answer every question once.
        """
        ...


Answering = Callable[[IntArray, Codes], Codes]


@dataclass(frozen=True)
class FunctionClient:
    """A Python function of people's numbers, shape (n,), and codes, shape (n, m), asked in forked processes.

    The function is called once in the parent first, with the first record of each run, so that a source which it keeps is
    there before the fork. ``width`` is the number of codes of an answer, where it is not that of a record.
    """

    function: Answering
    name: str = "function"
    width: int | None = None
    lasting: ClassVar[bool] = False

    def answers(self, runs: Sequence[Questions]) -> list[Codes]:
        """As of :class:`AuditedClient`."""
        for asked in runs:
            self.function(asked.people[:1].copy(), asked.records[:1].copy())
        context = multiprocessing.get_context("fork")
        out = []
        with ExitStack() as stack:
            started = [stack.enter_context(_Child(context, self.function, asked)) for asked in runs]
            for child, asked in zip(started, runs, strict=True):
                shape = (asked.people.size, self.width or asked.records.shape[1])
                codes = np.asarray(child.result())
                if codes.shape != shape or not np.issubdtype(codes.dtype, np.integer):
                    raise InvalidInput(
                        f"{self.name} answered an array of shape {codes.shape} and type {codes.dtype}; "
                        f"return integers of shape {shape}"
                    )
                out.append(codes)
        return out


class _Child:
    """A forked process that answers one run."""

    def __init__(self, context: Any, function: Answering, asked: Questions) -> None:
        self._ours, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_answer, args=(theirs, function, asked), daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *_: object) -> None:
        self._ours.close()
        self._process.terminate()
        self._process.join()

    def result(self) -> Any:
        try:
            answer = self._ours.recv()
        except EOFError:
            answer = "it ended without an answer"
        if isinstance(answer, str):
            raise InvalidInput(f"the client failed: {answer}")
        return answer


def _answer(pipe: Connection, function: Answering, asked: Questions) -> None:
    try:
        pipe.send(function(asked.people, asked.records.copy()))
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {in_one_line(error)}")


def own_client(label: Label) -> FunctionClient:
    """Our own randomizer of the label's law."""

    def answer(_people: IntArray, records: Codes) -> Codes:
        label.randomize(records)
        return records

    return FunctionClient(answer, "optrr's own randomizer")


@dataclass(frozen=True)
class CommandClient:
    """A program and its arguments, which reads lines from standard input and answers each with a line.

    ``each``: it is started anew for every record, with its line alone, for clients that answer one record and end. ``seconds``
    are what a process may take.
    """

    arguments: Sequence[str]
    label: Label | QuestionLabel
    each: bool = False
    seconds: float | None = None
    lasting: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The program."""
        return self.arguments[0]

    def answers(self, runs: Sequence[Questions]) -> list[Codes]:
        """As of :class:`AuditedClient`."""
        with ThreadPoolExecutor(len(runs)) as pool:
            return list(pool.map(self._run, runs))

    def _run(self, asked: Questions) -> Codes:
        lines = list(asked_lines(asked, self.label.domain))
        told = [line + b"\n" for line in lines] if self.each else [b"".join(line + b"\n" for line in lines)]
        # an answer may lack its line feed; empty lines are passed over
        said = b"\n".join(map(self._said, told))
        return self.label.read(said.splitlines(), len(lines), self.name)

    def _said(self, text: bytes) -> bytes:
        try:
            done = subprocess.run(
                list(self.arguments), input=text, capture_output=True, timeout=self.seconds, check=False
            )
        except OSError as error:
            raise InvalidInput(
                f"cannot start {self.name!r}: {error.strerror}; name a program that can be run"
            ) from error
        except subprocess.TimeoutExpired as error:
            raise InvalidInput(f"{self.name!r} took more than {self.seconds:g} s; allow more, or ask less") from error
        if done.returncode:
            words = in_one_line(done.stderr.decode("utf-8", "replace"))[-_LAST_WORDS:]
            raise InvalidInput(f"{self.name!r} ended with code {done.returncode}: {words!r}")
        return done.stdout


@dataclass(frozen=True)
class LogClient:
    """Answers that were logged elsewhere: one line for each planted record, in their order."""

    received: str | os.PathLike[str]
    label: Label | QuestionLabel
    lasting: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """The log."""
        return str(self.received)

    def answers(self, runs: Sequence[Questions]) -> list[Codes]:
        """As of :class:`AuditedClient`."""
        ends = np.cumsum([asked.people.size for asked in runs])
        return np.split(self.label.read(_lines_of(self.received), int(ends[-1]), self.name), ends[:-1])
