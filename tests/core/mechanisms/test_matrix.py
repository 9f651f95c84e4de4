"""General matrices against mpmath, brute force, exact rationals and cvxpy."""

import math
from fractions import Fraction

import naive
import numpy as np
import pandas as pd
import pytest

from optrr.core.domain.domain import Domain
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms.kernel import SingularMarginal
from optrr.core.mechanisms.matrix import MatrixMechanism, from_probabilities, randomized_response
from optrr.core.mechanisms.mechanism import ReleaseOptions
from optrr.core.mechanisms.release import release_file
from optrr.core.records.counts import count
from optrr.studies.laplace import (
    exp_enclosure,
    laplace,
    truncated_geometric,
)

SIZES = (2, 3, 6, 11)
EPSILONS = (0.05, 0.5, 1.0, 3.0, 8.0)
# Largest absolute rounding of a matrix to multiples of 2^-63 and then to doubles.
ROUNDING = 1e-15


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_randomized_response_is_equation_19(size, epsilon):
    matrix = randomized_response(size, epsilon)
    e = math.exp(epsilon)
    expected = np.where(np.eye(size) > 0, e, 1.0) / (size - 1 + e)
    np.testing.assert_allclose(matrix.probabilities, expected, rtol=1e-14)
    assert matrix.epsilon == pytest.approx(epsilon, rel=1e-14)
    assert matrix.attribute_epsilon == pytest.approx(epsilon, rel=1e-12)


def test_epsilon_is_the_largest_column_ratio_of_what_is_drawn():
    p = [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.25, 0.25, 0.5]]
    matrix = from_probabilities(p)
    assert matrix.epsilon == pytest.approx(math.log(5), rel=1e-14)
    for column in matrix.weights.T.tolist():
        assert Fraction(max(column), min(column)) <= exp_enclosure(Fraction(matrix.epsilon))[1]
    assert [sum(row) for row in matrix.weights.tolist()] == [1 << 63] * 3
    assert math.isinf(from_probabilities([[1.0, 0.0], [0.5, 0.5]]).epsilon)
    assert math.isinf(from_probabilities(np.eye(3)).epsilon)


@pytest.mark.parametrize(
    ("p", "said"),
    [
        (np.full((2, 3), 1 / 3), "square, got shape (2, 3)"),
        ([[0.5, 0.6], [0.5, 0.4]], "transpose it"),
        ([[0.5, 0.6], [0.5, 0.6]], "row 0 of the distortion matrix sums to 1.1"),
        ([[1.5, -0.5], [0.5, 0.5]], "entry (0, 0) of the distortion matrix is 1.5"),
        ([[np.nan, 1.0], [0.5, 0.5]], "entry (0, 0) of the distortion matrix is nan"),
        ([["a", "b"], ["c", "d"]], "contain numbers"),
        ([[1.0]], "2 to 1000 categories, got 1"),
        ([0.5, 0.5], "square, got shape (2,)"),
    ],
)
def test_bad_matrices_are_refused(p, said):
    with pytest.raises(InvalidInput) as error:
        from_probabilities(p)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_singular_matrices_are_refused():
    for p in (np.full((3, 3), 1 / 3), [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.375, 0.375, 0.25]]):
        with pytest.raises(SingularMarginal, match="smallest singular value"):
            from_probabilities(p)


@pytest.mark.parametrize("family", [randomized_response, laplace, truncated_geometric])
def test_bad_parameters_are_refused(family):
    for size, epsilon in ((3, 0.0), (3, -1.0), (3, math.inf), (3, math.nan), (1, 1.0), (2.5, 1.0)):
        with pytest.raises(InvalidInput):
            family(size, epsilon)


def test_cut_points_outside_their_interval_are_refused():
    for cuts in ([1.5], [0.9, 2.5], [1.5, 3.1], [1.5, math.nan]):
        with pytest.raises(InvalidInput, match="cut points"):
            laplace(3, 1.0, cuts)


def test_draws_follow_the_matrix():
    """With this seed fixed, a changed sampler raises a false alarm in 1e-4 of cases over all rows."""
    p = np.array([[0.6, 0.3, 0.1, 0.0], [0.1, 0.6, 0.2, 0.1], [0.25, 0.25, 0.4, 0.1], [0.01, 0.01, 0.01, 0.97]])
    mechanism = MatrixMechanism(Domain.of({"a": 4}), (from_probabilities(p),))
    codes = np.random.default_rng(5).permutation(np.repeat(np.arange(4), 40_000)).reshape(-1, 1)
    out = mechanism.randomize_codes(codes, random_state=6)
    for u in range(4):
        seen = out[codes[:, 0] == u, 0]
        assert naive.fit_p_value(seen, p[u]) > 2.5e-5
        assert not np.isin(seen, np.flatnonzero(p[u] == 0)).any()


def test_certain_answers_are_drawn_surely():
    swap = [[0.0, 1.0], [1.0, 0.0]]
    mechanism = MatrixMechanism(Domain.of({"a": 2}), (from_probabilities(swap),))
    codes = np.array([[0], [1], [1]], dtype=np.int8)
    out = mechanism.randomize_codes(codes)
    assert out.dtype == np.int8
    np.testing.assert_array_equal(out, 1 - codes)


def test_mechanism_randomizes_frames_and_files_and_reports_its_epsilons(tmp_path):
    domain = Domain.of({"ldl": 6, "tc": ["low", "middle", "high"]})
    mechanism = MatrixMechanism(domain, (laplace(6, 2.0), randomized_response(3, 1.0)))
    frame = pd.DataFrame({"tc": ["low", "high"] * 50, "ldl": [0, 5] * 50})
    out = mechanism.randomize(frame, random_state=1)
    assert list(out.columns) == ["tc", "ldl"] and out["tc"].isin(["low", "middle", "high"]).all()
    assert not out.equals(frame)
    np.testing.assert_allclose(
        mechanism.conditional_epsilons, [2 + math.log(1 - math.expm1(-0.2) ** 2), 1.0], rtol=1e-12
    )
    assert mechanism.epsilon >= mechanism.conditional_epsilons.sum()
    assert mechanism.epsilon == pytest.approx(mechanism.conditional_epsilons.sum(), rel=1e-15)
    path = tmp_path / "records.csv"
    frame.to_csv(path, index=False)
    assert (
        release_file(
            path, mechanism, tmp_path / "randomized.csv", random_state=1, options=ReleaseOptions(keep_order=True)
        ).records
        == 100
    )
    assert pd.read_csv(tmp_path / "randomized.csv").equals(out)
    with pytest.raises(InvalidInput, match="one matrix for each attribute"):
        MatrixMechanism(domain, (laplace(6, 2.0),))


def test_estimate_and_dispersion_are_equations_17_18_22_and_23():
    domain = Domain.of({"ldl": 6, "tc": 3})
    mechanism = MatrixMechanism(domain, (laplace(6, 3.0), truncated_geometric(3, 1.0)))
    rng = np.random.default_rng(2)
    codes = np.column_stack([rng.integers(0, 6, 5000), rng.integers(0, 3, 5000)])
    table = count(mechanism.randomize_codes(codes, 3), domain, domain.names)
    for names in (("ldl",), ("tc",), ("ldl", "tc"), ("tc", "ldl")):
        kernel = mechanism.kernel(names)
        dense = np.eye(1)
        for name in names:
            dense = np.kron(dense, mechanism.matrices[domain.index(name)].probabilities)
        np.testing.assert_allclose(mechanism.matrix(names), dense, atol=ROUNDING)
        observed = table.marginal(names).proportions
        inverse = np.linalg.inv(dense.T)
        pi = inverse @ observed.ravel()
        np.testing.assert_allclose(kernel.solve(observed).ravel(), pi, atol=1e-11)
        middle = np.diag(observed.ravel()) - np.outer(observed, observed)
        dispersion = inverse @ middle @ inverse.T / (table.n - 1)
        np.testing.assert_allclose(kernel.variance(observed, table.n).ravel(), np.diag(dispersion), rtol=1e-8)
