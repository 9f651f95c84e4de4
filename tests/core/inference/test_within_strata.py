"""Independence within strata by likelihood ratio, beside plain data's, other optimisers' and its own level and power."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import chi2_contingency
from statsmodels.api import GLM, families

from optrr import Domain, design
from optrr.analysis.loglinear.comparing import stratified_test, within_strata
from optrr.analysis.loglinear.fitting import TableFits
from optrr.analysis.loglinear.within import MOST_CELLS, StrataRatio
from optrr.core.inference.simulation import Simulation, simulated_p_values
from optrr.core.records.counts import Counts

SHAPES = [(2, 2, 2), (2, 3, 2), (3, 3, 2), (2, 2, 5)]


def made(shape, epsilons, **wishes):
    domain = Domain.of(dict(zip("abc", shape, strict=True)))
    return domain, design(domain, epsilons, **wishes).mechanism


def ratio_of(name, shape, mechanism):
    test = within_strata(name, Domain.of(dict(zip("abc", shape, strict=True))), mechanism)
    assert test.ratio is not None
    return test


def statistic(test, table):
    tables = table[None].astype(float)
    return float(test.ratio.tested(tables, test.null.fitted(tables))[0])


def independent(shape, rng):
    """True shares of attributes that are independent within strata."""
    rows, columns = (rng.dirichlet(np.ones(r), size=shape[2]).T for r in shape[:2])
    return rng.dirichlet(np.ones(shape[2])) * rows[:, None] * columns[None]


def deviance(table, trend=None):
    """Deviance of a Poisson regression of the counts: a*c + b*c, with a*b or with one product of codes."""
    a, b, c = (axis.ravel() for axis in np.indices(table.shape))
    cells = [(a[:, None] == i) & (c[:, None] == k) for i in range(table.shape[0]) for k in range(table.shape[2])]
    cells += [(b[:, None] == j) & (c[:, None] == k) for j in range(1, table.shape[1]) for k in range(table.shape[2])]
    if trend is True:
        cells.append((a * b)[:, None])
    elif trend is False:
        cells += [
            (a[:, None] == i) & (b[:, None] == j) for i in range(1, table.shape[0]) for j in range(1, table.shape[1])
        ]
    columns = np.hstack([cell.astype(float) for cell in cells])
    return float(GLM(table.ravel().astype(float), columns, family=families.Poisson()).fit().deviance)


@pytest.mark.parametrize("shape", SHAPES)
def test_of_true_records_it_is_the_likelihood_ratio_of_each_stratum_together(shape):
    rng = np.random.default_rng(shape)
    table = rng.multinomial(800, rng.dirichlet(np.full(np.prod(shape), 3.0))).reshape(shape) + 1
    _, mechanism = made(shape, 30.0)
    parts = [chi2_contingency(table[:, :, k], correction=False, lambda_="log-likelihood") for k in range(shape[2])]
    wanted = sum(part.statistic for part in parts)
    assert statistic(ratio_of("conditional-independence", shape, mechanism), table) == pytest.approx(wanted, abs=0.01)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["common-association", "common-trend"])
def test_of_true_records_a_common_association_gains_what_a_poisson_regression_does(shape, name):
    rng = np.random.default_rng([7, *shape])
    table = rng.multinomial(800, rng.dirichlet(np.full(np.prod(shape), 3.0))).reshape(shape) + 1
    _, mechanism = made(shape, 30.0)
    wanted = deviance(table) - deviance(table, name == "common-trend")
    assert statistic(ratio_of(name, shape, mechanism), table) == pytest.approx(wanted, abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_no_other_optimiser_finds_likelier_tables(seed):
    """Both maxima beside those of a quasi-Newton method on logarithms of the factors, from six starts."""
    rng = np.random.default_rng([3, seed])
    shape = SHAPES[seed % len(SHAPES)]
    _, mechanism = made(shape, rng.uniform(1.0, 3.0, 3).tolist(), method="kronecker")
    kernel = mechanism.kernel(tuple("abc"))
    table = rng.multinomial(3000, kernel.expected(independent(shape, rng)).ravel()).reshape(shape)
    test = ratio_of("conditional-independence", shape, mechanism)
    tables = table[None].astype(float)
    best = test.ratio.likeliest(tables, test.null.fitted(tables))[0]
    matrix, (r_a, r_b, strata) = kernel.matrix(), shape

    def shares(x):
        x = np.clip(x, -300, 300)
        u, v = np.exp(x[: r_a * strata]).reshape(r_a, strata), np.exp(x[r_a * strata :]).reshape(r_b, strata)
        joint = u[:, None] / u.sum(axis=0) * v[None]
        return joint / joint.sum()

    def nats(pi):
        return float(np.sum(table.ravel() * np.log(pi.ravel() @ matrix)))

    starts = rng.normal(size=(6, (r_a + r_b) * strata))
    others = [-minimize(lambda x: -nats(shares(x)), x, method="BFGS").fun for x in starts]
    # the maximum may lie where logarithms have no end, and the method stops a little short of it
    assert nats(best) >= max(others) - 0.02
    assert np.allclose(best, best.sum(axis=1, keepdims=True) * best.sum(axis=0, keepdims=True) / best.sum(axis=(0, 1)))

    def free(x):
        return np.exp(x - x.max()) / np.exp(x - x.max()).sum()

    ends = [-minimize(lambda x: -nats(free(x)), x, method="BFGS").fun for x in rng.normal(size=(3, table.size))]
    assert statistic(test, table) == pytest.approx(max(2 * (max(ends) - nats(best)), 0.0), abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["conditional-independence", "common-association"])
def test_levels_where_records_say_next_to_nothing_of_the_strata(name):
    """Of 400 tests at 5 %, fewer than 6 or more than 37 come out 1 time in 2000; two tests here.

    The records tell as much of each margin as one or two true ones a cell; drawing the score from the nearest margins rejects
    some 12 % of the time there, and was refused.
    """
    shape, rng = (2, 2, 5), np.random.default_rng(33)
    _, mechanism = made(shape, 0.8)
    rows, columns = np.array([0.33, 0.3, 0.4, 0.5, 0.6]), np.array([0.24, 0.2, 0.1, 0.3, 0.5])
    pi = (
        np.array([0.83, 0.1, 0.04, 0.02, 0.01]) * np.stack([rows, 1 - rows])[:, None] * np.stack([columns, 1 - columns])
    )
    law = mechanism.kernel(tuple("abc")).expected(pi).ravel()
    tables = rng.multinomial(20_000, law / law.sum(), size=400).reshape(-1, *shape).astype(float)
    test = ratio_of(name, shape, mechanism)
    fits = test.null.fitted(tables)
    statistics, by_score, _ = test.measured(tables, fits)
    assert not by_score.any() and np.median(test.null.records_worth(fits, tables.sum(axis=(1, 2, 3)))) < 3
    p, _ = simulated_p_values(statistics, test.ratio.draw(tables, fits, rng), Simulation(5, 199))
    assert 6 <= np.sum(p <= 0.05) <= 37


@pytest.mark.parametrize(("n", "epsilon"), [(1000, 0.6), (20_000, 0.6), (1000, 2.5), (20_000, 2.5)])
def test_margins_of_drawn_tables_get_half_a_record_in_every_cell_or_a_tenth_in_all(n, epsilon):
    """Half a record of the few that faint margins are worth would make them even, where the ratio's tail is shorter.

    Both margins make slightly different strata of it, which no table has at once.
    """
    shape, rng = (2, 2, 6), np.random.default_rng(n)
    _, mechanism = made(shape, epsilon)
    null = ratio_of("common-association", shape, mechanism).null
    margins = (0, 2), (1, 2)
    pi = independent(shape, rng)
    law = null.kernel.expected(pi)[None]
    fits = TableFits(pi[None], law, np.array([True]))
    drawn = null.kernel.solve(null.cautious(fits, np.array([n]))[0])
    for kept, part in zip(margins, null.parts, strict=True):
        rest = tuple({0, 1, 2} - set(kept))
        true = pi.sum(axis=rest)
        # records without randomization that estimate an even margin with the mean variance that these reports do
        worth = (1 - 1 / part.cells) / part.cells / part.exact_variance(law[0].sum(axis=rest), n).mean()
        added = min(0.5 / worth, 0.1 / part.cells)
        assert drawn.sum(axis=rest) == pytest.approx((true + added) / (1 + added * part.cells), abs=1e-4)


def test_large_tables_and_other_models_have_no_ratio():
    domain = Domain.of({"a": 9, "b": 9, "c": 3})
    assert np.prod(domain.sizes) > MOST_CELLS
    assert (
        within_strata("conditional-independence", domain, design(domain, 2.0, method="kronecker").mechanism).ratio
        is None
    )
    _, mechanism = made((2, 2, 2), 2.0, method="kronecker")
    assert ratio_of("conditional-independence", (2, 2, 2), mechanism).ratio.trend is None
    test = within_strata("same-odds-ratios", Domain.of({"a": 2, "b": 2, "c": 2}), mechanism)
    assert StrataRatio.of(test.null, None) is None


def test_the_statistic_does_not_depend_on_which_attribute_is_named_first():
    domain, mechanism = made((2, 3, 2), 1.0, method="kronecker")
    kernel, rng = mechanism.kernel(tuple("abc")), np.random.default_rng(5)
    counts = Counts(domain, rng.multinomial(900, kernel.expected(independent((2, 3, 2), rng)).ravel()).reshape(2, 3, 2))
    first = stratified_test(counts, mechanism, random_state=1)
    second = stratified_test(counts.marginal(["b", "a", "c"]), mechanism, random_state=1)
    assert first.statistic == pytest.approx(second.statistic, abs=0.05)
    assert first.p_value == pytest.approx(second.p_value, abs=0.15)
