"""Scans where no variant varies or nobody is left, and what is said of people and records that are left out."""

import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from genotypes import cohort_of
from person_files import line
from person_files import write_vcf as person_vcf

from optrr.cli.main import run
from optrr.errors import InvalidInput, OptrrWarning
from optrr.genomics import (
    Budget,
    Cohort,
    GenotypeFilter,
    MatrixGenotypes,
    PhenotypeColumns,
    Wanted,
    design,
    genomic_design,
    read_cohort,
    read_genotypes,
)
from optrr.genomics.genotypes import MISSING
from optrr.genomics.layout import layout_of
from optrr.genomics.scan import ScanOptions, Thresholds, scan
from optrr.genomics.writing import write_vcf
from optrr.show.text import counted


def monomorphic(variants: int = 1, people: int = 60) -> Cohort:
    return cohort_of(np.zeros((people, variants)))


@pytest.mark.parametrize("variants", [1, 2])
@pytest.mark.parametrize("test", ["trend", "genotypic"])
def test_a_scan_without_any_p_value(test, variants):
    true = monomorphic(variants)
    # so large an epsilon that nothing changes, with all but no chance of a failure
    scanned = design(true, total=200.0).randomize(true, random_state=1).scan(test=test)
    assert np.isnan(scanned.scores.p_value).all()
    summary = scanned.summary()
    assert summary["top"] == [] and summary["lambda_gc"] is None
    assert any("p-values are NA for" in line for line in scanned.warnings)
    for kind in ("manhattan", "qq"):
        scanned.plot(kind)


def test_a_scan_that_is_refused_warns_before():
    true = monomorphic(2, people=3000)
    made = genomic_design(Wanted(list(true.variants.name)), Budget(total=2.0))
    with (
        pytest.warns(OptrrWarning, match="does not look like data randomized by this design"),
        pytest.raises(InvalidInput, match="no variant is left to be tested"),
    ):
        scan(true, made.law, layout_of(made.domain), ScanOptions(thresholds=Thresholds(maf=0.5)))
    uncalled = replace(true, genotypes=replace(true.genotypes, codes=np.full((3000, 2), MISSING, dtype=np.int8)))
    with pytest.raises(InvalidInput, match="no variant has a single call"):
        scan(uncalled, made.law, layout_of(made.domain))


@pytest.mark.parametrize("test", ["trend", "genotypic"])
def test_variants_that_thresholds_leave_and_the_test_does_not_count_are_none(test):
    """Of chromosome Y nobody has two copies, and the other variant is below the threshold."""
    true = monomorphic(2, people=300)
    male = np.random.default_rng(2).random(300) < 0.5
    codes = np.stack([np.zeros(300), 2 * (np.arange(300) % 3 == 0) * male], axis=1).astype(np.int8)
    named = replace(true.variants, chromosome=np.array(["1", "Y"], dtype=object))
    cohort = Cohort(MatrixGenotypes(named, true.people, codes), true.rows, true.status, male=male)
    reports = design(cohort, total=200.0).randomize(cohort, random_state=1)
    assert reports.scan(test=test).skipped
    with pytest.raises(InvalidInput, match="no variant that the thresholds leave has a single call of somebody whom"):
        reports.scan(test=test, maf=0.1)


@pytest.mark.parametrize("trait", [None, "height"])
def test_variants_of_chromosome_y_are_left_out_where_all_are_women(trait):
    true = monomorphic(3, people=200)
    rng = np.random.default_rng(4)
    codes = np.column_stack([rng.integers(0, 3, (200, 2)), np.zeros(200)]).astype(np.int8)
    named = replace(true.variants, chromosome=np.array(["1", "X", "Y"], dtype=object))
    nobody = np.zeros(200, dtype=np.bool_)
    cohort = Cohort(MatrixGenotypes(named, true.people, codes), true.rows, true.status, male=nobody)
    reports = design(cohort, total=200.0).randomize(cohort, random_state=1)
    table = pd.DataFrame({"sample": true.people, "age": rng.normal(size=200), "height": rng.normal(size=200)})
    scanned = reports.scan(covariates=table, covariate=["age"], trait=trait)
    assert scanned.variants.name.tolist() == ["rs0", "rs1"] and np.isfinite(scanned.scores.p_value).all()
    assert scanned.skipped == {"on a chromosome of which nobody has a copy who can be compared": 1}
    assert np.isfinite(scanned.columns["BETA" if trait else "OR"]).all()


def test_the_commands_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("bed_reader", reason="bed_reader is not installed")
    from optrr.genomics import write_plink  # noqa: PLC0415 (needs bed_reader)

    monkeypatch.chdir(tmp_path)
    write_plink(monomorphic(), Path("t.bed"))
    assert run(["gwas-design", "t.bed", "--total-epsilon", "200", "-o", "d.json"]) == 0
    assert run(["gwas-perturb", "t.bed", "--design", "d.json", "-o", "r.bed"]) == 0
    capsys.readouterr()
    asked = ["-o", "a.tsv", "--manhattan", "m.svg", "--report", "p.html", "--json"]
    assert run(["gwas", "r.bed", "--design", "d.json", *asked]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["top"] == [] and "p-values are NA for 1 variant" in err
    row = dict(zip(*(line.split("\t") for line in Path("a.tsv").read_text().splitlines()), strict=True))
    assert row["P"] == row["OR"] == "NA"


def test_paths_may_be_texts(tmp_path: Path):
    pytest.importorskip("cyvcf2", reason="cyvcf2 is not installed")
    (tmp_path / "p.csv").write_text("sample,ill\n" + "".join(f"p{k},{1 + k % 2}\n" for k in range(60)))
    write_vcf(monomorphic(), tmp_path / "t.vcf")
    cohort = read_cohort(f"{tmp_path}/t.vcf", PhenotypeColumns(f"{tmp_path}/p.csv", column="ill"))
    np.testing.assert_array_equal(cohort.status, np.arange(60) % 2)
    assert read_genotypes(f"{tmp_path}/t.vcf").people.size == 60


def test_a_list_of_people_may_name_others_and_how_many_is_said(tmp_path: Path):
    (tmp_path / "keep.txt").write_text("p1\np2\np3\nnobody\nnobody2\n")
    people = np.array([f"p{k}" for k in range(9)], dtype=object)
    chosen = GenotypeFilter(keep=tmp_path / "keep.txt")
    assert chosen.absent_names(people) == [f"not in the genotype file: 2 names of {tmp_path}/keep.txt"]
    assert not chosen.absent_names(np.array(["p1", "p2", "p3", "nobody", "nobody2", "x"], dtype=object))
    assert not GenotypeFilter().absent_names(people)


def test_a_total_that_cannot_be_reached_is_told():
    wanted = Wanted(["a", "b"])
    with pytest.warns(OptrrWarning, match="the total epsilon is .* and not 3000: some attribute has 50"):
        made = genomic_design(wanted, Budget(3000.0))
    assert made.attribute_epsilons.max() == pytest.approx(50, rel=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", OptrrWarning)
        assert genomic_design(wanted, Budget(20.0)).epsilon == pytest.approx(20, rel=1e-6)


def test_records_that_a_design_has_no_variant_for_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("cyvcf2", reason="cyvcf2 is not installed")
    lines = [line("rs1", "A", "G", 1), line("rs2", "A,C", "G", 1, place="1\t20")]
    file = person_vcf(tmp_path / "t.vcf", lines)
    for purpose in ("genotypes", "association"):
        asked = ["--for", purpose, "--total-epsilon", "2", "-o", str(tmp_path / f"{purpose}.json")]
        assert run(["gwas-design", str(file), *asked]) == 0
        assert "warning: left out of the design: 1 not biallelic" in capsys.readouterr().err


def test_frequencies_in_the_headline_are_none_below_zero():
    """At a small ε half of the estimates of a frequency of 0 are below it: of twenty all but with chance 1e-6."""
    true = monomorphic(20)
    report = design(true, total=40.0).randomize(true, random_state=3).variants()
    assert report.rarer.min() < 0
    assert "minor allele frequencies 0 to" in report.headline()


@pytest.mark.parametrize(
    ("number", "what", "said"),
    [
        (1, "people without", "1 person without"),
        (2, "people x", "2 people x"),
        (1, "peopled", "1 peopled"),
        (1, "people", "1 person"),
    ],
)
def test_one_is_a_person(number: int, what: str, said: str):
    assert counted(number, what) == said
