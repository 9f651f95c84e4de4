"""The distributions against scipy.stats."""

import numpy as np
import pytest
from scipy import stats

from optrr.distributions import chi2, norm


@pytest.mark.parametrize("tail", [1e-300, 1e-12, 0.001, 0.025, 0.5, 0.975, 1 - 1e-9])
def test_the_same_numbers_as_scipy(tail):
    assert norm.isf(tail) == stats.norm.isf(tail)
    for df in (1, 2, 7.5, 300):
        assert chi2.isf(tail, df) == stats.chi2.isf(tail, df)
        for x in np.geomspace(1e-3, 1e3, 7):
            assert chi2.sf(x, df) == stats.chi2.sf(x, df)
