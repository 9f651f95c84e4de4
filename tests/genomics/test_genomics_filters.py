"""PLINK 2's files, and what of a genotype file is used: against bcftools and PLINK 2, and against slow readings of the text."""

import io
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from genotypes import command, refused, whole

from optrr.core.errors import InvalidInput
from optrr.genomics import GenotypeFilter, PhenotypeColumns, read_cohort, read_genotypes
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


def slow(lines: list[dict], chosen: GenotypeFilter) -> np.ndarray:
    """Codes by the words of the documentation, one call at a time; (n, V)."""
    columns = []
    for line in lines:
        places = [re.fullmatch(r"(?:chr)?(\w+?)(?::([\d,]+)(?:-([\d,]+))?)?", r) for r in chosen.regions]
        inside = [
            m[1].upper() == line["CHROM"].removeprefix("chr")
            and (m[2] is None or int(m[2].replace(",", "")) <= line["POS"])
            and (m[3] is None or line["POS"] <= int(m[3].replace(",", "")))
            for m in places
        ]
        passed = chosen.all_filters or line["FILTER"] in ("PASS", ".")
        if (not places or any(inside)) and passed and "," not in line["ALT"]:
            columns.append([MISSING if "." in gt else gt.count("1") for gt in line["GT"]])
    return np.array(columns, dtype=np.int8).T


@pytest.mark.slow
@needs_cyvcf2
@pytest.mark.parametrize(
    "chosen",
    [
        GenotypeFilter(),
        GenotypeFilter(("1",)),
        GenotypeFilter(("chr1:25-95", "2:200", "chrX:1-3,000"), all_filters=True),
    ],
)
def test_what_is_used_of_a_vcf(tmp_path, chosen):
    lines = vcf(tmp_path / "x.vcf")
    read = read_genotypes(tmp_path / "x.vcf", chosen=chosen)
    np.testing.assert_array_equal(whole(read), slow(lines, chosen))
    assert len(read.variants) + sum(read.skipped.values()) == len(lines)
    assert ("not passed by the file's filters" in read.skipped) != chosen.all_filters
    assert ("outside the regions" in read.skipped) == bool(chosen.regions)


@pytest.mark.slow
@needs_cyvcf2
@needs_bcftools
def test_bcftools_uses_the_same(tmp_path):
    vcf(tmp_path / "x.vcf")
    order = "bcftools view -f .,PASS -m2 -M2 -t chr1:25-95,2:150-220 x.vcf -Ob -o y.bcf"
    subprocess.run(order.split(), cwd=tmp_path, check=True, capture_output=True)
    ours = read_genotypes(tmp_path / "x.vcf", chosen=GenotypeFilter(("chr1:25-95", "2:150-220")))
    theirs = read_genotypes(tmp_path / "y.bcf")
    assert ours.variants.name.tolist() == theirs.variants.name.tolist() and len(ours.variants) > 5
    np.testing.assert_array_equal(whole(ours), whole(theirs))


@pytest.mark.slow
@needs_cyvcf2
def test_from_a_pipe(tmp_path, monkeypatch):
    vcf(tmp_path / "x.vcf")
    expected = read_genotypes(tmp_path / "x.vcf")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((tmp_path / "x.vcf").read_bytes())))
    piped = read_genotypes(Path("-"))
    for _ in range(2):
        np.testing.assert_array_equal(whole(piped), whole(expected))
    assert piped.variants.name.tolist() == expected.variants.name.tolist()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"no VCF\n")))
    with pytest.raises(InvalidInput, match=r"cannot read standard input: .*check that it is a VCF"):
        read_genotypes(Path("-"))


@pytest.mark.slow
@needs_cyvcf2
def test_people_of_a_list(tmp_path):
    vcf(tmp_path / "x.vcf")
    (tmp_path / "p.csv").write_text("sample,D\n" + "".join(f"{p},{k % 2}\n" for k, p in enumerate(PEOPLE)))
    columns = PhenotypeColumns(tmp_path / "p.csv", None, "D", ("1",))
    whole_cohort = read_cohort(
        tmp_path / "x.vcf",
        PhenotypeColumns(tmp_path / "p.csv", None, "D", ("1",), sex="D"),
        chosen=GenotypeFilter(("1", "2")),
    )
    for text in ("p3\np7\nnobody\np8\n", "f p3\nf p7\ng p8\n", "#IID\np3\np7\np8\n", "FID IID\nf p3\nf p7\ng p8\n"):
        (tmp_path / "k.txt").write_text(text)
        cohort = read_cohort(tmp_path / "x.vcf", columns, chosen=GenotypeFilter(("1", "2"), keep=tmp_path / "k.txt"))
        assert cohort.people.tolist() == ["p3", "p7", "p8"] and cohort.status.tolist() == [1, 1, 0]
        assert cohort.left_out == {f"not listed in {tmp_path / 'k.txt'}": 27}
        np.testing.assert_array_equal(whole(cohort), whole(whole_cohort)[[3, 7, 8]])
    for text, said in (
        ("x\n", "names none of the 30 people"),
        ("f p3 1\n", "line 1 has more than FID and IID"),
        ("", "names none"),
    ):
        (tmp_path / "k.txt").write_text(text)
        with pytest.raises(InvalidInput, match=said):
            read_cohort(tmp_path / "x.vcf", columns, chosen=GenotypeFilter(("1", "2"), keep=tmp_path / "k.txt"))


@pytest.mark.parametrize("region", ["1:5-2", "1:x", "1:²", "1:5-" + "9" * 5000, ":5"])
def test_regions_that_are_none(region):
    with pytest.raises(InvalidInput, match="is none; write CHROMOSOME"):
        GenotypeFilter((region,))


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
    region = read_genotypes(tmp_path / "y.pgen", chosen=GenotypeFilter(("2:150-220",)))
    at = np.flatnonzero((v.chromosome == "2") & (v.position >= 150) & (v.position <= 220))
    np.testing.assert_array_equal(whole(region), whole(cohort.genotypes)[:, at])
    assert region.variants.name.tolist() == v.name[at].tolist()


@needs_plink2
def test_malformed_plink2_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    vcf(Path("x.vcf"))
    plink2(tmp_path, "--vcf x.vcf --max-alleles 2 --chr 1,2 --make-pgen --out y")
    good = {suffix: Path(f"y{suffix}").read_bytes() for suffix in (".pgen", ".pvar", ".psam")}
    variants = len(read_genotypes(Path("y.pgen")).variants)
    for suffix, content, said in (
        (".pgen", good[".pgen"][:40], "cannot read y.pgen: .*check that it is whole"),
        (".pgen", b"", "cannot read y.pgen"),
        (".psam", good[".psam"] + b"p99\tNA\n", "cannot read y.pgen: .*sample"),
        (".psam", b"f p1 0 0 1 2\n", "y.psam has no line of names"),
        (".pvar", b"##a\n#CHROM\tPOS\tID\tREF\n", "line 2 does not name #CHROM, POS, ID, ALT, REF"),
        (".pvar", b"#CHROM\tPOS\tID\tREF\tALT\n1\tx\ta\tA\tC\n", "line 2 has too few fields, or no whole number"),
        (".pvar", b"#CHROM\tPOS\tID\tREF\tALT\n", "no variant of two alleles"),
        (".pvar", b"\xff\xfe", "y.pvar is not UTF-8"),
        (".pvar", good[".pvar"].rsplit(b"\n", 2)[0] + b"\n", "cannot read y.pgen"),
    ):
        Path(f"y{suffix}").write_bytes(content)
        with pytest.raises(InvalidInput, match=said) as refused:
            list(read_genotypes(Path("y.pgen")).blocks())
        assert "b'" not in str(refused.value)
        Path(f"y{suffix}").write_bytes(good[suffix])
    # variants as a bim file has them
    rows = [line.split("\t") for line in good[".pvar"].decode().splitlines() if not line.startswith("#")]
    Path("y.pvar").write_text("".join(f"{r[0]}\t{r[2]}\t{r[1]}\t{r[4]}\t{r[3]}\n" for r in rows))
    assert len(read_genotypes(Path("y.pgen")).variants) == variants
    with pytest.raises(InvalidInput, match=r"y\.psam has no phenotype; name the one"):
        read_cohort(Path("y.pgen"))
    lines = good[".psam"].decode().splitlines()
    Path("y.psam").write_text(
        "\n".join([lines[0] + "\tA\tB", *(f"{x}\t1\t{k % 2 + 1}" for k, x in enumerate(lines[1:]))]) + "\n"
    )
    with pytest.raises(InvalidInput, match=r"y\.psam has several phenotypes; name the one"):
        read_cohort(Path("y.pgen"))
    assert read_cohort(Path("y.pgen"), PhenotypeColumns(column="B")).status.sum() == 15
    Path("y.pgen").unlink()
    with pytest.raises(InvalidInput, match=r"y\.pgen does not exist"):
        read_genotypes(Path("y.pgen"))


def test_what_a_kind_of_file_does_not_have(tmp_path):
    (tmp_path / "x.csv").write_text("sample,rs1\na,1\nb,0\n")
    for what, said in (
        ({"regions": ("1",)}, "--region is for VCF and PLINK files, and not for .*x.csv"),
        ({"all_filters": True}, "--all-filters is for VCF files"),
    ):
        with pytest.raises(InvalidInput, match=said):
            read_genotypes(tmp_path / "x.csv", chosen=GenotypeFilter(**what))


@pytest.mark.slow
@needs_cyvcf2
def test_on_the_command_line(tmp_path, capsys, monkeypatch):
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    monkeypatch.chdir(tmp_path)
    vcf(Path("x.vcf"))
    Path("x.pheno").write_text("#IID\tstatus\n" + "".join(f"{p}\t{k % 2 + 1}\n" for k, p in enumerate(PEOPLE)))
    Path("k.txt").write_text("\n".join(PEOPLE[:20]) + "\n")
    kept = read_cohort(Path("x.vcf"), chosen=GenotypeFilter(("chr1", "2:100-250"), keep=Path("k.txt")))
    where = "--region chr1 --region 2:100-250"

    def done(line: str) -> str:
        code, _, err = command(capsys, line)
        assert code == 0, err
        return err

    done(f"gwas-design x.vcf {where} --total-epsilon 40 --missing category -o d.json")
    said = done(f"gwas-randomize x.vcf {where} --keep k.txt --design d.json -o r.bed --random-state 3")
    assert "people not listed in k.txt" in said and "not passed by the file's filters" in said
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path("x.vcf").read_bytes())))
    piped = f"gwas-randomize - {where} --keep k.txt --phenotype x.pheno --phenotype-column status"
    done(f"{piped} --design d.json -o s.bed --random-state 3")
    for suffix in (".bed", ".bim", ".fam"):
        assert Path(f"r{suffix}").read_bytes() == Path(f"s{suffix}").read_bytes()
    written = read_cohort(Path("r.bed"))
    assert written.variants.name.tolist() == kept.variants.name.tolist() and written.n == kept.n == 20
    done("gwas r.bed --design d.json --region 2:100-250 -o a.tsv")
    assert len(Path("a.tsv").read_text().splitlines()) - 1 == int(np.sum(written.variants.chromosome == "2"))
    done(f"gwas-study x.vcf {where} --total-epsilon 60 --repeats 2 --missing exclude --methods kronecker")
    done("gwas-design r.bed --total-epsilon 8 --for association -o q.json")
    done(f"gwas-randomize x.vcf {where} --design q.json --missing exclude -o q.csv")
    for line, told in (
        ("gwas q.csv --design q.json --region 2", "--region is of genotypes, and this design's answers are none"),
        ("gwas-randomize x.vcf --design d.json --region 9 -o t.bed", "no variant is in 9; name chromosomes"),
        ("gwas r.bed --design d.json --all-filters -o t.tsv", "--all-filters is for VCF files, and not for r.bed"),
        ("gwas-randomize x.vcf --design d.json --region 2:100-150 -o t.bed", "variants are not in the file"),
    ):
        refused(capsys, line, told)
    assert not list(tmp_path.glob("t.*"))
