"""A deployment of a stated size: a design with coarser weights where the own ones are too fine."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import optrr
from optrr.cli.main import run
from optrr.core.design.design_file import load_design, recomputed_design
from optrr.core.display import epsilon_text
from optrr.core.errors import InvalidInput
from optrr.core.provenance import Release
from optrr.devices.export import MOST_READ, fitted_deployment
from optrr.devices.verify import load_deployment, verify_deployment
from tests.vectors import CLIENTS


@pytest.fixture(scope="module")
def thirty() -> optrr.Design:
    """Thirty different attributes, whose weights are finer than a device needs."""
    rng = np.random.default_rng(1)
    return optrr.design({f"a{i}": int(r) for i, r in enumerate(rng.integers(2, 6, 30))}, rng.uniform(0.2, 1, 30))


def test_a_design_with_coarser_weights_has_the_same_certificate(thirty: optrr.Design, tmp_path: Path) -> None:
    fitted = fitted_deployment(thirty)
    assert fitted.anew
    assert len(gzip.compress(fitted.deployment.to_bytes(), 9)) == fitted.size
    assert thirty.epsilon <= fitted.design.epsilon + thirty.gap < thirty.kronecker_epsilon
    assert np.all(fitted.design.attribute_epsilons >= thirty.requested_epsilons - 1e-9)
    assert fitted.design.lower_bound == thirty.lower_bound
    assert recomputed_design(fitted.design).holds
    optrr.save(fitted, tmp_path / "sampler.json")
    assert verify_deployment(tmp_path / "sampler.json", tmp_path / "sampler.design.json").holds


def test_a_design_with_coarser_weights_follows_the_same_releases(thirty: optrr.Design) -> None:
    """What the same people released before is not forgotten in the total of all."""
    design = replace(thirty, earlier=(Release.of(optrr.design({"a": 2}, 0.5)),))
    fitted = fitted_deployment(design)
    assert fitted.anew
    assert fitted.design.epsilon_in_all >= fitted.design.epsilon + 0.5


def test_a_file_that_clients_would_not_read_is_refused_whatever_its_compressed_size():
    """Long texts compress well, so that this one has a tenth of the compressed bytes that are allowed."""
    assert f"MOST_BYTES = 1 << {MOST_READ.bit_length() - 1}\n" in (CLIENTS / "python" / "optrr_client.py").read_text()
    jobs = [f"{'an occupation of the register ' * 4}{i}" for i in range(40_000)]
    with pytest.raises(InvalidInput, match=f"clients read {MOST_READ} at most"):
        fitted_deployment(optrr.design({"job": jobs, "sex": 2}, [6.0, 1.0]))


def exported(design: Path, output: Path, *options: str) -> int:
    return run(["export", str(design), "-o", str(output), *options])


def test_the_command_writes_over_no_design_and_leaves_no_other_beside(thirty, tmp_path, capsys):
    """The design that answers were collected by stays, and a file never stands beside a design that is not its own."""
    wide, sampler, beside = tmp_path / "wide.json", tmp_path / "t.json", tmp_path / "t.design.json"
    optrr.save(thirty, wide)
    assert exported(wide, sampler, "--json") == 0
    told = capsys.readouterr()
    summary, made = json.loads(told.out), load_design(beside)
    assert "estimate with" in told.err
    assert made.epsilon == pytest.approx(thirty.epsilon + summary["cost"])
    assert float(load_deployment(sampler).stated.total) == pytest.approx(made.epsilon, abs=1e-8)
    before = {path: path.read_bytes() for path in (sampler, beside)}
    # the same once more is the same design, which stays as it is
    assert exported(wide, sampler) == 0
    assert {path: path.read_bytes() for path in before} == before
    capsys.readouterr()
    optrr.save(optrr.design({"a": 2, "b": 3}, 1.0), tmp_path / "other.json")
    assert exported(tmp_path / "other.json", sampler) == 2
    shown = capsys.readouterr()
    assert "t.design.json: is another design" in shown.err and shown.err.count("\n") == 1 and not shown.out
    assert {path: path.read_bytes() for path in before} == before
    # beside its own design a file may stand
    assert exported(beside, sampler) == 0
    assert run(["verify", str(sampler), "--design", str(beside)]) == 0


def test_a_design_for_devices_states_what_they_spend_and_is_what_they_draw(thirty, tmp_path, capsys):
    """Its own export has the ε that were stated before, and no other design stands beside it."""
    spec, design, sampler = tmp_path / "spec.toml", tmp_path / "d.json", tmp_path / "s.json"
    attributes = zip(thirty.domain, thirty.requested_epsilons.tolist(), strict=True)
    spec.write_text(
        "\n".join(f'[[attributes]]\nname = "{a.name}"\nsize = {a.size}\nepsilon = {e}' for a, e in attributes)
    )
    assert run(["design", str(spec), "--for", "device", "-o", str(design), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["lower_bound"] == pytest.approx(thirty.lower_bound)
    assert (
        optrr.export(load_design(design), sampler).design.epsilon == shown["epsilon"]
        and len(list(tmp_path.iterdir())) == 3
    )
    stated, device = load_deployment(sampler).stated, shown["device"]
    assert (
        float(stated.total) == device["epsilon"]
        and [float(x) for x in stated.attributes] == device["attribute_epsilons"]
    )
    assert device["compressed_bytes"] == len(gzip.compress(sampler.read_bytes(), 9))
    assert run(["design", str(spec), "--for", "device"]) == 0
    assert f"a device consumes {epsilon_text(device['epsilon'])}" in capsys.readouterr().out


def test_a_size_that_is_too_small_is_refused_with_one_that_is_not(thirty: optrr.Design) -> None:
    with pytest.raises(InvalidInput, match=r"300 compressed bytes; raise ``max_bytes`` to at least [0-9]+") as refused:
        fitted_deployment(thirty, 300)
    size = int(str(refused.value).split()[-1])
    assert fitted_deployment(thirty, size).size == size
