"""Records with public columns: the attributes are recoded, and what is declared public goes through as it is."""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

import pyarrow as pa

from optrr.domain.columns import is_pandas_dataframe, is_polars_dataframe
from optrr.domain.domain import Domain, listed, shown
from optrr.domain.public import PublicColumns
from optrr.errors import InvalidInput, did_you_mean
from optrr.records.frames import Frame, FrameCodec, Kernel, column_names, frame_table


class PassingCodec:
    """A :class:`FrameCodec` for batches that also have public columns; columns keep their order.

    Raises
    ------
    InvalidInput
        for public columns that are attributes or are not there, and as the other codec.
    """

    def __init__(self, domain: Domain, schema: pa.Schema, public: PublicColumns) -> None:
        check_public(schema.names, public, domain)
        self.schema, self._public = schema, frozenset(public.names)
        self._attributes = [name for name in schema.names if name not in self._public]
        self._codec = FrameCodec(domain, pa.schema([schema.field(name) for name in self._attributes]))

    @property
    def records(self) -> int:
        """Records recoded so far."""
        return self._codec.records

    @cached_property
    def output_schema(self) -> pa.Schema:
        """Schema of recoded batches, without metadata."""
        recoded = self._codec.output_schema
        fields = [f.remove_metadata() if f.name in self._public else recoded.field(f.name) for f in self.schema]
        return pa.schema(fields)

    def recode(self, batch: pa.RecordBatch, kernel: Kernel) -> pa.RecordBatch:
        """The batch with its attributes' codes edited by ``kernel``."""
        return self._together(self._codec.recode(batch.select(self._attributes), kernel), self._beside(batch))

    def packed(self, batch: pa.RecordBatch, kernel: Kernel) -> pa.RecordBatch:
        """As :meth:`optrr.records.frames.FrameCodec.packed`, with the public columns behind the codes."""
        codes = self._codec.packed(batch.select(self._attributes), kernel)
        columns = [*codes.columns, *self._beside(batch)]
        return pa.RecordBatch.from_arrays(columns, names=[str(k) for k in range(len(columns))])

    def unpacked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of ``output_schema`` from a packed one."""
        return self._together(self._codec.unpacked(batch), batch.columns[1:])

    def _beside(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The public columns, in the order of the schema."""
        return [batch.column(f.name) for f in self.schema if f.name in self._public]

    def _together(self, recoded: pa.RecordBatch, beside: list[pa.Array]) -> pa.RecordBatch:
        rest = iter(beside)
        columns = [next(rest) if f.name in self._public else recoded.column(f.name) for f in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.output_schema)


def codec_for(domain: Domain, schema: pa.Schema, public: PublicColumns) -> FrameCodec | PassingCodec:
    """What recodes records of this schema with these public columns."""
    return PassingCodec(domain, schema, public) if public else FrameCodec(domain, schema)


def check_public(present: list[str], public: PublicColumns, domain: Domain) -> None:
    """Refuse public columns that are attributes or are not there. Raises InvalidInput naming the column."""
    missing = [name for name in public.apart_from(domain).names if name not in present]
    if missing:
        raise InvalidInput(
            f"the public column {shown(missing[0])} is missing; the data has {listed(present)}"
            f"{did_you_mean(missing[0], present)}"
        )


def attributes_alone(data: Frame, public: PublicColumns, domain: Domain) -> Frame:
    """A frame without its public columns."""
    present = column_names(data)
    check_public(present, public, domain)
    rest = [name for name in present if name not in public.names]
    frame = cast(Any, data)
    if is_pandas_dataframe(data):
        return cast(Frame, frame.iloc[:, [k for k, name in enumerate(present) if name in rest]])
    return cast(Frame, frame.select(rest) if hasattr(frame, "select") else frame_table(data).select(rest))


def beside(recoded: Any, given: Any, public: PublicColumns) -> Any:
    """The recoded frame with the public columns of the given one, in its order."""
    order = column_names(given)
    if is_pandas_dataframe(given):
        import pandas as pd  # noqa: PLC0415  # optional, and loaded already: the data is its frame

        at = {name: k for k, name in enumerate(column_names(recoded))}
        columns = [
            pd.Series((given.iloc[:, k] if name in public.names else recoded.iloc[:, at[name]]).array)
            for k, name in enumerate(order)
        ]
        out = pd.concat(columns, axis=1)
        out.columns, out.index = given.columns, given.index
        return out
    if is_polars_dataframe(given):
        return recoded.with_columns(given.get_column(name) for name in public.names).select(order)
    columns = [(given if name in public.names else recoded).column(name) for name in order]
    return type(recoded).from_arrays(columns, names=order)
