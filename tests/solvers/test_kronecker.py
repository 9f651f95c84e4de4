import naive
import numpy as np
import pytest

from optrr_solvers import kronecker
from optrr_solvers.problem import Problem
from optrr_solvers.solution import Status


def test_total_is_the_sum_and_every_accuracy_is_exact():
    problem = Problem([2, 3, 4], [0.3, 1.0, 2.0])
    s = kronecker.solve(problem)
    p = naive.matrix(problem.sizes, naive.density(s.law))
    assert s.status is Status.BASELINE and s.certificate is None
    assert s.upper == pytest.approx(3.3, abs=1e-14) and s.upper >= 3.3
    assert naive.ldp_epsilon(p) == pytest.approx(3.3, abs=1e-12)
    np.testing.assert_allclose(s.attribute_epsilons, problem.epsilons, atol=1e-14)
    np.testing.assert_allclose(s.law.conditional_epsilons(), problem.epsilons, atol=0)
    one = [np.full((r, r), 1.0) + np.diag([np.exp(e) - 1] * r) for r, e in zip((2, 3, 4), (0.3, 1.0, 2.0), strict=True)]
    product = np.kron(np.kron(one[0], one[1]), one[2])
    np.testing.assert_allclose(p, product / product.sum(axis=1, keepdims=True), rtol=1e-13)


def test_pairs_at_kappa_one_are_kept():
    pairs = ((0, 1), (1, 2))
    s = kronecker.solve(Problem([2, 3, 4], [0.3, 1.0, 2.0], pairs=pairs))
    lam, one = s.law.pair_eigenvalues(), s.problem.eigenvalues
    for i, j in pairs:
        assert lam[i, j] == pytest.approx(one[i] * one[j], rel=1e-13)


def test_a_million_attributes():
    m = 1_000_000
    s = kronecker.solve(Problem([3] * m, [0.25] * m))
    assert s.upper == pytest.approx(250_000, rel=1e-9) and s.upper >= 250_000
