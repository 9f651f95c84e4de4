"""Trade-off curves: monotone, ordered, and their end points known."""

import numpy as np
import pytest

from optrr import InvalidInput, allocate, tradeoff
from optrr.allocation.tradeoffs import cap_tradeoff
from optrr.core.domain.domain import Domain
from optrr_solvers.allocation.split import best_split, single_blocks

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4})


@pytest.mark.slow
def test_curves_fall_and_keep_their_order():
    curves = tradeoff(DOMAIN, [0.5, 1.0, 2.0, 4.0], n=1000, cap_shares=[0.6])
    kronecker, optimum, pairs, capped, bound = curves.curves
    assert bound.name == "no mechanism can be below" and np.all(np.array(bound.errors) <= optimum.errors)
    for c in curves.curves:
        assert c.abscissae == (0.5, 1.0, 2.0, 4.0)
        assert np.all(np.diff(c.errors) < 0)
        assert c.standard_errors == pytest.approx(np.sqrt(np.asarray(c.errors) / (1000 * 9)))
    for worse in (pairs, capped):
        assert np.all(np.asarray(optimum.errors) <= np.asarray(worse.errors) * (1 + 1e-9))
        assert np.all(np.asarray(worse.errors) <= np.asarray(kronecker.errors) * (1 + 1e-6))
    assert optimum.errors[2] == pytest.approx(allocate(DOMAIN, 2.0).best_law.error)
    assert curves.summary()["curves"][1]["error"] == list(optimum.errors)


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["marginals", "pairs"])
def test_the_cap_curve_runs_from_kronecker_to_no_cap(workload):
    curves = cap_tradeoff(DOMAIN, 2.0, learn=workload, points=4)
    level, curve = curves.curves
    arrays = allocate(DOMAIN, 2.0, learn=workload).workload.arrays(DOMAIN)
    split = best_split(arrays, single_blocks(arrays), 2.0)
    assert set(level.errors) == {split.error}
    assert curve.abscissae[0] == 1.0 and curve.abscissae[-1] * split.epsilons.min() == pytest.approx(2.0)
    assert np.all(np.diff(curve.errors) <= 1e-6 * np.asarray(curve.errors[1:]))
    # an attribute is never more accurate than its conditional epsilon, so one way these caps leave Kronecker only
    if workload == "marginals":
        assert curve.errors[0] == pytest.approx(split.error, rel=1e-4)
    else:
        assert curve.errors[0] <= split.error * (1 + 1e-6)
    assert curve.errors[-1] == pytest.approx(allocate(DOMAIN, 2.0, learn=workload).best_law.error, rel=1e-4)


def test_curves_without_people_have_no_standard_errors_and_draw():
    curves = tradeoff(DOMAIN, [1.0, 2.0], preserve_pairs=False)
    assert [c.standard_errors for c in curves.curves] == [(None, None)] * 3
    axes = curves.plot().axes[0]
    assert axes.get_yscale() == "log" and len(axes.lines) == 3
    beside = curves.beside("mine", [9.0, 0.5], [None, None])
    assert beside.curves[-1].name == "mine" and beside.curves[-1].abscissae == beside.curves[0].abscissae
    axes = beside.plot().axes[0]
    assert len(axes.lines) == 4 and axes.yaxis.get_major_formatter()(0.005) == "0.005"
    with pytest.raises(InvalidInput, match="increasing"):
        tradeoff(DOMAIN, [2.0, 1.0])


@pytest.mark.parametrize(
    ("curve", "options", "said"),
    [
        (lambda **k: tradeoff({"a": 2, "b": 3}, [1.0], **k), {"n": 0}, "give the number of people"),
        (lambda **k: cap_tradeoff({"a": 2, "b": 3}, 1.0, **k), {"n": 0}, "give the number of people"),
        (lambda **k: cap_tradeoff({"a": 2, "b": 3}, 1.0, **k), {"points": 0}, "points = 0"),
    ],
)
def test_what_makes_no_curve_is_refused(curve, options, said):
    with pytest.raises(InvalidInput, match=said):
        curve(**options)
