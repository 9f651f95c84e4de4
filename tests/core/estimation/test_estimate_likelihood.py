"""Likeliest tables and mixture weights against generic optimisers; adjustment of records to margins."""

import cvxpy
import numpy as np
import pytest
from scipy.optimize import nnls

from optrr import Constraints, Domain, design
from optrr.core.estimation import likelihood
from optrr.core.estimation.adjustment import adjust, adjust_once
from optrr.core.estimation.likelihood import closed_form, ibu, likeliest_weights, log_likelihood, nonnegative_minimum
from optrr.core.mechanisms.kernel import MatrixKernel

SHAPES = [(7,), (2, 2), (3, 2), (6, 3), (4, 3, 2)]


def observed_case(sizes, seed, kind="pairs"):
    rng = np.random.default_rng(seed)
    names = [f"a{i}" for i in range(len(sizes))]
    wish = {"constraints": Constraints(preserve="pairs")} if kind == "pairs" else {"method": "kronecker"}
    made = design(dict(zip(names, sizes, strict=True)), float(rng.uniform(0.5, 2)), **wish).mechanism
    kernel = made.kernel(names)
    pi = rng.dirichlet(np.full(kernel.cells, 0.3)).reshape(sizes)
    n = int(10 ** rng.uniform(2, 5))
    return rng.multinomial(n, kernel.expected(pi).ravel()).reshape(sizes) / n, kernel, n


def generic_optimum(observed, kernel):
    """Highest ℓ by an interior-point solver on the dense matrix, in nats per record."""
    pi = cvxpy.Variable(kernel.cells, nonneg=True)
    seen = observed.ravel() > 0
    logs = cvxpy.log(kernel.matrix().T[seen] @ pi)
    problem = cvxpy.Problem(cvxpy.Maximize(observed.ravel()[seen] @ logs), [cvxpy.sum(pi) == 1])
    problem.solve("CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    inside = np.maximum(pi.value, 0)
    return log_likelihood((inside / inside.sum()).reshape(kernel.sizes), observed, kernel)


@pytest.mark.parametrize("sizes", SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_ibu_reaches_the_generic_optimum(sizes, seed):
    observed, kernel, n = observed_case(sizes, seed)
    fit = ibu(observed, kernel, n=n)
    assert fit.convergence.converged and fit.convergence.value <= 1e-12
    assert fit.proportions.min() >= 0 and fit.proportions.sum() == pytest.approx(1)
    reached = log_likelihood(fit.proportions, observed, kernel)
    # 1e-8 nats over all records, at up to 10^5 of them, is near what doubles can tell
    assert n * (generic_optimum(observed, kernel) - reached) <= 1e-8
    assert fit.convergence.log_likelihood == pytest.approx(n * reached)
    # nothing near it is better: moves towards every corner
    corners = np.eye(kernel.cells).reshape(-1, *sizes)
    for corner in corners:
        assert log_likelihood(0.999 * fit.proportions + 0.001 * corner, observed, kernel) <= reached + 1e-12


@pytest.mark.parametrize("seed", range(6))
def test_the_closed_form_is_the_optimum_of_one_attribute(seed):
    observed, kernel, _ = observed_case((7,), seed, "kronecker")
    exact = closed_form(observed, float(kernel.cell_probabilities[1]))
    np.testing.assert_allclose(exact, ibu(observed, kernel, tolerance=1e-12).proportions, atol=1e-7)
    assert log_likelihood(exact, observed, kernel) >= generic_optimum(observed, kernel) - 1e-10
    raw = kernel.solve(observed)
    if raw.min() >= 0:
        np.testing.assert_allclose(exact, raw, atol=1e-12)


def test_the_closed_form_has_cells_at_zero():
    made = design({"a": 5}, 1.0).mechanism
    kernel = made.kernel("a")
    observed = np.array([0.55, 0.3, 0.15, 0.0, 0.0])
    assert np.count_nonzero(closed_form(observed, float(kernel.cell_probabilities[1])) == 0) == 3


def test_a_general_matrix():
    rng = np.random.default_rng(4)
    p = 0.6 * np.eye(9) + 0.4 * rng.dirichlet(np.ones(9), 9)
    kernel = MatrixKernel(p)
    observed = rng.multinomial(5000, rng.dirichlet(np.full(9, 0.3)) @ p) / 5000
    assert (
        log_likelihood(ibu(observed, kernel).proportions, observed, kernel) >= generic_optimum(observed, kernel) - 1e-8
    )


def test_joints_too_large_for_newton_are_left_to_updates(monkeypatch):
    monkeypatch.setattr(likelihood, "MAX_NEWTON", 1)
    observed, kernel, n = observed_case((6, 3), 5, "kronecker")
    fit = ibu(observed, kernel, tolerance=1e-5, max_iterations=3000, n=n)
    assert fit.convergence.converged
    assert log_likelihood(fit.proportions, observed, kernel) >= generic_optimum(observed, kernel) - 1e-5
    assert ibu(observed, kernel, tolerance=1e-12, max_iterations=120, n=n).convergence.iterations <= 140
    stopped = ibu(observed, kernel, tolerance=1e-12, max_iterations=6, n=n)
    assert not stopped.convergence.converged and stopped.convergence.value > 1e-12


@pytest.mark.parametrize("sizes", [(6, 3), (4, 3, 2), (9, 16), (5, 5, 5)])
@pytest.mark.parametrize("seed", range(3))
def test_large_joints_are_finished_on_their_support(monkeypatch, sizes, seed):
    monkeypatch.setattr(likelihood, "MAX_NEWTON", 1)
    observed, kernel, n = observed_case(sizes, 20 + seed)
    fit = ibu(observed, kernel, tolerance=1e-9, max_iterations=2000, n=n)
    assert fit.convergence.converged and fit.proportions.min() >= 0
    assert log_likelihood(fit.proportions, observed, kernel) >= generic_optimum(observed, kernel) - 1e-9


def with_shares(codes):
    """Distinct records, and their shares."""
    rows, counts = np.unique(codes, axis=0, return_counts=True)
    return rows, counts / len(codes)


EXAMPLE = np.array([[0, 0]] * 4 + [[1, 0]] * 2 + [[1, 1]] * 4)


def test_mdr_example_1():
    """MDR §5, Example 1: 1/8 and 1/12 after the first attribute, then (2/3, 1/3); in the limit 1/2, 0, 0, 1/2."""
    rows, shares = with_shares(EXAMPLE)
    assert rows.tolist() == [[0, 0], [1, 0], [1, 1]]
    np.testing.assert_allclose(shares, [0.4, 0.2, 0.4])
    half = np.array([0.5, 0.5])
    first = adjust_once(shares, rows[:, 0], half)
    np.testing.assert_allclose(first / [4, 2, 4], [1 / 8, 1 / 12, 1 / 12], atol=1e-16)
    np.testing.assert_allclose(np.bincount(rows[:, 1], weights=first), [2 / 3, 1 / 3], atol=1e-16)
    adjusted = adjust(rows, shares, [half, half])
    np.testing.assert_array_equal(adjusted.weights, [0.5, 0.0, 0.5])
    assert adjusted.convergence.converged and adjusted.forced == 1
    assert adjusted.weights[rows[:, 0] == 1].sum() == 0.5


def slow_adjustment(codes, margins, rounds):
    """Algorithm 2 as printed: a weight for each of the n rows."""
    w = np.full(len(codes), 1 / len(codes))
    for _ in range(rounds):
        for j, target in enumerate(margins):
            s = [w[codes[:, j] == k].sum() for k in range(len(target))]
            w = np.array([w[i] * target[codes[i, j]] / s[codes[i, j]] for i in range(len(codes))])
    return w


def test_distinct_records_give_the_weights_of_the_rows():
    rng = np.random.default_rng(2)
    codes = rng.integers(0, [3, 2, 4], size=(200, 3))
    margins = [rng.dirichlet(np.full(r, 5.0)) for r in (3, 2, 4)]
    rows, shares = with_shares(codes)
    adjusted = adjust(rows, shares, margins)
    by_row = slow_adjustment(codes, margins, 200)
    at = [int(np.flatnonzero((rows == c).all(axis=1))[0]) for c in codes]
    np.testing.assert_allclose(np.bincount(at, weights=by_row), adjusted.weights, atol=1e-9)
    assert adjusted.convergence.converged and adjusted.forced == 0


def test_groups_of_attributes_are_adjusted_together():
    rng = np.random.default_rng(3)
    rows, shares = with_shares(rng.integers(0, [3, 2, 4], size=(500, 3)))
    pair = rng.dirichlet(np.full(12, 5.0)).reshape(3, 4)
    adjusted = adjust(rows, shares, [pair, [0.3, 0.7]], groups=[(0, 2), (1,)])
    reached = np.zeros((3, 4))
    np.add.at(reached, (rows[:, 0], rows[:, 2]), adjusted.weights)
    np.testing.assert_allclose(reached, pair, atol=1e-8)


def test_margins_that_no_weights_have_are_reported():
    adjusted = adjust([[0, 0], [1, 1]], [0.5, 0.5], [[0.5, 0.5], [0.2, 0.8]], max_rounds=300)
    assert not adjusted.convergence.converged and adjusted.convergence.value > 0.1


def test_adjustment_leaves_associations_weakened():
    """What its bias statement says: with all records there are, the joint is not the true one."""
    made = design(Domain.of({"a": 2, "b": 2}), 1.0, method="kronecker").mechanism
    kernel = made.kernel(("a", "b"))
    truth = np.array([[0.4, 0.1], [0.1, 0.4]])
    seen = kernel.forward(truth)
    margins = [made.kernel(name).solve(seen.sum(axis=1 - k)) for k, name in enumerate("ab")]
    adjusted = adjust(np.argwhere(seen > 0), seen.ravel(), margins).weights.reshape(2, 2)
    assert adjusted[0, 0] == pytest.approx(seen[0, 0]) and adjusted[0, 0] < 0.33


def cases(seed, batch, k, outputs):
    rng = np.random.default_rng(seed)
    components = rng.dirichlet(np.full(outputs, 0.7), (batch, k))
    truth = rng.dirichlet(np.full(k, 0.3), batch)
    observed = np.stack([rng.multinomial(300, t @ m) / 300 for t, m in zip(truth, components, strict=True)])
    return observed, components


def reached(weights, observed, components):
    seen = observed > 0
    return float(observed[seen] @ np.log((weights @ components)[seen]))


@pytest.mark.parametrize("shape", [(3, 6), (6, 6), (18, 18), (5, 30)])
def test_the_generic_optimum(shape):
    k, outputs = shape
    observed, components = cases(k, 12, k, outputs)
    weights, bound, _ = likeliest_weights(observed, components, np.full((12, k), 1 / k), 1e-12)
    assert bound.max() <= 1e-12 and weights.min() >= 0
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert np.count_nonzero(weights == 0) > 2
    for lam, m, x in zip(observed, components, weights, strict=True):
        pi, seen = cvxpy.Variable(k, nonneg=True), lam > 0
        goal = cvxpy.Maximize(lam[seen] @ cvxpy.log(m.T[seen] @ pi))
        best = cvxpy.Problem(goal, [cvxpy.sum(pi) == 1]).solve("CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11)
        assert reached(x, lam, m) >= best - 1e-9


def test_components_that_look_alike():
    """The weights are not identified, the likelihood is."""
    observed, components = cases(1, 5, 4, 6)
    doubled = np.concatenate([components, components], axis=1)
    alone, _, _ = likeliest_weights(observed, components, np.full((5, 4), 1 / 4), 1e-12)
    both, bound, _ = likeliest_weights(observed, doubled, np.full((5, 8), 1 / 8), 1e-12)
    assert bound.max() <= 1e-12
    for b in range(5):
        assert reached(both[b], observed[b], doubled[b]) == pytest.approx(
            reached(alone[b], observed[b], components[b]), abs=1e-11
        )


@pytest.mark.parametrize("rounds", [25, 0])
def test_nonnegative_minima_against_lawson_and_hanson(monkeypatch, rounds):
    """Also where pivoting is cut short, and the library's method takes over."""
    monkeypatch.setattr(likelihood, "_ROUNDS", rounds)
    rng = np.random.default_rng(3)
    root, target = rng.normal(size=(40, 9, 7)), rng.normal(size=(40, 9))
    hessian = np.swapaxes(root, 1, 2) @ root
    linear = np.einsum("zrk,zr->zk", root, target)
    minima, passive = nonnegative_minimum(hessian, linear, np.ones((40, 7), dtype=bool))
    best = np.stack([nnls(a, t)[0] for a, t in zip(root, target, strict=True)])
    np.testing.assert_allclose(minima, best, atol=1e-10)
    np.testing.assert_array_equal(passive, best > 0)
