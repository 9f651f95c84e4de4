"""Score tests of many variants against slow references, exact tails and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, chi2_contingency, norm

from optrr.errors import InvalidInput
from optrr.genomics.effects import PairEigenvalues, linear_variance, scale_effects, to_proportions, unbiased
from optrr.genomics.odds import odds_ratios
from optrr.genomics.saddlepoint import two_sided
from optrr.genomics.scores import TESTS, association_chi_squared, naive_score_test, score_test
from optrr.genomics.star import star_eigenvalues
from optrr.inference import score_tests
from optrr.mechanisms.mechanism import Mechanism
from optrr.records.domain import Domain
from optrr_solvers import Problem, solve

COPIES = np.arange(3.0)


def tables(seed: int, count: int = 6, rows: int = 3, n: int = 800) -> np.ndarray:
    generator = np.random.default_rng(seed)
    shares = generator.dirichlet(np.full(rows * 2, 5.0), size=count)
    return np.array([generator.multinomial(n, p).reshape(rows, 2) for p in shares])


def mechanism(rows: int, method: str, variants: int = 4, epsilon: float = 1.5):
    """A law over a status and some variants, its star eigenvalues, and the 2-attribute mechanism's dense matrix."""
    domain = Domain.of({"status": 2} | {f"v{k}": rows for k in range(variants)})
    law = solve(Problem(domain.sizes, np.r_[2.0, np.full(variants, epsilon)]), method).law
    lam = star_eigenvalues(law, np.array([1]), 0)
    return law, lam, Mechanism(domain, law).matrix(["v0", "status"])


@pytest.mark.parametrize("method", ["auto", "kronecker", "inductive"])
@pytest.mark.parametrize("rows", [3, 4])
def test_unbiased_is_the_inverse_of_the_matrix(rows, method):
    _, lam, matrix = mechanism(rows, method)
    observed = tables(1, rows=rows) / 800
    dense = np.linalg.solve(matrix.T, observed.reshape(6, -1).T).T.reshape(observed.shape)
    np.testing.assert_allclose(unbiased(observed, lam), dense, atol=1e-11)
    forward = (observed.reshape(6, -1) @ matrix).reshape(observed.shape)
    np.testing.assert_allclose(scale_effects(observed, lam), forward, atol=1e-13)


def contrasts(table: np.ndarray, test: str) -> np.ndarray:
    """θ of one true table, by its definition."""
    known = table[:3]
    w = known.sum(axis=0)
    each = known[:, 1] * w[0] - known[:, 0] * w[1]
    return each[:2] if test == "genotypic" else np.array([COPIES @ each])


def reference_statistic(counts: np.ndarray, matrix: np.ndarray, test: str) -> float:
    """The score statistic with dense matrices and numerical derivatives."""
    n, shape = counts.sum(), counts.shape
    estimate = np.linalg.solve(matrix.T, counts.ravel() / n).reshape(shape)
    clipped = lambda x: np.maximum(x, 0) / np.maximum(x, 0).sum()  # noqa: E731
    genotypes = clipped(estimate[:3].sum(axis=1))
    if test == "allelic-hwe":
        f = COPIES @ genotypes / 2
        law = np.array([(1 - f) ** 2, 2 * f * (1 - f), f**2])
    else:
        law = genotypes
    if shape[0] == 4:
        both = clipped(np.stack([estimate[:3].sum(axis=0), estimate[3]]))
        null, true = (np.vstack([np.outer(g, both[0]), both[1:]]) for g in (law, genotypes))
    else:
        status = clipped(estimate.sum(axis=0))
        null, true = np.outer(law, status), np.outer(genotypes, status)
    step = 1e-6
    jacobian = np.array(
        [
            (contrasts(true + step * e, test) - contrasts(true - step * e, test)) / (2 * step)
            for e in np.eye(counts.size).reshape(-1, *shape)
        ]
    ).T
    observed = null.ravel() @ matrix
    covariance = np.diag(observed) - np.outer(observed, observed)
    back = np.linalg.inv(matrix.T)
    v = jacobian @ back @ covariance @ back.T @ jacobian.T / n
    # along the gradient: the contrast itself wherever the estimate had not to be cut to proportions
    theta = jacobian @ estimate.ravel()
    if np.all(estimate >= 0):
        np.testing.assert_allclose(theta, contrasts(estimate, test), rtol=1e-6, atol=1e-12)
    return float(theta @ np.linalg.solve(v, theta))


@pytest.mark.parametrize("test", list(TESTS))
@pytest.mark.parametrize("method", ["auto", "kronecker"])
@pytest.mark.parametrize("rows", [3, 4])
def test_statistic_is_the_dense_one(rows, method, test):
    _, lam, matrix = mechanism(rows, method)
    counts = tables(2, rows=rows)
    expected = [reference_statistic(t, matrix, test) for t in counts]
    np.testing.assert_allclose(score_test(counts, lam, test).statistic, expected, rtol=1e-7)


def test_without_mechanism_they_are_the_classical_tests():
    counts = tables(3)
    plain = PairEigenvalues.untouched()
    pearson = [chi2_contingency(t, correction=False).statistic for t in counts]
    np.testing.assert_allclose(score_test(counts, plain, "genotypic").statistic, pearson, rtol=1e-10)
    alleles = np.stack([2 * counts[:, 0] + counts[:, 1], counts[:, 1] + 2 * counts[:, 2]], axis=1)
    pearson = [chi2_contingency(t, correction=False).statistic for t in alleles]
    np.testing.assert_allclose(score_test(counts, plain, "allelic-hwe").statistic, pearson, rtol=1e-10)
    trend, allelic = (score_test(counts, plain, test).statistic for test in ("trend", "allelic"))
    for k, t in enumerate(counts):
        x, y = np.repeat([0, 0, 1, 1, 2, 2], t.ravel()), np.repeat([0, 1] * 3, t.ravel())
        assert trend[k] == pytest.approx(t.sum() * np.corrcoef(x, y)[0, 1] ** 2, rel=1e-10)
        # Schaid & Jacobsen 1999: allele frequencies, with the variance that the pooled genotypes give them
        both, double = t[1].sum() / t.sum(), t[2].sum() / t.sum()
        variance = (both + 4 * double - (both + 2 * double) ** 2) / 4 * (1 / t[:, 0].sum() + 1 / t[:, 1].sum())
        assert allelic[k] == pytest.approx((x[y == 1].mean() / 2 - x[y == 0].mean() / 2) ** 2 / variance, rel=1e-10)
    np.testing.assert_array_equal(naive_score_test(counts).statistic, score_test(counts, plain).statistic)


def test_agrees_with_the_general_score_tests():
    law, lam, _ = mechanism(3, "auto")
    domain = Domain.of({"status": 2} | {f"v{k}": 3 for k in range(4)})
    kernel = Mechanism(domain, law).kernel(["v0", "status"])
    weak = np.outer([0.5, 0.35, 0.15], [0.6, 0.4])[None] + 0.01 * np.array([[[1, -1], [0, 0], [-1, 1]]])
    # a weak association in many records: the null fits (moments here, likelihood there) differ by O(association) only
    counts = np.round(1_000_000 * scale_effects(weak, lam)).astype(int)
    general = score_tests(counts, kernel)
    np.testing.assert_allclose(score_test(counts, lam, "genotypic").statistic, general.statistic, rtol=0.02)


def null_counts(lam: PairEigenvalues, n: int, frequency: float, cases: float, count: int, seed: int) -> np.ndarray:
    """Randomized tables of variants in Hardy–Weinberg proportions, not associated."""
    genotypes = np.array([(1 - frequency) ** 2, 2 * frequency * (1 - frequency), frequency**2])
    law = scale_effects(np.outer(genotypes, [1 - cases, cases])[None], lam).ravel()
    return np.random.default_rng(seed).multinomial(n, law / law.sum(), size=count).reshape(count, 3, 2)


@pytest.mark.parametrize("test", list(TESTS))
@pytest.mark.parametrize("method", ["auto", "kronecker"])
@pytest.mark.parametrize(("n", "frequency", "cases"), [(1000, 0.3, 0.5), (2504, 0.1, 0.2), (10_000, 0.02, 0.1)])
def test_type_one_error(n, frequency, cases, method, test):
    _, lam, _ = mechanism(3, method, variants=30, epsilon=0.6)
    counts = null_counts(lam, n, frequency, cases, 20_000, seed=5)
    p = score_test(counts, lam, test).p_value
    for level, bias in ((0.05, 0.05), (0.001, 0.25)):
        # 5 standard errors of 20,000 draws (false alarm 6e-7 each), and the asymptotic test's own relative error at these n
        assert abs(np.mean(p <= level) - level) < 5 * np.sqrt(level / 20_000) + bias * level


def pooled_counts(lam: PairEigenvalues, n: int, count: int, seed: int) -> np.ndarray:
    """Randomized tables of people from two populations with frequencies 0.1 and 0.8; cases are as many in both."""
    f = np.array([0.1, 0.8])
    genotypes = np.array([(1 - f) ** 2, 2 * f * (1 - f), f**2]).mean(axis=1)
    law = scale_effects(np.outer(genotypes, [0.7, 0.3])[None], lam).ravel()
    return np.random.default_rng(seed).multinomial(n, law / law.sum(), size=count).reshape(count, 3, 2)


@pytest.mark.parametrize("method", ["auto", "kronecker"])
def test_type_one_error_where_populations_are_pooled(method):
    _, lam, _ = mechanism(3, method, variants=4, epsilon=3.0)
    counts = pooled_counts(lam, 2000, 20_000, seed=8)
    # 5 standard errors of 20,000 draws: false alarm 6e-7 each
    error = 5 * np.sqrt(0.05 * 0.95 / 20_000)
    for test in ("trend", "genotypic", "allelic"):
        assert abs(np.mean(score_test(counts, lam, test).p_value <= 0.05) - 0.05) < error
    # too many homozygotes: the variance that Hardy–Weinberg proportions would give is too small
    assert np.mean(score_test(counts, lam, "allelic-hwe").p_value <= 0.05) > 0.05 + 2 * error


def test_type_one_error_where_margins_are_unknown():
    """Genotype and status hardly visible one by one, and well together: a product of two estimated margins is all noise."""
    lam = PairEigenvalues(np.array([0.01]), np.array([0.01]), np.array([0.005]))
    counts = null_counts(lam, 2500, 0.3, 0.3, 20_000, seed=9)
    for test in TESTS:
        p = score_test(counts, lam, test).p_value
        # the margins' own noise leaves the level a tenth too large; with their product in the contrast it was 0.10 to 0.12
        assert abs(np.mean(p <= 0.05) - 0.05) < 0.005 + 5 * np.sqrt(0.05 * 0.95 / 20_000)
        assert np.mean(p <= 0.001) < 0.003


def test_saddlepoint_without_its_own_side_is_the_normal_tail():
    """Beyond the largest weight no sample lies: then the far side's tiny tail is not the p-value."""
    weights, law = np.array([[[1.0, -9.0]]]), np.array([[[0.9, 0.1]]])
    n, mean = np.array([50.0]), np.array([1.5])
    chi_squared = n * mean**2 / 9.0
    found = two_sided(weights, law, mean, n, chi_squared)
    assert found[0] == pytest.approx(2 * norm.sf(np.sqrt(chi_squared[0])), rel=1e-9)
    # within reach only on the other side: both tails are exact there
    exact = binom.sf(50 * 0.1 + 50 * 0.12 - 1, 50, 0.1)
    found = two_sided(weights, law, np.array([-1.2]), n, n * 1.2**2 / 9.0)
    assert exact / 2 < found[0] < 2 * exact


def test_naive_type_one_error_is_far_off():
    _, lam, _ = mechanism(3, "auto", variants=30, epsilon=0.6)
    counts = null_counts(lam, 10_000, 0.02, 0.1, 5_000, seed=6)
    assert np.mean(naive_score_test(counts, "trend").p_value <= 0.05) > 0.2
    # where the mechanism keeps attributes independent, the naive trend test keeps its level; 5 standard errors, 6e-7
    _, product, _ = mechanism(3, "kronecker", variants=30, epsilon=0.6)
    counts = null_counts(product, 10_000, 0.02, 0.1, 5_000, seed=7)
    assert abs(np.mean(naive_score_test(counts, "trend").p_value <= 0.05) - 0.05) < 5 * np.sqrt(0.05 * 0.95 / 5_000)


@pytest.mark.parametrize("share", [0.5, 0.1, 0.01])
def test_saddlepoint_tail_is_the_exact_binomial_one(share):
    n = 2000
    hits = np.array([int(binom.isf(p, n, share)) for p in (1e-3, 1e-6, 1e-9)])
    mean = hits / n - share
    count = hits.size
    weights = np.broadcast_to(np.array([[1 - share, -share]]), (count, 2))[:, None, :]
    law = np.broadcast_to(np.array([[share, 1 - share]]), (count, 2))[:, None, :]
    chi_squared = n * mean**2 / (share * (1 - share))
    found = two_sided(weights, law, mean, np.full(count, float(n)), chi_squared)
    # mid-p, as the approximation is for a continuous sum: a lattice of one hit is as fine as 1/2 hit either way
    middle = n * share
    reach = hits - middle
    exact = binom.sf(hits, n, share) + binom.pmf(hits, n, share) / 2 + binom.cdf(np.ceil(middle - reach) - 1, n, share)
    exact += np.where((middle - reach) % 1 == 0, binom.pmf(np.round(middle - reach), n, share) / 2, 0.0)
    np.testing.assert_allclose(found, exact, rtol=0.12)
    if share < 0.05:
        # the normal tail is off by more than a factor of ten there: this is what the saddlepoint is for
        assert np.all(exact[1:] > 10 * 2 * norm.sf(np.sqrt(chi_squared[1:])))


@pytest.mark.parametrize(
    ("shape", "test"),
    [((4, 3, 2), "fisher"), ((4, 2, 2), "genotypic"), ((4, 3, 3), "trend"), ((3, 2), "trend"), ((4, 5, 2), "allelic")],
)
def test_other_tests_and_tables_are_refused(shape, test):
    with pytest.raises(InvalidInput, match="give one of trend, genotypic, allelic, allelic-hwe"):
        score_test(np.ones(shape, dtype=int), PairEigenvalues.untouched(), test)


def test_undefined_is_nan():
    monomorphic = np.array([[[40, 60], [0, 0], [0, 0]], [[0, 0], [0, 0], [0, 0]]])
    for test in TESTS:
        found = score_test(monomorphic, PairEigenvalues.untouched(), test)
        assert np.isnan(found.p_value).all()
        assert np.isnan(found.statistic).all()


def test_missing_row_takes_no_part():
    counts = tables(8)
    with_missing = np.concatenate([counts, np.array([[[30, 70]]]).repeat(6, axis=0)], axis=1)
    for test in TESTS:
        plain = score_test(counts, PairEigenvalues.untouched(), test).statistic
        np.testing.assert_allclose(
            score_test(with_missing, PairEigenvalues.untouched(), test).statistic, plain, rtol=1e-9
        )


def test_odds_ratio_of_a_plain_allele_table_is_woolfs():
    counts = tables(9, rows=2)
    found = odds_ratios(counts, PairEigenvalues.untouched())
    a, b, c, d = counts[:, 1, 1], counts[:, 0, 1], counts[:, 1, 0], counts[:, 0, 0]
    np.testing.assert_allclose(found.log_ratio, np.log(a * d / (b * c)), rtol=1e-12)
    np.testing.assert_allclose(found.standard_error, np.sqrt(1 / a + 1 / b + 1 / c + 1 / d), rtol=1e-12)


def test_odds_ratio_intervals_cover():
    _, lam, _ = mechanism(3, "auto", variants=10, epsilon=1.5)
    frequency = np.array([0.3, 0.4])
    genotypes = np.stack([(1 - frequency) ** 2, 2 * frequency * (1 - frequency), frequency**2])
    law = scale_effects((genotypes * [0.6, 0.4])[None], lam).ravel()
    counts = np.random.default_rng(10).multinomial(20_000, law / law.sum(), size=4000).reshape(-1, 3, 2)
    found = odds_ratios(counts, lam)
    low, high = found.interval()
    true = (0.4 / 0.6) / (0.3 / 0.7)
    covered = np.mean((low <= true) & (true <= high))
    # 5 standard errors of 4000 draws (0.0172) and 0.5 % for the delta method; false alarm below 6e-7
    assert abs(covered - 0.95) < 0.0172 + 0.005
    np.testing.assert_allclose([np.mean(found.controls), np.mean(found.cases)], frequency, atol=0.004)


def test_chi_squared_estimate_is_centred_on_the_truth():
    _, lam, _ = mechanism(3, "auto", variants=4, epsilon=1.5)
    true = np.array([[[700, 300], [420, 280], [130, 170]]])
    law = scale_effects(true / 2000, lam).ravel()
    counts = np.random.default_rng(11).multinomial(2000, law / law.sum(), size=4000).reshape(-1, 3, 2)
    for test in TESTS:
        target = score_test(true, PairEigenvalues.untouched(), test).statistic[0]
        found = association_chi_squared(counts, lam, test)
        # sampling adds one expected unit a degree of freedom; the rest is Monte Carlo error and curvature
        assert np.mean(found) == pytest.approx(target, rel=0.1)
        naive = naive_score_test(counts, test).statistic
        assert np.mean(np.abs(naive - target)) > 1.5 * np.mean(np.abs(found - target))


def test_small_pieces():
    table = np.array([[-0.2, 0.6, 0.8], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(to_proportions(table, axis=1), [[0, 3 / 7, 4 / 7], [1 / 3, 1 / 3, 1 / 3]])
    weights, law = np.array([[[1.0, 4.0]]]), np.array([[[0.25, 0.75]]])
    assert linear_variance(weights, law)[0] == pytest.approx(9 * 0.25 * 0.75)
