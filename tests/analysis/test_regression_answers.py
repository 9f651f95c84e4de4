"""Regressions of answers to questions: tables known exactly, and by estimates that vary as answers do."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from optrr import Domain, InvalidInput, SampledTables, TooFewRecords
from optrr.analysis.estimated import regress_estimated
from optrr.analysis.regression.likelihood import Levels

DOMAIN = Domain.of({"a": ["a0", "a1", "a2"], "b": ["b0", "b1"], "y": ["no", "yes"]})
EFFECTS = {"a[T.a1]": 0.5, "a[T.a2]": -0.6, "b[T.b1]": 0.7}


def population(rng: np.random.Generator, outcomes: int = 2) -> np.ndarray:
    """A law of a and b with a proportional-odds outcome."""
    x = rng.dirichlet(np.full(6, 3.0)).reshape(3, 2)
    score = np.array([0.0, 0.5, -0.6])[:, None] + np.array([0.0, 0.7])
    cut = np.linspace(0.3, -0.9, outcomes - 1) if outcomes > 2 else np.array([-0.4])
    p = Levels.of((cut + score.reshape(-1, 1))[None, None]).p
    return x[..., None] * p[0, 0].reshape(3, 2, outcomes)


def people(table: np.ndarray, domain: Domain, n: int, rng: np.random.Generator) -> pa.Table:
    """That many, in these shares."""
    codes = np.repeat(np.indices(table.shape).reshape(table.ndim, -1), rng.multinomial(n, table.ravel()), axis=1)
    return pa.table({a.name: pa.array(a.texts).take(pa.array(c)) for a, c in zip(domain, codes, strict=True)})


PAIRS = (("a", "y"), ("b", "y"), ("a", "b"))


def asked(domain: Domain, tables: tuple[tuple[str, ...], ...] = PAIRS, epsilon: float = 3.0) -> SampledTables:
    """Everybody one of these tables, with equal chances."""
    return SampledTables(domain, tables, np.full(len(tables), 1 / len(tables)), epsilon)


def answered(domain: Domain, table: np.ndarray, tables: tuple[tuple[str, ...], ...] = PAIRS, n: int = 4000):
    """The table of all attributes that some people's answers tell."""
    way = asked(domain, tables)
    answers = way.randomize(people(table, domain, n, np.random.default_rng(3)), random_state=4)
    return way.counted(way.reports(answers), domain.names, partly=True)


def told(table, truth: np.ndarray) -> np.ndarray:
    """The truth without the effects that no answer tells about."""
    values, vectors = np.linalg.eigh(table.sampling.covariance(truth.ravel()))
    kept = vectors[:, values > 1e-10 * values[-1]]
    even = np.full(truth.size, 1 / truth.size)
    return (even + kept @ kept.T @ (truth.ravel() - even)).reshape(truth.shape)


@pytest.mark.parametrize("tables", [PAIRS, (("a", "b", "y"),), (*PAIRS, ("a", "b", "y"))])
@pytest.mark.parametrize("outcomes", [2, 3])
def test_what_a_table_without_noise_tells_comes_out(tables, outcomes):
    """Of exactly estimated effects, all of a table or those of its pairs alone, the parameters of the population."""
    ordered = Domain.of({"a": ["a0", "a1", "a2"], "b": ["b0", "b1"]})
    outcome = Domain.of({"y": list(range(outcomes))}) if outcomes > 2 else DOMAIN.subset(["y"])
    domain = Domain((*ordered, *outcome))
    truth = population(np.random.default_rng(outcomes), outcomes)
    table = answered(domain, truth, tables)
    exact = replace(table, observed=told(table, truth), n=10**12)
    fit = regress_estimated(exact, "y ~ a + b", family="logistic")
    estimates = {c.parameter: c.estimate for c in fit.coefficients}
    for name, value in EFFECTS.items():
        assert estimates[name] == pytest.approx(value, abs=2e-6)


@pytest.mark.parametrize("seed", range(3))
def test_linear_models_are_least_squares_of_the_estimated_table(seed):
    rng = np.random.default_rng(seed)
    domain = Domain.of({"a": ["a0", "a1", "a2"], "b": ["b0", "b1"], "y": 4})
    truth = rng.dirichlet(np.full(24, 3.0)).reshape(3, 2, 4)
    table = answered(domain, truth)
    fit = regress_estimated(table, "y ~ a + b")
    codes = np.indices(truth.shape).reshape(3, -1)
    x = np.stack([np.ones(24), codes[0] == 1, codes[0] == 2, codes[1]], axis=1).astype(float)

    def least_squares(shares: np.ndarray) -> np.ndarray:
        return np.linalg.solve((x.T * shares) @ x, (x.T * shares) @ codes[2])

    observed = table.observed.ravel()
    np.testing.assert_allclose([c.estimate for c in fit.coefficients], least_squares(observed), rtol=1e-8)
    # the delta method by differences; the factor is that of least squares, n/(n − p)
    step = 1e-6
    slopes = np.stack(
        [(least_squares(observed + e) - least_squares(observed - e)) / (2 * step) for e in step * np.eye(24)]
    )
    covariance = table.sampling.covariance(table.sampling.padded(observed))
    errors = np.sqrt(np.einsum("vk,vw,wk->k", slopes, covariance, slopes) * table.n / (table.n - 4))
    np.testing.assert_allclose([c.standard_error for c in fit.coefficients], errors, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("outcomes", [2, 3])
def test_levels_coverage_and_errors(outcomes):
    """60 data sets each; of 180 intervals 22 or more leave the truth out with a chance of 1e-4."""
    domain = Domain((*DOMAIN.subset(["a", "b"]), *Domain.of({"y": [f"y{k}" for k in range(outcomes)]})))
    truth = population(np.random.default_rng(7), outcomes)
    way = asked(domain)
    rng, outside, estimates, errors = np.random.default_rng(11), 0, [], []
    for k in range(60):
        answers = way.randomize(people(truth, domain, 6000, rng), random_state=k)
        fit = way.reports(answers).regress("y ~ a + b", family="logistic")
        chosen = [c for c in fit.coefficients if c.parameter.split(": ")[-1] in EFFECTS]
        if outcomes == 2:
            outside += sum(not c.lower <= EFFECTS[c.parameter] <= c.upper for c in chosen)
        estimates.append([c.estimate for c in chosen])
        errors.append([c.standard_error for c in chosen])
    # a standard deviation of 60 is known to 9 %; 36 % are four of these
    spread = np.std(estimates, axis=0) / np.median(errors, axis=0)
    assert np.all((spread > 0.64) & (spread < 1.36)), spread
    assert outside < 22


def test_refusals():
    rng = np.random.default_rng(5)
    truth = population(rng)
    way = asked(DOMAIN)
    answers = way.randomize(people(truth, DOMAIN, 3000, rng), random_state=6)
    with pytest.raises(InvalidInput, match="no public predictors"):
        way.reports(answers).regress("y ~ a + b", public=["b"])
    way = asked(DOMAIN, (("a",), ("b", "y")))
    answers = way.randomize(people(truth, DOMAIN, 3000, rng), random_state=6)
    for formula, family in (("y ~ a", "logistic"), ("y ~ a", "linear")):
        with pytest.raises(TooFewRecords, match="no answers have information on y ~ a; collect the tables"):
            way.reports(answers).regress(formula, family=family)
