"""Plots of a scan: what is drawn is what the table says, and the band of a QQ plot is that of order statistics."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from optrr.cli.main import run
from optrr.errors import InvalidInput
from optrr.genomics import Associations, Cohort, MatrixGenotypes, Variants, design, write_plink

plots = pytest.importorskip("optrr.genomics.plots")
pytest.importorskip("matplotlib", reason="matplotlib is not installed")


def cohort() -> Cohort:
    rng = np.random.default_rng(8)
    n, v = 300, 40
    rows = [(str(1 + k // 20), 1000 * k + 5, f"rs{k}", "A", "G") for k in range(v)]
    status = (np.arange(n) % 2).astype(np.int8)
    frequency = np.clip(rng.uniform(0.1, 0.6, v) + np.where(np.arange(v) < 3, 0.2, 0.0) * status[:, None], 0, 0.95)
    names = np.array([f"p{k}" for k in range(n)], dtype=object)
    return Cohort(
        MatrixGenotypes(Variants.of(rows), names, rng.binomial(2, frequency).astype(np.int8)), np.arange(n), status
    )


@cache
def scanned(total: float) -> Associations:
    mine = cohort()
    return design(mine, total).randomize(mine, 1).scan(naive=True)


@pytest.mark.parametrize("count", [1, 2, 50, 3000])
def test_the_band_is_that_of_order_statistics(count):
    """The i-th smallest of n is at most x where at least i of n are."""
    expected, low, high = plots.uniform_band(count)
    ranks = [int(np.argmin(np.abs(plots.expected_exponentials(count) / np.log(10) - x))) + 1 for x in expected]
    assert ranks[0] == 1 and ranks[-1] == count and len(ranks) <= 200
    np.testing.assert_allclose(
        [binom.sf(i - 1, count, 10**-y) for i, y in zip(ranks, high, strict=True)], 0.025, rtol=1e-6
    )
    np.testing.assert_allclose(
        [binom.sf(i - 1, count, 10**-y) for i, y in zip(ranks, low, strict=True)], 0.975, rtol=1e-6
    )
    assert (low < expected).all() and (expected < high).all()


def test_the_band_holds_uniform_values():
    """Of 400 × 30 ranks 5 % are outside, ± .7 % for their dependence: false alarm about 1e-5 beyond 3 %."""
    rng = np.random.default_rng(2)
    _, low, high = plots.uniform_band(30)
    heights = np.sort(-np.log10(rng.random((400, 30))), axis=1)[:, ::-1]
    assert abs(float(np.mean((heights < low) | (heights > high))) - 0.05) < 0.03


@pytest.mark.slow
@pytest.mark.parametrize(("total", "unbounded"), [(300.0, False), (30.0, True)])
def test_rows_of_a_forest_plot(total, unbounded):
    result = scanned(total)
    table = result.rows(result.top(15))
    figure = result.plot("forest", top=15)
    (axes,) = figure.axes
    labels = [text.get_text() for text in axes.get_yticklabels()]
    drawn = np.isfinite(table["OR"].astype(float)) & (table["OR"].astype(float) > 0)
    assert labels == [f"{name} (A)" for name in table["SNP"][drawn]]
    lines = [
        line.get_xdata()
        for line in axes.lines
        if len(line.get_xdata()) == 2 and line.get_ydata()[0] == line.get_ydata()[1]
    ]
    arrows = [line for line in axes.lines if line.get_marker() in ("<", ">")]
    low, high = (table[name][drawn].astype(float) for name in ("L95", "U95"))
    assert len(lines) == drawn.sum() and len(arrows) == int(np.sum(low == 0) + np.sum(np.isinf(high)))
    assert bool(arrows) == unbounded
    for (left, right), a, b in zip(lines, low, high, strict=True):
        assert left == (a if a > 0 else axes.get_xlim()[0]) and right == (b if np.isfinite(b) else axes.get_xlim()[1])
    texts = [text.get_text() for text in axes.texts]
    assert all(text.startswith(f"{x:.3g} (") for text, x in zip(texts, table["OR"][drawn], strict=True))


def test_slopes_are_drawn_around_zero():
    table = {
        "SNP": np.array(["a", "b"]),
        "A1": np.array(["A", "C"]),
        "BETA": np.array([-0.5, np.nan]),
        "L95": np.array([-1.0, 0.0]),
    }
    (axes,) = plots.forest(table | {"U95": np.array([np.inf, 1.0])}).axes
    assert axes.get_xscale() == "linear" and "slope" in axes.get_xlabel() and len(axes.texts) == 1
    assert axes.texts[0].get_text() == "-0.5 (-1 to ∞)"
    with pytest.raises(InvalidInput, match="no variant has an estimate"):
        plots.forest(table | {"BETA": np.full(2, np.nan), "U95": np.ones(2)})


def test_a_region():
    result = scanned(300.0)
    figure = result.plot("region", around="rs10", window=3000)
    (axes,) = figure.axes
    points = axes.collections[0].get_offsets()
    at = np.arange(7, 14)
    np.testing.assert_allclose(points[:, 0], result.variants.position[at] / 1e6)
    np.testing.assert_allclose(points[:, 1], -np.log10(result.scores.p_value[at]))
    # on its own chromosome only
    assert len(result.plot("region", around="rs19", window=3000).axes[0].collections[0].get_offsets()) == 4
    best = result.variants.name[result.top(1)[0]]
    assert result.plot("region").axes[0].lines[0].get_label() == best
    for what, said in (
        ({"around": "rs400"}, "no variant 'rs400' was tested; did you mean 'rs40'|no variant 'rs400'"),
        ({"window": 0}, "the window is 0 base pairs"),
    ):
        with pytest.raises(InvalidInput, match=said):
            result.plot("region", **what)
    with pytest.raises(InvalidInput, match="unknown plot 'volcano'; choose among manhattan, qq, forest, region"):
        result.plot("volcano")
    with pytest.raises(InvalidInput, match="forest plot of 0 variants"):
        result.plot("forest", top=0)
    with pytest.raises(InvalidInput, match="has no position"):
        plots.region(Variants.named(["a"]), np.array([0.5]), 0)


def test_chromosomes_stand_in_the_order_of_their_numbers():
    """Whether or not they are called chr, and after them what is no number, though Python takes it for a digit."""
    names = ["chr10", "chr2", "chrX", "chr1", "chr22", "²"]
    variants = Variants.of([(name, 1 + k, f"rs{k}", "A", "G") for k, name in enumerate(names)])
    (axes,) = plots.manhattan(variants, np.full(6, 0.5)).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["chr1", "chr2", "chr10", "chr22", "chrX", "²"]


def test_the_naive_test_is_in_the_qq_plot():
    (axes,) = scanned(300.0).plot("qq").axes
    labels = axes.get_legend_handles_labels()[1]
    assert labels == ["95 %, independent tests", "trend test", "naive test", "uniform"]


@pytest.mark.slow
def test_on_the_command_line(tmp_path, capsys, monkeypatch):
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    monkeypatch.chdir(tmp_path)
    write_plink(cohort(), Path("x.bed"))
    command = lambda text: run(text.split())  # noqa: E731
    assert command("gwas-design x.bed --total-epsilon 100 -o d.json") == 0
    assert command("gwas-perturb x.bed --design d.json -o r.bed --random-state 1") == 0
    drawn = "--manhattan m.svg --qq q.pdf --forest f.png --top 5 --region-plot g.svg --around rs2 --window 4000"
    assert command(f"gwas r.bed --design d.json {drawn}") == 0, capsys.readouterr().err
    heads = {"m.svg": b"<?xml", "q.pdf": b"%PDF", "f.png": b"\x89PNG", "g.svg": b"<?xml"}
    assert all(Path(name).read_bytes().startswith(head) for name, head in heads.items())
    for more, said in (
        ("--top 5", "--top is for --forest; give it too"),
        ("--around rs1", "--around is for --region-plot"),
        ("--window 5 --forest h.svg", "--window is for --region-plot"),
        ("--forest h.txt", "plots are written as .svg, .png or .pdf"),
        ("--forest h.svg --region-plot h.svg", "h.svg is to be written twice"),
        ("--region-plot h.svg --around rs", "the design has no variant 'rs'"),
        ("-o h.tsv --manhattan h.svg --region-plot h2.svg --around rs", "the design has no variant 'rs'"),
        ("-o h.tsv --forest h.svg --top 0", "a forest plot of 0 variants shows nothing"),
        ("-o h.tsv --region-plot h.svg --window 0", "the window is 0 base pairs"),
    ):
        capsys.readouterr()
        assert command(f"gwas r.bed --design d.json {more}") == 2
        assert said in capsys.readouterr().err
        assert not list(tmp_path.glob("h*"))
