"""What an ε means, by Bayes' rule on explicit channels, and comparisons with other trust models, by published values."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from optrr.core.errors import InvalidInput
from optrr.planner.meaning import Meaning, comparisons, curator, least, shuffled, surest, warner

ADULT = 32_561
TABLES = [(16, 0.006, 0.0013), (2, 0.004, 0.0028), (40, 0.01, 0.0)]


@pytest.mark.parametrize("epsilon", [0.761, 1.634, 3.303])
def test_the_theorem_has_its_published_form(epsilon):
    with mpmath.workdps(40):
        e, n, delta = mpmath.e ** mpmath.mpf(epsilon), ADULT, mpmath.mpf("1e-6")
        noise = 8 * mpmath.sqrt(e * mpmath.log(4 / delta) / n) + 8 * e / n
        every = mpmath.log(1 + (e - 1) / (e + 1) * noise)
    assert every <= shuffled(epsilon, ADULT) <= every * (1 + 1e-12)


def test_shuffling_ends_where_the_theorems_end():
    limit = math.log(ADULT / (16 * math.log(2e6)))
    assert shuffled(limit - 1e-9, ADULT) is not None
    assert shuffled(limit + 1e-9, ADULT) is None
    assert shuffled(9.0, ADULT) is None
    assert shuffled(0.0, ADULT) == 0.0
    # few people mix little: the reports' own promise is the better one
    assert shuffled(0.05, 400, 0.01) <= 0.05


@pytest.mark.parametrize(("epsilon", "n", "delta"), [(0.8, 1000, 1e-4), (1.6, 1500, 1e-5), (2.5, 2500, 1e-4)])
def test_the_bound_covers_the_exact_divergence(epsilon, n, delta):
    """Of the pair to which the clones reduce all: a fair split of Bin(n−1, r) clones, and one more report."""
    rate = math.exp(-epsilon)
    central = shuffled(epsilon, n, delta)
    true = 1 / (1 + math.exp(-epsilon))
    excess = 0.0
    for clones in range(n):
        weight = binom.pmf(clones, n - 1, rate)
        if weight > 1e-16:
            split = np.concatenate([[0.0], binom.pmf(np.arange(clones + 1), clones, 0.5), [0.0]])
            with_more, with_less = split[:-1], split[1:]
            one = true * with_more + (1 - true) * with_less
            other = (1 - true) * with_more + true * with_less
            excess += weight * np.maximum(one - math.exp(central) * other, 0).sum()
    assert excess <= delta


def test_laplace_noise_has_the_errors_asked_for():
    """Each table gets the share of the ε that its error needs: a count's noise of scale 2/ε has variance 8/ε²."""
    n, tables = 3000, [(4, 0.02, 0.0079), (3, 0.012, 0.0086)]
    shares = [curator([table], n) for table in tables]
    for epsilon, (_, error, sampling) in zip(shares, tables, strict=True):
        assert sampling**2 + 8 / (epsilon * n) ** 2 == pytest.approx(error**2, rel=1e-9)
    assert curator(tables, n) == pytest.approx(sum(shares))


@pytest.mark.parametrize(("n", "delta"), [(200, 1e-3), (2000, 1e-6), (200_000, 1e-10)])
def test_gaussian_noise_has_the_delta_asked_for(n, delta):
    """The excess of one normal density over e^ε times the other, integrated where it is positive."""
    epsilon = curator(TABLES, n, "gaussian", delta)
    with mpmath.workdps(40):
        mu = mpmath.sqrt(sum(2 / (n**2 * (mpmath.mpf(e) ** 2 - mpmath.mpf(s) ** 2)) for _, e, s in TABLES))
        start = mpmath.mpf(epsilon) / mu + mu / 2

        def excess(x):
            return mpmath.npdf(x, mu, 1) - mpmath.e**epsilon * mpmath.npdf(x, 0, 1)

        total = mpmath.quad(excess, [start, start + 1, start + 4, start + 12, start + 40])
    assert total <= delta
    assert epsilon == 0.0 or total > delta * (1 - 1e-5)
    assert curator([(2, 1e6, 0.0)], 1000, "gaussian", 0.1) == 0.0


def test_warner_has_the_published_error():
    """Warner (1965): the variance of a share of "yes" over what a "yes" tells."""
    n, share, epsilon = 500, 0.2, 1.2
    p, error = warner(epsilon, n, share)
    assert math.log(p / (1 - p)) == pytest.approx(epsilon)
    assert error**2 == pytest.approx(share * (1 - share) / n + p * (1 - p) / (n * (2 * p - 1) ** 2))
    assert warner(0.0, 1000) == (0.5, math.inf)
    assert warner(800.0, 1000, 0.3)[1] == pytest.approx(math.sqrt(0.3 * 0.7 / 1000))


def test_all_comparisons():
    told = comparisons(1.634, ADULT, TABLES)
    by_name = {each.name: each for each in told}
    assert len(by_name) == 5
    assert by_name["shuffled reports"].epsilon == shuffled(1.634, ADULT)
    assert by_name["central Laplace noise"].epsilon == curator(TABLES, ADULT)
    assert by_name["central Gaussian noise"].epsilon == curator(TABLES, ADULT, "gaussian")
    assert by_name["central Gaussian noise"].delta == by_name["shuffled reports"].delta == 1e-6
    assert by_name["no protection"].standard_errors == (0.0013, 0.0028, 0.0)
    assert by_name["no protection"].epsilon is None
    assert by_name["Warner's randomized response"].standard_errors == (warner(1.634, ADULT)[1],)
    same = [each.name for each in told if each.assumption.startswith("The same trust model")]
    assert same == ["Warner's randomized response"]
    others = [e.assumption for e in told if e.name not in same]
    assert all(said.startswith("Another trust model") and said.endswith(".") for said in others)
    assert comparisons(9.0, ADULT, TABLES)[0].epsilon is None


EPSILONS = (0.0, 1e-9, 0.3, 1.0, 4.5, 30.0, 100.0)
PRIORS = (1e-12, 0.001, 0.1, 0.5, 0.93, 1 - 1e-9)


def channel(rng, records, reports, epsilon):
    """P(report | record), whose logarithms differ between records by at most ε, and by how much they do."""
    base = rng.dirichlet(np.ones(reports))
    p = base * np.exp(rng.choice([0, epsilon / 2, epsilon / 2 * rng.random()], size=(records, reports)))
    p /= p.sum(axis=1, keepdims=True)
    return p, float(np.ptp(np.log(p), axis=0).max())


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 6), st.integers(2, 8), st.floats(0.01, 8), st.data())
def test_no_report_moves_a_belief_further(seed, records, reports, epsilon, data):
    """Whatever is believed of the records, and whatever statement about them is asked."""
    rng = np.random.default_rng(seed)
    p, spent = channel(rng, records, reports, epsilon)
    assert spent <= epsilon * (1 + 1e-9)
    believed = rng.dirichlet(np.full(records, data.draw(st.sampled_from([0.2, 1.0, 5.0])))) + 1e-9
    believed /= believed.sum()
    holds = np.arange(records) < data.draw(st.integers(1, records - 1))
    prior = float(believed[holds].sum())
    joint = believed[:, None] * p
    after = joint[holds].sum(axis=0) / joint.sum(axis=0)
    assert after.max() <= surest(prior, spent) * (1 + 1e-12)
    assert after.min() >= least(prior, spent) * (1 - 1e-12)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("prior", PRIORS)
def test_beliefs_in_60_digits(epsilon, prior):
    with mpmath.workdps(60):
        p, factor = mpmath.mpf(prior), mpmath.e ** mpmath.mpf(epsilon)
        most, fewest = p * factor / (1 - p + p * factor), p / (p + (1 - p) * factor)
        assert abs(surest(prior, epsilon) / most - 1) < 1e-14
        assert abs(least(prior, epsilon) / fewest - 1) < 1e-14


@pytest.mark.parametrize("epsilon", [*EPSILONS, math.log(3), math.log(9)])
@pytest.mark.parametrize("prior", [0.001, 0.1, 0.25, 1 / 3, 0.5, 0.99])
@pytest.mark.parametrize("releases", [1, 3])
def test_people_never_promise_too_much(epsilon, prior, releases):
    """Whole people are on the outer side of the exact value, or within a billionth of a person of it; never by a whole one."""
    meaning = Meaning(epsilon, prior, epsilon / 2, releases)
    for people, spent in ((meaning.people, epsilon), (meaning.conditional_people, epsilon / 2)):
        with mpmath.workdps(60):
            p, factor = mpmath.mpf(prior), mpmath.e ** (mpmath.mpf(spent) * releases)
            fewest, most = p / (p + (1 - p) * factor), p * factor / (1 - p + p * factor)
            assert -2e-9 <= meaning.out_of * fewest - people[0] < 1
            assert -2e-9 <= people[1] - meaning.out_of * most < 1


def test_the_sentences():
    told = Meaning(math.log(3), 0.1, math.log(3) / 2).sentences()
    assert told[0] == (
        "Somebody who thought 10 of 100 people like you had done this can become as sure as 25 of 100 after seeing "
        "your answer, never surer."
    )
    assert told[1] == "They can also come to doubt it, but never more than down to 3 of 100."
    assert told[2].endswith("by a factor of 3.01.")
    assert told[3] == (
        "Somebody who knew all your other answers, and thought 10 of 100 people like you had done this, ends between 6 and "
        "17 of 100."
    )
    rare = Meaning(1.0, 0.002, releases=2).sentences()
    assert len(rare) == 3
    assert "2 of 1,000 people" in rare[0]
    assert "all 2 answers of yours" in rare[0]
    assert Meaning(0.0, 0.5).sentences() == (
        "Nobody can learn anything about you from your answer: it is chance alone.",
    )


def test_a_conditional_epsilon_counts_at_most_as_the_total():
    assert Meaning(1.0, 0.2, 1.5).conditional_bounds == Meaning(1.0, 0.2).bounds
    assert Meaning(1.0, 0.2).conditional_bounds is Meaning(1.0, 0.2).conditional_people is None


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: surest(0.0, 1), "prior"),
        (lambda: least(1.0, 1), "prior"),
        (lambda: surest(math.nan, 1), "prior"),
        (lambda: surest(0.5, -1), "epsilon"),
        (lambda: surest(0.5, math.inf), "epsilon"),
        (lambda: least(0.5, 1, 0), "releases"),
        (lambda: least(0.5, 1, 1.5), "releases"),
        (lambda: Meaning(1, 0.5, -1), "epsilon"),
        (lambda: Meaning(1, 2), "prior"),
        (lambda: shuffled(-1, 10), "epsilon"),
        (lambda: shuffled(1, 0), "people"),
        (lambda: shuffled(1, math.inf), "people"),
        (lambda: shuffled(1, 10, 0.0), "delta"),
        (lambda: curator([], 10), "table"),
        (lambda: curator([(4, 0.1, 0.1)], 10), "noise"),
        (lambda: curator([(1, 0.1, 0.0)], 10), "cells"),
        (lambda: curator([(4, 0.1, 0.0)], 10, "cauchy"), "cauchy"),
        (lambda: warner(math.nan, 10), "epsilon"),
        (lambda: warner(1, 10, 2), "yes"),
    ],
)
def test_what_is_out_of_range_is_refused(wrong, said):
    with pytest.raises(InvalidInput, match=said):
        wrong()
