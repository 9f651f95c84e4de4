"""Tables of numbers over an attribute set as columns: one row per cell, the categories first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from optrr.domain.domain import Domain


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
