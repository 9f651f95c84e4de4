"""A domain read off data that are public: which categories occur in each column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow.compute as pc

from optrr.records.domain import Attribute, Category, Domain
from optrr.records.reading.registry import record_batches


def observed_domain(data: Any, columns: Sequence[str]) -> Domain:
    """The categories that occur in PUBLIC or reference data: never use it on the records to be protected.

    A domain read off protected records publishes which categories somebody has, before any randomization, and no
    ε covers that. ``data`` is a frame, a path or an iterable of record batches as for :func:`optrr.records.counts.count`;
    the categories come sorted, numbers by value, the missing value last. One pass, bounded memory.
    """
    seen: dict[str, set[Category]] = {name: set() for name in columns}
    # any two categories will do: only the columns' names matter here, and an empty CSV field is the missing value
    named = Domain.of(dict.fromkeys(columns, ("", None)))
    for batch in record_batches(data, named, declared=None):
        for name in columns:
            seen[name].update(pc.unique(batch.column(name)).to_pylist())
    return Domain(tuple(Attribute(name, tuple(sorted(values, key=_rank))) for name, values in seen.items()))


def _rank(value: Category) -> tuple[bool, float, str]:
    number = float(value) if isinstance(value, int) else 0.0
    return value is None, number, str(value)
