"""Randomized genotypes as a VCF: bcftools and PLINK 2 count in it what we count, and it is tested as a .bed file is."""

import gzip
import json
import shutil
import struct
import subprocess
import zlib
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from genotypes import whole

from optrr.cli.main import run
from optrr.errors import InvalidInput
from optrr.genomics import Cohort, MatrixGenotypes, PhenotypeColumns, Variants, read_cohort, write_plink, write_vcf
from optrr.genomics.genotypes import MISSING

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
        code = run(["gwas-perturb", "true.bed", "--design", "d.json", "-o", name, "--random-state", "5"])
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
        assert command(f"gwas-perturb g.csv --phenotype-column D --design d.json {more}") == 2
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
