"""A specification written as TOML that people read and confirm."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from optrr.domain.domain import Attribute, Domain
from optrr.show.printable import one_line, prints
from optrr_solvers.arrays import FloatArray

# Elements of a list that fit a line; longer ones get a line each.
_SHORT = 8
# Categories 0..r−1 beyond so many are written as their size; what is to be confirmed of them stands there.
_NOTED = {"size": "categories"}


def toml_of(
    domain: Domain,
    epsilons: FloatArray,
    wording: Mapping[str, Any],
    notes: Mapping[tuple[str, str], str],
    opening: Sequence[str],
) -> str:
    """TOML of a domain with its ε_i, wording and public columns; ``notes`` are comments by (attribute, key), "" for the whole.

    Linear in the number of categories; libraries that keep a document's layout take minutes for 200,000 of them.
    """
    common = float(epsilons[0]) if epsilons.size and (epsilons == epsilons[0]).all() else None
    questions = wording.get("questions", {})
    lines = [f"# {one_line(line)}" for line in opening]
    whole = {"epsilon": common} | {k: v for k, v in wording.items() if k != "questions"}
    lines += [_entry(key, value, notes.get(("", key))) for key, value in whole.items() if value is not None]
    for attribute, epsilon in zip(domain, epsilons.tolist(), strict=True):
        fields = _fields(attribute)
        if common is None and not math.isnan(epsilon):
            fields["epsilon"] = epsilon
        if attribute.name in questions:
            fields["question"] = questions[attribute.name]
        lines += ["", "[[attributes]]"] if lines else ["[[attributes]]"]
        lines += [
            _entry(key, value, notes.get((attribute.name, _NOTED.get(key, key)))) for key, value in fields.items()
        ]
    return "\n".join([*lines, ""])


def _fields(attribute: Attribute) -> dict[str, Any]:
    """The keys of an attribute: nothing that would follow from the others."""
    out: dict[str, Any] = {"name": attribute.name}
    bins, numbers = attribute.bins, attribute.numbers
    known = range(numbers) if numbers is not None else [c for c in attribute.categories if c is not None]
    if bins is not None:
        out["bins"] = [e if isinstance(e, date) or math.isinf(e) or not e.is_integer() else int(e) for e in bins.edges]
        if bins.closed != "left":
            out["closed"] = bins.closed
    if bins is None and numbers is not None and numbers > _SHORT:
        out["size"] = numbers
    elif bins is None or list(known) != list(bins.labels):
        out["categories"] = list(known)
    if attribute.ordered and bins is None:
        out["ordered"] = True
    if len(known) < attribute.size:
        out["missing"] = list(attribute.missing) or True
    if attribute.rest is not None:
        out["rest"] = attribute.rest
    return out


def _entry(key: str, value: Any, note: str | None) -> str:
    """A line, or several where a list is long."""
    comment = "" if note is None else f" # {one_line(note)}"
    if not isinstance(value, list):
        return f"{key} = {_value(value)}{comment}"
    texts = [_value(v) for v in value]
    if len(texts) <= _SHORT:
        return f"{key} = [{', '.join(texts)}]{comment}"
    return "\n".join([f"{key} = [", *(f"    {text}," for text in texts), f"]{comment}"])


def _value(value: Any) -> str:
    """Texts and booleans as JSON writes them, which TOML reads alike; numbers and dates as Python does."""
    if isinstance(value, date):
        return value.isoformat()
    text = repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
    # in such strings an escape says the same as a character that nobody sees
    return text if text.isprintable() else "".join(c if prints(c) else f"\\U{ord(c):08x}" for c in text)
