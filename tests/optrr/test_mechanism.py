"""Mechanisms: what they say of themselves against whole matrices, and what they draw against those matrices."""

import tracemalloc

import naive
import numpy as np
import pytest

from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.mechanisms import mechanism as module
from optrr.mechanisms.mechanism import Mechanism
from optrr_solvers.laws import BlockLaw, CountLaw, ProductLaw, TableLaw

# How often a test of this file that compares frequencies would fail by chance; seeds are fixed besides.
FALSE_ALARM = 1e-6

DOMAIN = Domain.of({"a": 2, "b": ["x", "y", "z"], "c": [None, True, False], "d": 2})


def _table_law(sizes, seed=3):
    return TableLaw(np.asarray(sizes), np.random.default_rng(seed).uniform(0, 2, 1 << len(sizes)))


def _laws():
    sizes = DOMAIN.sizes
    alike = CountLaw(sizes, [np.array([0, 3]), np.array([1, 2])], np.random.default_rng(5).uniform(0, 2, (3, 3)))
    blocks = BlockLaw([((0, 2), _table_law(sizes[[0, 2]])), ((3, 1), _table_law(sizes[[3, 1]], seed=4))])
    return [ProductLaw(sizes, np.array([0.5, 1.0, 2.0, 0.1])), _table_law(sizes), alike, blocks]


@pytest.fixture(params=_laws(), ids=lambda law: type(law).__name__)
def mechanism(request):
    return Mechanism(DOMAIN, request.param)


def _dense(mechanism):
    sizes = mechanism.domain.sizes.tolist()
    return naive.matrix(sizes, naive.density(mechanism.law))


def test_matrix_agrees_with_its_definition(mechanism):
    dense = _dense(mechanism)
    assert np.allclose(mechanism.matrix(), dense, rtol=1e-12, atol=0)
    assert np.allclose(mechanism.matrix().sum(axis=1), 1, atol=1e-12)
    for names in (["c"], ["b", "d"], ["d", "b"], ["c", "a", "b"]):
        chosen = DOMAIN.indices(names)
        merged = naive.marginal_matrix(DOMAIN.sizes.tolist(), dense, chosen)
        assert np.allclose(mechanism.matrix(names), merged, rtol=1e-11, atol=0)


def test_label_agrees_with_the_matrix(mechanism):
    dense = _dense(mechanism)
    assert mechanism.epsilon == pytest.approx(naive.ldp_epsilon(dense), abs=1e-12)
    assert mechanism.epsilon >= naive.ldp_epsilon(dense) - 1e-13
    for i, conditional in enumerate(mechanism.conditional_epsilons):
        assert conditional == pytest.approx(naive.conditional_epsilon(DOMAIN.sizes.tolist(), dense, i), abs=1e-12)
        alone = naive.marginal_matrix(DOMAIN.sizes.tolist(), dense, [i])
        assert mechanism.attribute_epsilons[i] == pytest.approx(np.log(alone[0, 0] / alone[0, 1]), abs=1e-11)


def test_eigenvalues_are_those_of_the_matrix(mechanism):
    """The matrix over b, d has the eigenvalue λ_W with multiplicity Π_{i∈W} (r_i−1)."""
    values = mechanism.eigenvalues(["b", "d"])
    expected = np.repeat(values.ravel(), [1, 1, 2, 2])
    eigenvalues = np.linalg.eigvalsh(mechanism.matrix(["b", "d"]))
    assert np.allclose(np.sort(eigenvalues), np.sort(expected), atol=1e-12)


def test_a_large_matrix_is_refused():
    domain = Domain.of({"a": 65, "b": 64})
    with pytest.raises(InvalidInput, match="over 4160 cells"):
        Mechanism(domain, ProductLaw(domain.sizes, np.ones(2))).matrix()


def test_the_law_must_fit_the_domain():
    with pytest.raises(InvalidInput, match=r"sizes 2, 3, 3 and the domain has 4 of sizes 2, 3, 3, 2"):
        Mechanism(DOMAIN, ProductLaw(np.array([2, 3, 3]), np.ones(3)))


@pytest.mark.parametrize("seed", [1, None], ids=["seeded", "system"])
def test_draws_follow_the_matrix(mechanism, seed):
    """100,000 outputs of one record against its row of the matrix, built independently."""
    record, sizes = np.array([1, 2, 0, 1]), tuple(DOMAIN.sizes)
    out = mechanism.perturb_codes(np.tile(record, (100_000, 1)), seed)
    row = _dense(mechanism)[np.ravel_multi_index(record, sizes)]
    assert naive.fit_p_value(np.ravel_multi_index(out.T, sizes), row) > FALSE_ALARM


def test_chunks_are_independent(monkeypatch):
    """With chunks of 64 records every chunk draws afresh: 256 fair bits repeat with chance 2^-256."""
    monkeypatch.setattr(module, "_CELLS", 1)
    domain = Domain.of(dict.fromkeys("abcd", 2))
    mechanism = Mechanism(domain, ProductLaw(domain.sizes, np.full(4, 1e-9)))
    out = mechanism.perturb_codes(np.zeros((640, 4), dtype=np.int8), 7)
    chunks = {piece.tobytes() for piece in np.split(out, 10)}
    assert len(chunks) == 10
    # 2560 fair bits: six standard deviations, false alarm 2e-9
    assert abs(out.mean() - 0.5) < 6 * 0.5 / np.sqrt(out.size)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64])
def test_codes_keep_their_type_and_the_input_is_left_alone(dtype):
    domain = Domain.of({"a": 128, "b": 3})
    codes = np.stack([np.arange(1000) % 128, np.arange(1000) % 3], axis=1).astype(dtype)
    before = codes.copy()
    mechanism = Mechanism(domain, ProductLaw(domain.sizes, np.zeros(2)))
    out = mechanism.perturb_codes(codes, 3)
    assert out.dtype == dtype
    assert np.array_equal(codes, before)
    assert out.min() == 0
    assert out.max(axis=0).tolist() == [127, 2]
    assert np.array_equal(out, mechanism.perturb_codes(codes, 3))
    # 1000 records, three categories or more each: all alike twice has chance below 3^-1000
    assert not np.array_equal(mechanism.perturb_codes(codes), mechanism.perturb_codes(codes))


def test_all_256_codes_of_a_byte():
    """Adding 1..255 to a code must not wrap where the byte does."""
    domain = Domain.of({"a": 256})
    mechanism = Mechanism(domain, ProductLaw(domain.sizes, np.zeros(1)))
    out = mechanism.perturb_codes(np.full((256 * 400, 1), 255, dtype=np.uint8), 5)
    assert naive.fit_p_value(out[:, 0], np.ones(256)) > FALSE_ALARM


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (np.zeros((3, 4)), "type float64 is not codes"),
        (np.zeros((3, 3), dtype=int), r"shape \(3, 3\).*shape \(n, 4\)"),
        (np.zeros(4, dtype=int), r"shape \(4,\)"),
        (np.zeros((0, 4), dtype=int), "no records"),
        (
            np.array([[0, 0, 0, 0], [0, 3, 0, 0]]),
            "attribute 'b' has a code outside its categories in record 2; its codes are 0..2",
        ),
        (np.array([[0, 0, 0, -1]]), "attribute 'd' has a code outside its categories in record 1; its codes are 0..1"),
    ],
)
def test_bad_codes(codes, message):
    with pytest.raises(InvalidInput, match=message):
        Mechanism(DOMAIN, ProductLaw(DOMAIN.sizes, np.ones(4))).perturb_codes(codes)


def test_memory_is_the_result_and_a_bounded_rest():
    """Four million cells at a time: 16 million need their 16 MB, and less than 200 MB beside, as 64 million would."""
    domain = Domain.of({f"a{i}": 3 for i in range(8)})
    mechanism = Mechanism(domain, _table_law(domain.sizes))
    codes = np.zeros((2_000_000, 8), dtype=np.int8)
    tracemalloc.start()
    try:
        mechanism.perturb_codes(codes, 1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < codes.nbytes + 200e6
