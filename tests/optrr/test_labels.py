"""Random designs of every method and constraint, enumerated exactly: no label is below the truth of what is drawn."""

import itertools

import mpmath as mp
import numpy as np
import pytest

import optrr
from optrr.designing.design import Design
from optrr.designing.solving import design
from optrr_solvers import METHODS, Infeasible, InvalidProblem, MethodTooLarge, SolveFailed
from optrr_solvers.solution import CAP_TOLERANCE
from tests import naive

# Attributes of a design at most, so that its 2^m change sets are enumerated in rationals.
MOST = 8
ROUNDING = 1e-9


def random_design(rng: np.random.Generator) -> Design | None:
    """A random request; None where it cannot be met or the method does not take it."""
    m = int(rng.integers(1, MOST + 1))
    sizes = {
        f"a{i}": int(r) for i, r in enumerate(np.exp(rng.uniform(np.log(2), rng.choice([2.0, 13.0]), m)).astype(int))
    }
    low, high = sorted(rng.uniform(np.log(1e-6), np.log(40), 2))
    epsilons = dict(zip(sizes, np.exp(rng.uniform(low, high, m)).tolist(), strict=True))
    if rng.random() < 0.3:
        sizes, epsilons = dict.fromkeys(sizes, sizes["a0"]), dict.fromkeys(sizes, epsilons["a0"])
    wishes = {}
    constraint = rng.choice(["none", "pairs", "cap"])
    if constraint == "pairs":
        wishes["preserve"] = "pairs"
    if constraint == "cap":
        wishes["conditional_cap"] = max(epsilons.values()) * float(1 + rng.choice([0, 1e-3, 0.1, 1, 10]))
    method = str(rng.choice(["auto", "auto", *METHODS]))
    try:
        return design(sizes, epsilons, method=method, **wishes)
    except (Infeasible, InvalidProblem, MethodTooLarge, SolveFailed, optrr.errors.InvalidInput):
        return None


def shortcomings(made: Design) -> list[str]:
    """Labels that are below the exact truth, or above it by more than rounding."""
    automaton = made.law.automaton
    sizes = made.domain.sizes.tolist()
    truth = naive.ExactTruth(sizes, naive.drawn_probabilities(automaton.layers))
    out = []
    with mp.workdps(naive.DIGITS):
        above = mp.mpf(made.epsilon) - naive.log_of(truth.total)
        if not 0 <= above <= ROUNDING:
            out.append(f"total {made.epsilon} {float(above)}")
        caps = made.solution.problem.caps
        for i in range(made.domain.m):
            conditional, attribute = naive.log_of(truth.conditional[i]), naive.log_of(truth.attribute[i])
            if mp.mpf(made.conditional_epsilons[i]) < conditional:
                out.append(f"conditional {made.conditional_epsilons[i]}")
            if caps is not None and mp.mpf(caps[i]) + CAP_TOLERANCE < conditional:
                out.append(f"cap {caps[i]} {float(conditional - caps[i])}")
            if not 0 <= mp.mpf(made.attribute_epsilons[i]) - attribute <= ROUNDING:
                out.append(f"attribute {made.attribute_epsilons[i]}")
            asked = made.requested_epsilons[i]
            if made.solution.tolerance is not None and attribute < asked - ROUNDING * (1 + asked):
                out.append(f"accuracy {asked}")
    return out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "seed"),
    # in parts, so that several processors share them
    [
        *((100, seed) for seed in (1, 13, 15)),
        *(pytest.param(1000, seed, marks=pytest.mark.full) for seed in range(2, 12)),
    ],
)
def test_no_label_is_below_what_is_drawn(count, seed):
    rng = np.random.default_rng(seed)
    made = itertools.islice((d for d in map(random_design, itertools.repeat(rng)) if d is not None), count)
    failed = {k: reasons for k, d in enumerate(made) if (reasons := shortcomings(d))}
    assert not failed


def test_a_cap_holds_where_probabilities_are_tiny():
    made = design({**dict.fromkeys("abcd", 10**6), "e": 5, "f": 5}, 2.0, conditional_cap=2.1)
    assert not shortcomings(made)
    assert max(made.conditional_epsilons) <= 2.1


def test_two_binary_attributes_at_forty_nats_are_as_accurate_as_labelled():
    made = design({"a": 2, "b": 2}, 40.0)
    assert not shortcomings(made)
    np.testing.assert_allclose(made.attribute_epsilons, 40, atol=1e-9)
