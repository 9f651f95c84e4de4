"""Designs of every method: each label against what is drawn, enumerated up to 12 attributes, by two exact passes beyond."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

import optrr
from optrr.designs.design_file import verification
from optrr.devices.export import deployment_of
from optrr.mechanisms.mechanism import Mechanism
from optrr_solvers.automaton.layers import ChoiceLayer
from tests import naive
from tests.brackets import Bracket
from tests.deployment.test_exported_labels import ENUMERATED, METHODS_OF_FEW, METHODS_OF_MANY, Shown, designs, summary
from tests.solvers.test_automaton import KINDS, random_law

# A label is at most this many nats above the truth, and a flip probability this share from the design's.
LABEL, FLIP = 1e-9, 1e-12


def checked(kind: str, design: optrr.Design) -> Shown:
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
        return Shown(kind, design.domain.m, float(label - most), float(label - least), float(distance))


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
def test_labels_of_two_hundred_designs_are_what_is_drawn() -> None:
    out = [checked(kind, design) for kind, design in designs(200, 101)]
    print(summary(out))
    assert len(out) == 200
    assert {x.kind for x in out} == {*METHODS_OF_FEW, *METHODS_OF_MANY}


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
