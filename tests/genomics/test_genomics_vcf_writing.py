"""What is written of genotypes: a VCF that bcftools and PLINK 2 read as we do, and what a scan writes and draws."""

import gzip
import json
import shutil
import struct
import subprocess
import zlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from genotypes import cohort_of, command, refused, whole
from scipy.stats import binom

from optrr.cli.main import run
from optrr.core.errors import InvalidInput
from optrr.genomics import (
    Associations,
    Cohort,
    MatrixGenotypes,
    PhenotypeColumns,
    Variants,
    design,
    read_cohort,
    write_plink,
    write_vcf,
)
from optrr.genomics.genotypes import MISSING
from optrr.genomics.result_files import signed_statistic, write_plink2

needs_cyvcf2 = pytest.mark.skipif(find_spec("cyvcf2") is None, reason="cyvcf2 is not installed")


def cohort(people: int = 120, variants: int = 9, chromosome: str = "1", seed: int = 1, missing: float = 0.0) -> Cohort:
    rng = np.random.default_rng(seed)
    rows = [(chromosome, 100 * k + 7, f"rs{k}", "ACGT"[k % 4], "TG" if k % 3 else "CA") for k in range(variants)]
    codes = rng.binomial(2, rng.uniform(0.1, 0.9, variants), (people, variants)).astype(np.int8)
    male = rng.random(people) < 0.5 if chromosome in ("X", "Y") else None
    if male is not None:
        codes[male] = 2 * (codes[male] > 0)
    codes[rng.random(codes.shape) < missing] = MISSING
    names = np.array([f"p{k}" for k in range(people)], dtype=object)
    status = rng.integers(0, 2, people).astype(np.int8)
    return Cohort(MatrixGenotypes(Variants.of(rows), names, codes), np.arange(people), status, {}, male)


def same(a: Cohort, b: Cohort) -> None:
    np.testing.assert_array_equal(whole(a), whole(b))
    for name in ("status", "people", "male"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for name in ("chromosome", "position", "name", "a1", "a2"):
        np.testing.assert_array_equal(getattr(a.variants, name), getattr(b.variants, name))


def tables(rows: list[list[str]], status: dict[str, int], people: list[str]) -> np.ndarray:
    """Genotype counts by status, call by call: shape (V, 4, 2), the last row for missing calls."""
    kinds = {"0/0": 0, "0/1": 1, "1/0": 1, "1/1": 2, "./.": 3}
    out = np.zeros((len(rows), 4, 2), dtype=int)
    for k, row in enumerate(rows):
        for person, call in zip(people, row, strict=True):
            out[k, kinds[call.split(":")[0]], status[person]] += 1
    return out


def our_tables(mine: Cohort) -> np.ndarray:
    codes = whole(mine)
    codes = np.where(codes == MISSING, 3, codes)
    return np.array([[[np.sum((c == g) & (mine.status == s)) for s in (0, 1)] for g in range(4)] for c in codes.T])


@needs_cyvcf2
@pytest.mark.parametrize("name", ["x.vcf", "x.vcf.gz"])
@pytest.mark.parametrize("chromosome", ["1", "X", "MT"])
def test_what_is_written_is_read(tmp_path, name, chromosome):
    mine = cohort(chromosome=chromosome, missing=0.1)
    write_vcf(mine, tmp_path / name)
    same(read_cohort(tmp_path / name), mine)
    beside = "x.pheno" if name == "x.vcf" else "x.vcf.pheno"
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([name, beside])
    head = (tmp_path / beside).read_text().splitlines()[0].split()
    assert head == (["#IID", "SEX", "status"] if chromosome == "X" else ["#IID", "status"])


def test_blocks_are_those_of_bgzip(tmp_path):
    """Each member says its size and holds at most 64 KiB, and the last one is empty."""
    write_vcf(cohort(people=700, variants=200), tmp_path / "x.vcf.gz")
    raw, at, texts = (tmp_path / "x.vcf.gz").read_bytes(), 0, []
    while at < len(raw):
        assert raw[at : at + 4] == b"\x1f\x8b\x08\x04" and raw[at + 10 : at + 16] == b"\x06\x00BC\x02\x00"
        size = struct.unpack_from("<H", raw, at + 16)[0] + 1
        text = zlib.decompress(raw[at + 18 : at + size - 8], wbits=-15)
        assert struct.unpack_from("<II", raw, at + size - 8) == (zlib.crc32(text), len(text))
        texts.append(text)
        at += size
    assert len(texts) > 5 and texts[-1] == b"" and max(map(len, texts)) <= 1 << 16
    write_vcf(cohort(people=700, variants=200), tmp_path / "x.vcf")
    assert b"".join(texts) == gzip.decompress(raw) == (tmp_path / "x.vcf").read_bytes()


@pytest.mark.skipif(shutil.which("bcftools") is None, reason="bcftools is not installed")
@pytest.mark.parametrize("name", ["x.vcf", "x.vcf.gz"])
def test_bcftools_counts_the_same(tmp_path, name):
    mine = cohort(people=90, missing=0.05)
    write_vcf(mine, tmp_path / name)

    def bcftools(*order: str) -> subprocess.CompletedProcess:
        return subprocess.run(["bcftools", *order], cwd=tmp_path, capture_output=True, text=True, check=True)

    read = bcftools("query", "-f", "%CHROM %POS %ID %REF %ALT[ %GT]\n", name)
    assert not read.stderr
    rows = [line.split(" ") for line in read.stdout.splitlines()]
    people = bcftools("query", "-l", name).stdout.split()
    side = tmp_path / ("x.pheno" if name == "x.vcf" else "x.vcf.pheno")
    status = {p: int(s) - 1 for p, s in (line.split() for line in side.read_text().splitlines()[1:])}
    np.testing.assert_array_equal(tables([r[5:] for r in rows], status, people), our_tables(mine))
    v = mine.variants
    assert [r[:5] for r in rows] == [
        [c, str(p), n, b, a] for c, p, n, a, b in zip(v.chromosome, v.position, v.name, v.a1, v.a2, strict=True)
    ]
    if name == "x.vcf.gz":
        # an index takes blocks, and a region is found by it
        bcftools("index", name)
        assert len(bcftools("view", "-H", "-r", "1:100-310", name).stdout.splitlines()) == 3


@pytest.mark.skipif(shutil.which("plink2") is None, reason="plink2 is not installed")
@pytest.mark.parametrize("form", ["bed", "vcf.gz"])
def test_plink2_counts_the_same(tmp_path, form):
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    mine = cohort(people=90, missing=0.05)
    path = tmp_path / f"x.{form}"
    (write_plink if form == "bed" else write_vcf)(mine, path)
    how = ["--bfile", "x"] if form == "bed" else ["--vcf", path.name, "--pheno", "x.vcf.pheno"]
    counts = np.zeros((len(mine.variants), 4, 2), dtype=int)
    name = "PHENO1" if form == "bed" else "status"
    for status in (0, 1):
        kept = ["--keep-if", name, "==", "control" if status == 0 else "case"]
        order = ["plink2", *how, *kept, "--geno-counts", "--out", "y"]
        subprocess.run(order, cwd=tmp_path, capture_output=True, check=True)
        head, *rows = [line.split("\t") for line in (tmp_path / "y.gcount").read_text().splitlines()]
        assert head[:7] == ["#CHROM", "ID", "REF", "ALT", "HOM_REF_CT", "HET_REF_ALT_CTS", "TWO_ALT_GENO_CTS"]
        assert [row[1] for row in rows] == mine.variants.name.tolist()
        assert [row[3] for row in rows] == mine.variants.a1.tolist()
        counts[:, :, status] = [[int(x) for x in (*row[4:7], row[-1])] for row in rows]
    np.testing.assert_array_equal(counts, our_tables(mine))


@pytest.mark.slow
@needs_cyvcf2
def test_the_same_scan_from_every_file(tmp_path, capsys, monkeypatch):
    """One seed randomizes the same people alike, whatever is written."""
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    monkeypatch.chdir(tmp_path)
    write_plink(cohort(people=400, chromosome="X"), Path("true.bed"))
    assert run(["gwas-design", "true.bed", "--total-epsilon", "12", "-o", "d.json"]) == 0
    seen = {}
    for name in ("r.bed", "s.vcf", "t.vcf.gz"):
        code = run(["gwas-randomize", "true.bed", "--design", "d.json", "-o", name, "--random-state", "5"])
        said = capsys.readouterr()
        assert code == 0 and "everybody's sex is written as it is" in said.err, said.err
        code = run(["gwas", name, "--design", "d.json", "--json", "-o", f"{name}.tsv"])
        said = capsys.readouterr()
        assert code == 0, said.err
        assert "provenance" not in said.err
        seen[name] = Path(f"{name}.tsv").read_text(), json.loads(said.out)["top"]
    assert seen["r.bed"] == seen["s.vcf"] == seen["t.vcf.gz"]
    text = Path("s.vcf").read_text()
    assert text == gzip.decompress(Path("t.vcf.gz").read_bytes()).decode()
    design = json.loads(Path("s.vcf.optrr.json").read_text())["release"]["design"]
    assert f"##optrr_design={design}\n" in text and "##optrr_calls=locally randomized" in text
    assert "##optrr_epsilon=12.0000" in text or "##optrr_epsilon=11.9" in text
    assert "##optrr_warning=this file was" in text and "seed" in text


def test_refusals(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mine = cohort(people=4, variants=2)
    with pytest.raises(InvalidInput, match=r"written as \.vcf or \.vcf\.gz"):
        write_vcf(mine, Path("x.bcf"))
    rows = [("1", 5, "rs1", "A", "."), ("0", 5, "rs1", "A", "C"), ("1", 5, "rs 1", "A", "C"), ("1", 5, "a;b", "A", "C")]
    for row, said in zip(
        rows, ("no chromosome, or no letters", "no chromosome", "a blank or", "a semicolon"), strict=True
    ):
        other = Cohort(MatrixGenotypes(Variants.of([row]), mine.people, whole(mine)[:, :1]), mine.rows, mine.status)
        with pytest.raises(InvalidInput, match=said):
            write_vcf(other, Path("x.vcf"))
    names = np.array(["a", "b secret", "c", "d"], dtype=object)
    with pytest.raises(InvalidInput, match="person number 2 has a blank") as refused:
        write_vcf(Cohort(MatrixGenotypes(mine.variants, names, whole(mine)), mine.rows, mine.status), Path("x.vcf"))
    assert "secret" not in str(refused.value) and not list(tmp_path.iterdir())
    Path("g.csv").write_text("sample,rs1,D\na,0,1\nb,1,2\n")
    command = lambda text: run(text.split())  # noqa: E731
    assert command("gwas-design g.csv --phenotype-column D --total-epsilon 5 -o d.json") == 0
    for more, said in (("-o x.vcf", "no letters for both alleles"), ("-o g.csv", "g.csv is an input")):
        assert command(f"gwas-randomize g.csv --phenotype-column D --design d.json {more}") == 2
        assert said in capsys.readouterr().err
    assert not Path("x.vcf").exists()


@needs_cyvcf2
def test_a_named_status_goes_before_the_file_beside(tmp_path):
    write_vcf(cohort(people=5), tmp_path / "x.vcf")
    (tmp_path / "p.csv").write_text("sample,D\n" + "".join(f"p{k},{k % 2}\n" for k in range(5)))
    named = PhenotypeColumns(tmp_path / "p.csv", None, "D", zero_one=True)
    assert read_cohort(tmp_path / "x.vcf", named).status.tolist() == [0, 1, 0, 1, 0]
    (tmp_path / "x.pheno").write_text("#IID other\np1 1\n")
    with pytest.raises(InvalidInput, match="does not say who is a case"):
        read_cohort(tmp_path / "x.vcf")


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
