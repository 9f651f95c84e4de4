"""Likeliest mixture weights against a generic optimiser, and nonnegative quadratic minima against a library's."""

import cvxpy
import numpy as np
import pytest
from scipy.optimize import nnls

from optrr.tables.estimation import likelihood
from optrr.tables.estimation.likelihood import likeliest_weights, nonnegative_minimum


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
