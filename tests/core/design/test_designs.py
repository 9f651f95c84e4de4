"""Designs, specifications, design files, and what is refused."""

import itertools
import json
import math
import re
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import optrr
from optrr import InvalidInput, allocate, design
from optrr.cli.main import run
from optrr.core.design.design_file import decoded_design, encoded_design, load_design, recomputed_design, save_design
from optrr.core.design.solving import Constraints, epsilon_vector
from optrr.core.design.specification import parse_attributes, read_specification, refuse_specification
from optrr.core.domain.domain import Domain
from optrr.core.errors import Infeasible, MethodTooLarge
from optrr_solvers import InvalidProblem, Problem, SolveFailed, SolveOptions, Status, lower_bound
from optrr_solvers.solution import checked

SMALL = {"sex": ["F", "M"], "age": 5, "answer": ["yes", "no", None]}


# One design for each kind of law that a design file can hold.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("domain", "epsilons", "wishes"),
    [
        (SMALL, [1.0, 0.5, 2.0], {}),
        (SMALL, [1.0, 0.5, 2.0], {"constraints": Constraints(preserve="pairs", conditional_cap={"age": 0.8})}),
        (SMALL, 1.0, {"constraints": Constraints(preserve=[("age", "sex")])}),
        ({f"a{i}": 3 for i in range(40)}, 0.5, {}),
        ({f"a{i}": 2 + i % 2 for i in range(40)}, 0.5, {}),
        (SMALL, 1.0, {"method": "kronecker"}),
        ({f"a{i}": 2 + i % 5 for i in range(25)}, [0.1 + 0.1 * i for i in range(25)], {}),
        ({f"a{i}": 2 + i for i in range(30)}, 0.5, {"method": "inductive"}),
    ],
    ids=["table", "pairs and caps", "named pair", "count", "two classes", "product", "ball", "few changes"],
)
def test_design_files_read_back_to_the_same_bits(domain, epsilons, wishes, tmp_path):
    made = optrr.design(domain, epsilons, **wishes)
    save_design(made, tmp_path / "d.json")
    read = load_design(tmp_path / "d.json")
    assert read.domain == made.domain
    assert (read.epsilon, read.lower_bound, read.method) == (made.epsilon, made.lower_bound, made.method)
    assert (read.solution.status, read.solution.tolerance) == (made.solution.status, made.solution.tolerance)
    for field in ("attribute_epsilons", "conditional_epsilons", "requested_epsilons"):
        np.testing.assert_array_equal(getattr(read, field), getattr(made, field))
    subset = (0, made.domain.m - 1)
    np.testing.assert_array_equal(read.law.marginal(subset), made.law.marginal(subset))
    assert not recomputed_design(read).failed


@pytest.mark.parametrize(
    ("law", "message"),
    [
        ({"kind": "blocks", "blocks": []}, "exactly once"),
        ({"kind": "blocks", "blocks": [[[0, 1], {"kind": "product", "epsilons": [1, 1]}]]}, "exactly once"),
        ({"kind": "blocks", "blocks": [[[-1], {"kind": "product", "epsilons": [1]}]]}, "exactly once"),
        ({"kind": "count", "classes": [[0], [1], [2**63]], "most": 0, "cells": [], "log_density": []}, "exactly once"),
        ({"kind": "ball", "classes": [[0], [1], [2**63]], "balls": [], "log_ratio": 1}, "exactly once"),
        ({"kind": "ball", "classes": [[0, 1, 2]], "balls": [], "log_ratio": 1e308}, "1e[+]308 nats"),
        (
            {
                "kind": "ball",
                "classes": [[0, 1, 2]],
                "balls": [{"share": 1, "floors": [2**63], "fractions": [0], "knots": [0, 1], "levels": [1, 0]}],
                "log_ratio": 1,
            },
            "too large",
        ),
        ({"kind": "table", "most": 0, "cells": [7], "log_density": [1e308]}, "1e[+]308 nats"),
        ({"kind": "table", "most": 0, "cells": [8], "log_density": [1]}, "numbers below 8"),
        ({"kind": "product", "epsilons": [1e308, 1, 1]}, "1e[+]308 nats"),
        ({"kind": "product", "epsilons": [1, 1]}, "one epsilon"),
    ],
)
def test_laws_that_do_not_fit_are_refused(law: dict, message: str, tmp_path: Path) -> None:
    save_design(optrr.design(SMALL, [1.0, 0.5, 2.0]), tmp_path / "d.json")
    (tmp_path / "d.json").write_text(json.dumps({**json.loads((tmp_path / "d.json").read_text()), "law": law}))
    with pytest.raises(InvalidInput, match=message):
        decoded_design((tmp_path / "d.json").read_bytes(), tmp_path / "d.json")


@pytest.mark.parametrize("m", [26, 64])
def test_table_too_large_for_memory_is_refused(m: int, tmp_path: Path) -> None:
    save_design(optrr.design(SMALL, [1.0, 0.5, 2.0]), tmp_path / "d.json")
    record = json.loads((tmp_path / "d.json").read_text())
    record["attributes"] = [{**record["attributes"][0], "name": f"a{i}"} for i in range(m)]
    record["law"] = {"kind": "table", "most": 0, "cells": [], "log_density": []}
    (tmp_path / "d.json").write_text(json.dumps(record))
    with pytest.raises(InvalidInput, match=f"{2**m} cells"):
        decoded_design((tmp_path / "d.json").read_bytes(), tmp_path / "d.json")


def test_optimality_is_not_taken_from_the_file() -> None:
    baseline = optrr.design(SMALL, [1.0, 0.5, 2.0], method="kronecker")
    assert not recomputed_design(baseline).failed
    boast = replace(baseline, solution=replace(baseline.solution, status=Status.OPTIMAL))
    assert [c.name for c in recomputed_design(boast).failed] == ["optimality"]
    assert recomputed_design(replace(boast, solution=replace(boast.solution, tolerance=1e-9))).failed
    # half the requested epsilons, with their own bound: the file is consistent and the law feasible, but far from optimal
    made = optrr.design(SMALL, [1.0, 0.5, 2.0])
    assert made.solution.tolerance == pytest.approx(1e-9 * made.epsilon, rel=1e-12)
    easier = Problem(made.domain.sizes, made.requested_epsilons / 2)
    eased = replace(made.solution, problem=easier, certificate=None, lower=lower_bound(easier, None))
    assert [c.name for c in recomputed_design(replace(made, solution=eased)).failed] == ["optimality"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not a design"),
        ("{}", "not a design"),
        ('{"format": "optrr-design/9"}', "format 'optrr-design/9'"),
        ('{"format": "optrr-design/1"}', "not a design"),
        ("[1, 2", "not a design"),
        (
            '{"attributes": [{"name": "a", "size": 2, "epsilon": 1}]}',
            "is a specification, not yet a design: optrr design",
        ),
        ('\ufeff[[attributes]]\nname = "a"\nsize = 2\n', "is a specification, not yet a design: optrr design"),
        (b'{"format": "\xff"}', "not a design"),
        ('{"format": "optrr-design/1", "law": ' + "[" * 100_000, "not a design"),
    ],
)
def test_files_that_are_no_designs(content: str | bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InvalidInput, match=message):
        load_design(path)


def test_whether_a_file_is_a_specification_takes_no_memory() -> None:
    # TOML's own reader takes gigabytes for a key of so many parts
    raw = ".".join(["a"] * 20_000).encode() + b" = 1\n"
    tracemalloc.start()
    refuse_specification(raw, "d.toml")
    with pytest.raises(InvalidInput, match="is a specification"):
        refuse_specification(raw + b"[[attributes]]\n", "d.toml")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 * len(raw)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("my spec.toml", "optrr design 'my spec.toml' -o design.json makes one"),
        ("design.json", "optrr design design.json -o made.json makes one"),
    ],
)
def test_the_command_that_makes_a_design_of_a_specification_works_as_it_is_printed(name: str, remedy: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(remedy)):
        refuse_specification(b'attributes = [{name = "a", size = 2}]', name)


def test_a_damaged_design_is_no_specification() -> None:
    content = json.loads(encoded_design(optrr.design(SMALL, 1.0)))
    del content["format"]
    refuse_specification(json.dumps(content).encode(), "d.json")


def test_a_deployment_given_for_a_design_is_called_one(tmp_path: Path) -> None:
    optrr.export(optrr.design(SMALL, 1.0), tmp_path / "sampler.json")
    with pytest.raises(InvalidInput, match="it is a deployment file; give the design that it was exported from"):
        load_design(tmp_path / "sampler.json")


def test_summary_has_the_contract_keys() -> None:
    summary = optrr.design(SMALL, 1.0).summary()
    keys = {"epsilon", "lower_bound", "gap", "method", "kronecker_epsilon", "seconds", "attributes", "pairs"}
    assert keys <= set(summary)
    first = {"name", "size", "requested_epsilon", "epsilon", "conditional_epsilon"}
    assert set(summary["attributes"][0]) == first
    assert "min_eigenvalue_ratio" in summary["pairs"]
    wide = optrr.design({f"a{i}": 2 for i in range(65)}, 0.1).summary()
    assert "pairs" not in wide


def test_warning_names_preserve_pairs() -> None:
    faint = optrr.design({"a": 2, "b": 2, "c": 2}, 0.5)  # λ_pair = 0 (theory §3.2)
    assert faint.faintest_pair is not None
    assert abs(faint.faintest_pair[0]) < 1e-12
    assert any("preserve='pairs'" in w for w in faint.warnings)
    kept = optrr.design({"a": 2, "b": 2, "c": 2}, 0.5, constraints=optrr.Constraints(preserve="pairs"))
    assert kept.faintest_pair is not None
    assert kept.faintest_pair[0] >= 1 - 1e-9
    assert not kept.warnings


def test_preserved_pairs_have_the_whole_of_kroneckers_visibility_at_the_requested_epsilons() -> None:
    """Where flips are bounded above some ε_i end above the request; that is no reason to call a kept pair faint."""
    sizes, epsilons = {"a": 10, "b": 2, "c": 2, "d": 9}, [0.262, 1.001, 7.738, 5.269]
    made = optrr.design(sizes, epsilons, constraints=optrr.Constraints(preserve="pairs"))
    lam = made.solution.problem.eigenvalues
    ratios = [made.law.eigenvalues(pair)[1, 1] / lam[list(pair)].prod() for pair in itertools.combinations(range(4), 2)]
    assert made.attribute_epsilons[0] > 0.5  # more accurate than requested, or this test shows nothing
    assert made.faintest_pair is not None
    assert made.faintest_pair[0] == pytest.approx(min(ratios)) == pytest.approx(1, abs=1e-7)
    assert not any("preserve" in w for w in made.warnings)
    half = optrr.design(sizes, epsilons, constraints=optrr.Constraints(preserve="pairs", kappa=0.2))
    assert any("raise kappa, which is 0.2" in w for w in half.warnings)
    others = dict(zip("abcde", [5, 3, 5, 6, 7], strict=True))
    some = optrr.design(others, [0.37, 1.46, 1.04, 0.84, 1.28], constraints=optrr.Constraints(preserve=[("a", "b")]))
    assert any("name it among the pairs to preserve" in w for w in some.warnings)
    for part in (half, some):
        assert not any("preserve='pairs'" in w for w in part.warnings)


def test_baselines_say_where_the_optimum_is() -> None:
    kronecker = optrr.design(SMALL, 1.0, method="kronecker")
    assert any("the optimum lies between" in w and "and 3.0000 nats" in w for w in kronecker.warnings)
    heuristic = optrr.design({"a": 3, "b": 24, "c": 7}, [0.0663, 0.0872, 4.7897], method="inductive")
    assert any("does not reach the requested epsilons" in w for w in heuristic.warnings)
    assert not recomputed_design(heuristic).failed


@pytest.mark.parametrize(
    ("sizes", "epsilons"), [([2, 5, 3], [1.0, 0.5, 2.0]), ([5, 3, 5, 6, 7], [0.37, 1.46, 1.04, 0.84, 1.28])]
)
def test_faintest_pair_has_the_smallest_absolute_ratio(sizes: list[int], epsilons: list[float]) -> None:
    """A ratio of −0.27 is smaller than one of 0.19, but its pair is more visible: a turned pair hides no fainter one."""
    made = optrr.design(dict(zip("abcde", sizes, strict=False)), epsilons)
    lam = made.law.one_way_eigenvalues()
    pairs = itertools.combinations(range(len(sizes)), 2)
    ratios = {(i, j): made.law.eigenvalues((i, j))[1, 1] / (lam[i] * lam[j]) for i, j in pairs}
    (i, j), faintest = min(ratios.items(), key=lambda item: abs(item[1]))
    assert made.faintest_pair == (pytest.approx(faintest), "abcde"[i], "abcde"[j])
    if len(sizes) == 5:
        assert min(ratios.values()) < 0 < faintest  # or this test shows nothing
        assert any(f"keeps only {faintest:.3g} of its strength" in w for w in made.warnings)


def test_epsilons_by_name_number_and_list() -> None:
    domain = optrr.Domain.of(SMALL)
    np.testing.assert_array_equal(epsilon_vector(domain, 0.5), [0.5] * 3)
    np.testing.assert_array_equal(epsilon_vector(domain, {"age": 2, "answer": 3, "sex": 1}), [1, 2, 3])
    with pytest.raises(InvalidInput, match="'age' has no epsilon"):
        epsilon_vector(domain, {"sex": 1, "answer": 2})
    with pytest.raises(InvalidInput, match="no attribute 'colour'"):
        epsilon_vector(domain, {"colour": 1})
    with pytest.raises(InvalidInput, match="2 epsilons for 3 attributes"):
        epsilon_vector(domain, [1, 2])


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_tolerance_and_time_limit_are_positive(value: float) -> None:
    with pytest.raises(InvalidProblem, match="``tolerance``: "):
        SolveOptions(tolerance=value)
    with pytest.raises(InvalidProblem, match="``time_limit``: "):
        SolveOptions(time_limit=value)


@pytest.mark.slow
def test_no_mechanism_above_its_tolerance_is_a_solution() -> None:
    loose = optrr.design({"a": 2, "b": 3, "c": 4}, 1.0, options=SolveOptions(tolerance=0.5))
    problem = loose.solution.problem
    kronecker = optrr.design({"a": 2, "b": 3, "c": 4}, 1.0, method="kronecker").law
    # a mechanism 0.8 nats above the proven bound passes with a tolerance of 1 nat and not with 0.5
    assert checked(problem, "test", kronecker, loose.solution.certificate, started=0.0, tolerance=1.0).gap > 0.5
    with pytest.raises(SolveFailed, match=r"exceeds 0.5"):
        checked(problem, "test", kronecker, loose.solution.certificate, started=0.0, tolerance=0.5)


SPEC = {
    "attributes": [{"name": "sex", "categories": ["F", "M"], "epsilon": 1.0}, {"name": "age", "size": 9}],
    "epsilon": 0.5,
}


def test_specifications_in_both_formats(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps(SPEC))
    (tmp_path / "s.toml").write_text(
        'epsilon = 0.5\n[[attributes]]\nname = "sex"\ncategories = ["F", "M"]\nepsilon = 1.0\n'
        '[[attributes]]\nname = "age"\nsize = 9\n'
    )
    (tmp_path / "mark.json").write_text(json.dumps(SPEC), encoding="utf-8-sig")  # as some editors save it
    for name in ("s.json", "s.toml", "mark.json"):
        wanted = read_specification(tmp_path / name)
        assert wanted.domain == optrr.Domain.of({"sex": ["F", "M"], "age": 9})
        np.testing.assert_array_equal(wanted.required_epsilons(), [1.0, 0.5])
    np.testing.assert_array_equal(parse_attributes(["sex=2:1", "age=9:0.5"]).epsilons, [1.0, 0.5])
    assert np.isnan(parse_attributes(["sex=2"]).epsilons[0])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("s.json", '{"attributes": []}', "no attributes"),
        ("s.json", '{"attributes": [{"name": "a", "size": 2, "epsilon": NaN}]}', "epsilon nan"),
        ("s.json", '{"attributes": [{"name": "a", "size": ' + "9" * 5000 + "}]}", "4300 digits"),
        ("s.json", r'{"attributes": [{"name": "\ud800", "size": 2, "epsilon": 1}]}', "not Unicode"),
        ("s.json", r'{"attributes": [{"name": "a", "categories": ["\udfff", "b"], "epsilon": 1}]}', "not Unicode"),
        (
            "s.json",
            '{"attributes": [{"name": "a", "size": 2, "epsilon": 1, "epsilon": 9}]}',
            "'epsilon' is given twice",
        ),
        ("s.toml", "attributes = 3", "give a list in brackets"),
        ("s.toml", 'title = " "\n[[attributes]]\nname = "a"\nsize = 2', "title: is ' '"),
        ("s.toml", '[[attributes]]\nname = "a"\nsize = 2\nquestion = ""', "attribute 'a', question: is ''"),
        ("s.toml", "x = " + "[" * 100_000, "recursion"),
        ("s.toml", "x = " + "9" * 5000, "4300 digits"),
        ("s.toml", "[[attributes]]\nname = 2020-01-01\nsize = 2\nepsilon = 1", "give a text in quotes"),
    ],
)
def test_bad_specifications_say_what_where_and_the_remedy(name, content, message, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(InvalidInput, match=message) as caught:
        read_specification(tmp_path / name)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_specification_holds_what_people_are_asked(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(
        'title = "Umfrage"\nlanguage = "de"\nepsilon = 1\n[[attributes]]\nname = "a"\nsize = 2\nquestion = "Ja?"\n'
        '[[attributes]]\nname = "b"\nsize = 3\n'
    )
    wording = read_specification(path).wording
    assert (wording.title, wording.language, wording.asker) == ("Umfrage", "de", None)
    assert wording.questions == {"a": "Ja?"}
    assert parse_attributes(["a=2:1"]).wording.questions == {}


def test_a_law_too_large_for_one_table_says_how_it_is_drawn() -> None:
    names = [f"a{i}" for i in range(16_385)]
    large = optrr.design(dict.fromkeys(names, 2), 1.0, method="kronecker")
    assert any("slower sampler" in w for w in large.warnings)
    small = optrr.design(dict.fromkeys(names[:50], 2), 1.0, method="kronecker")
    assert not any("slower sampler" in w for w in small.warnings)


DOMAIN = Domain.of({"a": 3, "b": 5, "c": 2})


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"conditional_cap": "x"}, "``conditional_cap``: 'x' .*give a number of nats"),
        ({"conditional_cap": math.nan}, "``conditional_cap``: nan"),
        ({"conditional_cap": {"b": None}}, "``conditional_cap``: None for attribute 'b'"),
        ({"conditional_cap": {"z": 1.0}}, "'z'"),
        ({"preserve": "all"}, "``preserve``: 'all'"),
        ({"preserve": [("a", "z")]}, "'z'"),
    ],
)
def test_a_wrong_wish_is_refused_with_the_same_words_everywhere(wish, said):
    with pytest.raises(InvalidInput, match=said):
        design(DOMAIN, 1.0, constraints=Constraints(**wish))
    with pytest.raises(InvalidInput, match=said):
        allocate(DOMAIN, 2.0, constraints=Constraints(**wish))


def test_too_many_pairs_are_refused_alike():
    wide = Domain.of({f"q{i}": 2 for i in range(1600)})
    for call in (
        lambda: design(wide, 0.5, constraints=Constraints(preserve="pairs")),
        lambda: allocate(wide, 5.0, constraints=Constraints(preserve="pairs")),
    ):
        with pytest.raises(MethodTooLarge, match="1279200 pairs"):
            call()


def test_no_limit_is_no_cap():
    assert Constraints(conditional_cap={"a": math.inf}).problem(DOMAIN, np.ones(3)).caps is None


@pytest.mark.parametrize("method", ["auto", "kronecker", "inductive"])
@pytest.mark.parametrize("total", [0.05, 3.0, 20.0])
def test_proportions_are_kept_and_the_total_is_spent(method, total):
    made = design(DOMAIN, {"a": 1, "b": 2, "c": 1}, total=total, method=method)
    asked = made.requested_epsilons
    assert asked == pytest.approx(asked[0] * np.array([1, 2, 1]))
    assert made.epsilon <= total
    if method != "inductive":
        assert made.epsilon >= total * (1 - 2e-6)


@pytest.mark.parametrize(
    ("cap", "epsilons"), [(1.0, [0.5, 1.0, 0.25]), ({"a": 0.8}, [0.8, 1.6, 0.4]), ({"c": 0.3}, [0.6, 1.2, 0.3])]
)
def test_of_a_total_is_spent_what_caps_allow(cap, epsilons):
    made = design(DOMAIN, [2.0, 4.0, 1.0], total=6.0, constraints=Constraints(conditional_cap=cap))
    np.testing.assert_allclose(made.attribute_epsilons, epsilons, rtol=1e-6)
    assert made.epsilon <= 6
    # of what is left a user is told; there is nothing to tell where a total is spent
    assert made.warnings == (
        f"the design uses {made.epsilon:.6g} of the total epsilon of 6: in these proportions caps or preserved pairs allow "
        "no more; other proportions may use the rest",
    )
    assert not design(DOMAIN, [2.0, 4.0, 1.0], total=0.5, constraints=Constraints(conditional_cap=cap)).warnings
    with pytest.raises(Infeasible, match="conditional cap 1e-09 below"):
        design(DOMAIN, 1.0, total=6.0, constraints=Constraints(conditional_cap=1e-9))


@pytest.mark.parametrize("kappa", [1.05, 2.0])
def test_a_total_is_spent_where_more_accurate_attributes_could_not_keep_their_pairs(kappa):
    made = design({"a": 2, "b": 2}, 1.0, total=6.0, constraints=Constraints(preserve="pairs", kappa=kappa))
    assert 6 * (1 - 1e-6) <= made.epsilon <= 6 and made.faintest_pair[0] >= kappa * (1 - 1e-6)


@pytest.mark.parametrize(
    ("epsilons", "total", "error", "said"),
    [
        (1.0, -1, InvalidInput, "``total``: -1"),
        (1.0, "much", InvalidInput, "``total``: 'much'"),
        (1.0, 1e-9, Infeasible, "too small"),
        ([1.0, 0.0, 1.0], 2.0, InvalidInput, "'b' has proportion 0"),
        ([1.0, 1e9, 1.0], 2.0, InvalidInput, "a ratio of at most"),
    ],
)
def test_impossible_totals_are_refused(epsilons, total, error, said):
    with pytest.raises(error, match=said):
        design(DOMAIN, epsilons, total=total)


@pytest.mark.parametrize(("asked", "ratio"), [([{"epsilon": 1}, {"epsilon": 2}], 2), ([{}, {}], 1)])
def test_a_total_on_the_command_line(asked, ratio, tmp_path, capsys):
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"attributes": [{"name": f"a{k}", "size": 3 + k} | x for k, x in enumerate(asked)]}))
    assert run(["design", str(spec), "--total-epsilon", "2", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    a, b = (row["requested_epsilon"] for row in made["attributes"])
    assert 2 * (1 - 2e-6) <= made["epsilon"] <= 2 and b == pytest.approx(ratio * a)
    assert run(["design", str(spec), "--total-epsilon", "-2"]) == 2
