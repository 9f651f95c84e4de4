"""Clients of an audit: the built-in randomizer, any function, or a command.

Each run of a client is a separate process, and both runs start at the same time: shared state (a seed, a clock, a
source of random bits from before a fork) then causes similar answers.
"""

import multiprocessing
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, ClassVar

import numpy as np

from optrr.core.errors import InvalidInput, in_one_line
from optrr.devices.planting import Codes, Run, asked_lines
from optrr.devices.query_audit import QueryLabel
from optrr.devices.record_audit import Label
from optrr_solvers.arrays import IntArray

# Characters of a command's last words that an error shows.
_LAST_WORDS = 200


Answering = Callable[[IntArray, Codes], Codes]


@dataclass(frozen=True)
class FunctionClient:
    """Client that calls a Python function in forked processes.

    Its arguments are people's numbers, shape (n,), and codes, shape (n, m).

    The function is called once in the parent first, with the first record of each run, so that a source which it keeps is
    there before the fork. ``width`` is the number of codes of an answer, where it is not that of a record.
    """

    function: Answering
    name: str = "function"
    width: int | None = None
    lasting: ClassVar[bool] = False

    def answers(self, runs: Sequence[Run]) -> list[Codes]:
        """Return codes of the answers of every run, shape (n, m) each.

        −1 for values that are not categories.
        """
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

    def __init__(self, context: Any, function: Answering, asked: Run) -> None:
        self._ours, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_answer, args=(theirs, function, asked), daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> "_Child":
        return self

    def __exit__(self, *_: object) -> None:
        self._ours.close()
        self._process.terminate()
        self._process.join()

    def result(self) -> Any:
        try:
            answer = self._ours.recv()
        except EOFError:
            answer = "the client ended without an answer"
        if isinstance(answer, str):
            raise InvalidInput(f"the client failed: {answer}")
        return answer


def _answer(pipe: Connection, function: Answering, asked: Run) -> None:
    try:
        pipe.send(function(asked.people, asked.records.copy()))
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {in_one_line(error)}")


def own_client(label: Label) -> FunctionClient:
    """Build a client from our own randomizer of the stated distribution."""

    def answer(_people: IntArray, records: Codes) -> Codes:
        label.randomize(records)
        return records

    return FunctionClient(answer, "optrr's own randomizer")


@dataclass(frozen=True)
class CommandClient:
    """Client that runs a program.

    It reads lines from standard input and answers each with a line.
    """

    arguments: Sequence[str]
    label: Label | QueryLabel
    lasting: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The program."""
        return self.arguments[0]

    def answers(self, runs: Sequence[Run]) -> list[Codes]:
        """Return codes of the answers of every run, shape (n, m) each.

        −1 for values that are not categories.
        """
        with ThreadPoolExecutor(len(runs)) as pool:
            return list(pool.map(self._run, runs))

    def _run(self, asked: Run) -> Codes:
        lines = list(asked_lines(asked, self.label.domain))
        try:
            done = subprocess.run(
                list(self.arguments), input=b"".join(line + b"\n" for line in lines), capture_output=True, check=False
            )
        except OSError as error:
            raise InvalidInput(
                f"cannot start {self.name!r}: {error.strerror}; name a program that can be run"
            ) from error
        if done.returncode:
            words = in_one_line(done.stderr.decode("utf-8", "replace"))[-_LAST_WORDS:]
            raise InvalidInput(f"{self.name!r} ended with code {done.returncode}: {words!r}")
        return self.label.read(done.stdout.splitlines(), len(lines), self.name)
