"""Regressions of samples: against sandwiches written out, statsmodels, no weights at all, and the truth of drawn samples."""

from math import inf

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.special import expit
from scipy.stats import t as student

from optrr import Attribute, Constraints, Domain, InvalidInput, Sample, count, design
from optrr.analysis.regression.fitting import regress

OUTCOMES = {
    "linear": Attribute("y", (0, 1, 3)),
    "logistic": Attribute("y", ("no", "yes")),
    "ordered": Attribute("y", ("low", "mid", "high"), ordered=True),
    "multinomial": Attribute("y", ("bus", "car", "bike")),
}
A, B = Attribute("a", ("u", "v", "w")), Attribute("b", ("f", "m"))
SAMPLE = {"weights": "weight", "strata": "region", "clusters": "school"}


def drawn(family: str, seed: int, n: int = 900) -> tuple[Domain, pd.DataFrame]:
    """People of 3 regions with 20 schools each, whose weights, predictors and outcome depend on school and region."""
    rng, y = np.random.default_rng(seed), OUTCOMES[family]
    region = rng.integers(0, 3, n)
    school = rng.integers(0, 20, n)
    effect = rng.normal(0, 0.6, (3, 20))[region, school]
    a = (rng.random(n)[:, None] > np.array([0.4, 0.75]) + 0.1 * expit(effect)[:, None]).sum(axis=1)
    b = (rng.random(n) < expit(effect)).astype(int)
    level = -0.3 + 0.5 * (a == 1) - 0.4 * (a == 2) + 0.6 * b + effect
    latent = level + rng.logistic(size=n)
    outcome = (latent > 0).astype(int) if y.size == 2 else (latent > -0.4).astype(int) + (latent > 0.9)
    if family == "multinomial":
        outcome = (outcome + rng.integers(0, 2, n)) % 3
    frame = {each.name: np.array(each.categories)[k] for each, k in ((A, a), (B, b), (y, outcome))}
    frame |= {"weight": np.exp(rng.normal(0, 0.5, n) + 0.2 * region), "region": region, "school": school}
    return Domain((A, B, y)), pd.DataFrame(frame)


def columns(frame: pd.DataFrame) -> np.ndarray:
    return np.column_stack([np.ones(len(frame)), frame.a == "v", frame.a == "w", frame.b == "m"]).astype(float)


def scores_and_information(family: str, frame: pd.DataFrame, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each person's score, (n, p), and what it is expected to tell of θ, (n, p, p), both written out."""
    x = columns(frame)
    y = np.array([OUTCOMES[family].categories.index(v) for v in frame.y])
    if family == "linear":
        residual = frame.y.to_numpy(dtype=float) - x @ theta
        return x * residual[:, None], x[:, :, None] * x[:, None]
    if family == "ordered":
        rest = x[:, 1:]
        over = expit(np.array([theta[0], theta[1]]) + (rest @ theta[2:])[:, None])
        slope = over * (1 - over)
        p = np.column_stack([1 - over[:, 0], over[:, 0] - over[:, 1], over[:, 1]])
        moved = np.zeros((len(x), 3, 2))
        moved[:, 0, 0] = -slope[:, 0]
        moved[:, 1] = np.column_stack([slope[:, 0], -slope[:, 1]])
        moved[:, 2, 1] = slope[:, 1]
        by_level = moved / p[:, :, None]
        own = np.concatenate([by_level, by_level.sum(axis=2)[:, :, None] * rest[:, None]], axis=2)
    else:
        levels = np.hstack([np.zeros((len(x), 1)), x @ theta.reshape(-1, x.shape[1]).T])
        p = np.exp(levels) / np.exp(levels).sum(axis=1, keepdims=True)
        by_level = np.eye(p.shape[1])[None, :, 1:] - p[:, None, 1:]
        own = (by_level[..., None] * x[:, None, None]).reshape(len(x), p.shape[1], -1)
    return own[np.arange(len(x)), y], np.einsum("nc,ncp,ncq->npq", p, own, own)


def sandwich(family: str, frame: pd.DataFrame, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The weighted mean of scores, and the errors of θ from differences between the clusters of every stratum."""
    own, told = scores_and_information(family, frame, theta)
    weights = frame.weight.to_numpy() / frame.weight.sum()
    sums = pd.DataFrame(weights[:, None] * own).groupby([frame.region.to_numpy(), frame.school.to_numpy()]).sum()
    spread = np.zeros((theta.size, theta.size))
    for _, part in sums.groupby(level=0):
        centred = (part - part.mean()).to_numpy()
        spread += len(part) / (len(part) - 1) * centred.T @ centred
    inverse = np.linalg.inv(np.tensordot(weights, told, 1))
    factor = (len(frame) - 1) / (len(frame) - theta.size)
    return weights @ own, np.sqrt(np.diag(inverse @ spread @ inverse) * factor)


@pytest.mark.parametrize("family", OUTCOMES)
@pytest.mark.parametrize("seed", range(2))
def test_without_randomization_estimates_and_errors_are_those_written_out(family: str, seed: int) -> None:
    domain, frame = drawn(family, seed)
    result = regress(frame, design(domain, 30.0).mechanism, "y ~ a + b", **SAMPLE)
    assert result.fit.family == family
    mean, errors = sandwich(family, frame, result.estimates)
    np.testing.assert_allclose(mean, 0, atol=1e-9)
    np.testing.assert_allclose([c.standard_error for c in result.coefficients], errors, rtol=1e-6)


@pytest.mark.parametrize("family", ["linear", "logistic"])
def test_without_strata_they_are_those_of_statsmodels(family: str) -> None:
    domain, frame = drawn(family, 5)
    frame["school"] += 100 * frame.region
    how = {"weights": "weight", "clusters": "school"}
    result = regress(frame, design(domain, 30.0).mechanism, "y ~ a + b", **how)
    weights, x = frame.weight / frame.weight.mean(), columns(frame)
    if family == "linear":
        fitted = sm.WLS(frame.y.astype(float), x, weights).fit(cov_type="cluster", cov_kwds={"groups": frame.school})
    else:
        made = sm.GLM(frame.y == "yes", x, sm.families.Binomial(), var_weights=weights)
        fitted = made.fit(cov_type="cluster", cov_kwds={"groups": frame.school}, tol=1e-12)
    np.testing.assert_allclose(result.estimates, fitted.params, rtol=1e-6)
    np.testing.assert_allclose([c.standard_error for c in result.coefficients], fitted.bse, rtol=1e-6)


@pytest.mark.parametrize("family", OUTCOMES)
def test_equal_weights_change_nothing(family: str) -> None:
    """Each record its own cluster: estimates are the same, tests too but for Student's law in the place of the normal one.

    Of least squares the errors are, too; the likelihood's are the sandwich's, and not those of the
    information, from which they differ by chance.
    """
    domain, frame = drawn(family, 7, 6000)
    made = design(domain, 4.0, constraints=Constraints(preserve="pairs"))
    reports = made.randomize(frame[["a", "b", "y"]], random_state=3).assign(weight=2.5)
    plain = regress(reports, made.mechanism, "y ~ a + b")
    weighted = regress(reports, made.mechanism, "y ~ a + b", weights="weight")
    assert weighted.method.startswith(plain.method)
    np.testing.assert_allclose(weighted.estimates, plain.estimates, atol=1e-10)
    one, other = ([(c.standard_error, c.score_z) for c in r.coefficients] for r in (plain, weighted))
    one, other = np.array(one), np.array(other)
    np.testing.assert_allclose(other[:, 0], one[:, 0], rtol=1e-9 if family == "linear" else 0.1)
    np.testing.assert_allclose(other[:, 1], one[:, 1], rtol=1e-6)
    ends = [np.array([(c.lower, c.upper) for c in r.coefficients]) for r in (plain, weighted)]
    np.testing.assert_allclose(ends[0], ends[1], atol=2e-3 * one[:, :1].max())


def test_p_values_are_of_students_law() -> None:
    domain, frame = drawn("logistic", 2)
    made = design(domain, 3.0)
    reports = pd.concat([made.randomize(frame[["a", "b", "y"]], random_state=1), frame[list(SAMPLE.values())]], axis=1)
    result = regress(reports, made.mechanism, "y ~ a + b", **SAMPLE)
    degrees = float(result.method.split("; ")[1].split()[0])
    assert 20 < degrees < 60
    for c, term in ((result.coefficients[3], result.terms[-1]),):
        assert c.p_value == pytest.approx(2 * student.sf(abs(c.score_z), degrees), rel=1e-2)
        assert term.p_value == pytest.approx(c.p_value, rel=1e-9)


def test_what_has_no_weights_is_refused_in_one_line() -> None:
    domain, frame = drawn("logistic", 4)
    mechanism = design(domain, 30.0).mechanism
    with pytest.raises(InvalidInput, match="counts have no weight 'weight'; give the records"):
        regress(count(frame[["a", "b", "y"]], domain, ["a", "y"]), mechanism, "y ~ a", weights="weight")
    with pytest.raises(InvalidInput, match="is in the formula; give a copy"):
        regress(frame, mechanism, "y ~ a + region", strata="region", public=["region"])
    groups = design(domain, 3.0).reports(frame, frame)
    with pytest.raises(InvalidInput, match="opened from 2 places, which are groups"):
        groups.regress("y ~ a", sample=Sample(weights="weight"))
    alone = frame.assign(region=np.arange(len(frame)))
    with pytest.raises(InvalidInput, match="have only one cluster"):
        regress(alone, mechanism, "y ~ a", strata="region")
    lone = frame.assign(region=np.where(np.arange(len(frame)) == 0, 9, frame.region))
    result = regress(lone, mechanism, "y ~ a", strata="region", clusters="school", lonely_psu="centred")
    assert any("1 of 4 strata have only one cluster" in text for text in result.warnings)
    assert all(c.upper < inf for c in result.coefficients)
