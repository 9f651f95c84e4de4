from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optrr_solvers.enclosure import FLIP_BITS, exp_bounds, flip_ceiling, log_ceiling, log_floor
from optrr_solvers.errors import Infeasible, InvalidProblem
from optrr_solvers.problem import Problem, flip_gaps, flip_probabilities, keep_probabilities

SIZES = [2, 3, 17, 1000, 10**6]
EPSILONS = [1e-6, 3.3e-5, 0.1, 1.0, 13.8, 50.0]


@pytest.mark.parametrize("r", SIZES)
@pytest.mark.parametrize("e", EPSILONS)
def test_flips_keeps_and_gaps_against_60_digits(r, e):
    with mp.workdps(60):
        f = mp.mpf(r - 1) / (r - 1 + mp.exp(mp.mpf(e)))
        gap = mp.mpf(r - 1) / r - f
        # ln(r−1) − ε is rounded at up to 64, hence 64 roundings relative
        for computed, exact in (
            (flip_probabilities(r, e), f),
            (keep_probabilities(r, e), 1 - f),
            (flip_gaps(r, e), gap),
        ):
            assert abs(mp.mpf(float(computed)) / exact - 1) < 64 * 2.0**-53
        assert Problem([r], [e]).eigenvalues[0] == pytest.approx(float(gap * r / (r - 1)), rel=1e-14)


@pytest.mark.parametrize("r", SIZES)
@pytest.mark.parametrize("e", EPSILONS)
def test_enclosures_contain_the_exact_values(r, e):
    with mp.workdps(120):
        true = mp.exp(mp.mpf(e))
        low, high = (mp.mpf(x.numerator) / x.denominator for x in exp_bounds(e))
        assert low < true < high and (high - low) / true < mp.mpf(10) ** -57
        f = (r - 1) / (r - 1 + true)
        ceiling = mp.mpf(flip_ceiling(r, e)) / 2**FLIP_BITS
        assert 0 <= ceiling - f < mp.mpf(2) ** (1 - FLIP_BITS) + f * mp.mpf(10) ** -57


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.fractions(min_value="1/1000000", max_value=10**9).filter(lambda x: x > 0))
def test_logarithms_round_outward(x):
    with mp.workdps(120):
        true = mp.log(mp.mpf(x.numerator) / x.denominator)
        low, high = log_floor(x), log_ceiling(x)
        assert mp.mpf(low) <= true <= mp.mpf(high)
        assert high - low <= 8 * np.spacing(max(abs(low), abs(high)))


def test_logarithm_next_to_one():
    tiny = 1 + Fraction(1, 10**59)
    assert log_floor(tiny) <= 1e-59 <= log_ceiling(tiny)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"sizes": [1], "epsilons": [1.0]}, "attribute 0 has size 1; a size is a whole number from 2"),
        ({"sizes": [2, 2.5], "epsilons": [1, 1]}, r"attribute 1 has size 2\.5"),
        ({"sizes": [2, 10**6 + 1], "epsilons": [1, 1]}, "attribute 1 has size 1000001"),
        ({"sizes": [2], "epsilons": [0.0]}, r"attribute 0 has epsilon 0\.0; give a finite number of nats"),
        ({"sizes": [2], "epsilons": [-1]}, r"epsilon -1\.0"),
        ({"sizes": [2], "epsilons": [np.nan]}, "epsilon nan"),
        ({"sizes": [2], "epsilons": [np.inf]}, "epsilon inf"),
        ({"sizes": [2], "epsilons": [50.1]}, r"epsilon 50\.1"),
        ({"sizes": [2, 3], "epsilons": [1]}, "two lists of one length"),
        ({"sizes": [[2]], "epsilons": [[1]]}, "two lists of one length"),
        ({"sizes": [], "epsilons": []}, "0 attributes; give between 1 and"),
        ({"sizes": [2, 2], "epsilons": [1, 1], "pairs": ((0, 2),)}, r"pair \(0, 2\) must name two different"),
        ({"sizes": [2, 2], "epsilons": [1, 1], "pairs": ((1, 1),)}, r"pair \(1, 1\)"),
        ({"sizes": [2, 2], "epsilons": [1, 1], "kappa": 0.0}, r"kappa = 0\.0; give a positive"),
        ({"sizes": [1], "epsilons": [1.0], "names": ("age",)}, "attribute 'age' has size 1"),
    ],
)
def test_bad_problems_are_refused_in_one_line(arguments, words):
    with pytest.raises(InvalidProblem, match=words) as error:
        Problem(**arguments)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("cap", [0.9, np.nan, -1])
def test_a_cap_below_its_epsilon_is_infeasible(cap):
    with pytest.raises(Infeasible, match="attribute 1 has conditional cap"):
        Problem([2, 2], [1.0, 1.0], caps=np.array([2.0, cap]))


def test_normalised_in_one_place():
    p = Problem([2, 3, 4], [1, 2, 3], pairs=((2, 0), (0, 2), (0, 1)), caps=4.0)
    assert p.pairs == ((0, 1), (0, 2))
    assert p.caps.tolist() == [4.0] * 3
    assert p.sizes.dtype == np.int64 and p.epsilons.dtype == np.float64
    assert p.constrained and p.kronecker_epsilon == 6
    assert not Problem([2], [1], caps=np.inf).constrained


def test_classes_group_alike_attributes_by_first_appearance():
    p = Problem([3, 2, 3, 2, 3], [1, 1, 1, 1, 2])
    assert [c.tolist() for c in p.classes] == [[0, 2], [1, 3], [4]]
    capped = Problem([2, 2, 2], [1, 1, 1], caps=np.array([2, np.inf, 2]))
    assert [c.tolist() for c in capped.classes] == [[0, 2], [1]]
