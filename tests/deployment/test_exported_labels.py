"""Designs of every method, exported: the label against enumeration up to 12 attributes, against two passes beyond."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

import optrr
from optrr.deployment.deployment_file import Deployment, read_deployment_text
from optrr.deployment.export import deployment_of
from optrr.deployment.fit import fitted_deployment
from optrr.errors import OptrrError
from optrr_solvers.automaton.bounds import truth
from tests import naive

# A label is at most this many nats above the truth, and a flip probability this share from the design's.
LABEL, FLIP = 1e-9, 1e-12
ENUMERATED = 12
ONE_METHOD = ("kronecker", "inductive", "por", "lp", "classes", "reduced", "ball")
METHODS_OF_FEW = ("auto", *ONE_METHOD, "pairs", "caps", "alike", "total")
METHODS_OF_MANY = ("kronecker", "inductive", "alike", "classes of two", "auto", "ball")


@dataclass(frozen=True)
class Shown:
    """What one exported design shows: label − truth in nats, and the largest relative distance of a flip probability."""

    kind: str
    m: int
    above: float
    flips: float


def summary(out: list[Shown]) -> str:
    """What full runs print."""
    many, below = sum(x.m > ENUMERATED for x in out), sum(x.above < 0 for x in out)
    least, most, flips = min(x.above for x in out), max(x.above for x in out), max(x.flips for x in out)
    return (
        f"{len(out)} designs, {many} by two passes: {below} labels below the truth, label − truth {least:.3g} to {most:.3g} "
        f"nats, flips within {flips:.3g}, relative"
    )


def few(kind: str, m: int, rng: np.random.Generator) -> optrr.Design:
    sizes, asked = rng.integers(2, 8, m), rng.uniform(0.05, 3, m)
    options = {"method": kind if kind in ONE_METHOD else "auto"}
    if kind in ("alike", "classes"):
        sizes, asked = np.full(m, sizes[0]), np.full(m, asked[0])
    wishes = {"pairs": {"preserve": "pairs"}, "caps": {"conditional_cap": 3.5}, "total": {"total_epsilon": 2.0}}
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
        top = {"caps": 7, "lp": 9, "por": 10}.get(kind, ENUMERATED)
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
    deployed = read_deployment_text(deployed.to_bytes())
    above, flips = enumerated(deployed) if law.m <= ENUMERATED else passed(deployed)
    distance = np.max(np.abs(flips / law.one_way()[:, 1] - 1))
    return Shown(kind, law.m, above, float(distance))


def enumerated(deployed: Deployment) -> tuple[float, np.ndarray]:
    """Label − truth over all change sets in exact fractions, and exact flips."""
    exact = naive.ExactTruth(deployed.domain.sizes.tolist(), naive.drawn_probabilities(deployed.automaton))
    with mp.workdps(60):
        above = mp.mpf(deployed.stated.total) - naive.log_of(exact.total)
        for text, ratio in zip(deployed.stated.attributes, exact.attribute, strict=True):
            assert 0 <= mp.mpf(text) - naive.log_of(ratio) <= LABEL
        for text, ratio in zip(deployed.stated.conditional, exact.conditional, strict=True):
            assert mp.mpf(text) >= naive.log_of(ratio)
        return float(above), np.array([float(Fraction(x)) for x in exact.flips])


def passed(deployed: Deployment) -> tuple[float, np.ndarray]:
    """Label − truth by the two passes that label designs, sixty digits, rounded up to a double."""
    other = truth(deployed.automaton, exact=True)
    # the other passes' number is rounded up to a double, so that it may stand a last place above
    ulp = Decimal(float(np.spacing(other.epsilon)))
    above = Decimal(deployed.stated.total) - Decimal(other.epsilon)
    assert above >= -2 * ulp
    return max(float(above), 0.0), other.flips


def check(count: int, most: int) -> list[Shown]:
    out = [shown(kind, design) for kind, design in designs(count, most)]
    for x in out:
        assert 0 <= x.above <= LABEL, x
        assert x.flips <= FLIP, x
    return out


@pytest.mark.slow
def test_labels_of_exported_designs() -> None:
    assert len({x.kind for x in check(16, 20)}) >= 12


@pytest.mark.full
def test_labels_of_two_hundred_exported_designs() -> None:
    out = check(200, 101)
    print(summary(out))
    assert len(out) == 200
    assert {x.kind for x in out} == {*METHODS_OF_FEW, *METHODS_OF_MANY}
    assert sum(x.m > ENUMERATED for x in out) == 50
