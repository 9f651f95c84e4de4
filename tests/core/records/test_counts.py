"""Counts of every source against plain counting; domains: what may be declared and what is refused."""

import contextlib
from collections import Counter
from itertools import permutations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optrr.core.domain.bins import Bins
from optrr.core.domain.domain import Attribute, Domain, binned
from optrr.core.errors import InvalidInput
from optrr.core.records import counts as module
from optrr.core.records import frames
from optrr.core.records.counts import Counts, count, count_many
from optrr.core.records.observed import observed_domain
from optrr.core.records.reading import arrow_files, memory

DOMAIN = Domain.of({"sex": ["F", "M"], "age": 3, "smokes": ["yes", "no", None], "town": ["x", "y"]})
SETS = [("sex",), ("age", "smokes"), ("smokes", "age"), ("town", "sex", "age"), DOMAIN.names]


def _records(n, seed=1):
    generator = np.random.default_rng(seed)
    return [tuple(a.categories[k] for a, k in zip(DOMAIN, generator.integers(0, DOMAIN.sizes), strict=True))
            for _ in range(n)]  # fmt: skip


def _slow(records, names):
    """Counted one record at a time."""
    chosen = DOMAIN.indices(names)
    tally = Counter(tuple(r[i] for i in chosen) for r in records)
    table = np.zeros([DOMAIN.attributes[i].size for i in chosen], dtype=int)
    for cell, times in tally.items():
        table[tuple(DOMAIN.attributes[i].categories.index(v) for i, v in zip(chosen, cell, strict=True))] = times
    return table


def _codes(records):
    return np.array([[a.categories.index(v) for a, v in zip(DOMAIN, r, strict=True)] for r in records])


def _sources(records, folder):
    table = pa.table({a.name: [r[i] for r in records] for i, a in enumerate(DOMAIN)})
    pa_csv.write_csv(table, folder / "a.csv")
    pq.write_table(table, folder / "a.parquet", row_group_size=50)
    coded = pa.table([c.dictionary_encode() for c in table.columns], names=table.schema.names)
    pq.write_table(coded, folder / "coded.parquet")
    pieces = [b for part in (table.slice(0, 40), table.slice(40)) for b in part.to_batches()]
    return {
        "arrow": table,
        "dictionaries": coded,
        "pandas": table.to_pandas(),
        "objects": pd.DataFrame(records, columns=list(DOMAIN.names), dtype=object),
        "polars": pl.DataFrame(table),
        "csv": folder / "a.csv",
        "path as text": str(folder / "a.parquet"),
        "coded parquet": folder / "coded.parquet",
        "codes": _codes(records),
        "small codes": _codes(records).astype(np.int8),
        "batches": iter(pieces),
        "list of batches": pieces,
        "reader": table.to_reader(max_chunksize=30),
        "joint": Counts(DOMAIN, _slow(records, DOMAIN.names)),
    }


@pytest.mark.parametrize("chunk", [7, None], ids=["chunks of 7", "one chunk"])
def test_every_source_agrees_with_plain_counting(tmp_path, monkeypatch, chunk):
    if chunk:
        for place in (frames, arrow_files, memory, module):
            monkeypatch.setattr(place, "RECORDS", chunk)
    records = _records(200)
    for source, data in _sources(records, tmp_path).items():
        counts = count_many(data, DOMAIN, SETS)
        assert list(counts) == SETS, source
        for names in SETS:
            assert counts[names].domain == DOMAIN.subset(names), source
            assert counts[names].table.dtype == np.int64, source
            assert np.array_equal(counts[names].table, _slow(records, names)), source
            assert counts[names].n == 200


@given(st.lists(st.tuples(*(st.integers(0, r - 1) for r in (2, 3, 4))), min_size=1, max_size=40))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_marginals_agree_with_counting_and_addition_with_joining(records):
    domain = Domain.of({"a": 2, "b": 3, "c": 4})
    codes = np.array(records)
    joint = count(codes, domain, domain.names)
    for k in (1, 2, 3):
        for names in permutations(domain.names, k):
            direct = count(codes, domain, names)
            assert np.array_equal(joint.marginal(names).table, direct.table)
            assert joint.marginal(names).domain == direct.domain
    half = codes[: len(codes) // 2 + 1]
    both = joint + count(half, domain, domain.names)
    assert np.array_equal(both.table, count(np.concatenate([codes, half]), domain, domain.names).table)


def test_large_tables_take_the_other_path():
    """Tables of more cells than a chunk has records are filled cell by cell."""
    codes = np.random.default_rng(3).integers(0, [4, 5, 2], (3000, 3)) * [133, 1, 1]
    table = count(codes, Domain.of({"a": 400, "b": 500, "c": 2}), ["a", "b", "c"]).table
    slow = np.zeros((400, 500, 2), dtype=int)
    for a, b, c in codes:
        slow[a, b, c] += 1
    assert np.array_equal(table, slow)
    assert table.max() > 50


def test_proportions_and_immutability():
    counts = Counts(Domain.of({"a": 2}), [3, 1])
    assert counts.proportions.tolist() == [0.75, 0.25]
    with pytest.raises(ValueError, match="read-only"):
        counts.table[0] = 5
    mine = np.array([1, 2])
    kept = Counts(Domain.of({"a": 2}), mine)
    mine[0] = 7
    assert kept.table.tolist() == [1, 2]


DECLARED = Domain.of({"sex": ["F", "M"], "age": 5, "smokes": [True, False, None]})
ONE = pa.table({"sex": ["F"], "age": [0], "smokes": ["no"], "town": ["x"]})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: count(ONE, DOMAIN, ["sex", "height"]), "no attribute 'height'"),
        (lambda: count(ONE, DOMAIN, []), "no attributes were named"),
        (lambda: count_many(ONE, DOMAIN, []), "no attribute sets"),
        (lambda: count(ONE, DOMAIN, ["sex", "sex"]), "named twice"),
        (lambda: count(ONE.slice(1), DOMAIN, "sex"), "no records"),
        (lambda: count([], DOMAIN, "sex"), "no records"),
        (lambda: count(np.zeros((0, 4), int), DOMAIN, "sex"), "no records"),
        (lambda: count(np.zeros((3, 2), int), DOMAIN, "sex"), r"shape \(n, 4\)"),
        (lambda: count(np.full((3, 4), 2), DOMAIN, "sex"), "'sex' has a code outside its categories in record 1"),
        (lambda: count(7, DOMAIN, "sex"), "cannot read records from a int"),
        (lambda: count([ONE], DOMAIN, "sex"), "yielded a Table"),
        (lambda: Counts(DOMAIN, np.zeros((2, 3))), r"shape \(2, 3\); give one of the domain's shape \(2, 3, 3, 2\)"),
        (lambda: Counts(Domain.of({"a": 2}), [0.5, 0.5]), "give counts, not proportions"),
        (lambda: Counts(Domain.of({"a": 2}), [2, -1]), "whole numbers"),
        (lambda: Counts(Domain.of({"a": 2}), [np.nan, 1]), "whole numbers"),
        (lambda: Counts(Domain.of({"a": 2}), [np.inf, 1]), "whole numbers"),
        (lambda: Counts(Domain.of({"a": 2}), [1e300, 1]), "fewer than 2"),
        (lambda: count(Counts(Domain.of({"a": [1, 0]}), [5, 6]), Domain.of({"a": 2}), "a"), "other categories"),
        (lambda: Counts(Domain.of({"a": 2}), np.array([2**63 + 1, 1], np.uint64)), "fewer than 2"),
        (lambda: Counts(Domain.of({"a": 2}), [2**62 - 1, 2**62 - 1]), "fewer than 2"),
        (lambda: Counts(Domain.of({"a": 2}), ["1", "2"]), "whole numbers"),
        (lambda: Counts(Domain.of({"a": 2}), [0, 0]).proportions, "counts no records"),
        (lambda: Counts(Domain.of({"a": 2}), [1, 1]) + Counts(Domain.of({"b": 2}), [1, 1]), "one domain"),
        (lambda: count(np.zeros((1, 2), int), Domain.of({"a": 20_000, "b": 20_000}), ["a", "b"]), "400000000 cells"),
        (lambda: DECLARED.index("height"), r"no attribute 'height'; the domain has 'sex', 'age', 'smokes'"),
        (lambda: DECLARED.indices(["sex", "sex"]), "'sex' is named twice"),
        (lambda: DECLARED.indices([]), "no attributes were named"),
        (lambda: Domain.of({}), "no attributes"),
        (lambda: Domain((Attribute("a", (0, 1)), Attribute("a", (0, 1)))), "'a' is declared twice"),
        (lambda: Domain.of({"a": ["x"]}), "'a' has 1 categories.*drop it"),
        (lambda: Domain.of({"a": 1}), "'a' has 1 categories"),
        (lambda: Domain.of({"a": 10**7}), "'a' has 10000000 categories.*merge"),
        (lambda: Domain.of({"a": True}), "declared as True"),
        (lambda: Domain.of({"a": "FM"}), "declared as 'FM'"),
        (lambda: Domain.of({"a": [1, "1"]}), "category '1' twice"),
        (lambda: Domain.of({"a": [None, "b", None]}), "category None twice"),
        (lambda: Domain.of({"a": [float("nan"), "b"]}), "category nan"),
        (lambda: Domain.of({"a": [1.5, "1.5"]}), "category '1.5' twice"),
        (lambda: Domain.of({"a": [["b"], "b"]}), r"category \['b'\]"),
        (lambda: Attribute("", (0, 1)), "named ''"),
        (lambda: Attribute(3, (0, 1)), "named 3"),
        (lambda: Attribute("a", "xy"), "categories 'xy'"),
        (lambda: Attribute("a"), "give categories, or bins"),
        (lambda: Attribute("a", bins=[0, 18, 65]), r"bins \[0, 18, 65\]; give optrr.Bins"),
    ],
)
def test_refusals_are_one_line(call, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_other_columns_may_be_ignored_or_absent(tmp_path):
    extra = ONE.append_column("name", [["Ann"]])
    pq.write_table(extra, tmp_path / "a.parquet")
    for data in (extra, extra.to_pandas(), tmp_path / "a.parquet", extra.to_batches()):
        assert count(data, DOMAIN, "sex", allow_extra=True).table.tolist() == [1, 0]
    assert count(ONE.select(["town"]), DOMAIN, "town").table.tolist() == [1, 0]
    # nor does a bad value in a column that is not asked for matter
    assert count(ONE.set_column(1, "age", [[77]]), DOMAIN, "sex").n == 1


def test_pandas_slices_of_changing_type(monkeypatch):
    """A column of objects may be all missing in one slice and text in the next; records are still counted through."""
    monkeypatch.setattr(frames, "RECORDS", 3)
    data = pd.DataFrame({"smokes": pd.Series([None] * 3 + ["yes", "no", None, "yes"], dtype=object)})
    assert count(data, DOMAIN, "smokes").table.tolist() == [2, 1, 4]
    data.loc[6, "smokes"] = "never"
    with pytest.raises(InvalidInput, match="record 7: unknown category"):
        count(data, DOMAIN, "smokes")


@pytest.mark.parametrize("categories", [[0, 1.5], [0, 1.5, None]])
def test_a_negative_zero_is_zero(categories):
    domain = Domain.of({"x": categories})
    values = [-0.0, 0.0, 1.5, -0.0]
    for data in (pd.DataFrame({"x": values}), pl.DataFrame({"x": values}), pa.table({"x": values})):
        assert count(data, domain, "x").table.tolist()[:2] == [3, 1]
    with pytest.raises(InvalidInput, match="unknown category"):
        count(pd.DataFrame({"x": [-0.0, 2.0]}), domain, "x")


def test_a_domain_is_its_attributes_in_their_order():
    assert (DECLARED.names, DECLARED.m) == (("sex", "age", "smokes"), 3)
    assert DECLARED.attributes[1] == Attribute("age", (0, 1, 2, 3, 4))
    assert (DECLARED.index("age"), DECLARED.indices(["smokes", "sex"]), DECLARED.indices("age")) == (1, (2, 0), (1,))
    assert DECLARED.subset(["smokes", "sex"]).sizes.tolist() == [3, 2] and DECLARED.sizes.dtype == np.int64


def test_texts_and_codes():
    mixed = Attribute("x", ("a", 7, True, False, None, "", " a", "007", -3))
    assert mixed.texts == ("a", "7", "true", "false", None, "", " a", "007", "-3")
    assert mixed.codes == {text: k for k, text in enumerate(mixed.texts)}
    assert mixed.missing_code == 4
    assert DECLARED["sex"].missing_code is None
    plain = Attribute("x", (np.int8(3), np.str_("a"), np.bool_(True))).categories
    assert plain == (3, "a", True) and [type(c) for c in plain] == [int, str, bool]


def test_a_long_domain_is_not_listed_whole():
    with pytest.raises(InvalidInput, match=r"\(1000 in all\)") as caught:
        Domain.of({f"a{i}": 2 for i in range(1000)}).index("b")
    assert len(str(caught.value)) < 200


def test_observed_domain_of_public_data(tmp_path):
    table = pa.table({"b": ["z", None, "a", "z"], "a": [10, 9, 9, 2], "c": [1.5, 2.5, 1.5, 1.5]})
    assert observed_domain(table, ["a", "b"]) == Domain.of({"a": [2, 9, 10], "b": ["a", "z", None]})
    path = tmp_path / "x.csv"
    path.write_text("a,b\n10,x\n9,\n")
    assert observed_domain(path, ["b", "a"]) == Domain.of({"b": ["x", None], "a": [9, 10]})
    with pytest.raises(InvalidInput, match="'d' is missing"):
        observed_domain(path, ["a", "d"])
    with pytest.raises(InvalidInput, match="'d' is missing"):
        observed_domain(path, ["d"])


@pytest.mark.parametrize("categories", [(0, 1), (0, 1, 2), (0, 1, None), (0, 1, 2, None)])
def test_numbers_are_known_by_what_they_are_and_not_by_what_they_equal(categories: tuple[object, ...]) -> None:
    n = sum(c is not None for c in categories)
    assert Attribute("a", list(categories)).numbers == n
    for other in (
        tuple(True if c == 1 else c for c in categories),
        categories[::-1],
        tuple(c if c is None else str(c) for c in categories),
    ):
        attribute = Attribute("a", other)
        assert attribute.numbers is None and attribute.categories == other
        assert [type(c) for c in attribute.categories] == [type(c) for c in other]
    floats = Attribute("a", tuple(c if c is None else float(c) for c in categories))
    assert floats.numbers == n and all(type(c) is not float for c in floats.categories)


@pytest.mark.parametrize(
    ("mark", "declared"), [("1", True), ("2", False), ("01", False), ("١", False), ("-1", False), ("1" * 40, False)]
)
def test_marks_and_the_rest_are_compared_with_numbers(mark: str, declared: bool) -> None:
    for categories in ((0, 1), (0, 1, False)):
        listed = mark in Attribute("a", categories).texts
        assert listed == declared
        with pytest.raises(InvalidInput) if listed else contextlib.nullcontext():
            assert Attribute("a", categories, missing=(mark,)).categories == (*categories, None)
        with contextlib.nullcontext() if listed else pytest.raises(InvalidInput):
            assert Attribute("a", categories, rest=mark).rest == mark


def test_bins_alone_are_an_attributes_categories():
    made = Attribute("age", bins=Bins([0, 18, 65]), missing=("NA",))
    assert made == binned("age", Bins([0, 18, 65]), ["NA"]) and made.categories == ("[0, 18)", "[18, 65)", None)
