"""What the tests of plans share: a question about a school, and work that is done at once."""

import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from optrr.allocation.strategies import Strategy
from optrr.core.design.specification import declared
from optrr.planner.preview import Point
from optrr.planner.question import Question

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


def _nothing() -> Any:
    raise AssertionError("no protocol is built")


def invented(question: Question) -> Point:
    """A point that no allocation has made, at the question's total."""
    error = 10 / question.total
    way = Strategy("sampling", "One table", question.total, error, False, question.total, None, ("records",), _nothing)
    return Point(question.total, question.total, way, way.name, (way,), (), (), 5 / question.total, (), ())


def alike(one: Any, other: Any) -> bool:
    """Whether nested values are equal, their numbers to 1e-9: BLAS may sum in another order in another process."""
    if is_dataclass(one) and is_dataclass(other):
        compared = [field.name for field in fields(one) if field.compare]
        return type(one) is type(other) and all(alike(getattr(one, n), getattr(other, n)) for n in compared)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    return bool(one == other)


class AtOnce:
    """Computes nothing, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Question] = []

    def __call__(self, question: Question, proceed: Callable[[], None]) -> Point:
        self.asked.append(question)
        return invented(question)


WORDS = ("sex", "Alter × Klasse", 'say "a, b"', "π̂ <b>", "back\\slash", "two  spaces", "income, net", "日本")


def random_question(seed: int, most: int = 4) -> Question:
    """2 to ``most`` attributes with names that need care, every kind of workload, with or without records."""
    rng = np.random.default_rng([32, seed])
    m = int(rng.integers(2, most + 1))
    names = rng.choice(WORDS, m, replace=False).tolist()
    attributes: list[dict[str, Any]] = [
        {"name": name, "size": int(rng.integers(2, 6)), "question": f"What of {name}?"} for name in names
    ]
    attributes[0] = {"name": names[0], "categories": ["yes", "no", "=1+1", "🙂"][: int(rng.integers(2, 5))]}
    tables = [[names[0], names[1]], *([name] for name in names)]
    learn = ("marginals", "pairs", tables)[seed % 3]
    state = {
        "attributes": attributes,
        "title": f"A survey <{seed}>",
        "learn": learn,
        "total": float(np.exp(rng.uniform(np.log(0.3), np.log(6)))),
        "n": int(rng.integers(50, 20_000)),
        "prior": float(rng.choice([0.01, 0.1, 0.5])),
        "releases": int(rng.integers(1, 4)),
    }
    return Question.from_state(state | ({"keep": "records", "way": "optimum"} if seed % 2 else {}))
