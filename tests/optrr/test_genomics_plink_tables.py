"""PLINK's phenotype and covariate files: their lines of names, who is who, and PLINK's values of a status."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from optrr.cli.main import run
from optrr.errors import InvalidInput
from optrr.genomics.cohort import read_cohort
from optrr.genomics.people_tables import people_column, table_columns, text_column
from optrr.genomics.phenotypes import PhenotypeColumns

GENOTYPES = "sample,rs1\na,0\nb,1\nc,2\nd,1\ne,0\n"


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
        ("f a 1\nf b 2\n", "no line of names as PLINK has it; begin it with 'FID IID'"),
        ("", "no line of names"),
        ("FID IID D\nf a 1\nf secret\n", "line 3 has 2 fields, and the line of names 3; write NA"),
        ("#IID D\na " + "x" * (1 << 20) + "\n", "line of more than 1 MiB"),
    ],
)
def test_malformed_tables(tmp_path, text, message):
    path = written(tmp_path / "p.pheno", text)
    with pytest.raises(InvalidInput, match=message) as refused:
        text_column(path, "D")
    assert "secret" not in str(refused.value)


def test_a_table_that_is_no_text(tmp_path):
    path = tmp_path / "p.pheno"
    path.write_bytes(b"#IID D\n\xff\xfe 1\n")
    with pytest.raises(InvalidInput, match="is not UTF-8"):
        text_column(path, "D")


def test_persons_of_one_name_in_two_families(tmp_path):
    path = written(tmp_path / "p.txt", "FID IID D\nf 1 1\ng 1 2\ng 2 2\n")
    assert people_column(path, None) == ["f_1", "g_1", "g_2"] and people_column(path, "FID") == ["f", "g", "g"]


@pytest.mark.parametrize(
    ("zero_one", "values", "expected"),
    [
        (False, ["1", "2", "-9", "NA", "0"], [0, 1]),
        (False, ["1.0", "2", "2", "nan", "1"], [0, 1, 1, 0]),
        (True, ["0", "1", "-9", "NA", "1"], [0, 1, 1]),
    ],
)
def test_plinks_values(tmp_path, zero_one, values, expected):
    genotypes = written(tmp_path / "g.csv", GENOTYPES)
    rows = "".join(f"f {who} {value}\n" for who, value in zip("abcde", values, strict=True))
    table = written(tmp_path / "p.pheno", "FID IID D\n" + rows)
    cohort = read_cohort(genotypes, PhenotypeColumns(table, column="D", zero_one=zero_one))
    assert cohort.status.tolist() == expected
    assert sum(cohort.left_out.values()) == 5 - len(expected)


@pytest.mark.parametrize(
    ("zero_one", "values", "message"),
    [
        (
            False,
            ["1", "1", "77", "77", "2"],
            "column 'D': record 3 has a whole number beyond 2, and PLINK's cases are 2",
        ),
        (
            True,
            ["0", "0", "1", "88", "2"],
            "column 'D': record 4 has a whole number beyond 1, and with --zero-one cases are 1",
        ),
        (False, "01010", "column 'D' is 0 or 1, and never 2: .*--zero-one"),
        (False, ["1", "2", "ill", "2", "1"], "record 3 has a text"),
    ],
)
def test_values_that_are_not_plinks(tmp_path, zero_one, values, message):
    genotypes = written(tmp_path / "g.csv", GENOTYPES)
    rows = "".join(f"{who} {value}\n" for who, value in zip("abcde", values, strict=True))
    table = written(tmp_path / "p.pheno", "#IID D\n" + rows)
    with pytest.raises(InvalidInput, match=message) as refused:
        read_cohort(genotypes, PhenotypeColumns(table, column="D", zero_one=zero_one))
    assert not {"77", "88", "ill"} & set(str(refused.value).replace(str(tmp_path), "").split())


def test_options_that_contradict_each_other():
    with pytest.raises(InvalidInput, match="none of cases"):
        PhenotypeColumns(column="D", controls=("1",))
    with pytest.raises(InvalidInput, match="--zero-one says that 1 is a case"):
        PhenotypeColumns(column="D", cases=("2",), zero_one=True)


def test_named_cases_leave_unknown_ones_unknown(tmp_path):
    genotypes = written(tmp_path / "g.csv", GENOTYPES)
    table = written(tmp_path / "p.txt", "#IID D\na 2\nb 1\nc -9\nd 2\ne 1\n")
    assert read_cohort(genotypes, PhenotypeColumns(table, column="D", cases=("2",))).status.tolist() == [1, 0, 1, 0]
    named = PhenotypeColumns(table, column="D", cases=("2",), controls=("1", "-9"))
    assert read_cohort(genotypes, named).status.tolist() == [1, 0, 0, 1, 0]


@pytest.mark.slow
def test_on_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    people = [f"p{k}" for k in range(60)]
    status, codes = rng.integers(0, 2, 60), rng.integers(0, 3, (60, 2))
    rows = zip(people, codes, strict=True)
    written(Path("g.csv"), "sample,rs1,rs2\n" + "".join(f"{p},{a},{b}\n" for p, (a, b) in rows))
    for name, first in (("p.pheno", 1), ("q.pheno", 0)):
        pairs = zip(people, status + first, strict=True)
        written(Path(name), "#IID D\n" + "".join(f"{p} {s}\n" for p, s in pairs))
    design = ["gwas-design", "g.csv", "--total-epsilon", "9", "-o", "d.json"]
    assert run(design) == 0
    told = []
    for table, more in (("p.pheno", []), ("q.pheno", ["--1"]), ("q.pheno", ["--zero-one"])):
        columns = ["--phenotype", table, "--phenotype-column", "D", *more]
        code = run(["gwas-perturb", "g.csv", "--design", "d.json", *columns, "-o", "r.csv", "--random-state", "4"])
        assert code == 0, capsys.readouterr().err
        told.append(Path("r.csv").read_bytes())
    assert told[0] == told[1] == told[2]
    capsys.readouterr()
    assert run(["gwas-perturb", "g.csv", "--design", "d.json", "--1", "-o", "r2.csv"]) == 2
    assert "--1 is of the values of a column" in capsys.readouterr().err


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
    columns = PhenotypeColumns(tmp_path / "p.pheno", column="D", zero_one=zero_one)
    ours = read_cohort(tmp_path / "y.bed", columns)
    assert ours.people.tolist() == theirs.people.tolist() and ours.status.tolist() == theirs.status.tolist()
