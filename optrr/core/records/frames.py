"""Data frames to codes and back: all frames that narwhals reads (pandas, polars, Arrow tables), and Arrow streams.

Every frame becomes record batches, one column per attribute; a batch becomes a code matrix, shape (n, m). What goes
back has the columns' and rows' order and a pandas frame's index, so that other columns of the same people can be put
beside it. Types, dictionaries and the sizes of batches follow from the domain and the number of records
(:class:`optrr.core.domain.columns.ReleasedColumn`); those of the true records, and their metadata, are left behind. No
ε covers order and index: where they follow a value, they reveal it.

narwhals is imported when the first frame comes: commands read files.
"""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from optrr.core.domain.arrays import numbers_of
from optrr.core.domain.bins import number_text
from optrr.core.domain.columns import ColumnCodec, ReleasedColumn
from optrr.core.domain.domain import Domain, listed, shown
from optrr.core.domain.public import PublicColumns
from optrr.core.errors import InvalidInput, did_you_mean, in_one_line
from optrr.core.provenance.provenance import Provenance
from optrr.core.records.multi_select import split_batch, split_schema
from optrr_solvers.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    import narwhals as nw

Frame = TypeVar("Frame")
# Randomizes codes in place.
RandomizeInPlace = Callable[[NDArray[np.int32]], None]

# Records converted at once. At 8 attributes their codes and columns take a few megabytes and stay near the cache.
RECORDS = 1 << 17

# Larger weights, and ones as many times smaller than 1, have fourth powers that are no numbers.
_LARGEST = 1e50
# Cells of a batch that is released.
_EVEN_CELLS = 1 << 22


def checked_columns(present: Sequence[str], wanted: Domain, declared: Domain | None) -> None:
    """Refuse repeated, missing and undeclared columns.

    Columns in ``wanted`` must be there; if ``declared`` is not None, others must be in it.

    Raises InvalidInput naming the column.
    """
    checked_names(present)
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
            "(``drop_undeclared`` leaves out every such column)"
        )


def checked_names(present: Sequence[str]) -> None:
    """Raise InvalidInput for two columns of one name."""
    repeats = [name for name, times in Counter(present).items() if times > 1]
    if repeats:
        raise InvalidInput(f"column {shown(repeats[0])} appears twice; give every column its own name")


def _instead(name: str, present: Sequence[str]) -> str:
    """Find the same column name in another form."""
    form = unicodedata.normalize("NFKC", name)
    twins = [p for p in present if unicodedata.normalize("NFKC", p) == form]
    if twins:
        return f"the data has it in another Unicode form ({twins[0]!a}, declared is {name!a}); write both names alike"
    return f"the data has {listed(present)}{did_you_mean(name, present)}; add it or rename one"


class FrameCodec:
    """Converter between record batches of one schema and code matrices.

    The matrix has the domain's attribute order.

    ``public`` columns are passed on unchanged. ``records`` counts those encoded so far, so that errors can name the bad
    record.

    Raises InvalidInput for missing, repeated, undeclared columns, a type that cannot be categorical, and public columns that
    are attributes or are not there; with a batch also for weights that are no numbers, and missing strata or clusters.
    """

    def __init__(self, domain: Domain, schema: pa.Schema, public: PublicColumns | None = None) -> None:
        checked_columns(_attributes(schema.names, public, domain) if public else schema.names, domain, domain)
        self.domain = domain
        self.schema = schema
        self.public = public
        self.columns = {a.name: ColumnCodec(a, schema.field(a.name).type) for a in domain}
        self.released = {a.name: ReleasedColumn(a) for a in domain}
        self.records = 0

    @cached_property
    def output_schema(self) -> pa.Schema:
        """Schema of recoded batches: the columns in the data's order, without metadata."""
        return self._schema({name: column.type for name, column in self.released.items()})

    @cached_property
    def written_schema(self) -> pa.Schema:
        """Schema of written files, with dictionaries for all attributes."""
        return self._schema({name: column.written for name, column in self.released.items()})

    def _schema(self, own: dict[str, pa.DataType]) -> pa.Schema:
        return pa.schema([pa.field(f.name, own[f.name]) if f.name in own else f.remove_metadata() for f in self.schema])

    def encode(self, batch: pa.RecordBatch) -> NDArray[np.int32]:
        """Convert to codes, shape (n, m), column-major."""
        if self.public:
            _checked_public(batch, self.public, self.records)
        out = np.empty((batch.num_rows, self.domain.m), dtype=np.int32, order="F")
        for i, attribute in enumerate(self.domain):
            column, name = batch.column(attribute.name), attribute.name
            if not column.type.equals(self.columns[name].kind):
                # pieces of one pandas column of Python objects may have different Arrow types
                self.columns[name] = ColumnCodec(attribute, column.type)
            out[:, i] = self.columns[name].encode(column, self.records)
        self.records += batch.num_rows
        return out

    def decode(self, codes: NDArray[np.integer], beside: Iterable[pa.Array] = ()) -> pa.RecordBatch:
        """Convert to a batch of ``output_schema`` with public columns ``beside``."""
        own = {name: self.released[name].encoded(codes[:, i]) for i, name in enumerate(self.domain.names)}
        return self._batch(own, beside, self.written_schema)

    def recode(self, batch: pa.RecordBatch, kernel: RandomizeInPlace) -> pa.RecordBatch:
        """Convert to ``output_schema`` after ``kernel`` edits the codes in place."""
        codes = self.encode(batch)
        kernel(codes)
        own = {name: self.released[name].decode(codes[:, i]) for i, name in enumerate(self.domain.names)}
        return self._batch(own, self._beside(batch), self.output_schema)

    def _batch(self, own: dict[str, pa.Array], beside: Iterable[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
        rest = iter(beside)
        columns = [own[name] if name in own else next(rest) for name in schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def packed(self, batch: pa.RecordBatch, kernel: RandomizeInPlace) -> pa.RecordBatch:
        """Randomize and pack a batch.

        A column with each record's codes in few bytes, then the public columns.
        """
        codes = self.encode(batch)
        kernel(codes)
        rows = np.ascontiguousarray(codes, dtype=self._narrow)
        kind = pa.binary(rows.itemsize * self.domain.m)
        column = pa.FixedSizeBinaryArray.from_buffers(kind, len(rows), [None, pa.py_buffer(rows)])
        columns = [column, *self._beside(batch)]
        return pa.RecordBatch.from_arrays(columns, names=[str(k) for k in range(len(columns))])

    def unpacked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a packed batch to ``output_schema``."""
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
    """Refuse values that no estimate could use.

    After a release they cannot be repaired without another privacy loss.
    """
    public_weights(batch, public.weight, start)
    for name in (public.stratum, public.cluster):
        PublicNames(name).add(batch, start, missing=False)


def public_weights(batch: pa.RecordBatch, name: str | None, start: int) -> FloatArray:
    """Read a column of weights, (n,), all 1 without one.

    Raises InvalidInput for values other than 0 and 1e-50 to 1e50.
    """
    if name is None:
        return np.ones(batch.num_rows)
    try:
        values: FloatArray = numbers_of(_plain(batch.column(name)).cast(pa.float64(), safe=False), np.nan)
    except pa.ArrowException:
        # Arrow's message holds the value, so it is not shown
        raise InvalidInput(
            f"column {shown(name)} contains a weight that is not a number; give numbers such as 1.5, with a point"
        ) from None
    bad = np.flatnonzero(~((values == 0) | ((values >= 1 / _LARGEST) & (values <= _LARGEST))))
    if bad.size:
        raise InvalidInput(
            f"column {shown(name)}, record {start + int(bad[0]) + 1}: the weight is missing, or neither 0 nor between "
            f"{1 / _LARGEST:g} and {_LARGEST:g}; correct it, or leave the record out"
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
                f"column {shown(self.name)} has type {in_one_line(column.type)}, which cannot name a group; give "
                "texts, "
                "numbers or dates"
            ) from None
        texts = [_text(value) for value in coded.dictionary.to_pylist()]
        place = np.array(
            [self._numbers.setdefault(text, len(self._numbers)) for text in [*texts, None]], dtype=np.int64
        )
        codes = place[numbers_of(coded.indices, len(texts))]
        empty = np.flatnonzero(codes == self._numbers[None])
        if empty.size and not missing:
            raise InvalidInput(
                f"column {shown(self.name)}, record {start + int(empty[0]) + 1}: missing value; every record needs a stratum "
                "and a cluster: fill it in, or leave the record out"
            )
        self._codes.append(codes)

    @property
    def texts(self) -> list[str | None]:
        """Texts by their number."""
        return list(self._numbers)

    def codes(self) -> IntArray:
        """Return the codes, shape (n,)."""
        return np.concatenate(self._codes)


def _plain(column: pa.Array) -> pa.Array:
    """Convert a column to a type that Arrow can encode and convert.

    No dictionary, and no string views.
    """
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
    """List the columns that are not public.

    Raises InvalidInput if a public column is an attribute, or is not there.
    """
    missing = [name for name in public.apart_from(domain).names if name not in present]
    if missing:
        raise InvalidInput(
            f"the public column {shown(missing[0])} is missing; add it, or name one of {listed(present)}"
            f"{did_you_mean(missing[0], present)}"
        )
    return [name for name in present if name not in public.names]


def recode_frame(data: Frame, domain: Domain, kernel: RandomizeInPlace, public: PublicColumns | None = None) -> Frame:
    """Apply ``kernel`` to the codes of a frame; return the same kind of frame.

    Public columns are unchanged.

    The columns' types are the domain's, not those of the data.

    O(n m) time and memory: the result, and one batch of codes at a time. Raises InvalidInput as
    :meth:`optrr.core.mechanisms.mechanism.Randomizer.randomize`, and for public columns that :class:`FrameCodec` refuses.
    """
    frame = frame_of(data)
    order = split_schema(pa.schema(dict.fromkeys(frame.columns, pa.null())), domain).names
    checked_columns(_attributes(order, public, domain) if public else order, domain, domain)
    if not len(frame):
        raise InvalidInput("the data contains no records; give at least one")
    if public and public.samples:
        start, said = 0, dict.fromkeys(filter(None, (public.weight, public.stratum, public.cluster)))
        for batch in frame_batches(frame, list(said)):
            _checked_public(batch, public, start)
            start += batch.num_rows
    names = _attributes(frame.columns, public, domain) if public else frame.columns
    codec = FrameCodec(domain, split_schema(_arrow(frame[:1].select(names)).schema, domain))
    batches = (codec.recode(split_batch(batch, domain, codec.records), kernel) for batch in frame_batches(frame, names))
    result = pa.Table.from_batches(even(batches), schema=codec.output_schema)
    recoded = _as_frame(result, frame, domain)
    if public:
        recoded = recoded.with_columns(frame.get_column(name) for name in public.names).select(order)
    return cast(Frame, _like(data, recoded.to_native(), domain))


def frame_of(data: Any) -> "nw.DataFrame[Any]":
    """Wrap a frame in memory by narwhals.

    Column names are texts, and values have Arrow types.

    Raises InvalidInput for other objects.
    """
    import narwhals as nw  # noqa: PLC0415 (takes longer to import than most files to read)

    if isinstance(data, nw.DataFrame):
        return data
    if nw.dependencies.is_pandas_dataframe(data):
        data = _plain_pandas(data)
    elif speaks_arrow(data) and not nw.dependencies.is_into_dataframe(data):
        data = pa.table(data)
    if isinstance(data, pa.Table):
        checked_names(data.column_names)
    try:
        frame: Any = nw.from_native(data)
    except TypeError:
        raise InvalidInput(
            f"cannot read records from a {type(data).__name__}; give a pandas, polars or Arrow table"
        ) from None
    if isinstance(frame, nw.LazyFrame):
        raise InvalidInput(f"a {frame.implementation} {type(data).__name__} holds no records yet; call collect() first")
    # such a name ends the conversion of polars, and in Arrow's own the process
    if "\0" in "".join(frame.columns):
        raise InvalidInput("a column of the frame has a NUL in its name; rename it")
    return cast("nw.DataFrame[Any]", frame)


def speaks_arrow(data: object) -> bool:
    """Check for a table or batch that exports Arrow repeatedly.

    A reader is used up by the first export.
    """
    spoken = hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")
    return spoken and not isinstance(data, pa.RecordBatchReader)


def _plain_pandas(data: Any) -> Any:
    """Convert a pandas frame: no index, intervals and periods as text.

    ``(18, 30]``, ``2024-01``.

    Raises InvalidInput for two columns of one name.
    """
    names = [str(name) for name in data.columns]
    checked_names(names)
    plain = data.set_axis(names, axis=1).reset_index(drop=True)
    for name, dtype in plain.dtypes.items():
        categories = getattr(dtype, "categories", None)
        inner = dtype if categories is None else categories.dtype
        if type(inner).__name__ not in ("IntervalDtype", "PeriodDtype"):
            continue
        column = plain[name]
        as_text = column.astype(object).map(str, na_action="ignore")
        plain[name] = as_text if categories is None else column.cat.rename_categories(list(map(str, categories)))
    return plain


def frame_batches(frame: "nw.DataFrame[Any]", columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Iterate over these columns as batches of at most 131,072 records.

    The frame is converted piece by piece, so that columns of Python objects are never copied whole.
    """
    chosen = frame.select(columns)
    for start in range(0, len(frame), RECORDS):
        yield from _arrow(chosen[start : start + RECORDS]).to_batches()


# What Arrow raises for a column of Python objects; the last for an integer of more than 64 bits.
_UNFIT_VALUES = (pa.ArrowException, TypeError, ValueError, OverflowError)


def _arrow(frame: "nw.DataFrame[Any]") -> pa.Table:
    try:
        return frame.to_arrow().select(frame.columns)
    except _UNFIT_VALUES:
        for name in frame.columns:
            try:
                frame.select(name).to_arrow()
            except _UNFIT_VALUES:
                # Arrow's message holds the value that it could not convert, so it is not shown
                raise InvalidInput(
                    f"column {shown(name)} mixes types, or holds integers of more than 64 bits; give every column one type"
                ) from None
        raise


def frame_schema(frame: "nw.DataFrame[Any]") -> pa.Schema:
    """Return names and types of a frame's columns.

    Columns of Python objects have the types of the first records.
    """
    objects = any(str(kind) == "object" for kind in getattr(frame.to_native(), "dtypes", ()))
    return _arrow(frame[: RECORDS if objects else 1]).schema


def _as_frame(result: pa.Table, given: "nw.DataFrame[Any]", domain: Domain) -> "nw.DataFrame[Any]":
    """Convert randomized records to a frame of the given library.

    Types follow from the domain.
    """
    import narwhals as nw  # noqa: PLC0415 (as above)

    if given.implementation.is_pandas():
        pd = import_module("pandas")
        # where the missing value is declared, in types that can hold it, whether it occurs or not
        nullable = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
        series = {}
        for name in result.column_names:
            missing = domain[name].missing_code is not None
            series[name] = result[name].to_pandas(types_mapper=nullable.get if missing else None)
        return nw.from_native(pd.DataFrame(series), eager_only=True)
    out = nw.from_arrow(result, backend=given.implementation)
    if given.implementation.is_polars():
        ordered = [a for a in domain if pa.types.is_dictionary(result.schema.field(a.name).type)]
        out = out.with_columns(nw.col(a.name).cast(nw.Enum(filter(None, a.texts))) for a in ordered)
    return out


def _like(data: Any, result: Any, domain: Domain) -> Any:
    """Convert the randomized frame to the kind given.

    A record batch, or with a pandas frame's labels.
    """
    if isinstance(data, pa.RecordBatch):
        return result.combine_chunks().to_batches()[0]
    if hasattr(data, "index") and hasattr(result, "set_axis"):
        # the index goes through as it is: one that is called like an attribute holds the true values
        true = [str(name) for name in data.index.names if name is not None and str(name) in domain.columns]
        if true:
            raise InvalidInput(
                f"the index has the name of attribute {shown(true[0])}, so its true values would be released; drop it "
                "with reset_index(drop=True)"
            )
        # labels need not be texts, which the names of options are
        labels = data.columns if list(result.columns) == list(map(str, data.columns)) else result.columns
        return result.set_axis(labels, axis=1).set_axis(data.index, axis=0)
    return result


def marked(frame: Frame, provenance: Callable[[], Provenance]) -> Frame:
    """Add provenance to a frame, if its library keeps metadata.

    Arrow's metadata, ``attrs`` of pandas.
    """
    if isinstance(frame, pa.Table | pa.RecordBatch):
        return cast(Frame, frame.replace_schema_metadata(provenance().metadata()))
    if isinstance(attrs := getattr(frame, "attrs", None), dict):
        attrs.update(provenance().metadata())
    return frame


def even(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rebatch records so that sizes depend on the number of columns only.

    The last batch may be smaller.

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


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Replace dictionaries of a schema by their values, and drop metadata."""
    return pa.schema([(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in schema])


def plain_columns(batch: pa.RecordBatch) -> list[pa.Array]:
    """Replace dictionaries of a batch's columns by their values."""
    return [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in batch.columns]
