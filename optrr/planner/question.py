"""Input of a plan: attributes, tables to estimate, number of people and privacy budget.

A question is plain data: the page sends it as JSON, ``plan.toml`` has the same keys, and :func:`optrr.plan` takes them
as arguments. It contains nothing from people's records.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np

from optrr.allocation.workload import WORKLOADS, Workload, WorkloadLike, workload_of
from optrr.core.design import Specification, declared
from optrr.core.display import brief
from optrr.core.domain import Domain, shown
from optrr.core.errors import InvalidInput, did_you_mean

# Range of totals in nats: below it nothing can be learned from any number of people, above it privacy is weak.
LEAST_TOTAL, MOST_TOTAL = 0.05, 20.0
# Maximum number of people, more than live on earth.
MOST_PEOPLE = 10**10
# Maximum number of releases of the same people; for more, use optrr waves design.
MOST_RELEASES = 100


@dataclass(frozen=True)
class Question:
    """A question that a plan answers.

    The fields are the arguments of :func:`optrr.plan`, with all defaults, named as the keys of ``plan.toml``. ``total``
    is the ε in nats of each person, 0.05..20; ``prior`` a probability, 0.001..0.999; ``margin`` the required ±
    percentage points (95 %), or None; ``way`` the name of a protocol of :mod:`optrr.allocation.strategies`.
    """

    specification: Specification
    learn: Workload
    total: float = 1.0
    n: int = 1000
    keep: Literal["records"] | None = None
    way: str | None = None
    prior: float = 0.1
    releases: int = 1
    margin: float | None = None

    def __post_init__(self) -> None:
        for name in ("total", "n", "prior", "releases", "margin"):
            if isinstance(value := getattr(self, name), np.generic):
                object.__setattr__(self, name, value.item())
        _within("total", self.total, LEAST_TOTAL, MOST_TOTAL, "nats")
        _within("prior", self.prior, 0.001, 0.999, "as a probability")
        _whole("n", self.n, MOST_PEOPLE, "people")
        _whole("releases", self.releases, MOST_RELEASES, "releases")
        if self.margin is not None:
            _within("margin", self.margin, 0.001, 50, "percentage points")
        told = {name for table in self.learn.tables for name in table.attributes}
        if untold := [name for name in self.domain.names if name not in told]:
            raise InvalidInput(
                f"question {shown(untold[0])} is in no table; remove the question, or add a table with it"
            )
        if self.keep not in (None, "records"):
            raise InvalidInput(f"keep: {brief(self.keep)} is not known; give 'records', or leave it out")
        if not (self.way is None or isinstance(self.way, str)):
            raise InvalidInput(
                f"way: {brief(self.way)} is not a protocol; give the name of a protocol, or leave it out"
            )

    @classmethod
    def of(cls, specification: Specification, learn: WorkloadLike = "marginals", **choices: Any) -> "Question":
        """Build the question from tables by name, or as for :func:`optrr.allocate`.

        ``choices`` are the other fields.
        """
        if any(None in a.categories[:-1] for a in specification.domain):
            # in a plan's file, the missing value is the last category
            specification = declared(specification.record())
        return cls(specification, workload_of(learn, specification.domain), **choices)

    @classmethod
    def from_state(cls, state: Any) -> "Question":
        """Parse the output of :meth:`state`, or untrusted input.

        Raises InvalidInput with the key, its value and the allowed values.
        """
        if not isinstance(state, Mapping):
            raise InvalidInput("a question must be an object with attributes; give the object that the page holds")
        given = dict(state)
        choices = {name: given.pop(name) for name in _CHOICES if name in given}
        learn = given.pop("learn", "marginals")
        if unknown := [key for key in given if key not in _SPECIFIED]:
            known = (*_SPECIFIED, "learn", *_CHOICES)
            raise InvalidInput(
                f"key {brief(unknown[0])} of the question is unknown"
                + (did_you_mean(str(unknown[0]), known) or f"; the keys are {', '.join(known)}")
            )
        specification = declared(given)
        return cls.of(specification, _tables(learn, specification.domain), **choices)

    def state(self) -> dict[str, Any]:
        """Return plain values for JSON and TOML without defaults."""
        learn: Any = self.learn.word or [list(t.attributes) for t in self.learn.tables]
        chosen = {name: getattr(self, name) for name in _CHOICES}
        return {
            **self.specification.record(),
            "learn": learn,
            **{name: value for name, value in chosen.items() if value is not None},
        }

    @property
    def domain(self) -> Domain:
        """The attributes."""
        return self.specification.domain

    def at(self, total: float) -> "Question":
        """Return the question with another total."""
        return replace(self, total=total)


# Fields that stand beside the attributes and the tables; all have defaults.
_CHOICES = tuple(f.name for f in fields(Question) if f.name not in ("specification", "learn"))
_SPECIFIED = ("attributes", "title", "asker", "introduction", "language", "public")


def _tables(learn: object, domain: Domain) -> WorkloadLike:
    """Parse tables of a state: a workload's name, or lists of attributes.

    A path is refused, because it would be read from this machine's disk.
    """
    if isinstance(learn, str) and learn in WORKLOADS:
        return learn
    if not isinstance(learn, list) or not all(
        isinstance(t, list) and t and all(isinstance(name, str) for name in t) for t in learn
    ):
        raise InvalidInput(
            f"``workload``: {brief(learn)}; give {' or '.join(map(repr, WORKLOADS))}, or a list of tables, each a list of names"
        )
    tables: Iterable[list[str]] = learn
    for name in (name for table in tables for name in table):
        domain.index(name)
    return [tuple(table) for table in tables]


def _within(name: str, value: object, least: float, most: float, unit: str) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidInput(f"{name} = {brief(value)}: give a number from {least:g} to {most:g}, {unit}")


def _whole(name: str, value: object, most: int, unit: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise InvalidInput(f"{name} = {brief(value)}: give a whole number of {unit} from 1 to {most}")
