"""What the tests of plans share: a question about a school, and work that is done at once and without a process."""

from __future__ import annotations

from typing import Any

from optrr.designs.specification import declared
from optrr.plans.preview import Point, Way
from optrr.plans.question import Question

SCHOOL: dict[str, Any] = {
    "title": "Life at school",
    "attributes": [
        {"name": "theft", "categories": ["yes", "no"]},
        {"name": "bullied", "categories": ["never", "once", "often"]},
        {"name": "sex", "categories": ["girl", "boy"]},
    ],
}


def school_question(learn: str = "pairs") -> Question:
    return Question.of(declared(SCHOOL), learn)


def invented(question: Question) -> Point:
    """A point that no allocation has made, at the question's total."""
    way = Way("sampling", "One table", question.total, 10 / question.total, False, question.total, ("records",), True)
    return Point(question.total, question.total, way, way.name, (way,), (), (), 5 / question.total, (), ())


class AtOnce:
    """Computes nothing, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Question] = []
        self.stops = 0

    def ticket(self) -> int:
        return self.stops

    def point(self, question: Question, ticket: int) -> Point | str:
        self.asked.append(question)
        return invented(question)

    def stop(self) -> None:
        self.stops += 1
