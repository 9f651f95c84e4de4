"""A process that computes the points of questions, one after the other, and can be stopped.

It is this module as a program, and not a child of Python's multiprocessing, which would run the caller's script once more.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import replace
from typing import BinaryIO, Protocol

from optrr.budgets.allocate import Allocation
from optrr.errors import OptrrError, in_one_line
from optrr.plans.preview import LADDER, Point, allocated, point
from optrr.plans.question import Question

# Allocations that the process keeps, so that another way of asking is seen at once: those of a ladder, and some beside it.
_ALLOCATIONS = 2 * len(LADDER)
_ENDED = "the computation ended by itself, perhaps for want of memory; ask for fewer attributes or tables"


class Computing(Protocol):
    """What computes one point after the other."""

    def ticket(self) -> int:
        """Admits to one computation, until the next stop."""
        ...

    def point(self, question: Question, ticket: int) -> Point | str:
        """The point of the question's total, or why there is none, in one line; anything where it was stopped."""
        ...

    def stop(self) -> None:
        """Give up what is computed just now or was about to be, from any thread."""
        ...


def key_of(question: Question) -> Hashable:
    """What decides the points of a question: not its texts, nor what only reads them (n, prior, releases, margin)."""
    domain, public = question.domain, repr(question.specification.public)
    learn = question.learn.name, question.learn.tables
    return (domain.names, tuple(domain.sizes.tolist()), learn, question.keep, public), question.way


def but_way(key: object) -> object:
    """The part of a key that decides the allocation, which serves every way of asking."""
    return key[0] if isinstance(key, tuple) else None


class ComputingProcess:
    """A process that computes points; started when it is needed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._stops = 0

    def ticket(self) -> int:
        """As of :class:`Computing`."""
        with self._lock:
            return self._stops

    def point(self, question: Question, ticket: int) -> Point | str:
        """As of :class:`Computing`."""
        process = self._started(ticket)
        if process is None:
            return _ENDED
        assert process.stdin is not None and process.stdout is not None
        try:
            pickle.dump(question, process.stdin)
            process.stdin.flush()
            outcome: Point | str = pickle.load(process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            self._end(process)
            return _ENDED
        return outcome

    def stop(self) -> None:
        """As of :class:`Computing`."""
        with self._lock:
            self._stops += 1
            process = self._process
        if process is not None:
            self._end(process)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        with self._lock:
            if self._process is process:
                self._process = None
        process.kill()
        process.wait()

    def _started(self, ticket: int) -> subprocess.Popen[bytes] | None:
        """The process; None where everything was stopped since the ticket was given out."""
        with self._lock:
            if ticket != self._stops:
                return None
            if self._process is None:
                code = "from optrr.plans.computing import compute; compute()"
                # the same modules as here, whatever was added to the path
                path = os.pathsep.join(filter(None, sys.path))
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", code],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env={**os.environ, "PYTHONPATH": path},
                )
            return self._process


def compute() -> None:
    """The process: questions come in, and points or one line go out, until nothing more comes."""
    # an interrupt is meant for whoever started this, and ends it by and by
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # a solver that prints would otherwise print into the answers
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    allocations: OrderedDict[Hashable, Allocation] = OrderedDict()
    while (question := _received(sys.stdin.buffer)) is not None:
        pickle.dump(outcome_of(question, allocations), answers)
        answers.flush()


def outcome_of(question: Question, allocations: OrderedDict[Hashable, Allocation]) -> Point | str:
    """The question's point, or in one line why there is none; allocations are kept, and serve every way of asking."""
    key = but_way(key_of(question)), question.total
    try:
        if key not in allocations:
            allocations[key] = allocated(replace(question, way=None))
            if len(allocations) > _ALLOCATIONS:
                allocations.popitem(last=False)
        made = allocations[key]
        return point(question, made if question.way is None else made.choosing(question.way))
    except OptrrError as error:
        return in_one_line(error)


def _received(questions: BinaryIO) -> Question | None:
    try:
        received = pickle.load(questions)
    except EOFError:
        return None
    assert isinstance(received, Question)
    return received
