"""The constrained likelihood ratio against generic optimisers, and its level where fits lie on the boundary."""

import cvxpy
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import binom, chi2

from optrr import Counts, Domain, InvalidInput, design
from optrr.mechanisms.kernel import MatrixKernel, unrandomized
from optrr.models.tests import simulation
from optrr.models.tests.calibration import (
    is_separable,
    likeliest_product,
    likelihood_ratios,
    near_boundary,
    padded_null,
)
from optrr.models.tests.testing import test

DOMAIN = Domain.of({"g": 3, "s": 2, "c": 4})
PAIR = DOMAIN.subset(["g", "s"])
NULL = np.outer([0.55, 0.35, 0.10], [0.7, 0.3])
EFFECT = np.array([[0.40, 0.13], [0.22, 0.12], [0.06, 0.07]])


@pytest.fixture(scope="module", params=[{"method": "kronecker"}, {}, {"preserve": "pairs"}])
def mechanism(request):
    return design(DOMAIN, [1.0, 1.0, 1.2], **request.param).mechanism


def tables(kernel, pi, n, runs, seed):
    drawn = np.random.default_rng(seed).multinomial(n, kernel.expected(pi).ravel(), size=runs)
    return drawn.reshape(runs, *kernel.sizes).astype(float)


def test_both_fits_are_the_generic_optima(mechanism):
    """Free by an interior-point method, null by a simplex search over softmax margins from several starts."""
    kernel = mechanism.kernel(("g", "s"))
    p = kernel.matrix()
    t = tables(kernel, EFFECT, 300, 6, 6)
    ratios = likelihood_ratios(t, kernel)
    for b, table in enumerate(t):
        pi = cvxpy.Variable(6, nonneg=True)
        logs = table.ravel() @ cvxpy.log(p.T @ pi)
        tight = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
        free = cvxpy.Problem(cvxpy.Maximize(logs), [cvxpy.sum(pi) == 1]).solve("CLARABEL", **tight)

        def loss(x, table=table):
            a, b = np.exp([*x[:2], 0]), np.exp([x[2], 0])
            return -table.ravel() @ np.log(p.T @ np.outer(a / a.sum(), b / b.sum()).ravel())

        options = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 9999, "maxfev": 9999}
        starts = np.random.default_rng(1).normal(size=(3, 3))
        null = -min(minimize(loss, x, method="Nelder-Mead", options=options).fun for x in starts)
        assert ratios.statistic[b] == pytest.approx(2 * (free - null), abs=1e-5)


def test_a_batch_is_its_tables_one_by_one(mechanism):
    kernel = mechanism.kernel(("g", "s"))
    t = tables(kernel, NULL, 200, 50, 3)
    together = likelihood_ratios(t, kernel)
    alone = [likelihood_ratios(x[None], kernel) for x in t]
    np.testing.assert_allclose(together.statistic, [a.statistic[0] for a in alone], atol=1e-9)
    near = [near_boundary(a.fit, t[:1].sum(axis=(1, 2)), kernel)[0] for a in alone]
    np.testing.assert_array_equal(near_boundary(together.fit, t.sum(axis=(1, 2)), kernel), near)
    np.testing.assert_allclose(together.p_value, chi2.sf(together.statistic, 2))


def test_large_batches_are_cut_into_pieces(monkeypatch):
    kernel = design({"g": 3, "s": 2}, 1.0).mechanism.kernel(("g", "s"))
    t = tables(kernel, NULL, 400, 20, 4)
    whole = likelihood_ratios(t, kernel)
    monkeypatch.setattr(simulation, "HELD", 7 * 36)
    np.testing.assert_allclose(likelihood_ratios(t, kernel).statistic, whole.statistic, atol=1e-9)


def test_the_null_fit_is_stationary_on_the_boundary(mechanism):
    """No margin can gain: the gradient in a margin is at most 1 everywhere, and 1 where the margin is positive."""
    kernel = mechanism.kernel(("g", "s"))
    sparse = np.outer([0.98, 0.02, 0.0], [0.99, 0.01])
    t = tables(kernel, sparse, 300, 30, 2) / 300
    fit = likeliest_product(t, kernel)
    assert np.count_nonzero(fit.rows < 1e-8) > 5
    ratio = kernel.adjoint(t / fit.expected)
    by_row = np.einsum("zij,zj->zi", ratio, fit.columns)
    by_column = np.einsum("zij,zi->zj", ratio, fit.rows)
    for gradient, margin in ((by_row, fit.rows), (by_column, fit.columns)):
        assert gradient.max() < 1 + 1e-8
        assert np.abs((gradient - 1)[margin > 1e-6]).max() < 1e-6


def test_the_calibration_is_said(mechanism):
    kernel = mechanism.kernel(("g", "s"))
    few, many = (Counts(PAIR, tables(kernel, NULL, n, 1, 8)[0]) for n in (300, 1_000_000))
    near = test(few, mechanism, "likelihood-ratio", random_state=1)
    assert near.calibration == ("exact" if is_separable(kernel) else "bootstrap") and 0 < near.relative_error < 0.2
    assert any("measured" in line for line in near.warnings) == (near.calibration == "bootstrap")
    again = test(few, mechanism, "likelihood-ratio", random_state=1)
    assert again.p_value == near.p_value
    clear = test(many, mechanism, "likelihood-ratio")
    assert clear.calibration == "asymptotic" and clear.reliable and not clear.warnings
    asked = test(few, mechanism, "likelihood-ratio", calibration="asymptotic")
    assert asked.calibration == "asymptotic" and not asked.reliable and "near 0" in asked.warnings[0]


def test_an_extreme_statistic_says_that_the_bootstrap_cannot_follow():
    made = design(DOMAIN, 1.0, method="kronecker").mechanism
    strong = np.array([[0.5, 0.0], [0.0, 0.4], [0.0, 0.1]])
    counts = Counts(PAIR, tables(made.kernel(("g", "s")), strong, 3000, 1, 1)[0])
    result = test(counts, made, "likelihood-ratio", calibration="bootstrap", bootstrap=99, random_state=2)
    assert result.p_value == 0.01 and not result.reliable
    assert "none of 99 simulated tables" in result.warnings[0]


@pytest.mark.slow
def test_on_the_boundary_the_level_is_the_nominal_one():
    """6 × 3 at n = 1000, where χ² rejects hardly ever. 300 tables: 1e-5 either way by the binomial law; seeds fixed."""
    domain = Domain.of({"a": 6, "b": 3})
    kernel = design({"a": 6, "b": 3, "c": 4}, 1.0).mechanism.kernel(("a", "b"))
    a, b = (1 / np.arange(1, r + 1) for r in (6, 3))
    t = tables(kernel, np.outer(a / a.sum(), b / b.sum()), 1000, 300, 11)
    rng = np.random.default_rng(12)
    drawn = {"calibration": "bootstrap", "bootstrap": 19, "random_state": rng}
    results = [test(Counts(domain, x), kernel, "likelihood-ratio", **drawn) for x in t]
    assert all(f.calibration == "bootstrap" for f in results)
    rejected = sum(f.p_value <= 0.05 for f in results)
    assert binom.cdf(rejected, 300, 0.05) > 1e-5 and binom.sf(rejected - 1, 300, 0.05) > 1e-5
    chi_square = int(np.count_nonzero(likelihood_ratios(t, kernel).p_value < 0.05))
    assert binom.cdf(chi_square, 300, 0.05) < 1e-3


def test_padding_adds_half_a_record_and_keeps_what_is_certain():
    counts = np.array([[60.0, 20.0], [30.0, 10.0], [0.0, 0.0]])
    kernel = unrandomized((3, 2))
    fit = likeliest_product(counts[None] / 120, kernel)
    padded = padded_null(fit, 120, kernel)
    # unrandomized, an even margin would need (variance of this one)/(variance of an even one) of the records
    worth = 120 * (2 / 3) / (1 - np.sum(fit.rows**2))
    np.testing.assert_allclose(padded.rows[0], (fit.rows[0] * worth + 0.5) / (worth + 1.5), atol=1e-8)
    certain = padded_null(likeliest_product(np.array([[[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]]), kernel), 120, kernel)
    np.testing.assert_allclose(certain.rows[0], [1, 0, 0], atol=1e-7)


def test_tables_it_cannot_take():
    domain = Domain.of({"a": 40, "b": 30})
    counts = Counts(domain, np.ones((40, 30), dtype=int))
    with pytest.raises(InvalidInput, match="at most 1024"):
        test(counts, unrandomized((40, 30)), "likelihood-ratio")
    small = Counts(PAIR, np.array([[5, 4], [3, 2], [1, 1]]))
    with pytest.raises(InvalidInput, match="tilted simulation is for score tests"):
        test(small, unrandomized((3, 2)), "likelihood-ratio", calibration="tilted")
    with pytest.raises(InvalidInput, match="at least 1"):
        test(small, unrandomized((3, 2)), "likelihood-ratio", calibration="bootstrap", bootstrap=0)


def test_a_general_matrix():
    rng = np.random.default_rng(4)
    p = 0.6 * np.eye(6) + 0.4 * rng.dirichlet(np.ones(6), 6)
    kernel = MatrixKernel(p, (3, 2))
    drawn = tables(kernel, NULL, 20_000, 2000, 5)
    ratios = likelihood_ratios(drawn, kernel)
    # 2000 tables: 1e-5 either way
    assert not near_boundary(ratios.fit, drawn.sum(axis=(1, 2)), kernel).any()
    assert 1e-5 < binom.cdf(np.count_nonzero(ratios.p_value < 0.05), 2000, 0.05) < 1 - 1e-5
