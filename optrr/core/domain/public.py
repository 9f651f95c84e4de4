"""Public columns: non-randomized columns beside the attributes, such as a survey's weights and regions.

No ε covers them. A declaration names the columns and the role of each: randomization passes them on unchanged, files of
the records name them as unprotected, and estimates can use them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from optrr.core.domain.domain import Domain, listed, shown
from optrr.core.errors import InvalidInput, did_you_mean

# Sentence on public columns in every privacy statement.
UNPROTECTED = (
    "they are released as they are, beside the randomized values, and no epsilon covers them; a weight or group that "
    "was computed from "
    "a randomized attribute would reveal it"
)


class PublicColumns(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The public columns of some records, by role; files hold them in this form.

    Raises InvalidInput for a column without a name, and one that is named for two purposes, except that a stratum or cluster
    may be a group.

    Parameters
    ----------
    weight
        the number of people of the population that a record represents, up to a factor.
    stratum
        the part of the population that the record was sampled from.
    cluster
        the primary sampling unit within the stratum, such as a school: records of one cluster depend on each other.
    group
        columns to estimate by.

    Examples
    --------
    >>> import optrr
    >>> optrr.PublicColumns(weight="w", stratum="region").names
    ('w', 'region')
    """

    weight: str | None = None
    stratum: str | None = None
    cluster: str | None = None
    group: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if "" in (self.weight, self.stratum, self.cluster, *self.group):
            raise InvalidInput("a public column has no name; name a column of the data")
        for names in (self._single(), list(self.group), [self.weight, *self.group]):
            twice = [name for name in names if name is not None and names.count(name) > 1]
            if twice:
                raise InvalidInput(f"the public column {shown(twice[0])} is named twice; name it once")

    def __bool__(self) -> bool:
        return bool(self.names)

    def _single(self) -> list[str | None]:
        return [self.weight, self.stratum, self.cluster]

    @property
    def names(self) -> tuple[str, ...]:
        """Every column once, weight first."""
        return tuple(dict.fromkeys(name for name in (*self._single(), *self.group) if name is not None))

    @property
    def samples(self) -> bool:
        """Whether they describe the sampling, which an estimate must not ignore."""
        return any(name is not None for name in self._single())

    def said(self) -> str:
        """Describe the columns with their roles: "weight 'w', stratum 'region'"."""
        roles = [
            *zip(("weight", "stratum", "cluster"), self._single(), strict=True),
            *(("group", g) for g in self.group),
        ]
        return ", ".join(f"{role} {shown(name)}" for role, name in roles if name is not None)

    def warning(self) -> str:
        """Warn in one line that nothing protects these columns."""
        return f"public columns, not protected ({self.said()}): {UNPROTECTED}"

    def left_out(self, what: str) -> list[str]:
        """Warn that ``what`` has only the attributes, if columns are declared."""
        if not self:
            return []
        return [
            f"{what} carries the attributes alone: estimates cannot use the public columns ({self.said()}) unless "
            "these are added to the reports, unprotected"
        ]

    def ignored(self) -> list[str]:
        """Warn that a result ignores the sample, if columns describe it."""
        if not self.samples:
            return []
        sampled = PublicColumns(self.weight, self.stratum, self.cluster)
        return [
            f"numbers and errors ignore that these records were sampled by {sampled.said()}: they are those of people "
            "with equal weights, sampled one by one; estimate, regress and, for independence, test take the sample "
            "into account"
        ]

    def apart_from(self, domain: Domain) -> PublicColumns:
        """Return these columns; raise InvalidInput if one is an attribute."""
        both = [name for name in self.names if name in domain.columns]
        if both:
            raise InvalidInput(
                f"column {shown(both[0])} cannot be public: it is an attribute, to be randomized; drop one of the two"
            )
        return self

    def merged(self, other: PublicColumns) -> PublicColumns:
        """Merge with another declaration, which overrides weight, stratum, cluster."""
        weight = other.weight or self.weight
        group = tuple(dict.fromkeys((*self.group, *other.group)))
        return PublicColumns(
            weight,
            other.stratum or self.stratum,
            other.cluster or self.cluster,
            tuple(name for name in group if name != weight),
        )

    def summary(self) -> dict[str, Any]:
        """Return the columns by role for JSON."""
        return dict(msgspec.json.decode(msgspec.json.encode(self)))

    @staticmethod
    def of(given: PublicColumns | Mapping[str, Any]) -> PublicColumns:
        """Build from a mapping of roles to names; raise InvalidInput if invalid.

        A group may be one name or several.
        """
        if isinstance(given, PublicColumns):
            return given
        roles = PublicColumns.__struct_fields__
        for role, names in given.items():
            if role not in roles:
                hint = did_you_mean(role, roles) or f"; public columns are {listed(roles)}"
                raise InvalidInput(f"there is no public role {shown(role)}{hint}")
            each = names if role == "group" and isinstance(names, list | tuple) else [names]
            if not all(isinstance(name, str) for name in each):
                raise InvalidInput(f"the public {role} is no column's name; give a name in quotes")
        group = given.get("group", ())
        return PublicColumns(**{**given, "group": (group,) if isinstance(group, str) else tuple(group)})

    @staticmethod
    def parsed(texts: Iterable[str]) -> PublicColumns:
        """Parse texts such as ``weight=w``; raise InvalidInput if invalid."""
        given: dict[str, Any] = {}
        for text in texts:
            role, equals, name = text.partition("=")
            if not equals or not name:
                raise InvalidInput(f"``public`` {shown(text)}: not of the form role=column, such as weight=w")
            if role != "group" and role in given:
                raise InvalidInput(f"``public``: two columns as {shown(role)}; give one")
            given[role] = [*given.get(role, ()), name] if role == "group" else name
        return PublicColumns.of(given)


NONE = PublicColumns()
