"""Domains: what may be declared, how categories are compared, what is refused and in which words."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from optrr.errors import InvalidInput
from optrr.records.domain import Attribute, Domain
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
        (lambda: Domain.of({"a": -4}), "'a' has -4 categories"),
        (lambda: Domain.of({"a": 10**7}), "'a' has 10000000 categories.*merge"),
        (lambda: Domain.of({"a": True}), "declared as True"),
        (lambda: Domain.of({"a": "FM"}), "declared as 'FM'"),
        (lambda: Domain.of({"a": None}), "declared as None"),
        (lambda: Domain.of({"a": [1, "1"]}), "category '1' twice"),
        (lambda: Domain.of({"a": [True, "true"]}), "category 'true' twice"),
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


def test_no_silent_inference():
    assert not hasattr(Domain, "infer")
    assert "public" in observed_domain.__doc__.lower()
