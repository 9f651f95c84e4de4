"""Synthetic records: pair tables beside the estimates, the model against a log-linear fit; nothing takes them for data."""

import json
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import optrr
from optrr import Counts, Domain, InvalidInput, SingularMarginal, count, design, estimate
from optrr.cli.main import run
from optrr.mechanisms.matrix import MatrixMechanism, from_probabilities
from optrr.models.loglinear.estimating import fit_loglinear
from optrr.models.synthesis.drawing import kept, synthesize
from optrr.models.synthesis.laws import candidates, proper_pairs, raked

DOMAIN = Domain.of({"a": 2, "b": ["x", "y", "z"], "c": [1.5, 2.0, None], "d": [True, False]})


def people(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 2, n)
    b = np.minimum(2, rng.integers(0, 2, n) + a)
    c = (b + rng.integers(0, 2, n)) % 3
    return np.stack([a, b, c, (rng.uniform(size=n) < 0.2 + 0.3 * a).astype(int)], axis=1)


def pair_counts(codes: np.ndarray, domain: Domain = DOMAIN) -> dict[tuple[int, int], Counts]:
    return {p: count(codes, domain, [domain.names[i] for i in p]) for p in combinations(range(domain.m), 2)}


def table_of(records: np.ndarray, weights: np.ndarray, pair: tuple[int, int], domain: Domain = DOMAIN) -> np.ndarray:
    out = np.zeros((domain.sizes[pair[0]], domain.sizes[pair[1]]))
    np.add.at(out, (records[:, pair[0]], records[:, pair[1]]), weights)
    return out


@pytest.mark.parametrize("seed", range(4))
def test_pair_tables_are_proper_agree_and_lie_near_the_estimates(seed: int) -> None:
    mechanism = design(DOMAIN, 1.0, preserve="pairs").mechanism
    counts = pair_counts(mechanism.perturb_codes(people(2000, seed), random_state=seed))
    tables = proper_pairs(counts, mechanism)
    shares: dict[int, np.ndarray] = {}
    for pair, table in tables.items():
        assert table.min() >= 0
        assert table.sum() == pytest.approx(1)
        for axis, attribute in enumerate(pair):
            np.testing.assert_allclose(
                table.sum(axis=1 - axis), shares.setdefault(attribute, table.sum(axis=1 - axis)), atol=1e-8
            )
        judged = estimate(counts[pair], mechanism)
        assert np.mean((judged.lower <= table) & (table <= judged.upper)) > 0.6


def test_pair_tables_without_noise_are_the_true_ones_and_without_dependence_independent() -> None:
    codes = people(100_000)
    mechanism = design(DOMAIN, 12.0, method="kronecker").mechanism
    for pair, table in proper_pairs(pair_counts(codes), mechanism).items():
        np.testing.assert_allclose(table, pair_counts(codes)[pair].proportions, atol=2e-4)
    apart = np.stack([np.random.default_rng(k).integers(0, r, 100_000) for k, r in enumerate(DOMAIN.sizes)], axis=1)
    faint = design(DOMAIN, 0.5, method="kronecker").mechanism
    drawn = proper_pairs(pair_counts(faint.perturb_codes(apart, random_state=1)), faint)
    far = [np.abs(t - np.outer(t.sum(axis=1), t.sum(axis=0))).sum() for t in drawn.values()]
    raw = [
        np.abs(r - np.outer(r.sum(axis=1), r.sum(axis=0))).sum()
        for r in (
            faint.kernel(c.domain.names).solve(c.proportions)
            for c in pair_counts(faint.perturb_codes(apart, random_state=1)).values()
        )
    ]
    assert sum(far) < sum(raw) / 2


def test_raking_all_records_gives_the_likeliest_model_of_all_pairs() -> None:
    """Of unrandomized records the likeliest log-linear model of all pairs is the one with their pair tables."""
    codes = people(3000)
    tables = {pair: c.proportions for pair, c in pair_counts(codes).items()}
    sizes = tuple(map(int, DOMAIN.sizes))
    records = candidates(tables, sizes, 3000, np.random.default_rng(0))
    assert len(records) == 36
    plain = MatrixMechanism(DOMAIN, tuple(from_probabilities(np.eye(r)) for r in sizes))
    fitted = fit_loglinear(count(codes, DOMAIN, DOMAIN.names), plain, combinations(DOMAIN.names, 2))
    np.testing.assert_allclose(raked(records, tables).reshape(sizes), fitted.proportions, atol=1e-3)


def test_candidates_from_a_tree_have_the_pair_tables_of_its_edges_and_raking_those_of_all(monkeypatch):
    monkeypatch.setattr("optrr.models.synthesis.laws.EVERY_RECORD", 1)
    tables = {pair: c.proportions for pair, c in pair_counts(people(3000)).items()}
    drawn = candidates(tables, tuple(map(int, DOMAIN.sizes)), 10, np.random.default_rng(1))
    assert len(drawn) == 1 << 17
    even = np.full(len(drawn), 1 / len(drawn))
    # three edges connect four attributes; six standard errors of a share in 2^17 draws
    near = [np.abs(table_of(drawn, even, pair) - table).max() < 3 / 2**8.5 for pair, table in tables.items()]
    assert sum(near) >= 3
    weights = raked(drawn, tables)
    for pair, table in tables.items():
        np.testing.assert_allclose(table_of(drawn, weights, pair), table, atol=2e-3)


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_pair_tables_lie_within_the_intervals_of_the_estimates(epsilon: float) -> None:
    mechanism = design(DOMAIN, epsilon, preserve="pairs").mechanism
    made = mechanism.perturb_codes(people(5000), random_state=3)
    result = synthesize(made, mechanism, random_state=4)
    assert result.within >= 0.9
    assert len(result.codes) == 5000
    inside = 0
    for pair, counts in pair_counts(made).items():
        judged = estimate(counts, mechanism)
        table = table_of(result.codes, np.full(5000, 1 / 5000), pair)
        inside += int(((judged.lower <= table) & (table <= judged.upper)).sum())
    assert inside == sum(p.within for p in result.pairs)
    if result.kept < 0.9:
        assert "pulled towards 0" in result.warnings[1] and f"{result.kept:.0%}" in result.warnings[1]


def test_records_have_the_declared_values_and_say_what_they_are() -> None:
    mechanism = design(DOMAIN, 4.0).mechanism
    result = synthesize(people(500), mechanism, ["b", "c", "d"], size=200, random_state=5)
    frame = result.to_pandas()
    assert list(frame.columns) == ["b", "c", "d"]
    assert set(frame.b) <= {"x", "y", "z"}
    assert set(frame.c.dropna()) <= {1.5, 2.0}
    assert frame.d.isin([True, False]).all()
    assert len(frame) == 200
    with pytest.raises(InvalidInput, match="synthetic"):
        mechanism.perturb(result.to_arrow())
    with pytest.raises(InvalidInput, match="synthetic"):
        design(DOMAIN.subset(["b", "c", "d"]), 4.0).estimate(frame, "b")
    assert "errors from the randomized records" in result.warnings[0]
    assert repr(result).startswith("<Synthetic: 200 synthetic records of 3 attributes")


def test_what_cannot_be_synthesized_is_refused() -> None:
    mechanism = design(DOMAIN, 3.0).mechanism
    with pytest.raises(InvalidInput, match="two attributes"):
        synthesize(people(100), mechanism, "a")
    for size in (0, 2.5, 10**7):
        with pytest.raises(InvalidInput, match="size"):
            synthesize(people(100), mechanism, ["a", "b"], size=size)
    hidden = design({"x": 2, "y": 2, "z": 2}, 0.5).mechanism
    with pytest.raises(SingularMarginal, match="preserve='pairs'"):
        synthesize(np.random.default_rng(0).integers(0, 2, (100, 3)), hidden)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_the_command_writes_records_that_estimate_and_perturb_refuse(suffix, tmp_path, capsys):
    domain = Domain.of({"a": ["0", "1"], "b": ["x", "y", "z"]})
    made = design(domain, 3.0, preserve="pairs")
    optrr.save(made, tmp_path / "d.json")
    codes = people(1000)[:, :2]
    true = pd.DataFrame({"a": codes[:, 0].astype(str), "b": np.array(["x", "y", "z"])[codes[:, 1]]})
    made.mechanism.perturb(true, random_state=7).to_parquet(tmp_path / "r.parquet")
    given, out = [str(tmp_path / "r.parquet"), "--design", str(tmp_path / "d.json")], tmp_path / f"s.{suffix}"
    assert run(["synthesize", *given, "-o", str(out), "--random-state", "8", "--size", "300", "--json"]) == 0
    printed = capsys.readouterr()
    said = json.loads(printed.out)
    assert (said["records"], said["n"], said["pairs"][0]["cells"]) == (300, 1000, 6)
    assert said["within"] >= 0.8
    assert "drawn from a model" in printed.err
    assert len(pd.read_csv(out) if suffix == "csv" else pd.read_parquet(out)) == 300
    again = [str(out), "--design", str(tmp_path / "d.json")]
    for command in (["estimate", *again, "--attributes", "a"], ["perturb", *again, "-o", str(tmp_path / "p.csv")]):
        assert run(command) == 2
        assert "synthetic records" in capsys.readouterr().err
    assert run(["synthesize", *given, "-o", str(out)]) == 0
    assert "within intervals" in capsys.readouterr().out


def test_what_is_kept_is_a_share_of_the_unbiased_association() -> None:
    rng = np.random.default_rng(5)
    unbiased = rng.dirichlet(np.ones(6)).reshape(2, 3)
    apart = np.outer(unbiased.sum(axis=1), unbiased.sum(axis=0))
    for share in (0.0, 0.3, 1.0):
        assert kept(apart + share * (unbiased - apart), unbiased) == pytest.approx(share, abs=1e-12)
    assert kept(apart, apart) == 1
