"""Intervals of averages and changes over rounds of unequal size: exact coverage, and established intervals of two shares."""

import numpy as np
import pytest
from scipy.stats import binom
from statsmodels.stats.proportion import confint_proportions_2indep

from optrr.ways.longitudinal import Panel, longitudinal
from optrr.ways.longitudinal.panel import ABSENT


def two_rounds(epsilon, counts, sizes):
    """A panel of two groups of people, ``counts`` of whose reports are of the second of two categories."""
    design = longitudinal({"a": 2}, [epsilon], forever=epsilon + 1)
    cells = np.full((sum(sizes), 2), ABSENT)
    cells[: sizes[0], 0] = np.arange(sizes[0]) < counts[0]
    cells[sizes[0] :, 1] = np.arange(sizes[1]) < counts[1]
    return Panel(design.domain, design.mechanism, cells)


@pytest.mark.parametrize("share", [0.02, 0.06])
def test_a_small_round_beside_a_large_one_is_covered(share):
    """The sum over all numbers of reports in a round of 20 people; the round of 2000 is as expected, nearly without error."""
    small, large = 20, 2000
    kernel = two_rounds(5.0, (0, 0), (2, 2)).mechanism.kernel(["a"])
    chance = kernel.expected(np.array([1 - share, share]))[1]
    covered = np.zeros(2)
    # what is left out of the sum counts as not covered
    for reports in range(8):
        panel = two_rounds(5.0, (round(large * chance), reports), (large, small))
        for k, (result, truth) in enumerate(((panel.average(), share), (panel.change(), 0.0))):
            inside = result.lower[1] <= truth <= result.upper[1]
            covered[k] += inside * binom.pmf(reports, small, chance)
    assert np.all(covered > 0.93)


@pytest.mark.parametrize(("counts", "sizes"), [((300, 200), (500, 400)), ((40, 160), (200, 300))])
def test_changes_of_large_rounds_are_score_intervals(counts, sizes):
    """Reports that are nearly never randomized: Miettinen and Nurminen's interval, within 4 % of its length."""
    result = two_rounds(25.0, counts, sizes).change()
    low, high = confint_proportions_2indep(counts[1], sizes[1], counts[0], sizes[0], method="score", compare="diff")
    np.testing.assert_allclose([result.lower[1], result.upper[1]], [low, high], rtol=0, atol=0.04 * (high - low))


def test_rounds_of_the_same_reports_say_no_more_than_one():
    """Nobody of 20 reported the cell, four times: the average is no better known than one round's share."""
    design = longitudinal({"a": 2}, [5.0], forever=5.2)
    upper = [
        Panel(design.domain, design.mechanism, np.zeros((20, rounds), dtype=np.int64)).average().upper[1]
        for rounds in (1, 4)
    ]
    # the second stage is drawn anew in every round, so a little is learnt
    assert 0.7 * upper[0] < upper[1] <= 1.01 * upper[0]
