"""Limits of odds ratios against a slow score test of one ratio in one table, over settings drawn at random."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit, logit, ndtri

from optrr.genomics.odds import odds_ratios
from optrr.mechanisms.kernel import EffectKernel
from optrr.models.tests.nullfit import independence_fit

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


def test_a_fit_that_is_known_already_changes_nothing():
    rng = np.random.default_rng(9)
    kernel, _ = setting(rng, 3)
    counts = rng.multinomial(900, np.full(6, 1 / 6), size=7).reshape(-1, 3, 2)
    # the last variant does not vary, so it has no odds ratio with the fit either
    counts[-1] = [[450, 450], [0, 0], [0, 0]]
    fit = independence_fit(counts / 900, kernel, 3)
    plain, again = odds_ratios(counts, kernel), odds_ratios(counts, kernel, fit=fit)
    for name in ("ratio", "low", "high", "cases", "controls"):
        np.testing.assert_array_equal(getattr(again, name), getattr(plain, name))
    assert np.isnan(again.ratio).tolist() == [False] * 6 + [True]


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
