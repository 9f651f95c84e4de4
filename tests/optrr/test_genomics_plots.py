"""Plots of a scan: what is drawn is what the table says, and the band of a QQ plot is that of order statistics."""

from __future__ import annotations

import numpy as np
import pytest
from genotypes import cohort_of
from scipy.stats import binom

from optrr.errors import InvalidInput
from optrr.genomics import Variants, design

plots = pytest.importorskip("optrr.genomics.plots")
pytest.importorskip("matplotlib", reason="matplotlib is not installed")


@pytest.mark.parametrize("count", [1, 2, 50, 3000])
def test_the_band_is_that_of_order_statistics(count):
    """The i-th smallest of n is at most x where at least i of n are."""
    expected, low, high = plots.uniform_band(count)
    ranks = [int(np.argmin(np.abs(plots.expected_exponentials(count) / np.log(10) - x))) + 1 for x in expected]
    assert ranks[0] == 1 and ranks[-1] == count and len(ranks) <= 200
    for ends, share in ((high, 0.025), (low, 0.975)):
        reached = [binom.sf(i - 1, count, 10**-y) for i, y in zip(ranks, ends, strict=True)]
        np.testing.assert_allclose(reached, share, rtol=1e-6)
    assert (low < expected).all() and (expected < high).all()


def test_a_manhattan_plot_shows_every_p_value_along_the_genome():
    """Chromosomes stand in the order of their numbers, called chr or not; what is no number, as ² is none, comes after them."""
    names = ["chr10", "chr2", "chrX", "chr1", "chr22", "²"]
    p = 10.0 ** -np.arange(1, 7)
    variants = Variants.of([(name, 1 + k, f"rs{k}", "A", "G") for k, name in enumerate(names)])
    (axes,) = plots.manhattan(variants, p).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["chr1", "chr2", "chr10", "chr22", "chrX", "²"]
    heights = [float(points.get_offsets()[0, 1]) for points in axes.collections]
    np.testing.assert_allclose(heights, [4, 2, 1, 5, 3, 6])


def test_a_manhattan_plot_names_the_best_hit_of_every_chromosome_and_is_put_into_words():
    p = np.array([1e-9, 1e-12, 0.2, 2e-10, np.nan])
    variants = Variants.of([(c, k, f"rs{k}", "A", "G") for k, c in enumerate(["1", "1", "2", "3", "3"])])
    (axes,) = plots.manhattan(variants, p).axes
    assert [text.get_text() for text in axes.texts] == ["rs1", "rs3"]
    said = plots.manhattan_text(variants, p)
    assert "4 variants: 3 below 5e-8" in said and "1e-12, of rs1 on chromosome 1" in said
    assert plots.manhattan_text(variants, np.full(5, np.nan)) == "Manhattan plot of no tested variant"


def test_a_qq_plot_shows_the_naive_test_too():
    rng = np.random.default_rng(8)
    mine = cohort_of(rng.binomial(2, rng.uniform(0.1, 0.6, 40), (300, 40)))
    result = design(mine, 300.0).randomize(mine, 1).scan(naive=True)
    (axes,) = result.plot("qq").axes
    labels = axes.get_legend_handles_labels()[1]
    assert labels == ["95 %, independent tests", "trend test", "naive test", "uniform"]
    _, trend, naive = axes.collections
    for points, scores in ((trend, result.scores), (naive, result.naive)):
        np.testing.assert_allclose(points.get_offsets()[:, 1], np.sort(-np.log10(scores.p_value))[::-1])
    with pytest.raises(InvalidInput, match="unknown plot 'volcano'; choose among manhattan, qq"):
        result.plot("volcano")
