"""Bounds with pair multipliers of rank one against their definition, change set by change set in rationals."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from optrr_solvers.certificates.certificate import Certificate, InvalidCertificate, lower_bound
from optrr_solvers.enclosure import FLIP_BITS, flip_ceiling
from optrr_solvers.problem import Problem


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
        (replace(good, effects=(1, 1)), "one for every class"),
        (replace(good, effects=(1, -1, 0)), "at least 0"),
        (replace(good, unit=0), "at least 0"),
        (replace(good, weights=(3, -3, 3)), "negative"),
        (replace(good, pairs=((0, 1, 1),)), "neither pairs nor caps"),
        (replace(good, weights=(1 << 39, 3, 3), effects=(1 << 30, 1 << 30, 0)), "cannot be evaluated"),
    ]:
        with pytest.raises(InvalidCertificate, match=why):
            lower_bound(problem, bad)
