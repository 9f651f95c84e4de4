"""Posteriors under Dirichlet priors: quadrature, the conjugate law, calibration by simulation, refusals, the command."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import digamma
from scipy.stats import beta, kstest

import optrr
import optrr.mechanisms.mechanism
import optrr.tables.bayes
from optrr.cli.main import run
from optrr.mechanisms.kernel import MatrixKernel
from optrr.tables import bayes


class Fixed(optrr.mechanisms.mechanism.Randomizer):
    """A mechanism known by one distortion matrix over all attributes, which is all that a posterior asks of it."""

    epsilon, digest = 0.0, ""
    attribute_epsilons = conditional_epsilons = np.zeros(0)
    randomize_in_place = None

    def __init__(self, domain, matrix):
        self.domain, self._matrix = domain, np.asarray(matrix)

    def kernel(self, names):
        sizes = [self.domain[name].size for name in names]
        # of fewer attributes nothing is known here
        matrix = self._matrix if len(sizes) == self.domain.m else np.full((np.prod(sizes),) * 2, 1 / np.prod(sizes))
        return MatrixKernel(matrix, sizes, tuple(names))


def response(size, epsilon):
    """The matrix of randomized response."""
    weights = np.ones((size, size)) + (np.exp(epsilon) - 1) * np.eye(size)
    return weights / weights.sum(axis=1, keepdims=True)


def table(domain, tallies):
    return optrr.Counts(domain, np.asarray(tallies).reshape(tuple(domain.sizes)))


def log_posterior(shares, tallies, matrix, prior):
    """Up to a constant, from the definition, one cell after the other."""
    out = sum((a - 1) * np.log(share) for share, a in zip(shares, prior, strict=True))
    for v, tally in enumerate(tallies):
        out += tally * np.log(sum(shares[u] * matrix[u][v] for u in range(len(shares))))
    return out


def exact_two(tallies, matrix, prior, confidence):
    """Mean, deviation and limits of the first of two shares, by adaptive quadrature in the angle, where ends are finite."""
    grid = np.linspace(1e-6, np.pi / 2 - 1e-6, 2001)

    def at(angle):
        shares = np.sin(angle) ** 2, np.cos(angle) ** 2
        return log_posterior(shares, tallies, matrix, prior) + np.log(np.sin(angle) * np.cos(angle))

    top = max(map(at, grid))
    mode = grid[np.argmax([at(angle) for angle in grid])]

    def integral(power, end=np.pi / 2):
        points = [mode] if 0 < mode < end else None
        return quad(lambda x: np.sin(x) ** (2 * power) * np.exp(at(x) - top), 0, end, points=points, limit=400)[0]

    whole = integral(0)
    mean, square = integral(1) / whole, integral(2) / whole

    def limit(share):
        low, high = 0.0, np.pi / 2
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if integral(0, middle) / whole < share else (low, middle)
        return np.sin(low) ** 2

    tail = (1 - confidence) / 2
    return mean, np.sqrt(square - mean**2), limit(tail), limit(1 - tail)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tallies", "matrix", "prior", "confidence"),
    [
        ([3, 9], response(2, 1.0), [0.5, 0.5], 0.95),
        ([40, 160], response(2, 0.5), [1.0, 1.0], 0.9),
        ([0, 20], response(2, 2.0), [0.5, 2.0], 0.95),
        ([70, 30], [[0.8, 0.2], [0.35, 0.65]], [0.2, 0.7], 0.8),
    ],
)
def test_two_categories_agree_with_quadrature(tallies, matrix, prior, confidence):
    domain = optrr.Domain.of({"a": 2})
    drawn = optrr.tables.bayes.posterior(
        table(domain, tallies), Fixed(domain, matrix), prior=prior, confidence=confidence, random_state=1
    )
    mean, deviation, lower, upper = exact_two(tallies, np.asarray(matrix), prior, confidence)
    known = drawn.moments
    # five standard errors, which one of these sixteen numbers exceeds once in 10^5 runs
    error = deviation / np.sqrt(known.effective_draws[0])
    assert abs(drawn.proportions[0] - mean) <= 5 * error
    assert abs(drawn.standard_deviations[0] - deviation) <= 5 * error
    assert abs(drawn.lower[0] - lower) <= 5 * known.monte_carlo_error[0]
    assert abs(drawn.upper[0] - upper) <= 5 * known.monte_carlo_error[0]


@pytest.mark.slow
def test_three_categories_agree_with_quadrature():
    # over the triangle by a product rule in two angles, which take the prior's poles at the edges away
    matrix, tallies, prior = response(3, 1.2), [2, 11, 17], [0.5, 0.5, 0.5]
    nodes, weights = np.polynomial.legendre.leggauss(120)
    angles, weights = (nodes + 1) * np.pi / 4, weights * np.pi / 4
    first, second = np.meshgrid(np.sin(angles) ** 2, np.sin(angles) ** 2, indexing="ij")
    shares = np.stack([first, (1 - first) * second, (1 - first) * (1 - second)])
    half = np.sqrt(first * (1 - first) * second * (1 - second)) * (1 - first)
    density = np.exp(log_posterior(shares, tallies, matrix, prior) + np.log(half)) * np.multiply.outer(weights, weights)
    density /= density.sum()
    means = (shares * density).sum(axis=(1, 2))
    deviations = np.sqrt((shares**2 * density).sum(axis=(1, 2)) - means**2)
    domain = optrr.Domain.of({"a": 3})
    drawn = optrr.tables.bayes.posterior(table(domain, tallies), Fixed(domain, matrix), random_state=2)
    error = deviations / np.sqrt(drawn.moments.effective_draws)
    assert np.all(np.abs(drawn.proportions - means) <= 5 * error)
    assert np.all(np.abs(drawn.standard_deviations - deviations) <= 5 * error)
    for share, low, high in zip(shares, drawn.lower, drawn.upper, strict=True):
        assert abs(density[share < low].sum() - 0.025) < 0.02
        assert abs(density[share > high].sum() - 0.025) < 0.02


@pytest.mark.slow
def test_without_noise_it_is_the_conjugate_law():
    domain = optrr.Domain.of({"a": 2, "b": 3})
    tallies = np.array([12, 0, 3, 30, 1, 4])
    drawn = optrr.tables.bayes.posterior(table(domain, tallies), Fixed(domain, np.eye(6)), prior=0.5, random_state=3)
    after = tallies + 0.5
    known = drawn.moments
    error = known.deviation / np.sqrt(known.effective_draws)
    assert np.all(np.abs(known.mean - after / after.sum()) <= 5 * error)
    rest = after.sum() - after
    assert np.all(np.abs(known.lower - beta.ppf(0.025, after, rest)) <= 5 * known.monte_carlo_error + 1e-12)
    assert np.all(np.abs(known.upper - beta.ppf(0.975, after, rest)) <= 5 * known.monte_carlo_error)
    # any other number: the log odds ratio of two rows in two columns has a known mean, digammas of the counts
    odds = drawn.quantity(lambda t: np.log(t[:, 0, 0] * t[:, 1, 2]) - np.log(t[:, 0, 2] * t[:, 1, 0]))
    wanted = digamma(after[0]) + digamma(after[5]) - digamma(after[2]) - digamma(after[3])
    assert abs(odds.mean - wanted) <= 5 * odds.standard_deviation / np.sqrt(odds.effective_draws)


@pytest.mark.slow
@pytest.mark.parametrize("runs", [100, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("prior", [0.5, 1.0])
def test_simulation_based_calibration(prior, runs):
    # tables drawn from the prior and reports from them: the truth's rank among draws is uniform (Talts et al., 2018). Every
    # chain gives one draw after twenty sweeps, so that the draws are independent
    rng = np.random.default_rng(4)
    matrix, chains = np.kron(response(2, 1.0), response(2, 1.5)), 19
    alpha = np.full(4, prior)
    ranks = np.empty((runs, 4))
    for at in range(runs):
        truth = rng.dirichlet(alpha)
        tallies = rng.multinomial(60, truth @ matrix)
        seen = tallies > 0
        law = bayes.PosteriorLaw(matrix[:, seen], tallies[seen].astype(float), alpha)
        drawn = bayes.sweeps(law, bayes.prior_draws(law, chains, rng), 20, rng)[-1]
        ranks[at] = np.sum(drawn < truth, axis=0)
    # each of four cells at 1 in 10^4
    for column in ranks.T:
        assert kstest((column + rng.uniform(size=runs)) / (chains + 1), "uniform").pvalue > 1e-4


@pytest.mark.slow
def test_a_hidden_effect_is_the_priors_and_a_faint_one_is_named():
    domain = optrr.Domain.of({"a": 2})
    blind = optrr.tables.bayes.posterior(
        table(domain, [30, 70]), Fixed(domain, np.full((2, 2), 0.5)), prior=1.0, random_state=5
    )
    assert any("hides" in line for line in blind.warnings)
    assert abs(blind.lower[0] - 0.025) <= 5 * blind.moments.monte_carlo_error[0]
    faint = optrr.tables.bayes.posterior(table(domain, [30, 70]), Fixed(domain, response(2, 0.1)), random_state=5)
    assert any("more the prior's" in line for line in faint.warnings)
    clear = optrr.tables.bayes.posterior(table(domain, [30, 70]), Fixed(domain, response(2, 3.0)), random_state=5)
    assert clear.warnings == ()


@pytest.mark.slow
def test_the_seed_gives_the_same_draws_and_is_named():
    domain = optrr.Domain.of({"a": 2})
    counts, mechanism = table(domain, [3, 9]), Fixed(domain, response(2, 1.0))
    first = optrr.tables.bayes.posterior(counts, mechanism)
    again = optrr.tables.bayes.posterior(counts, mechanism, random_state=first.seed)
    assert np.array_equal(first.draws, again.draws)
    assert f"seed {first.seed}" in first.drawn_text
    assert optrr.tables.bayes.posterior(counts, mechanism, random_state=np.random.default_rng(1)).seed is None


def test_chains_that_have_not_met_count_for_little():
    rng = np.random.default_rng(6)
    apart = rng.normal(size=(400, 64, 1)) + np.linspace(-3, 3, 64)[None, :, None]
    together = rng.normal(size=(400, 64, 1))
    assert bayes.moments(apart, 0.95).effective_draws[0] < 200
    assert not bayes.moments(apart, 0.95).settled
    assert bayes.moments(together, 0.95).effective_draws[0] > 10_000
    # the share beyond a limit of an autoregression is known as well as theory says of its mean, to the accuracy of 128 halves
    slow = np.empty((4000, 64, 1))
    slow[0] = rng.normal(size=(64, 1))
    for t in range(1, 4000):
        slow[t] = 0.9 * slow[t - 1] + np.sqrt(1 - 0.81) * rng.normal(size=(64, 1))
    effective = bayes._effective(slow.reshape(2, 2000, 64, 1).swapaxes(1, 2).reshape(128, 2000, 1))[0]
    assert effective == pytest.approx(4000 * 64 * 0.1 / 1.9, rel=0.5)


@pytest.mark.slow
def test_what_does_not_settle_is_not_shown(monkeypatch):
    domain = optrr.Domain.of({"a": 2})
    counts, mechanism = table(domain, [3, 9]), Fixed(domain, response(2, 1.0))
    monkeypatch.setattr("optrr.tables.bayes.FEWEST", 10**9)
    monkeypatch.setattr(sys.modules["optrr.tables.bayes"], "_MOST", 256)
    with pytest.raises(optrr.SolveFailed, match="no limit is shown"):
        optrr.tables.bayes.posterior(counts, mechanism)
    monkeypatch.undo()
    drawn = optrr.tables.bayes.posterior(counts, mechanism, random_state=1)
    monkeypatch.setattr("optrr.tables.bayes.FEWEST", 10**9)
    with pytest.raises(optrr.SolveFailed, match="for this number"):
        drawn.quantity(lambda t: t[:, 0])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"prior": 0.0}, "Dirichlet parameters from 0.2"),
        ({"prior": float("nan")}, "Dirichlet parameters"),
        ({"prior": [1.0, 1.0, 1.0]}, "give one number, or a table of shape"),
        ({"confidence": 1.0}, "confidence"),
        ({"confidence": 0.99999}, "no draws lie beyond"),
    ],
)
def test_refusals(changed, message):
    domain = optrr.Domain.of({"a": 2})
    with pytest.raises(optrr.InvalidInput, match=message):
        optrr.tables.bayes.posterior(table(domain, [3, 9]), Fixed(domain, response(2, 1.0)), **changed)


def test_large_tables_and_no_records_are_refused():
    domain = optrr.Domain.of({"a": 65})
    mechanism = Fixed(domain, response(65, 3.0))
    with pytest.raises(optrr.MethodTooLarge, match="at most 64"):
        optrr.tables.bayes.posterior(table(domain, np.ones(65, dtype=int)), mechanism)
    with pytest.raises(optrr.InvalidInput, match="no records"):
        optrr.tables.bayes.posterior(table(domain, np.zeros(65, dtype=int)), mechanism)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = optrr.design(optrr.Domain.of({"grade": 3, "sex": ["F", "M"]}), 1.5, preserve="pairs")
    optrr.save(made, "design.json")
    codes = np.random.default_rng(1).integers(0, [3, 2], (80, 2))
    rows = made.mechanism.perturb_codes(codes, 1)
    Path("here.csv").write_text("grade,sex\n" + "".join(f"{a},{'FM'[b]}\n" for a, b in rows))
    return made


@pytest.mark.slow
def test_the_command_prints_what_the_library_says(place, capsys):
    call = ["estimate", "here.csv", "--design", "design.json", "--attributes", "grade,sex", "--posterior"]
    assert run([*call, "--random-state", "7", "--prior", "1", "--json", "-o", "out.csv", "--report", "page.html"]) == 0
    printed = json.loads(capsys.readouterr().out)
    direct = optrr.tables.bayes.posterior(
        optrr.count("here.csv", place.domain, ["grade", "sex"]), place.mechanism, prior=1.0, random_state=7
    )
    assert printed["lower"] == direct.lower.tolist() and printed["estimate"] == direct.proportions.tolist()
    assert printed["seed"] == 7 and printed["interval"] == "credible" and "may hold less often" in printed["promise"]
    assert printed["least_effective_draws"] >= 2000 and np.shape(printed["monte_carlo_error"]) == (3, 2)
    assert Path("out.csv").read_text().count("\n") == 7
    assert "credible" in Path("page.html").read_text()
    assert run(call) == 0
    shown = capsys.readouterr().out
    assert "Dirichlet prior with 0.5 in each cell of 6, worth 3 records in all" in shown and ", seed " in shown
    for more in (["--method", "mle"], ["--simultaneous"], ["--derive", "entropy"], ["--fake-reports", "3"]):
        assert run([*call, *more]) == 2
        assert f"leave out {more[0]}" in capsys.readouterr().err
    assert run([*call[:-1], "--prior", "1"]) == 2
    assert "give --posterior too" in capsys.readouterr().err
