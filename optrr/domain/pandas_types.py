"""pandas types that Arrow has no plain type for: intervals (``pandas.cut``) and periods become text, and come back."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from optrr.domain.bins import interval_text
from optrr.domain.domain import Attribute


def _inner(dtype: Any) -> Any:
    """A dtype, or that of its categories."""
    categories = getattr(dtype, "categories", None)
    return dtype if categories is None else categories.dtype


def is_interval_or_period(dtype: Any) -> bool:
    """Whether a column of this dtype holds intervals or periods, as they are or as categories."""
    inner = _inner(dtype)
    # their classes, without importing pandas for frames of other types
    return type(inner).__name__ in ("IntervalDtype", "PeriodDtype") and type(inner).__module__.startswith("pandas")


def as_plain(data: Any) -> Any:
    """The frame with its intervals and periods as text (``(18, 30]``, ``2024-01``), ordered categories in their order."""
    chosen = [k for k, dtype in enumerate(data.dtypes) if is_interval_or_period(dtype)]
    if not chosen:
        return data
    import pandas as pd  # noqa: PLC0415  # optional, and loaded already: the data is its frame

    columns: list[Any] = []
    for k, dtype in enumerate(data.dtypes):
        column = data.iloc[:, k]
        if k in chosen and isinstance(dtype, pd.CategoricalDtype):
            column = column.cat.rename_categories([category_text_of(c) for c in dtype.categories])
        elif k in chosen:
            column = pd.Series([None if pd.isna(v) else category_text_of(v) for v in column], dtype=object)
        columns.append(column.reset_index(drop=True))
    plain = pd.concat(columns, axis=1)
    plain.columns = data.columns
    return plain


def category_text_of(value: Any) -> str:
    """The text of an interval or a period."""
    return interval_text(value.left, value.right, value.closed) if hasattr(value, "closed") else str(value)


def back_from_plain(values: pa.ChunkedArray, dtype: Any, attribute: Attribute) -> Any:
    """Released texts as pandas holds them: periods as periods; intervals as ordered categories, which are their labels."""
    import pandas as pd  # noqa: PLC0415  # as above

    texts = values.cast(pa.string()).to_pandas()
    inner = _inner(dtype)
    labels = [t for t in attribute.texts if t is not None]
    if type(inner).__name__ == "PeriodDtype":
        periods = pd.PeriodIndex(texts, dtype=inner)
        if inner is dtype:
            return pd.Series(periods)
        return pd.Series(pd.Categorical(periods, categories=pd.PeriodIndex(labels, dtype=inner), ordered=dtype.ordered))
    return pd.Series(pd.Categorical(texts, categories=labels, ordered=True))
