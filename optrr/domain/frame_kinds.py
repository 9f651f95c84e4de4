"""Which library a data frame is of, asked without importing any: a frame's library is loaded already."""

from __future__ import annotations

import sys
from typing import Any


def _is(data: Any, module: str, kind: str) -> bool:
    library = sys.modules.get(module)
    return library is not None and isinstance(data, getattr(library, kind))


def is_pandas_dataframe(data: Any) -> bool:
    """Whether this is a pandas DataFrame."""
    return _is(data, "pandas", "DataFrame")


def is_polars_dataframe(data: Any) -> bool:
    """Whether this is a polars DataFrame."""
    return _is(data, "polars", "DataFrame")


def is_polars_lazyframe(data: Any) -> bool:
    """Whether this is a polars LazyFrame."""
    return _is(data, "polars", "LazyFrame")
