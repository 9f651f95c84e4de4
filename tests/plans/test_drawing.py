"""Charts of a plan: they are XML, their marks stand where the numbers say, and the numbers are read out."""

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from optrr.plans.figures import (
    Bar,
    digits,
    dots_chart,
    frontier_chart,
    interval_text,
    intervals_chart,
    plausible_shares,
    power_of_ten,
)

SVG = "{http://www.w3.org/2000/svg}"


def root_of(chart):
    markup = str(chart.markup)
    root = ElementTree.fromstring(markup)
    assert (root.tag, root.get("role")) == (f"{SVG}svg", "img")
    # colours are the style sheet's, and nothing runs or is fetched
    assert not re.search(r"style=|href|<script|#[0-9a-f]{3}", markup)
    return root


def marks(root, kind, tag="circle"):
    return [mark for mark in root.iter(f"{SVG}{tag}") if mark.get("class") == kind]


@pytest.mark.parametrize("seed", range(20))
def test_the_frontier_is_even_in_logarithms_and_ends_where_its_attributes_say(seed):
    rng = np.random.default_rng(seed)
    totals = np.sort(rng.uniform(0.125, 16, 8))
    margins = np.sort(rng.uniform(0.01, 200, 8))[::-1]
    chosen = (totals[3], margins[3])
    chart = frontier_chart(
        [*zip(totals, margins, strict=True)], [*zip(totals, margins / 2, strict=True)], chosen, (0.125, 16)
    )
    root = root_of(chart)
    left, right = float(root.get("data-left")), float(root.get("data-right"))
    dots = marks(root, "point")
    x = np.array([float(dot.get("cx")) for dot in dots])
    np.testing.assert_allclose((x - left) / (right - left), np.log(totals / 0.125) / math.log(16 / 0.125), atol=1e-3)
    y = np.array([float(dot.get("cy")) for dot in dots])
    slopes = np.diff(y) / np.diff(np.log(margins))
    big = np.abs(np.diff(np.log(margins))) > 0.1
    np.testing.assert_allclose(slopes[big], np.median(slopes[big]), rtol=0.05)
    (large,) = marks(root, "chosen")
    assert (large.get("cx"), large.get("cy")) == (dots[3].get("cx"), dots[3].get("cy"))
    for total, margin in zip(totals, margins, strict=True):
        assert f"ε {total:.2g}: ±{digits(margin, 2)}" in root.get("aria-label")


def test_a_frontier_without_points_or_with_impossible_ones_is_drawn():
    for totals, margins in (((), ()), ((1.0,), (math.inf,)), ((1.0, 2.0), (math.inf, 3.0)), ((1.0, 2.0), (3.0, 3.0))):
        for chosen in (None, (1.5, math.inf), (0.05, 3.0), (20.0, 3.0)):
            chart = frontier_chart([*zip(totals, margins, strict=True)], [], chosen, (0.125, 16))
            assert "nan" not in str(chart.markup) and "inf" not in chart.svg
            root_of(chart)


def test_intervals_stand_around_their_bars():
    bars = [Bar("a <b> & \"c\" 'd'", 30, 20, 40), Bar("\u202e long" * 9, 0, 0, 100)]
    root = root_of(intervals_chart("x × y", bars, 3))
    rects = marks(root, "bar", "rect")
    paths = marks(root, "interval", "path")
    for bar, rect, path in zip(bars, rects, paths, strict=True):
        zero = float(rect.get("x"))
        scale = (float(rects[0].get("width"))) / 30
        start, _, end = re.match(r"M([\d.]+) ([\d.]+)H([\d.]+)", path.get("d")).groups()
        assert float(start) == pytest.approx(zero + scale * bar.lower, abs=0.3)
        assert float(end) == pytest.approx(zero + scale * bar.upper, abs=0.6)
    assert "30 %, from 20 to 40 %" in root.get("aria-label") and "3 more" in root.get("aria-label")
    assert "\u202e" not in "".join(root.itertext())


@pytest.mark.parametrize(("before", "after"), [(0, 0), (10, 24), (99, 100), (1, 1)])
def test_of_a_hundred_dots_so_many_are_filled(before, after):
    root = root_of(dots_chart(before, after, "How sure."))
    filled = [float(dot.get("cx")) for dot in marks(root, "dot filled")]
    every = filled + [float(dot.get("cx")) for dot in marks(root, "dot")]
    middle = (min(every) + max(every)) / 2
    assert len(every) == 200
    assert (sum(x < middle for x in filled), sum(x > middle for x in filled)) == (before, after)


def test_made_up_shares_are_the_first_cells_of_an_outer_product():
    one = {2: np.array([0.3, 0.7])} | {
        r: (1 / np.arange(2, r + 2)) / (1 / np.arange(2, r + 2)).sum() for r in (3, 5, 20)
    }
    for sizes in [(2,), (5,), (2, 3), (3, 20), (2, 2, 5), (20, 20, 2)]:
        whole = one[sizes[0]]
        for size in sizes[1:]:
            whole = np.multiply.outer(whole, one[size])
        np.testing.assert_allclose(plausible_shares(sizes, 12), whole.ravel()[:12])
        assert whole.sum() == pytest.approx(1)
    assert len(plausible_shares([10**5, 2], 12)) == 12


def test_figures_have_the_digits_that_they_say():
    rng = np.random.default_rng(0)
    for value in np.exp(rng.uniform(-9, 25, 500)):
        for count in (2, 4):
            read = float(digits(value, count).replace(",", ""))
            assert abs(read / value - 1) <= 0.5 * 10.0 ** (1 - count) * (1 + 1e-9)
            assert "e" not in digits(value, count)
    assert [digits(x, 4) for x in (0, 1, 1234567, 0.5)] == ["0", "1", "1,235,000", "0.5"]
    assert power_of_ten(1e-6) == "10⁻⁶" and power_of_ten(3.071e-8) == "3.1 · 10⁻⁸"


def test_an_interval_is_rounded_outwards_and_stays_within_everything():
    rng = np.random.default_rng(1)
    for share, margin in rng.uniform(0.02, 60, (300, 2)):
        low, high = (float(x) for x in interval_text(share, margin).removesuffix(" %").split("–"))
        assert max(0, share - margin - 1) <= low <= max(share - margin, 0) + 1e-9
        assert min(share + margin, 100) - 1e-9 <= high <= min(100, share + margin + 1)
        assert low < high
