"""Plots of a scan: Manhattan and QQ plots, as matplotlib figures made without a display."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import beta as beta_law

from optrr.core.display import COLOURS, label_text, legend_below, new_figure
from optrr.genomics.genotypes import Variants, plain_name, whole_number
from optrr.genomics.score_tests import GENOME_WIDE
from optrr_solvers.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# More points than this become a picture inside the figure; a vector file would have megabytes of circles.
_VECTOR_POINTS = 3000
# The largest −log10 p that is drawn: p-values too small for a double are drawn here.
_SMALLEST = 1e-300
# Narrowest chromosome, as a fraction of the widest.
_NARROWEST = 0.25
# Most variants that are named in a Manhattan plot, and the letters of a name.
_NAMED, _NAME_LETTERS = 8, 20
# Ranks at which the band of a QQ plot is worked out; between them it is a line.
_BAND_POINTS = 200
# The two ends of the band at every rank.
_BAND = (0.025, 0.975)


def minus_log10(p: FloatArray) -> FloatArray:
    """Compute −log10 p, at most 300; NaN stays."""
    return np.asarray(-np.log10(np.maximum(p, _SMALLEST)))


def manhattan(variants: Variants, p: FloatArray, title: str = "") -> "Figure":
    """Plot −log10 p along the genome with lines at 5e-8 and Bonferroni's 5 %."""
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
    for k in peaks(variants, p, max(GENOME_WIDE, 0.05 / tested))[:_NAMED]:
        place = int(np.flatnonzero(order == k)[0])
        name = label_text(str(variants.name[k]), _NAME_LETTERS)
        axes.annotate(name, (where[place], height[place]), (0, 4), textcoords="offset points", ha="center", fontsize=7)
    axes.margins(y=0.12)
    axes.set_xticks(centres, [label_text(str(n)) for n in names], fontsize=7)
    axes.set_xlabel("chromosome")
    axes.set_ylabel("−log10 p")
    axes.set_title(label_text(title))
    legend_below(figure)
    return figure


def peaks(variants: Variants, p: FloatArray, level: float) -> list[int]:
    """Find each chromosome's variant with the smallest p-value below the level.

    The smallest comes first.
    """
    below = np.flatnonzero(p < level)
    ranked = below[np.argsort(p[below], kind="stable")]
    _, first = np.unique(variants.chromosome[ranked].astype(str), return_index=True)
    return [int(k) for k in ranked[np.sort(first)]]


def manhattan_text(variants: Variants, p: FloatArray) -> str:
    """Describe the Manhattan plot in words, for screen readers."""
    tested = int(np.isfinite(p).sum())
    if not tested:
        return "Empty Manhattan plot: no variant was tested"
    best, hits = int(np.nanargmin(p)), int(np.sum(p < GENOME_WIDE))
    return (
        f"Manhattan plot of −log10 p of {tested:,} variants: {hits:,} below 5e-8; the smallest p-value is "
        f"{p[best]:.2g}, of "
        f"{variants.name[best]} on chromosome {variants.chromosome[best]}"
    )


def _along_the_genome(variants: Variants) -> tuple[Any, FloatArray, list[float], list[str]]:
    """Compute order, positions, chromosome centers and names, numbers first."""
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
        # variants without a position are placed one after another
        inside = position[on] - position[on].min() if np.ptp(position[on]) else np.arange(float(on.sum()))
        width = max(inside.max(), narrowest)
        where[on] = start + inside + (width - inside.max()) / 2
        centres.append(start + width / 2)
        start += 1.05 * width
    return order, where, centres, names


def expected_exponentials(count: int) -> FloatArray:
    """Compute the expected sorted −ln p of ``count`` true null hypotheses.

    Largest first: Σ_{j ≥ i} 1/j.
    """
    return np.cumsum(1.0 / np.arange(count, 0, -1))[::-1]


def qq(series: Mapping[str, FloatArray]) -> "Figure":
    """Plot −log10 p of tests against uniform quantiles.

    A band holds 95 % at every rank.

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
    """Compute expected −log10 p of some ranks and their 95 % limits.

    The band is for ``count`` uniform p-values; shape (ranks,) each.

    The i-th smallest of n is of the law Beta(i, n − i + 1), exactly.
    """
    few = count <= _BAND_POINTS
    ranks = np.arange(1, count + 1) if few else np.unique(np.geomspace(1, count, _BAND_POINTS).round().astype(np.int64))
    expected = expected_exponentials(count)[ranks - 1] / np.log(10)
    high, low = (minus_log10(beta_law.ppf(share, ranks, count - ranks + 1)) for share in _BAND)
    return expected, low, high
