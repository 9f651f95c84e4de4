"""The distributions against scipy.stats."""

import numpy as np
import pytest
from scipy import stats

from optrr.core.estimation.distributions import chi2, chi_squared_tails, norm


@pytest.mark.parametrize("tail", [1e-300, 1e-12, 0.001, 0.025, 0.5, 0.975, 1 - 1e-9])
def test_the_same_numbers_as_scipy(tail):
    assert norm.isf(tail) == stats.norm.isf(tail)
    for df in (1, 2, 7.5, 300):
        assert chi2.isf(tail, df) == stats.chi2.isf(tail, df)
        for x in np.geomspace(1e-3, 1e3, 7):
            assert chi2.sf(x, df) == stats.chi2.sf(x, df)


def test_tails_of_many_statistics_are_those_of_scipy():
    x = np.concatenate([[0.0, np.nan], np.geomspace(1e-12, 1400, 200)])
    for df in (1, 2, 5):
        np.testing.assert_allclose(chi_squared_tails(x, df), stats.chi2.sf(x, df), rtol=1e-12)
