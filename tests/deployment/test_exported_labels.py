"""Labels of every kind of law, and of exported designs of every method, against enumeration or two passes."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

import optrr
from optrr.devices.deployment_file import Deployment
from optrr.devices.exact import epsilons
from optrr.devices.export import deployment_of, fitted_deployment, plain
from optrr.errors import OptrrError
from tests import naive
from tests.brackets import Bracket
from tests.solvers.test_automaton import KINDS, random_law

# A label is at most this many nats above the truth, and a flip probability this share from the design's.
LABEL, FLIP = 1e-9, 1e-12
ENUMERATED = 12
ONE_METHOD = ("kronecker", "inductive", "por", "lp", "classes", "reduced", "ball")
METHODS_OF_FEW = ("auto", *ONE_METHOD, "pairs", "caps", "alike", "total")
METHODS_OF_MANY = ("kronecker", "inductive", "alike", "classes of two", "auto", "ball")


@dataclass(frozen=True)
class Shown:
    """What one design shows: label − truth in nats at least and at most, and a flip probability's largest relative distance."""

    kind: str
    m: int
    least: float
    most: float
    flips: float


def few(kind: str, m: int, rng: np.random.Generator) -> optrr.Design:
    sizes, asked = rng.integers(2, 8, m), rng.uniform(0.05, 3, m)
    options = {"method": kind if kind in ONE_METHOD else "auto"}
    if kind in ("alike", "classes"):
        sizes, asked = np.full(m, sizes[0]), np.full(m, asked[0])
    wishes = {"pairs": {"preserve": "pairs"}, "caps": {"conditional_cap": 3.5}, "total": {"total": 2.0}}
    return optrr.design(named(sizes), asked, **options, **wishes.get(kind, {}))


def many(kind: str, m: int, rng: np.random.Generator) -> optrr.Design:
    sizes, asked = rng.integers(2, 8, m), rng.uniform(0.05, 2, m)
    if kind == "alike":
        sizes, asked = np.full(m, sizes[0]), np.full(m, asked[0])
    if kind == "classes of two":
        sizes, asked = np.resize(sizes[:2], m), np.resize(asked[:2], m)
    return optrr.design(named(sizes), asked, method=kind if kind in ("kronecker", "inductive", "ball") else "auto")


def named(sizes: np.ndarray) -> dict[str, int]:
    return {f"a{i}": int(r) for i, r in enumerate(sizes)}


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
            yield kind, (many if large else few)(kind, m, rng)
        except OptrrError:
            continue
        made += 1


def shown(kind: str, design: optrr.Design) -> Shown:
    """Export, read back, and compare with what is drawn."""
    law = design.law
    if law.automaton is not None and law.automaton.states < 1 << 14:
        deployed = deployment_of(design.mechanism)
    else:
        fitted = fitted_deployment(design, 1 << 18)
        deployed, law = fitted.deployment, fitted.design.law
    deployed = Deployment.read(deployed.to_bytes())
    least, most, flips = (enumerated if law.m <= ENUMERATED else passed)(deployed)
    with mp.workdps(naive.DIGITS):
        shares = zip(flips, law.one_way()[:, 1].tolist(), strict=True)
        distance = max(abs(mp.mpf(flip.numerator) / flip.denominator / share - 1) for flip, share in shares)
    return Shown(kind, law.m, least, most, float(distance))


def enumerated(deployed: Deployment) -> tuple[float, float, list[Fraction]]:
    """Label − truth over all change sets in exact fractions, at least and at most, and exact flips."""
    exact = naive.ExactTruth(deployed.domain.sizes.tolist(), naive.drawn_probabilities(deployed.automaton))
    with mp.workdps(naive.DIGITS):
        for text, ratio in zip(deployed.stated.conditional, exact.conditional, strict=True):
            assert mp.mpf(text) >= naive.log_of(ratio)
    return *above(deployed, exact.total, exact.total, exact.flips), exact.flips


def passed(deployed: Deployment) -> tuple[float, float, list[Fraction]]:
    """The same by two passes in whole numbers, without conditional ε."""
    bracket = Bracket.of(deployed.automaton)
    return *above(deployed, bracket.low, bracket.high, bracket.flips), bracket.flips


def above(deployed: Deployment, low: Fraction, high: Fraction, flips: list[Fraction]) -> tuple[float, float]:
    """Label − truth at least and at most, where e^ε is from ``low`` to ``high``; attributes' labels are looked at here."""
    with mp.workdps(naive.DIGITS):
        sizes = zip(deployed.stated.attributes, deployed.domain.sizes.tolist(), flips, strict=True)
        for text, r, flip in sizes:
            assert 0 <= mp.mpf(text) - naive.log_of((r - 1) * (1 - flip) / flip) <= LABEL
        label = mp.mpf(deployed.stated.total)
        return float(label - naive.log_of(high)), float(label - naive.log_of(low))


@pytest.mark.slow
def test_labels_of_exported_designs() -> None:
    out = [shown(kind, design) for kind, design in designs(48, 61)]
    for x in out:
        assert 0 <= x.least <= x.most <= LABEL, x
        assert x.flips <= FLIP, x
    assert {x.kind for x in out} == {*METHODS_OF_FEW, *METHODS_OF_MANY}
    assert sum(x.m > ENUMERATED for x in out) == 12


# A label may stand above the truth by this much: its last place.
LAST_PLACE = mp.mpf("1e-15")


@pytest.mark.parametrize("kind", KINDS)
def test_labels_are_the_truth_rounded_up(kind: str) -> None:
    rng = np.random.default_rng(40 + KINDS.index(kind))
    for _ in range(12):
        law = random_law(kind, rng, int(rng.integers(1, 7)))
        layers = plain(law.automaton.layers)
        exact = epsilons(layers)
        truth = naive.ExactTruth(law.sizes.tolist(), naive.drawn_probabilities(layers))
        hidden = any(getattr(x, "high", None) is not None or hasattr(x, "ends") for x in layers.layers)
        with mp.workdps(60):
            for label, ratio in [(exact.total, truth.total), *zip(exact.conditional, truth.conditional, strict=True)]:
                above = mp.mpf(str(label)) - naive.log_of(ratio)
                assert above >= 0
                assert hidden or above <= LAST_PLACE
            for i, label in enumerate(exact.attributes):
                assert 0 <= mp.mpf(str(label)) - naive.log_of(truth.attribute[i]) <= LAST_PLACE
        assert [Fraction(*x) for x in exact.flips] == list(truth.flips)
        # neither label is above what was proven before
        assert float(exact.total) <= law.automaton.truth.epsilon + 2e-15
        if law.automaton.truth.conditional is not None:
            assert np.all(np.array(exact.conditional, dtype=float) <= law.automaton.truth.conditional + 2e-15)
