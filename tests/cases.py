"""Design problems that several tests share: random specifications and published ones."""

from collections.abc import Iterable, Iterator
from itertools import combinations, product

import numpy as np

from optrr_solvers import Problem

# Adult's nine categorical attributes.
ADULT = (9, 16, 7, 15, 6, 5, 2, 42, 2)


def all_pairs(m: int) -> tuple[tuple[int, int], ...]:
    return tuple(combinations(range(m), 2))


def spread(*lists: Iterable[object], every: int) -> list[tuple[object, ...]]:
    """One in ``every`` of all combinations of the lists' entries, as cases of a test.

    Where no list is shorter than ``every``, those taken hold every entry; of three lists, every pair of entries too.
    """
    kept = [list(entries) for entries in lists]
    return [
        tuple(entries[k] for entries, k in zip(kept, at, strict=True))
        for at in product(*(range(len(entries)) for entries in kept))
        if sum(at) % every == 0
    ]


def single_classes(m: int) -> tuple[tuple[int, ...], ...]:
    """Every attribute a class of its own, as certificates write classes."""
    return tuple((i,) for i in range(m))


def random_problems(count: int, seed: int, most: int = 10) -> Iterator[Problem]:
    """m in 2..most, r in 2..8, ε log-uniform in 0.01..8; in a third of them r and ε near 8, so that totals pass 25."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        m = int(rng.integers(2, most + 1))
        least, low = (7, 7.0) if k % 3 == 0 else (2, 0.01)
        yield Problem(rng.integers(least, 9, m), np.exp(rng.uniform(np.log(low), np.log(8), m)))


def extreme_problem(number: int, most: int) -> Problem:
    """m log-uniform in 2..most; ε in turn log-uniform in 0.005..50, three heavy among light ones, or near seven levels."""
    rng = np.random.default_rng([17, number])
    m = round(float(np.exp(rng.uniform(np.log(2), np.log(most)))))
    epsilons = np.exp(rng.uniform(np.log(0.005), np.log(50), m))
    if number % 3 == 1:
        epsilons = np.where(np.arange(m) < 3, np.maximum(epsilons, 5), np.minimum(epsilons, 0.2))
    elif number % 3 == 2:
        epsilons = rng.choice([0.005, 0.02, 0.1, 1, 5, 20, 50], m) * rng.uniform(0.8, 1, m)
    return Problem(rng.integers(2, 11, m), epsilons)


# (problem, total ε to four decimals, source)
PUBLISHED = [
    (Problem([2] * 3, [0.5] * 3), 1.0717),
    (Problem([2] * 3, [0.5] * 3, pairs=all_pairs(3)), 1.1439),
    (Problem(ADULT, [0.349] * 9), 0.9986),
    (Problem(ADULT, [0.349] * 9, pairs=all_pairs(9)), 1.0969),
    (Problem(ADULT, [1.25] * 9), 3.9624),
    (Problem(ADULT, [1.25] * 9, pairs=all_pairs(9)), 4.5109),
    (Problem([9, 9], [0.5, 0.5]), 0.5846),
    (Problem([9, 9], [0.5, 0.5], pairs=((0, 1),)), 1.0),
]


# What every solver of the table is run on: small enough for a program over every change set.
SOLVER_CASES: dict[str, Problem] = {
    "two": Problem([2, 5], [1.0, 0.7]),
    "alike": Problem([3] * 5, [0.8] * 5),
    "different": Problem([2, 3, 4, 5], [1.0, 0.5, 1.5, 0.2]),
    "heavy and light": Problem([2, 3, 2, 4], [9.0, 0.02, 0.05, 0.01]),
    "few classes": Problem([2, 2, 2, 5, 5], [0.5, 0.5, 0.5, 1.5, 1.5]),
    "pairs": Problem([2, 3, 4], [1.0, 0.5, 1.5], pairs=all_pairs(3)),
    "one pair": Problem([2, 3, 4, 2], [1.0, 0.5, 1.5, 0.3], pairs=((0, 2),)),
    "caps": Problem([2, 3, 4], [1.0, 0.5, 1.5], caps=[1.2, np.inf, 1.8]),
    "pairs and caps": Problem([2, 3, 4], [1.0, 0.5, 1.5], pairs=((1, 2),), caps=[1.4, 1.0, 1.8]),
}
