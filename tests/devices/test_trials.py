"""Balls drawn by rejection: labels against the exact law of the integers, and what deployments of many attributes spend."""

from dataclasses import replace
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from conformance import Conformance
from scipy.stats import chisquare

import optrr
from optrr.devices.audit import audit
from optrr.devices.deployment_file import DeployedTrials, StatedEpsilons
from optrr.devices.export import fitted_deployment
from optrr.devices.verify import verify_deployment
from optrr_solvers.laws.trials import TrialBall, Trials
from optrr_solvers.randomness import as_source
from tests import naive
from tests.devices.test_labels import domain_of, file_of, random_trials


def exact_law(t: Trials) -> dict[tuple[int, ...], Fraction]:
    """The probability of every change set, from the integers of the file alone."""
    none = StatedEpsilons("", (), ())
    return Conformance(DeployedTrials(domain_of(t), t, none, "", "").content()).exact_sets()


@pytest.mark.parametrize("seed", range(20))
def test_sums_of_doubles_are_those_of_the_integers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    t = random_trials(rng, int(rng.integers(1, 7)))
    law = exact_law(t)
    assert sum(law.values()) == 1
    assert t.flips[1] == pytest.approx([float(sum(p for s, p in law.items() if s[i])) for i in range(t.m)], rel=1e-11)
    table = np.array([float(p) for _, p in sorted(law.items())]).reshape((2,) * t.m)
    assert t.changes(range(t.m)) == pytest.approx(table, abs=1e-13)
    assert DeployedTrials.read(file_of(t).to_bytes()).to_bytes() == file_of(t).to_bytes()


def hostile_trials(rng: np.random.Generator) -> Trials:
    """Integers at the ends of their ranges, where differences of doubles would be lost."""
    full, m = 1 << 64, int(rng.integers(1, 4))

    def whole() -> int:
        near = int(rng.integers(1, 1 << 13))
        return int(rng.choice(np.array([0, 1, near, full >> int(rng.integers(1, 60)), full - near], dtype=object)))

    def one() -> TrialBall:
        thresholds = [whole() for _ in range(m)]
        second = [int(rng.choice(np.array([0, t, max(0, t - 1), t // 2], dtype=object))) for t in thresholds]
        least, acceptance = int(rng.integers(0, 3)), rng.choice([0, 1, (1 << 32) - 1, 1 << 31], int(rng.integers(1, 4)))
        acceptance[0] = acceptance[0] or 1
        words = (np.array(x, dtype=np.uint64) for x in (thresholds, second))
        weights, ratio = rng.integers(0, least + acceptance.size + 1, m), int(rng.integers(-(1 << 44), 1 << 44))
        return TrialBall(rng.integers(2, 6, m), weights, *words, least, acceptance.astype(np.uint32), ratio)

    balls = [one() for _ in range(int(rng.integers(1, 3)))]
    balls = [replace(ball, sizes=balls[0].sizes) for ball in balls]
    return Trials(tuple(balls), (1 << 63,) * (len(balls) - 1), whole(), int(rng.choice([1, 2, 30])))


@pytest.mark.parametrize("seed", range(20))
def test_no_crafted_file_states_less_than_the_exact_law(seed: int) -> None:
    rng, checked = np.random.default_rng(seed), 0
    while checked < 5:
        t = hostile_trials(rng)
        if t.flaw:
            continue
        exact = naive.log_of(naive.ExactTruth(t.sizes.tolist(), exact_law(t)).total)
        assert t.epsilon >= exact * (1 - mp.mpf("1e-12")) - mp.mpf("1e-12")
        checked += 1


def test_records_are_drawn_as_the_law_says() -> None:
    """False alarms: 1 in 1,000."""
    t = random_trials(np.random.default_rng(3), 4)
    codes = np.zeros((200_000, 4), dtype=np.int64)
    t.randomize(codes, as_source(5))
    seen = np.zeros((2,) * 4)
    np.add.at(seen, tuple((codes > 0).astype(int).T), 1)
    expected = t.changes(range(4)) * len(codes)
    assert chisquare(seen.ravel(), expected.ravel()).pvalue > 1e-3


def many(m: int, most: float) -> optrr.Design:
    rng = np.random.default_rng(m)
    return optrr.design({f"a{i}": int(r) for i, r in enumerate(rng.integers(2, 8, m))}, rng.uniform(0.05, most, m))


@pytest.mark.parametrize(
    ("m", "most", "share", "size"),
    [
        (30, 2.0, 1e-3, 1 << 16),
        (100, 2.0, 2e-3, 1 << 16),
        pytest.param(1000, 1.0, 0.02, 1 << 16, marks=pytest.mark.slow),
    ],
)
def test_devices_spend_what_was_designed(m: int, most: float, share: float, size: int, tmp_path) -> None:
    """With the accuracies that were asked for, in files of less than 64 kB."""
    design = many(m, most)
    made = fitted_deployment(design, size)
    assert made.size <= size
    assert float(made.deployment.stated.total) <= design.epsilon * (1 + share)
    assert np.all(made.design.attribute_epsilons >= design.requested_epsilons - 1e-9)
    assert [float(x) for x in made.deployment.stated.attributes] == pytest.approx(
        made.design.attribute_epsilons, abs=1e-8
    )
    made.save(tmp_path / "sampler.json")
    assert verify_deployment(tmp_path / "sampler.json", tmp_path / "sampler.design.json").holds


def test_pairs_that_are_kept_keep_their_own_design() -> None:
    rng = np.random.default_rng(1)
    sizes = {f"a{i}": int(r) for i, r in enumerate(rng.integers(2, 6, 22))}
    kept = optrr.design(sizes, rng.uniform(0.2, 1, 22), constraints=optrr.Constraints(preserve="pairs"))
    made = fitted_deployment(kept, 1 << 20)
    assert not made.anew
    assert float(made.deployment.stated.total) <= kept.epsilon + 1e-6


def test_an_audit_of_trials_holds_and_finds_answers_that_change_too_rarely() -> None:
    made = fitted_deployment(many(30, 2.0), 1 << 16).deployment
    assert isinstance(made, DeployedTrials)
    holds = audit(made)
    assert holds.holds

    def truthful(people: np.ndarray, codes: np.ndarray) -> np.ndarray:
        out = codes.copy()
        made.trials.randomize(out, as_source(1))
        return np.where(np.arange(out.shape[1]) == 0, codes, out)

    assert not audit(made, truthful).holds
