"""Input of a plan: attributes, tables to estimate, their margins, number of people and privacy budget.

A question is plain data: the page sends it as JSON, ``plan.toml`` has the same keys, and :func:`optrr.plan` takes them
as arguments. It contains nothing from people's records.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np

from optrr.allocation.workload import WORKLOADS, Workload, WorkloadLike, workload_of
from optrr.core.design import Specification, declared
from optrr.core.display import brief, crossed
from optrr.core.domain import Domain, shown
from optrr.core.errors import InvalidInput, did_you_mean

# Range of totals in nats: below it nothing can be learned from any number of people, above it privacy is weak.
LEAST_TOTAL, MOST_TOTAL = 0.05, 20.0
# Maximum number of people, more than live on earth.
MOST_PEOPLE = 10**10
# Maximum number of releases of the same people; for more, use optrr waves design.
MOST_RELEASES = 100
# Margin in percentage points above which an estimate cannot tell anything about a proportion.
MOST_MARGIN = 50.0
# A margin for all tables, or of single tables by name.
Margins = float | Mapping[str | tuple[str, ...], float]


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
        _within("total", self.total, LEAST_TOTAL, MOST_TOTAL, "nats")
        _within("prior", self.prior, 0.001, 0.999, "as a probability")
        _whole("n", self.n, MOST_PEOPLE, "people")
        _whole("releases", self.releases, MOST_RELEASES, "releases")
        margins = {} if self.margin is None else {"margin": self.margin}
        for name, value in (margins | {f"margin of {crossed(t)}": v for t, v in self.margins.items()}).items():
            _within(name, value, 0.001, MOST_MARGIN, "percentage points; a larger margin cannot tell anything")
        if self.keep not in (None, "records"):
            raise InvalidInput(f"keep: {brief(self.keep)} is not known; give 'records', or leave it out")
        if not (self.way is None or isinstance(self.way, str)):
            raise InvalidInput(
                f"way: {brief(self.way)} is not a protocol; give the name of a protocol, or leave it out"
            )

    @classmethod
    def of(
        cls,
        specification: Specification,
        learn: WorkloadLike = "marginals",
        margins: Margins | None = None,
        **choices: Any,
    ) -> "Question":
        """Build the question from tables by name, or as for :func:`optrr.allocate`.

        ``choices`` are the other fields. Attributes that no table needs are left out. ``margins`` is a margin of every
        table, or one of each table by name.
        """
        workload = workload_of(learn, specification.domain)
        needed = {name for table in workload.tables for name in table.attributes}
        left_out = tuple(name for name in specification.domain.names if name not in needed)
        if left_out or any(None in a.categories[:-1] for a in specification.domain):
            # in a plan's file, the missing value is the last category
            content = specification.record()
            kept = [attribute for attribute in content["attributes"] if attribute["name"] in needed]
            specification = declared(content | {"attributes": kept})
        if isinstance(margins, Mapping):
            choices["margins"] = {_table_of(workload, named): points for named, points in margins.items()}
        elif margins is not None:
            choices["margin"] = margins
        return cls(specification, workload, left_out=left_out, **choices)

    @classmethod
    def from_state(cls, state: Any) -> "Question":
        """Parse the output of :meth:`state`, or untrusted input.

        Raises InvalidInput with the key, its value and the allowed values.
        """
        if not isinstance(state, Mapping):
            raise InvalidInput("a question must be an object with attributes; give the object that the page holds")
        given = dict(state)
        choices = {name: given.pop(name) for name in _CHOICES if name in given}
        learn, margins = given.pop("learn", "marginals"), given.pop("margins", {})
        if not isinstance(margins, Mapping):
            raise InvalidInput(
                f"margins: {brief(margins)}; give an object, with ± percentage points for each table's name"
            )
        if unknown := [key for key in given if key not in _SPECIFIED]:
            known = (*_SPECIFIED, "learn", "margins", *_CHOICES)
            raise InvalidInput(
                f"key {brief(unknown[0])} of the question is unknown"
                + (did_you_mean(str(unknown[0]), known) or f"; the keys are {', '.join(known)}")
            )
        specification = declared(given)
        return cls.of(specification, _tables(learn, specification.domain), margins, **choices)

    def state(self) -> dict[str, Any]:
        """Return plain values for JSON and TOML without defaults."""
        chosen = {name: getattr(self, name) for name in _CHOICES}
        margins = {" × ".join(table): points for table, points in self.margins.items()}
        return {
            **self.specification.record(),
            "learn": self.learn.word or [list(t.attributes) for t in self.learn.tables],
            **{name: value for name, value in chosen.items() if value is not None},
            **({"margins": margins} if margins else {}),
        }

    @property
    def domain(self) -> Domain:
        """The attributes."""
        return self.specification.domain

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
        if self.margin is None:
            return f"{', '.join(own)} points"
        return f"{', '.join([*own, 'all other tables' if own else 'every table'])} ± {self.margin:g} points"

    def at(self, total: float) -> "Question":
        """Return the question with another total."""
        return replace(self, total=total)


# Fields that stand beside the attributes and the tables; all have defaults.
_CHOICES = tuple(f.name for f in fields(Question) if f.name not in ("specification", "learn", "margins", "left_out"))
_SPECIFIED = ("attributes", "title", "asker", "introduction", "thanks", "language", "public")


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


def _table_of(workload: Workload, named: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return the attributes of a table of the workload, in its order."""
    names = {part.strip() for part in named.split("×")} if isinstance(named, str) else set(named)
    tables = [table.attributes for table in workload.tables]
    titled = [table for table in tables if " × ".join(table) == named]
    if found := titled or [table for table in tables if set(table) == names]:
        return found[0]
    title = named if isinstance(named, str) else " × ".join(named)
    raise InvalidInput(f"margin of {shown(title)}: it is not a table to estimate; add the table, or leave it out")


def _within(name: str, value: object, least: float, most: float, unit: str) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidInput(f"{name} = {brief(value)}: give a number from {least:g} to {most:g}, {unit}")


def _whole(name: str, value: object, most: int, unit: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise InvalidInput(f"{name} = {brief(value)}: give a whole number of {unit} from 1 to {most}")
