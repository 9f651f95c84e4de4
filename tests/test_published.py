"""Errors of published ways of asking, as the benchmarks predict them, against enumeration of all answers."""

import math
from itertools import combinations, product

import numpy as np
import public_optimiser
import published
import pytest

from optrr_solvers.allocating.any_mechanism import error_bound
from optrr_solvers.allocating.mixture import mixture


@pytest.mark.parametrize("total", [0.5, 2.0, 5.0])
@pytest.mark.parametrize("sizes", [(2, 2), (3, 2)])
def test_groups_of_one_view_by_every_answer(sizes, total):
    count = math.prod(sizes)
    covariances = []
    # optimised unary encoding: every set of bits, for every true cell
    p, q = 0.5, 1 / (math.exp(total) + 1)
    bits = np.array(list(product((0, 1), repeat=count)))
    second = np.zeros((count, count))
    for true in range(count):
        chances = np.where(np.arange(count) == true, p, q)
        likelihood = np.prod(np.where(bits == 1, chances, 1 - chances), axis=1)
        support = (bits - q) / (p - q)
        second += (support * likelihood[:, None]).T @ support / count
    covariances.append(second - np.full((count, count), count**-2.0))
    # randomized response
    keep = math.exp(total) / (math.exp(total) + count - 1)
    flip = (1 - keep) / (count - 1)
    support = (np.eye(count) - flip) / (keep - flip)
    covariances.append(support.T @ support / count - np.full((count, count), count**-2.0))
    # what varies in the direction that sums to 1 is known without asking
    apart = np.eye(count) - 1 / count
    expected = min(float(np.trace(apart @ c)) for c in covariances)
    assert published.groups(published.wanted(sizes, 2), total, [(0, 1)]) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("total", [0.5, 3.0])
def test_parities_by_every_mask_and_cell(total):
    sizes = (3, 2, 5)
    bits = [math.ceil(math.log2(r)) for r in sizes]
    # who stands for which cell, and every mask over the bits of one or two attributes
    masks = {
        mask
        for pair in combinations(range(3), 2)
        for mask in product(*(range(1 << b if i in pair else 1) for i, b in enumerate(bits)))
        if any(mask)
    }
    keep = math.exp(total) / (1 + math.exp(total))
    scale = 2 * keep - 1

    def sign(mask: tuple[int, ...], cell: tuple[int, ...]) -> int:
        return (-1) ** sum((c & v).bit_count() for c, v in zip(mask, cell, strict=True))

    people = list(product(*map(range, sizes)))
    variance = {}
    for mask in masks:
        mean = sum(sign(mask, cell) for cell in people) / len(people)
        up = sum(keep if sign(mask, cell) > 0 else 1 - keep for cell in people) / len(people)
        assert (2 * up - 1) / scale == pytest.approx(mean, abs=1e-12)
        variance[mask] = len(masks) * ((1 / scale**2) - mean**2)
    expected = 0.0
    for pair in combinations(range(3), 2):
        inside = [m for m in masks if all(m[i] == 0 for i in range(3) if i not in pair)]
        padded = math.prod(1 << bits[i] for i in pair)
        for _ in product(*(range(sizes[i]) for i in pair)):
            expected += sum(variance[m] for m in inside) / padded**2
    assert published.parity(published.wanted(sizes, 2), total) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("total", [0.5, 2.0, 8.0])
@pytest.mark.parametrize(("sizes", "width"), [((2, 3, 2), 2), ((3, 4), 1)])
def test_a_mixture_s_error_is_that_of_its_matrix(sizes, width, total):
    # the way a public optimiser counts errors, from all of Q(y|x), is the way that mixtures' errors are counted
    workload = published.wanted(sizes, width)
    mixed = mixture(workload, total)
    strategy = public_optimiser.strategy_of(workload, mixed, total)
    assert strategy.sum(axis=0) == pytest.approx(1)
    assert (strategy.max(axis=1) / strategy.min(axis=1)).max() <= math.exp(total) * (1 + 1e-12)
    error = public_optimiser.strategy_error(strategy, public_optimiser.queries(workload))
    assert error == pytest.approx(mixed.error, rel=1e-9)
    assert error >= error_bound(workload, total)


def test_covering_views_hold_every_pair():
    for m, size in [(3, 3), (7, 3), (9, 4), (4, 5)]:
        held = {pair for view in published.covering(m, size) for pair in combinations(view, 2)}
        assert held == set(combinations(range(m), 2))
