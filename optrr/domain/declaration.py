"""An attribute as files hold it: JSON with its name, its categories and what else was declared of it."""

from __future__ import annotations

from typing import Any

import msgspec

from optrr.domain.bins import Closed, bins_of
from optrr.domain.domain import Attribute, Category


class DeclaredAttribute(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One attribute of a file. What is not declared is not written, so that files without it stay as they are."""

    name: str
    categories: list[str | int | float | bool | None]
    ordered: bool | msgspec.UnsetType = msgspec.UNSET
    bins: list[float | str] | msgspec.UnsetType = msgspec.UNSET
    closed: Closed | msgspec.UnsetType = msgspec.UNSET
    missing: list[str] | msgspec.UnsetType = msgspec.UNSET
    rest: str | msgspec.UnsetType = msgspec.UNSET

    def attribute(self) -> Attribute:
        """The attribute; raises InvalidInput where it cannot be one."""
        bins = None if self.bins is msgspec.UNSET else bins_of(self.bins, self.closed or "left")
        return Attribute(
            self.name,
            tuple(self.categories),
            ordered=self.ordered is True,
            bins=bins,
            missing=() if self.missing is msgspec.UNSET else tuple(self.missing),
            rest=None if self.rest is msgspec.UNSET else self.rest,
        )


def declaration(attribute: Attribute) -> dict[str, Any]:
    """The fields of a :class:`DeclaredAttribute` that this attribute has."""
    out: dict[str, Any] = {"name": attribute.name, "categories": list[Category](attribute.categories)}
    if attribute.bins is not None:
        out |= {"bins": attribute.bins.record(), "closed": attribute.bins.closed}
    elif attribute.ordered:
        out["ordered"] = True
    if attribute.missing:
        out["missing"] = list(attribute.missing)
    if attribute.rest is not None:
        out["rest"] = attribute.rest
    return out
