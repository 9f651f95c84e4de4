"""A specification written as TOML that people read and confirm."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from optrr.printable import prints
from optrr.records.domain import Attribute, Domain
from optrr_solvers.arrays import FloatArray

# Elements of a list that fit a line; longer ones get a line each.
_SHORT = 8


def toml_of(
    domain: Domain,
    epsilons: FloatArray,
    wording: Mapping[str, Any],
    notes: Mapping[tuple[str, str], str],
    opening: Sequence[str],
) -> str:
    """TOML of a domain with its ε_i and wording; ``notes`` are comments by (attribute, key), "" for the whole."""
    import tomlkit  # noqa: PLC0415 (only writing needs it)

    document = tomlkit.document()
    for line in opening:
        document.add(tomlkit.comment(line))
    common = float(epsilons[0]) if epsilons.size and (epsilons == epsilons[0]).all() else None
    whole = {"epsilon": common} | {k: v for k, v in wording.items() if k != "questions"}
    for key, value in whole.items():
        if value is not None:
            _add(document, key, value, notes.get(("", key)))
    tables = tomlkit.aot()
    for attribute, epsilon in zip(domain, epsilons.tolist(), strict=True):
        table = tomlkit.table()
        for key, value in _fields(attribute).items():
            _add(table, key, value, notes.get((attribute.name, key)))
        if common is None and not math.isnan(epsilon):
            _add(table, "epsilon", epsilon, notes.get((attribute.name, "epsilon")))
        if attribute.name in wording.get("questions", {}):
            _add(table, "question", wording["questions"][attribute.name], None)
        tables.append(table)
    document.add("attributes", tables)
    text = str(tomlkit.dumps(document))
    # all strings are basic ones, in which an escape says the same as a character that nobody sees
    return "".join(c if prints(c) else f"\\U{ord(c):08x}" for c in text)


def _fields(attribute: Attribute) -> dict[str, Any]:
    """The keys of an attribute: nothing that would follow from the others."""
    out: dict[str, Any] = {"name": attribute.name}
    known = [c for c in attribute.categories if c is not None]
    bins = attribute.bins
    if bins is not None:
        out["bins"] = [e if isinstance(e, date) or math.isinf(e) or not e.is_integer() else int(e) for e in bins.edges]
        if bins.closed != "left":
            out["closed"] = bins.closed
    if bins is None or known != list(bins.labels):
        out["categories"] = known
    if attribute.ordered and bins is None:
        out["ordered"] = True
    if attribute.missing_code is not None:
        out["missing"] = list(attribute.missing) or True
    if attribute.rest is not None:
        out["rest"] = attribute.rest
    return out


def _add(table: Any, key: str, value: Any, note: str | None) -> None:
    import tomlkit  # noqa: PLC0415 (as above)

    item = tomlkit.item(value)
    if isinstance(value, list) and len(value) > _SHORT:
        item.multiline(True)
    if note is not None:
        item.comment(note)
    table.add(key, item)
