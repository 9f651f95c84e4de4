"""The comparison of protocols, and the commands from end to end."""

import json
from pathlib import Path

import numpy as np
import pytest
from genotypes import cohort_of, command

from optrr.core.display.parts import page_html
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms.kernel import EffectKernel
from optrr.genomics.cohort import Cohort
from optrr.genomics.genotypes import MISSING
from optrr.genomics.layout import genomic_domain, layout_of
from optrr.genomics.randomize import records_of
from optrr.genomics.score_tests import noncentralities
from optrr.genomics.study import StudyOptions, record_tables, run_study
from optrr.genomics.study.pages import study_page
from optrr.genomics.study.ways import LOCAL, StudiedPanel, VariantReports


def associated_cohort(n: int = 2000, v: int = 16, seed: int = 1) -> Cohort:
    """Half of the variants associated with the status, in Hardy–Weinberg proportions within each."""
    generator = np.random.default_rng(seed)
    status = (np.arange(n) < n // 5).astype(np.int8)
    frequency = np.full((n, v), 0.05)
    frequency[:, : v // 2] += 0.45 * status[:, None]
    return cohort_of(generator.binomial(2, frequency), status, names=[f"v{k}" for k in range(v)])


@pytest.fixture(scope="module")
def study():
    options = StudyOptions((4.0, 20.0), repeats=20, methods=("optimum", "kronecker", "inductive", "sampling"), top=8)
    return run_study(associated_cohort(), options)


def sampling(names, total, missing=False):
    return LOCAL["sampling"](StudiedPanel(names, total, missing))


def by_name(study, total):
    return {o.method: o for o in study.outcomes if o.total == total}


@pytest.mark.slow
def test_study_finds_what_theory_says(study):
    assert study.truth.associated.tolist() == list(range(8))
    for total in (4.0, 20.0):
        at = by_name(study, total)
        ratios = [o.measures["predicted_noncentrality_ratio"][0] for o in at.values()]
        assert ratios == sorted(ratios, reverse=True)
        zero = at["optimum"].measures["chi2_error_of_zero"][0]
        assert zero == pytest.approx(np.mean(study.truth.statistic[study.truth.usable]))
    at = by_name(study, 4.0)
    assert at["optimum"].measures["power"][0] > at["kronecker"].measures["power"][0] + 0.1
    # by χ² error, an answer that is always 0 is not much worse: noise pulls small estimates up
    assert at["optimum"].measures["chi2_error"][0] < at["kronecker"].measures["chi2_error"][0]
    assert at["kronecker"].measures["chi2_error"][0] > at["kronecker"].measures["chi2_error_of_zero"][0] / 2
    for o in study.outcomes:
        assert o.way.epsilon <= o.total and 0 < o.predicted < 1
        # 5 standard errors between 20 repeats, t-distributed: false alarm 8e-5 each, fixed seed; strong associations are not
        # quite additive
        expected = {"type_one": (0.05, 0.005), "qq_slope": (1.0, 0.005), "noncentrality_ratio": (o.predicted, 0.03)}
        for name, (level, more) in expected.items():
            mean, error = o.measures[name]
            assert abs(mean - level) < 5 * error + more * level, (o.method, o.total, name)
    assert ("inductive", 4.0) in [(m, t) for t, m, _ in study.unavailable]
    assert "optimum" in {o.method for o in study.naive_failures}
    html = page_html(study_page(study, "a study"))
    assert "WARNING: the naive test is wrong" in html and html.count("<svg") >= 6
    assert "http://" not in html.replace("http://www.w3.org", "")
    assert study.to_arrow().num_rows == len(study.outcomes)


@pytest.mark.parametrize("total", [1.0, 8.0, 16.0])
@pytest.mark.parametrize("missing", [False, True])
def test_sampling_is_one_response_over_all_combinations(total, missing):
    names = np.array([f"v{k}" for k in range(20)], dtype=object)
    protocol = sampling(names, total, missing)
    k, rows = protocol.reported, 3 + missing
    assert protocol.epsilon <= total and protocol.epsilon == pytest.approx(total, abs=1e-6)
    # the textbook's: the truth with e^ε/(e^ε + K − 1) of all K combinations, so that every effect shrinks alike
    size = 2 * rows**k
    expected = (np.exp(total) - 1) / (np.exp(total) + size - 1)
    np.testing.assert_allclose(protocol.kernel.eigenvalues.ravel()[1:], expected, rtol=1e-6)
    if k <= 2:
        matrix = protocol.design.mechanism.matrix(list(protocol.design.domain.names))
        truth = np.exp(total) / (np.exp(total) + size - 1)
        np.testing.assert_allclose(np.diag(matrix), truth, rtol=1e-6)
        np.testing.assert_allclose(matrix[0, 1:], (1 - truth) / (size - 1), rtol=1e-6)


@pytest.mark.parametrize(
    ("total", "missing", "k"), [(0.5, False, 1), (4.0, False, 2), (4.0, True, 1), (16.0, False, 11)]
)
def test_no_other_number_of_sampled_variants_shows_more(total, missing, k):
    names = np.array([f"v{j}" for j in range(55)], dtype=object)
    rows = 3 + missing
    lam = [(np.exp(total) - 1) / (np.exp(total) + 2 * rows**j - 1) for j in range(1, 56)]
    # effects that are not nearly hidden
    lam = [x for x in lam if x > 1e-5]
    tables = np.array([[[0.28, 0.22], [0.19, 0.22], [0.03, 0.06]]])
    shown = [(j + 1) * noncentralities(tables, EffectKernel((rows, 2), [[1, x], [x, x]]))[0] for j, x in enumerate(lam)]
    assert sampling(names, total, missing).reported == 1 + int(np.argmax(shown)) == k


def test_sampled_tables_count_each_report_once():
    cohort = associated_cohort(300, 10)
    protocol = sampling(cohort.variants.name, 6.0)
    assert 1 <= protocol.reported < 10
    layout = layout_of(genomic_domain(list(cohort.variants.name)))
    records = records_of(cohort, layout)
    tables = protocol.tables(records, np.random.default_rng(1))
    assert tables.sum() == 300 * protocol.reported
    assert tables.shape == (10, 3, 2)
    # without randomization every report is true: 8 nats short of certain, so compare with a protocol that changes nothing
    two = LOCAL["kronecker"](StudiedPanel(np.array(["a", "b"], dtype=object), 90.0)).design
    sure = VariantReports(two.epsilon, 2, two, 10, protocol.kernel)
    tables = sure.tables(records, np.random.default_rng(2))
    true = record_tables(records, layout)
    assert np.all(tables <= true)
    assert tables.sum() == 600


@pytest.mark.slow
def test_missing_calls_in_a_study():
    cohort = associated_cohort(400, 6)
    cohort.genotypes.codes[:20, 2] = MISSING
    with pytest.raises(InvalidInput, match="missing"):
        run_study(cohort, StudyOptions((4.0,), 2))
    for options in (
        StudyOptions((8.0,), 2, ("kronecker", "sampling"), missing="exclude"),
        StudyOptions((8.0,), 2, ("optimum", "sampling"), missing_category=True),
    ):
        study = run_study(cohort, options)
        assert len(study.outcomes) == 2
        assert all(np.isfinite(o.measures["power"][0]) for o in study.outcomes)
    cohort.genotypes.codes[:] = 0
    with pytest.raises(InvalidInput, match="nothing to test"):
        run_study(cohort, StudyOptions((4.0,), 2))


def write_csv(path: Path, cohort: Cohort) -> Path:
    names = cohort.variants.name
    lines = ["sample,disease," + ",".join(names)]
    for person, s, row in zip(cohort.people, cohort.status, cohort.genotypes.codes, strict=True):
        lines.append(f"{person},{'yes' if s else 'no'}," + ",".join(str(g) for g in row))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("gwas-design", "g.csv", "--variant-epsilon", "1", "--total-epsilon", "3"),
            "the same epsilon for every variant",
        ),
        (("gwas-design", "g.csv"), "no epsilon is given"),
        (
            ("gwas-study", "g.csv", "--total-epsilon", "a", "--phenotype-column", "disease", "--case", "yes"),
            "could not convert",
        ),
        (("gwas-study", "g.csv", "--total-epsilon", "1"), "does not say who is a case"),
        (
            ("gwas-study", "g.csv", "--total-epsilon", "1", "--phenotype-column", "disease", "--case", "maybe"),
            "no value 'maybe'",
        ),
        (
            ("gwas-randomize", "g.csv", "--design", "d.json", "-o", "x.bcf"),
            "written as .bed, .vcf, .vcf.gz, .csv or .parquet",
        ),
        (("gwas", "g.csv", "--design", "d.json"), "cannot read design file"),
        (("gwas-design", "g.csv", "--budgets", "b.csv"), "lists variant 'v0' twice"),
        (("gwas-design", "g.csv", "--budgets", "b.csv", "-o", "b.csv"), "a design is written as .json"),
        (("gwas-randomize", "g.csv", "--design", "d.json", "-o", "./g.csv"), "g.csv is an input of this command"),
        (("gwas-randomize", "g.csv", "--design", "d.json", "-o", "b.csv", "--phenotype", "b.csv"), "is an input"),
        (("gwas-randomize", "g.bed", "--design", "d.json", "-o", "g.bed"), "g.bed is an input"),
        (("gwas", "g.csv", "--design", "d.json", "-o", "no/r.tsv"), "there is no directory no"),
        (("gwas", "g.csv", "--design", "d.json", "-o", "r", "--html", "r"), "r is to be written twice"),
        (("gwas", "g.csv", "--design", "d.json", "-o", "r", "--qq", "q.gif"), ".svg, .png or .pdf"),
    ],
)
def test_bad_commands(tmp_path, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "g.csv", associated_cohort(30, 2))
    (tmp_path / "b.csv").write_text("variant,epsilon\nv0,1\nv1,1\nv0,2\n")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    code, out, err = command(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1
    assert message in err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_missing_calls_left_as_they_are_are_said_to_be(tmp_path, capsys):
    cohort = associated_cohort(40, 3)
    cohort.genotypes.codes[:2, 1] = MISSING
    data = write_csv(tmp_path / "g.csv", cohort)
    data.write_text(data.read_text().replace(",-1", ","))
    who = ("--phenotype-column", "disease", "--case", "yes")
    design = tmp_path / "d.json"
    made = command(capsys, "gwas-design", data, "--total-epsilon", "4", "--status-epsilon", "2", "-o", design, *who)
    assert made[0] == 0
    arguments = ("gwas-randomize", data, "--design", design, "-o", tmp_path / "r.csv", "--missing", "exclude", *who)
    code, _, err = command(capsys, *arguments)
    assert code == 0
    assert (
        err
        == "warning: the missing calls of 1 variant are published as they are: no epsilon covers which calls are missing\n"
    )


def test_genotypes_follow_earlier_releases_up_to_a_limit(tmp_path, capsys):
    data = write_csv(tmp_path / "g.csv", associated_cohort(40, 2))
    who = ("--phenotype-column", "disease", "--case", "yes")
    design, first, second = (tmp_path / name for name in ("d.json", "one.csv", "two.csv"))
    made = command(capsys, "gwas-design", data, "--total-epsilon", "1", "--status-epsilon", "0.5", "-o", design, *who)
    assert made[0] == 0
    randomize = ("gwas-randomize", data, "--design", design, *who)
    code, out, _ = command(capsys, *randomize, "-o", first, "--limit", "1", "--json")
    assert code == 0 and json.loads(out)["epsilon"] <= 1
    code, out, err = command(capsys, *randomize, "-o", second, "--after", first, "--limit", "1.9")
    assert (code, out) == (2, "") and "above the limit of 1.9" in err and not second.exists()
    code, out, _ = command(capsys, *randomize, "-o", second, "--after", first, "--limit", "2")
    assert code == 0 and "in all (1.000000 + 1.000000)" in out
    # a copy of the first release counts once
    code, out, _ = command(capsys, "account", first, second, "--json")
    assert code == 0 and len(json.loads(out)["releases"]) == 2
    code, _, err = command(capsys, *randomize, "-o", second, "--limit", "2", "--random-state", "1")
    assert code == 2 and "drawn from a seed" in err
