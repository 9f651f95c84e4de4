"""What is written of genotypes, as PLINK 2 reads it, and what a scan writes and draws."""

import gzip
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from genotypes import cohort_of, command
from scipy.stats import binom

from optrr.core.errors import InvalidInput
from optrr.genomics import Associations, Cohort, Variants, design, write_plink
from optrr.genomics.genotypes import MISSING


@pytest.mark.skipif(shutil.which("plink2") is None, reason="plink2 is not installed")
def test_plink2_counts_the_same(tmp_path):
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    rng = np.random.default_rng(1)
    codes, status = rng.choice([0, 1, 2, MISSING], (90, 9)), rng.integers(0, 2, 90)
    mine = cohort_of(codes, status, alleles=[("ACGT"[k % 4], "TG" if k % 3 else "CA") for k in range(9)])
    write_plink(mine, tmp_path / "x.bed")
    for group in (0, 1):
        kept = ["--keep-if", "PHENO1", "==", "control" if group == 0 else "case"]
        order = ["plink2", "--bfile", "x", *kept, "--geno-counts", "--out", "y"]
        subprocess.run(order, cwd=tmp_path, capture_output=True, check=True)
        head, *rows = [line.split("\t") for line in (tmp_path / "y.gcount").read_text().splitlines()]
        assert head[:7] == ["#CHROM", "ID", "REF", "ALT", "HOM_REF_CT", "HET_REF_ALT_CTS", "TWO_ALT_GENO_CTS"]
        assert [row[1] for row in rows] == mine.variants.name.tolist()
        assert [row[3] for row in rows] == mine.variants.a1.tolist()
        ours = [[np.sum(column[status == group] == g) for g in (0, 1, 2, MISSING)] for column in codes.T]
        np.testing.assert_array_equal([[int(x) for x in (*row[4:7], row[-1])] for row in rows], ours)


def scanned_cohort() -> Cohort:
    rng = np.random.default_rng(1)
    shift = rng.normal(0, 0.1, 9) * (np.arange(300) % 2)[:, None]
    return cohort_of(rng.binomial(2, np.clip(0.35 + shift, 0.05, 0.95)), chromosomes=[*"111222333"])


@cache
def scanned(test: str = "trend") -> Associations:
    mine = scanned_cohort()
    return design(mine, 600.0).randomize(mine, random_state=2).scan(test)


@pytest.mark.skipif(shutil.which("plink2") is None, reason="plink2 is not installed")
def test_plink2_itself_names_and_counts_so(tmp_path):
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    mine = scanned_cohort()
    write_plink(mine, tmp_path / "x.bed")
    ours = design(mine, 400.0).randomize(mine, random_state=3).scan().columns
    order = ["plink2", "--bfile", "x", "--glm", "allow-no-covars", "--out", "y"]
    subprocess.run(order, cwd=tmp_path, capture_output=True, check=True)
    head, *rows = [line.split("\t") for line in (tmp_path / "y.PHENO1.glm.logistic.hybrid").read_text().splitlines()]
    theirs = {name: np.array(values) for name, values in zip(head, zip(*rows, strict=True), strict=True)}
    for own, name in (("CHR", "#CHROM"), ("BP", "POS"), ("SNP", "ID"), ("A2", "REF"), ("A1", "ALT"), ("N", "OBS_CT")):
        assert ours[own].astype(str).tolist() == theirs[name].tolist()
    # at such an ε nobody is changed: Wald's and the score's statistics are near each other
    signed = np.sign(ours["OR"] - 1) * np.sqrt(ours["STAT"])
    np.testing.assert_allclose(signed, theirs["Z_STAT"].astype(float), atol=0.15)
    np.testing.assert_allclose(np.log(ours["OR"]), np.log(theirs["OR"].astype(float)), atol=0.1)


@pytest.mark.slow
def test_a_table_that_ends_in_gz_is_compressed(tmp_path, capsys, monkeypatch):
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    monkeypatch.chdir(tmp_path)
    write_plink(scanned_cohort(), Path("x.bed"))
    for line in (
        "gwas design x.bed --total-epsilon 600 -o d.json",
        "gwas randomize x.bed --design d.json -o r.bed --random-state 1",
        "gwas scan r.bed --design d.json -o r.tsv",
        "gwas scan r.bed --design d.json -o r.tsv.gz",
    ):
        code, _, err = command(capsys, line)
        assert code == 0, err
    assert gzip.decompress(Path("r.tsv.gz").read_bytes()) == Path("r.tsv").read_bytes()


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
    assert plots.manhattan_text(variants, np.full(5, np.nan)) == "Empty Manhattan plot: no variant was tested"


def test_a_qq_plot_shows_every_p_value():
    result = scanned()
    (axes,) = result.plot("qq").axes
    assert axes.get_legend_handles_labels()[1] == ["95 %, independent tests", "trend test", "uniform"]
    points = axes.collections[1].get_offsets()[:, 1]
    np.testing.assert_allclose(points, np.sort(-np.log10(result.scores.p_value))[::-1])
    with pytest.raises(InvalidInput, match="'volcano': unknown plot; give 'manhattan' or 'qq'"):
        result.plot("volcano")
