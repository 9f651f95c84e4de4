"""Deployment files and matrices, change sets and programs as files: what is read back, and files that lie."""

import csv
import itertools
import json
from fractions import Fraction
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
import scipy.sparse as sp
from conformance import Conformance
from scipy.optimize import linprog

import optrr
from optrr.cli.main import run
from optrr.core.errors import InvalidInput
from optrr.core.provenance.sealed import Content
from optrr.devices import tables
from optrr.devices.deployment_file import canonical, decoded_deployment, digest_of
from optrr.devices.verify import DEPLOYMENTS, verify_deployment
from optrr_solvers import Problem, event_program
from optrr_solvers.laws import TableLaw
from tests import naive, vectors
from tests.mutations import measured, mutated

MAKE = vectors.load_script(vectors.VECTORS / "make_vectors.py")
REFERENCE = vectors.load_script(vectors.VECTORS / "reference.py")
# These are refused when a file is verified, not when it is read.
UNTRUE = ("a total below the truth", "questions: a total below the truth", "questions: too sharp a law")


# Another version of a solver may end in other last digits, so these may be made anew with other numbers.
SOLVED = ("many", "pairs", "optimum")


def test_there_are_vectors_for_every_kind_of_layer() -> None:
    layers = [x for name in vectors.NAMES for x in json.loads(vectors.read(name)["deployment"])["layers"]]
    assert {x["kind"] for x in layers} == {"change", "uniform", "choice"}
    assert any("second" in x for x in layers)
    assert [MAKE.TRIALS] == vectors.TRIALS
    assert sorted(MAKE.LAWS) == vectors.NAMES and sorted(MAKE.ASKED) == vectors.QUESTIONS and len(vectors.NAMES) >= 24
    base, asked = MAKE.content_of("small"), MAKE.content_of("questions-small")
    refused = MAKE.refused_files(base) + MAKE.refused_questions(asked)
    refused += MAKE.refused_trials(MAKE.content_of(MAKE.TRIALS))
    assert vectors.read("refused-files")["files"] == refused
    assert vectors.read("refused-records") == MAKE.refused_records(base)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.slow if n == vectors.LONG else ())
        for n in (*vectors.NAMES, *vectors.QUESTIONS, *vectors.TRIALS)
    ],
)
def test_a_vector_file_is_what_the_reference_makes_of_its_bytes(name: str) -> None:
    vector = vectors.read(name)
    assert name.startswith(SOLVED) or vector == MAKE.vectors_of(name)
    content = json.loads(vector["deployment"])
    labels = [a["categories"] for a in content["attributes"]]
    for case in vector["cases"]:
        stream = bytes.fromhex(case["bytes"])
        at = [0]

        def take(n: int, stream: bytes = stream, at: list[int] = at) -> bytes:
            at[0] += n
            return stream[at[0] - n : at[0]]

        codes = [x.index(v) for x, v in zip(labels, case["record"], strict=True)]
        assert MAKE.drawn(content, codes, REFERENCE.Bytes(take)) == case["randomized"]
        assert at[0] == len(stream)


@pytest.mark.parametrize("name", [*vectors.NAMES, *vectors.QUESTIONS, *vectors.TRIALS])
def test_a_file_is_written_as_it_was_read(name: str) -> None:
    text = vectors.read(name)["deployment"].encode()
    assert decoded_deployment(text, name).to_bytes() == text + b"\n"


def test_what_the_specification_refuses_is_refused() -> None:
    files = vectors.read("refused-files")["files"]
    assert len(files) > 60
    for file in files:
        raw = file["text"].encode()
        if file["why"] in UNTRUE:
            assert not DEPLOYMENTS.checked(raw, "file").holds
            continue
        with pytest.raises(InvalidInput) as refused:
            DEPLOYMENTS.loaded(Content(Path("file"), raw))
        assert "\n" not in str(refused.value)


# One of every kind of law, with few enough change sets to walk every path.
NAMES = [
    "joint", "optimum-3", "optimum-6", "pairs", "product", "rare", "small", "table", "uniform", "blocks", "few-changes", "ball",
]  # fmt: skip
# Above the truth a label may stand by this much, and by the last of its 15 places.
ABOVE = mp.mpf("1e-9") + mp.mpf("1e-15")


def originals() -> dict[str, Content]:
    return {name: json.loads(vectors.read(name)["deployment"]) for name in NAMES}


def written(content: Content, path: Path) -> Path:
    """The content with the digest that it should have."""
    path.write_bytes(canonical(content | {"digest": digest_of(content)}))
    return path


def verified(path: Path) -> bool:
    try:
        return verify_deployment(path).holds
    except InvalidInput as error:
        assert "\n" not in str(error)
        return False


def texts(value: str, rng: np.random.Generator) -> str:
    """Another text: a digit more or less where it is a number, other digits where it is a threshold, or a word."""
    if value.replace(".", "").isdigit() and "." in value:
        step = Fraction(10) ** int(rng.integers(-15, 1)) * int(rng.choice([-3, -1, 1, 3]))
        moved = Fraction(value) + step
        return (
            f"{'-' if moved < 0 else ''}{abs(int(moved * 10**15)) // 10**15}.{abs(int(moved * 10**15)) % 10**15:015d}"
        )
    if len(value) >= 16 and set(value) <= set("0123456789abcdef"):
        k = int(rng.integers(len(value)))
        changed = value[:k] + str(rng.choice(list("0123456789abcdef"))) + value[k + 1 :]
        start = 16 * int(rng.integers(len(value) // 16))
        return str(rng.choice([changed, value[16:], value * 2, value[start:] + value[:start], value.upper()]))
    return str(rng.choice(["", "change", "uniform", "choice", "optrr-deployment/2", "0", "x"]))


def broken_promises(content: Content) -> list[str]:
    """What a file says that its integers do not keep."""
    sizes = [len(a["categories"]) for a in content["attributes"]]
    truth = naive.ExactTruth(sizes, Conformance(content).exact_sets())
    stated = content["epsilon"]
    out = []
    with mp.workdps(60):
        if not mp.mpf(stated["total"]) >= naive.log_of(truth.total):
            out.append("total")
        for i, (own, conditional) in enumerate(zip(stated["attributes"], stated["conditional"], strict=True)):
            if not 0 <= mp.mpf(own) - naive.log_of(truth.attribute[i]) <= ABOVE:
                out.append(f"accuracy of {i}")
            if not mp.mpf(conditional) >= naive.log_of(truth.conditional[i]):
                out.append(f"conditional of {i}")
    return out


def test_the_enumeration_sees_a_lie() -> None:
    content = originals()["small"]
    for change in ("total", "attributes", "conditional"):
        lie = json.loads(json.dumps(content))
        value = lie["epsilon"][change]
        lie["epsilon"][change] = "0.000000000000000" if change == "total" else ["0.000000000000000"] * len(value)
        assert broken_promises(lie)


@pytest.mark.slow
def test_no_mutation_that_verifies_breaks_a_promise(tmp_path: Path) -> None:
    count = 3_000
    files, passed = originals(), 0
    for number in range(count):
        name = NAMES[number % len(NAMES)]
        content = mutated(files[name], np.random.default_rng([61, number]), texts)
        path = written(content, tmp_path / "s.json")
        with measured() as cost:
            holds = verified(path)
        assert cost.processor_seconds < 10 and cost.memory < 1 << 30, number
        if holds:
            passed += 1
            assert not broken_promises(content), (number, name)
    # names, categories and the name of the design or the software are no promises that the integers could break
    assert 0 < passed < count / 2


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
    assert run(["export", str(tmp_path / "d.json"), "--form", "program", "-o", str(tmp_path / "p.npz")]) == 0
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


def test_wrong_wishes_are_refused_and_nothing_is_written(mechanism, tmp_path):
    large = optrr.design({"a": 100, "b": 100}, 1.0).mechanism
    with pytest.raises(InvalidInput, match="4096"):
        tables.save_matrix(large, ["a", "b"], tmp_path / "m.csv")
    for names, suffix in ((("nobody",), "csv"), (("sex",), "txt"), (("sex", "sex"), "npz")):
        with pytest.raises(InvalidInput):
            tables.save_matrix(mechanism, names, tmp_path / f"m.{suffix}")
    with pytest.raises(InvalidInput):
        tables.save_events(mechanism, tmp_path / "e.txt")
    with pytest.raises(InvalidInput):
        tables.save_program(Problem([2, 2], [1, 1]), ["a", "b"], tmp_path / "p.csv")
    assert list(tmp_path.iterdir()) == []


def test_forms_take_attributes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    optrr.save(optrr.design({"a": 2, "b": 3}, 1.0), "d.json")
    for form, attributes, lines in (("matrix", "b,a", 7), ("events", "a,b", 5), ("events", "b", 3)):
        assert run(["export", "d.json", "--form", form, "--attributes", attributes, "-o", "t.csv"]) == 0
        assert len(Path("t.csv").read_text().splitlines()) == lines
    assert run(["export", "d.json", "--form", "events", "-o", "t.csv"]) == 0
    assert len(Path("t.csv").read_text().splitlines()) == 5


def test_names_with_commas_and_what_is_no_design(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    optrr.save(optrr.design({"in,come": 2, "sex": 2}, 1.0), "d.json")
    for form in ("matrix", "events"):
        asked = ["export", "d.json", "-o", "t.json", "--form", form, "--attributes"]
        assert run([*asked, "in,,come,sex"]) == 0
        assert json.loads(Path("t.json").read_text())["names"] == ["in,come", "sex"]
        assert run([*asked, "in,come,sex"]) == 2
    capsys.readouterr()
    Path("spec.toml").write_text('[[attributes]]\nname = "a"\nsize = 2\nepsilon = 1.0\n')
    assert run(["export", "spec.toml", "-o", "x.json"]) == 2
    assert "optrr design spec.toml" in capsys.readouterr().err
    assert run(["export", "d.json", "-o", "-"]) == 2
    assert "must be .json" in capsys.readouterr().err
    assert sorted(x.name for x in tmp_path.iterdir()) == ["d.json", "spec.toml", "t.json"]


def test_what_would_read_alike_is_refused_but_in_json(tmp_path: Path) -> None:
    labels = {"probability": 2, "a": ["", None, "x"], "z": 2}
    mechanism = optrr.design(optrr.Domain.of(labels), 1.0).mechanism
    for suffix in ("csv", "npz"):
        with pytest.raises(InvalidInput, match=r"distinguished from a missing value.*json"):
            tables.save_matrix(mechanism, ["a"], tmp_path / f"m.{suffix}")
    with pytest.raises(InvalidInput, match=r"the column 'probability' twice; write to a \.json file"):
        tables.save_events(mechanism, tmp_path / "e.csv", ["probability"])
    assert list(tmp_path.iterdir()) == []
    tables.save_matrix(mechanism, list(labels), tmp_path / "m.json")
    cells = json.loads((tmp_path / "m.json").read_text(encoding="utf-8"))["cells"]
    assert len({tuple(c) for c in cells}) == len(cells) == 12
    tables.save_events(mechanism, tmp_path / "e.npz", ["probability"])
