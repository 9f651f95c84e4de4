"""Matrices, change sets and programs as files, against brute force over every record."""

import csv
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

import optrr
from optrr.cli.main import run
from optrr.devices import tables
from optrr.errors import InvalidInput
from optrr_solvers import Problem, event_program
from optrr_solvers.laws import TableLaw
from tests import naive

SIZES = (2, 3, 4)


@pytest.fixture
def mechanism() -> optrr.Mechanism:
    """A law without structure, so that no order of axes passes for another."""
    labels = {"sex": ["F", "M"], "smokes, or so": ["no", 'a "few"', None], "age": 4}
    return optrr.Mechanism(optrr.Domain.of(labels), law_of_table())


def law_of_table() -> TableLaw:
    return TableLaw(np.array(SIZES), np.random.default_rng(4).normal(0, 1, 8))


def matrix_by_force(subset: tuple[int, ...]) -> np.ndarray:
    """P over all records, outputs merged; the subset's axes in its own order."""
    full = naive.matrix(SIZES, naive.density(law_of_table()))
    ordered = tuple(sorted(subset))
    small = naive.marginal_matrix(SIZES, full, ordered)
    r = [SIZES[i] for i in ordered]
    axes = [ordered.index(i) for i in subset]
    shaped = small.reshape(*r, *r).transpose(*axes, *(len(r) + a for a in axes))
    n = int(np.prod(r))
    return shaped.reshape(n, n)


@pytest.mark.parametrize("names", [("age",), ("age", "sex"), ("smokes, or so", "sex"), ("sex", "age", "smokes, or so")])
def test_matrices_are_those_of_all_records(names: tuple[str, ...], mechanism: optrr.Mechanism, tmp_path: Path) -> None:
    expected = matrix_by_force(mechanism.domain.indices(names))
    cells = list(itertools.product(*(mechanism.domain[n].texts for n in names)))
    for suffix in ("csv", "npz", "json"):
        tables.save_matrix(mechanism, names, tmp_path / f"m.{suffix}")
    with np.load(tmp_path / "m.npz") as file:
        np.testing.assert_allclose(file["matrix"], expected, rtol=1e-12)
        assert file["names"].tolist() == list(names)
        for i, n in enumerate(names):
            assert file[f"categories_{i}"].tolist() == [x or "" for x in mechanism.domain[n].texts]
    content = json.loads((tmp_path / "m.json").read_text(encoding="utf-8"))
    assert [tuple(c) for c in content["cells"]] == cells
    np.testing.assert_allclose(content["matrix"], expected, rtol=1e-12)
    with (tmp_path / "m.csv").open(newline="", encoding="utf-8") as lines:
        head, *rows = list(csv.reader(lines))
    assert head[: len(names)] == list(names)
    assert [tuple(json.loads(x)) for x in head[len(names) :]] == cells
    assert [tuple(r[: len(names)]) for r in rows] == [tuple(x or "" for x in c) for c in cells]
    np.testing.assert_allclose([[float(x) for x in r[len(names) :]] for r in rows], expected, rtol=1e-12)


@pytest.mark.parametrize("names", [None, ("age", "sex")])
def test_change_sets_are_those_of_all_records(names, mechanism, tmp_path):
    chosen = mechanism.domain.indices(names or mechanism.domain.names)
    full = naive.change_table(SIZES, naive.density(law_of_table()))
    others = tuple(i for i in range(3) if i not in chosen)
    expected = np.moveaxis(full, chosen, range(len(chosen))).sum(axis=tuple(range(len(chosen), 3))).ravel()
    assert len(others) + len(chosen) == 3
    sets = naive.change_sets(len(chosen))
    counts = [np.prod([SIZES[i] - 1 for i, c in zip(chosen, s, strict=True) if c]) for s in sets]
    for suffix in ("csv", "npz", "json"):
        tables.save_events(mechanism, tmp_path / f"e.{suffix}", names)
    with np.load(tmp_path / "e.npz") as file:
        content = {k: file[k].tolist() for k in file.files}
    assert content == json.loads((tmp_path / "e.json").read_text(encoding="utf-8"))
    np.testing.assert_allclose(content["probability"], expected, rtol=1e-12)
    np.testing.assert_allclose(content["each"], expected / counts, rtol=1e-12)
    assert [tuple(x) for x in content["changed"]] == sets
    with (tmp_path / "e.csv").open(newline="", encoding="utf-8") as lines:
        head, *rows = list(csv.reader(lines))
    k = len(chosen)
    assert head == [mechanism.domain.names[i] for i in chosen] + ["probability", "outputs", "each"]
    assert [tuple(int(x) for x in r[:k]) for r in rows] == sets
    np.testing.assert_allclose([float(r[k]) for r in rows], expected, rtol=1e-12)


def test_the_program_is_pors_and_its_optimum_the_designs(tmp_path: Path) -> None:
    sizes, asked = [2, 3, 4], [0.5, 1.0, 0.7]
    design = optrr.design({f"a{i}": r for i, r in enumerate(sizes)}, asked)
    optrr.save(design, tmp_path / "d.json")
    assert run(["export", str(tmp_path / "d.json"), "--program", "npz", "-o", str(tmp_path / "p.npz")]) == 0
    with np.load(tmp_path / "p.npz") as file:
        data = {k: file[k] for k in file.files}
    matrices = {
        k: sp.csr_array((data[f"{k}_data"], data[f"{k}_indices"], data[f"{k}_indptr"]), shape=tuple(data[f"{k}_shape"]))
        for k in ("A", "A_eq")
    }
    own = event_program(Problem(sizes, asked))
    for name, matrix in matrices.items():
        np.testing.assert_array_equal(matrix.toarray(), getattr(own, name).toarray())
    solved = linprog(data["c"], matrices["A"], data["b"], matrices["A_eq"], data["b_eq"])
    assert np.log(solved.x[0]) == pytest.approx(design.epsilon, abs=1e-8)
    assert data["names"].tolist() == ["a0", "a1", "a2"]
    counts = [np.prod([r - 1 for r, c in zip(sizes, s, strict=True) if c]) for s in data["changed"]]
    np.testing.assert_array_equal(data["outputs"], counts)


def test_wrong_wishes_are_refused_and_nothing_is_written(mechanism, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "MOST_CELLS", 5)
    for names, suffix in ((("sex", "age"), "csv"), (("nobody",), "csv"), (("sex",), "txt"), (("sex", "sex"), "npz")):
        with pytest.raises(InvalidInput):
            tables.save_matrix(mechanism, names, tmp_path / f"m.{suffix}")
    with pytest.raises(InvalidInput):
        tables.save_events(mechanism, tmp_path / "e.txt")
    with pytest.raises(InvalidInput):
        tables.save_program(Problem([2, 2], [1, 1]), ["a", "b"], tmp_path / "p.csv")
    assert list(tmp_path.iterdir()) == []


def test_the_command_takes_one_wish_at_a_time(tmp_path: Path) -> None:
    optrr.save(optrr.design({"a": 2, "b": 3}, 1.0), tmp_path / "d.json")
    wishes = [["--matrix", "a"], ["--events"], ["--program", "npz"], ["--size", "9999"]]
    for first, second in itertools.combinations(wishes, 2):
        assert run(["export", str(tmp_path / "d.json"), *first, *second, "-o", str(tmp_path / "x.npz")]) == 2
    assert run(["export", str(tmp_path / "d.json"), "--matrix", "b,a", "-o", str(tmp_path / "m.csv")]) == 0
    assert run(["export", str(tmp_path / "d.json"), "--events", "-o", str(tmp_path / "e.csv")]) == 0
    assert run(["export", str(tmp_path / "d.json"), "--events", "b", "-o", str(tmp_path / "f.csv")]) == 0
    assert len((tmp_path / "f.csv").read_text().splitlines()) == 3


def test_names_with_commas_and_what_is_no_design(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    optrr.save(optrr.design({"in,come": 2, "sex": 2}, 1.0), "d.json")
    for option in ("--matrix", "--events"):
        assert run(["export", "d.json", option, "in,,come,sex", "-o", "t.json"]) == 0
        assert json.loads(Path("t.json").read_text())["names"] == ["in,come", "sex"]
        capsys.readouterr()
        assert run(["export", "d.json", option, "in,come,sex", "-o", "t.json"]) == 2
        assert "a comma inside a name is written twice" in capsys.readouterr().err
    Path("spec.toml").write_text('[[attributes]]\nname = "a"\nsize = 2\nepsilon = 1.0\n')
    assert run(["export", "spec.toml", "-o", "x.json"]) == 2
    assert "optrr design spec.toml" in capsys.readouterr().err
    assert run(["export", "d.json", "-o", "-"]) == 2
    assert "standard output" in capsys.readouterr().err
    assert sorted(x.name for x in tmp_path.iterdir()) == ["d.json", "spec.toml", "t.json"]


def test_a_name_that_ends_in_a_nul_character_is_written_whole(tmp_path: Path) -> None:
    mechanism = optrr.design(optrr.Domain.of({"a\0": 2, "b": 2}), 1.0).mechanism
    for suffix in ("json", "csv"):
        tables.save_events(mechanism, tmp_path / f"e.{suffix}")
        assert "a\0" in (tmp_path / f"e.{suffix}").read_text().encode().decode("unicode_escape")
    with pytest.raises(InvalidInput, match="NUL"):
        tables.save_events(mechanism, tmp_path / "e.npz")


def test_what_would_read_alike_is_refused_but_in_json(tmp_path: Path) -> None:
    labels = {"probability": 2, "a": ["", None, "x"], "z": ["z", "z\0"]}
    mechanism = optrr.design(optrr.Domain.of(labels), 1.0).mechanism
    refused = [("a", "csv", "missing"), ("a", "npz", "missing"), ("z", "npz", "NUL")]
    for name, suffix, why in refused:
        with pytest.raises(InvalidInput, match=f"{why}.*json"):
            tables.save_matrix(mechanism, [name], tmp_path / f"m.{suffix}")
    with pytest.raises(InvalidInput, match=r"'probability' would be there twice; write to a \.json file"):
        tables.save_events(mechanism, tmp_path / "e.csv", ["probability"])
    assert list(tmp_path.iterdir()) == []
    tables.save_matrix(mechanism, list(labels), tmp_path / "m.json")
    cells = json.loads((tmp_path / "m.json").read_text(encoding="utf-8"))["cells"]
    assert len({tuple(c) for c in cells}) == len(cells) == 12
    tables.save_events(mechanism, tmp_path / "e.npz", ["probability"])
