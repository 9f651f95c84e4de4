"""optrr cluster, and cluster designs through files, randomize, estimate and verify."""

import json
import shutil

import numpy as np
import pytest

from optrr.cli.main import run
from optrr.core.design.design_file import load_design, save_design
from optrr.core.design.solving import design
from optrr.core.domain.domain import Domain
from optrr.core.protocols import of_design
from optrr.core.protocols.protocol import block_names, cluster_design
from optrr_solvers import Status
from optrr_solvers.laws import BlockLaw

DOMAIN = Domain.of({"a": ["x", "y", "z"], "b": ["p", "q", "r", "s"], "c": ["0", "1"], "d": ["0", "1"]})


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Records, a first design and what it made of them, and the records' codes."""
    folder = tmp_path_factory.mktemp("first")
    rng = np.random.default_rng(1)
    n = 20_000
    a, c = rng.integers(0, 3, n), rng.integers(0, 2, n)
    b = np.where(rng.random(n) < 0.7, a, rng.integers(0, 4, n))
    codes = np.stack([a, b, c, c], axis=1)
    lines = [",".join(DOMAIN.names)]
    lines += [",".join(t.texts[v] for t, v in zip(DOMAIN, row, strict=True)) for row in codes.tolist()]
    (folder / "true.csv").write_text("\n".join(lines) + "\n")
    save_design(design(DOMAIN, 1.5, method="kronecker"), folder / "first.json")
    true, first, randomized = (str(folder / name) for name in ("true.csv", "first.json", "randomized.csv"))
    assert run(["randomize", true, "--design", first, "-o", randomized, "--random-state", "2"]) == 0
    return folder, codes


@pytest.fixture
def first_round(made, tmp_path):
    """A folder of one's own with the files of the first round."""
    folder, codes = made
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return tmp_path, codes


def clustered(folder, *more):
    usual = {"--max-combinations": "12", "--min-dependence": "0.2"}
    kept = [text for option, value in usual.items() if option not in more for text in (option, value)]
    return ["cluster", str(folder / "randomized.csv"), "--design", str(folder / "first.json"), *kept, *more]


def test_the_command_finds_the_clusters_and_states_both_rounds(first_round, capsys):
    folder, _ = first_round
    capsys.readouterr()
    assert run(clustered(folder, "--json")) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["clusters"] == [["a", "b"], ["c", "d"]]
    assert printed["combinations"] == [12, 4]
    assert printed["epsilon"]["learning"] == pytest.approx(6.0)
    assert printed["epsilon"]["total"] == pytest.approx(12.0)
    matrix = np.array(printed["dependence"])
    assert matrix[2, 3] > 0.9 > matrix[0, 1] > 0.5 > matrix[0, 2]


@pytest.mark.parametrize(
    "more",
    [["--algorithm", "pic", "--clusters", "2"], ["--attenuated", "--min-dependence", "0.05"], ["--ordinal", "a,b"]],
)
def test_other_ways_to_the_clusters(first_round, capsys, more):
    folder, _ = first_round
    capsys.readouterr()
    assert run(clustered(folder, *more)) == 0
    shown = capsys.readouterr().out
    assert "a, b" in shown
    assert "total epsilon 12.00000" in shown


@pytest.mark.slow
@pytest.mark.parametrize("matrix", ["inverse-distance", "optimum", "joint", "product"])
def test_a_cluster_design_is_a_design(first_round, capsys, matrix):
    folder, codes = first_round
    second = str(folder / "second.json")
    assert run(clustered(folder, "--matrix", matrix, "-o", second)) == 0
    assert run(["verify", second]) == 0
    randomized = str(folder / "y.parquet")
    assert (
        run(["randomize", str(folder / "true.csv"), "--design", second, "-o", randomized, "--random-state", "3"]) == 0
    )
    capsys.readouterr()
    assert run(["estimate", str(folder / "y.parquet"), "--design", second, "--attributes", "c,b", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    truth = np.zeros((2, 4))
    np.add.at(truth, (codes[:, 2], codes[:, 1]), 1 / len(codes))
    # attributes of different clusters: estimated without assuming independence; within 5 standard errors each
    z = (np.array(printed["estimate"]) - truth) / np.array(printed["standard_error"])
    assert np.abs(z).max() < 5
    loaded = load_design(second)
    assert isinstance(loaded.law, BlockLaw)
    assert block_names(loaded.domain, loaded.law) == (("a", "b"), ("c", "d"))
    assert loaded.solution.status is Status.BASELINE
    assert loaded.epsilon == pytest.approx(6.0, rel=1e-5)
    assert any("in all" in note for note in loaded.solution.notes)
    assert of_design(loaded).blocks == (("a", "b"), ("c", "d"))


def test_attribute_larger_than_the_limit_is_left_alone_and_named(first_round, capsys):
    folder, _ = first_round
    capsys.readouterr()
    assert run(clustered(folder, "--max-combinations", "3", "--min-dependence", "0")) == 0
    assert "'b' alone has 4 categories, more than 3" in capsys.readouterr().err


def test_least_epsilon_meets_the_accuracies_below_kroneckers_total():
    first = design(DOMAIN, 1.5, method="kronecker")
    second = cluster_design(first, [("a", "b", "c", "d")], "least-epsilon")
    assert second.epsilon < 0.9 * first.epsilon
    assert second.attribute_epsilons.min() >= 1.5 - 1e-8
    assert second.faintest_pair[0] >= 1 - 1e-6
