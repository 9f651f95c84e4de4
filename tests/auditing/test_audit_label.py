"""What a label says of change sets, against enumeration of every law."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from vectors import VECTORS, load_script

from optrr.devices.export import deployment_of
from optrr.devices.label import label_of
from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.mechanisms.mechanism import Mechanism

LAWS = load_script(VECTORS / "laws.py")
SMALL = [n for n in LAWS.LAWS if n not in ("many", "optimum-11", "optimum-12")]


def mechanism(name: str) -> Mechanism:
    law = LAWS.law_of(name)
    return Mechanism(Domain.of({f"a{i}": int(r) for i, r in enumerate(law.sizes)}), law)


@pytest.mark.parametrize("name", SMALL)
def test_an_automaton_s_sums_are_the_law_s_marginals(name: str) -> None:
    designed = mechanism(name)
    deployed = label_of(deployment_of(designed))
    rng = np.random.default_rng(1)
    m = designed.domain.m
    sets = [*combinations(range(m), min(m, 2)), tuple(rng.permutation(m)[:5].tolist())]
    for chosen in sets[:12]:
        np.testing.assert_allclose(deployed.changes(chosen), designed.law.marginal(chosen), rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(deployed.flips, designed.law.one_way()[:, 1], rtol=1e-9)
    own = label_of(designed)
    # a file's numbers belong to what is drawn, which may be less than the law's label, and are rounded up
    assert deployed.epsilon <= own.epsilon + 1e-8
    np.testing.assert_allclose(deployed.attribute_epsilons, own.attribute_epsilons, atol=1e-8)


@pytest.mark.parametrize("name", ["small", "joint", "optimum-3"])
def test_agreement_is_the_chance_of_the_same_noise_twice(name: str) -> None:
    designed = mechanism(name)
    row = designed.matrix()[0]
    assert label_of(designed).agreement(range(designed.domain.m)) == pytest.approx((row**2).sum(), rel=1e-10)
    names = designed.domain.names[:1]
    assert label_of(designed).agreement([0]) == pytest.approx((designed.matrix(names)[0] ** 2).sum(), rel=1e-10)


def test_what_is_no_label_is_refused() -> None:
    with pytest.raises(InvalidInput, match="got a list for a label"):
        label_of([1])  # type: ignore[arg-type]
