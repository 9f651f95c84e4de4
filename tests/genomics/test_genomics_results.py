"""What is written of genotypes, as PLINK 2 reads it, and what a scan writes and draws."""

import gzip
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from genotypes import cohort_of, command, refused
from scipy.stats import binom

from optrr.core.errors import InvalidInput
from optrr.genomics import Associations, Cohort, Variants, design, write_plink
from optrr.genomics.genotypes import MISSING
from optrr.genomics.result_files import signed_statistic, write_plink2


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


def test_slopes_of_a_trait(tmp_path):
    text, line = lambda value: np.full(4, value, dtype=object), np.linspace(-1, 1, 4)
    columns = {
        "CHR": text("chrX"), "SNP": text("rs7"), "BP": np.arange(4) + 5, "A1": text("g"), "A2": text("T"),
        "TEST": text("ADD"), "N": np.full(4, 90), "A1_FREQ": line, "BETA": line, "SE": np.full(4, 0.5),
        "T_STAT": 2 * line, "P": np.full(4, 0.25), "DF": np.ones(4), "STAT": 4 * line**2,
    }  # fmt: skip
    write_plink2(columns, tmp_path / "x.glm.linear")
    head, first, *_ = (tmp_path / "x.glm.linear").read_text().splitlines()
    assert " ".join(head.split("\t")) == "#CHROM POS ID REF ALT A1 TEST OBS_CT BETA SE T_STAT P"
    assert " ".join(first.split("\t")) == "chrX 5 rs7 T g g ADD 90 -1 0.5 -2 0.25"


def test_forms_refuse_what_they_have_no_place_for(tmp_path):
    mine = scanned_cohort()
    naive = design(mine, 600.0).randomize(mine, random_state=2).scan(naive=True)
    with pytest.raises(InvalidInput, match="no columns for the naive test"):
        naive.write_plink2(tmp_path / "x")
    scanned("genotypic").write_plink2(tmp_path / "x")
    rows = [line.split("\t") for line in (tmp_path / "x").read_text().splitlines()]
    assert {row[rows[0].index("TEST")] for row in rows[1:]} == {"GENO_2DF"}


def test_the_sign_of_a_statistic():
    table = scanned().columns
    signed, odds = signed_statistic(table), table["OR"].astype(float)
    np.testing.assert_allclose(signed**2, table["STAT"].astype(float), atol=1e-20)
    assert ((signed > 0) == (odds > 1))[np.isfinite(signed) & (odds != 1)].all()
    two = scanned("genotypic").columns
    assert np.isnan(signed_statistic(two)[two["DF"] == 2]).all()


@pytest.mark.skipif(shutil.which("plink2") is None, reason="plink2 is not installed")
def test_plink2_itself_names_and_counts_so(tmp_path):
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    mine = scanned_cohort()
    write_plink(mine, tmp_path / "x.bed")
    design(mine, 400.0).randomize(mine, random_state=3).scan().write_plink2(tmp_path / "ours")
    order = ["plink2", "--bfile", "x", "--glm", "allow-no-covars", "--out", "y"]
    subprocess.run(order, cwd=tmp_path, capture_output=True, check=True)
    ours, theirs = (
        [line.split("\t") for line in path.read_text().splitlines()]
        for path in (tmp_path / "ours", tmp_path / "y.PHENO1.glm.logistic.hybrid")
    )
    assert ours[0] == [name for name in theirs[0] if name not in ("FIRTH?", "ERRCODE")]
    for mine_, yours in zip(ours[1:], theirs[1:], strict=True):
        a, b = dict(zip(ours[0], mine_, strict=True)), dict(zip(theirs[0], yours, strict=True))
        assert all(a[name] == b[name] for name in ("#CHROM", "POS", "ID", "REF", "ALT", "A1", "TEST", "OBS_CT"))
        # at such an ε nobody is changed: Wald's and the score's statistics are near each other
        assert float(a["Z_STAT"]) == pytest.approx(float(b["Z_STAT"]), abs=0.15)
        assert np.log(float(a["OR"])) == pytest.approx(np.log(float(b["OR"])), abs=0.1)


@pytest.mark.slow
def test_on_the_command_line(tmp_path, capsys, monkeypatch):
    """Tables in both forms, and plots."""
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    monkeypatch.chdir(tmp_path)
    write_plink(scanned_cohort(), Path("x.bed"))
    for line in (
        "gwas-design x.bed --total-epsilon 600 -o d.json",
        "gwas-randomize x.bed --design d.json -o r.bed --random-state 1",
        "gwas r.bed --design d.json --format plink2 -o r.glm.gz",
        "gwas r.bed --design d.json -o r.tsv --manhattan m.svg --qq q.pdf",
    ):
        code, _, err = command(capsys, line)
        assert code == 0, err
    own = [line.split("\t") for line in Path("r.tsv").read_text().splitlines()]
    glm = [line.split("\t") for line in gzip.decompress(Path("r.glm.gz").read_bytes()).decode().splitlines()]
    assert [row[-1] for row in glm[1:]] == [row[own[0].index("P")] for row in own[1:]]
    assert Path("m.svg").read_bytes().startswith(b"<?xml") and Path("q.pdf").read_bytes().startswith(b"%PDF")
    refused(capsys, "gwas r.bed --design d.json --format plink2", "--format needs --output")


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
    result = design(mine, 300.0).randomize(mine, random_state=1).scan(naive=True)
    (axes,) = result.plot("qq").axes
    labels = axes.get_legend_handles_labels()[1]
    assert labels == ["95 %, independent tests", "trend test", "naive test", "uniform"]
    _, trend, naive = axes.collections
    for points, scores in ((trend, result.scores), (naive, result.naive)):
        np.testing.assert_allclose(points.get_offsets()[:, 1], np.sort(-np.log10(scores.p_value))[::-1])
    with pytest.raises(InvalidInput, match="unknown plot 'volcano'; choose among manhattan, qq"):
        result.plot("volcano")
