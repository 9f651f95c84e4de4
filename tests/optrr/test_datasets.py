"""The bundled Adult data: shape, declaration, published counts, and that it is what its source holds."""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow.compute as pc
import pytest

from optrr.domain.datasets import ADULT_EIGHT, adult, adult_domain
from optrr.records.counts import count_many
from optrr.records.observed import observed_domain

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT.parent / "shared" / "data" / "adult.csv"


def test_shape():
    assert adult().shape == (32_561, 9)
    assert adult().schema.names == list(adult_domain().names)
    assert adult_domain().sizes.tolist() == [9, 16, 7, 15, 6, 5, 2, 42, 2]
    assert set(adult_domain().names) - set(ADULT_EIGHT) == {"native-country"}
    assert adult_domain().subset(ADULT_EIGHT).sizes.tolist() == [9, 16, 7, 15, 6, 5, 2, 2]


def test_every_declared_category_occurs_and_no_other():
    observed = observed_domain(adult(), adult_domain().names)
    for declared, seen in zip(adult_domain(), observed, strict=True):
        assert set(declared.categories) == set(seen.categories)


def test_published_counts():
    """Class and sex frequencies of the training file as its UCI documentation and textbooks give them."""
    tables = count_many(adult(), adult_domain(), [["income"], ["sex"], ["race"]])
    assert tables["income",].table.tolist() == [24_720, 7_841]
    assert tables["sex",].table.tolist() == [10_771, 21_790]
    assert tables["race",].table.tolist() == [311, 1_039, 3_124, 271, 27_816]
    assert pc.sum(pc.equal(adult()["native-country"], "United-States")).as_py() == 29_170


def test_same_records_as_the_source():
    if not SOURCE.exists():
        pytest.skip("the source file is not beside the repository")
    names = adult_domain().names
    with SOURCE.open(newline="", encoding="utf-8") as lines:
        expected = [tuple(r[name] for name in names) for r in csv.DictReader(lines)]
    assert list(zip(*adult().to_pydict().values(), strict=True)) == expected
