"""Design problems that several tests share: random specifications and published ones."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from optrr_solvers import Problem

# Adult's nine categorical attributes.
ADULT = (9, 16, 7, 15, 6, 5, 2, 42, 2)


def all_pairs(m: int) -> tuple[tuple[int, int], ...]:
    return tuple(combinations(range(m), 2))


def random_problems(count: int, seed: int, most: int = 10) -> Iterator[Problem]:
    """m in 2..most, r in 2..8, ε log-uniform in 0.01..8; in a third of them r and ε near 8, so that totals pass 25."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        m = int(rng.integers(2, most + 1))
        least, low = (7, 7.0) if k % 3 == 0 else (2, 0.01)
        yield Problem(rng.integers(least, 9, m), np.exp(rng.uniform(np.log(low), np.log(8), m)))


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
