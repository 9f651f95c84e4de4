"""Merged categories and near duplicates against one merge at a time and the tables that they replace."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optrr.core.domain.domain import Domain
from optrr.core.errors import InvalidInput
from optrr.core.protocols.dependence import Dependences, cramers_v
from optrr.studies import merging

CLUSTERED = Domain.of({"a": 4, "b": 5, "c": 3, "d": 2})


def test_near_duplicates_are_recomputed_from_their_representative():
    rng = np.random.default_rng(4)
    education = rng.integers(0, 5, 4000)
    years = np.where(rng.random(4000) < 0.99, education // 2, 0)
    other = rng.integers(0, 2, 4000)
    domain = Domain.of({"years": 3, "education": 5, "other": 2})
    codes = np.stack([years, education, other], axis=1)

    def table(i, j):
        out = np.zeros((domain.sizes[i], domain.sizes[j]))
        np.add.at(out, (codes[:, i], codes[:, j]), 1)
        return out

    matrix = np.eye(3)
    for i, j in combinations(range(3), 2):
        matrix[i, j] = matrix[j, i] = cramers_v(table(i, j))
    representatives = merging.drop_near_duplicates(
        domain, Dependences(domain.names, matrix), lambda a, b: table(domain.index(a), domain.index(b)), 0.95
    )
    assert representatives.kept == ("education", "other")
    assert representatives.stands_for == {"years": "education"}
    restored = representatives.restored(table(1, 2), "years", axis=0)
    # exact on the marginal, and near on the joint with the unrelated attribute
    assert restored.sum(axis=1) == pytest.approx(table(0, 2).sum(axis=1))
    assert restored == pytest.approx(table(0, 2), abs=15)
    with pytest.raises(InvalidInput, match="'other' was not dropped"):
        representatives.restored(table(1, 2), "other", 0)
    with pytest.raises(InvalidInput, match="threshold"):
        merging.drop_near_duplicates(domain, Dependences(domain.names, matrix), lambda a, b: table(0, 1), 0.0)


def test_all_identical_attributes_leave_one():
    domain = Domain.of({"a": 3, "b": 3, "c": 3})
    representatives = merging.drop_near_duplicates(
        domain, Dependences(domain.names, np.ones((3, 3))), lambda a, b: np.diag([1, 2, 0]), 0.9
    )
    assert representatives.kept == ("a",)
    # a category that nobody has gets the marginal of the other attribute
    assert representatives.conditional["b"][2] == pytest.approx([1 / 3, 2 / 3, 0])


def slowly_coarsened(sizes, weights, in_order, limit):
    """One merge at a time, looking at all parts."""
    parts = [[[c] for c in range(r)] for r in sizes]
    while math.prod(len(p) for p in parts) > limit:
        i = max(range(len(sizes)), key=lambda i: len(parts[i]))
        mass = [sum(weights[i][c] for c in part) for part in parts[i]]
        if i in in_order:
            k = min(range(len(mass) - 1), key=lambda k: mass[k] + mass[k + 1])
            first, second = k, k + 1
        else:
            first, second = sorted(sorted(range(len(mass)), key=lambda k: (mass[k], k))[:2])
        parts[i][first] = sorted(parts[i][first] + parts[i].pop(second))
    return parts


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_coarsening_is_the_slow_one(seed, equal):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 15, rng.integers(1, 4)).tolist()
    domain = Domain.of({f"a{i}": r for i, r in enumerate(sizes)})
    # whole numbers: sums are exact, so that ties are ties in any order of adding
    weights = [np.ones(r) if equal else rng.integers(0, 6, r).astype(float) for r in sizes]
    limit = int(rng.integers(2 ** len(sizes), math.prod(sizes) + 2))
    in_order = {i for i in range(len(sizes)) if rng.random() < 0.5}
    done = merging.coarsen(
        domain,
        limit,
        marginals=dict(zip(domain.names, weights, strict=True)),
        ordinal=[domain.names[i] for i in in_order],
    )
    expected = slowly_coarsened(sizes, weights, in_order, limit)
    assert done.domain.sizes.tolist() == [len(parts) for parts in expected]
    every = np.array([[c % r for r in sizes] for c in range(max(sizes))])
    for i, parts in enumerate(expected):
        assert [np.flatnonzero(done.groups[i] == g).tolist() for g in range(len(parts))] == parts
        assert done.domain.attributes[i].categories == tuple(
            " | ".join(map(str, part)) if part[1:] else part[0] for part in parts
        )
        assert done.codes(every)[:, i].tolist() == done.groups[i][every[:, i]].tolist()


@pytest.mark.slow
def test_coarsening_many_categories():
    domain = Domain.of({"zip": 40_000, "sex": 2})
    for ordinal in ((), ("zip",)):
        done = merging.coarsen(domain, 200, marginals={"zip": np.random.default_rng(4).random(40_000)}, ordinal=ordinal)
        assert done.domain.sizes.tolist() == [100, 2]
        assert np.bincount(done.groups[0]).sum() == 40_000


def test_spreading_gives_back_whole_and_even_shares():
    done = merging.coarsen(CLUSTERED, 40)
    table = np.random.default_rng(3).random([done.domain[n].size for n in ("b", "a")])
    spread = done.spread(table, ("b", "a"))
    assert spread.shape == (5, 4)
    assert spread.sum() == pytest.approx(table.sum())
    again = np.zeros_like(table)
    for b in range(5):
        for a in range(4):
            again[done.groups[1][b], done.groups[0][a]] += spread[b, a]
    assert again == pytest.approx(table)


def test_coarsening_refuses():
    with pytest.raises(InvalidInput, match="16 combinations, more than 10"):
        merging.coarsen(CLUSTERED, 10)
    with pytest.raises(InvalidInput, match="'z'"):
        merging.coarsen(CLUSTERED, 50, ordinal=("z",))
    with pytest.raises(InvalidInput, match="marginal of 'b'"):
        merging.coarsen(CLUSTERED, 50, marginals={"b": [1, 2]})
    for bad in (math.inf, math.nan, -1.0):
        with pytest.raises(InvalidInput, match="marginal of 'b'"):
            merging.coarsen(CLUSTERED, 50, marginals={"b": [bad, 1, 1, 1, 1]})
