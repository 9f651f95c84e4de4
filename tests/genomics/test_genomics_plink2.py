"""PLINK 2's files, and what of a VCF is used: against PLINK 2, bcftools, and slow readings of the text."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from genotypes import command, whole

from optrr.core.errors import InvalidInput
from optrr.genomics import PhenotypeColumns, read_cohort, read_genotypes
from optrr.genomics.cohort import listed_variants
from optrr.genomics.genotypes import MISSING

needs_cyvcf2 = pytest.mark.skipif(find_spec("cyvcf2") is None, reason="cyvcf2 is not installed")
needs_plink2 = pytest.mark.skipif(
    shutil.which("plink2") is None or find_spec("pgenlib") is None, reason="plink2 or pgenlib is not installed"
)
needs_bcftools = pytest.mark.skipif(shutil.which("bcftools") is None, reason="bcftools is not installed")
PEOPLE = [f"p{k}" for k in range(30)]
HEAD = '##fileformat=VCFv4.2\n##FORMAT=<ID=GT,Number=1,Type=String,Description="x">\n'
HEAD += '##FILTER=<ID=low,Description="x">\n##contig=<ID=chr1>\n##contig=<ID=2>\n##contig=<ID=X>\n'


def vcf(path: Path, seed: int = 1, variants: int = 40) -> list[dict]:
    """A VCF with filters, and with some variants of three alleles; what each line says."""
    rng = np.random.default_rng(seed)
    lines = []
    for k in range(variants):
        chromosome = ("chr1", "2", "X")[k * 3 // variants]
        line = {"CHROM": chromosome, "POS": 10 * k + 5, "FILTER": str(rng.choice(["PASS", ".", "low"])), "k": k}
        line["ALT"] = "G" if rng.random() < 0.9 else "G,T"
        line["GT"] = [str(t) for t in rng.choice(["0/0", "0/1", "1|1", "./."], len(PEOPLE))]
        lines.append(line)
    with path.open("w") as out:
        out.write(HEAD + "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\t" + "\t".join(PEOPLE) + "\n")
        for line in lines:
            head = [line["CHROM"], str(line["POS"]), f"rs{line['k']}", "A", line["ALT"], ".", line["FILTER"], "."]
            out.write("\t".join([*head, "GT", *line["GT"]]) + "\n")
    return lines


@pytest.fixture
def standard_input():
    """Sets standard input, as processes see it, to a file."""
    kept = os.dup(0)

    def replace(path: Path) -> None:
        with path.open("rb") as file:
            os.dup2(file.fileno(), 0)

    yield replace
    os.dup2(kept, 0)
    os.close(kept)


@pytest.mark.slow
@needs_cyvcf2
def test_what_is_used_of_a_vcf(tmp_path, monkeypatch, standard_input):
    lines = vcf(tmp_path / "x.vcf")
    read = read_genotypes(tmp_path / "x.vcf")
    used = [line for line in lines if line["FILTER"] != "low" and "," not in line["ALT"]]
    expected = [[MISSING if "." in call else call.count("1") for call in line["GT"]] for line in used]
    np.testing.assert_array_equal(whole(read), np.array(expected).T)
    assert read.variants.name.tolist() == [f"rs{line['k']}" for line in used]
    assert set(read.skipped) == {"not passed by the file's filters", "not biallelic"}
    assert len(used) + sum(read.skipped.values()) == len(lines)
    listed, skipped = listed_variants(tmp_path / "x.vcf")
    assert listed.name.tolist() == read.variants.name.tolist() and skipped == read.skipped
    standard_input(tmp_path / "x.vcf")
    piped = read_genotypes("-")
    np.testing.assert_array_equal(whole(piped), np.array(expected).T)
    (tmp_path / "x.vcf").write_text("no VCF\n")
    standard_input(tmp_path / "x.vcf")
    with pytest.raises(InvalidInput, match=r"cannot read standard input: .*check that it is a VCF"):
        read_genotypes("-")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InvalidInput, match="standard input is closed"):
        read_genotypes("-")


@pytest.mark.slow
@needs_cyvcf2
@needs_bcftools
def test_bcftools_uses_the_same(tmp_path):
    vcf(tmp_path / "x.vcf")
    order = "bcftools view -f .,PASS -m2 -M2 x.vcf -Ob -o y.bcf"
    subprocess.run(order.split(), cwd=tmp_path, check=True, capture_output=True)
    ours, theirs = (read_genotypes(tmp_path / name) for name in ("x.vcf", "y.bcf"))
    assert ours.variants.name.tolist() == theirs.variants.name.tolist() and len(ours.variants) > 5
    np.testing.assert_array_equal(whole(ours), whole(theirs))


def plink2(folder: Path, order: str) -> None:
    subprocess.run(["plink2", *order.split()], cwd=folder, check=True, capture_output=True)


def counted(folder: Path, order: str) -> tuple[list[str], np.ndarray]:
    """Names of variants, and copies of the alternate allele as PLINK 2 writes them, which are no whole numbers for dosages."""
    plink2(folder, f"{order} --export A --max-alleles 2 --out z")
    head, *rows = [line.split("\t") for line in (folder / "z.raw").read_text().splitlines()]
    # PLINK counts the reference there
    codes = np.array([[MISSING if t == "NA" else 2 - float(t) for t in row[6:]] for row in rows])
    return [name.rsplit("_", 1)[0] for name in head[6:]], codes


@needs_plink2
def test_plink2_files(tmp_path):
    """Hard calls, sexes, phenotypes, regions, and variants of three alleles."""
    vcf(tmp_path / "x.vcf")
    rows = "".join(f"{p}\t{k % 2 + 1}\t{k % 3}\n" for k, p in enumerate(PEOPLE))
    (tmp_path / "x.pheno").write_text("#IID\tSEX\tstatus\n" + rows)
    more = "--pheno x.pheno --pheno-name status --update-sex x.pheno"
    plink2(tmp_path, f"--vcf x.vcf {more} --out y --make-pgen vzs")
    assert (tmp_path / "y.pvar.zst").exists() and not (tmp_path / "y.pvar").exists()
    names, theirs = counted(tmp_path, "--pfile y vzs")
    cohort = read_cohort(tmp_path / "y.pgen")
    v = cohort.variants
    assert names == v.name.tolist() and set(v.a1) == {"G"} and set(v.a2) == {"A"}
    # PLINK writes a man's single copy as one
    single = np.ix_(np.arange(30) % 2 == 0, v.chromosome == "X")
    theirs[single] = np.where(theirs[single] == 1, 2, theirs[single])
    autosomal = v.chromosome != "X"
    np.testing.assert_array_equal(whole(cohort.genotypes)[:, autosomal], theirs[:, autosomal])
    assert cohort.genotypes.skipped["not biallelic"] > 0
    assert cohort.status.tolist() == [k % 3 - 1 for k in range(30) if k % 3]
    assert cohort.male.tolist() == [k % 2 == 0 for k in range(30) if k % 3]


@needs_plink2
def test_malformed_plink2_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    vcf(Path("x.vcf"))
    plink2(tmp_path, "--vcf x.vcf --max-alleles 2 --chr 1,2 --make-pgen --out y")
    good = {suffix: Path(f"y{suffix}").read_bytes() for suffix in (".pgen", ".pvar", ".psam")}
    for suffix, content, said in (
        (".pgen", good[".pgen"][:40], "cannot read y.pgen: .*check that it is complete"),
        (".pgen", b"", "cannot read y.pgen"),
        (".psam", good[".psam"] + b"p99\tNA\n", "cannot read y.pgen: .*sample"),
        (".psam", b"f p1 0 0 1 2\n", "y.psam has no PLINK header line"),
        (".pvar", b"##a\n#CHROM\tPOS\tID\tREF\n", "line 2 does not name #CHROM, POS, ID, ALT, REF"),
        (
            ".pvar",
            b"#CHROM\tPOS\tID\tREF\tALT\n1\tx\ta\tA\tC\n",
            "line 2 has too few fields, or a position that is not an integer",
        ),
        (".pvar", b"#CHROM\tPOS\tID\tREF\tALT\n", "no variants"),
        (".pvar", b"\xff\xfe", "y.pvar is not UTF-8"),
        (".pvar", good[".pvar"].rsplit(b"\n", 2)[0] + b"\n", "cannot read y.pgen"),
    ):
        Path(f"y{suffix}").write_bytes(content)
        with pytest.raises(InvalidInput, match=said) as refused:
            list(read_genotypes(Path("y.pgen")).blocks())
        assert "b'" not in str(refused.value)
        Path(f"y{suffix}").write_bytes(good[suffix])
    with pytest.raises(InvalidInput, match=r"y\.psam has no phenotype; name the column to use"):
        read_cohort(Path("y.pgen"))
    lines = good[".psam"].decode().splitlines()
    Path("y.psam").write_text(
        "\n".join([lines[0] + "\tA\tB", *(f"{x}\t1\t{k % 2 + 1}" for k, x in enumerate(lines[1:]))]) + "\n"
    )
    with pytest.raises(InvalidInput, match=r"y\.psam has several phenotypes; name the column to use"):
        read_cohort(Path("y.pgen"))
    assert read_cohort(Path("y.pgen"), PhenotypeColumns(column="B")).status.sum() == 15
    Path("y.pgen").unlink()
    with pytest.raises(InvalidInput, match=r"y\.pgen does not exist"):
        read_genotypes(Path("y.pgen"))


@pytest.mark.slow
@needs_cyvcf2
def test_a_vcf_from_a_pipe_is_randomized_alike(tmp_path, capsys, monkeypatch, standard_input):
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    monkeypatch.chdir(tmp_path)
    vcf(Path("x.vcf"))
    Path("x.pheno").write_text("#IID\tstatus\tsex\n" + "".join(f"{p}\t{k % 2 + 1}\t2\n" for k, p in enumerate(PEOPLE)))
    who = "--phenotype x.pheno --phenotype-column status --sex-column sex"
    for line in (
        "gwas design x.vcf --total-epsilon 40 --missing category -o d.json",
        f"gwas randomize x.vcf {who} --design d.json -o r.bed --random-state 3",
        f"gwas randomize - {who} --design d.json -o s.bed --random-state 3",
    ):
        standard_input(Path("x.vcf"))
        code, _, err = command(capsys, line)
        assert code == 0 and "not passed by the file's filters" in err, err
    for suffix in (".bed", ".bim", ".fam"):
        assert Path(f"r{suffix}").read_bytes() == Path(f"s{suffix}").read_bytes()
