"""Numbers from Python that no double holds: one line of a kind of ours, whatever takes them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import optrr
from optrr.domain.bins import Bins
from optrr.errors import OptrrError

DOMAIN = {"a": 2, "b": 3}
TAKEN: dict[str, Callable[[int], object]] = {
    "epsilon": lambda x: optrr.design(DOMAIN, x),
    "epsilons": lambda x: optrr.design(DOMAIN, [x, 1]),
    "named epsilons": lambda x: optrr.design(DOMAIN, {"a": x, "b": 1.0}),
    "total": lambda x: optrr.design(DOMAIN, 1.0, total=x),
    "cap": lambda x: optrr.design(DOMAIN, 1.0, conditional_cap=x),
    "caps": lambda x: optrr.design(DOMAIN, 1.0, conditional_cap={"a": x}),
    "kappa": lambda x: optrr.design(DOMAIN, 1.0, preserve="pairs", kappa=x),
    "time limit": lambda x: optrr.SolveOptions(time_limit=x),
    "tolerance": lambda x: optrr.SolveOptions(tolerance=x),
    "total to allocate": lambda x: optrr.allocate(optrr.Domain.of(DOMAIN), x),
    "floor": lambda x: optrr.allocate(optrr.Domain.of(DOMAIN), 1.0, floors=x),
    "size": lambda x: optrr.design({"a": 2, "b": x}, 1.0),
    "edge": lambda x: Bins((0, 1, x)),
}


@pytest.mark.parametrize("digits", [400, 5000])
@pytest.mark.parametrize("what", TAKEN)
def test_a_number_that_no_double_holds(what: str, digits: int) -> None:
    with pytest.raises(OptrrError) as said:
        TAKEN[what](10**digits)
    assert "\n" not in str(said.value) and len(str(said.value)) < 400
