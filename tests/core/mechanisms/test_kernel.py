"""Kernels and mechanisms against dense matrices built and inverted the plain way; draws against those matrices."""

import tracemalloc

import naive
import numpy as np
import pytest

from optrr import Constraints, Domain, InvalidInput, Mechanism, design
from optrr.core.estimation.table import Sampling
from optrr.core.mechanisms import mechanism as module
from optrr.core.mechanisms.kernel import (
    MIN_EIGENVALUE,
    EffectKernel,
    MatrixKernel,
    ProductKernel,
    SingularMarginal,
    unrandomized,
)
from optrr_solvers.laws import BlockLaw, CountLaw, ProductLaw, TableLaw

DOMAIN = Domain.of({"a": 3, "b": 2, "c": 4})
SETS = [("a",), ("b", "c"), ("c", "a"), ("a", "b", "c")]


def mechanism(kind):
    if kind == "kronecker":
        return design(DOMAIN, [1.0, 0.8, 1.5], method="kronecker").mechanism
    if kind == "pairs":
        return design(DOMAIN, [1.0, 0.8, 1.5], constraints=Constraints(preserve="pairs")).mechanism
    # any law will do: 8 arbitrary densities
    return Mechanism(DOMAIN, TableLaw(DOMAIN.sizes, np.array([3.0, 1.5, 2.2, 0.3, 1.1, 0.7, 0.2, 0.0])))


@pytest.mark.parametrize("names", SETS)
@pytest.mark.parametrize("kind", ["kronecker", "pairs", "table"])
def test_every_operation_is_the_dense_one(kind, names):
    made = mechanism(kind)
    kernel = made.kernel(names)
    p = made.matrix(names)
    q = np.linalg.inv(p.T)
    rng = np.random.default_rng(3)
    pi = rng.dirichlet(np.ones(kernel.cells)).reshape(kernel.sizes)
    lam = (p.T @ pi.ravel()).reshape(kernel.sizes)
    c = rng.normal(size=kernel.sizes)
    covariance = q @ (np.diag(lam.ravel()) - np.outer(lam, lam)) @ q.T / 99
    close = {"rtol": 1e-9, "atol": 1e-12}
    np.testing.assert_allclose(kernel.matrix(), p, **close)
    np.testing.assert_allclose(kernel.inverse(), q.T, **close)
    np.testing.assert_allclose(kernel.forward(pi), lam, **close)
    np.testing.assert_allclose(kernel.solve(lam), pi, **close)
    np.testing.assert_allclose(kernel.adjoint(c).ravel(), p @ c.ravel(), **close)
    np.testing.assert_allclose(kernel.solve_adjoint(c).ravel(), np.linalg.inv(p) @ c.ravel(), **close)
    np.testing.assert_allclose(kernel.solve_power(lam, 2).ravel(), q**2 @ lam.ravel(), **close)
    np.testing.assert_allclose(kernel.covariance(lam, 100), covariance, **close)
    np.testing.assert_allclose(kernel.variance(lam, 100).ravel(), np.diag(covariance), **close)
    np.testing.assert_allclose(kernel.range, (p.min(), p.max()), **close)
    # with the records held fixed: Σ_u π_u (diag P_u − P_u P_uᵀ), carried through the inverse
    fixed = sum(pi.ravel()[u] * (np.diag(p[u]) - np.outer(p[u], p[u])) for u in range(kernel.cells))
    np.testing.assert_allclose(kernel.data_variance(lam, 100).ravel(), np.diag(q @ fixed @ q.T) / 100, **close)
    sums = np.stack([pi.ravel(), np.ones(kernel.cells)])
    for chosen, rows in ((None, np.eye(kernel.cells)), (sums, sums)):
        noise = Sampling(kernel, 100, chosen).mechanism_noise(lam.ravel())
        np.testing.assert_allclose(noise, rows @ q @ fixed @ q.T @ rows.T / 100, **close)


def agrees_on_weights(kernel, p, close, largest=None):
    q = np.linalg.inv(p)
    largest = q.max(axis=0) if largest is None else largest
    for power in (2, 3, 4):
        own = np.broadcast_to(kernel.own_moment(power), kernel.sizes).ravel()
        np.testing.assert_allclose(own, np.diag(p @ q**power), **close)
    np.testing.assert_allclose(np.broadcast_to(kernel.largest_weights, kernel.sizes).ravel(), largest, **close)


@pytest.mark.parametrize("names", SETS)
@pytest.mark.parametrize("kind", ["kronecker", "pairs", "table"])
def test_what_reports_weigh_is_read_from_the_dense_inverse(kind, names):
    made = mechanism(kind)
    kernel, p = made.kernel(names), made.matrix(names)
    agrees_on_weights(kernel, p, {"rtol": 1e-8, "atol": 1e-10})
    if len(names) == 1:
        np.testing.assert_allclose(np.broadcast_to(kernel.own_and_other, (2,)), p[0, :2])
    else:
        assert kernel.own_and_other is None


def test_chances_of_own_reports_are_columns_of_the_matrix():
    binary = MatrixKernel([[0.8, 0.2], [0.4, 0.6]])
    np.testing.assert_allclose(binary.own_and_other, [[0.8, 0.6], [0.4, 0.2]])
    np.testing.assert_allclose(ProductKernel([binary]).own_and_other, [[0.8, 0.6], [0.4, 0.2]])
    assert MatrixKernel(np.random.default_rng(1).dirichlet(np.ones(3), 3)).own_and_other is None


def test_batches_are_the_tables_one_by_one():
    kernel = mechanism("table").kernel(("c", "a"))
    tables = np.random.default_rng(0).normal(size=(5, 2, 4, 3))
    for operation in (kernel.forward, kernel.solve, lambda table: kernel.solve_power(table, 2)):
        whole = operation(tables)
        for i in range(5):
            np.testing.assert_allclose(whole[i, 1], operation(tables[i, 1]), rtol=1e-12, atol=1e-14)


def test_products_and_matrices_agree_with_the_kronecker_product():
    rng = np.random.default_rng(1)
    left, right = rng.dirichlet(np.ones(3), 3), rng.dirichlet(np.ones(2), 2)
    middle = mechanism("table").kernel(("b", "a"))
    product = ProductKernel([MatrixKernel(left), middle, MatrixKernel(right)])
    p = np.kron(np.kron(left, mechanism("table").matrix(("b", "a"))), right)
    whole = MatrixKernel(p, product.sizes)
    assert product.sizes == (3, 2, 3, 2)
    x = rng.normal(size=(4, *product.sizes))
    for name in ("forward", "adjoint", "solve", "solve_adjoint"):
        one, other = getattr(product, name)(x), getattr(whole, name)(x)
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8 * np.abs(other).max(), err_msg=name)
    one, other = product.solve_power(x, 2), whole.solve_power(x, 2)
    np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8 * np.abs(other).max())
    np.testing.assert_allclose(product.solve_power(x, 3), whole.solve_power(x, 3), rtol=1e-7, atol=1e-3)
    each = [np.linalg.inv(x).max(axis=0) for x in (left, mechanism("table").matrix(("b", "a")), right)]
    agrees_on_weights(product, p, {"rtol": 1e-7}, np.kron(np.kron(each[0], each[1]), each[2]))
    agrees_on_weights(whole, p, {"rtol": 1e-7})
    np.testing.assert_allclose(product.matrix(), p, atol=1e-14)
    np.testing.assert_allclose(product.range, (p.min(), p.max()))


def test_a_hidden_pair_is_refused_by_name_with_the_remedy():
    hidden = design({"x": 2, "y": 2, "z": 2}, 0.5).mechanism
    kernel = hidden.kernel(("x", "z"))
    with pytest.raises(SingularMarginal, match=r"'x', 'z'.*λ = .*preserve='pairs'"):
        kernel.solve(np.full((2, 2), 0.25))
    assert not kernel.is_invertible
    # the forward direction always works, and each attribute alone can be estimated
    np.testing.assert_allclose(kernel.forward(np.full((2, 2), 0.25)), 0.25)
    assert hidden.kernel("x").is_invertible


def test_a_hidden_attribute_and_a_hidden_triple_have_their_own_remedies():
    with pytest.raises(SingularMarginal, match=r"'x'.*larger epsilon"):
        EffectKernel((2,), [1.0, MIN_EIGENVALUE / 2], ["x"]).solve([0.5, 0.5])
    law = ProductLaw(np.array([2, 2, 2]), np.full(3, 0.01))
    kernel = Mechanism(Domain.of({"x": 2, "y": 2, "z": 2}), law).kernel(("x", "y", "z"))
    with pytest.raises(SingularMarginal, match=r"'x', 'y', 'z'.*smaller sets"):
        kernel.check_invertible()


def test_expected_proportions_stay_positive_where_rounding_would_not():
    law = ProductLaw(np.array([50, 50]), np.full(2, 25.0))
    kernel = Mechanism(Domain.of({"x": 50, "y": 50}), law).kernel(("x", "y"))
    surely = np.zeros((50, 50))
    surely[0, 0] = 1
    smallest = float(np.exp(-50) / (49 * np.exp(-25) + 1) ** 2)
    assert kernel.expected(surely).min() == pytest.approx(smallest, rel=1e-9)


def test_bad_matrices_are_refused():
    with pytest.raises(InvalidInput, match="square"):
        MatrixKernel(np.ones((2, 3)))
    with pytest.raises(InvalidInput, match="sum to 1"):
        MatrixKernel([[0.9, 0.2], [0.1, 0.8]])
    with pytest.raises(InvalidInput, match="sum to 1"):
        MatrixKernel([[np.nan, 1.0], [0.5, 0.5]])
    with pytest.raises(InvalidInput, match="sizes"):
        MatrixKernel(np.eye(3), (2, 2))
    with pytest.raises(SingularMarginal, match="singular value"):
        MatrixKernel([[0.5, 0.5], [0.5, 0.5]]).solve([0.5, 0.5])


def test_an_unrandomized_attribute_passes_through():
    table = np.random.default_rng(0).dirichlet(np.ones(6)).reshape(2, 3)
    np.testing.assert_allclose(unrandomized((2, 3)).solve(table), table, atol=1e-15)


# How often a test of this file that compares frequencies would fail by chance; seeds are fixed besides.
FALSE_ALARM = 1e-6

DRAWN = Domain.of({"a": 2, "b": ["x", "y", "z"], "c": [None, True, False], "d": 2})


def _table_law(sizes, seed=3):
    return TableLaw(np.asarray(sizes), np.random.default_rng(seed).uniform(0, 2, 1 << len(sizes)))


def _laws():
    sizes = DRAWN.sizes
    alike = CountLaw(sizes, [np.array([0, 3]), np.array([1, 2])], np.random.default_rng(5).uniform(0, 2, (3, 3)))
    blocks = BlockLaw([((0, 2), _table_law(sizes[[0, 2]])), ((3, 1), _table_law(sizes[[3, 1]], seed=4))])
    return [ProductLaw(sizes, np.array([0.5, 1.0, 2.0, 0.1])), _table_law(sizes), alike, blocks]


@pytest.fixture(params=_laws(), ids=lambda law: type(law).__name__)
def randomizer(request):
    return Mechanism(DRAWN, request.param)


def _dense(randomizer):
    sizes = randomizer.domain.sizes.tolist()
    return naive.matrix(sizes, naive.density(randomizer.law))


def test_matrix_agrees_with_its_definition(randomizer):
    dense = _dense(randomizer)
    assert np.allclose(randomizer.matrix(), dense, rtol=1e-12, atol=0)
    assert np.allclose(randomizer.matrix().sum(axis=1), 1, atol=1e-12)
    for names in (["c"], ["b", "d"], ["d", "b"], ["c", "a", "b"]):
        chosen = DRAWN.indices(names)
        merged = naive.marginal_matrix(DRAWN.sizes.tolist(), dense, chosen)
        assert np.allclose(randomizer.matrix(names), merged, rtol=1e-11, atol=0)


def test_a_large_matrix_is_refused():
    domain = Domain.of({"a": 65, "b": 64})
    with pytest.raises(InvalidInput, match="over 4160 cells"):
        Mechanism(domain, ProductLaw(domain.sizes, np.ones(2))).matrix()


def test_the_law_must_fit_the_domain():
    with pytest.raises(InvalidInput, match=r"sizes 2, 3, 3, and the domain has 4 of sizes 2, 3, 3, 2"):
        Mechanism(DRAWN, ProductLaw(np.array([2, 3, 3]), np.ones(3)))


@pytest.mark.parametrize("seed", [1, None], ids=["seeded", "system"])
def test_draws_follow_the_matrix(randomizer, seed):
    """100,000 outputs of one record against its row of the matrix, built independently."""
    record, sizes = np.array([1, 2, 0, 1]), tuple(DRAWN.sizes)
    out = randomizer.randomize_codes(np.tile(record, (100_000, 1)), seed)
    row = _dense(randomizer)[np.ravel_multi_index(record, sizes)]
    assert naive.fit_p_value(np.ravel_multi_index(out.T, sizes), row) > FALSE_ALARM


def test_chunks_are_independent(monkeypatch):
    """With chunks of 64 records every chunk draws afresh: 256 fair bits repeat with chance 2^-256."""
    monkeypatch.setattr(module, "_CELLS", 1)
    domain = Domain.of(dict.fromkeys("abcd", 2))
    randomizer = Mechanism(domain, ProductLaw(domain.sizes, np.full(4, 1e-9)))
    out = randomizer.randomize_codes(np.zeros((640, 4), dtype=np.int8), 7)
    chunks = {piece.tobytes() for piece in np.split(out, 10)}
    assert len(chunks) == 10
    # 2560 fair bits: six standard deviations, false alarm 2e-9
    assert abs(out.mean() - 0.5) < 6 * 0.5 / np.sqrt(out.size)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64])
def test_codes_keep_their_type_and_the_input_is_left_alone(dtype):
    domain = Domain.of({"a": 128, "b": 3})
    codes = np.stack([np.arange(1000) % 128, np.arange(1000) % 3], axis=1).astype(dtype)
    before = codes.copy()
    randomizer = Mechanism(domain, ProductLaw(domain.sizes, np.zeros(2)))
    out = randomizer.randomize_codes(codes, 3)
    assert out.dtype == dtype
    assert np.array_equal(codes, before)
    assert out.min() == 0
    assert out.max(axis=0).tolist() == [127, 2]
    assert np.array_equal(out, randomizer.randomize_codes(codes, 3))
    # 1000 records, three categories or more each: all alike twice has chance below 3^-1000
    assert not np.array_equal(randomizer.randomize_codes(codes), randomizer.randomize_codes(codes))


def test_all_256_codes_of_a_byte():
    """Adding 1..255 to a code must not wrap where the byte does."""
    domain = Domain.of({"a": 256})
    randomizer = Mechanism(domain, ProductLaw(domain.sizes, np.zeros(1)))
    out = randomizer.randomize_codes(np.full((256 * 400, 1), 255, dtype=np.uint8), 5)
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
        Mechanism(DRAWN, ProductLaw(DRAWN.sizes, np.ones(4))).randomize_codes(codes)


def test_memory_is_the_result_and_a_bounded_rest():
    """Four million cells at a time: 16 million need their 16 MB, and less than 200 MB beside, as 64 million would."""
    domain = Domain.of({f"a{i}": 3 for i in range(8)})
    randomizer = Mechanism(domain, _table_law(domain.sizes))
    codes = np.zeros((2_000_000, 8), dtype=np.int8)
    tracemalloc.start()
    try:
        randomizer.randomize_codes(codes, 1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < codes.nbytes + 200e6


def test_worst_variance_is_the_largest_over_all_populations() -> None:
    # two categories kept with probability p: 1/(4 (2p − 1)²), at the population whose reports are even
    for keep in (0.6, 0.75, 0.9):
        kernel = MatrixKernel([[keep, 1 - keep], [1 - keep, keep]])
        assert kernel.worst_variance() == pytest.approx(1 / (4 * (2 * keep - 1) ** 2))
    kernel = design({"a": 3, "b": 2}, 1.5).mechanism.kernel(["a", "b"])
    inverse, p = np.linalg.inv(kernel.matrix()), kernel.matrix()
    variances = []
    for other in range(1, 6):
        for share in np.linspace(0, 1, 2001):
            reports = share * p[0] + (1 - share) * p[other]
            variances.append(reports @ inverse[:, 0] ** 2 - (reports @ inverse[:, 0]) ** 2)
    assert kernel.worst_variance() == pytest.approx(max(variances), rel=1e-6)
