"""Every ε of 225 exported files against the integers in them: enumerated, or bounded where there are too many change sets.

Nothing of the library takes part in the enumeration: it reads the JSON with tests/conformance.py.
"""

import itertools
import json
import math
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import mpmath as mp
import numpy as np
import pytest
from conformance import Conformance, accepted_chance, reference, tried_chance

import optrr
from optrr.core.domain.domain import Attribute, Domain
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms.mechanism import Mechanism
from optrr.devices import export
from optrr.devices.deployment_file import DeployedTrials, DeploymentFile
from optrr.devices.export import deployment_of, fitted_deployment
from optrr_solvers.laws import BallLaw, MixedBall, WeightedBall
from optrr_solvers.laws.trials import Trials, trials_of
from tests import naive
from tests.solvers.test_automaton import KINDS, random_law

# A label of an automaton may stand above the truth by its last place; one of trials is a sum of doubles, and so much above it.
LAST_PLACE, OF_SUMS = mp.mpf("1e-15"), mp.mpf("1.1e-9")
# With choices or second thresholds the total and conditional ε are upper bounds.
HIDDEN = ("second_threshold", "ends")
FILES, MOST = 15, 8


def random_trials(rng: np.random.Generator, m: int) -> Trials:
    """Of soft balls or shells, with weights rounded at random."""

    def one() -> WeightedBall:
        weights = rng.integers(1, 9, m)
        first = int(rng.integers(1, max(2, weights.sum())))
        knots, levels = [first, first + int(rng.integers(1, 5))], [1.0, 0.0]
        if first > 3 and rng.random() < 0.4:
            knots, levels = [first - 3, *knots], [float(rng.uniform(0, 0.9)), *levels]
        fractions = rng.uniform(0, 0.95, m) * (rng.random(m) < 0.6)
        return WeightedBall(weights, fractions, np.array(knots), np.array(levels))

    shares = rng.dirichlet(np.ones(int(rng.integers(1, 4))))
    shares /= shares.sum() * (1 + 1e-15)
    balls = [MixedBall(float(p), one()) for p in shares]
    law = BallLaw(rng.integers(2, 7, m), [np.array([i]) for i in range(m)], balls, rng.uniform(0.1, 8))
    trials = trials_of(law)
    assert trials is not None
    return trials


def domain_of(trials: Trials) -> Domain:
    return Domain.of({f"a{i}": int(r) for i, r in enumerate(trials.sizes)})


def file_of(trials: Trials) -> DeployedTrials:
    """The deployment of trials that no design stands behind."""
    return DeployedTrials.of(domain_of(trials), trials, "0" * 64, "test")


def random_design(rng: np.random.Generator, m: int) -> optrr.Design:
    return optrr.design({f"a{i}": int(r) for i, r in enumerate(rng.integers(2, 8, m))}, rng.uniform(0.05, 2, m))


def random_file(kind: str, rng: np.random.Generator) -> DeploymentFile:
    """What a device would get: for 1 to 8 attributes, or for 20 to 60 different ones."""
    m = int(rng.integers(1, MOST + 1))
    if kind == "trials":
        return file_of(random_trials(rng, m))
    if kind in ("solved trials", "many"):
        # an automaton would do for few attributes, and some such designs have no ball
        with patch.object(export, "_has_automaton", return_value=False):
            for _ in range(9):
                m = int(rng.integers(20, 61) if kind == "many" else rng.integers(5, MOST + 1))
                with suppress(InvalidInput):
                    return fitted_deployment(random_design(rng, m)).deployment
            pytest.fail("none of nine designs has a ball")
    law = random_law(kind, rng, m)
    names = [Attribute(f"a{i}", tuple(range(r))) for i, r in enumerate(law.sizes.tolist())]
    return deployment_of(Mechanism(Domain(tuple(names)), law))


def random_files(kind: str, count: int) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng([ord(letter) for letter in kind])
    for _ in range(count):
        yield json.loads(random_file(kind, rng).to_bytes())


def excesses(content: dict[str, Any]) -> dict[str, list[mp.mpf]]:
    """How far every stated ε is above the exact one."""
    exact = naive.ExactTruth(Conformance(content).sizes, Conformance(content).exact_sets())
    stated = content["epsilon"]
    truths = {"total": [exact.total], "attributes": exact.attribute, "conditional": exact.conditional}
    texts = {**stated, "total": [stated["total"]]}
    with mp.workdps(60):
        return {
            name: [mp.mpf(text) - naive.log_of(truth) for text, truth in zip(texts[name], truths[name], strict=True)]
            for name in truths
        }


ENUMERATED = (*KINDS, "trials", "solved trials")


@pytest.mark.parametrize("kind", ENUMERATED)
@pytest.mark.parametrize("count", [2, pytest.param(FILES, marks=pytest.mark.slow)])
def test_no_stated_epsilon_is_below_the_exact_one(kind: str, count: int) -> None:
    for content in random_files(kind, count):
        above = excesses(content)
        assert min(itertools.chain(*above.values())) >= 0
        assert max(above["attributes"]) <= (OF_SUMS if "trials" in content else LAST_PLACE)
        if "layers" in content and not any(key in layer for layer in content["layers"] for key in HIDDEN):
            assert max(itertools.chain(*above.values())) <= LAST_PLACE
        if kind == "solved trials":
            assert above["total"][0] <= 1e-6


def log_bound(content: dict[str, Any]) -> mp.mpf:
    """The bound of docs/deployment-format.md, §9, of the total, to 60 digits."""
    trials, sizes = content["trials"], Conformance(content).sizes
    (ball,), (uniform,), m, full = trials["balls"], reference.thresholds(trials["uniform"], 64), len(sizes), 1 << 64
    u, a = Fraction(uniform, full), accepted_chance(ball, [None] * m)
    none = (1 - a) ** trials["count"]
    most = mp.exp(naive.log_of((1 - u) * (1 - none) / ((u + (1 - u) * none) * a)))
    rho = mp.mpf(ball["log_ratio"]) / 2**40
    first, second = (reference.thresholds(ball[key], 64) for key in ("thresholds", "second_thresholds"))
    for r, w, p, q in zip(sizes, ball["weights"], first, second, strict=True):
        changed = (p - q + q * mp.exp(rho)) * mp.exp(rho * w) * r / (r - 1)
        most *= max(mp.mpf((full - p) * r), changed) / full
    limits = enumerate(reference.thresholds(ball["acceptance"], 32), ball["least"])
    return mp.log(1 + most * max(limit * mp.exp(-rho * x) for x, limit in limits) / 2**32)


def accepted_set(content: dict[str, Any], rng: np.random.Generator) -> list[int]:
    """A change set whose total is where trials are accepted most often, and so one of the most likely of its size."""
    (ball,) = content["trials"]["balls"]
    limits = reference.thresholds(ball["acceptance"], 32)
    most, total, out = ball["least"] + limits.index(max(limits)), 0, [0] * len(ball["weights"])
    for i in rng.permutation(len(out)).tolist():
        if total + ball["weights"][i] + 1 <= most:
            total, out[i] = total + ball["weights"][i] + 1, 1
    return out


@pytest.mark.parametrize("count", [1, pytest.param(FILES, marks=pytest.mark.slow)])
def test_labels_of_many_attributes_are_bounded_by_exact_sums(count: int) -> None:
    rng = np.random.default_rng(7)
    for content in random_files("many", count):
        trials, stated, sizes = content["trials"], content["epsilon"], Conformance(content).sizes
        m = len(sizes)
        sets = [accepted_set(content, rng), [1] * m]
        likely, unlikely = (
            tried_chance(trials, sizes, s) / math.prod(r - 1 for r, moves in zip(sizes, s, strict=True) if moves)
            for s in sets
        )
        with mp.workdps(60):
            total, bound = mp.mpf(stated["total"]), log_bound(content)
            assert naive.log_of(likely / unlikely) <= bound <= total <= bound + OF_SUMS
            assert total <= naive.log_of(likely / unlikely) + mp.mpf("1e-6")
            for i in rng.choice(m, 3, replace=False).tolist():
                flip = tried_chance(trials, sizes, [1 if j == i else None for j in range(m)])
                own = naive.log_of((sizes[i] - 1) * (1 - flip) / flip)
                assert 0 <= mp.mpf(stated["attributes"][i]) - own <= OF_SUMS
        assert set(stated["conditional"]) == {stated["total"]}
