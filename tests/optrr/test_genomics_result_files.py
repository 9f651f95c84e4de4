"""GWAS-SSF by a second reading of its specification, and PLINK 2's columns beside those that PLINK 2 writes."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
import subprocess
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from optrr.cli.main import run
from optrr.errors import InvalidInput
from optrr.genomics import Associations, Cohort, MatrixGenotypes, ScannedStudy, Variants, design, write_plink
from optrr.genomics.result_files import signed_statistic, ssf_table, write_plink2, write_ssf

CHROMOSOMES = [*map(str, range(1, 23)), "X", "Y", "MT"]
STUDY = ScannedStudy("GRCh38", 8.0, "sha256:abc", "hay fever")

# Table 1 of the specification 1.1.0: accepted values of the columns in their order, and of the others.
IN_ORDER = {
    "chromosome": lambda t: t.isdigit() and 1 <= int(t) <= 25,
    "base_pair_location": lambda t: t.isdigit() and int(t) > 0,
    "effect_allele": lambda t: re.fullmatch("[ACGT]+", t),
    "other_allele": lambda t: re.fullmatch("[ACGT]+", t),
    "beta|odds_ratio": lambda t: np.isfinite(float(t)),
    "standard_error": lambda t: np.isfinite(float(t)),
    "effect_allele_frequency": lambda t: 0 <= float(t) <= 1,
    "p_value": lambda t: 0 <= float(t) <= 1,
}
ENCOURAGED = {
    "ci_upper": lambda t: t == "#NA" or np.isfinite(float(t)),
    "ci_lower": lambda t: t == "#NA" or np.isfinite(float(t)),
    "rsid": lambda t: t == "#NA" or re.fullmatch("rs[0-9]+", t),
    "variant_id": lambda t: re.fullmatch("([1-9]|1[0-9]|2[0-5])_[0-9]+_[ACGT]+_[ACGT]+", t),
    "n": lambda t: t.isdigit(),
}
# Table 2: what is mandatory, of the study and of its people.
OF_STUDY = {
    "genome_assembly": str,
    "coordinate_system": ("1-based", "0-based"),
    "trait_description": list,
    "genotyping_technology": list,
    "analysis_software": str,
    "is_sorted": bool,
    "is_harmonised": bool,
    "data_file_name": str,
    "data_file_md5sum": str,
    "file_type": str,
}
OF_PEOPLE = {"sample_size": int, "sample_ancestry_category": list}


def read_ssf(path: Path) -> tuple[list[dict[str, str]], dict]:
    """The rows and the metadata, each value held against the specification."""
    yaml = pytest.importorskip("yaml", reason="pyyaml is not installed")
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("ascii")
    head, *lines = text.splitlines()
    names = head.split("\t")
    for name, expected in zip(names, IN_ORDER, strict=False):
        assert name in expected.split("|")
    assert len(names) >= len(IN_ORDER) and len(set(names)) == len(names)
    rows = [dict(zip(names, line.split("\t"), strict=True)) for line in lines]
    checks = dict(zip(names, IN_ORDER.values(), strict=False)) | {n: ENCOURAGED[n] for n in names[len(IN_ORDER) :]}
    for row in rows:
        for name, good in checks.items():
            assert good(row[name]), (name, row[name])
        if "odds_ratio" in row:
            assert float(row["odds_ratio"]) >= 0
    about = yaml.safe_load(path.with_name(path.name + "-meta.yaml").read_text())
    for known, kinds in ((about, OF_STUDY), (about["samples"][0], OF_PEOPLE)):
        for name, kind in kinds.items():
            assert known[name] in kind if isinstance(kind, tuple) else isinstance(known[name], kind), name
    people = about["samples"][0]
    if people["case_control_study"]:
        assert people["case_count"] + people["control_count"] == people["sample_size"]
    assert about["data_file_name"] == path.name
    assert about["data_file_md5sum"] == hashlib.md5(raw, usedforsecurity=False).hexdigest()
    places = [(int(r["chromosome"]), int(r["base_pair_location"])) for r in rows]
    assert about["is_sorted"] == all(a <= b for a, b in pairwise(places))
    return rows, about


def cohort(people: int = 300, seed: int = 1) -> Cohort:
    """Three variants on each chromosome, and one of each kind that GWAS-SSF has no row for."""
    rng = np.random.default_rng(seed)
    rows = [
        (c, 100 * k + 7, f"rs{3 * i + k + 1}" if k else ".", "A", "CT")
        for i, c in enumerate(CHROMOSOMES)
        for k in range(3)
    ]
    rows += [("22", 900, "odd", "A", "<DEL>"), ("22", 0, "nowhere", "A", "C"), ("scaffold_1", 5, "far", "A", "G")]
    variants = Variants.of(rows)
    status = (np.arange(people) % 2).astype(np.int8)
    male = rng.random(people) < 0.5
    shift = rng.normal(0, 0.1, len(variants))
    codes = rng.binomial(2, np.clip(0.35 + shift * status[:, None], 0.05, 0.95)).astype(np.int8)
    single = np.isin(variants.chromosome, ("X", "Y", "MT"))
    codes[np.ix_(male, single)] = 2 * (codes[np.ix_(male, single)] > 0)
    codes[:, variants.chromosome == "MT"] = 2 * (codes[:, variants.chromosome == "MT"] > 0)
    names = np.array([f"p{k}" for k in range(people)], dtype=object)
    return Cohort(MatrixGenotypes(variants, names, codes), np.arange(people), status, {}, male)


@cache
def scanned(total: float, test: str = "allelic") -> Associations:
    mine = cohort()
    return design(mine, total).randomize(mine, random_state=2).scan(test)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["x.ssf.tsv", "x.tsv.gz"])
@pytest.mark.parametrize("total", [600.0, 60.0])
def test_ssf_is_as_its_specification_says(tmp_path, name, total):
    result = scanned(total)
    left_out = result.write_ssf(tmp_path / name, STUDY)
    rows, about = read_ssf(tmp_path / name)
    table = result.columns
    unlisted = 3 + int(np.sum(~np.isfinite(table["SE"][:-3].astype(float))))
    assert sum(left_out.values()) == unlisted == len(result.variants) - len(rows)
    assert left_out["on no chromosome of 1 to 22, X, Y and MT, or without a position"] == 2
    assert left_out["whose alleles are not given as letters A, C, G and T"] == 1
    if total == 600:
        assert len({row["chromosome"] for row in rows}) == 25
    known = {(str(c), str(p)): k for k, (c, p) in enumerate(zip(table["CHR"], table["BP"], strict=True))}
    numbers = {"23": "X", "24": "Y", "25": "MT"}
    for row in rows:
        k = known[numbers.get(row["chromosome"], row["chromosome"]), row["base_pair_location"]]
        assert (row["effect_allele"], row["other_allele"]) == ("A", "CT")
        for ours, theirs in (("odds_ratio", "OR"), ("standard_error", "SE"), ("p_value", "P"), ("ci_lower", "L95")):
            np.testing.assert_allclose(float(row[ours]), float(table[theirs][k]), rtol=1e-5)
        assert float(row["effect_allele_frequency"]) == pytest.approx(np.clip(table["F_U"][k], 0, 1), rel=1e-5)
        assert row["n"] == str(table["N"][k])
        assert row["rsid"] == (table["SNP"][k] if table["SNP"][k].startswith("rs") else "#NA")
    assert about["trait_description"] == ["hay fever"] and about["genome_assembly"] == "GRCh38"
    assert "locally randomized" in about["author_notes"] and "epsilon = 8" in about["author_notes"]
    assert abs(about["samples"][0]["case_count"] - 150) <= 60


def test_ssf_by_the_public_validator(tmp_path):
    tools = pytest.importorskip("gwas_sumstats_tools.validate", reason="gwas-sumstats-tools is not installed")
    scanned(600.0).write_ssf(tmp_path / "x.tsv", STUDY)
    valid, message, *_ = tools.validate(tmp_path / "x.tsv", minimum_rows=50)
    assert valid, message


def trait_columns(count: int = 4) -> dict[str, np.ndarray]:
    """A scan of a trait, as its table has it."""
    text = lambda value: np.full(count, value, dtype=object)  # noqa: E731
    line = np.linspace(-1, 1, count)
    return {
        "CHR": text("chrX"), "SNP": text("rs7"), "BP": np.arange(count) + 5, "A1": text("g"), "A2": text("T"),
        "TEST": text("ADD"), "N": np.full(count, 90), "A1_FREQ": line, "BETA": line, "SE": np.full(count, 0.5),
        "L95": line - 1, "U95": line + 1,
        "T_STAT": 2 * line, "P": np.full(count, 0.25), "DF": np.ones(count), "STAT": 4 * line**2,
    }  # fmt: skip


def test_slopes_of_a_trait(tmp_path):
    columns = trait_columns()
    write_ssf(columns, tmp_path / "x.tsv", STUDY)
    rows, about = read_ssf(tmp_path / "x.tsv")
    assert [float(row["beta"]) for row in rows] == pytest.approx(columns["BETA"], rel=1e-5)
    # an estimate below 0 is none of a frequency
    assert [row["effect_allele_frequency"] for row in rows] == ["0", "0", "0.333333", "1"]
    assert {row["chromosome"] for row in rows} == {"23"} and rows[0]["effect_allele"] == "G"
    assert about["samples"][0]["case_control_study"] is False and "that of beta" in about["author_notes"]
    write_plink2(columns, tmp_path / "x.glm.linear")
    head, first, *_ = (tmp_path / "x.glm.linear").read_text().splitlines()
    assert " ".join(head.split("\t")) == "#CHROM POS ID REF ALT A1 TEST OBS_CT BETA SE T_STAT P"
    assert " ".join(first.split("\t")) == "chrX 5 rs7 T g g ADD 90 -1 0.5 -2 0.25"


def test_refusals(tmp_path):
    columns = trait_columns()
    with pytest.raises(InvalidInput, match=r"written as \.tsv or \.tsv\.gz"):
        write_ssf(columns, tmp_path / "x.txt", STUDY)
    with pytest.raises(InvalidInput, match=r"no variant can be written as GWAS-SSF \(4 variants whose alleles"):
        write_ssf(columns | {"A2": np.full(4, ".", dtype=object)}, tmp_path / "x.tsv", STUDY)
    with pytest.raises(InvalidInput, match="--assembly GRCh38"):
        ScannedStudy("", 1.0, "")
    assert not list(tmp_path.iterdir())


def test_forms_refuse_what_they_have_no_place_for(tmp_path):
    mine = cohort()
    reports = design(mine, 600.0).randomize(mine, random_state=2)
    naive = reports.scan(naive=True)
    for write in (lambda: naive.write_plink2(tmp_path / "x"), lambda: naive.write_ssf(tmp_path / "x.tsv", STUDY)):
        with pytest.raises(InvalidInput, match="no columns for the naive test"):
            write()
    with pytest.raises(InvalidInput, match="the genotypic test's p-value is of two"):
        scanned(600.0, "genotypic").write_ssf(tmp_path / "x.tsv", STUDY)
    scanned(600.0, "genotypic").write_plink2(tmp_path / "x")
    rows = [line.split("\t") for line in (tmp_path / "x").read_text().splitlines()]
    assert {row[rows[0].index("TEST")] for row in rows[1:]} == {"GENO_2DF"}


def test_the_sign_of_a_statistic():
    table = scanned(600.0).columns
    signed = signed_statistic(table)
    odds = table["OR"].astype(float)
    np.testing.assert_allclose(signed**2, table["STAT"].astype(float), atol=1e-20)
    assert ((signed > 0) == (odds > 1))[np.isfinite(signed) & (odds != 1)].all()
    two = scanned(600.0, "genotypic").columns
    assert np.isnan(signed_statistic(two)[two["DF"] == 2]).all()


@pytest.mark.parametrize(
    ("name", "number"), [("chr7", 7), ("x", 23), ("25", 23), ("XY", 23), ("chrM", 25), ("26", 25), ("Y", 24)]
)
def test_numbers_of_chromosomes(name, number):
    table, _ = ssf_table(trait_columns() | {"CHR": np.full(4, name, dtype=object)})
    assert set(table["chromosome"]) == {str(number)}


@pytest.mark.skipif(shutil.which("plink2") is None, reason="plink2 is not installed")
def test_plink2_itself_names_and_counts_so(tmp_path):
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    mine = cohort()
    autosomal = np.flatnonzero(np.isin(mine.variants.chromosome, ("1", "2", "3")))
    genotypes = MatrixGenotypes(mine.variants.take(autosomal), mine.people, mine.genotypes.codes[:, autosomal])
    mine = Cohort(genotypes, mine.rows, mine.status)
    write_plink(mine, tmp_path / "x.bed")
    design(mine, 400.0).randomize(mine, 3).scan().write_plink2(tmp_path / "ours")
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
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    monkeypatch.chdir(tmp_path)
    write_plink(cohort(), Path("x.bed"))
    for command in (
        "gwas-design x.bed --total-epsilon 600 -o d.json",
        "gwas-perturb x.bed --design d.json -o r.bed --random-state 1",
        "gwas r.bed --design d.json --test allelic --format ssf --assembly GRCh37 --trait-description asthma -o r.tsv.gz",
        "gwas r.bed --design d.json --test allelic --format plink2 -o r.glm.gz",
        "gwas r.bed --design d.json --test allelic -o r.tsv",
    ):
        assert run(command.split()) == 0, capsys.readouterr().err
    assert "not listed in r.tsv.gz: 1 variant whose alleles are not given as letters" in capsys.readouterr().err
    rows, about = read_ssf(Path("r.tsv.gz"))
    digest = json.loads(Path("r.bed.optrr.json").read_text())["release"]["design"]
    assert digest in about["author_notes"] and about["trait_description"] == ["asthma"]
    own = [line.split("\t") for line in Path("r.tsv").read_text().splitlines()]
    glm = [line.split("\t") for line in gzip.decompress(Path("r.glm.gz").read_bytes()).decode().splitlines()]
    assert [row[-1] for row in glm[1:]] == [row[own[0].index("P")] for row in own[1:]] and len(rows) > 60
    for more, said in (
        (["--format", "ssf", "-o", "y.tsv"], "--assembly GRCh38"),
        (["--assembly", "GRCh38", "-o", "y.tsv"], "--assembly is for GWAS-SSF"),
        (["--format", "plink2", "--naive", "-o", "y.tsv"], "the form plink2 has no columns for the naive test"),
        (["--format", "ssf", "--naive", "--assembly", "x", "-o", "y.tsv"], "the form ssf has no columns for the naive"),
        (["--format", "ssf", "--test", "genotypic", "--assembly", "x", "-o", "y.tsv"], "the genotypic test's p-value"),
        (["--format", "ssf"], "--format is of the table of results"),
        (["--format", "ssf", "--assembly", "GRCh38", "-o", "y.txt"], "written as .tsv or .tsv.gz"),
    ):
        assert run(["gwas", "r.bed", "--design", "d.json", *more]) == 2
        assert said in capsys.readouterr().err
    assert not list(tmp_path.glob("y.*"))
