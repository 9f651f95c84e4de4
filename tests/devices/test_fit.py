"""A deployment of a stated size: what does not fit is solved again on a coarser grid, and says what that costs."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

import optrr
from optrr.cli.main import run
from optrr.core.design.design_file import load_design, recomputed_design
from optrr.core.errors import InvalidInput
from optrr.devices.exact import epsilons, shortened
from optrr.devices.export import deployment_of, fitted_deployment
from optrr.devices.verify import load_deployment, verify_deployment
from optrr_solvers import Problem
from optrr_solvers.balls.rounding import CoarseBlocks
from optrr_solvers.laws import BlockLaw, ProductLaw
from tests.solvers.test_automaton import random_law


@pytest.fixture(scope="module")
def large() -> optrr.Design:
    """Thirteen different attributes, whose own automaton takes some kilobytes more than is asked for below."""
    rng = np.random.default_rng(1)
    sizes = rng.integers(2, 6, 13)
    return optrr.design({f"a{i}": int(r) for i, r in enumerate(sizes)}, rng.uniform(0.5, 2, 13))


@pytest.mark.slow
def test_a_smaller_file_is_another_certified_design(large: optrr.Design, tmp_path: Path) -> None:
    own = fitted_deployment(large, 1 << 20)
    assert not own.anew
    assert own.design is large
    size = own.size * 3 // 4
    fitted = fitted_deployment(large, size)
    assert fitted.anew
    assert len(gzip.compress(fitted.deployment.to_bytes(), 9)) == fitted.size <= size
    assert large.epsilon < fitted.design.epsilon < large.kronecker_epsilon
    assert np.all(fitted.design.attribute_epsilons >= large.requested_epsilons - 1e-9)
    assert fitted.design.lower_bound == large.lower_bound
    assert recomputed_design(fitted.design).holds
    optrr.save(fitted.design, tmp_path / "design.json")
    optrr.save(fitted.deployment, tmp_path / "sampler.json")
    assert verify_deployment(tmp_path / "sampler.json", tmp_path / "design.json").holds
    stated = float(fitted.deployment.stated.total)
    assert stated == pytest.approx(fitted.design.epsilon, abs=1e-9)


@pytest.fixture(scope="module")
def twelve() -> optrr.Design:
    """Twelve attributes of many categories, whose own file takes about 2 kB and the product law's a third of that."""
    rng = np.random.default_rng(5)
    return optrr.design({f"a{i}": int(r) for i, r in enumerate(rng.integers(2, 31, 12))}, rng.uniform(0.2, 1.5, 12))


def product_size(design: optrr.Design) -> int:
    """Bytes of the file by which every attribute is randomized on its own."""
    law = ProductLaw(design.domain.sizes, design.requested_epsilons)
    deployment = deployment_of(optrr.Mechanism(design.domain, law), short=True)
    return len(gzip.compress(deployment.to_bytes(), 9, mtime=0))


def exported(design: Path, output: Path, *options: str) -> int:
    return run(["export", str(design), "-o", str(output), *options])


@pytest.mark.slow
def test_the_command_writes_over_no_design_and_leaves_no_other_beside(twelve, tmp_path, capsys):
    """What answers were collected by stays, and a file never stands beside a design that is not its own."""
    wide, sampler, beside = tmp_path / "wide.json", tmp_path / "t.json", tmp_path / "t.design.json"
    optrr.save(twelve, wide)
    small = str(product_size(twelve))
    capsys.readouterr()
    assert exported(wide, sampler, "--max-bytes", small, "--json") == 0
    told = capsys.readouterr()
    summary, made = json.loads(told.out), load_design(beside)
    assert summary["compressed_bytes"] <= int(small) and "estimate with" in told.err
    assert made.epsilon == pytest.approx(twelve.epsilon + summary["cost"])
    assert float(load_deployment(sampler).stated.total) == pytest.approx(made.epsilon, abs=1e-9)
    assert run(["verify", str(sampler), "--design", str(beside)]) == 0
    before = {path: path.read_bytes() for path in (sampler, beside)}
    # the same once more is the same design, which stays as it is
    assert exported(wide, sampler, "--max-bytes", small) == 0
    assert {path: path.read_bytes() for path in before} == before
    capsys.readouterr()
    # another design would go there, or none would and that one would be stale
    optrr.save(optrr.design({"a": 2, "b": 3}, 1.0), tmp_path / "other.json")
    for design, options in ((wide, ()), (tmp_path / "other.json", ())):
        assert exported(design, sampler, *options) == 2
        shown = capsys.readouterr()
        assert "t.design.json is there already" in shown.err and shown.err.count("\n") == 1 and not shown.out
        assert {path: path.read_bytes() for path in before} == before
    # beside its own design a file may stand
    assert exported(beside, sampler) == 0
    assert run(["verify", str(sampler), "--design", str(beside)]) == 0


@pytest.mark.slow
def test_where_every_attribute_on_its_own_fits_nothing_dearer_is_written(twelve: optrr.Design) -> None:
    size = product_size(twelve)
    with pytest.raises(InvalidInput, match=rf"fits {size - 1} compressed bytes; {size} bytes are possible"):
        fitted_deployment(twelve, size - 1)
    made = fitted_deployment(twelve, size)
    assert made.size == size and made.design.epsilon == pytest.approx(twelve.kronecker_epsilon)
    assert recomputed_design(made.design).holds
    assert made.design.attribute_epsilons == pytest.approx(twelve.requested_epsilons)


def test_pairs_are_kept_by_every_attribute_on_its_own() -> None:
    rng = np.random.default_rng(3)
    pairs = optrr.design(
        {f"a{i}": 2 + i for i in range(8)}, rng.uniform(0.4, 1.5, 8), constraints=optrr.Constraints(preserve="pairs")
    )
    made = fitted_deployment(pairs, product_size(pairs))
    assert made.anew and recomputed_design(made.design).holds


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_hints_can_be_followed_and_a_larger_size_never_costs_more(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 12))
    sizes = {f"a{i}": int(r) for i, r in enumerate(rng.integers(2, 31, m))}
    design = optrr.design(sizes, rng.uniform(0.2, 1.5, m))
    product = product_size(design)
    with pytest.raises(InvalidInput) as refused:
        fitted_deployment(design, 200)
    hint = int(str(refused.value).rpartition("``max_bytes`` ")[2].rstrip(")"))
    assert hint <= product
    epsilon = np.inf
    for size in sorted({hint, product, *(product * k // 8 for k in range(9, 25, 4))}):
        made = fitted_deployment(design, size)
        assert len(gzip.compress(made.deployment.to_bytes(), 9)) <= size
        # a design is known to its gap
        assert made.design.epsilon <= epsilon + max(design.gap, 1e-9)
        epsilon = made.design.epsilon
        assert size < product or epsilon <= design.kronecker_epsilon + 1e-9


def test_a_search_ends_when_its_work_is_done_and_shows_it(twelve, monkeypatch):
    monkeypatch.setattr("optrr.devices.export.MOST_WORK", 0)
    shown: list[float | None] = []
    made = fitted_deployment(twelve, product_size(twelve) + 500, lambda _, share: shown.append(share))
    assert made.design.method == "kronecker"
    assert shown and all(share == 1.0 for share in shown)


def test_what_cannot_be_had_on_a_coarse_grid_is_refused() -> None:
    pairs = optrr.design(
        {f"a{i}": 3 for i in range(3)}, [0.5, 0.6, 0.7], constraints=optrr.Constraints(preserve="pairs")
    )
    with pytest.raises(InvalidInput, match="pairs or caps"):
        fitted_deployment(pairs, 256)


def test_blocks_are_independent_balls_that_meet_every_accuracy() -> None:
    rng = np.random.default_rng(2)
    problem = Problem(rng.integers(2, 5, 20), rng.uniform(0.4, 1.5, 20))
    blocks = CoarseBlocks(problem, 2)
    law = blocks.law(0.3, 0.3)
    whole = CoarseBlocks(problem, 1).law(0.3, 0.3)
    assert isinstance(law, BlockLaw)
    assert sorted(i for members, _ in law.blocks for i in members) == list(range(20))
    for made in (law, whole):
        assert np.all(made.labels.attribute >= problem.epsilons - 1e-9)
    assert law.automaton.states < whole.automaton.states
    assert law.epsilon > whole.epsilon


@pytest.mark.parametrize("kind", ["product", "ball", "balls", "table", "blocks"])
def test_short_thresholds_keep_every_number(kind: str) -> None:
    rng = np.random.default_rng(3)
    for _ in range(3):
        whole = random_law(kind, rng, 6).automaton.layers.plain()
        short = shortened(whole)
        before, after = epsilons(whole), epsilons(short)
        assert abs(before.total - after.total) <= 1e-9
        for (a, b), (c, d) in zip(before.flips, after.flips, strict=True):
            assert abs(a * d - c * b) <= 1e-14 * a * d
        for x, y in zip(before.attributes, after.attributes, strict=True):
            assert abs(x - y) <= 1e-12
        assert all(abs(x - y) <= 1e-8 for x, y in zip(before.conditional, after.conditional, strict=True))


def test_probabilities_that_need_many_bits_keep_them() -> None:
    law = ProductLaw(np.array([3, 2]), np.array([45.0, 1.0]))
    whole = law.automaton.layers.plain()
    assert whole.bits > 64
    a, b = epsilons(whole), epsilons(shortened(whole))
    assert abs(a.attributes[0] - b.attributes[0]) <= 1e-12
    assert a.attributes[0] == pytest.approx(45)
