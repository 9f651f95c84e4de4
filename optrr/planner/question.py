"""Input of a plan: attributes, tables to estimate, their margins, number of people and privacy budget.

A question is plain data: the page sends it as JSON, ``plan.toml`` has the same keys, and :func:`optrr.plan` takes them
as arguments. It contains nothing from people's records.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from optrr.allocation.workload import WORKLOADS, Workload, WorkloadLike, workload_of
from optrr.core.design import Specification, declared
from optrr.core.display import brief, crossed
from optrr.core.domain import Domain, shown
from optrr.core.errors import InvalidInput, did_you_mean

# Range of totals in nats: below it nothing can be learned from any number of people, above it privacy is weak.
LEAST_TOTAL, MOST_TOTAL = 0.05, 20.0
# Maximum number of people, more than live on earth, and of releases of the same people (for more, optrr waves design).
MOST_PEOPLE, MOST_RELEASES = 10**10, 100
# Margin in percentage points above which an estimate cannot tell anything about a proportion.
MOST_MARGIN = 50.0
# Factor of the largest required margin that stands for the margin of a table of which none is required.
_UNWANTED = 4
# A margin for all tables, or of single tables by name.
Margins = float | Mapping[str | tuple[str, ...], float]
_SPECIFIED = ("attributes", "title", "asker", "introduction", "thanks", "language", "public")


@dataclass(frozen=True)
class Question:
    """A question that a plan answers.

    The fields are the arguments of :func:`optrr.plan`, with all defaults, named as the keys of ``plan.toml``. ``total``
    is the ε in nats of each person, 0.05..20; ``prior`` a probability, 0.001..0.999; ``margin`` the required ±
    percentage points (95 %) of every table, or None; ``margins`` those of single tables, which come before it; ``way``
    the name of a protocol of :mod:`optrr.allocation.strategies`. ``left_out`` names the attributes that no table needs;
    the specification is without them.
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
    margins: Mapping[tuple[str, ...], float] = field(default_factory=dict)
    left_out: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        for name in ("total", "n", "prior", "releases", "margin"):
            if isinstance(value := getattr(self, name), np.generic):
                object.__setattr__(self, name, value.item())
        _check("total", self.total, LEAST_TOTAL, MOST_TOTAL, "nats")
        _check("prior", self.prior, 0.001, 0.999, "as a probability")
        _check("n", self.n, 1, MOST_PEOPLE, "people")
        _check("releases", self.releases, 1, MOST_RELEASES, "releases")
        margins = {} if self.margin is None else {"margin": self.margin}
        for name, points in (margins | {f"margin of {crossed(t)}": p for t, p in self.margins.items()}).items():
            _check(name, points, 0.001, MOST_MARGIN, "percentage points; a larger margin cannot tell anything")
        if self.keep not in (None, "records"):
            raise InvalidInput(f"keep: {brief(self.keep)} is not known; give 'records', or leave it out")
        if not (self.way is None or isinstance(self.way, str)):
            raise InvalidInput(f"way: {brief(self.way)} is not the name of a protocol; give one, or leave it out")

    @classmethod
    def of(
        cls, given: Specification, learn: WorkloadLike = "marginals", margins: Margins | None = None, **choices: Any
    ) -> "Question":
        """Build the question from tables as for :func:`optrr.allocate`, without attributes that no table needs.

        ``margins`` is a margin of every table, or one of each by name; ``choices`` are the other fields.
        """
        workload = workload_of(learn, given.domain)
        needed = {name for table in workload.tables for name in table.attributes}
        left_out = tuple(name for name in given.domain.names if name not in needed)
        if left_out or any(None in a.categories[:-1] for a in given.domain):
            # in a plan's file, the missing value is the last category
            content = given.record()
            given = declared(content | {"attributes": [a for a in content["attributes"] if a["name"] in needed]})
        if isinstance(margins, Mapping):
            choices["margins"] = {_table_of(workload, named): points for named, points in margins.items()}
        elif margins is not None:
            choices["margin"] = margins
        return cls(given, workload, left_out=left_out, **choices)

    @classmethod
    def from_state(cls, state: Any) -> "Question":
        """Parse the output of :meth:`state`, or untrusted input; raise InvalidInput with the key and what it allows."""
        if not isinstance(state, Mapping):
            raise InvalidInput("a question must be an object with attributes; give the object that the page holds")
        given = dict(state)
        choices = {name: given.pop(name) for name in _CHOICES if name in given}
        learn, margins = given.pop("learn", "marginals"), given.pop("margins", {})
        if not isinstance(margins, Mapping):
            raise InvalidInput(f"margins: {brief(margins)}; give ± percentage points for each table's name")
        if unknown := [key for key in given if key not in _SPECIFIED]:
            known = (*_SPECIFIED, "learn", "margins", *_CHOICES)
            hint = did_you_mean(str(unknown[0]), known) or f"; the keys are {', '.join(known)}"
            raise InvalidInput(f"key {brief(unknown[0])} of the question is unknown{hint}")
        specification = declared(given)
        return cls.of(specification, _tables(learn, specification.domain), margins, **choices)

    def state(self) -> dict[str, Any]:
        """Return plain values for JSON and TOML without defaults."""
        tables = self.learn.word or [list(t.attributes) for t in self.learn.tables]
        chosen = {name: getattr(self, name) for name in _CHOICES} | {
            "margins": {" × ".join(table): points for table, points in self.margins.items()} or None
        }
        given = {name: value for name, value in chosen.items() if value is not None}
        return {**self.specification.record(), "learn": tables, **given}

    @property
    def domain(self) -> Domain:
        """The attributes."""
        return self.specification.domain

    @cached_property
    def wanted(self) -> Workload:
        """The tables, weighted if their margins differ: by 1/margin² if one is required, and little otherwise."""
        margins = [self.margin_of(table.attributes) for table in self.learn.tables]
        given = [margin for margin in margins if margin is not None]
        if len(set(margins)) == 1 or not given:
            return self.learn
        weights = ((min(given) / (margin or _UNWANTED * max(given))) ** 2 for margin in margins)
        return Workload(tuple(replace(t, weight=t.weight * w) for t, w in zip(self.learn.tables, weights, strict=True)))

    @property
    def has_margins(self) -> bool:
        """Whether any table has a required margin."""
        return self.margin is not None or bool(self.margins)

    def margin_of(self, table: tuple[str, ...]) -> float | None:
        """Return the required margin of a table in percentage points, or None."""
        return self.margins.get(table, self.margin)

    @property
    def margins_text(self) -> str:
        """The required margins in words."""
        own = [f"{crossed(table)} ± {points:g}" for table, points in self.margins.items()]
        others = "all other results" if own else "every result"
        return ", ".join([*own, *([] if self.margin is None else [f"{others} ± {self.margin:g}"])]) + " points"

    def at(self, total: float) -> "Question":
        """Return the question with another total."""
        return replace(self, total=total)


# Fields that stand beside the attributes and the tables; all have defaults.
_CHOICES = tuple(f.name for f in fields(Question) if f.name not in ("specification", "learn", "margins", "left_out"))


def _tables(learn: Any, domain: Domain) -> WorkloadLike:
    """Parse tables of a state: a workload's name, or lists of attributes; a path would be read from this machine's disk."""
    if isinstance(learn, str) and learn in WORKLOADS:
        return learn
    if not isinstance(learn, list) or not all(
        isinstance(t, list) and t and all(isinstance(name, str) for name in t) for t in learn
    ):
        known = " or ".join(map(repr, WORKLOADS))
        raise InvalidInput(f"``workload``: {brief(learn)}; give {known}, or a list of tables, each a list of names")
    for name in (name for table in learn for name in table):
        domain.index(name)
    return [tuple(table) for table in learn]


def _table_of(workload: Workload, named: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return the attributes of a table of the workload, in its order."""
    names = {part.strip() for part in named.split("×")} if isinstance(named, str) else set(named)
    title = named if isinstance(named, str) else " × ".join(named)
    tables = [table.attributes for table in workload.tables]
    titled = [table for table in tables if " × ".join(table) == title]
    if found := titled or [table for table in tables if set(table) == names]:
        return found[0]
    raise InvalidInput(f"margin of {shown(title)}: it is not a table to estimate; add the table, or leave it out")


def _check(name: str, value: object, least: float, most: float, unit: str) -> None:
    """Raise InvalidInput for a number out of range, and for a fraction if the range ends at a whole number."""
    if not isinstance(value, type(most) | int) or isinstance(value, bool) or not least <= value <= most:
        whole = isinstance(most, int)
        kind, tail = (f"whole number of {unit}", "") if whole else ("number", f", {unit}")
        raise InvalidInput(
            f"{name} = {brief(value)}: give a {kind} from {least:g} to {most if whole else f'{most:g}'}{tail}"
        )
