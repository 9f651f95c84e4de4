"""Score tests and odds ratios of many variants against slow references, exact tails and simulation."""

import numpy as np
import pytest
from scipy.optimize import brentq, minimize
from scipy.special import expit, logit, ndtri
from scipy.stats import binom, chi2_contingency, norm

from optrr.core.domain.domain import Domain
from optrr.core.errors import InvalidInput
from optrr.core.inference.nullfit import independence_fit
from optrr.core.mechanisms.kernel import EffectKernel, unrandomized
from optrr.core.mechanisms.mechanism import Mechanism
from optrr.genomics.layout import star_kernel
from optrr.genomics.odds import crossings, odds_ratios
from optrr.genomics.score_tests import (
    about_inflation,
    association_chi_squared,
    genotype_tests,
    inflation_chance,
    naive_score_test,
    score_test,
)
from optrr.genomics.tail import tail_of_one
from optrr_solvers import Problem, solve

COPIES = np.arange(3.0)
TESTS = tuple(genotype_tests())
PLAIN = unrandomized((3, 2))


def tables(seed: int, count: int = 6, rows: int = 3, n: int = 800) -> np.ndarray:
    generator = np.random.default_rng(seed)
    shares = generator.dirichlet(np.full(rows * 2, 5.0), size=count)
    return np.array([generator.multinomial(n, p).reshape(rows, 2) for p in shares])


def mechanism(rows: int, method: str, variants: int = 4, epsilon: float = 1.5):
    """A law over a status and some variants, its kernel, and the 2-attribute mechanism's dense matrix."""
    domain = Domain.of({"status": 2} | {f"v{k}": rows for k in range(variants)})
    law = solve(Problem(domain.sizes, np.r_[2.0, np.full(variants, epsilon)]), method).law
    kernel = star_kernel(law, np.array([1]), 0).part(0)
    return law, kernel, Mechanism(domain, law).matrix(["v0", "status"])


@pytest.mark.parametrize("method", ["auto", "kronecker", "inductive"])
@pytest.mark.parametrize("rows", [3, 4])
def test_unbiased_is_the_inverse_of_the_matrix(rows, method):
    _, kernel, matrix = mechanism(rows, method)
    observed = tables(1, rows=rows) / 800
    dense = np.linalg.solve(matrix.T, observed.reshape(6, -1).T).T.reshape(observed.shape)
    np.testing.assert_allclose(kernel.solve(observed), dense, atol=1e-11)
    forward = (observed.reshape(6, -1) @ matrix).reshape(observed.shape)
    np.testing.assert_allclose(kernel.forward(observed), forward, atol=1e-13)


def contrasts(table: np.ndarray, test: str) -> np.ndarray:
    """θ of one true table, by its definition."""
    known = table[:3]
    w = known.sum(axis=0)
    each = known[:, 1] * w[0] - known[:, 0] * w[1]
    return each[:2] if test == "genotypic" else np.array([COPIES @ each])


def null_table(x: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """A true table without association, from unbounded parameters."""
    genotypes, x = np.exp([*x[:2], 0]), x[2:]
    genotypes /= genotypes.sum()
    # status among the known, and shares of the missing
    parts = np.exp([0, *x])
    parts /= parts.sum()
    known = np.outer(genotypes, parts[:2])
    return known if shape[0] == 3 else np.vstack([known, parts[2:]])


def reference_statistic(counts: np.ndarray, matrix: np.ndarray, test: str) -> float:
    """The score statistic at the likeliest null table, found by a generic optimiser, with numerical derivatives."""
    n, shape = counts.sum(), counts.shape
    start = np.zeros(3 if shape[0] == 3 else 5)
    loss = lambda x: -counts.ravel() @ np.log(null_table(x, shape).ravel() @ matrix) / n  # noqa: E731
    optimum = minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-15, "maxiter": 20_000})
    null = null_table(optimum.x, shape)
    estimate = np.linalg.solve(matrix.T, counts.ravel() / n).reshape(shape)
    step = 1e-6
    jacobian = np.array(
        [
            (contrasts(null + step * e, test) - contrasts(null - step * e, test)) / (2 * step)
            for e in np.eye(counts.size).reshape(-1, *shape)
        ]
    ).T
    observed = null.ravel() @ matrix
    covariance = np.diag(observed) - np.outer(observed, observed)
    back = np.linalg.inv(matrix.T)
    v = jacobian @ back @ covariance @ back.T @ jacobian.T / n
    theta = jacobian @ estimate.ravel()
    return float(theta @ np.linalg.solve(v, theta))


@pytest.mark.parametrize("test", list(TESTS))
@pytest.mark.parametrize("method", ["auto", "kronecker"])
@pytest.mark.parametrize("rows", [3, 4])
def test_statistic_is_the_dense_one(rows, method, test):
    _, kernel, matrix = mechanism(rows, method)
    # these tables are associated, so that a formula that holds only near the null hypothesis would show
    counts = np.round(50_000 * kernel.forward(tables(2, 3, rows=rows) / 800)).astype(int)
    expected = [reference_statistic(t, matrix, test) for t in counts]
    np.testing.assert_allclose(score_test(counts, kernel, test).statistic, expected, rtol=2e-5, atol=1e-5)


def test_without_mechanism_they_are_the_classical_tests():
    counts = tables(3)
    plain = PLAIN
    pearson = [chi2_contingency(t, correction=False).statistic for t in counts]
    np.testing.assert_allclose(score_test(counts, plain, "genotypic").statistic, pearson, rtol=1e-10)
    trend = score_test(counts, plain).statistic
    for k, t in enumerate(counts):
        x, y = np.repeat([0, 0, 1, 1, 2, 2], t.ravel()), np.repeat([0, 1] * 3, t.ravel())
        assert trend[k] == pytest.approx(t.sum() * np.corrcoef(x, y)[0, 1] ** 2, rel=1e-10)
        # Schaid & Jacobsen 1999: allele frequencies, with the variance that the pooled genotypes give them
        both, double = t[1].sum() / t.sum(), t[2].sum() / t.sum()
        variance = (both + 4 * double - (both + 2 * double) ** 2) / 4 * (1 / t[:, 0].sum() + 1 / t[:, 1].sum())
        assert trend[k] == pytest.approx((x[y == 1].mean() / 2 - x[y == 0].mean() / 2) ** 2 / variance, rel=1e-10)
    np.testing.assert_array_equal(naive_score_test(counts).statistic, score_test(counts, plain).statistic)


def test_a_batch_of_mechanisms_is_each_by_itself():
    """Variants with different eigenvalues in one call, weakly and strongly associated."""
    lam = np.random.default_rng(4).uniform(0.3, 0.95, size=(40, 2, 2))
    lam[:, 0, 0] = 1.0
    lam[:, 1, 1] = lam[:, 0, 1] * lam[:, 1, 0]
    kernel, counts = EffectKernel((3, 2), lam), tables(12, 40)
    for test in TESTS:
        scores = score_test(counts, kernel, test)
        alone = [score_test(counts[k : k + 1], kernel.part(k), test) for k in range(40)]
        np.testing.assert_allclose(scores.statistic, [a.statistic[0] for a in alone], rtol=1e-10)
        np.testing.assert_allclose(scores.p_value, [a.p_value[0] for a in alone], rtol=1e-9)


def null_counts(kernel: EffectKernel, n: int, frequency: float, cases: float, count: int, seed: int) -> np.ndarray:
    """Randomized tables of variants in Hardy–Weinberg proportions, not associated."""
    genotypes = np.array([(1 - frequency) ** 2, 2 * frequency * (1 - frequency), frequency**2])
    law = kernel.forward(np.outer(genotypes, [1 - cases, cases])[None]).ravel()
    return np.random.default_rng(seed).multinomial(n, law / law.sum(), size=count).reshape(count, 3, 2)


@pytest.mark.slow
@pytest.mark.parametrize("test", list(TESTS))
@pytest.mark.parametrize("method", ["auto", "kronecker"])
@pytest.mark.parametrize(("n", "frequency", "cases"), [(1000, 0.3, 0.5), (2504, 0.1, 0.2), (10_000, 0.02, 0.1)])
def test_type_one_error(n, frequency, cases, method, test):
    _, kernel, _ = mechanism(3, method, variants=30, epsilon=0.6)
    counts = null_counts(kernel, n, frequency, cases, 20_000, seed=5)
    p = score_test(counts, kernel, test).p_value
    for level, bias in ((0.05, 0.05), (0.001, 0.25)):
        # 5 standard errors of 20,000 draws (false alarm 6e-7 each), and the asymptotic test's own relative error at these n
        assert abs(np.mean(p <= level) - level) < 5 * np.sqrt(level / 20_000) + bias * level


def pooled_counts(kernel: EffectKernel, n: int, count: int, seed: int) -> np.ndarray:
    """Randomized tables of people from two populations with frequencies 0.1 and 0.8; cases are as many in both."""
    f = np.array([0.1, 0.8])
    genotypes = np.array([(1 - f) ** 2, 2 * f * (1 - f), f**2]).mean(axis=1)
    law = kernel.forward(np.outer(genotypes, [0.7, 0.3])[None]).ravel()
    return np.random.default_rng(seed).multinomial(n, law / law.sum(), size=count).reshape(count, 3, 2)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", "kronecker"])
def test_type_one_error_where_populations_are_pooled(method):
    _, kernel, _ = mechanism(3, method, variants=4, epsilon=3.0)
    counts = pooled_counts(kernel, 2000, 20_000, seed=8)
    # 5 standard errors of 20,000 draws: false alarm 6e-7 each
    error = 5 * np.sqrt(0.05 * 0.95 / 20_000)
    for test in TESTS:
        assert abs(np.mean(score_test(counts, kernel, test).p_value <= 0.05) - 0.05) < error


@pytest.mark.slow
def test_type_one_error_where_margins_are_unknown():
    """Where genotype and status are hardly visible one by one, a product of two estimated margins is mostly noise."""
    kernel = EffectKernel((3, 2), [[1, 0.01], [0.01, 0.005]])
    counts = null_counts(kernel, 2500, 0.3, 0.3, 20_000, seed=9)
    for test in TESTS:
        p = score_test(counts, kernel, test).p_value
        # the margins' own noise leaves the level a tenth too large; with their product in the contrast it was 0.10 to 0.12
        assert abs(np.mean(p <= 0.05) - 0.05) < 0.005 + 5 * np.sqrt(0.05 * 0.95 / 20_000)
        assert np.mean(p <= 0.001) < 0.003


def test_a_tail_that_no_sample_reaches_is_the_normal_one():
    """Beyond the largest weight no sample lies: then the far side's tiny tail is not the p-value."""
    weights, law = np.array([[1.0, -9.0]]), np.array([[0.9, 0.1]])
    counts, chi_squared = np.array([[50.0, 0.0]]), 50 * 1.5**2 / 9.0
    tail = tail_of_one(weights, law, counts, np.array([chi_squared]))
    assert tail[0] == pytest.approx(2 * norm.sf(np.sqrt(chi_squared)), rel=1e-9)
    # 11 of 50 where 5 are expected, or none and half of the chance of it on the other side, which is just out of reach
    exact = binom.sf(11, 50, 0.1) + binom.pmf(11, 50, 0.1) / 2
    tail = tail_of_one(weights, law, np.array([[39.0, 11.0]]), np.array([50 * 1.2**2 / 9.0]))
    assert tail[0] == pytest.approx(exact, rel=0.1)


def test_naive_type_one_error_is_far_off():
    _, kernel, _ = mechanism(3, "auto", variants=30, epsilon=0.6)
    counts = null_counts(kernel, 10_000, 0.02, 0.1, 5_000, seed=6)
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
    weights = np.broadcast_to(np.array([[1 - share, -share]]), (count, 2))
    law = np.broadcast_to(np.array([[share, 1 - share]]), (count, 2))
    chi_squared = n * mean**2 / (share * (1 - share))
    tail = tail_of_one(weights, law, np.stack([hits, n - hits], axis=1).astype(float), chi_squared)
    # the exact p-value counts half of the observed table (mid-p), because the approximation is that of a continuous sum
    middle = n * share
    reach = hits - middle
    exact = binom.sf(hits, n, share) + binom.pmf(hits, n, share) / 2 + binom.cdf(np.ceil(middle - reach) - 1, n, share)
    exact += np.where((middle - reach) % 1 == 0, binom.pmf(np.round(middle - reach), n, share) / 2, 0.0)
    np.testing.assert_allclose(tail, exact, rtol=0.12)
    if share < 0.05:
        # the normal tail is off by more than a factor of ten there: this is what the saddlepoint is for
        assert np.all(exact[1:] > 10 * 2 * norm.sf(np.sqrt(chi_squared[1:])))


@pytest.mark.parametrize(
    ("shape", "test"),
    [((4, 3, 2), "fisher"), ((4, 2, 2), "genotypic"), ((4, 3, 3), "trend"), ((3, 2), "trend"), ((4, 3, 2), "allelic")],
)
def test_other_tests_and_tables_are_refused(shape, test):
    with pytest.raises(InvalidInput, match=r"there is no test|a genotype of three categories|give tables of 3 or 4"):
        score_test(np.ones(shape, dtype=int), PLAIN, test)


def test_undefined_is_nan():
    monomorphic = np.array([[[40, 60], [0, 0], [0, 0]], [[0, 0], [0, 0], [0, 0]]])
    for test in TESTS:
        scores = score_test(monomorphic, PLAIN, test)
        assert np.isnan(scores.p_value).all()
        assert np.isnan(scores.statistic).all()


def test_missing_row_takes_no_part():
    counts = tables(8)
    with_missing = np.concatenate([counts, np.array([[[30, 70]]]).repeat(6, axis=0)], axis=1)
    for test in TESTS:
        plain = score_test(counts, PLAIN, test).statistic
        np.testing.assert_allclose(score_test(with_missing, unrandomized((4, 2)), test).statistic, plain, rtol=1e-9)


def test_the_interval_leaves_out_one_where_the_trend_test_rejects():
    _, kernel, _ = mechanism(3, "auto", variants=10, epsilon=1.5)
    counts = null_counts(kernel, 1000, 0.05, 0.3, 3000, seed=12)
    p = score_test(counts, kernel, "trend", tail=False).p_value
    odds = odds_ratios(counts, kernel)
    assert not np.isnan(odds.ratio).any()
    differ = ((odds.low > 1) | (odds.high < 1)) != (p < 0.05)
    # intervals that would be empty become everything: this is rare, and it can only raise coverage
    assert differ.mean() < 0.005
    assert np.all((odds.low[differ] == 0) & np.isinf(odds.high[differ]))
    # noise decides on most frequencies here, and the median of all ratios is where the truth is
    assert np.mean(np.isinf(odds.high)) > 0.3
    assert 0.8 < np.median(odds.ratio) < 1.25


def test_odds_ratio_intervals_cover():
    _, kernel, _ = mechanism(3, "auto", variants=10, epsilon=1.5)
    frequency = np.array([0.3, 0.4])
    genotypes = np.stack([(1 - frequency) ** 2, 2 * frequency * (1 - frequency), frequency**2])
    law = kernel.forward((genotypes * [0.6, 0.4])[None]).ravel()
    counts = np.random.default_rng(10).multinomial(20_000, law / law.sum(), size=4000).reshape(-1, 3, 2)
    odds = odds_ratios(counts, kernel)
    true = (0.4 / 0.6) / (0.3 / 0.7)
    covered = np.mean((odds.low <= true) & (true <= odds.high))
    # 5 standard errors of 4000 draws (0.0172) and 0.5 % for the delta method; false alarm below 6e-7
    assert abs(covered - 0.95) < 0.0172 + 0.005
    np.testing.assert_allclose([np.mean(odds.controls), np.mean(odds.cases)], frequency, atol=0.004)


@pytest.mark.parametrize("test", TESTS)
def test_chi_squared_is_estimated_where_noise_leaves_a_genotype_or_a_status_nobody(test):
    """Rounding made variances of such contrasts negative, and matrices of them singular."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        rows, n, (g, s) = 3 + seed % 2, int(rng.choice([4, 12, 200])), rng.choice([0.02, 0.3, 1.0], 2)
        counts = rng.multinomial(n, rng.dirichlet(np.full(2 * rows, 0.3)), size=3).reshape(3, rows, 2)
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            estimate = association_chi_squared(counts, EffectKernel((rows, 2), [[1.0, s], [g, g * s]]), test)
        assert np.all((estimate >= 0) & (estimate <= n * (1 + (test == "genotypic"))))


def test_chi_squared_estimate_is_centred_on_the_truth():
    _, kernel, _ = mechanism(3, "auto", variants=4, epsilon=1.5)
    true = np.array([[[700, 300], [420, 280], [130, 170]]])
    law = kernel.forward(true / 2000).ravel()
    counts = np.random.default_rng(11).multinomial(2000, law / law.sum(), size=4000).reshape(-1, 3, 2)
    for test in TESTS:
        target = score_test(true, PLAIN, test).statistic[0]
        estimates = association_chi_squared(counts, kernel, test)
        # sampling adds one expected unit a degree of freedom; the rest is Monte Carlo error and curvature
        assert np.mean(estimates) == pytest.approx(target, rel=0.1)
        naive = naive_score_test(counts, test).statistic
        assert np.mean(np.abs(naive - target)) > 1.5 * np.mean(np.abs(estimates - target))


@pytest.mark.slow
@pytest.mark.parametrize("variants", [1, 2, 55])
def test_inflation_is_seldom_seen_where_there_is_none(variants):
    rng = np.random.default_rng(variants)
    statistics = rng.chisquare(1, (4000, variants))
    chances = np.array([inflation_chance(statistic, 1) for statistic in statistics])
    # 1 % of 4000, 5 standard errors: false alarm 6e-7; the middle of two is not quite that of an odd number
    assert abs(np.mean(chances <= 0.01) - 0.01) < 5 * np.sqrt(0.01 * 0.99 / 4000) + 0.002
    assert variants < 55 or all(about_inflation(42.0 * statistic, 1) for statistic in statistics[:200])


def test_a_genotype_that_nobody_has_takes_no_degree_of_freedom():
    for absent in range(3):
        counts = tables(21)
        counts[:, absent] = 0
        there = np.delete(counts, absent, axis=1)
        pearson = [chi2_contingency(t, correction=False) for t in there]
        scores = score_test(counts, PLAIN, "genotypic")
        assert scores.df.tolist() == [1] * 6 and sum(scores.notes.values()) == 6
        np.testing.assert_allclose(scores.statistic, [x.statistic for x in pearson], rtol=1e-6)
        np.testing.assert_allclose(
            score_test(counts, PLAIN, "genotypic", tail=False).p_value, [x.pvalue for x in pearson], rtol=1e-5
        )
        # a single person is enough for the genotype to be there
        counts[:, absent, 1] = 1
        assert score_test(counts, PLAIN, "genotypic").df.tolist() == [2] * 6
    # some variants with, others without, in one batch
    mixed = tables(22)
    mixed[::2, 2] = 0
    scores = score_test(mixed, PLAIN, "genotypic")
    assert scores.df.tolist() == [1, 2] * 3
    for k in range(6):
        alone = score_test(mixed[k : k + 1], PLAIN, "genotypic")
        assert scores.statistic[k] == pytest.approx(alone.statistic[0], rel=1e-9)
        assert scores.p_value[k] == pytest.approx(alone.p_value[0], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("rare", [0.0, 0.0004, 0.01, 0.03])
@pytest.mark.parametrize("method", ["auto", "kronecker"])
def test_the_level_where_a_genotype_may_be_absent(rare, method):
    """Whether it is decides on the degrees of freedom, and the same records decide it."""
    _, kernel, _ = mechanism(3, method, variants=4, epsilon=3.0)
    law = kernel.forward(np.outer([0.75 - rare, 0.25, rare], [0.7, 0.3])[None]).ravel()
    counts = np.random.default_rng(5).multinomial(2500, law / law.sum(), size=20_000).reshape(-1, 3, 2)
    scores = score_test(counts, kernel, "genotypic")
    fewer = scores.df == 1
    assert fewer.mean() > 0.9 if rare < 0.001 else (fewer.mean() < 0.9)
    for level, bias in ((0.05, 0.05), (0.001, 0.25)):
        # 5 standard errors of 20,000 draws (false alarm 6e-7 each), and the asymptotic test's own relative error
        assert abs(np.mean(scores.p_value <= level) - level) < 5 * np.sqrt(level / 20_000) + bias * level
    assert abs(np.mean(scores.p_value[fewer] <= 0.05) - 0.05) < 5 * np.sqrt(0.05 / max(fewer.sum(), 1)) + 0.0025


FARTHEST = np.log(1e4)
GOALS = {"low": float(ndtri(0.975)), "ratio": 0.0, "high": -float(ndtri(0.975))}
# ln ψ this far on either side of a limit has to lie on different sides of the goal
NEAR = 1e-5
SETTINGS = 30


def slow_z(log_ratio, observed, n, p, fit):
    """z(ψ) of one table as the module describes it: roots by Brent's method, P inverted as a matrix."""
    genotypes, shares = fit.rows[0], fit.columns[0]
    x = np.arange(genotypes.size) / (genotypes.size - 1)

    def tilted(tilt):
        raw = np.exp(np.log(genotypes) + tilt * 2 * x)
        return raw / raw.sum()

    def mean(at):
        return shares[0] * expit(at) + shares[1] * expit(at + log_ratio) - genotypes @ x

    at = brentq(mean, -60, 60, xtol=1e-13)
    frequency = expit([at, at + log_ratio])
    each = [tilted(brentq(lambda t, f=f: tilted(t) @ x - f, -60, 60, xtol=1e-13)) for f in frequency]
    a, b, psi = shares * frequency, shares * expit([-at, -at - log_ratio]), np.exp(log_ratio)
    gradient = np.stack([a[1] * (1 - x) - psi * b[1] * x, b[0] * x - psi * a[0] * (1 - x)], axis=1) / (1 + psi)
    table = shares * np.stack(each, axis=1)
    if fit.beside is not None:
        table = np.concatenate([(1 - fit.beside.sum()) * table, fit.beside[0]])
        gradient = np.concatenate([gradient, np.zeros_like(fit.beside[0])])
    weights, law = np.linalg.solve(p, gradient.ravel()), table.ravel() @ p
    return np.sqrt(n / (law @ weights**2 - (law @ weights) ** 2)) * (observed.ravel() @ weights)


def setting(rng, rows):
    """A kernel and a randomized table of 300 to a million people: rare alleles, strong effects, much noise and none."""
    while True:
        genotype, status = rng.choice([1, 0.95, 0.8, 0.5, 0.25]), rng.choice([1, 0.9, 0.7, 0.4])
        joint = genotype * status * (1 if genotype == status == 1 else rng.uniform(0.6, 1))
        kernel = EffectKernel((rows, 2), [[1, status], [genotype, joint]])
        if kernel.matrix().min() >= 0:
            break
    n, f = int(np.exp(rng.uniform(np.log(300), np.log(1e6)))), np.exp(rng.uniform(np.log(0.002), np.log(0.5)))
    inbreeding, cases = rng.uniform(0, 0.1), rng.uniform(0.05, 0.6)
    frequency = expit(logit(f) + np.array([0, rng.choice([0, 0.3, -0.3, 2, -2])]))
    mixed = 2 * frequency * (1 - frequency) * (1 - inbreeding)
    shares = np.stack([1 - frequency - mixed / 2, mixed, frequency - mixed / 2])
    if rows == 4:
        shares = np.concatenate([0.95 * shares, [[0.05, 0.05]]])
    law = np.maximum(kernel.forward(shares * [1 - cases, cases]).ravel(), 0)
    return kernel, rng.multinomial(n, law / law.sum()).reshape(rows, 2)


@pytest.mark.parametrize("rows", [3, 4])
def test_limits_are_where_a_slow_score_test_crosses(rows):
    rng = np.random.default_rng(rows)
    settings = [setting(rng, rows) for _ in range(SETTINGS)]
    counts = np.array([c for _, c in settings])
    kernel = EffectKernel((rows, 2), np.array([k.eigenvalues for k, _ in settings]))
    odds, inside = odds_ratios(counts, kernel), 0
    for k, (own, table) in enumerate(settings):
        n = int(table.sum())
        arguments = table / n, n, own.matrix(), independence_fit(table[None] / n, own, 3)
        first, last = (slow_z(end, *arguments) for end in (-FARTHEST, FARTHEST))
        # where no ratio fits, the interval is everything
        everything = last >= GOALS["low"] or first <= GOALS["high"]
        for name, goal in GOALS.items():
            limit = float(getattr(odds, name)[k])
            if everything and name != "ratio":
                assert limit == (0 if name == "low" else np.inf), (name, k)
            elif limit == 0:
                assert first <= goal, (name, k)
            elif limit == np.inf:
                assert last >= goal, (name, k)
            else:
                assert slow_z(np.log(limit) - NEAR, *arguments) > goal > slow_z(np.log(limit) + NEAR, *arguments), (
                    name,
                    k,
                )
                inside += 1
    # neither limits that exist nor those at 0 and infinity are rare here
    assert 3 * SETTINGS / 5 <= inside <= 3 * SETTINGS * 9 / 10


@pytest.mark.parametrize("rows", [3, 4])
def test_one_kernel_for_all_tables_is_a_batch_of_copies_of_it(rows):
    rng = np.random.default_rng(10 + rows)
    kernel, _ = setting(rng, rows)
    true = rng.dirichlet(np.full(2 * rows, 3.0), SETTINGS).reshape(-1, rows, 2)
    law = np.maximum(kernel.forward(true).reshape(SETTINGS, -1), 0)
    counts = rng.multinomial(3000, law / law.sum(axis=1, keepdims=True)).reshape(true.shape)
    copies = EffectKernel((rows, 2), np.broadcast_to(kernel.eigenvalues, (SETTINGS, 2, 2)))
    for one, each in ((kernel, copies), (kernel, copies.part(np.arange(1)))):
        tables = counts[: each.batch[0]]
        together, apart = odds_ratios(tables, one), odds_ratios(tables, each)
        for name in (*GOALS, "cases", "controls"):
            np.testing.assert_allclose(getattr(together, name), getattr(apart, name), rtol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_crossings_of_falling_functions_are_found_on_either_side(seed):
    rng = np.random.default_rng(seed)
    roots, steep = rng.uniform(-5, 5, 200), 10.0 ** rng.uniform(-2, 2, 200)
    found = crossings(lambda x, k: steep[k] * (roots[k] - x), 200, [1.0, 0.0, -1.0], 3.0, 1e-6)
    for at, goal in zip(found, (1.0, 0.0, -1.0), strict=True):
        exact = roots - goal / steep
        np.testing.assert_allclose(at, np.where(np.abs(exact) < 3, exact, np.sign(exact) * np.inf), atol=2e-6)
