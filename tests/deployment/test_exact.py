"""Every ε of a deployment against exact enumeration of all change sets."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from optrr.devices.exact import epsilons
from optrr.devices.export import plain
from tests import naive
from tests.solvers.test_automaton import KINDS, random_law

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
