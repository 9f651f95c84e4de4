"""Compute the points of questions in a background thread, so that a page responds while allocations take seconds.

The point of the current total comes first, then the ladder of totals outward from it. A point depends on the question
alone, not on timing. If the question changes, or a slider stops at another total, the running allocation is abandoned.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from optrr.allocation.allocating import Allocation
from optrr.core.errors import OptrrError, in_one_line
from optrr.planner.preview import LADDER, Point, allocated, point
from optrr.planner.question import MOST_PEOPLE, Question

# Number of cached allocations (a ladder and a few more), so that another protocol is shown at once.
_ALLOCATIONS = 2 * len(LADDER)
# Number of questions whose points are cached, for switching back and forth.
_QUESTIONS = 8


def key_of(question: Question) -> tuple[Hashable, str | None]:
    """Return what determines a question's points: its allocation and protocol, without texts, n and prior."""
    domain, learn = question.domain, question.wanted
    public = repr(question.specification.public)
    return (domain.names, tuple(domain.sizes.tolist()), learn.name, learn.tables, question.keep, public), question.way


class Superseded(Exception):
    """Another allocation comes first, so this one is given up."""


# Function that computes the point of a question; it calls its second argument repeatedly, which may raise Superseded.
Computing = Callable[[Question, Callable[[], None]], Point]


class Points:
    """Computes points; allocations are kept, and serve every protocol."""

    def __init__(self) -> None:
        self._allocations: OrderedDict[Hashable, Allocation] = OrderedDict()

    def __call__(self, question: Question, proceed: Callable[[], None]) -> Point:
        """Compute the question's point; raise as :func:`optrr.allocate` does, and as ``proceed``."""
        key = key_of(question)[0], question.total
        if key not in self._allocations:
            self._allocations[key] = allocated(replace(question, way=None), lambda *_: proceed())
            if len(self._allocations) > _ALLOCATIONS:
                self._allocations.popitem(last=False)
        return point(question, self._allocations[key].choosing(question.way))


class Known(NamedTuple):
    """Results so far: points by their totals, ``done`` of them of the curve, and why the question's own one has none."""

    points: tuple[Point, ...]
    done: int
    error: str | None
    busy: bool
    of: int = len(LADDER)


@dataclass
class _Asked:
    """One question with its points, or errors in one line, by total; ``wanted`` is requested besides the ladder."""

    question: Question
    wanted: float
    found: dict[float, Point | str] = field(default_factory=dict)

    def next(self) -> Question | None:
        """Return the question at the next total: wanted, then the ladder outward; None if all are there."""
        outward = sorted(LADDER, key=lambda rung: max(rung / self.wanted, self.wanted / rung))
        total = next((t for t in (self.wanted, *outward) if t not in self.found), None)
        return None if total is None else self.question.at(total)


class PlanWork:
    """Points of the last question, computed in the background; thread-safe."""

    def __init__(self, computing: Computing | None = None) -> None:
        self._computing = computing or Points()
        self._changed = threading.Condition()
        self._asked: OrderedDict[Hashable, _Asked] = OrderedDict()
        self._given_up: set[Hashable] = set()
        self._closed = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def ask(self, question: Question, rests: bool = True) -> Known:
        """Return known results, and request the missing ones, the total's own first if it ``rests``."""
        key = key_of(question)
        with self._changed:
            # any n will do: numbers of people belong to the preview, not to the point
            asked = self._asked.setdefault(key, _Asked(replace(question, n=MOST_PEOPLE), question.total))
            self._asked.move_to_end(key)
            if rests:
                asked.wanted = question.total
            if len(self._asked) > _QUESTIONS:
                self._asked.popitem(last=False)
            self._changed.notify_all()
            points = tuple(found for _, found in sorted(asked.found.items()) if isinstance(found, Point))
            error = found if isinstance(found := asked.found.get(question.total), str) else None
            return Known(points, sum(rung in asked.found for rung in LADDER), error, asked.next() is not None)

    def close(self) -> None:
        """Stop the computation in the background."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _last(self) -> _Asked | None:
        """Return the last question, if points of it are missing."""
        asked = next(reversed(self._asked.values()), None)
        return asked if asked is not None and asked.next() is not None else None

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._last() is not None)
                asked = self._last()
                question = None if asked is None else asked.next()
            if self._closed or asked is None or question is None:
                return
            found: Point | str
            try:
                found = self._computing(question, partial(self._proceed, question))
            except Superseded:
                continue
            except OptrrError as error:
                found = in_one_line(error)
            except Exception as error:
                found = f"the computation failed: {type(error).__name__}: {in_one_line(error)}; please report this"
            with self._changed:
                asked.found[question.total] = found

    def _proceed(self, question: Question) -> None:
        """Raise Superseded if the next job needs another allocation.

        Questions that differ only in the protocol share one allocation. An allocation is given up at most once: two
        pages that ask in turn would keep both from ever ending.
        """
        key = key_of(question)[0], question.total
        with self._changed:
            asked = self._last()
            job = None if asked is None else asked.next()
            if self._closed or (key not in self._given_up and (job is None or (key_of(job)[0], job.total) != key)):
                self._given_up.add(key)
                raise Superseded
