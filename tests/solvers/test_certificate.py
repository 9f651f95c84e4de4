import itertools

import mpmath as mp
import naive
import numpy as np
import pytest
from cases import single_classes

from optrr_solvers.certificates import certificate as module
from optrr_solvers.certificates.certificate import Certificate, kl_bound, lower_bound
from optrr_solvers.errors import InvalidCertificate
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
        ({"weights": (5, 5)}, "one weight for every class"),
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
