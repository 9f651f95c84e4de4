"""One small law of every kind, from fixed seeds: what the test vectors are made of."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from optrr_solvers import Problem, solve
from optrr_solvers.laws import (
    BallLaw,
    BlockLaw,
    CountLaw,
    FewChangesLaw,
    Law,
    MixedBall,
    ProductLaw,
    TableLaw,
    WeightedBall,
)
from optrr_solvers.laws.few_changes import joint_law


def product(rng: np.random.Generator) -> Law:
    """Every attribute on its own (Kronecker)."""
    return ProductLaw(np.array([2, 3, 5, 7, 300]), rng.uniform(0.2, 3, 5))


def uniform(rng: np.random.Generator) -> Law:
    """Two attributes answered at random whatever is true, one of them binary."""
    return ProductLaw(np.array([2, 4, 6, 3]), np.array([0.0, rng.uniform(1, 2), 0.0, rng.uniform(1, 2)]))


def table(rng: np.random.Generator) -> Law:
    """A table of 2^5 densities without any structure."""
    return TableLaw(rng.integers(2, 9, 5), rng.normal(0, 1, 32))


def counts(rng: np.random.Generator) -> Law:
    """How many of two groups of alike attributes change."""
    return CountLaw(np.full(8, 4), [np.arange(5), np.arange(5, 8)], rng.normal(0, 1, (6, 4)))


def few_changes(rng: np.random.Generator) -> Law:
    """None, a certain one, or several attributes change."""
    return FewChangesLaw(rng.integers(2, 6, 6), 2.5, rng.uniform(0, 1, 6).round(2))


def ball(rng: np.random.Generator) -> Law:
    """A weighted ball mixed with the uniform answer."""
    return _balls(rng, 6, 1, whole=True)


def soft_balls(rng: np.random.Generator) -> Law:
    """A choice of two balls with weights rounded at random: a choice layer and second ways to change."""
    return _balls(rng, 6, 2, whole=False)


def joint(rng: np.random.Generator) -> Law:
    """Randomized response on the product of all attributes."""
    return joint_law([3, 3, 2, 4], float(rng.uniform(1, 3)))


def blocks(rng: np.random.Generator) -> Law:
    """Three blocks whose attributes are interleaved, one of them a choice of balls."""
    first, last = TableLaw(np.array([3, 2]), rng.normal(0, 1, 4)), ProductLaw(np.array([5]), np.array([0.7]))
    return BlockLaw([([4, 0], first), ([1, 3, 5], _balls(rng, 3, 2, whole=False)), ([2], last)])


def rare(rng: np.random.Generator) -> Law:
    """Changes so rare that thresholds have more than 64 bits."""
    return ProductLaw(np.array([3, 2, 4]), np.array([50.0, 1e-6, rng.uniform(30, 40)]))


def many(rng: np.random.Generator) -> Law:
    """Forty alike attributes at their optimum."""
    del rng
    return solve(Problem(np.full(40, 4), np.full(40, 0.7)), "auto").law


def optimum(m: int) -> Callable[[np.random.Generator], Law]:
    """The optimum for m different attributes."""

    def law(rng: np.random.Generator) -> Law:
        return solve(Problem(rng.integers(2, 7, m), rng.uniform(0.2, 2, m)), "auto").law

    law.__doc__ = f"The smallest total epsilon for {m} different attribute{'s' if m > 1 else ''}."
    return law


def pairs(rng: np.random.Generator) -> Law:
    """Four different attributes with every pair kept as visible as under Kronecker."""
    kept = tuple((i, j) for i in range(4) for j in range(i + 1, 4))
    return solve(Problem(rng.integers(2, 6, 4), rng.uniform(0.5, 2, 4), pairs=kept), "auto").law


def _balls(rng: np.random.Generator, m: int, count: int, *, whole: bool) -> Law:
    def one() -> WeightedBall:
        fractions = np.zeros(m) if whole else rng.uniform(0.1, 0.9, m) * (rng.random(m) < 0.7)
        knots = np.sort(rng.choice(np.arange(-1, 25), 5, replace=False))
        return WeightedBall(rng.integers(1, 8, m), fractions, knots, np.append(np.sort(rng.random(4))[::-1], 0.0))

    shares = rng.dirichlet(np.ones(count)) * 0.7
    classes = [np.array([i]) for i in range(m)]
    return BallLaw(rng.integers(2, 6, m), classes, [MixedBall(float(p), one()) for p in shares], 2.0)


def small(rng: np.random.Generator) -> Law:
    """Two attributes, with a choice of two and a second way to change: the file that refused ones are made from."""
    soft = WeightedBall(np.array([2, 3]), np.array([0.5, 0.25]), np.array([1, 4]), np.array([0.8, 0.0]))
    hard = WeightedBall(np.array([1, 2]), np.zeros(2), np.array([1, 2]), np.array([1.0, 0.0]))
    balls = [MixedBall(0.6, soft), MixedBall(0.4, hard)]
    return BallLaw(np.array([3, 2]), [np.array([0]), np.array([1])], balls, float(rng.uniform(1, 2)))


def tried(rng: np.random.Generator) -> BallLaw:
    """Two balls over six attributes with weights rounded at random, one of them soft, drawn by rejection."""
    sizes, weights = np.array([2, 3, 5, 2, 4, 7]), rng.integers(3, 12, 6)
    ball = WeightedBall(weights, np.array([0.5, 0.0, 0.25, 0.8, 0.0, 0.3]), np.array([14, 18]), np.array([1.0, 0.0]))
    other = WeightedBall(weights[::-1].copy(), np.zeros(6), np.array([20, 21]), np.array([1.0, 0.0]))
    balls = [MixedBall(0.75, ball), MixedBall(0.25, other)]
    return BallLaw(sizes, [np.array([i]) for i in range(6)], balls, float(rng.uniform(2, 4)))


LAWS: dict[str, Callable[[np.random.Generator], Law]] = {
    "product": product,
    "uniform": uniform,
    "table": table,
    "counts": counts,
    "few-changes": few_changes,
    "ball": ball,
    "soft-balls": soft_balls,
    "small": small,
    "joint": joint,
    "blocks": blocks,
    "rare": rare,
    "many": many,
    "pairs": pairs,
    **{f"optimum-{m}": optimum(m) for m in range(1, 13)},
}


def law_of(name: str) -> Law:
    """The law of that name; always the same."""
    return LAWS[name](np.random.default_rng(zlib.crc32(name.encode())))
