"""Tables of numbers over an attribute set as columns: one row per cell, the categories first."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from optrr.domain.domain import Domain
from optrr.show.result import TableResult, in_json


class CellsResult(TableResult):
    """A result with numbers for every cell of ``domain``."""

    domain: Domain

    @abstractmethod
    def numbers(self) -> dict[str, Any]:
        """The numbers of the cells by name, arrays in the shape of the domain's sizes."""

    def _keys(self) -> int:
        return self.domain.m

    def to_arrow(self) -> pa.Table:
        """One row per cell: the categories' texts, null where missing, then :meth:`numbers`."""
        return cells_table(self.domain, self.numbers())

    def summary(self) -> dict[str, Any]:
        """The command line's JSON object; tables are nested lists in the order of ``attributes``."""
        categories = [list(a.categories) for a in self.domain]
        named = {"attributes": list(self.domain.names), "categories": categories}
        tables: dict[str, Any] = in_json(self.numbers())
        return named | tables | super().summary()


def cells_table(domain: Domain, numbers: Mapping[str, ArrayLike]) -> pa.Table:
    """One row per cell, last attribute fastest: the categories' texts, null where missing, then ``numbers``.

    Each array of ``numbers`` has the shape of ``domain.sizes``. An attribute may be called as one of them: its column keeps
    the name, and ours gets an underscore.
    """
    places = np.indices(tuple(domain.sizes)).reshape(domain.m, -1)
    columns: dict[str, Any] = {
        a.name: pa.array(a.texts, pa.string()).take(pa.array(at)) for a, at in zip(domain, places, strict=True)
    }
    for name, values in numbers.items():
        free = name
        while free in columns:
            free += "_"
        columns[free] = pa.array(np.ravel(values))
    return pa.table(columns)
