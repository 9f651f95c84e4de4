"""Frames: round trips over every kind of column, what is refused, and what must not leak."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optrr.core.domain.domain import Attribute, Domain, category_text
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms.mechanism import Mechanism
from optrr.core.records import frames
from optrr.core.records.counts import record_batches
from optrr.core.records.frames import FrameCodec, recode_frame
from optrr.core.records.writing import RecordWriter
from optrr_solvers.laws import ProductLaw

TEXT = st.text(st.characters(codec="utf-8"), max_size=6)
CATEGORY = st.one_of(TEXT, st.integers(-(2**63), 2**63 - 1), st.booleans(), st.none())
HOMOGENEOUS = st.one_of(
    *(
        st.lists(kind, min_size=2, max_size=8, unique_by=str)
        for kind in (TEXT, st.integers(-(2**31), 2**31), st.booleans())
    )
)


def keep(codes):
    """The kernel that changes nothing."""


def shift(codes):
    """Every code moves to the next category; the frames here have three categories everywhere."""
    codes += 1
    codes %= 3


@st.composite
def columns(draw):
    """A domain of 1 to 4 attributes, each of one type and perhaps with a missing value, and some records of it."""
    n = draw(st.integers(1, 30))
    declared, values = {}, {}
    # Arrow's interface in C, which polars speaks, ends a name at a zero
    names = TEXT.filter(lambda text: text and "\0" not in text)
    for name in draw(st.lists(names, min_size=1, max_size=4, unique=True)):
        categories = draw(HOMOGENEOUS) + ([None] if draw(st.booleans()) else [])
        declared[name] = categories
        values[name] = draw(st.lists(st.sampled_from(categories), min_size=n, max_size=n))
    return Domain.of(declared), values


@pytest.mark.slow
@given(columns(), st.randoms(use_true_random=False))
@settings(derandomize=True, deadline=None, max_examples=100)
def test_encoding_agrees_with_a_dictionary_and_round_trips(drawn, random):
    domain, values = drawn
    order = random.sample(domain.names, domain.m)
    table = pa.table({name: values[name] for name in order})
    expected = [[a.categories.index(v) for v in values[a.name]] for a in domain]
    for data in (table, table.to_batches()[0], pl.DataFrame(table), table.to_pandas()):
        batches = list(record_batches(data, domain, domain))
        codes = np.concatenate([FrameCodec(domain, b.schema).encode(b) for b in batches])
        assert codes.T.tolist() == expected
    released = recode_frame(table, domain, keep)
    assert released.schema == pa.schema([(name, _plain_type(domain[name])) for name in order])
    assert released.to_pydict() == {name: values[name] for name in order}
    assert pl.DataFrame(released).equals(recode_frame(pl.DataFrame(table), domain, keep))
    objects = pd.DataFrame({name: pd.Series(values[name], dtype=object) for name in order})
    back = recode_frame(objects, domain, keep)
    assert back.columns.tolist() == order
    assert [[None if pd.isna(v) else v for v in back[name]] for name in order] == [values[name] for name in order]


def _plain_type(attribute):
    """The type of an attribute whose categories are alike."""
    kinds = {type(c) for c in attribute.categories} - {type(None)}
    return {int: pa.int64(), bool: pa.bool_(), str: pa.string()}[kinds.pop()]


@given(st.lists(CATEGORY, min_size=2, max_size=6, unique_by=category_text), st.data())
@settings(derandomize=True, deadline=None, max_examples=100)
def test_mixed_categories_meet_text_columns(categories, data):
    """A column of text holds every category but the missing one by its canonical text."""
    domain = Domain.of({"x": categories})
    codes = data.draw(st.lists(st.integers(0, len(categories) - 1), min_size=1, max_size=10))
    texts = [domain["x"].texts[c] for c in codes]
    batch = pa.record_batch({"x": pa.array(texts, pa.string())})
    assert FrameCodec(domain, batch.schema).encode(batch)[:, 0].tolist() == codes


THREE = {
    "text": (["a", "b", "c"], [pa.string(), pa.large_string(), pa.string_view()]),
    "integers": ([0, 1, 2], [getattr(pa, f"{u}int{b}")() for u in ("", "u") for b in (8, 16, 32, 64)]),
    "floats": ([0, 1, 2], [pa.float32(), pa.float64()]),
    "booleans": ([False, None, True], [pa.bool_()]),
    "missing": (["a", None, "c"], [pa.string(), pa.large_string(), pa.string_view()]),
    "missing integers": ([0, None, -2], [pa.int8(), pa.float64()]),
    "coded": (["a", "b", "c"], [pa.dictionary(i, v) for i in (pa.int8(), pa.uint32()) for v in (pa.string(),)]),
    "coded large": (["a", None, "c"], [pa.dictionary(pa.int8(), pa.large_string(), ordered=True)]),
    "coded views": (["a", None, "c"], [pa.dictionary(pa.uint32(), pa.string_view())]),
    "coded integers": ([5, 6, 7], [pa.dictionary(pa.int16(), pa.int64())]),
}


@pytest.mark.parametrize(
    ("categories", "kind"), [pytest.param(c, k, id=str(k)) for c, kinds in THREE.values() for k in kinds]
)
def test_every_column_type_is_read_and_released_as_declared(categories, kind):
    domain = Domain.of({"x": categories})
    codes = np.array([0, 1, 2, 2, 1, 0, 0])
    column = _column([categories[c] for c in codes], kind)
    table = pa.table({"x": column})
    out = recode_frame(table, domain, shift)
    assert out.schema == pa.schema([("x", _plain_type(domain["x"]))])
    assert out["x"].to_pylist() == [categories[(c + 1) % 3] for c in codes]
    # a slice starts inside Arrow's buffers
    assert recode_frame(table.slice(2, 4), domain, shift)["x"].to_pylist() == out["x"].to_pylist()[2:6]


def _column(values, kind):
    if pa.types.is_dictionary(kind):
        present = [v for v in dict.fromkeys(values) if v is not None]
        indices = pa.array([None if v is None else present.index(v) for v in values], kind.index_type)
        return pa.DictionaryArray.from_arrays(indices, pa.array(present, kind.value_type), ordered=kind.ordered)
    return pa.array(values, kind)


def test_a_missing_value_inside_a_dictionary():
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None]), pa.array(["a", None, "unused"]))
    table = pa.table({"x": coded.slice(0, 2)})
    assert recode_frame(table, Domain.of({"x": ["a", None, "c"]}), keep)["x"].to_pylist() == ["a", None]


def test_categories_without_a_common_type_are_released_as_text():
    domain = Domain.of(
        {"x": [0, 1, "other"], "y": [0, 10**30], "z": ["007", "7", "a"], "b": [True, 2], "f": [0.5, 2**60]}
    )
    table = pa.table({"x": [0, 1], "y": pa.array([0, 0], pa.int8()), "z": [7, 7], "b": [True, True], "f": [0.5, 0.5]})
    out = recode_frame(table, domain, keep)
    assert set(out.schema.types) == {pa.string()}
    # "007" is not a number's text, so the number 7 is the category "7"
    assert out.to_pydict() == {
        "x": ["0", "1"], "y": ["0", "0"], "z": ["7", "7"], "b": ["true", "true"], "f": ["0.5", "0.5"]
    }  # fmt: skip


def test_every_number_is_read_again_as_arrow_writes_it():
    """CSV holds doubles in Arrow's digits, 1e-7, and not in Python's, 1e-07."""
    numbers = [0.5, 1, 1e-7, -2.5e-5, 1.5e-300, 123456.75]
    domain = Domain.of({"x": numbers})
    released = recode_frame(pa.table({"x": numbers}), domain, keep)
    text = released.cast(pa.schema([("x", pa.string())]))
    assert recode_frame(text, domain, keep).equals(released)
    assert released["x"].to_pylist() == numbers


ORDERED = Domain(
    (
        Attribute("text", ("a", "b", "c")),
        Attribute("level", ("low", "high", None), ordered=True),
        Attribute("kids", (0, None, 2)),
        Attribute("age", (0, 1, 2)),
        Attribute("share", (0.5, None, 2)),
        Attribute("truth", (True, False, None)),
        Attribute("sure", (True, False)),
    )
)


@pytest.mark.parametrize("missing", [False, True])
def test_types_of_frames_are_those_of_the_domain(missing):
    no = None if missing else 2
    given = {
        "text": ["b", "a", "b"],
        "level": ["low", "low", None if missing else "high"],
        "kids": [0, 2, no],
        "age": [0, 1, 2],
        "share": [0.5, 2, no],
        "truth": [True, False, None if missing else True],
        "sure": [True, False, True],
    }
    coded = pd.Categorical(given["text"], categories=["c", "b", "a"])
    data = pd.DataFrame(given | {"text": coded, "age": np.array([0, 1, 2], dtype=np.int8)}, index=["Ann", "Bob", "Cid"])
    out = recode_frame(data, ORDERED, keep)
    text = pd.Series(["a"]).dtype if pd.__version__ >= "3" else np.dtype(object)
    level = pd.CategoricalDtype(pd.Index(["low", "high"], dtype=text), ordered=True)
    assert out.dtypes.tolist() == [text, level, pd.Int64Dtype(), np.int64, np.float64, pd.BooleanDtype(), np.bool_]
    assert out.index.equals(data.index)
    assert {name: [None if pd.isna(v) else v for v in out[name]] for name in out} == given
    kinds = {"text": pl.Categorical, "level": pl.Enum(["low", "z", "high"]), "kids": pl.UInt8}
    out = recode_frame(pl.DataFrame(given, schema_overrides=kinds, strict=False), ORDERED, keep)
    level = pl.Enum(["low", "high"])
    assert out.dtypes == [pl.String, level, pl.Int64, pl.Int64, pl.Float64, pl.Boolean, pl.Boolean]
    assert out.to_dict(as_series=False) == given


def test_nothing_of_the_true_records_rides_along():
    """Dictionaries and metadata are made from the declaration, not copied; a pandas index is kept, as is documented."""
    domain = Domain((Attribute("x", ("a", "b", "c", "d"), ordered=True),))
    for seen in (["d", "b"], ["b", "d"], ["b", "b"]):
        coded = pa.array(seen).dictionary_encode()
        field = pa.field("x", coded.type, nullable=False, metadata={"truth": "d,b"})
        table = pa.Table.from_arrays([coded], schema=pa.schema([field], metadata={"people": "Ann, Bob"}))
        out = recode_frame(table, domain, keep)
        assert out["x"].chunk(0).dictionary.to_pylist() == ["a", "b", "c", "d"]
        assert not out.schema.metadata
        assert out.schema.field("x") == pa.field("x", pa.dictionary(pa.int32(), pa.string(), ordered=True))
        assert not out.schema.field("x").metadata
        category = pd.DataFrame({"x": pd.Categorical(seen)}, index=pd.Index(["Ann", "Bob"], name="person"))
        released = recode_frame(category, domain, keep)
        assert released["x"].cat.categories.tolist() == ["a", "b", "c", "d"]
        assert (released.index.tolist(), released.index.name) == (["Ann", "Bob"], "person")
        assert not released.attrs


@pytest.mark.parametrize("seen", [[0, 0, 0], [1, 0, 1], [1, 2, 2]])
def test_parquet_has_declared_types_and_lists_all_categories(seen, tmp_path):
    domain = Domain(
        (
            Attribute("plain", ("b", "a", None)),
            Attribute("ordered", ("low", "middle", "high"), ordered=True),
            Attribute("number", (10, 20, 30)),
        )
    )
    codec, path = FrameCodec(domain, pa.schema([(name, pa.string()) for name in domain.names])), tmp_path / "a.parquet"
    with RecordWriter(path, codec.written_schema.with_metadata({"note": "kept"})) as writer:
        writer.write([codec.decode(np.transpose([seen, seen, seen]))])
    kinds = [pa.string(), pa.dictionary(pa.int32(), pa.string(), ordered=True), pa.int64()]
    table = pq.read_table(path)
    assert table.schema.equals(pa.schema(zip(domain.names, kinds, strict=True), {"note": "kept"}), check_metadata=True)
    assert table.to_pydict() == {a.name: [a.categories[code] for code in seen] for a in domain}
    kept = pq.read_table(path, read_dictionary=["plain", "ordered"])
    listed = [kept[name].chunk(0).dictionary.to_pylist() for name in ("plain", "ordered")]
    assert listed == [["b", "a"], ["low", "middle", "high"]]


@pytest.fixture(params=["pandas", "polars", "arrow", "batch"])
def frame(request):
    makers = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table, "batch": pa.record_batch}
    return makers[request.param]


SEX_AGE = Domain.of({"sex": ["F", "M"], "age": 3})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sex": ["F", "X"], "age": [0, 1]}, "'sex', record 2: unknown category .a text.; declared are 'F', 'M'"),
        ({"sex": ["F", ""], "age": [0, 1]}, "unknown category"),
        (
            {"sex": ["F", "M"], "age": [0, 3]},
            "'age', record 2: unknown category .a number.; declared are '0', '1', '2'",
        ),
        ({"sex": ["F", "M"], "age": [0.0, 0.5]}, "column 'age', record 2: unknown category"),
        ({"sex": ["F", "M"], "age": ["0", "01"]}, "unknown category"),
        ({"sex": [None, "M"], "age": [0, 1]}, "column 'sex', record 1: missing value; declare null"),
        ({"sex": ["F", "M"]}, "column 'age' is missing; the data has 'sex'"),
        ({"sex": ["F"], "age": [1], "name": ["Ann"]}, "column 'name' is not an attribute"),
        ({"sex": [], "age": []}, "no records"),
    ],
)
def test_bad_data(frame, values, message):
    with pytest.raises(InvalidInput, match=message):
        recode_frame(frame(values), SEX_AGE, keep)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pa.table([["F"], ["F"], [1]], names=["sex", "sex", "age"]), "column 'sex' appears twice"),
        (pd.DataFrame([["F", "F", 1]], columns=["sex", "sex", "age"]), "column 'sex' appears twice"),
        (pd.DataFrame({"sex": ["F", "M"], "age": [1.0, np.nan]}), "column 'age', record 2: missing value"),
        (pd.DataFrame({"sex": ["F", 1], "age": [1, 2]}), "column 'sex' mixes types, .*; give every column one type"),
        (
            pd.DataFrame({"sex": ["F", "F"], "age": [0, 10**30]}),
            "column 'age' mixes types, or holds integers of more than",
        ),
        (pa.table({"sex": ["F"], "age": pa.array([0], pa.duration("s"))}), r"column 'age' has type duration\[s\]"),
        (pa.table({"sex": ["F"], "age": pa.array([0], pa.timestamp("s"))}), r"unknown category \(a date\)"),
        (pa.table({"sex": [["F"]], "age": [0]}), "column 'sex' has type list"),
        (pl.LazyFrame({"sex": ["F"], "age": [1]}), r"call collect\(\)"),
        ([("F", 1)], "cannot read records from a list"),
        ("records.csv", "cannot read records from a str"),
    ],
)
def test_unusable_frames(data, message):
    with pytest.raises(InvalidInput, match=message):
        recode_frame(data, SEX_AGE, keep)


def test_errors_count_records_across_batches(monkeypatch):
    monkeypatch.setattr(frames, "RECORDS", 7)
    values = {"sex": ["F"] * 100, "age": [1] * 52 + [9] + [1] * 47}
    for data in (pa.table(values), pd.DataFrame(values), pl.DataFrame(values)):
        with pytest.raises(InvalidInput, match="record 53: unknown category"):
            recode_frame(data, SEX_AGE, keep)


def test_perturb_keeps_kind_order_and_seed():
    """A seed gives the same records whatever the frame; ε = 50 leaves 300 records alone with chance above 1 − 1e-18."""
    domain = Domain.of({"sex": ["F", "M"], "age": [1, 2, 3]})
    table = pa.table({"age": [1, 2, 3] * 100, "sex": ["F", "M", "M"] * 100})
    same = Mechanism(domain, ProductLaw(domain.sizes, np.full(2, 50.0)))
    assert same.randomize(table).equals(table)
    noisy = Mechanism(domain, ProductLaw(domain.sizes, np.ones(2)))
    one = noisy.randomize(table, random_state=5)
    assert one.schema == table.schema
    assert not one.equals(table)
    assert pa.table(noisy.randomize(pl.DataFrame(table), random_state=5)).to_pydict() == one.to_pydict()
    assert noisy.randomize(table.to_pandas(), random_state=5).to_dict("list") == one.to_pydict()
    batch = noisy.randomize(table.combine_chunks().to_batches()[0], 5)
    assert isinstance(batch, pa.RecordBatch)
    assert batch.to_pydict() == one.to_pydict()
