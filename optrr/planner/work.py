"""Computes the points of questions in a process of its own, so that a page answers while allocations take seconds.

First comes the point of the present total, then the ladder of totals outward from it. Every point is computed once, and what
is computed depends on the question alone, never on the clock: the order in which totals are asked for decides only which point
is there first.

The process is started anew where another question is asked while it computes: an allocation cannot be interrupted otherwise.
It is this module as a program, and not a child of Python's multiprocessing, which would run the caller's script once more.
"""

import copy
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from optrr.allocation.allocating import Allocation
from optrr.core.errors import OptrrError, in_one_line
from optrr.planner.preview import LADDER, Point, allocated, point
from optrr.planner.question import MOST_PEOPLE, Question

# Allocations that the process keeps, so that another way of asking is seen at once: those of a ladder, and some beside it.
_ALLOCATIONS = 2 * len(LADDER)
# Questions whose points are kept: as many as somebody goes back and forth between.
_QUESTIONS = 8
_FAILED = "the computation failed: {type}: {error}; please report this"
_ENDED = "the computation ended by itself, perhaps for want of memory; ask for fewer attributes or tables"


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
        """Admits to one computation; after the next stop it is another one, and what the old one admitted to has no answer."""
        with self._lock:
            return self._stops

    def point(self, question: Question, ticket: int) -> Point | str:
        """The point of the question's total, or why there is none, in one line; anything where it was stopped."""
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
        except Exception:
            # half a question may have been written
            self._end(process)
            raise
        return outcome

    def stop(self) -> None:
        """Give up what is computed just now or was about to be, from any thread."""
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
                code = "from optrr.planner.work import compute; compute()"
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
    while True:
        try:
            question = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
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
    except Exception as error:
        return _failed(error)


def _failed(error: Exception) -> str:
    return _FAILED.format(type=type(error).__name__, error=in_one_line(error))


@dataclass(frozen=True)
class Known:
    """What is known of a question by now.

    ``points`` are in the order of their totals; ``done`` counts those of ``of`` that are wanted for curves; ``error`` is one
    line where the point of the question's own total cannot be computed; ``busy`` says that more is on its way.
    """

    points: tuple[Point, ...]
    done: int
    of: int
    error: str | None
    busy: bool


@dataclass
class _Asked:
    """One question, with its points and errors by total; ``wanted`` is the total that is asked for beside the ladder."""

    question: Question
    wanted: float
    outcomes: dict[float, Point | str] = field(default_factory=dict)

    def next_total(self) -> float | None:
        """What to compute next: the wanted total, then the ladder outward from it; None where all is there."""
        return next((total for total in (self.wanted, *_outward(self.wanted)) if total not in self.outcomes), None)


def _outward(total: float) -> list[float]:
    """The ladder from its rung nearest to a total."""
    return sorted(LADDER, key=lambda rung: max(rung / total, total / rung))


class PlanWork:
    """Points of the question that was asked last, computed in the background; may be used from several threads."""

    def __init__(self, computing: ComputingProcess | None = None) -> None:
        self._computing = computing or ComputingProcess()
        self._changed = threading.Condition()
        self._asked: OrderedDict[Hashable, _Asked] = OrderedDict()
        # what is computed just now
        self._running: Hashable | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def ask(self, question: Question, rests: bool = True) -> Known:
        """What is known of the question; what is not will be computed.

        ``rests`` says that its total is to stay, so that the exact point is wanted; otherwise only the ladder is, and a total
        that was wanted before and has not begun is dropped.
        """
        key = key_of(question)
        with self._changed:
            # n is any number: what is said of it is said of the preview, not of the point
            if key not in self._asked:
                # a copy of its own: the asker's one remembers properties while the worker writes this one to its process
                own = copy.deepcopy(replace(question, n=MOST_PEOPLE))
                self._asked[key] = _Asked(own, question.total)
            asked = self._asked[key]
            self._asked.move_to_end(key)
            if rests or asked.wanted not in asked.outcomes:
                asked.wanted = question.total if rests else _outward(question.total)[0]
            while len(self._asked) > _QUESTIONS:
                self._asked.popitem(last=False)
            # of another way of asking the same, the allocation that is under way is useful
            if self._running is not None and but_way(self._running) != but_way(key):
                self._computing.stop()
            self._changed.notify_all()
            return self._known(asked, question.total)

    def close(self) -> None:
        """Compute nothing more."""
        with self._changed:
            self._closed = True
            self._computing.stop()
            self._changed.notify_all()
        self._thread.join()

    def _known(self, asked: _Asked, total: float) -> Known:
        points = sorted((p for p in asked.outcomes.values() if isinstance(p, Point)), key=lambda p: p.total)
        own = asked.outcomes.get(total)
        done = sum(rung in asked.outcomes for rung in LADDER)
        error = own if isinstance(own, str) else None
        return Known(tuple(points), done, len(LADDER), error, asked.next_total() is not None)

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._closed and (job := self._next()) is None:
                    self._changed.wait()
                if self._closed:
                    return
                assert job is not None
                self._running, asked, total = job
                ticket = self._computing.ticket()
            try:
                outcome = self._computing.point(asked.question.at(total), ticket)
            except Exception as error:
                outcome = _failed(error)
            with self._changed:
                self._running = None
                # whatever was stopped meanwhile has no answer, even if its question is by now asked again
                if ticket == self._computing.ticket():
                    asked.outcomes[total] = outcome

    def _next(self) -> tuple[Hashable, _Asked, float] | None:
        """The next point of the question that was asked last."""
        if not self._asked:
            return None
        key = next(reversed(self._asked))
        total = self._asked[key].next_total()
        return None if total is None else (key, self._asked[key], total)
