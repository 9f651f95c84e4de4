"""Data frames to codes and back: pandas, polars, Arrow tables and record batches, and whatever speaks Arrow.

Every frame becomes record batches, one column per attribute; a batch becomes a code matrix, shape (n, m). What goes back has
the columns' and rows' order and a pandas frame's index, so that other columns of the same people can be put beside it. Types,
dictionaries and the sizes of batches follow from the domain and the number of records
(:class:`optrr.core.domain.columns.ReleasedColumn`); those of the true records, and their metadata, are left behind. No ε covers
order and index: where they follow a value, they tell it.

Records of a Spark frame are not collected: its own workers see Arrow batches of their partitions, and what reaches the driver
are sums. Columns are renamed on the way in, since Spark takes a dot in a name for a path into a structure.
"""

import os
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from optrr.core.domain.bins import number_text
from optrr.core.domain.columns import (
    ColumnCodec,
    ReleasedColumn,
    as_plain,
    is_pandas_dataframe,
    is_polars_dataframe,
    is_polars_lazyframe,
)
from optrr.core.domain.domain import Domain, listed, shown
from optrr.core.domain.public import PublicColumns
from optrr.core.errors import InvalidInput, did_you_mean, in_one_line
from optrr.core.provenance.provenance import Provenance
from optrr_solvers.arrays import FloatArray, IntArray

Frame = TypeVar("Frame")
Kernel = Callable[[NDArray[np.int32]], None]

# Records converted at once. At 8 attributes their codes and columns take a few megabytes and stay near the cache.
RECORDS = 1 << 17

# Larger weights, and ones as many times smaller than 1, have fourth powers that are no numbers.
_LARGEST = 1e50
# Cells of a batch that is released.
_EVEN_CELLS = 1 << 22


def checked_columns(present: Sequence[str], wanted: Domain, declared: Domain | None) -> None:
    """Refuse repeated columns, missing ones of ``wanted``, and, unless ``declared`` is None, ones not declared in it.

    Raises InvalidInput naming the column.
    """
    repeats = [name for name, times in Counter(present).items() if times > 1]
    if repeats:
        raise InvalidInput(f"column {shown(repeats[0])} appears twice; give every column its own name")
    seen = set(present)
    missing = [name for name in wanted.names if name not in seen]
    if missing:
        raise InvalidInput(f"column {shown(missing[0])} is missing; {_instead(missing[0], present)}")
    if declared is None:
        return
    known = set(declared.names)
    extra = [name for name in present if name not in known]
    if extra:
        one = len(extra) == 1
        which = (
            f"column {shown(extra[0])} is not an attribute" if one else f"columns {listed(extra)} are not attributes"
        )
        raise InvalidInput(
            f"{which} of the domain ({listed(declared.names)}); drop {'it or declare it' if one else 'them or declare them'} "
            "(optrr perturb --drop-undeclared leaves out every such column)"
        )


def _instead(name: str, present: Sequence[str]) -> str:
    """What the data has instead of a column: the same name in another form where there is one."""
    form = unicodedata.normalize("NFKC", name)
    twins = [p for p in present if unicodedata.normalize("NFKC", p) == form]
    if twins:
        return f"the data has it in another Unicode form ({twins[0]!a}, declared is {name!a}); write both names alike"
    return f"the data has {listed(present)}{did_you_mean(name, present)}"


class FrameCodec:
    """Record batches of one schema to code matrices and back; the matrix has the domain's attribute order.

    ``public`` columns go through as they are. ``records`` counts those encoded so far (from ``first_record``), so that errors
    can say which record is bad.

    Raises InvalidInput for missing, repeated, undeclared columns, a type that cannot be categorical, and public columns that
    are attributes or are not there; with a batch also for weights that are no numbers, and missing strata or clusters.
    """

    def __init__(
        self, domain: Domain, schema: pa.Schema, first_record: int = 0, public: PublicColumns | None = None
    ) -> None:
        checked_columns(_attributes(schema.names, public, domain) if public else schema.names, domain, domain)
        self.domain = domain
        self.schema = schema
        self.public = public
        self.columns = {a.name: ColumnCodec(a, schema.field(a.name).type) for a in domain}
        self.released = {a.name: ReleasedColumn(a) for a in domain}
        self.records = first_record

    @cached_property
    def output_schema(self) -> pa.Schema:
        """Schema of decoded batches: the columns in the data's order, without metadata."""
        return pa.schema([self._field(field) for field in self.schema])

    def _field(self, field: pa.Field) -> pa.Field:
        own = self.released.get(field.name)
        return field.remove_metadata() if own is None else pa.field(field.name, own.type)

    def encode(self, batch: pa.RecordBatch) -> NDArray[np.int32]:
        """Codes, shape (n, m), column-major."""
        if self.public:
            _checked_public(batch, self.public, self.records)
        out = np.empty((batch.num_rows, self.domain.m), dtype=np.int32, order="F")
        for i, name in enumerate(self.domain.names):
            out[:, i] = self.columns[name].encode(batch.column(name), self.records)
        self.records += batch.num_rows
        return out

    def decode(self, codes: NDArray[np.integer], beside: Iterable[pa.Array] = ()) -> pa.RecordBatch:
        """A batch of ``output_schema``; ``beside`` are its public columns, in order."""
        at, rest = self.domain.index, iter(beside)
        columns = [
            self.released[name].decode(codes[:, at(name)]) if name in self.released else next(rest)
            for name in self.schema.names
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.output_schema)

    def recode(self, batch: pa.RecordBatch, kernel: Kernel) -> pa.RecordBatch:
        """Encode, let ``kernel`` edit the codes in place, decode."""
        codes = self.encode(batch)
        kernel(codes)
        return self.decode(codes, self._beside(batch))

    def packed(self, batch: pa.RecordBatch, kernel: Kernel) -> pa.RecordBatch:
        """As :meth:`recode`, but not decoded yet: a column with each record's codes in few bytes, then the public columns."""
        codes = self.encode(batch)
        kernel(codes)
        rows = np.ascontiguousarray(codes, dtype=self._narrow)
        kind = pa.binary(rows.itemsize * self.domain.m)
        column = pa.FixedSizeBinaryArray.from_buffers(kind, len(rows), [None, pa.py_buffer(rows)])
        columns = [column, *self._beside(batch)]
        return pa.RecordBatch.from_arrays(columns, names=[str(k) for k in range(len(columns))])

    def unpacked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of ``output_schema`` from a packed one."""
        column = batch.column(0)
        width = column.type.byte_width
        flat = np.frombuffer(column.buffers()[1], self._narrow, len(batch) * self.domain.m, column.offset * width)
        return self.decode(flat.reshape(len(batch), self.domain.m), batch.columns[1:])

    def _beside(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return [batch.column(name) for name in self.schema.names if name not in self.columns]

    @cached_property
    def _narrow(self) -> np.dtype[np.signedinteger]:
        """The smallest type that holds every code."""
        return np.dtype(np.min_scalar_type(-int(self.domain.sizes.max())))


def _checked_public(batch: pa.RecordBatch, public: PublicColumns, start: int) -> None:
    """Refuse what no estimate could use: after a release it cannot be mended without another one, which spends again."""
    public_weights(batch, public.weight, start)
    for name in (public.stratum, public.cluster):
        PublicNames(name).add(batch, start, missing=False)


def public_weights(batch: pa.RecordBatch, name: str | None, start: int) -> FloatArray:
    """A column of weights, (n,), all 1 without one. Raises InvalidInput for what is neither 0 nor from 1e-50 to 1e50."""
    if name is None:
        return np.ones(batch.num_rows)
    try:
        values = np.asarray(
            _plain(batch.column(name)).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64
        )
    except pa.ArrowException:
        # Arrow's message holds the value, so it is not shown
        raise InvalidInput(
            f"column {shown(name)} holds something that is no number; weights are numbers such as 1.5, with a point"
        ) from None
    bad = np.flatnonzero(~((values == 0) | ((values >= 1 / _LARGEST) & (values <= _LARGEST))))
    if bad.size:
        raise InvalidInput(
            f"column {shown(name)}, record {start + int(bad[0]) + 1}: no weight, which is 0 or between "
            f"{1 / _LARGEST:g} and {_LARGEST:g}; mend it, or leave the record out"
        )
    return values


class PublicNames:
    """A column of names as numbers, batch by batch; all 0 where there is no column."""

    def __init__(self, name: str | None) -> None:
        self.name = name
        self._numbers: dict[str | None, int] = {}
        self._codes: list[IntArray] = []

    def add(self, batch: pa.RecordBatch, start: int, missing: bool) -> None:
        """Take a batch; a value may be ``missing``, or InvalidInput is raised."""
        if self.name is None:
            self._codes.append(np.zeros(batch.num_rows, dtype=np.int64))
            return
        column = _plain(batch.column(self.name))
        try:
            coded = pc.dictionary_encode(column)
        except pa.ArrowNotImplementedError:
            raise InvalidInput(
                f"column {shown(self.name)} holds {in_one_line(column.type)}, which names nothing; give texts, numbers or dates"
            ) from None
        texts = [_text(value) for value in coded.dictionary.to_pylist()]
        place = np.array(
            [self._numbers.setdefault(text, len(self._numbers)) for text in [*texts, None]], dtype=np.int64
        )
        codes = place[coded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)]
        empty = np.flatnonzero(codes == self._numbers[None])
        if empty.size and not missing:
            raise InvalidInput(
                f"column {shown(self.name)}, record {start + int(empty[0]) + 1}: missing value; every record needs a stratum "
                "and a cluster: fill it in, or leave the record out"
            )
        self._codes.append(codes)

    @property
    def texts(self) -> list[str | None]:
        """By number."""
        return list(self._numbers)

    def codes(self) -> IntArray:
        """(n,)."""
        return np.concatenate(self._codes)


def _plain(column: pa.Array) -> pa.Array:
    """A column of a type that Arrow can encode and convert: no dictionary, and no views of texts."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.cast(pa.string()) if pa.types.is_string_view(column.type) else column


def _text(value: Any) -> str | None:
    if value is None or value == "" or value != value:  # noqa: PLR0124 (only nan differs from itself)
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number_text(value)
    return str(value)


def _attributes(present: Sequence[str], public: PublicColumns, domain: Domain) -> list[str]:
    """The columns that are not public. Raises InvalidInput where a public column is an attribute, or is not there."""
    missing = [name for name in public.apart_from(domain).names if name not in present]
    if missing:
        raise InvalidInput(
            f"the public column {shown(missing[0])} is missing; the data has {listed(present)}"
            f"{did_you_mean(missing[0], present)}"
        )
    return [name for name in present if name not in public.names]


def recode_frame(data: Frame, domain: Domain, kernel: Kernel, public: PublicColumns | None = None) -> Frame:
    """The frame with its codes edited by ``kernel``, of the kind it was given as; public columns go through as they are.

    The columns' types are the domain's, whatever those of the data.

    O(n m) time and memory: the result, and one batch of codes at a time. Raises InvalidInput as
    :meth:`optrr.core.mechanisms.mechanism.Randomizer.perturb`, and for public columns that :class:`FrameCodec` refuses.
    """
    names = column_names(data)
    names = _attributes(names, public, domain) if public else names
    checked_columns(names, domain, domain)
    if is_pandas_dataframe(data):
        # the index goes through as it is: one that is called like an attribute holds the true values
        true = [str(name) for name in cast(Any, data).index.names if name is not None and str(name) in domain.names]
        if true:
            raise InvalidInput(
                f"the index is called {shown(true[0])} like an attribute, and would go through with the true values; drop it "
                "with reset_index(drop=True)"
            )
    if public and public.samples:
        start, said = 0, dict.fromkeys(filter(None, (public.weight, public.stratum, public.cluster)))
        for batch in frame_batches(data, list(said)):
            _checked_public(batch, public, start)
            start += batch.num_rows
    alone = _selected(data, names) if public else data
    table = frame_table(alone)
    if not table.num_rows:
        raise InvalidInput("the data holds no records; give at least one")
    codec = FrameCodec(domain, table.schema)
    batches = (codec.recode(b, kernel) for b in table.to_batches(max_chunksize=RECORDS))
    recoded = _like(alone, pa.Table.from_batches(even(batches), schema=codec.output_schema), codec)
    return cast(Frame, _with_public(recoded, data, public) if public else recoded)


def _with_public(recoded: Any, given: Any, public: PublicColumns) -> Any:
    """The recoded frame with the public columns of the given one, in its order."""
    order = column_names(given)
    if is_pandas_dataframe(given):
        for k, name in enumerate(order):
            if name in public.names:
                recoded.insert(k, given.columns[k], given.iloc[:, k].array, allow_duplicates=True)
        recoded.columns = given.columns
        return recoded
    if is_polars_dataframe(given):
        return recoded.with_columns(given.get_column(name) for name in public.names).select(order)
    columns = [(given if name in public.names else recoded).column(name) for name in order]
    return type(recoded).from_arrays(columns, names=order)


def marked(frame: Frame, provenance: Callable[[], Provenance]) -> Frame:
    """The frame with what it says of itself, where its library keeps that: Arrow's metadata, ``attrs`` of pandas."""
    if isinstance(frame, pa.Table | pa.RecordBatch):
        return cast(Frame, frame.replace_schema_metadata(provenance().metadata()))
    if is_pandas_dataframe(frame):
        cast(Any, frame).attrs.update(provenance().metadata())
    return frame


def column_names(data: Any) -> list[str]:
    """Names of a frame's columns, as text."""
    if is_pandas_dataframe(data) or is_polars_dataframe(data):
        return [str(name) for name in data.columns]
    return list(frame_table(data).schema.names)


def frame_batches(data: Any, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """These columns of a frame, as record batches of at most 131,072 records.

    A pandas frame is converted piece by piece, so that columns of Python objects are never copied whole.
    """
    if is_pandas_dataframe(data):
        chosen = _selected(data, columns)
        for start in range(0, len(chosen), RECORDS):
            yield from _from_pandas(chosen.iloc[start : start + RECORDS]).to_batches()
        return
    yield from frame_table(data).select(list(columns)).to_batches(max_chunksize=RECORDS)


def _selected(data: Any, columns: Sequence[str]) -> Any:
    """These columns, as the same kind of frame."""
    if is_pandas_dataframe(data):
        at = {name: k for k, name in enumerate(column_names(data))}
        return data.iloc[:, [at[name] for name in columns]]
    if is_polars_dataframe(data):
        return data[list(columns)]
    return (data if isinstance(data, pa.RecordBatch) else frame_table(data)).select(list(columns))


def is_frame(data: object) -> bool:
    """Whether this is one table in memory that :func:`frame_batches` can read (an iterable of batches is not)."""
    if is_pandas_dataframe(data) or is_polars_dataframe(data) or is_polars_lazyframe(data):
        return True
    # a RecordBatchReader speaks Arrow too, but it is a stream: reading it as a table would take all its memory
    speaks_arrow = hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")
    return speaks_arrow and not isinstance(data, pa.RecordBatchReader)


def is_spark_frame(data: object) -> bool:
    """Whether this is a Spark data frame; PySpark is not imported to find out."""
    kinds = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(data).__mro__)
    return any(kind.startswith("pyspark.sql.") and kind.endswith("dataframe.DataFrame") for kind in kinds)


def refuse_spark_frame(data: object) -> None:
    """Refuse what would be collected into the driver. Raises InvalidInput naming what to use instead."""
    if is_spark_frame(data):
        raise InvalidInput(
            "the records of a Spark frame are not brought to one machine; randomize them where they lie, with "
            "optrr.core.mechanisms.spark.perturb_once(frame, mechanism, path) (sampled tables: "
            "optrr.allocation.sampled_uses.answer_once), and count them with optrr.count(frame, …)"
        )


def frame_table(data: Any) -> pa.Table:
    """The frame as an Arrow table. Raises InvalidInput for what is none, or does not fit Arrow's types."""
    if isinstance(data, pa.Table):
        return data
    if is_pandas_dataframe(data):
        return _from_pandas(data)
    if is_polars_lazyframe(data):
        raise InvalidInput("a polars LazyFrame holds no records yet; call collect() first")
    if is_polars_dataframe(data):
        # such a name ends the conversion, and in Arrow's own the process
        if "\0" in "".join(data.columns):
            raise InvalidInput("a column of the frame has a NUL in its name; rename it")
        return data.to_arrow()
    if not is_frame(data):
        raise InvalidInput(f"cannot read records from a {type(data).__name__}; give a pandas, polars or Arrow table")
    return pa.table(data)


# What Arrow raises for a column of Python objects; the last for an integer of more than 64 bits.
_UNFIT_VALUES = (pa.ArrowException, TypeError, ValueError, OverflowError)


def _from_pandas(data: Any) -> pa.Table:
    try:
        return pa.Table.from_pandas(as_plain(data), preserve_index=False)
    except _UNFIT_VALUES:
        # Arrow's message holds the value that it could not convert, so it is not shown
        raise InvalidInput(
            f"{_unfit_column(data)} mixes types, or holds integers of more than 64 bits; give every column one type"
        ) from None


def _unfit_column(data: Any) -> str:
    """The first column of a pandas frame that Arrow has no type for."""
    for position, name in enumerate(data.columns):
        try:
            pa.Array.from_pandas(data.iloc[:, position])
        except _UNFIT_VALUES:
            return f"column {shown(str(name))}"
    return "the data frame"


def even(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same records in batches whose size depends on the number of columns alone, the last one aside.

    The size of a batch that was read may follow from the length of true values.
    """
    held: list[pa.RecordBatch] = []
    records = 0
    for batch in batches:
        size = max(1, min(RECORDS, _EVEN_CELLS // max(1, batch.num_columns)))
        start = 0
        while records + batch.num_rows - start >= size:
            held.append(batch.slice(start, size - records))
            yield _joined(held)
            start, held, records = start + size - records, [], 0
        if start < batch.num_rows:
            held.append(batch.slice(start))
            records += batch.num_rows - start
    if held:
        yield _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _like(data: Any, result: pa.Table, codec: FrameCodec) -> Any:
    """The result as the kind of frame that was given."""
    if isinstance(data, pa.RecordBatch):
        return result.combine_chunks().to_batches()[0]
    if is_polars_dataframe(data):
        import polars as pl  # noqa: PLC0415  # optional, and loaded already: the data is its frame

        coded = [a for a in codec.domain if pa.types.is_dictionary(codec.released[a.name].type)]
        enums = {a.name: pl.Enum([t for t in a.texts if t is not None]) for a in coded}
        return pl.DataFrame(result).with_columns(pl.col(name).cast(kind) for name, kind in enums.items())
    return _to_pandas(data, result, codec) if is_pandas_dataframe(data) else result


def _to_pandas(data: Any, result: pa.Table, codec: FrameCodec) -> Any:
    import pandas as pd  # noqa: PLC0415  # as above

    # where the missing value is declared, in types that can hold it, whether anybody has it or not
    nullable = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
    series = {}
    for name in result.schema.names:
        missing = codec.domain[name].missing_code is not None
        series[name] = result[name].to_pandas(types_mapper=nullable.get if missing else None)
    out = pd.DataFrame(series)
    out.columns, out.index = data.columns, data.index
    return out


# From the batches of one partition to other batches.
PartitionKernel = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_SUMS = "cell long, number long"
_REFUSAL = re.compile(r"\bInvalidInput: (.+)")
# What workers say of themselves where they are not as the driver is: without the package, of another version, not there at all.
_UNFIT = re.compile(
    r"No module named '(optrr|optrr_solvers|numpy|scipy|pyarrow|msgspec)[.\w]*'"
    r"|Python in worker has different version[^\n]{0,80}"
    r"|Cannot run program \"[^\"\n]{1,200}\""
)
_INTERPRETER = "PYSPARK_PYTHON (spark.pyspark.python)"


def arrow_schema(frame: Any) -> pa.Schema:
    """The frame's columns as Arrow types."""
    # an optional dependency, there when the caller has a Spark frame
    return import_module("pyspark.sql.pandas.types").to_arrow_schema(frame.schema)


def map_partitions(frame: Any, columns: Sequence[str], kernel: PartitionKernel, schema: Any) -> Any:
    """The lazy frame of what ``kernel`` makes of each partition's batches of these columns.

    A refusal on a worker names the partition: records are counted within it, for Spark numbers no others.
    """
    names = list(columns)
    at = [list(frame.columns).index(name) for name in names]
    plain = [f"c{k}" for k in range(len(frame.columns))]

    def on_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from kernel(pa.RecordBatch.from_arrays(batch.columns, names=names) for batch in batches)
        except InvalidInput as error:
            number = import_module("pyspark").TaskContext.get().partitionId()
            raise InvalidInput(f"partition {number + 1}, whose records are counted from 1: {error}") from None

    with _own_interpreter(frame):
        return frame.toDF(*plain).select(*(plain[k] for k in at)).mapInArrow(on_worker, schema)


@contextmanager
def _own_interpreter(frame: Any) -> Iterator[None]:
    """On one machine, workers run what runs here, where nobody names another Python: Spark would take the first ``python3``.

    What is defined meanwhile keeps the interpreter; what others define in this session does not.
    """
    context: Any = getattr(frame.sparkSession, "_sc", None)  # Spark Connect has none here
    elsewhere = context is None or not context.master.startswith("local")
    if elsewhere or "PYSPARK_PYTHON" in os.environ or context.getConf().contains("spark.pyspark.python"):
        yield
        return
    theirs, context.pythonExec = context.pythonExec, sys.executable
    try:
        yield
    finally:
        context.pythonExec = theirs


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what a worker refused, or lacks, into one line here; Spark wraps it in its own traceback."""
    try:
        yield
    except InvalidInput:
        raise
    except Exception as error:
        said = str(error)
        refused, unfit = _REFUSAL.search(said), _UNFIT.search(said)
        if refused is not None:
            raise InvalidInput(refused.group(1).strip()) from None
        if unfit is not None:
            raise InvalidInput(
                f"Spark's workers run a Python that cannot do this ({unfit.group(0)}); install optrr on every worker, and name "
                f"its interpreter as {_INTERPRETER}"
            ) from None
        raise


def summed(
    frame: Any, columns: Sequence[str], cells: int, tally: Callable[[Iterator[pa.RecordBatch]], IntArray]
) -> IntArray:
    """Σ over partitions of ``tally``, which turns a partition's batches into an array of ``cells`` whole numbers.

    Workers send the cells that are not zero; Spark adds them up before they reach the driver.
    """

    def kernel(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = tally(batches)
        at = np.flatnonzero(numbers)
        yield pa.record_batch({"cell": pa.array(at, pa.int64()), "number": pa.array(numbers[at], pa.int64())})

    with refusals():
        rows = map_partitions(frame, columns, kernel, _SUMS).groupBy("cell").sum("number").collect()
    out = np.zeros(cells, dtype=np.int64)
    for cell, number in rows:
        out[cell] = number
    return out
