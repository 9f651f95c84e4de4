"""Counts: every source against plain counting, merging, limits, memory."""

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

from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.records import counts as module
from optrr.records import frames
from optrr.records.counts import Counts, count, count_many
from optrr.records.reading import memory
from optrr.records.reading import parquet_files as batches

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
        for place in (frames, batches, memory, module):
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


ONE = pa.table({"sex": ["F"], "age": [0], "smokes": ["no"], "town": ["x"]})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: count(ONE, DOMAIN, ["sex", "height"]), "no attribute 'height'"),
        (lambda: count(ONE, DOMAIN, []), "no attributes were named"),
        (lambda: count_many(ONE, DOMAIN, []), "no attribute sets"),
        (lambda: count(ONE, DOMAIN, ["sex", "sex"]), "asked for twice"),
        (lambda: count(ONE.slice(1), DOMAIN, "sex"), "no records"),
        (lambda: count([], DOMAIN, "sex"), "no records"),
        (lambda: count(np.zeros((0, 4), int), DOMAIN, "sex"), "no records"),
        (lambda: count(np.zeros((3, 2), int), DOMAIN, "sex"), r"shape \(n, 4\)"),
        (lambda: count(np.full((3, 4), 2), DOMAIN, "sex"), "'sex' has a code outside its categories in record 1"),
        (lambda: count(7, DOMAIN, "sex"), "cannot read records from a int"),
        (lambda: count([ONE], DOMAIN, "sex"), "yielded a Table"),
        (lambda: Counts(DOMAIN, np.zeros((2, 3))), r"shape \(2, 3\); the domain's is \(2, 3, 3, 2\)"),
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


def test_bad_values_in_columns_not_asked_for_do_not_matter():
    data = pa.table({"sex": ["F"], "age": [77], "smokes": ["no"], "town": ["x"]})
    assert count(data, DOMAIN, "sex").n == 1


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
