"""Malformed and hostile genotype files, and PLINK's tables: one line and exit 2, never a person's true value."""

import gzip
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from optrr.cli.main import run
from optrr.core.errors import InvalidInput
from optrr.genomics import vcf
from optrr.genomics.cohort import read_cohort, read_genotypes
from optrr.genomics.people_tables import people_column, table_columns, text_column
from optrr.genomics.phenotypes import PhenotypeColumns

VCF = (
    b'##fileformat=VCFv4.2\n##contig=<ID=1>\n##FORMAT=<ID=GT,Number=1,Type=String,Description="g">\n'
    b"#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\tp0\tp1\tp2\tp3\n"
    b"1\t10\trs0\tA\tC\t.\t.\t.\tGT\t0/1\t1/1\t0|0\t0/1\n1\t20\trs1\tG\tT\t.\t.\t.\tGT\t0/0\t1/1\t0/1\t0/0\n"
)
PEOPLE = b"sample,diagnosis\np0,ill\np1,well\np2,ill\np3,well\n"
TABLE = b"sample,diagnosis,rs0,rs1\np0,ill,1,0\np1,well,2,2\np2,ill,0,1\np3,well,1,0\n"
# magic and mode, then two bits for each person of each variant
BED = b"\x6c\x1b\x01" + b"\x8b\xcb"
BIM = b"1\trs0\t0\t10\tC\tA\n1\trs1\t0\t20\tT\tG\n"
FAM = b"f p0 0 0 1 2\nf p1 0 0 2 1\nf p2 0 0 1 2\nf p3 0 0 2 1\n"
SECRET = "Zanzibar"
ILL = ["--phenotype-column", "diagnosis", "--case", "ill"]

# Each of these ends a process that reads it through cyvcf2 0.35.0 by a segmentation fault: a genotype is malformed, and the
# header does not declare the record's chromosome.
CRASHERS = {
    "97 bytes": b"##fileformat=VCF\n##FORMAT=<ID=GT>\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ta\n"
    b"\t\t\t\tC\t\t.\t\tGT\tx\n",
    "a chromosome that is not declared": VCF.replace(b"ID=1>", b"ID=AD1>").replace(b"1/1", b"1/19999999999", 1),
    "a zero byte in a genotype": VCF.replace(b"##contig=<ID=1>\n", b"").replace(b"1/1", b"\x001", 1),
}


GOOD = {"x.vcf": VCF, "x.csv": TABLE, "people.csv": PEOPLE, "x.bed": BED, "x.bim": BIM, "x.fam": FAM}


@pytest.fixture(scope="module")
def design_file(tmp_path_factory):
    """What is in the design file for the good files: they are all of the same people."""
    folder = tmp_path_factory.mktemp("design")
    source, design = folder / "x.csv", folder / "design.json"
    source.write_bytes(TABLE)
    assert (
        run(["gwas", "design", str(source), *ILL, "--total-epsilon", "4", "--status-epsilon", "2", "-o", str(design)])
        == 0
    )
    return design.read_bytes()


@pytest.fixture
def here(tmp_path, monkeypatch, capfd, design_file):
    """A folder with good files and a design for them."""
    monkeypatch.chdir(tmp_path)
    for name, content in {**GOOD, "design.json": design_file}.items():
        Path(name).write_bytes(content)
    capfd.readouterr()
    return capfd


def call(name: str) -> list[str]:
    """The command that reads a file whole and randomizes it."""
    said = {"vcf": ["--phenotype", "people.csv", *ILL], "csv": ILL, "bed": []}[name.split(".")[1]]
    return ["gwas", "randomize", name, "--design", "design.json", *said, "-o", "out.parquet", "--random-state", "1"]


def refused(capfd, arguments: list[str]) -> str:
    """The one line of an exit with 2."""
    code = run(arguments)
    captured = capfd.readouterr()
    assert code == 2, (code, captured)
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("error: ")
    assert line.isprintable()
    assert len(line) < 1_000
    assert not Path("out.parquet").exists()
    return line


@pytest.mark.parametrize("name", CRASHERS)
def test_what_crashes_the_native_library_is_one_line(here, name):
    cyvcf2 = pytest.importorskip("cyvcf2", reason="cyvcf2 is not installed")
    Path("x.vcf").write_bytes(CRASHERS[name])
    line = refused(here, call("x.vcf"))
    assert "cannot read x.vcf" in line
    # a later version may see what is wrong
    assert cyvcf2.__version__ != "0.35.0" or "the VCF library crashes on it (segmentation fault)" in line
    assert name != "97 bytes" or len(CRASHERS[name]) == 97


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", r"segmentation fault\), so it is malformed"),
        ("os.kill(os.getpid(), signal.SIGXCPU)", "did not finish"),
        ("os._exit(7)", "exit code 7"),
        ("print('[]\\nno JSON {')", "exit code 0"),
        ("print('[\"p\"]\\n[1, 2]\\n{}')", "exit code 0"),
        # fewer genotypes than records
        ('print(\'["p"]\\n["1", 2, "a", "C", "G"]\\n{}\')', "exit code 0"),
    ],
)
def test_every_end_of_the_process_is_one_line(here, monkeypatch, ends, said):
    pytest.importorskip("cyvcf2", reason="cyvcf2 is not installed")
    Path("worker.py").write_text(f"import os, signal\n{ends}\n")
    monkeypatch.setattr(vcf, "_WORKER", Path("worker.py"))
    line = refused(here, call("x.vcf"))
    assert re.search(said, line), line


def expanding(name: str, head: bytes, piece: bytes, times: int, tail: bytes = b"") -> None:
    with gzip.open(name, "wb", compresslevel=6) as file:
        file.write(head)
        for _ in range(times):
            file.write(piece)
        file.write(tail)


RECORD = b"1\t1\t.\tA\tC\t.\t.\t.\tGT\t0/1\t0/1\t0/1\t0/1\n"
MEGABYTE = 1 << 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "piece", "times"),
    [
        (b"", b"\0" * MEGABYTE, 200),
        (VCF + b"1\t1\t.\tA\tC\t.\t.\t.\tGT\t", b"0" * MEGABYTE, 2000),
        (b"##fileformat=VCFv4.2\n", b"##a=b\n" * 100_000, 60),
    ],
    ids=["zeros", "one record", "a header"],
)
def test_what_expands_is_refused(here, head, piece, times):
    pytest.importorskip("cyvcf2", reason="cyvcf2 is not installed")
    expanding("big.vcf.gz", head, piece, times)
    assert Path("big.vcf.gz").stat().st_size < 3_000_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InvalidInput, match=r"cannot read big\.vcf\.gz"):
        read_genotypes(Path("big.vcf.gz"))
    # kilobytes on Linux: a few pieces of a megabyte
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux enforces the limits")
@pytest.mark.parametrize(
    ("limit", "value", "said"),
    [
        ("MEMORY", 200 * MEGABYTE, r"MiB of memory|cannot read"),
        ("SECONDS", 1, "did not finish"),
        ("MOST_RECORDS", 1_000, "more than 1,000 records"),
        ("_MOST_TEXT", MEGABYTE, "1 MiB of alleles"),
    ],
)
def test_memory_time_and_records_of_the_process_are_limited(here, monkeypatch, limit, value, said):
    pytest.importorskip("cyvcf2", reason="cyvcf2 is not installed")
    long = b"1\t30\tlong\t" + b"A" * 40 * MEGABYTE + b"\tC\t.\t.\t.\tGT" + b"\t0/1" * 4 + b"\n"
    expanding("big.vcf.gz", VCF, long, 1)
    assert len(read_genotypes(Path("big.vcf.gz")).variants) == 3
    if limit in ("SECONDS", "MOST_RECORDS"):
        expanding("big.vcf.gz", VCF, b"".join(b"c%d\t" % k + RECORD[2:] for k in range(60_000)), 1)
    monkeypatch.setattr(vcf, "_BYTES_PER_SECOND", 1 << 40)
    monkeypatch.setattr(vcf, limit, value)
    with pytest.raises(InvalidInput, match=said):
        read_genotypes(Path("big.vcf.gz"))


@pytest.mark.slow
def test_members_and_damage_of_gzip(tmp_path, capfd):
    pytest.importorskip("cyvcf2", reason="cyvcf2 is not installed")
    path = tmp_path / "x.vcf.gz"
    lines = b"".join(RECORD.replace(b"1\t1\t", b"1\t%d\t" % k, 1) for k in range(70_000))
    whole = b"".join(gzip.compress(part) for part in (VCF, b"", lines))
    path.write_bytes(whole)
    assert len(read_genotypes(path).variants) == 70_002
    for damaged, said in (
        (whole[:200] + b"\xff" * 10 + whole[210:], "cannot parse VCF header; check that it is a VCF"),
        (whole[:-8] + bytes(4) + whole[-4:], "check that it is complete and well formed"),
        (whole[:-20], "check that it is complete and well formed"),
        (VCF[:-6], "check that it is complete and well formed"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(InvalidInput, match=said):
            read_genotypes(path)
    # what htslib has to say is in the error, and nowhere else
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("name", "content", "arguments", "said"),
    [
        (
            "x.fam",
            FAM.replace(b"p1 0 0 2", b"p1 0 0 Zanzibar"),
            "x.bed",
            "x.fam, column 'SEX': record 2 is not a sex",
        ),
        ("x.fam", FAM.replace(b"p1 0 0 2", b"Zanzibar 2"), "x.bed", "x.fam, line 2 has 4 fields instead of 6"),
        (
            "x.fam",
            FAM.replace(b"p1", b"Zanzibar").replace(b"p2", b"Zanzibar"),
            "x.bed",
            "x.fam lists people .* 2 and 3",
        ),
        ("x.bim", BIM.replace(b"20", b"Zanzibar"), "x.bed", "x.bim, line 2 .* position that is not an integer"),
        ("x.csv", TABLE.replace(b"ill", b"Zanzibar"), "x.csv", "no value 'ill' among its 2 values"),
        ("x.csv", TABLE.replace(b"p2,ill,0", b"p2,ill,Zanzibar"), "x.csv", "column 'rs0', record 3"),
        ("x.csv", TABLE.replace(b"p2", b"Zanzibar").replace(b"p3", b"Zanzibar"), "x.csv", "at 3 and 4"),
        (
            "people.csv",
            PEOPLE.replace(b"p", b"Zanzibar").replace(b"samZanzibarle", b"sample"),
            "x.vcf",
            "names none of the 4",
        ),
        (
            "people.csv",
            PEOPLE.replace(b"ill", b"Ill").replace(b"well", b"Zanzibar"),
            "x.vcf",
            "no value 'ill' among its 2 values",
        ),
    ],
)
def test_no_value_of_a_person_is_shown(here, name, content, arguments, said):
    pytest.importorskip("cyvcf2", reason="cyvcf2 is not installed")
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    assert SECRET.encode() in content
    Path(name).write_bytes(content)
    line = refused(here, call(arguments))
    assert re.search(said, line), line
    assert SECRET not in line


def test_names_that_are_markup_or_escapes(here):
    odd = TABLE.replace(b"rs0", b"[/b]").replace(b"rs1", b"\x1b[2Jx")
    Path("x.csv").write_bytes(odd)
    assert "\x1b" not in refused(here, call("x.csv"))
    assert (
        run(["gwas", "design", "x.csv", *ILL, "--total-epsilon", "4", "--status-epsilon", "2", "-o", "odd.json"]) == 0
    )
    randomize = call("x.csv")
    randomize[randomize.index("design.json")] = "odd.json"
    assert run(randomize) == 0
    assert run(["gwas", "scan", "out.parquet", "--design", "odd.json", "-o", "t.tsv"]) == 0
    assert run(["estimate", "out.parquet", "--design", "odd.json", "--attributes", "[/b]"]) == 0
    captured = here.readouterr()
    assert "\x1b" not in captured.out + captured.err
    assert "[/b]" in captured.out


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("ending", [".txt", ".pheno", ".cov", ".phe", ".tsv", ".psam", ""])
@pytest.mark.parametrize(
    ("head", "before"), [("FID IID", "f{} "), ("#FID\tIID", "f{}\t"), ("#IID", ""), ("##made by hand\n#IID", "")]
)
def test_lines_of_names(tmp_path, ending, head, before):
    lines = [f"{before.format(k)}{who}   {k / 2}\t2" for k, who in enumerate("abc")]
    path = written(tmp_path / f"p{ending}", f"{head}\tage D\n" + "\n".join(lines) + "\n\n")
    assert table_columns(path)[-3:] == ["IID", "age", "D"]
    assert text_column(path, "age") == ["0.0", "0.5", "1.0"]
    assert people_column(path, None) == ["a", "b", "c"]
    with pytest.raises(InvalidInput, match=r"has no column 'agee'; it has .*'IID', 'age', 'D'; did you mean 'age'"):
        text_column(path, "agee")


def test_other_tables_are_read_as_before(tmp_path):
    path = written(tmp_path / "p.tsv", "sample\tage of birth\na b\t3\nc\tNA\n")
    assert text_column(path, "age of birth") == ["3", None] and people_column(path, None) == ["a b", "c"]
    # CSV whose first column is called as PLINK's
    path = written(tmp_path / "p.csv", "IID,D\na,1\n")
    assert table_columns(path) == ["IID", "D"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"f a 1\nf b 2\n", "no PLINK header line; begin it with 'FID IID'"),
        (b"", "no PLINK header line"),
        (b"FID IID D\nf a 1\nf secret\n", "line 3 has 2 fields instead of 3; write NA"),
        (b"#IID D\na " + b"x" * (1 << 26) + b"\n", "line of more than 64 MiB"),
        (b"#IID D\n\xff\xfe 1\n", "is not UTF-8"),
    ],
)
def test_malformed_tables(tmp_path, text, message):
    path = tmp_path / "p.pheno"
    path.write_bytes(text)
    with pytest.raises(InvalidInput, match=message) as refused:
        text_column(path, "D")
    assert "secret" not in str(refused.value)


@pytest.mark.skipif(shutil.which("plink1.9") is None, reason="plink1.9 is not installed")
@pytest.mark.parametrize("zero_one", [False, True])
def test_plink_counts_the_same_people(tmp_path, zero_one):
    """What PLINK itself takes for a case, a control and neither in the same files."""
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    rng = np.random.default_rng(5 + zero_one)
    texts = rng.choice(["0", "1", "-9", "NA"] if zero_one else ["0", "1", "2", "-9", "NA"], 80)
    written(tmp_path / "x.ped", "".join(f"f p{k} 0 0 1 -9 A G\n" for k in range(80)))
    written(tmp_path / "x.map", "1 rs1 0 100\n")
    written(tmp_path / "p.pheno", "FID IID D\n" + "".join(f"f p{k} {t}\n" for k, t in enumerate(texts)))
    more = ["--1"] if zero_one else []
    start = ["plink1.9", "--file", "x", "--pheno", "p.pheno", "--pheno-name", "D", *more]
    made = subprocess.run(
        [*start, "--make-bed", "--out", "y"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "80 people" in made.stdout or "80 males" in made.stdout
    theirs = read_cohort(tmp_path / "y.bed")
    columns = PhenotypeColumns(tmp_path / "p.pheno", None, "D", *((("1",), ("0",)) if zero_one else ()))
    ours = read_cohort(tmp_path / "y.bed", columns)
    assert ours.people.tolist() == theirs.people.tolist() and ours.status.tolist() == theirs.status.tolist()
