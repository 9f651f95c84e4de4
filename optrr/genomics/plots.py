"""Plots of a scan: Manhattan, QQ, forest and regional plots, as matplotlib figures made without a display."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import beta as beta_law

from optrr.errors import InvalidInput
from optrr.genomics.genotypes import Variants, plain_name, whole_number
from optrr.genomics.tests import GENOME_WIDE
from optrr.records.whole_files import whole_file
from optrr.show.charts import COLOURS, label_text, legend_below, new_figure, plain_logarithms
from optrr_solvers.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# More points than this become a picture inside the figure; a vector file would have megabytes of circles.
_VECTOR_POINTS = 3000
# The largest −log10 p that is drawn: p-values too small for a double are drawn here.
_SMALLEST = 1e-300
# Narrowest chromosome, as a share of the widest.
_NARROWEST = 0.25
_PLOTS = (".svg", ".png", ".pdf")
# Ranks at which the band of a QQ plot is worked out; between them it is a line.
_BAND_POINTS = 200
# The two ends of the band at every rank.
_BAND = (0.025, 0.975)
# Base pairs on either side of a variant in a regional plot, and in a million.
WINDOW, _MEGABASE = 500_000, 1e6


def minus_log10(p: FloatArray) -> FloatArray:
    """−log10 p, at most 300; NaN stays."""
    return np.asarray(-np.log10(np.maximum(p, _SMALLEST)))


def manhattan(variants: Variants, p: FloatArray, title: str = "") -> Figure:
    """−log10 p along the genome, with lines at 5e-8 and at Bonferroni's 5 %."""
    figure = new_figure(8.0, 3.6)
    axes: Any = figure.add_subplot()
    order, where, centres, names = _along_the_genome(variants)
    height = minus_log10(p)[order]
    chromosome = variants.chromosome[order]
    for k, name in enumerate(names):
        on = chromosome == name
        axes.scatter(
            where[on],
            height[on],
            s=12,
            color=COLOURS[0] if k % 2 == 0 else COLOURS[4],
            linewidths=0,
            rasterized=len(variants) > _VECTOR_POINTS,
        )
    tested = max(int(np.isfinite(p).sum()), 1)
    for level, label, colour in ((GENOME_WIDE, "5e-8", COLOURS[3]), (0.05 / tested, "Bonferroni 5 %", COLOURS[1])):
        axes.axhline(-np.log10(level), color=colour, linewidth=1, label=label)
    axes.set_xticks(centres, [label_text(str(n)) for n in names], fontsize=7)
    axes.set_xlabel("chromosome")
    axes.set_ylabel("−log10 p")
    axes.set_title(label_text(title))
    legend_below(figure)
    return figure


def _along_the_genome(variants: Variants) -> tuple[Any, FloatArray, list[float], list[str]]:
    """Order, positions on one axis, the middle of each chromosome, and the chromosomes, numbers first."""
    numbers = {name: whole_number(plain_name(str(name))) for name in set(variants.chromosome)}
    names = sorted(numbers, key=lambda name: (numbers[name] is None, numbers[name] or 0, str(name)))
    rank = {name: k for k, name in enumerate(names)}
    number = np.array([rank[c] for c in variants.chromosome])
    order = np.lexsort((variants.position, number))
    number, position = number[order], variants.position[order].astype(float)
    where, start, centres = np.empty(order.size), 0.0, []
    # a chromosome with few variants still has room for its name
    narrowest = max(_NARROWEST * max(np.ptp(position[number == k]) for k in range(len(names))), 1.0)
    for k in range(len(names)):
        on = number == k
        # variants without a position stand one after another
        inside = position[on] - position[on].min() if np.ptp(position[on]) else np.arange(float(on.sum()))
        width = max(inside.max(), narrowest)
        where[on] = start + inside + (width - inside.max()) / 2
        centres.append(start + width / 2)
        start += 1.05 * width
    return order, where, centres, names


def expected_exponentials(count: int) -> FloatArray:
    """Expected values of the sorted −ln p of ``count`` true null hypotheses, largest first: Σ_{j ≥ i} 1/j."""
    return np.cumsum(1.0 / np.arange(count, 0, -1))[::-1]


def qq_slope(p: FloatArray) -> float:
    """Slope through the origin of the QQ plot of −ln p; its expectation is exactly 1 for uniform p-values."""
    tested = p[np.isfinite(p)]
    if not tested.size:
        return float("nan")
    expected = expected_exponentials(tested.size)
    observed = np.sort(-np.log(np.maximum(tested, _SMALLEST)))[::-1]
    return float(expected @ observed / (expected @ expected))


def pooled_qq_slope(repeats: Sequence[FloatArray]) -> tuple[float, float]:
    """Slope of the QQ plot of all repeats' p-values together, and its jackknife standard error between repeats.

    The variants of one repeat share their people, so that the largest of their −ln p is smaller than among independent
    ones, and a slope within repeats below 1 where every p-value is uniform. Repeats are independent.
    """
    slope = qq_slope(np.concatenate(repeats))
    without = [qq_slope(np.concatenate([*repeats[:k], *repeats[k + 1 :]])) for k in range(len(repeats))]
    return slope, float(np.sqrt((len(repeats) - 1) * np.var(without)))


def qq(series: Mapping[str, FloatArray]) -> Figure:
    """QQ plot of −log10 p of one or more tests against the uniform law, with a band that holds 95 % at every rank.

    The band is that of independent tests: variants near each other stray together, and further from the line.
    """
    figure = new_figure(5.0, 4.4)
    axes: Any = figure.add_subplot()
    reach = 1.0
    most = max((int(np.isfinite(p).sum()) for p in series.values()), default=0)
    if most:
        axes.fill_between(
            *uniform_band(most), color=COLOURS[4], alpha=0.25, linewidth=0, label="95 %, independent tests"
        )
    for (name, p), colour in zip(series.items(), COLOURS, strict=False):
        tested = p[np.isfinite(p)]
        if not tested.size:
            continue
        expected = expected_exponentials(tested.size) / np.log(10)
        axes.scatter(
            expected,
            np.sort(minus_log10(tested))[::-1],
            s=9,
            color=colour,
            label=name,
            linewidths=0,
            rasterized=tested.size > _VECTOR_POINTS,
        )
        reach = max(reach, float(expected[0]))
    axes.plot([0, reach], [0, reach], color=COLOURS[5], linewidth=1, label="uniform")
    axes.set_xlabel("expected −log10 p")
    axes.set_ylabel("observed −log10 p")
    legend_below(figure, 2)
    return figure


def uniform_band(count: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Expected −log10 p of some ranks among ``count`` uniform p-values, and where 95 % of each fall; shape (ranks,) each.

    The i-th smallest of n is of the law Beta(i, n − i + 1), exactly.
    """
    few = count <= _BAND_POINTS
    ranks = np.arange(1, count + 1) if few else np.unique(np.geomspace(1, count, _BAND_POINTS).round().astype(np.int64))
    expected = expected_exponentials(count)[ranks - 1] / np.log(10)
    high, low = (minus_log10(beta_law.ppf(share, ranks, count - ranks + 1)) for share in _BAND)
    return expected, low, high


def forest(table: Mapping[str, Any], title: str = "") -> Figure:
    """A row for each variant of a scan's table, best first: its odds ratio (or slope) with the 95 % interval.

    An interval without a limit on one side ends in an arrow there. Raises InvalidInput where no variant has an estimate.
    """
    effect, nothing = ("BETA", 0.0) if "BETA" in table else ("OR", 1.0)
    middle, low, high = (np.asarray(table[name], dtype=np.float64) for name in (effect, "L95", "U95"))
    shown = np.flatnonzero(np.isfinite(middle) & ((middle > 0) | (effect == "BETA")))
    if not shown.size:
        raise InvalidInput("no variant has an estimate of its effect, so there is nothing to draw; test more people")
    drawn = np.stack([low[shown], middle[shown], high[shown]])
    limits = drawn[np.isfinite(drawn) & ((drawn > 0) | (effect == "BETA"))]
    least, most = min(limits.min(), nothing), max(limits.max(), nothing)
    # arrows stand a little beyond everything else
    room = 0.08 * ((most - least) or 1.0) if effect == "BETA" else max((most / least) ** 0.08, 1.05)
    ends = (least - room, most + room) if effect == "BETA" else (least / room, most * room)
    figure = new_figure(6.4, 1.1 + 0.24 * shown.size)
    axes: Any = figure.add_subplot()
    if effect == "OR":
        axes.set_xscale("log")
    for row, (a, b, c) in enumerate(drawn.T):
        text = f"{b:.3g} ({_limit(a)} to {_limit(c)})"
        left, right = (a if ends[0] < a else ends[0]), (c if c < ends[1] else ends[1])
        axes.plot([left, right], [row, row], color=COLOURS[0], linewidth=1.2)
        for end, marker in ((left, "<"), (right, ">")):
            if end in ends:
                axes.plot(end, row, marker, color=COLOURS[0], markersize=4, clip_on=False)
        axes.plot(b, row, "s", color=COLOURS[0], markersize=4)
        axes.text(1.02, row, text, transform=axes.get_yaxis_transform(), va="center", fontsize=7)
    names = [f"{label_text(str(table['SNP'][k]))} ({label_text(str(table['A1'][k]), 8)})" for k in shown]
    axes.set_yticks(np.arange(shown.size), names, fontsize=7)
    axes.set_ylim(shown.size - 0.5, -0.5)
    axes.set_xlim(*ends)
    axes.axvline(nothing, color=COLOURS[4], linewidth=0.8)
    if effect == "OR":
        plain_logarithms(axes.xaxis)
    what = "slope for each copy of the allele" if effect == "BETA" else "odds ratio of the allele"
    axes.set_xlabel(f"{what}, 95 % interval")
    axes.set_title(label_text(title))
    return figure


def _limit(value: float) -> str:
    return "∞" if np.isposinf(value) else "−∞" if np.isneginf(value) else f"{value:.3g}"


def region(variants: Variants, p: FloatArray, centre: int, window: int = WINDOW, title: str = "") -> Figure:
    """−log10 p of the variants at most ``window`` base pairs from the variant of number ``centre``, on its chromosome.

    Raises InvalidInput for a variant without a position, and a window below 1.
    """
    place, chromosome, name = int(variants.position[centre]), variants.chromosome[centre], str(variants.name[centre])
    check_window(window)
    if place < 1:
        raise InvalidInput(
            f"variant {label_text(name)} has no position, so its region cannot be drawn; name another variant"
        )
    near = np.flatnonzero((variants.chromosome == chromosome) & (np.abs(variants.position - place) <= window))
    figure = new_figure(6.4, 3.6)
    axes: Any = figure.add_subplot()
    heights, places = minus_log10(p[near]), variants.position[near] / _MEGABASE
    axes.scatter(places, heights, s=14, color=COLOURS[0], linewidths=0, rasterized=near.size > _VECTOR_POINTS)
    here = float(minus_log10(p[[centre]])[0])
    axes.plot(place / _MEGABASE, here, "D", color=COLOURS[1], markersize=6, label=label_text(name))
    axes.axhline(-np.log10(GENOME_WIDE), color=COLOURS[3], linewidth=1, label="5e-8")
    axes.set_xlim((place - window) / _MEGABASE, (place + window) / _MEGABASE)
    axes.set_ylim(bottom=0)
    axes.ticklabel_format(axis="x", style="plain", useOffset=False)
    axes.set_xlabel(f"position on chromosome {label_text(str(chromosome), 12)} (million base pairs)")
    axes.set_ylabel("−log10 p")
    axes.set_title(label_text(title))
    legend_below(figure)
    return figure


def check_top(count: int) -> None:
    """Raise InvalidInput for a forest plot of no variants."""
    if count < 1:
        raise InvalidInput(f"a forest plot of {count} variants shows nothing; give at least 1")


def check_window(window: int) -> None:
    """Raise InvalidInput for a region without a width."""
    if window < 1:
        raise InvalidInput(
            f"the window is {window} base pairs, so its region cannot be drawn; name another variant or window"
        )


def check_plot(target: Path) -> None:
    """Raise InvalidInput where a plot cannot be written under that name."""
    if target.suffix.lower() not in _PLOTS:
        raise InvalidInput(f"{target} ends in {target.suffix!r}; plots are written as .svg, .png or .pdf")


def save_figure(figure: Figure, target: Path) -> None:
    """Write as .svg, .png or .pdf, whole or not at all."""
    check_plot(target)
    with whole_file(target) as partial:
        figure.savefig(partial, format=target.suffix.lower()[1:], dpi=150)
