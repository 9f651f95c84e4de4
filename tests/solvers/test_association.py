"""The best report on a status and a genotype: against a semidefinite program, every other channel, and known figures."""

import math

import cvxpy as cp
import numpy as np
import pytest

from optrr_solvers.allocation.association import Population, SetReport, best_report


def randomized_response(total):
    """One of the six cells, the true one e^ε times as often as each other."""
    return (np.ones((6, 6)) + np.eye(6) * math.expm1(total)) / (math.exp(total) + 5)


def slow_kept(population, channel):
    """The share of the information on the log odds ratio, cell by cell, by the definition of a score."""
    f, w = population.frequency, population.cases
    genotypes = [(1 - f) ** 2, 2 * f * (1 - f), f**2]

    def law(delta, status, one, two):
        p = np.asarray(genotypes) * np.exp([0, one, two])
        p = p / p.sum()
        q = p * np.exp(delta * np.arange(3))
        odds = w / (1 - w) * math.exp(status)
        return np.stack([p / (1 + odds), q / q.sum() * odds / (1 + odds)], axis=1).ravel()

    h = 1e-5
    slopes = np.stack([(law(*(h * e)) - law(*(-h * e))) / (2 * h) for e in np.eye(4)])
    seen = channel @ law(0, 0, 0, 0)
    information = (slopes @ channel.T / seen) @ (slopes @ channel.T).T
    information[1, 1] += population.known
    nuisance = information[1:, 1:]
    left = information[0, 0] - information[0, 1:] @ np.linalg.pinv(nuisance) @ information[1:, 0]
    return left / (2 * f * (1 - f) * w * (1 - w))


def by_semidefinite_program(population, total):
    """The most that weights of sets can keep, by the largest t for which I(w) − t e eᵀ is positive semidefinite."""
    sets = (np.arange(1, 63)[:, None] >> np.arange(6)) & 1
    likelihoods = np.where(sets, math.exp(total), 1.0)
    joint = likelihoods * population.chances
    seen = joint @ population.scores.T
    weights, t = cp.Variable(62, nonneg=True), cp.Variable()
    # scaled, because ln ψ is told far less of than the nuisances are
    scale = np.diag(1 / np.sqrt(np.diag(population.scores * population.chances @ population.scores.T)))
    parts = [scale @ np.outer(s, s) @ scale / m for s, m in zip(seen, joint.sum(axis=1), strict=True)]
    information = sum(weights[k] * parts[k] for k in range(62))
    known = np.zeros((4, 4))
    known[1, 1] = population.known * scale[1, 1] ** 2
    corner = np.zeros((4, 4))
    corner[0, 0] = 1
    problem = cp.Problem(cp.Maximize(t), [likelihoods.T @ weights == 1, information + known - t * corner >> 0])
    problem.solve(solver=cp.CLARABEL)
    return float(t.value) / scale[0, 0] ** 2 / population.whole


@pytest.mark.parametrize("total", [0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize(("frequency", "cases", "known"), [(0.1, 0.5, 0.0), (0.3, 0.2, 0.05), (0.5, 0.5, 1.0)])
def test_best_report_is_that_of_a_semidefinite_program(total, frequency, cases, known):
    population = Population(frequency, cases, known)
    best, most = best_report([population], total), by_semidefinite_program(population, total)
    assert best.bound >= most * (1 - 1e-5)
    assert best.kept <= most * (1 + 1e-5)
    # the hundredth that names one cell, and the tolerance
    assert best.kept >= 0.98 * most


@pytest.mark.parametrize(
    ("frequency", "one_bit", "one_cell"),
    [
        (0.1, (0.01374, 0.0532, 0.184, 0.660), (0.00515, 0.0282, 0.172, 0.660)),
        (0.3, (0.0481, 0.171, 0.467, 0.762), (0.00812, 0.0416, 0.221, 0.748)),
        (0.5, (0.0305, 0.113, 0.339, 0.783), (0.00732, 0.0394, 0.229, 0.783)),
    ],
)
def test_no_worse_than_mixtures_of_one_bit_answers(frequency, one_bit, one_cell):
    """Figures of an independent prototype: mixtures of one-bit and one-cell answers, and randomized response."""
    population = Population(frequency, 0.5)
    for total, bits, cell in zip((0.5, 1, 2, 4), one_bit, one_cell, strict=True):
        assert population.kept(randomized_response(total)) == pytest.approx(cell, rel=5e-3)
        assert best_report([population], total).kept >= 0.985 * bits


@pytest.mark.slow
def test_no_channel_passes_the_bound():
    rng = np.random.default_rng(3)
    for _ in range(40):
        total, frequency, cases = rng.uniform(0.2, 6), rng.uniform(0.02, 0.5), rng.uniform(0.05, 0.95)
        population = Population(frequency, cases, float(rng.choice([0, 0.1, 3])))
        bound = best_report([population], total).bound
        for _ in range(25):
            densities = np.exp(total * (rng.random((int(rng.integers(2, 20)), 6)) if rng.random() < 0.5 else
                                        rng.integers(0, 2, (int(rng.integers(2, 20)), 6))))  # fmt: skip
            weights = rng.dirichlet(np.ones(len(densities))) / densities.max()
            channel = weights[:, None] * densities
            # what is missing to 1 goes to one answer more, as long as that is as private
            rest = 1 - channel.sum(axis=0)
            if rest.max() > math.exp(total) * rest.min():
                continue
            channel = np.vstack([channel, rest])
            assert slow_kept(population, channel) <= bound * (1 + 1e-6)


@pytest.mark.slow
def test_kept_is_that_of_the_definition():
    rng = np.random.default_rng(4)
    for _ in range(20):
        population = Population(rng.uniform(0.05, 0.5), rng.uniform(0.1, 0.9), rng.uniform(0, 1))
        total = rng.uniform(0.5, 3)
        best = best_report([population], total)
        channel = best.report.likelihoods(total)
        assert np.allclose(channel.sum(axis=0), 1, atol=1e-12)
        assert np.log(channel.max(axis=1) / channel.min(axis=1)).max() <= total + 1e-12
        assert slow_kept(population, channel) == pytest.approx(best.kept, rel=1e-4)


def test_mirrored_report_is_as_good_for_the_other_allele():
    rng = np.random.default_rng(5)
    for frequency in rng.uniform(0.05, 0.5, 5):
        best = best_report([Population(frequency, 0.3)], 1.5)
        other = Population(1 - frequency, 0.3).kept(best.report.mirrored().likelihoods(1.5))
        assert other == pytest.approx(best.kept, rel=1e-9)
        assert best.report.mirrored().mirrored() == best.report


def test_report_of_several_populations_keeps_most_on_average():
    """No report that is best for one of them is better for all."""
    populations = [Population(f, w, 0.2) for f in (0.1, 0.3, 0.5) for w in (0.3, 0.5)]
    best = best_report(populations, 1.0)
    assert best.kept == pytest.approx(
        np.mean([slow_kept(p, best.report.likelihoods(1.0)) for p in populations]), rel=1e-4
    )
    for population in populations:
        alone = best_report([population], 1.0).report.likelihoods(1.0)
        assert np.mean([p.kept(alone) for p in populations]) <= best.bound


def test_likelihoods_by_hand():
    report = SetReport(((0, 3), (1, 2, 4, 5)), (0.25, 0.25))
    e = math.e
    expected = 0.25 * np.array([[e, 1, 1, e, 1, 1], [1, e, e, 1, e, e]])
    assert np.allclose(report.likelihoods(1.0), expected)
