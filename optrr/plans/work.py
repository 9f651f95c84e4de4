"""Computes the points of questions in a process of its own, so that a page answers while allocations take seconds.

First comes the point of the present total, then the ladder of totals outward from it. Every point is computed once, and what
is computed depends on the question alone, never on the clock: the order in which totals are asked for decides only which point
is there first.

The process is started anew where another question is asked while it computes: an allocation cannot be interrupted otherwise.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from optrr.plans.computing import Computing, ComputingProcess, but_way, key_of
from optrr.plans.preview import LADDER, Point
from optrr.plans.question import MOST_PEOPLE, Question

# Questions whose points are kept: as many as somebody goes back and forth between.
_QUESTIONS = 8


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
        by_distance = sorted(LADDER, key=lambda total: max(total / self.wanted, self.wanted / total))
        return next((total for total in (self.wanted, *by_distance) if total not in self.outcomes), None)


class PlanWork:
    """Points of the question that was asked last, computed in the background; may be used from several threads."""

    def __init__(self, computing: Computing | None = None) -> None:
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
            asked = self._asked.setdefault(key, _Asked(replace(question, n=MOST_PEOPLE), question.total))
            self._asked.move_to_end(key)
            if rests or asked.wanted not in asked.outcomes:
                asked.wanted = question.total if rests else _nearest_rung(question.total)
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
            outcome = self._computing.point(asked.question.at(total), ticket)
            with self._changed:
                given_up = self._given_up()
                self._running = None
                if not given_up:
                    asked.outcomes[total] = outcome

    def _next(self) -> tuple[Hashable, _Asked, float] | None:
        """The next point of the question that was asked last."""
        if not self._asked:
            return None
        key = next(reversed(self._asked))
        total = self._asked[key].next_total()
        return None if total is None else (key, self._asked[key], total)

    def _given_up(self) -> bool:
        """Whether another question was asked meanwhile: what came is then perhaps no answer."""
        return self._closed or but_way(next(reversed(self._asked))) != but_way(self._running)


def _nearest_rung(total: float) -> float:
    return min(LADDER, key=lambda rung: max(rung / total, total / rung))
