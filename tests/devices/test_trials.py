"""Balls drawn by rejection: labels against the exact law of the integers, and what deployments of many attributes spend."""

import itertools
from dataclasses import replace
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import chisquare

import optrr
from optrr.core.domain.domain import Domain
from optrr.devices.audit import audit
from optrr.devices.deployment_file import DeployedTrials
from optrr.devices.export import fitted_deployment
from optrr.devices.verify import verify_deployment
from optrr_solvers.laws import BallLaw, MixedBall, WeightedBall
from optrr_solvers.laws.trials import ACCEPTANCE, WORD, TrialBall, Trials, trials_of
from optrr_solvers.randomness import as_source


def random_trials(rng: np.random.Generator, m: int) -> Trials:
    """Of soft balls or shells, with weights rounded at random."""

    def one() -> WeightedBall:
        weights = rng.integers(1, 9, m)
        first = int(rng.integers(1, max(2, weights.sum())))
        knots, levels = [first, first + int(rng.integers(1, 5))], [1.0, 0.0]
        if first > 3 and rng.random() < 0.4:
            knots, levels = [first - 3, *knots], [float(rng.uniform(0, 0.9)), *levels]
        fractions = rng.uniform(0, 0.95, m) * (rng.random(m) < 0.6)
        return WeightedBall(weights, fractions, np.array(knots), np.array(levels))

    shares = rng.dirichlet(np.ones(int(rng.integers(1, 4))))
    shares /= shares.sum() * (1 + 1e-15)
    balls = [MixedBall(float(p), one()) for p in shares]
    law = BallLaw(rng.integers(2, 7, m), [np.array([i]) for i in range(m)], balls, rng.uniform(0.1, 8))
    trials = trials_of(law)
    assert trials is not None
    return trials


def exact_ball(t: TrialBall) -> dict[tuple[bool, ...], Fraction]:
    """The probability of every change set in a trial that is accepted: all roundings of all change sets, one after another."""
    inside: dict[tuple[bool, ...], Fraction] = {}
    word = Fraction(int(WORD))
    for changes in itertools.product([False, True], repeat=t.m):
        sums = {0: Fraction(1)}
        for i, moves in enumerate(changes):
            p, q, w = int(t.thresholds[i]) / word, int(t.second[i]) / word, int(t.weights[i])
            steps = {w: p - q, w + 1: q} if moves else {0: 1 - p}
            after: dict[int, Fraction] = {}
            for (x, chance), (step, share) in itertools.product(sums.items(), steps.items()):
                after[x + step] = after.get(x + step, Fraction(0)) + chance * share
            sums = after
        accepted = {t.least + k: Fraction(int(a), int(ACCEPTANCE)) for k, a in enumerate(t.acceptance)}
        inside[changes] = sum((c * accepted.get(x, Fraction(0)) for x, c in sums.items()), Fraction(0))
    return inside


def exact_law(t: Trials) -> dict[tuple[bool, ...], Fraction]:
    """The probability of every change set, from the integers alone."""
    word, u = Fraction(int(WORD)), t.uniform / Fraction(int(WORD))
    out = {c: u * _uniform(t, c) for c in itertools.product([False, True], repeat=t.m)}
    for ball, low, high in zip(t.balls, [0, *t.ends], [*t.ends, 1 << 64], strict=True):
        share, inside = (1 - u) * (high - low) / word, exact_ball(ball)
        a = sum(inside.values())
        none = (1 - a) ** t.count
        for c in out:
            out[c] += share * (none * _uniform(t, c) + (1 - none) * inside[c] / a)
    return out


def _uniform(t: Trials, changes: tuple[bool, ...]) -> Fraction:
    out = Fraction(1)
    for r, moves in zip(t.sizes.tolist(), changes, strict=True):
        out *= Fraction(r - 1, r) if moves else Fraction(1, r)
    return out


@pytest.mark.parametrize("seed", range(40))
def test_no_label_is_below_the_exact_law(seed: int) -> None:
    rng = np.random.default_rng(seed)
    t = random_trials(rng, int(rng.integers(1, 7)))
    law = exact_law(t)
    assert sum(law.values()) == 1
    densities = [p / _uniform(t, c) for c, p in law.items()]
    with mp.workdps(40):
        exact = mp.log(mp.mpf(max(densities).numerator) / max(densities).denominator) - mp.log(
            mp.mpf(min(densities).numerator) / min(densities).denominator
        )
    made = DeployedTrials.of(Domain.of({f"a{i}": int(r) for i, r in enumerate(t.sizes)}), t, "0" * 64, "test")
    assert mp.mpf(made.stated.total) >= exact
    flips = [float(sum(p for c, p in law.items() if c[i])) for i in range(t.m)]
    assert t.flips[1] == pytest.approx(flips, rel=1e-11)
    table = np.array([float(law[c]) for c in itertools.product([False, True], repeat=t.m)]).reshape((2,) * t.m)
    assert t.changes(range(t.m)) == pytest.approx(table, abs=1e-13)
    own = np.log((t.sizes - 1) * (1 - np.array(flips)) / flips)
    assert [float(x) for x in made.stated.attributes] == pytest.approx(own, abs=1e-9)
    assert DeployedTrials.read(made.to_bytes()).to_bytes() == made.to_bytes()


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
        densities = [p / _uniform(t, c) for c, p in exact_law(t).items()]
        with mp.workdps(40):
            exact = mp.log(mp.mpf(max(densities).numerator) / max(densities).denominator)
            exact -= mp.log(mp.mpf(min(densities).numerator) / min(densities).denominator)
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
