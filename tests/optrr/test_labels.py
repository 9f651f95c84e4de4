"""Random designs of every method and constraint, enumerated exactly: no label is below the truth of what is drawn."""

import itertools

import mpmath as mp
import numpy as np
import pytest

import optrr
from optrr.designs.design import Design
from optrr.designs.design_file import verification
from optrr.designs.solving import design
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


def margins(made: Design) -> dict[str, list[float]]:
    """By how much each kind of label, cap and requested accuracy is above the exact truth."""
    truth = naive.ExactTruth(made.domain.sizes.tolist(), naive.drawn_probabilities(made.law.automaton.layers))
    caps = made.solution.problem.caps
    with mp.workdps(naive.DIGITS):
        total = naive.log_of(truth.total)
        conditional, attribute = (list(map(naive.log_of, logs)) for logs in (truth.conditional, truth.attribute))

        def above(labels, truths) -> list[float]:
            return [float(mp.mpf(label) - true) for label, true in zip(labels, truths, strict=True)]

        return {
            "total": above([made.epsilon], [total]),
            "conditional": above(made.conditional_epsilons, conditional),
            "attribute": above(made.attribute_epsilons, attribute),
            "cap": [] if caps is None else above(caps, conditional),
            "accuracy": []
            if made.solution.tolerance is None
            else [-short for short in above(made.requested_epsilons, attribute)],
        }


def shortcomings(made: Design, above: dict[str, list[float]]) -> list[str]:
    """Labels of privacy below the exact truth, labels of accuracy above it, and either off by more than rounding."""
    out = [f"total {margin}" for margin in above["total"] if not 0 <= margin <= ROUNDING]
    out += [f"attribute {margin}" for margin in above["attribute"] if not -ROUNDING <= margin <= 0]
    out += [f"conditional {margin}" for margin in above["conditional"] if margin < 0]
    out += [f"cap {margin}" for margin in above["cap"] if margin < -CAP_TOLERANCE]
    asked = made.requested_epsilons
    out += [
        f"accuracy {margin}"
        for margin, epsilon in zip(above["accuracy"], asked, strict=False)
        if margin < -ROUNDING * (1 + epsilon)
    ]
    return out


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_no_label_promises_more_than_what_is_drawn(seed):
    requests = map(random_design, itertools.repeat(np.random.default_rng(seed)))
    made = itertools.islice((d for d in requests if d is not None), 50)
    assert not {k: reasons for k, one in enumerate(made) if (reasons := shortcomings(one, margins(one)))}


def test_a_cap_holds_where_probabilities_are_tiny():
    made = design({**dict.fromkeys("abcd", 10**6), "e": 5, "f": 5}, 2.0, conditional_cap=2.1)
    assert not shortcomings(made, margins(made))
    assert max(made.conditional_epsilons) <= 2.1


def test_two_binary_attributes_at_forty_nats_are_as_accurate_as_labelled():
    made = design({"a": 2, "b": 2}, 40.0)
    assert not shortcomings(made, margins(made))
    np.testing.assert_allclose(made.attribute_epsilons, 40, atol=1e-9)


def test_what_the_slower_sampler_costs_is_said():
    made = design(dict.fromkeys("abcdefghijklm", 3), 40.0, method="classes")
    law = made.law
    law.__dict__.pop("labels", None)
    law.__dict__["automaton"] = None
    short = 40.0 - made.attribute_epsilons.min()
    assert 1 < short < 20
    assert f"costs an attribute {short:.2g} nats of accuracy" in made.warnings[-1]
    accuracies = next(check for check in verification(made).checks if check.name == "requested accuracies")
    assert accuracies.recomputed == f"met; {short:.2g} nats short as drawn"
