"""Random designs of every method and constraint, enumerated exactly: no label is below the truth of what is drawn."""

import itertools
from collections.abc import Iterator

import mpmath as mp
import numpy as np
import pytest

import optrr
from optrr.core.design.design_file import recomputed_design
from optrr.core.design.solving import Constraints, design
from optrr.core.errors import OptrrError
from optrr.core.mechanisms.mechanism import Mechanism
from optrr.devices.export import deployment_of
from optrr_solvers import METHODS, Infeasible, InvalidProblem, MethodTooLarge, SolveFailed
from optrr_solvers.sampling.diagram import ChoiceLayer
from optrr_solvers.solution import CAP_TOLERANCE
from tests import naive
from tests.brackets import Bracket
from tests.solvers.test_automaton import KINDS, random_law

# A label is at most this many nats above the truth, and a flip probability this share from the design's.
LABEL, FLIP = 1e-9, 1e-12
# Attributes of a design at most, so that its 2^m change sets are enumerated in rationals.
ENUMERATED = 12
ONE_METHOD = ("kronecker", "inductive", "por", "lp", "classes", "reduced", "ball")
METHODS_OF_FEW = ("auto", *ONE_METHOD, "pairs", "caps", "alike", "total")
METHODS_OF_MANY = ("kronecker", "inductive", "alike", "classes of two", "auto", "ball")


def requested(kind: str, m: int, rng: np.random.Generator) -> optrr.Design:
    sizes, asked = rng.integers(2, 8, m), rng.uniform(0.05, 3 if m <= ENUMERATED else 2, m)
    if kind in ("alike", "classes"):
        sizes, asked = np.full(m, sizes[0]), np.full(m, asked[0])
    if kind == "classes of two":
        sizes, asked = np.resize(sizes[:2], m), np.resize(asked[:2], m)
    limits = {"pairs": {"preserve": "pairs"}, "caps": {"conditional_cap": 3.5}}.get(kind, {})
    method = kind if kind in ONE_METHOD else "auto"
    return design(
        {f"a{i}": int(r) for i, r in enumerate(sizes)},
        asked,
        total=2.0 if kind == "total" else None,
        method=method,
        constraints=Constraints(**limits),
    )


def designs(count: int, most: int) -> Iterator[tuple[str, optrr.Design]]:
    """Kinds in turn, three of few attributes to one of many; what a method does not take is drawn again."""
    rng = np.random.default_rng(20)
    kinds = itertools.cycle(METHODS_OF_FEW), itertools.cycle(METHODS_OF_MANY)
    made = 0
    while made < count:
        large = made % 4 == 3
        kind = next(kinds[large])
        # conditional caps are for ten attributes at most, POR's program for what it solves in a second
        top = {"caps": 7, "lp": 9, "por": 9}.get(kind, ENUMERATED)
        m = int(rng.integers(ENUMERATED + 1, most)) if large else int(rng.integers(1, top + 1))
        try:
            yield kind, requested(kind, m, rng)
        except OptrrError:
            continue
        made += 1


def checked(kind: str, design: optrr.Design) -> None:
    """No ε below the truth and no accuracy above it, none further than ``LABEL``; caps and requests met.

    The truth is enumerated over all change sets in exact fractions; of many attributes it is bracketed by two passes in whole
    numbers of any size, which tell nothing of conditional ε.
    """
    sizes, solution = design.domain.sizes.tolist(), design.solution
    if design.domain.m <= ENUMERATED:
        truth = naive.ExactTruth(sizes, naive.drawn_probabilities(design.law.automaton.layers))
        low, high, flips, conditionals = truth.total, truth.total, truth.flips, truth.conditional
    else:
        bracket = Bracket.of(design.law.automaton.layers)
        low, high, flips, conditionals = bracket.low, bracket.high, bracket.flips, []
    with mp.workdps(naive.DIGITS):
        label, least, most = mp.mpf(design.epsilon), naive.log_of(low), naive.log_of(high)
        assert least <= most <= label <= least + LABEL, (kind, design.domain.m, label - most, label - least)
        for i, (r, flip) in enumerate(zip(sizes, flips, strict=True)):
            true = naive.log_of((r - 1) * (1 - flip) / flip)
            assert 0 <= true - mp.mpf(float(design.attribute_epsilons[i])) <= LABEL
            assert abs(mp.mpf(flip.numerator) / flip.denominator / design.law.one_way()[i, 1] - 1) <= FLIP
            if solution.tolerance is not None:
                asked = float(design.requested_epsilons[i])
                assert true >= mp.mpf(asked) - LABEL * (1 + asked)
        for i, true in enumerate(map(naive.log_of, conditionals)):
            assert mp.mpf(float(design.conditional_epsilons[i])) >= true
            assert solution.problem.caps is None or true <= solution.problem.caps[i] + CAP_TOLERANCE


def random_design(rng: np.random.Generator) -> optrr.Design | None:
    """A random request; None where it cannot be met or the method does not take it."""
    m = int(rng.integers(1, 9))
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
        return design(sizes, epsilons, method=method, constraints=Constraints(**wishes))
    except (Infeasible, InvalidProblem, MethodTooLarge, SolveFailed, optrr.core.errors.InvalidInput):
        return None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_no_label_promises_more_than_what_is_drawn(seed):
    requests = map(random_design, itertools.repeat(np.random.default_rng(seed)))
    for made in itertools.islice((d for d in requests if d is not None), 50):
        checked("random", made)


def test_a_cap_holds_where_probabilities_are_tiny():
    made = design({**dict.fromkeys("abcd", 10**6), "e": 5, "f": 5}, 2.0, constraints=Constraints(conditional_cap=2.1))
    checked("caps", made)
    assert max(made.conditional_epsilons) <= 2.1


def test_two_binary_attributes_at_forty_nats_are_as_accurate_as_labelled():
    made = design({"a": 2, "b": 2}, 40.0)
    checked("auto", made)
    np.testing.assert_allclose(made.attribute_epsilons, 40, atol=1e-9)


def test_what_the_slower_sampler_costs_is_said():
    made = design(dict.fromkeys("abcdefghijklm", 3), 40.0, method="classes")
    law = made.law
    law.__dict__.pop("labels", None)
    law.__dict__["automaton"] = None
    short = 40.0 - made.attribute_epsilons.min()
    assert 1 < short < 20
    assert f"costs an attribute {short:.2g} nats of accuracy" in made.warnings[-1]
    accuracies = next(check for check in recomputed_design(made).checks if check.name == "requested accuracies")
    assert accuracies.recomputed == f"met; {short:.2g} nats below, as sampled with rounded probabilities"


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
        assert recomputed_design(design).holds
        looser += design.law.epsilon > design.epsilon + LABEL
    assert looser
