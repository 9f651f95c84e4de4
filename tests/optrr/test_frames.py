"""Frames: round trips over every kind of column, what is refused, and what must not leak."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optrr.domain.domain import Domain, category_text
from optrr.errors import InvalidInput
from optrr.mechanisms.mechanism import Mechanism
from optrr.records import frames
from optrr.records.counts import record_batches
from optrr.records.frames import FrameCodec, recode_frame
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
    for name in draw(st.lists(TEXT.filter(bool), min_size=1, max_size=4, unique=True)):
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
    assert recode_frame(table, domain, keep).equals(_untyped(table))
    assert pl.DataFrame(table).equals(recode_frame(pl.DataFrame(table), domain, keep))
    objects = pd.DataFrame({name: pd.Series(values[name], dtype=object) for name in order})
    back = recode_frame(objects, domain, keep)
    assert back.columns.tolist() == order
    assert [[None if pd.isna(v) else v for v in back[name]] for name in order] == [values[name] for name in order]


def _untyped(table):
    """What an all-missing column comes back as: text."""
    kinds = [pa.string() if pa.types.is_null(f.type) else f.type for f in table.schema]
    return pa.table([c.cast(k) for c, k in zip(table.columns, kinds, strict=True)], names=table.schema.names)


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
def test_every_column_type_keeps_its_type(categories, kind):
    domain = Domain.of({"x": categories})
    codes = np.array([0, 1, 2, 2, 1, 0, 0])
    column = _column([categories[c] for c in codes], kind)
    table = pa.table({"x": column})
    out = recode_frame(table, domain, shift)
    assert out.schema == pa.schema([("x", kind)])
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


def test_a_type_too_narrow_becomes_text():
    domain = Domain.of({"x": [0, 1, "other"], "y": [0, 1, 300], "z": ["007", "7", "a"], "b": [True, False, 2]})
    table = pa.table({"x": [0, 1], "y": pa.array([0, 1], pa.int8()), "z": [7, 7], "b": [True, False]})
    out = recode_frame(table, domain, keep)
    assert set(out.schema.types) == {pa.string()}
    # "007" is not a number's text, so the number 7 is the category "7"
    assert out.to_pydict() == {"x": ["0", "1"], "y": ["0", "1"], "z": ["7", "7"], "b": ["true", "false"]}


def test_many_categories_widen_a_small_dictionary_index():
    domain = Domain.of({"x": [f"c{i}" for i in range(300)]})
    coded = pa.array(["c7", "c299"]).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))
    out = recode_frame(pa.table({"x": coded}), domain, keep)
    assert out["x"].type == pa.dictionary(pa.int32(), pa.string())
    assert out["x"].to_pylist() == ["c7", "c299"]


def test_whole_numbers_of_which_some_may_be_missing_come_back_nullable():
    frame = pd.DataFrame({"x": np.array([0, 2, 2], dtype=np.uint16)})
    out = recode_frame(frame, Domain.of({"x": [0, None, 2]}), keep)
    assert (str(out["x"].dtype), out["x"].tolist()) == ("UInt16", [0, 2, 2])


def test_polars_types_come_back():
    data = pl.DataFrame(
        {
            "text": ["a", None, "c"],
            "coded": pl.Series(["a", "b", "c"], dtype=pl.Categorical),
            "closed": pl.Series(["a", None, "a"], dtype=pl.Enum(["z", "a"])),
            "number": pl.Series([0, 1, 2], dtype=pl.UInt8),
            "truth": [True, None, False],
        }
    )
    domain = Domain.of(
        {"text": ["a", None, "c"], "coded": ["a", "b", "c"], "closed": ["a", None, "c"], "number": 3}
        | {"truth": [True, None, False]}
    )
    out = recode_frame(data, domain, keep)
    assert out.schema == data.schema | {"closed": pl.Enum(["a", "c"])}
    assert out.to_dict(as_series=False) == data.to_dict(as_series=False)


def test_nothing_of_the_true_records_rides_along():
    """Dictionaries and metadata are rebuilt from the declaration, not copied; a pandas index is kept, as is documented."""
    domain = Domain.of({"x": ["a", "b", "c", "d"]})
    for seen in (["d", "b"], ["b", "d"], ["b", "b"]):
        coded = pa.array(seen).dictionary_encode()
        field = pa.field("x", coded.type, metadata={"truth": "d,b"})
        table = pa.Table.from_arrays([coded], schema=pa.schema([field], metadata={"people": "Ann, Bob"}))
        out = recode_frame(table, domain, keep)
        assert out["x"].chunk(0).dictionary.to_pylist() == ["a", "b", "c", "d"]
        assert not out.schema.metadata
        assert not out.schema.field("x").metadata
        category = pd.DataFrame({"x": pd.Categorical(seen)}, index=pd.Index(["Ann", "Bob"], name="person"))
        released = recode_frame(category, domain, keep)
        assert released["x"].cat.categories.tolist() == ["a", "b", "c", "d"]
        assert (released.index.tolist(), released.index.name) == (["Ann", "Bob"], "person")
        assert not released.attrs


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
        (pd.DataFrame({"sex": ["F", 1], "age": [1, 2]}), "column 'sex' mixes types; give every column one type"),
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
    assert same.perturb(table).equals(table)
    noisy = Mechanism(domain, ProductLaw(domain.sizes, np.ones(2)))
    one = noisy.perturb(table, 5)
    assert one.schema == table.schema
    assert not one.equals(table)
    assert pa.table(noisy.perturb(pl.DataFrame(table), 5)).to_pydict() == one.to_pydict()
    assert noisy.perturb(table.to_pandas(), 5).to_dict("list") == one.to_pydict()
    batch = noisy.perturb(table.combine_chunks().to_batches()[0], 5)
    assert isinstance(batch, pa.RecordBatch)
    assert batch.to_pydict() == one.to_pydict()
