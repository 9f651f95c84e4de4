"""A scan where no variant varies: every number that is not defined is NA, whatever is asked for, and no file is left half done."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from optrr.cli.main import run
from optrr.genomics import Cohort, MatrixGenotypes, PhenotypeColumns, Variants, design, read_cohort, read_genotypes
from optrr.genomics.vcf_writing import write_vcf


def monomorphic(variants: int = 1, people: int = 60) -> Cohort:
    named = Variants.of([("1", 10 + k, f"rs{k}", "A", "G") for k in range(variants)])
    names = np.array([f"p{k}" for k in range(people)], dtype=object)
    status = (np.arange(people) % 2).astype(np.int8)
    return Cohort(MatrixGenotypes(named, names, np.zeros((people, variants), dtype=np.int8)), np.arange(people), status)


@pytest.mark.parametrize("variants", [1, 2])
@pytest.mark.parametrize("test", ["trend", "allelic", "genotypic", "allelic-hwe"])
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


def test_the_commands_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("bed_reader", reason="bed_reader is not installed")
    from optrr.genomics import write_plink  # noqa: PLC0415 (needs bed_reader)

    monkeypatch.chdir(tmp_path)
    write_plink(monomorphic(), Path("t.bed"))
    assert run("gwas-design t.bed --total-epsilon 200 -o d.json".split()) == 0
    assert run("gwas-perturb t.bed --design d.json -o r.bed".split()) == 0
    capsys.readouterr()
    assert run("gwas r.bed --design d.json -o a.tsv --manhattan m.svg --report p.html --json".split()) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["top"] == [] and "p-values are NA for 1 variant" in err
    row = dict(zip(*(line.split("\t") for line in Path("a.tsv").read_text().splitlines()), strict=True))
    assert row["P"] == row["OR"] == "NA"
    for plot in ("--forest", "--region-plot"):
        assert run(f"gwas r.bed --design d.json -o h.tsv --manhattan h.svg {plot} h2.svg --report h.html".split()) == 2
        assert not list(tmp_path.glob("*h*.*"))


def test_paths_may_be_texts(tmp_path: Path):
    pytest.importorskip("cyvcf2", reason="cyvcf2 is not installed")
    (tmp_path / "p.csv").write_text("sample,ill\n" + "".join(f"p{k},{1 + k % 2}\n" for k in range(60)))
    write_vcf(monomorphic(), tmp_path / "t.vcf")
    cohort = read_cohort(f"{tmp_path}/t.vcf", PhenotypeColumns(f"{tmp_path}/p.csv", column="ill"))
    np.testing.assert_array_equal(cohort.status, np.arange(60) % 2)
    assert read_genotypes(f"{tmp_path}/t.vcf").people.size == 60
