"""Columns with several answers in a cell (``apples;pears``), as one column of yes and no for each declared option.

The options and what separates them are declared (:class:`optrr.core.domain.domain.MultiSelect`), never read off protected
records. An empty cell chose no option, or is missing where the attribute declares a missing value. An attribute with ``rest``
takes every undeclared option; without such an attribute they are refused.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from optrr.core.domain.arrays import array_of, numbers_of
from optrr.core.domain.domain import Attribute, Domain, listed, shown
from optrr.core.errors import InvalidInput, in_one_line


def asked_columns(domain: Domain, present: Sequence[str]) -> dict[str, list[Attribute]]:
    """Find the attributes of each multi-select column in the data.

    Unless the data has a column for each option.
    """
    out: dict[str, list[Attribute]] = {}
    for attribute in domain:
        chosen = attribute.multi_select
        if chosen is not None and chosen.column in present and attribute.name not in present:
            out.setdefault(chosen.column, []).append(attribute)
    return out


def split_schema(schema: pa.Schema, domain: Domain) -> pa.Schema:
    """Replace each multi-select column of the schema by its options."""
    asked = asked_columns(domain, schema.names)
    fields = [[pa.field(a.name, pa.string()) for a in asked.get(f.name, ())] or [f] for f in schema]
    return pa.schema([field for each in fields for field in each], metadata=schema.metadata)


def split_batch(batch: pa.RecordBatch, domain: Domain, start: int = 0) -> pa.RecordBatch:
    """Replace each multi-select column of the batch by its options.

    ``start`` is the number of records before it, for messages.

    Raises InvalidInput naming the place, never the value, of an option that is not declared.
    """
    asked = asked_columns(domain, batch.schema.names)
    if not asked:
        return batch
    columns: dict[str, pa.Array] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        columns |= _split(column, asked[name], start) if name in asked else {name: column}
    return pa.RecordBatch.from_pydict(columns)


def answers(column: pa.Array, separator: str) -> pa.ListArray:
    """Split each cell into its answers, null if missing; lists are kept."""
    if not separator:
        raise InvalidInput("``multi_select``: the separator is empty; give the text between answers, such as ';'")
    try:
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            return column.cast(pa.list_(pa.string()))
        return pc.split_pattern(column.cast(pa.string()), separator)
    except pa.ArrowException:
        raise InvalidInput(
            f"``multi_select``: the column has type {in_one_line(column.type)}; give texts, or lists of texts"
        ) from None


def _split(column: pa.Array, attributes: Sequence[Attribute], start: int) -> dict[str, pa.Array]:
    chosen = [a.multi_select for a in attributes if a.multi_select is not None]
    if len({each.separator for each in chosen}) > 1:
        raise InvalidInput(
            f"column {shown(chosen[0].column)} is declared with two separators; give all options the same"
        )
    lists = answers(column, chosen[0].separator)
    flat, record = pc.list_flatten(lists), numbers_of(pc.list_parent_indices(lists), 0)
    options = [each.option for each in chosen]
    code = numbers_of(pc.index_in(flat, value_set=array_of(options, pa.string())), -1)
    empty = array_of([None, "", *(mark for a in attributes for mark in a.missing)], pa.string())
    answered = (code >= 0) | (numbers_of(pc.is_in(flat, value_set=empty).cast(pa.uint8()), 0) == 0)
    unknown = answered & (code < 0)
    rest = next((options.index(o) for a, o in zip(attributes, options, strict=True) if a.rest is not None), None)
    if rest is None and unknown.any():
        raise InvalidInput(
            f"column {shown(chosen[0].column)}, record {start + int(record[unknown][0]) + 1}: an option that is not declared "
            f'(those are {listed(options)}, separated by {shown(chosen[0].separator)}); declare it, or one with rest = "yes"'
        )
    code = code if rest is None else np.where(unknown, rest, code)
    silent = np.ones(len(column), dtype=bool)
    silent[record[answered]] = False
    out = {}
    for attribute, option in zip(attributes, options, strict=True):
        yes = np.zeros(len(column), dtype=np.int8)
        yes[record[code == options.index(option)]] = 1
        if attribute.missing_code is not None:
            yes[silent] = 2
        out[attribute.name] = array_of(["no", "yes", None], pa.string()).take(array_of(yes, pa.int8()))
    return out
