"""What an ε means, by Bayes' rule on explicit channels, and the rule of what protects little."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optrr.planner.meaning import RULE, Meaning, meaning_of_rule, surest

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
    assert after.min() >= (1 - surest(1 - prior, spent)) * (1 - 1e-9)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("prior", PRIORS)
def test_beliefs_in_60_digits(epsilon, prior):
    with mpmath.workdps(60):
        p, factor = mpmath.mpf(prior), mpmath.e ** mpmath.mpf(epsilon)
        most = p * factor / (1 - p + p * factor)
        assert abs(surest(prior, epsilon) / most - 1) < 1e-14


@pytest.mark.parametrize("epsilon", [*EPSILONS, math.log(3), math.log(9)])
@pytest.mark.parametrize("prior", [0.001, 0.1, 0.25, 1 / 3, 0.5, 0.99])
@pytest.mark.parametrize("releases", [1, 3])
def test_people_never_promise_too_much(epsilon, prior, releases):
    """Whole people are on the outer side of the exact value, or within a billionth of a person of it; never by a whole one."""
    meaning = Meaning(epsilon, prior, None, releases)
    with mpmath.workdps(60):
        p, factor = mpmath.mpf(prior), mpmath.e ** (mpmath.mpf(epsilon) * releases)
        most = p * factor / (1 - p + p * factor)
        assert -2e-9 <= meaning.people - meaning.out_of * most < 1


def test_the_sentences():
    told = Meaning(math.log(3), 0.1, math.log(3) / 2).sentences()
    assert told == (
        "Suppose someone thinks that something is true of 10 of 100 people like you.",
        "After seeing what you send, they can put the chance that it is true of you at 25 in 100 at most.",
        "If it is about one answer, they can put it at 17 in 100 at most, even if they know all the others.",
    )
    # what all releases mean comes first, then one of them
    rare = Meaning(1.0, 0.002, releases=2).sentences()
    assert len(rare) == 3 and "2 of 1,000 people" in rare[0]
    assert "all 2 answers" in rare[1] and "15 in 1,000" in rare[1]
    assert "only one of the 2 answers" in rare[2] and "6 in 1,000" in rare[2]


def test_a_conditional_epsilon_that_is_the_total_says_nothing_new():
    for conditional in (1.0, 1.5):
        assert Meaning(1.0, 0.2, conditional).sentences()[2:] == (
            "This holds even if they know all your other answers.",
        )
    assert len(Meaning(1.0, 0.2).sentences()) == 2


@pytest.mark.parametrize(
    ("epsilon", "releases", "little"), [(2.19, 1, False), (2.2, 1, True), (1.0, 2, False), (1.1, 2, True)]
)
def test_what_protects_little_is_the_rule(epsilon, releases, little):
    """An attacker of 10 of 100 becomes more than 50 of 100 sure; the odds of 1 to 9 are then even."""
    assert meaning_of_rule(epsilon, releases).protects_little == little
    assert (surest(0.1, epsilon, releases) > 0.5) == little
    assert "10 of 100" in RULE and "more than 50 of 100" in RULE and "2.2" in RULE
