"""Random designs of every method and constraint, enumerated exactly: no label is below the truth of what is drawn."""

import itertools
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

import optrr
from optrr.core.design.design import Design
from optrr.core.design.design_file import verification
from optrr.core.design.solving import design
from optrr.core.mechanisms.mechanism import Mechanism
from optrr.devices.export import deployment_of
from optrr_solvers import METHODS, Infeasible, InvalidProblem, MethodTooLarge, SolveFailed
from optrr_solvers.sampling.diagram import ChoiceLayer
from optrr_solvers.solution import CAP_TOLERANCE
from tests import naive
from tests.brackets import Bracket
from tests.devices.test_verify import ENUMERATED, METHODS_OF_FEW, METHODS_OF_MANY, designs
from tests.solvers.test_automaton import KINDS, random_law

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
    except (Infeasible, InvalidProblem, MethodTooLarge, SolveFailed, optrr.core.errors.InvalidInput):
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


# A label is at most this many nats above the truth, and a flip probability this share from the design's.
LABEL, FLIP = 1e-9, 1e-12


def checked(kind: str, design: optrr.Design) -> None:
    """No ε below the truth and no accuracy above it, none further away than ``LABEL``, and every flip the design's."""
    least, most, attributes, conditional, flips = (enumerated if design.domain.m <= ENUMERATED else passed)(design)
    with mp.workdps(naive.DIGITS):
        label = mp.mpf(design.epsilon)
        assert least <= most <= label <= least + LABEL, (kind, design.domain.m, label - most, label - least)
        for label_of_one, true in zip(design.attribute_epsilons.tolist(), attributes, strict=True):
            # an accuracy is never above the truth
            assert 0 <= true - mp.mpf(label_of_one) <= LABEL
        for label_of_one, true in zip(design.conditional_epsilons.tolist(), conditional, strict=False):
            assert mp.mpf(label_of_one) >= true
        shares = zip(flips, design.law.one_way()[:, 1].tolist(), strict=True)
        distance = max(abs(mp.mpf(flip.numerator) / flip.denominator / one - 1) for flip, one in shares)
        assert distance <= FLIP


# The total ε from below and from above, attribute and conditional ε, and the probability of each attribute to change.
Truths = tuple[mp.mpf, mp.mpf, list[mp.mpf], list[mp.mpf], list[Fraction]]


def enumerated(design: optrr.Design) -> Truths:
    """Over all change sets in exact fractions."""
    truth = naive.ExactTruth(design.domain.sizes.tolist(), naive.drawn_probabilities(design.law.automaton.layers))
    total = naive.log_of(truth.total)
    attributes, conditional = map(naive.log_of, truth.attribute), map(naive.log_of, truth.conditional)
    return total, total, list(attributes), list(conditional), truth.flips


def passed(design: optrr.Design) -> Truths:
    """By two passes in whole numbers of any size; nothing of conditional ε."""
    bracket = Bracket.of(design.law.automaton.layers)
    sizes = zip(design.domain.sizes.tolist(), bracket.flips, strict=True)
    attributes = [naive.log_of((r - 1) * (1 - f) / f) for r, f in sizes]
    return naive.log_of(bracket.low), naive.log_of(bracket.high), attributes, [], bracket.flips


@pytest.mark.parametrize("kind", KINDS)
def test_brackets_hold_what_is_enumerated(kind: str) -> None:
    rng = np.random.default_rng(3)
    for m in (1, 3, 6):
        law = random_law(kind, rng, m)
        truth = naive.ExactTruth(law.sizes.tolist(), naive.drawn_probabilities(law.automaton.layers))
        bracket = Bracket.of(law.automaton.layers)
        assert bracket.low <= truth.total <= bracket.high
        assert bracket.flips == truth.flips
        hidden = any(isinstance(x, ChoiceLayer) or x.high is not None for x in law.automaton.layers.layers)
        assert hidden or bracket.low == bracket.high


@pytest.mark.slow
def test_labels_of_sixty_designs_are_what_is_drawn():
    made = list(designs(60, 101))
    for kind, each in made:
        checked(kind, each)
    assert {kind for kind, _ in made} == {*METHODS_OF_FEW, *METHODS_OF_MANY}


@pytest.mark.parametrize("kind", ["ball", "balls", "shell", "blocks"])
def test_random_balls_are_labelled_as_drawn(kind: str) -> None:
    # their profiles need not start at 1, nor end within reach, nor fall, as those of solvers' designs nearly do
    rng = np.random.default_rng(5)
    looser = 0
    for _ in range(12):
        law = random_law(kind, rng, int(rng.integers(2, 6)))
        truth = naive.ExactTruth(law.sizes.tolist(), naive.drawn_probabilities(law.automaton.layers))
        mechanism = Mechanism(optrr.Domain.of({f"a{i}": int(r) for i, r in enumerate(law.sizes)}), law)
        stated = deployment_of(mechanism).stated.total
        with mp.workdps(naive.DIGITS):
            assert 0 <= mp.mpf(mechanism.epsilon) - naive.log_of(truth.total) <= LABEL
            assert 0 <= mp.mpf(stated) - naive.log_of(truth.total) <= LABEL
        looser += law.epsilon > mechanism.epsilon + LABEL
    assert looser


@pytest.mark.parametrize("size", [3, 5, 7])
def test_soft_balls_of_one_attribute_are_labelled_as_drawn(size: int) -> None:
    # the radius has a wide normal law there, so that "no change" is not wholly inside the ball and "change" not wholly outside
    looser = 0
    for asked in np.linspace(0.05, 1, 8):
        design = optrr.design({"a": size}, float(asked), method="ball")
        checked("ball", design)
        assert verification(design).holds
        looser += design.law.epsilon > design.epsilon + LABEL
    assert looser
