"""Randomizing cohorts, scans and result tables, also where no variant varies or nobody is left."""

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
from optrr.core.display.text import counted
from optrr.core.errors import InvalidInput, OptrrWarning
from optrr.core.inference.result import bonferroni, false_discovery_rate
from optrr.core.provenance.accounting import Release
from optrr.core.provenance.provenance import Provenance
from optrr.core.records.frames import FrameCodec
from optrr.core.records.reading.registry import open_source
from optrr.genomics import (
    Budget,
    Cohort,
    MatrixGenotypes,
    PhenotypeColumns,
    Wanted,
    design,
    genomic_design,
    read_cohort,
)
from optrr.genomics.covariates import CovariateColumns
from optrr.genomics.genotypes import MISSING
from optrr.genomics.layout import genomic_domain, layout_of, star_kernel
from optrr.genomics.odds import odds_ratios
from optrr.genomics.randomize import randomize_records, randomized_cohort, records_of
from optrr.genomics.scan import scan
from optrr.genomics.score_tests import controlled_p, copy_tables, genomic_control, score_test
from optrr.genomics.writing import write_records
from optrr_solvers.laws import ProductLaw

RELEASED = Provenance(Release(f"sha256:{0:064x}", "flip pattern", 1.0, seeded=True))


def simulated(n: int, v: int, seed: int = 1) -> Cohort:
    return cohort_of(np.random.default_rng(seed).binomial(2, 0.3, size=(n, v)))


def test_records_follow_the_design_whatever_the_files_order():
    cohort = simulated(20, 4)
    design = genomic_design(
        Wanted(["rs2", "rs0", "rs3", "rs1"], method="kronecker"), Budget(variants=50.0, status=50.0)
    )
    layout = layout_of(design.domain)
    records = records_of(cohort, layout)
    np.testing.assert_array_equal(records[:, 0], cohort.status)
    np.testing.assert_array_equal(records[:, 1:], cohort.genotypes.codes[:, [2, 0, 3, 1]])
    # at an epsilon of 50 nothing changes (probability below 1e-17), so the way back must be the identity
    randomize_records(records, design.mechanism, 1)
    back = randomized_cohort(cohort, records, layout)
    np.testing.assert_array_equal(back.genotypes.codes, cohort.genotypes.codes)
    np.testing.assert_array_equal(back.status, cohort.status)


@pytest.mark.slow
def test_flips_are_the_laws():
    cohort = cohort_of(np.zeros((40_000, 3)))
    design = genomic_design(Wanted(["rs0", "rs1", "rs2"]), Budget(2.0, status=1.0))
    layout = layout_of(design.domain)
    true = records_of(cohort, layout)
    records = true.copy()
    randomize_records(records, design.mechanism, 2)
    changed = records != true
    both = np.mean(changed[:, 0] & changed[:, 2])
    expected = design.law.marginal((0, 2))
    # 5 standard errors of 40,000 draws: false alarm 6e-7 each
    assert abs(both - expected[1, 1]) < 5 * np.sqrt(expected[1, 1] / 40_000)
    for i in range(4):
        f = design.law.one_way()[i, 1]
        assert abs(changed[:, i].mean() - f) < 5 * np.sqrt(f * (1 - f) / 40_000)


@pytest.mark.slow
def test_missing_calls():
    codes = np.random.default_rng(3).integers(0, 3, size=(30, 3))
    codes[:4, 1] = MISSING
    cohort = cohort_of(codes)
    names = ["rs0", "rs1", "rs2"]
    plain = genomic_design(Wanted(names), Budget(2.0, status=1.0))
    with pytest.raises(InvalidInput, match="'rs1' has missing calls"):
        records_of(cohort, layout_of(plain.domain))
    kept = records_of(cohort, layout_of(plain.domain), "exclude")
    randomize_records(kept, plain.mechanism, 1)
    np.testing.assert_array_equal(np.flatnonzero(kept[:, 2] == MISSING), [0, 1, 2, 3])
    assert not (kept[:, [0, 1, 3]] == MISSING).any()
    category = genomic_design(Wanted(names, missing=True), Budget(2.0, status=1.0))
    records = records_of(cohort, layout_of(category.domain))
    np.testing.assert_array_equal(np.flatnonzero(records[:, 2] == 3), [0, 1, 2, 3])
    randomize_records(records, category.mechanism, 1)
    back = randomized_cohort(cohort, records, layout_of(category.domain))
    # missing is now an answer like any other: it appears where nothing was missing
    assert (back.genotypes.codes[:, [0, 2]] == MISSING).any()


@pytest.mark.slow
def test_other_variants_are_refused():
    cohort = simulated(20, 3)
    design = genomic_design(Wanted(["rs0", "rs1"]), Budget(2.0, status=1.0))
    with pytest.raises(InvalidInput, match="'rs2' is not in the design"):
        records_of(cohort, layout_of(design.domain))
    with pytest.raises(InvalidInput, match="1 variant that the design did not randomize"):
        scan(cohort, design.law, layout_of(design.domain))
    design = genomic_design(Wanted(["rs0", "rs1", "rs2", "rs9"]), Budget(2.0, status=1.0))
    with pytest.raises(InvalidInput, match="'rs9'"):
        records_of(cohort, layout_of(design.domain))


@pytest.mark.slow
def test_written_records_can_be_tested(tmp_path):
    cohort = simulated(60, 3)
    design = genomic_design(Wanted(["rs0", "rs1", "rs2"]), Budget(4.0, status=2.0))
    layout = layout_of(design.domain)
    records = records_of(cohort, layout)
    randomize_records(records, design.mechanism, 5)
    for name in ("r.csv", "r.parquet"):
        write_records(records, design.domain, cohort.people, tmp_path / name, RELEASED, keep_order=True)
        file = open_source(tmp_path / name, design.domain)
        batches = list(file.batches(list(design.domain.names)))
        codec = FrameCodec(design.domain, batches[0].schema)
        np.testing.assert_array_equal(np.concatenate([codec.encode(b) for b in batches]), records)
        back = read_cohort(tmp_path / name, PhenotypeColumns(column="status", cases=("case",)))
        direct = scan(randomized_cohort(cohort, records, layout), design.law, layout)
        np.testing.assert_array_equal(scan(back, design.law, layout).scores.statistic, direct.scores.statistic)


@pytest.mark.parametrize("epsilons", [(2.0, 2.0, 2.0), (1.0, 2.0, 3.0)])
def test_a_scan_is_its_variants_one_by_one_whether_or_not_they_are_alike(epsilons):
    cohort = simulated(500, 3, seed=8)
    domain = genomic_domain(["rs0", "rs1", "rs2"])
    law, layout = ProductLaw(domain.sizes, np.array([3.0, *epsilons])), layout_of(domain)
    rows, tables = scan(cohort, law, layout, "genotypic").columns, copy_tables(cohort, missing=False).two
    for k in range(3):
        kernel = star_kernel(law, np.array([k + 1]), 0).part(0)
        one, odds = score_test(tables[k : k + 1], kernel, "genotypic"), odds_ratios(tables[k : k + 1], kernel)
        expected = [one.statistic, one.p_value, odds.ratio, odds.low, odds.high]
        np.testing.assert_allclose([rows[c][k] for c in ("STAT", "P", "OR", "L95", "U95")], np.ravel(expected), 1e-10)


@pytest.mark.slow
def test_result_table(tmp_path):
    cohort = simulated(3000, 40, seed=6)
    design = genomic_design(Wanted([f"rs{k}" for k in range(40)]), Budget(12.0, status=3.0))
    layout = layout_of(design.domain)
    records = records_of(cohort, layout)
    randomize_records(records, design.mechanism, 6)
    associations = scan(randomized_cohort(cohort, records, layout), design.law, layout)
    associations.write_tsv(tmp_path / "x.tsv")
    lines = [line.split("\t") for line in (tmp_path / "x.tsv").read_text().splitlines()]
    assert lines[0][:5] == ["CHR", "SNP", "BP", "A1", "A2"]
    assert {"STAT", "P", "OR", "SE", "L95", "U95", "FDR_BH", "BONF", "P_GC"} <= set(lines[0])
    assert len(lines) == 41
    row = dict(zip(lines[0], lines[7], strict=True))
    assert (row["SNP"], row["CHR"], row["BP"], row["A1"], row["TEST"], row["N"]) == (
        "rs6",
        "1",
        "607",
        "A",
        "TREND",
        "3000",
    )
    assert float(row["P"]) == pytest.approx(associations.scores.p_value[6], rel=1e-5)
    assert float(row["L95"]) < float(row["OR"]) < float(row["U95"])
    assert associations.scores.p_value[associations.top(1)[0]] == np.nanmin(associations.scores.p_value)
    with pytest.raises(InvalidInput, match="there is no test"):
        scan(cohort, design.law, layout, "fisher")


def test_multiple_testing():
    p = np.array([0.01, np.nan, 0.04, 0.03, 0.9])
    np.testing.assert_allclose(bonferroni(p), [0.04, np.nan, 0.16, 0.12, 1.0])
    # Benjamini–Hochberg by hand: 0.01·4/1, 0.03·4/2, 0.04·4/3, made monotone from the right
    np.testing.assert_allclose(false_discovery_rate(p), [0.04, np.nan, 0.04 * 4 / 3, 0.04 * 4 / 3, 0.9])
    statistic = np.random.default_rng(1).chisquare(1, 200_001)
    # the median of 200,001 draws has standard error 0.0057 of λ; 5 of them
    assert genomic_control(statistic, 1) == pytest.approx(1.0, abs=0.03)
    assert genomic_control(2 * statistic, 1) == pytest.approx(2 * genomic_control(statistic, 1))
    np.testing.assert_allclose(controlled_p(2 * statistic, 1)[:5], controlled_p(statistic, 1)[:5], atol=0.02)
    assert np.isnan(genomic_control(np.array([np.nan]), 1))


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
        pytest.raises(InvalidInput, match="no variant is left to test"),
    ):
        scan(true, made.law, layout_of(made.domain), maf=0.5)
    uncalled = replace(true, genotypes=replace(true.genotypes, codes=np.full((3000, 2), MISSING, dtype=np.int8)))
    with pytest.raises(InvalidInput, match="has a call"):
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
    with pytest.raises(InvalidInput, match="no variant within the thresholds has a call of a person in the test"):
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
    scanned = reports.scan(covariates=CovariateColumns(table, covariates=("age",), trait=trait))
    assert scanned.variants.name.tolist() == ["rs0", "rs1"] and np.isfinite(scanned.scores.p_value).all()
    assert scanned.skipped == {"on a chromosome without copies among the people in the comparison": 1}
    assert np.isfinite(scanned.columns["BETA" if trait else "OR"]).all()


def test_a_total_that_cannot_be_reached_is_told():
    wanted = Wanted(["a", "b"])
    with pytest.warns(OptrrWarning, match="the total epsilon is .* and not 3000: an attribute has 50"):
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
        assert run(["gwas", "design", str(file), *asked]) == 0
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
