"""Lower bounds: certificates over change sets, on a grid, and with pair multipliers of rank one, against slow exact sums."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import mpmath as mp
import naive
import numpy as np
import pytest
from cases import single_classes

from optrr_solvers.certificates import certificate as certificate_module
from optrr_solvers.certificates import certificate as module
from optrr_solvers.certificates import grid_bound
from optrr_solvers.certificates.certificate import Certificate, InvalidCertificate, kl_bound, lower_bound
from optrr_solvers.certificates.grid_bound import WeightedClasses
from optrr_solvers.enclosure import FLIP_BITS, flip_ceiling
from optrr_solvers.laws import totals
from optrr_solvers.problem import Problem

# Both paths round outward by a few units in the last place of ε; this many nats covers ε up to 100.
EXACT_LOSS = 1e-13
FLOAT_LOSS = 1e-11


def random_problem(rng, kind, top=8.0):
    """A problem of 2 to 5 attributes with a certificate whose multipliers are random: a bound, seldom a tight one."""
    m = int(rng.integers(2, 6))
    sizes, epsilons = rng.integers(2, 7, m), np.exp(rng.uniform(np.log(0.05), np.log(top), m))
    classes = single_classes(m)
    if kind == "classes":
        half = max(m // 2, 1)
        sizes[:half], epsilons[:half] = sizes[0], epsilons[0]
        classes = (tuple(range(half)), *((i,) for i in range(half, m)))
    pairs = tuple((i, j) for i, j in itertools.combinations(range(m), 2)) if kind in ("pairs", "classes") else ()
    caps = epsilons + rng.uniform(0, 1, m) if kind == "caps" else None
    problem = Problem(sizes, epsilons, pairs=pairs, kappa=float(rng.uniform(0.3, 1)), caps=caps)
    return problem, random_certificate(rng, problem, classes)


def random_certificate(rng, problem, classes):
    weights = tuple(int(w) for w in rng.integers(0, 1 << 30, len(classes)))
    pairs = []
    for g, h in itertools.combinations_with_replacement(range(len(classes)), 2):
        if problem.pairs and (g != h or len(classes[g]) > 1):
            pairs.append((g, h, int(rng.integers(0, 1 << 24))))
    caps = []
    if problem.caps is not None:
        for cell in range(1 << problem.m):
            for g in range(problem.m):
                if not cell >> (problem.m - 1 - g) & 1:
                    caps += [(cell, g, up, int(rng.integers(0, 1 << 18))) for up in (True, False)]
        # c n e^η is rounded up to a whole number: multipliers of 90 bits keep that below a double's resolution
        weights, caps = tuple(w << 64 for w in weights), [(cell, g, up, c << 64) for cell, g, up, c in caps]
    return Certificate(classes, weights, tuple(pairs), tuple(caps))


KINDS = ["plain", "classes", "pairs", "caps"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_both_paths_equal_the_definition_and_round_down(kind, seed, monkeypatch):
    for path, loss in ((1, EXACT_LOSS), (2, FLOAT_LOSS)):
        problem, certificate = random_problem(np.random.default_rng([seed, path]), kind)
        if path == 2:
            monkeypatch.setattr(module, "EXACT_CELLS", 0)
            if kind == "caps":
                certificate = Certificate(certificate.classes, tuple(w >> 64 for w in certificate.weights))
        true = naive.dual_bound(problem, certificate)
        assert true - loss <= lower_bound(problem, certificate) <= true + (path == 1) * 1e-15 * (1 + true)


def test_the_paths_agree_on_a_thousand_alike_attributes(monkeypatch):
    for r, e in [(2, 0.1), (2, 20.0), (50, 3.0), (10**6, 1e-6), (10**6, 50.0)]:
        problem = Problem([r] * 1000, [e] * 1000)
        certificate = Certificate((tuple(range(1000)),), (1 << 40,))
        monkeypatch.setattr(module, "EXACT_CELLS", 1 << 12)
        exact = lower_bound(problem, certificate)
        monkeypatch.setattr(module, "EXACT_CELLS", 0)
        bound = lower_bound(problem, certificate)
        assert exact - 1e-11 * max(1, exact) <= bound <= exact


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(8))
def test_never_above_the_true_optimum(kind, seed):
    rng = np.random.default_rng([seed, 3])
    problem, certificate = random_problem(rng, kind, top=2.5)
    best = naive.optimum(problem)
    for _ in range(5):
        # the linear program is good to 1e-7 at these Q
        assert lower_bound(problem, random_certificate(rng, problem, certificate.classes)) <= best + 1e-7
    assert kl_bound(problem) <= best + 1e-7


@pytest.mark.parametrize("r", [2, 3, 1000, 10**6])
@pytest.mark.parametrize("e", [1e-6, 1e-3, 0.1, 3.0, 20.0, 50.0])
def test_kl_bound_against_60_digits(r, e):
    for m in (1, 7, 1000):
        with mp.workdps(60):
            f = mp.mpf(r - 1) / (r - 1 + mp.exp(mp.mpf(e)))
            d = mp.mpf(r - 1) / r
            true = m * (f * mp.log(f / d) + (1 - f) * mp.log((1 - f) / (1 - d)))
            bound = mp.mpf(kl_bound(Problem([r] * m, [e] * m)))
            assert bound <= true
            scale = m * (f * abs(mp.log(f / d)) + (1 - f) * mp.log((1 - f) / (1 - d)))
            assert true - bound <= 100 * 2.0**-53 * scale


def test_weights_of_very_different_size():
    problem = Problem([2, 2], [50.0, 1e-6])
    big = Certificate(single_classes(2), (1 << 200, 1))
    assert lower_bound(problem, big) == pytest.approx(50.0, abs=1e-12)
    assert lower_bound(problem, big) <= naive.dual_bound(problem, big)


PROBLEM = Problem([2, 2, 3], [0.5, 0.5, 1.0], pairs=((0, 1),), caps=np.array([np.inf, np.inf, 2.0]))
GOOD = Certificate(single_classes(3), (5, 5, 7), ((0, 1, 1),), ((0, 2, True, 1),))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"classes": ((0,), (1,))}, "must hold every attribute"),
        ({"classes": ((0,), (1,), (1,))}, "must hold every attribute"),
        ({"classes": ((0,), (1,), (2,), ()), "weights": (1, 1, 1, 1)}, "must hold every attribute"),
        ({"classes": ((0,), (1, 2)), "weights": (1, 1)}, "as alike, but they differ"),
        ({"weights": (5, 5)}, "one weight for each class"),
        ({"weights": (5, -5, 7)}, "not a whole number of at least 0"),
        ({"weights": (5, 5.0, 7)}, "not a whole number of at least 0"),
        ({"weights": (5, True, 7)}, "not a whole number of at least 0"),
        ({"pairs": ((0, 1, -1),)}, "not a whole number of at least 0"),
        ({"pairs": ((0, 2, 1),)}, "need not be preserved"),
        ({"pairs": ((0, 0, 1),)}, "need not be preserved"),
        ({"pairs": ((0, 3, 1),)}, "names a class that it does not have"),
        ({"pairs": ((-3, 1, 1),)}, "names a class that it does not have"),
        ({"caps": ((0, 2, True, -1),)}, "not a whole number of at least 0"),
        ({"caps": ((0, 0, True, 1),)}, "weighs a cap on class 0"),
        ({"caps": ((1, 2, True, 1),)}, "is not a step of class 2"),
        ({"caps": ((8, 2, True, 1),)}, "is not a step of class 2"),
        ({"caps": ((-1, 2, True, 1),)}, "is not a step of class 2"),
    ],
)
def test_tampering_is_refused(changes, words):
    assert 0 <= lower_bound(PROBLEM, GOOD) <= naive.dual_bound(PROBLEM, GOOD)
    fields = {"classes": GOOD.classes, "weights": GOOD.weights, "pairs": GOOD.pairs, "caps": GOOD.caps} | changes
    with pytest.raises(InvalidCertificate, match=words) as error:
        lower_bound(PROBLEM, Certificate(**fields))
    assert "\n" not in str(error.value)


def test_multipliers_of_a_requirement_nobody_asked_for_are_refused():
    bare = Problem([2, 2, 3], [0.5, 0.5, 1.0])
    with pytest.raises(InvalidCertificate, match="need not be preserved"):
        lower_bound(bare, Certificate(single_classes(3), (1, 1, 1), ((0, 1, 1),)))
    with pytest.raises(InvalidCertificate, match="weighs a cap on class 2"):
        lower_bound(bare, Certificate(single_classes(3), (1, 1, 1), (), ((0, 2, True, 1),)))


def test_too_large_to_add_or_to_evaluate(monkeypatch):
    m = 4200
    alike = (tuple(range(m)),)
    for weight in (1 << 60, 1 << 70):
        with pytest.raises(InvalidCertificate, match="too large to add"):
            lower_bound(Problem([2] * m, [1.0] * m), Certificate(alike, (weight,)))
    # pair values grow as (n r)²
    monkeypatch.setattr(module, "EXACT_CELLS", 0)
    pairs = tuple(itertools.combinations(range(60), 2))
    with pytest.raises(InvalidCertificate, match="too large to add"):
        kept = Problem([10**6] * 60, [1.0] * 60, pairs=pairs)
        lower_bound(kept, Certificate((tuple(range(60)),), (1,), ((0, 0, 1 << 12),)))
    with pytest.raises(InvalidCertificate, match="cells cannot be evaluated"):
        kept = Problem([2] * 22, [1.0] * 22, pairs=((0, 1),))
        lower_bound(kept, Certificate(single_classes(22), (1,) * 22, ((0, 1, 1),)))


def random_case(rng, m, largest):
    problem = Problem(rng.integers(2, 7, m), np.exp(rng.uniform(np.log(0.02), np.log(8), m)))
    weights = tuple(int(w) for w in rng.integers(1, largest, m))
    return problem, WeightedClasses.of(problem, single_classes(m), weights)


def test_sums_over_many_classes_are_rounded_outward():
    rng = np.random.default_rng(5)
    m = 1500
    problem, classes = random_case(rng, m, 1 << 60)
    threshold, mean = (
        sum(w * Fraction(x) for w, x in zip(classes.weights, each, strict=True))
        for each in (
            [
                Fraction(flip_ceiling(int(r), e), 1 << FLIP_BITS)
                for r, e in zip(problem.sizes, problem.epsilons, strict=True)
            ],
            [Fraction(int(r) - 1, int(r)) for r in problem.sizes],
        )
    )
    assert threshold <= Fraction(classes.threshold, 1 << FLIP_BITS) <= threshold * (1 + Fraction(1, 1 << 45))
    assert 0 <= mean - threshold - classes.advantage <= mean / (1 << 44)
    huge = Certificate(single_classes(m), (10**400,) * m)
    with pytest.raises(InvalidCertificate, match="scale them down"):
        lower_bound(problem, huge)


def true_bound(problem, weights):
    """ln(1 + w·(d−f)/E_μ[(w·f−X)⁺]) in 40 digits by a loop over all change sets."""
    with mp.workdps(40):
        f = [
            (int(r) - 1) / (int(r) - 1 + mp.exp(mp.mpf(float(e))))
            for r, e in zip(problem.sizes, problem.epsilons, strict=True)
        ]
        d = [1 - mp.mpf(1) / int(r) for r in problem.sizes]
        radius = sum(w * x for w, x in zip(weights, f, strict=True))
        mean = mp.mpf(0)
        for s in itertools.product((0, 1), repeat=problem.m):
            mu = mp.fprod(x if c else 1 - x for x, c in zip(d, s, strict=True))
            mean += mu * max(radius - sum(w for w, c in zip(weights, s, strict=True) if c), 0)
        return mp.log(1 + sum(w * (x - y) for w, x, y in zip(weights, d, f, strict=True)) / mean)


@pytest.mark.parametrize("exact_work", [0, 1 << 40])
@pytest.mark.parametrize("seed", range(12))
def test_bound_is_below_and_next_to_the_truth(monkeypatch, seed, exact_work):
    rng = np.random.default_rng(seed)
    problem, classes = random_case(rng, int(rng.integers(1, 9)), int(10 ** rng.uniform(0.5, 3.5)))
    monkeypatch.setattr(grid_bound, "EXACT_WORK", exact_work)
    bound, truth = grid_bound.lower_bound(classes), true_bound(problem, classes.weights)
    assert bound <= truth
    assert bound >= truth - 1e-11 * (1 + truth)


def test_the_hook_agrees_with_the_bound_over_counts(monkeypatch):
    rng = np.random.default_rng(4)
    problem = Problem(np.repeat([3, 5, 2], [6, 4, 5]), np.repeat([0.7, 1.9, 0.1], [6, 4, 5]))
    members = tuple(tuple(int(i) for i in c) for c in problem.classes)
    for _ in range(5):
        certificate = Certificate(members, tuple(int(w) for w in rng.integers(1, 4000, 3)))
        over_counts = lower_bound(problem, certificate)
        with monkeypatch.context() as patch:
            patch.setattr(certificate_module, "MAX_CELLS", 1)
            on_grid = lower_bound(problem, certificate)
        assert on_grid == pytest.approx(over_counts, abs=1e-11)


def test_dropped_mass_is_added(monkeypatch):
    """A program that drops a thousandth of the mass at every look still gives a bound."""
    rng = np.random.default_rng(5)
    _, classes = random_case(rng, 60, 300)
    monkeypatch.setattr(grid_bound, "EXACT_WORK", 0)
    fine = grid_bound.lower_bound(classes)
    monkeypatch.setattr(totals, "_DROP", 1e-6)
    coarse = grid_bound.lower_bound(classes)
    assert fine - 1e-2 < coarse < fine


def test_no_proof_is_zero_and_misuse_is_refused():
    problem = Problem(np.full(30, 2), np.linspace(0.1, 3, 30))
    assert lower_bound(problem, Certificate(single_classes(30), (0,) * 30)) == 0.0
    with pytest.raises(InvalidCertificate, match="overflow"):
        lower_bound(problem, Certificate(single_classes(30), (1 << 58,) * 30))
    paired = Problem(np.full(30, 2), np.linspace(0.1, 3, 30), pairs=((0, 1),))
    with pytest.raises(InvalidCertificate, match="pair"):
        lower_bound(paired, Certificate(single_classes(30), (1,) * 30, pairs=((0, 1, 5),)))


@pytest.mark.slow
@pytest.mark.parametrize("light", [0, 20])
def test_weights_that_would_fill_the_memory_are_refused(light):
    """Scaled by 2^20 the same direction is as good a proof, but its totals no longer fit."""
    problem = Problem(np.full(30, 3), np.linspace(0.1, 3, 30))
    weights = tuple(1 if i < light else 1000 + i for i in range(30))
    assert lower_bound(problem, Certificate(single_classes(30), weights)) > 0
    with pytest.raises(InvalidCertificate, match=r"too large to evaluate.*scale them down"):
        lower_bound(problem, Certificate(single_classes(30), tuple(w << 20 for w in weights)))


def test_a_sum_that_would_take_hours_is_refused(monkeypatch):
    problem = Problem(np.full(40, 3), np.linspace(0.1, 3, 40))
    monkeypatch.setattr(grid_bound, "MAX_WINDOW", 100_000)
    monkeypatch.setattr(totals, "_MOST_ROWS", 2)
    with pytest.raises(InvalidCertificate, match=r"steps after \d+ of 40 attributes"):
        lower_bound(problem, Certificate(single_classes(40), (3000,) * 40))


def test_advantage_is_a_lower_bound_of_the_exact_fraction():
    problem, classes = random_case(np.random.default_rng(6), 8, 1000)
    exact = sum(Fraction(int(w) * (int(r) - 1), int(r)) for w, r in zip(classes.weights, problem.sizes, strict=True))
    exact -= Fraction(classes.threshold, 1 << 192)
    assert exact - Fraction(1, 10**50) < classes.advantage <= exact


def test_frequencies_bound_every_small_case_from_above():
    """log E_μ[(K−X)⁺] by moduli is never below the exact value, even where moduli are a poor bound."""
    rng = np.random.default_rng(8)
    for _ in range(40):
        problem, classes = random_case(rng, int(rng.integers(1, 9)), int(10 ** rng.uniform(0.5, 6)))
        bound = grid_bound.modulus_log_mean_ceiling(
            classes.sizes,
            classes.counts.astype(float),
            np.array(classes.weights).astype(float),
            classes.threshold / 2.0**192,
        )
        with mp.workdps(40):
            advantage = mp.mpf(classes.advantage.numerator) / classes.advantage.denominator
            exact = advantage / mp.expm1(true_bound(problem, classes.weights))
            assert mp.log(exact) <= bound <= mp.log(exact) + 3


@pytest.mark.parametrize("m, low, high", [(3000, 0.5, 2), (3000, 1, 3), (2000, 3, 5), (3000, 1, 8)])
def test_frequencies_and_dynamic_program_agree_where_totals_spread(m, low, high):
    """Two independent ways; the blur costs 2e-4 nats, the moduli at most 1/(θσ) relative to the dynamic program."""
    rng = np.random.default_rng(m)
    problem = Problem(rng.integers(2, 9, m), rng.uniform(low, high, m))
    weights = np.round(problem.epsilons / 0.01).astype(np.int64)
    classes = WeightedClasses(problem.sizes, np.ones(m, dtype=np.int64), tuple(weights.tolist()), problem.epsilons)
    by_rows = grid_bound.log_mean_ceiling(classes, classes.threshold)
    by_moduli = grid_bound.modulus_log_mean_ceiling(
        problem.sizes, np.ones(m), weights.astype(float), classes.threshold / 2.0**192
    )
    assert 1e-4 < by_moduli - by_rows < 3e-3


@pytest.mark.slow
def test_spread_out_totals_take_weights_of_any_size(monkeypatch):
    """A million times finer, where a row of totals would not fit, and classes whose f is rounded up in doubles."""
    rng = np.random.default_rng(9)
    m = 12_000
    problem = Problem(rng.integers(2, 9, m), rng.uniform(0.5, 2, m))
    fine = Certificate(single_classes(m), tuple(int(w) for w in np.round(problem.epsilons * 1e8)))
    coarse = Certificate(single_classes(m), tuple(int(w) for w in np.round(problem.epsilons * 1e2)))
    bound = lower_bound(problem, fine)
    assert bound == pytest.approx(lower_bound(problem, coarse), abs=0.05)
    monkeypatch.setattr(grid_bound, "_ENCLOSED", 0)
    in_doubles = lower_bound(problem, fine)
    assert bound - 1e-7 <= in_doubles <= bound


@pytest.mark.parametrize("weight", [10**200, 17 * 10**307, 10**320])
def test_weights_whose_totals_are_no_doubles_are_refused(weight):
    """Of two attributes in each of many classes; each weight of 1.7e308 is a double, and no total is."""
    m = 3_000
    problem = Problem(np.full(m, 3), np.repeat(np.linspace(0.1, 0.2, m // 2), 2))
    classes = tuple((2 * k, 2 * k + 1) for k in range(m // 2))
    with pytest.raises(InvalidCertificate):
        lower_bound(problem, Certificate(classes, (weight,) * (m // 2)))


def draw(rng, m, largest=9):
    """Attributes of at most m kinds, all pairs to be kept."""
    kinds = int(rng.integers(1, m + 1))
    kind = rng.integers(0, kinds, m)
    sizes, epsilons = rng.integers(2, largest, kinds), np.exp(rng.uniform(np.log(0.02), np.log(6), kinds))
    pairs = tuple(itertools.combinations(range(m), 2))
    return Problem(sizes[kind], epsilons[kind], pairs=pairs, kappa=float(rng.uniform(0.3, 1)))


def certificate(rng, problem):
    """Whole numbers at random, with multipliers of accuracies that are not negative."""
    classes = tuple(tuple(int(i) for i in c) for c in problem.classes)
    unit, sizes = int(rng.integers(1, 50)), [int(problem.sizes[c[0]]) for c in classes]
    effects = tuple(int(x) for x in rng.integers(0, 12, len(classes)))
    weights = tuple(
        math.ceil(int(w) - Fraction(b * b * (r - 2), 2 * unit * r))
        for w, b, r in zip(rng.integers(0, 40, len(classes)), effects, sizes, strict=True)
    )
    return Certificate(classes, weights, effects=effects, unit=unit)


def by_definition(problem, c):
    """1 + (−E h)/E[h⁺] of h = Σ w_i (f_i − 1_i) + Σ b_i b_j/U ((d_i−1_i)(d_j−1_j) − κ (d_i−f_i)(d_j−f_j)), f rounded up."""
    m, sizes = problem.m, [int(r) for r in problem.sizes]
    b, w = [0] * m, [Fraction(0)] * m
    for members, total, effect in zip(c.classes, c.weights, c.effects, strict=True):
        for i in members:
            b[i] = effect
            w[i] = total + Fraction(effect**2 * (sizes[i] - 2), 2 * c.unit * sizes[i])
    f = [Fraction(flip_ceiling(r, float(e)), 1 << FLIP_BITS) for r, e in zip(sizes, problem.epsilons, strict=True)]
    d = [Fraction(r - 1, r) for r in sizes]
    mean = inside = Fraction(0)
    for changed in itertools.product((0, 1), repeat=m):
        mu = math.prod((d[i] if s else 1 - d[i] for i, s in enumerate(changed)), start=Fraction(1))
        h = sum((w[i] * (f[i] - s) for i, s in enumerate(changed)), Fraction(0))
        for i, j in itertools.combinations(range(m), 2):
            seen = (d[i] - changed[i]) * (d[j] - changed[j])
            kept = Fraction(problem.kappa) * (d[i] - f[i]) * (d[j] - f[j])
            h += Fraction(b[i] * b[j], c.unit) * (seen - kept)
        mean += mu * h
        inside += mu * max(h, Fraction(0))
    return 0.0 if mean >= 0 else math.log1p(float(-mean / inside))


def test_the_bound_is_that_of_its_definition_rounded_down():
    rng = np.random.default_rng(0)
    for _ in range(40):
        problem = draw(rng, int(rng.integers(2, 7)))
        c = certificate(rng, problem)
        if not any(c.effects):
            continue
        exact, bound = by_definition(problem, c), lower_bound(problem, c)
        assert exact - 1e-10 * (1 + exact) <= bound <= exact * (1 + 1e-15)


def test_what_proves_nothing_is_refused():
    problem = Problem(np.array([2, 3, 4]), np.full(3, 0.5), pairs=((0, 1),))
    good = Certificate(((0,), (1,), (2,)), (3, 3, 3), effects=(1, 1, 0))
    assert lower_bound(problem, good) > 0
    for bad, why in [
        (replace(good, effects=(1, 1, 1)), "need not be preserved"),
        (replace(good, effects=(1, 1)), "one for each class"),
        (replace(good, effects=(1, -1, 0)), "at least 0"),
        (replace(good, unit=0), "at least 0"),
        (replace(good, weights=(3, -3, 3)), "negative"),
        (replace(good, pairs=((0, 1, 1),)), "neither pairs nor caps"),
        (replace(good, weights=(1 << 39, 3, 3), effects=(1 << 30, 1 << 30, 0)), "cannot be evaluated"),
    ]:
        with pytest.raises(InvalidCertificate, match=why):
            lower_bound(problem, bad)
