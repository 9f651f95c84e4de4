"""Answers to what a plan's page asks: previews while a slider moves, what a wished margin needs, and what was saved."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import msgspec

from optrr.errors import InvalidInput
from optrr.plans.computing import but_way, key_of
from optrr.plans.preview import LADDER, Point, Preview, nearest, total_for
from optrr.plans.question import Question
from optrr.plans.sections import Shown
from optrr.plans.seeing import MOST_CHARTS
from optrr.plans.work import Known, PlanWork
from optrr.show.text import two_digits_up

# What keeps a plan: the question, its reason, and what was seen before it; lines of what was written.
Save = Callable[[Question, str, Sequence[Preview]], list[str]]
# Alternatives that are remembered; more are not read by anybody.
_MOST_SEEN = 40


class _AskedPreview(msgspec.Struct, forbid_unknown_fields=True):
    question: dict[str, Any]
    rests: bool = True
    all_charts: bool = False


class _AskedRequired(msgspec.Struct, forbid_unknown_fields=True):
    question: dict[str, Any]


class _AskedSave(msgspec.Struct, forbid_unknown_fields=True):
    question: dict[str, Any]
    reason: str = ""


class PageAnswers:
    """What a page is answered; may be used from several threads.

    Every method takes a body of JSON, and raises msgspec.DecodeError where it is malformed and InvalidInput where what it says
    cannot be.
    """

    def __init__(self, save: Save, work: PlanWork | None = None) -> None:
        self._save, self._work = save, work or PlanWork()
        self._lock = threading.Lock()
        # previews that were exact and rested on, by all that decides an allocation
        self._seen: dict[Hashable, dict[Hashable, Preview]] = {}

    def preview(self, body: bytes) -> dict[str, Any]:
        """Fragments of the page by place, a status line, whether numbers are exact and more are on their way, and an error."""
        asked = msgspec.json.decode(body, type=_AskedPreview)
        question = Question.from_state(asked.question)
        known = self._work.ask(question, asked.rests)
        point = nearest(known.points, question)
        preview = None if point is None else Preview(question, point)
        if preview is not None and preview.point.exact and asked.rests:
            self._remember(preview)
        status = _status(known, point)
        shown = Shown(question, preview, known.points, asked.all_charts, known.error)
        return {
            "fragments": shown.fragments(),
            "status": status,
            "exact": point is not None and point.exact,
            "busy": known.busy,
            "error": known.error,
            "more_charts": preview is not None and not asked.all_charts and len(preview.tables) > MOST_CHARTS,
        }

    def required(self, body: bytes) -> dict[str, Any]:
        """The least total and the fewest people for the question's margin, None where there is none, each in a sentence."""
        question = Question.from_state(msgspec.json.decode(body, type=_AskedRequired).question)
        if question.margin is None:
            raise InvalidInput("no margin is wished; say how many points ± would do")
        known = self._work.ask(question)
        if known.error:
            raise InvalidInput(known.error)
        point = nearest(known.points, question)
        ready = known.done == known.of
        people = None if point is None else Preview(question, point).people_for(question.margin)
        if people is not None:
            people = two_digits_up(people)
        total = total_for(known.points, question.margin, question.n) if ready and known.points else None
        wait = f"{known.done} of {known.of} totals are computed; the answer comes when all are there."
        return {
            "total": total,
            "people": people,
            "total_said": self._total_said(question, total, known.points) if ready else wait,
            "people_said": wait if point is None and not ready else _people_said(question, people),
            "waiting": {"total": not ready, "people": point is None and not ready},
        }

    def save(self, body: bytes) -> dict[str, Any]:
        """What was written, a line each."""
        asked = msgspec.json.decode(body, type=_AskedSave)
        question = Question.from_state(asked.question)
        with self._lock:
            seen = tuple(self._seen.get(but_way(key_of(question)), {}).values())
        return {"saved": self._save(question, asked.reason, seen)}

    def close(self) -> None:
        """Compute nothing more."""
        self._work.close()

    def _remember(self, preview: Preview) -> None:
        """Keep the preview among what was seen of its tables, in the order of seeing."""
        with self._lock:
            seen = self._seen.setdefault(but_way(key_of(preview.question)), {})
            seen.setdefault((preview.question.total, preview.n, preview.point.way.name), preview)
            if len(seen) > _MOST_SEEN:
                del seen[next(iter(seen))]

    @staticmethod
    def _total_said(question: Question, total: float | None, points: Sequence[Point]) -> str:
        margin, people = f"± {question.margin:g} points", _people(question.n)
        if total is not None:
            return f"With {people}, every table has {margin} or better from about ε = {total:g} on."
        enough = Preview(question, points[-1]).people_for(question.margin or 0.0) if points else None
        more = "" if enough is None else f"; at that total about {two_digits_up(enough):,} people would do"
        return f"No total up to {LADDER[-1]:g} gives {margin} with {people}{more}. Ask more people, or wish for less."


def _people_said(question: Question, people: int | None) -> str:
    margin, total = f"± {question.margin:g} points", f"ε = {question.total:g}"
    if people is None:
        return f"At {total} no number of people gives {margin}: some table cannot be estimated, or is not computed yet."
    return f"At {total}, about {_people(people)} give every table {margin} or better."


def _people(number: int) -> str:
    return "one person" if number == 1 else f"{number:,} people"


def _status(known: Known, point: Point | None) -> str:
    curve = f"{known.done} of {known.of} totals of the curve are computed"
    if known.error:
        return "There are no numbers for this total."
    if point is None:
        return f"Computing: nothing is known at this total yet; {curve}."
    if not point.exact:
        then = "exact numbers are on their way" if known.busy else "it becomes exact when the slider rests"
        return f"A preview (≈) between two computed totals; {then}."
    return f"Exact numbers at this total; {curve}." if known.busy else "Exact numbers at this total."
