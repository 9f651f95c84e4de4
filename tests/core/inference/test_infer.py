"""Tests on randomized records against classical tests, generic optimisers and plain simulation."""

import json
from dataclasses import replace
from time import process_time

import cvxpy
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import binom, chi2, chi2_contingency, chisquare, norm

from optrr import Constraints, Counts, Domain, InvalidInput, design, estimate
from optrr.core.inference import likelihood_ratio
from optrr.core.inference.associations import ASSOCIATIONS, Independence, Trend, padded_null
from optrr.core.inference.groups import goodness_of_fit, homogeneity, naive_pearson
from optrr.core.inference.likelihood_ratio import LikelihoodRatio, likeliest_product
from optrr.core.inference.nullfit import independence_fit, score_tests, trend_contrast
from optrr.core.inference.power_analysis import IntervalWidths, association_alternative, power, required_records
from optrr.core.inference.result import TestResult
from optrr.core.inference.testing import Bootstrap, test
from optrr.core.mechanisms.kernel import MatrixKernel, ProductKernel, SingularMarginal, unrandomized

DOMAIN = Domain.of({"g": 3, "s": 2, "c": 4})
PAIR = DOMAIN.subset(["g", "s"])
NULL = np.outer([0.55, 0.35, 0.10], [0.7, 0.3])
EFFECT = np.array([[0.40, 0.13], [0.22, 0.12], [0.06, 0.07]])
DESIGNS = {"kronecker": {"method": "kronecker"}, "optimal": {}, "pairs": {"constraints": Constraints(preserve="pairs")}}


@pytest.fixture(scope="module", params=DESIGNS)
def mechanism(request):
    return design(DOMAIN, [1.0, 1.0, 1.2], **DESIGNS[request.param]).mechanism


@pytest.fixture(scope="module")
def pairs():
    return design(DOMAIN, [1.0, 1.0, 1.2], constraints=Constraints(preserve="pairs")).mechanism


def tables(kernel, pi, n, runs, seed):
    return (
        np.random.default_rng(seed).multinomial(n, kernel.expected(pi).ravel(), size=runs).reshape(runs, *kernel.sizes)
    )


def test_the_null_fit_is_the_generic_optimum(mechanism):
    kernel = mechanism.kernel(("g", "s"))
    p = kernel.matrix()
    for t in tables(kernel, EFFECT, 3000, 4, 1):
        observed = t.ravel() / t.sum()

        def loss(x, observed=observed):
            a = np.exp([*x[:2], 0])
            b = np.exp([x[2], 0])
            return -observed @ np.log(p.T @ np.outer(a / a.sum(), b / b.sum()).ravel())

        best = minimize(
            loss, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-15, "maxiter": 9999}
        )
        fit = independence_fit(t[None] / t.sum(), kernel)
        reached = -observed @ np.log(p.T @ np.outer(fit.rows[0], fit.columns[0]).ravel())
        assert reached <= best.fun + 1e-12


def test_all_contrasts_make_pearson_against_the_fitted_expectation(mechanism):
    """Rao's score statistic of a saturated alternative is Σ (observed − expected)²/expected at the null fit."""
    kernel = mechanism.kernel(("g", "s"))
    t = tables(kernel, EFFECT, 5000, 20, 2)
    scores = score_tests(t, kernel)
    expected = 5000 * scores.fit.expected
    np.testing.assert_allclose(scores.statistic, ((t - expected) ** 2 / expected).sum(axis=(1, 2)), rtol=1e-8)
    assert scores.df == 2
    np.testing.assert_allclose(scores.p_value, chi2.sf(scores.statistic, 2))


def test_without_randomization_they_are_the_classical_tests():
    table = np.array([[120, 60], [80, 75], [15, 22]])
    n = table.sum()
    kernel = unrandomized((3, 2))
    counts = Counts(PAIR, table)
    pearson = chi2_contingency(table, correction=False)
    result = test(counts, kernel, calibration="asymptotic")
    assert (result.statistic, result.p_value) == pytest.approx((pearson.statistic, pearson.pvalue))
    assert test(counts, kernel, "genotypic").statistic == pytest.approx(pearson.statistic)
    g = chi2_contingency(table, lambda_="log-likelihood", correction=False)
    assert test(counts, kernel, "likelihood-ratio").statistic == pytest.approx(g.statistic, rel=1e-6)
    # Cochran–Armitage: n times the squared correlation
    x, y = np.repeat(np.argwhere(table >= 0), table.ravel(), axis=0).T
    assert test(counts, kernel, "trend").statistic == pytest.approx(n * np.corrcoef(x, y)[0, 1] ** 2)
    # which is the difference of allele frequencies over the variance that people's genotypes give it
    difference = (x[y == 1].mean() - x[y == 0].mean()) / 2
    variance = x.var() / 4 * (1 / np.sum(y) + 1 / np.sum(1 - y))
    assert test(counts, kernel, "trend").statistic == pytest.approx(difference**2 / variance)
    flat = chisquare(table.ravel(), 6 * [n / 6])
    fit = goodness_of_fit(counts, kernel, np.full((3, 2), 1 / 6))
    assert (fit.statistic, fit.p_value, fit.df) == pytest.approx((flat.statistic, flat.pvalue, 5))


def test_the_sign_of_a_trend_and_its_scores(pairs):
    rising = Counts(PAIR, tables(pairs.kernel(("g", "s")), EFFECT, 100_000, 1, 3)[0])
    result = test(rising, pairs, "trend")
    assert result.effect > 4 and result.effect**2 == pytest.approx(result.statistic)
    # scores count up to shift and scale only
    assert test(rising, pairs, "trend", scores=([10, 8, 6], [1, 3])).effect == pytest.approx(-result.effect)


def test_a_public_status_beside_a_randomized_genotype():
    genotype = design({"g": 3}, 1.0).mechanism.kernel("g")
    kernel = ProductKernel([genotype, unrandomized((2,))])
    t = tables(kernel, NULL, 4000, 2000, 4)
    scores = score_tests(t, kernel, trend_contrast([0, 1, 2], [0, 1]))
    assert binom.cdf(np.count_nonzero(scores.p_value < 0.05), 2000, 0.05) > 1e-5
    assert binom.sf(np.count_nonzero(scores.p_value < 0.05), 2000, 0.05) > 1e-5


@pytest.mark.parametrize("n", [1000, 100_000])
def test_the_level_holds_where_pearson_on_randomized_counts_fails(mechanism, n):
    """2000 tables: 3.5–6.5 % is 3.1 standard deviations, a false alarm in 500 per case for an exact test; seeds fixed."""
    kernel = mechanism.kernel(("g", "s"))
    t = tables(kernel, NULL, n, 2000, 5)
    for contrasts in (None, trend_contrast([0, 1, 2], [0, 1])):
        assert 0.035 < (score_tests(t, kernel, contrasts).p_value < 0.05).mean() < 0.065
    one, two = kernel.eigenvalues[1, 0] * kernel.eigenvalues[0, 1], kernel.eigenvalues[1, 1]
    wrong = (naive_pearson(t)[2] < 0.05).mean()
    if abs(two - one) < 1e-9:
        assert 0.035 < wrong < 0.065  # Kronecker: the one case where it is right
    elif n == 100_000:
        assert wrong > 0.5


def test_the_warning_example_of_naive_pearson():
    """As its docstring says: 2000 tables of 6 × 3; the naive share is 93 % with standard deviation 0.6 %."""
    kernel = design({"a": 6, "b": 3, "c": 4}, 2.0).mechanism.kernel(("a", "b"))
    a, b = (1 / np.arange(1, r + 1) for r in (6, 3))
    t = tables(kernel, np.outer(a / a.sum(), b / b.sum()), 10_000, 2000, 1)
    assert (naive_pearson(t)[2] < 0.05).mean() == pytest.approx(0.93, abs=0.03)
    assert 0.035 < (score_tests(t, kernel).p_value < 0.05).mean() < 0.065


def test_power_is_what_simulation_finds(mechanism):
    """4000 tables: standard deviation at most 0.8 %; the noncentral limit is good to 1.5 % here."""
    kernel = mechanism.kernel(("g", "s"))
    for statistic in (Independence(kernel), Trend(kernel)):
        effect = association_alternative(EFFECT, statistic)
        n = required_records(effect, 0.8)
        assert power(effect, n) >= 0.8 > power(effect, int(0.98 * n))
        rejected = (statistic.tested(tables(kernel, EFFECT, n, 4000, 10)).p_value < 0.05).mean()
        assert rejected == pytest.approx(0.8, abs=0.05)
    none = association_alternative(NULL, Independence(kernel))
    assert power(none, 10**7) == pytest.approx(0.05, abs=1e-6)
    with pytest.raises(InvalidInput, match="no effect to detect"):
        required_records(none)
    with pytest.raises(InvalidInput, match="randomize less"):
        required_records(replace(effect, noncentrality=1e-17))


def test_records_for_a_width_make_intervals_of_that_width(pairs):
    widths = IntervalWidths(PAIR, pairs, EFFECT)
    n = widths.records(0.08)
    assert widths.widest(n) <= 0.08 < widths.widest(n - 1)
    kernel = pairs.kernel(("g", "s"))
    made = [estimate(Counts(PAIR, t), pairs) for t in tables(kernel, EFFECT, n, 8, 15)]
    assert np.mean([np.max(e.upper - e.lower) for e in made]) == pytest.approx(0.08, rel=0.04)
    # far from the ends of the range, twice the normal quantile times the standard error
    error = np.sqrt(kernel.exact_variance(kernel.expected(EFFECT), n)).max()
    assert 2 * norm.isf(0.025) * error == pytest.approx(0.08, rel=0.02)
    assert IntervalWidths(PAIR, pairs, EFFECT, simultaneous=True).widest(n) > 0.09


def expected_widest(domain, mechanism, truth, n, **wished):
    """The widest interval, one report after another given to the kind of report that lacks most."""
    lacking = n * mechanism.kernel(domain.names).expected(truth)
    counts = np.floor(lacking).astype(int)
    while counts.sum() < n:
        counts[np.unravel_index(np.argmax(lacking - counts), counts.shape)] += 1
    table = estimate(Counts(domain, counts), mechanism, **wished)
    return np.max(table.upper - table.lower)


def kept_width(domain, mechanism, truth, width, **wished):
    """Check what `IntervalWidths.records` promises."""
    widths = IntervalWidths(domain, mechanism, truth, **wished)
    n = widths.records(width)
    assert expected_widest(domain, mechanism, truth, n, **wished) == widths.widest(n) <= width
    assert n == 2 or expected_widest(domain, mechanism, truth, n - 1, **wished) > width
    return n


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "truth", "confidence", "width"),
    [
        (4.56, (0.0069, 0.0106, 0.0579, 0.9245, 0.0001), 0.9, 0.146),
        (2.28, (0.3, 0.7), 0.95, 0.12),
        (2.28, (0.3, 0.7), 0.95, 0.4),
    ],
)
def test_widths_that_jump_are_kept(epsilon, truth, confidence, width):
    """Widths fall by steps, so that a search for one just below the wanted width may never end."""
    made = design({"a": len(truth)}, {"a": epsilon}, method="kronecker")
    kept_width(made.mechanism.domain, made.mechanism, np.array(truth), width, confidence=confidence)


def test_a_width_is_refused_only_where_the_largest_survey_does_not_keep_it(pairs):
    """The ends of an interval are searched to about 3e-5, so that no number of records makes a narrower one."""
    widths = IntervalWidths(PAIR, pairs, EFFECT)
    least = widths.widest(10**15)
    assert least <= 1e-4 and widths.widest(widths.records(1e-4)) <= 1e-4
    with pytest.raises(InvalidInput, match=r"10\^15 records do not"):
        widths.records(least / 10)


@pytest.mark.parametrize("name", ASSOCIATIONS)
def test_results_can_be_written(pairs, name):
    counts = Counts(PAIR, tables(pairs.kernel(("g", "s")), NULL, 5000, 1, 11)[0])
    read = json.loads(json.dumps(test(counts, pairs, name).summary()))
    assert {"statistic", "df", "p_value", "n", "reliable_down_to", "target"} <= set(read)
    assert read["n"] == 5000 and 0 <= read["p_value"] <= 1


def test_bad_requests_are_refused(pairs):
    counts = Counts(PAIR, np.array([[5, 4], [3, 2], [1, 1]]))
    with pytest.raises(InvalidInput, match="choose among independence"):
        test(counts, pairs, "wald")
    with pytest.raises(InvalidInput, match="name two"):
        test(counts.marginal("g"), pairs)
    with pytest.raises(InvalidInput, match="name the genotype first"):
        test(counts.marginal(["s", "g"]), pairs, "genotypic")
    with pytest.raises(InvalidInput, match="leave the scores out"):
        test(counts, pairs, scores=([0, 1, 2], [0, 1]))
    with pytest.raises(InvalidInput, match="all equal"):
        test(counts, pairs, "trend", scores=([0, 0, 0], [0, 1]))
    for wrong in ([0, 1, np.nan], [0, 1, np.inf], ["x", "y", "z"], [[0, 1, 2]]):
        with pytest.raises(InvalidInput, match=r"'g' has 3 categories; give a finite score|of 'g' must be numbers"):
            test(counts, pairs, "trend", scores=(wrong, [0, 1]))
    with pytest.raises(InvalidInput, match="give one of auto"):
        test(counts, pairs, calibration="exact")
    with pytest.raises(InvalidInput, match="of these attributes"):
        goodness_of_fit(counts, unrandomized((2, 3)), np.full((3, 2), 1 / 6))
    with pytest.raises(InvalidInput, match="of these attributes"):
        homogeneity([counts, counts], unrandomized((2, 2)))
    effect = association_alternative(EFFECT, Independence(pairs.kernel(("g", "s"))))
    with pytest.raises(InvalidInput, match="``n``: -5"):
        power(effect, -5)
    for level in (0, 1, np.nan):
        with pytest.raises(InvalidInput, match="alpha"):
            power(effect, 100, level)
    with pytest.raises(InvalidInput, match="leave that table out of the batch"):
        score_tests(np.zeros((1, 3, 2)), pairs.kernel(("g", "s")))
    for wrong in (np.nan, -1.0, np.inf):
        with pytest.raises(InvalidInput, match="negative or non-finite"):
            score_tests(np.full((2, 3, 2), [[[wrong, 5]]]), pairs.kernel(("g", "s")))
    with pytest.raises(InvalidInput, match="at least two"):
        homogeneity([counts], pairs)
    with pytest.raises(InvalidInput, match="sum to 1"):
        goodness_of_fit(counts, pairs, np.ones((3, 2)))
    hidden = design({"x": 2, "y": 2, "z": 2}, 0.5).mechanism
    with pytest.raises(SingularMarginal, match="preserve='pairs'"):
        test(Counts(hidden.domain.subset(["x", "y"]), np.array([[5, 4], [3, 2]])), hidden)


@pytest.mark.parametrize("name", ["independence", "trend", "likelihood-ratio"])
def test_where_all_people_are_alike_nothing_depends_on_it(name):
    """Only rounding may tell one drawn table from another: p-values of these were 0.00001 and 0.00002."""
    for epsilon, table in ((50.0, [[12, 3, 5], [0, 0, 0], [0, 0, 0]]), (12.0, [[50, 0, 0], [0, 0, 0], [0, 0, 0]])):
        mechanism = design({"a": 3, "b": 3}, epsilon, method="kronecker").mechanism
        result = test(Counts(mechanism.domain, np.array(table)), mechanism, name, calibration=Bootstrap(random_state=1))
        assert result.p_value == 1 and result.calibration == "bootstrap"


@pytest.mark.parametrize("epsilon", [1, 4, 8])
def test_no_result_contradicts_itself(epsilon):
    """Reliable is one comparison, and what is not reliable says why; dense, sparse, near and far tables."""
    domain = Domain.of({"g": 3, "s": 2})
    rng = np.random.default_rng(epsilon)
    for made in (design(domain, float(epsilon)), design(domain, float(epsilon), method="kronecker")):
        for n in (100, 20_000):
            for pi in (NULL, EFFECT):
                counts = Counts(domain, tables(made.mechanism.kernel(("g", "s")), pi, n, 1, epsilon)[0])
                for name in ("independence", "trend"):
                    for calibration in (Bootstrap(random_state=rng), "asymptotic"):
                        result = test(counts, made.mechanism, name, calibration=calibration)
                        assert result.reliable == (result.p_value >= result.reliable_down_to)
                        assert result.reliable or result.warnings


def test_categories_that_nobody_has_do_no_harm_where_the_mechanism_fills_them():
    """A true cell expects no record, every report many: χ² is as good as anywhere, and says so."""
    truth = np.array([[0.48, 0.17], [0.22, 0.13], [0.0, 0.0]])
    made = design({"g": 3, "s": 2}, 1.0)
    result = test(Counts(PAIR, tables(made.mechanism.kernel(("g", "s")), truth, 12_000, 1, 1)[0]), made.mechanism)
    assert (
        0 < result.p_value < 1e-4
        and result.reliable
        and result.p_value >= result.reliable_down_to
        and not result.warnings
    )


def test_what_is_too_large_is_refused_at_once():
    """Ten thousand categories: 9999 contrasts would be matrices of gigabytes."""
    domain = Domain.of({"a": 10_000, "b": 2})
    counts = Counts(domain, np.ones((10_000, 2), dtype=int))
    before = process_time()
    for name in ("independence", "likelihood-ratio"):
        with pytest.raises(InvalidInput, match=r"test '(trend|independence)'"):
            test(counts, unrandomized((10_000, 2)), name)
    assert process_time() - before < 0.5


def test_a_trend_of_many_categories_is_a_sum_over_records():
    """More categories than can be simulated: the χ² limit of one contrast, with Cramér's bound on its tail."""
    sizes = (60, 40)
    domain = Domain.of({"a": 60, "b": 40})
    kernel = unrandomized(sizes)
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(0, 60, 5000), rng.integers(0, 40, 5000)])
    table = np.bincount(40 * codes[0] + codes[1], minlength=2400).reshape(sizes)
    result = test(Counts(domain, table), kernel, "trend")
    assert result.statistic == pytest.approx(5000 * np.corrcoef(codes)[0, 1] ** 2)
    assert result.calibration == "asymptotic" and result.reliable and not result.warnings


@pytest.mark.parametrize(("calibration", "said"), [("asymptotic", " 3 df, "), ("bootstrap", "4.0000, p")])
def test_degrees_of_freedom_are_said_where_the_p_value_is_made_with_them(calibration, said):
    made = TestResult("conditional-independence", 4.0, 3, 0.26, 100, calibration=calibration)
    assert said in made.headline()
    assert ("df" in made.headline()) == (calibration == "asymptotic")


def test_both_fits_are_the_generic_optima(mechanism):
    """Free by an interior-point method, null by a simplex search over softmax margins from several starts."""
    kernel = mechanism.kernel(("g", "s"))
    p = kernel.matrix()
    t = tables(kernel, EFFECT, 300, 6, 6)
    ratios = LikelihoodRatio(kernel).tested(t)
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
    together = LikelihoodRatio(kernel).tested(t)
    alone = [LikelihoodRatio(kernel).tested(x[None]) for x in t]
    np.testing.assert_allclose(together.statistic, [a.statistic[0] for a in alone], atol=1e-9)
    near = [LikelihoodRatio(kernel).clear(a.fit, t[:1].sum(axis=(1, 2)))[0] for a in alone]
    np.testing.assert_array_equal(LikelihoodRatio(kernel).clear(together.fit, t.sum(axis=(1, 2))), near)
    np.testing.assert_allclose(together.p_value, chi2.sf(together.statistic, 2))


def test_large_batches_are_cut_into_pieces(monkeypatch):
    kernel = design({"g": 3, "s": 2}, 1.0).mechanism.kernel(("g", "s"))
    t = tables(kernel, NULL, 400, 20, 4)
    whole = LikelihoodRatio(kernel).tested(t)
    monkeypatch.setattr(likelihood_ratio, "HELD", 7 * 36)
    np.testing.assert_allclose(LikelihoodRatio(kernel).tested(t).statistic, whole.statistic, atol=1e-9)


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
    near = test(few, mechanism, "likelihood-ratio", calibration=Bootstrap(random_state=1))
    assert near.calibration == "bootstrap" and 0 < near.relative_error < 0.2
    assert any("measured" in line for line in near.warnings)
    again = test(few, mechanism, "likelihood-ratio", calibration=Bootstrap(random_state=1))
    assert again.p_value == near.p_value
    clear = test(many, mechanism, "likelihood-ratio")
    assert clear.calibration == "asymptotic" and clear.reliable and not clear.warnings
    asked = test(few, mechanism, "likelihood-ratio", calibration="asymptotic")
    assert asked.calibration == "asymptotic" and not asked.reliable and "near 0" in asked.warnings[0]


def test_an_extreme_statistic_says_that_the_bootstrap_cannot_follow():
    made = design(DOMAIN, 1.0, method="kronecker").mechanism
    strong = np.array([[0.5, 0.0], [0.0, 0.4], [0.0, 0.1]])
    counts = Counts(PAIR, tables(made.kernel(("g", "s")), strong, 3000, 1, 1)[0])
    result = test(counts, made, "likelihood-ratio", calibration=Bootstrap(99, 2))
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
    drawn = {"calibration": Bootstrap(19, rng)}
    results = [test(Counts(domain, x), kernel, "likelihood-ratio", **drawn) for x in t]
    assert all(f.calibration == "bootstrap" for f in results)
    rejected = sum(f.p_value <= 0.05 for f in results)
    assert binom.cdf(rejected, 300, 0.05) > 1e-5 and binom.sf(rejected - 1, 300, 0.05) > 1e-5
    chi_square = int(np.count_nonzero(LikelihoodRatio(kernel).tested(t).p_value < 0.05))
    assert binom.cdf(chi_square, 300, 0.05) < 1e-3


def test_padding_adds_half_a_record_and_keeps_what_is_certain():
    counts = np.array([[60.0, 20.0], [30.0, 10.0], [0.0, 0.0]])
    kernel = unrandomized((3, 2))
    fit = likeliest_product(counts[None] / 120, kernel)
    padded = padded_null(fit, np.array([120.0]), kernel)
    # unrandomized, an even margin would need (variance of this one)/(variance of an even one) of the records
    worth = 120 * (2 / 3) / (1 - np.sum(fit.rows**2))
    np.testing.assert_allclose(padded.rows[0], (fit.rows[0] * worth + 0.5) / (worth + 1.5), atol=1e-8)
    certain = padded_null(
        likeliest_product(np.array([[[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]]), kernel), np.array([120.0]), kernel
    )
    np.testing.assert_allclose(certain.rows[0], [1, 0, 0], atol=1e-7)


def test_tables_it_cannot_take():
    domain = Domain.of({"a": 40, "b": 30})
    counts = Counts(domain, np.ones((40, 30), dtype=int))
    with pytest.raises(InvalidInput, match="at most 1024"):
        test(counts, unrandomized((40, 30)), "likelihood-ratio")
    with pytest.raises(InvalidInput, match="at least 1"):
        Bootstrap(0)


def test_a_general_matrix():
    rng = np.random.default_rng(4)
    p = 0.6 * np.eye(6) + 0.4 * rng.dirichlet(np.ones(6), 6)
    kernel = MatrixKernel(p, (3, 2))
    drawn = tables(kernel, NULL, 20_000, 2000, 5)
    ratios = LikelihoodRatio(kernel).tested(drawn)
    # 2000 tables: 1e-5 either way
    assert LikelihoodRatio(kernel).clear(ratios.fit, drawn.sum(axis=(1, 2))).all()
    assert 1e-5 < binom.cdf(np.count_nonzero(ratios.p_value < 0.05), 2000, 0.05) < 1 - 1e-5
