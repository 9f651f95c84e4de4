"""Domains: what may be declared, how categories are compared, what is refused and in which words."""

import contextlib
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from optrr.designs.specification import read_specification
from optrr.domain.domain import Attribute, Domain
from optrr.errors import InvalidInput
from optrr.records.observed import observed_domain

DOMAIN = Domain.of({"sex": ["F", "M"], "age": 5, "smokes": [True, False, None]})


def test_shape_and_names():
    assert DOMAIN.names == ("sex", "age", "smokes")
    assert DOMAIN.sizes.tolist() == [2, 5, 3]
    assert DOMAIN.sizes.dtype == np.int64
    assert (DOMAIN.m, len(DOMAIN)) == (3, 3)
    assert [a.name for a in DOMAIN] == ["sex", "age", "smokes"]
    assert DOMAIN.attributes[1] == Attribute("age", (0, 1, 2, 3, 4))
    assert DOMAIN.attributes[1].size == 5


def test_texts_and_codes():
    mixed = Attribute("x", ("a", 7, True, False, None, "", " a", "007", -3))
    assert mixed.texts == ("a", "7", "true", "false", None, "", " a", "007", "-3")
    assert mixed.codes == {text: k for k, text in enumerate(mixed.texts)}
    assert mixed.missing_code == 4
    assert DOMAIN["sex"].missing_code is None


def test_numpy_scalars_become_plain():
    plain = Attribute("x", (np.int8(3), np.str_("a"), np.bool_(True))).categories
    assert plain == (3, "a", True)
    assert [type(c) for c in plain] == [int, str, bool]


def test_index_indices_subset():
    assert DOMAIN.index("age") == 1
    assert DOMAIN.indices(["smokes", "sex"]) == (2, 0)
    assert DOMAIN.indices("age") == (1,)
    assert DOMAIN.subset(["smokes", "sex"]).sizes.tolist() == [3, 2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: DOMAIN.index("height"), r"no attribute 'height'; the domain has 'sex', 'age', 'smokes'"),
        (lambda: DOMAIN.indices(["sex", "sex"]), "'sex' is asked for twice"),
        (lambda: DOMAIN.indices([]), "no attributes were named"),
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
    ],
)
def test_refusals_are_one_line(call, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


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
    assert Attribute("a", list(categories)).categories is Attribute("b", categories).categories
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


@pytest.mark.slow
def test_many_attributes_of_a_million_categories_are_read_and_written_at_once(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    kinds = ["", "missing = true", 'missing = ["NA"]', 'rest = "7"', "ordered = true"]
    path.write_text(
        "epsilon = 1.0\n"
        + "".join(f'[[attributes]]\nname = "a{k}"\nsize = {999_999 - k // 5}\n{kinds[k % 5]}\n' for k in range(50))
    )
    started = time.process_time()
    read = read_specification(path)
    written = read.to_toml()
    # one by one, labels took more than a second for an attribute
    assert time.process_time() - started < 5
    path.write_text(written)
    assert read_specification(path).domain == read.domain
