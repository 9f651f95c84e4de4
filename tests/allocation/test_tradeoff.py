"""Trade-off curves: monotone, ordered, and their end points known."""

import numpy as np
import pytest

from optrr import Constraints, InvalidInput, allocate, tradeoff
from optrr.core.domain.domain import Domain

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4})


@pytest.mark.slow
def test_curves_fall_and_keep_their_order():
    constraints = {"pairs": Constraints(preserve="pairs"), "capped": Constraints(conditional_cap=0.4)}
    curves = tradeoff(DOMAIN, [0.5, 1.0, 2.0, 4.0], n=1000, constraints=constraints)
    kronecker, optimum, pairs, capped, questions, bound = curves.curves
    assert (pairs.name, capped.name) == tuple(constraints) and bound.name == "lower bound for any mechanism"
    assert np.all(np.array(bound.errors) <= questions.errors) and np.all(np.array(bound.errors) <= optimum.errors)
    for c in curves.curves:
        assert c.abscissae == (0.5, 1.0, 2.0, 4.0)
        assert np.all(np.diff(c.errors) < 0)
        assert c.standard_errors == pytest.approx(np.sqrt(np.asarray(c.errors) / (1000 * 9)))
    for worse in (pairs, capped):
        assert len(worse.errors) == 4
        assert np.all(np.asarray(optimum.errors) <= np.asarray(worse.errors) * (1 + 1e-9))
        assert np.all(np.asarray(worse.errors) <= np.asarray(kronecker.errors) * (1 + 1e-6))
    assert optimum.errors[2] == pytest.approx(allocate(DOMAIN, 2.0).best_law.error)
    assert curves.summary()["curves"][1]["error"] == list(optimum.errors)


def test_curves_without_people_have_no_standard_errors_and_draw():
    curves = tradeoff(DOMAIN, [1.0, 2.0])
    assert [c.standard_errors for c in curves.curves] == [(None, None)] * 4
    axes = curves.plot().axes[0]
    assert axes.get_yscale() == "log" and len(axes.lines) == 4
    assert axes.yaxis.get_major_formatter()(0.005) == "0.005"
    with pytest.raises(InvalidInput, match="increasing"):
        tradeoff(DOMAIN, [2.0, 1.0])

    with pytest.raises(InvalidInput, match="give the number of respondents"):
        tradeoff(DOMAIN, [1.0], n=0)
