"""500 single VCFs in two allele codings, merged: the same distribution as the cohort's path, and an order that says nothing."""

from __future__ import annotations

import json
import os
from collections import Counter
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import person_files
import pytest
from person_files import cohort_of, line, write_vcf
from scipy.stats import chi2_contingency, chisquare, rankdata

from optrr.cli.main import run
from optrr.designs.design_file import save_design
from optrr.errors import InvalidInput
from optrr.genomics import (
    Budget,
    GenomicDesign,
    PersonDiary,
    PersonReport,
    Wanted,
    genomic_design,
    merged_reports,
    read_person,
    read_reports,
)
from optrr.genomics.asking import AssociationDesign
from optrr.genomics.cohort import Cohort, read_cohort
from optrr.genomics.designing import sampled_variants
from optrr.genomics.layout import STATUS, layout_of
from optrr.genomics.person_reports import codes_of
from optrr.genomics.phenotypes import PhenotypeColumns
from optrr.genomics.sampled_variants import save_sampled_variants
from optrr.releases.provenance import sidecar_path

PEOPLE, VARIANTS = 500, 6
NAMES = [f"rs{k}" for k in range(VARIANTS)]
# the last one reads the same on both strands, so its files name it the same way round
ALLELES = [("A", "G"), ("C", "T"), ("G", "A"), ("T", "C"), ("AC", "A"), ("A", "T")]
FREQUENCIES = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
# 21 tables of two attributes are compared by chi-squared, so a test that is right fails in fewer than 21 of a million runs:
# counts of both paths are sums over people of draws by the same laws, whose variance is at most that of a multinomial.
FALSE_ALARM = 1e-6


@pytest.fixture(autouse=True)
def no_waiting_for_disks(monkeypatch):
    """Thousands of small files are written here, and none has to outlast a power failure."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def true_records() -> np.ndarray:
    rng = np.random.default_rng(5)
    status = (np.arange(PEOPLE) < PEOPLE // 2).astype(int)
    shift = np.where(status, 0.15, 0.0)[:, None]
    return np.column_stack([status, rng.binomial(2, FREQUENCIES + shift, (PEOPLE, VARIANTS))])


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """The true records, and the files: half of them name the alleles the other way round. Names tell status and place."""
    folder, records = tmp_path_factory.mktemp("people"), true_records()
    with pytest.MonkeyPatch.context() as patch:
        person_files.read_in_this_process(patch)
        files = []
        for k, record in enumerate(records):
            lines = [
                line(n, *ALLELES[v], record[1 + v], turned=k % 2 == 1 and v < VARIANTS - 1, place=f"1\t{10 + v}")
                for v, n in enumerate(NAMES)
            ]
            # in another order, among others that the design does not have
            order = np.random.default_rng(k).permutation(VARIANTS)
            others = [line("other", "A", "C", 1, place="1\t99")]
            files.append(
                write_vcf(
                    folder / f"{'case' if record[0] else 'control'}{k:03}.vcf", [*(lines[v] for v in order), *others]
                )
            )
        read = [
            read_person(file, layout_of(small_design().domain), bool(r[0]))
            for file, r in zip(files, records, strict=True)
        ]
    assert [bool(said) for _, said in read] == [k % 2 == 1 for k in range(PEOPLE)]
    return records, files, [person for person, _ in read]


@cache
def small_design(variants: float | None = None):
    total = 5.0 if variants is None else None
    return genomic_design(Wanted(NAMES, alleles=ALLELES), Budget(total, variants or 1.0, variants))


def asking_about(total: float):
    return sampled_variants(NAMES, total, alleles=ALLELES, frequencies=FREQUENCIES)


def seeded(asked, persons: list[Cohort], seed: int) -> list[tuple[str, PersonReport]]:
    rng = np.random.default_rng(seed)
    return [(f"p{k}", asked.drawn(person, random_state=rng)) for k, person in enumerate(persons)]


def rows_of(table: np.ndarray) -> Counter:
    return Counter(map(tuple, np.asarray(table).tolist()))


@pytest.mark.slow
def test_without_noise_the_merged_records_are_the_true_ones(people, tmp_path, capsys):
    """At ε = 30 for every attribute one of the 3,500 values changes in 7e-10 of runs. Through files, diaries and merging."""
    records, files, persons = people
    asked = GenomicDesign(small_design(30.0))
    save_design(asked.design, tmp_path / "d.json")
    folder = tmp_path / "reports"
    folder.mkdir()
    for k, (file, person) in enumerate(zip(files, persons, strict=True)):
        report = asked.report(person, PersonDiary(tmp_path / "diaries" / file.stem))
        report.write(folder / f"{file.stem}.{'csv' if k % 50 == 0 else 'json'}", asked.design)
    for suffix in ("csv", "parquet", "bed"):
        if suffix == "bed":
            pytest.importorskip("bed_reader", reason="bed-reader is not installed")
        out = tmp_path / f"cohort.{suffix}"
        arguments = ["gwas-merge", folder, "--design", tmp_path / "d.json", "-o", out, "--json"]
        assert run([str(a) for a in arguments]) == 0
        assert json.loads(capsys.readouterr().out)["records"] == PEOPLE
        column = PhenotypeColumns(column=STATUS, cases=("case",)) if suffix != "bed" else PhenotypeColumns()
        merged = read_cohort(out, column, asked.design.domain)
        codes = np.concatenate([codes for _, codes in merged.blocks()], axis=1)
        assert rows_of(np.column_stack([merged.status, codes])) == rows_of(records)


def test_without_noise_the_merged_answers_are_the_true_ones(people):
    records, _, persons = people
    asking = asking_about(30.0)
    assert not asking.reports, "a cell is named at such a total"
    given = seeded(AssociationDesign(asking), persons, 1)
    for (_, report), record in zip(given, records, strict=True):
        first = report.answer[0] - 1
        asked = [record[0], *(record[1 + (first + j) % VARIANTS] for j in range(asking.each))]
        assert report.answer[1] == int("".join(map(str, asked[1:])), 3) + asked[0] * 3**asking.each
    assert rows_of(merged_reports(asking, given, 2).rows) == Counter(report.answer for _, report in given)


def pair_p_values(one: np.ndarray, other: np.ndarray) -> list[float]:
    """p-values of homogeneity of every table of two attributes, between the two sets of records."""
    out = []
    for i, j in combinations(range(one.shape[1]), 2):
        tables = [np.bincount(3 * x[:, i].astype(int) + x[:, j], minlength=9) for x in (one, other)]
        kept = [t[np.sum(tables, axis=0) > 0] for t in tables]
        out.append(float(chi2_contingency(kept, correction=False).pvalue))
    return out


@pytest.mark.slow
def test_merged_records_have_the_distribution_of_the_cohorts_path(people):
    """20 releases of 500 people each way. Reports whose alleles were not turned are told apart at once."""
    records, _, persons = people
    asked = GenomicDesign(small_design())
    single = np.concatenate([merged_reports(asked.design, seeded(asked, persons, s), s).rows for s in range(20)])

    def by_cohort(true: np.ndarray) -> np.ndarray:
        out = []
        for s in range(20):
            cohort = asked.randomize(cohort_of(true, NAMES, ALLELES), 1000 + s).cohort
            codes = np.concatenate([codes for _, codes in cohort.blocks()], axis=1)
            out.append(np.column_stack([cohort.status, codes]))
        return np.concatenate(out)

    p_values = pair_p_values(single, by_cohort(records))
    assert len(p_values) == 21 and min(p_values) > FALSE_ALARM
    not_turned = records.copy()
    not_turned[1::2, 1:-1] = 2 - not_turned[1::2, 1:-1]
    assert min(pair_p_values(single, by_cohort(not_turned))) < FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("total", [1.0, 6.0])
def test_merged_answers_have_the_distribution_of_the_cohorts_path(people, total):
    """One test of the table of questions and answers; two in a million runs of the two fail by chance."""
    records, _, persons = people
    asked = AssociationDesign(asking_about(total))
    single = np.concatenate([merged_reports(asked.asking, seeded(asked, persons, s), s).rows for s in range(10)])
    cohort = cohort_of(records, NAMES, ALLELES)
    tables = [asked.randomize(cohort, 2000 + s).answers for s in range(10)]
    whole = np.concatenate([np.column_stack([t["question"].to_numpy(), t["answer"].to_numpy()]) for t in tables])
    seen = rows_of(single), rows_of(whole)
    counts = np.array([[each[cell] for cell in sorted(set(seen[0]) | set(seen[1]))] for each in seen])
    frequent = counts.sum(axis=0) >= 20
    counts = np.column_stack([counts[:, frequent], counts[:, ~frequent].sum(axis=1)])
    counts = counts[:, counts.sum(axis=0) > 0]
    assert counts.shape[1] > 8 and chi2_contingency(counts, correction=False).pvalue > FALSE_ALARM


def numbered_reports(count: int) -> list[tuple[str, PersonReport]]:
    """Reports that can be told apart by their values, the number in ternary digits; cases first."""
    design = small_design()
    texts = [a.texts for a in design.domain]
    out = []
    for k in range(count):
        digits = [int(k < count // 2), *(k // 3**v % 3 for v in range(VARIANTS))]
        values = tuple(t[d] for t, d in zip(texts, digits, strict=True))
        out.append((f"case{k}.json", PersonReport(design.digest, f"{k:032x}", values)))
    return out


def number_of(row: np.ndarray) -> int:
    return int(sum(int(digit) * 3**v for v, digit in enumerate(row[1:])))


def test_the_order_of_merged_rows_says_nothing_of_the_files():
    """300 merges of 100 reports: rank correlation of place in and place out, and where the first file goes.

    The mean of 300 correlations has standard error 1/sqrt(300 · 99); 5 of them are passed in 6e-7 of all runs, and so is the
    test of uniform places.
    """
    given, design = numbered_reports(100), small_design()
    orders = np.array([[number_of(r) for r in merged_reports(design, given, seed).rows] for seed in range(300)])
    assert all(sorted(order) == list(range(100)) for order in orders.tolist())
    place = np.arange(100) - 49.5
    correlations = (orders - 49.5) @ place / np.sum(place**2)
    assert abs(correlations.mean()) * np.sqrt(300 * 99) < 5
    assert np.var(correlations) * 99 == pytest.approx(1, abs=5 * np.sqrt(2 / 300))
    first = np.argmin(orders, axis=1)
    assert chisquare(np.bincount(first // 10, minlength=10)).pvalue > FALSE_ALARM
    # one merge says nothing of the next one either, by ranks of places
    ranks = np.array([rankdata(np.argsort(order)) for order in orders])
    pairs = np.sum((ranks[:-1] - 50.5) * (ranks[1:] - 50.5), axis=1) / np.sum(place**2)
    assert abs(pairs.mean()) * np.sqrt(299 * 99) < 5


def test_nothing_of_a_merged_file_leads_back_to_a_report(tmp_path, capsys):
    """Columns are those of the design and a number; neither name, id nor time of a report stands in any of the files."""
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    design, given = small_design(), numbered_reports(40)
    save_design(design, tmp_path / "d.json")
    folder = tmp_path / "reports"
    folder.mkdir()
    for where, report in given:
        report.write(folder / where, design)
    orders = []
    for suffix in ("csv", "csv", "bed"):
        out = tmp_path / f"cohort.{suffix}"
        assert run(["gwas-merge", str(folder), "--design", str(tmp_path / "d.json"), "-o", str(out)]) == 0
        written = [out, sidecar_path(out), *(out.with_suffix(s) for s in (".bim", ".fam") if suffix == "bed")]
        for file in written:
            content = file.read_bytes()
            assert not any(w.encode() in content or r.id.encode() in content for w, r in given)
            assert not any(text in content for text in (b"case0", b"reports/", b"2026"))
        if suffix == "csv":
            rows = out.read_text().replace('"', "").splitlines()
            assert rows[0].split(",") == ["sample", *design.domain.names]
            assert [r.split(",")[0] for r in rows[1:]] == [str(k + 1) for k in range(40)]
            orders.append(rows[1:])
        else:
            fam = [r.split() for r in out.with_suffix(".fam").read_text().splitlines()]
            assert [f[:5] for f in fam] == [["0", str(k + 1), "0", "0", "0"] for k in range(40)]
    # the same reports in two orders that 40! to 1 are different, under one id of one release
    assert orders[0] != orders[1] and sorted(r.split(",", 1)[1] for r in orders[0]) == sorted(
        r.split(",", 1)[1] for r in orders[1]
    )
    assert "replaces" not in capsys.readouterr().err


@pytest.mark.slow
def test_the_merged_file_is_scanned_as_the_reports_in_memory(people, tmp_path, capsys):
    _, _, persons = people
    asked = GenomicDesign(small_design())
    save_design(asked.design, tmp_path / "d.json")
    folder = tmp_path / "reports"
    folder.mkdir()
    for k, person in enumerate(persons):
        asked.report(person, PersonDiary(tmp_path / "diaries" / str(k))).write(folder / f"{k}.json", asked.design)
    expected = asked.merge([folder]).scan()
    out = tmp_path / "cohort.csv"
    assert run(["gwas-merge", str(folder), "--design", str(tmp_path / "d.json"), "-o", str(out)]) == 0
    assert run(["gwas", str(out), "--design", str(tmp_path / "d.json"), "--json"]) == 0
    top = {r["SNP"]: r for r in json.loads(capsys.readouterr().out.splitlines()[-1])["top"]}
    for k, name in enumerate(NAMES):
        assert top[name]["STAT"] == pytest.approx(expected.scores.statistic[k], rel=1e-12)
        assert (top[name]["A1"], top[name]["A2"]) == ALLELES[k]
    reports = asked.design.reports(out)
    assert reports.doubts == []


@pytest.mark.slow
def test_answers_are_merged_and_scanned(people, tmp_path, capsys):
    _, _, persons = people
    asked = AssociationDesign(asking_about(2.0))
    save_sampled_variants(asked.asking, tmp_path / "d.json")
    folder = tmp_path / "reports"
    folder.mkdir()
    for k, person in enumerate(persons[::5]):
        suffix = "csv" if k % 10 == 0 else "json"
        asked.report(person, PersonDiary(tmp_path / "diaries" / str(k))).write(folder / f"{k}.{suffix}", asked.asking)
    expected = asked.merge([folder]).scan()
    out = tmp_path / "answers.csv"
    assert run(["gwas-merge", str(folder), "--design", str(tmp_path / "d.json"), "-o", str(out)]) == 0
    assert run(["gwas", str(out), "--design", str(tmp_path / "d.json"), "--json"]) == 0
    lines = capsys.readouterr()
    top = {r["SNP"]: r for r in json.loads(lines.out.splitlines()[-1])["top"]}
    # a variant that few were asked about may have no test, and is not listed then
    for name, row in top.items():
        assert row["STAT"] == pytest.approx(expected.scores.statistic[NAMES.index(name)], rel=1e-9, nan_ok=True)
    assert "provenance" not in lines.err
    assert run(["gwas-merge", str(folder), "--design", str(tmp_path / "d.json"), "-o", str(tmp_path / "a.bed")]) == 2
    assert "write .csv or .parquet" in capsys.readouterr().err
    last = folder / "19.json"
    report = json.loads(last.read_text())
    for wrong, message in (
        ({"question": VARIANTS + 2}, "an answer is to none of the questions of this design"),
        ({"answer": 10**6}, "an answer is none that its question has"),
        ({"answer": None}, "is no report"),
        ({"answer": 10**12}, "is no report"),
    ):
        last.write_text(json.dumps(report | wrong))
        arguments = [str(folder), "--design", str(tmp_path / "d.json"), "-o", str(tmp_path / "b.csv")]
        assert run(["gwas-merge", *arguments]) == 2
        error = capsys.readouterr().err
        assert message in error and str(last) in error and "1000000" not in error


def test_the_alleles_layout_is_merged_as_a_table(tmp_path, capsys):
    design = genomic_design(Wanted(NAMES, "alleles", alleles=ALLELES), Budget(variants=30.0))
    asked, true = GenomicDesign(design), true_records()[::10]
    cohort = cohort_of(true, NAMES, ALLELES)
    given = []
    for k in range(len(true)):
        one = Cohort(cohort.genotypes, cohort.rows[k : k + 1], cohort.status[k : k + 1])
        given.append((str(k), asked.drawn(one, random_state=k)))
    rows = merged_reports(design, given, 1).rows
    copies = rows.reshape(len(true), VARIANTS, 2) // 2
    assert rows_of(np.column_stack([rows[:, 0] % 2, copies.sum(axis=2)])) == rows_of(true)
    merged_reports(design, given, 1).write(tmp_path / "m.csv")
    with pytest.raises(InvalidInput, match=r"no genotype beside a status; write them as \.csv"):
        merged_reports(design, given, 1).write(tmp_path / "m.bed")
    save_design(design, tmp_path / "d.json")
    assert run(["gwas", str(tmp_path / "m.csv"), "--design", str(tmp_path / "d.json"), "--test", "allelic"]) == 0


def refused(asking, folder: Path, message: str, capsys) -> None:
    out = folder / "out.csv"
    assert run(["gwas-merge", str(folder / "reports"), "--design", str(folder / "d.json"), "-o", str(out)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error and not out.exists(), error


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: {**r, "id": "0" * 31 + "1"}, "are the same report; give it once"),
        (lambda r: {**r, "design": "0" * 64}, "is a report by another design (000000000000)"),
        (
            lambda r: {**r, "values": ["secret", *r["values"][1:]]},
            "has a value of 'status' that is none of its categories",
        ),
        (lambda r: {**r, "values": [None, *r["values"][1:]]}, "has a value of 'status' that is none of its categories"),
        (lambda r: {**r, "values": r["values"][1:]}, "has 6 values for 7 attributes"),
        (lambda r: {**r, "values": "secret"}, "is no report"),
        (lambda r: {**r, "more": "secret"}, "is no report"),
        (lambda r: {**r, "format": "optrr-report/9"}, "is no report (its format is 'optrr-report/9')"),
        (lambda r: {**r, "id": "x"}, "has a digest or an id that is none"),
        (
            lambda r: {k: v for k, v in r.items() if k != "values"} | {"question": 1, "answer": 1},
            "its design asks for (values)",
        ),
        (lambda r: [], "is no report"),
    ],
)
def test_what_is_no_report_of_the_design_is_refused_without_its_values(change, message, tmp_path, capsys):
    design = small_design()
    save_design(design, tmp_path / "d.json")
    (tmp_path / "reports").mkdir()
    for where, report in numbered_reports(3):
        report.write(tmp_path / "reports" / where, design)
    last = tmp_path / "reports" / "case2.json"
    last.write_text(json.dumps(change(json.loads(last.read_text()))))
    refused(design, tmp_path, message, capsys)
    error = capsys.readouterr().err
    assert "secret" not in error


def test_tables_that_are_no_reports_are_refused(tmp_path, capsys):
    design = small_design()
    save_design(design, tmp_path / "d.json")
    (tmp_path / "reports").mkdir()
    refused(design, tmp_path, "there are no reports", capsys)
    _, report = numbered_reports(1)[0]
    target = tmp_path / "reports" / "one.csv"
    report.write(target, design)
    sidecar_path(target).unlink()
    refused(design, tmp_path, "has no provenance metadata", capsys)
    true = cohort_of(true_records()[:1], NAMES, ALLELES)
    GenomicDesign(design).drawn(true, random_state=1).write(target, design)
    refused(design, tmp_path, "was drawn from a seed", capsys)
    with pytest.raises(InvalidInput, match="drawn from a seed, so it is not private"):
        GenomicDesign(design).drawn(true, random_state=1).write(tmp_path / "x.json", design)
    assert run(["gwas-merge", "nowhere", "--design", str(tmp_path / "d.json"), "-o", str(tmp_path / "o.csv")]) == 2
    assert "nowhere does not exist" in capsys.readouterr().err


def test_lines_of_reports_and_missing_values_are_read(tmp_path):
    design = genomic_design(Wanted(NAMES, missing=True, alleles=ALLELES), Budget(variants=1.0))
    texts = [a.texts for a in design.domain]
    reports = [PersonReport(design.digest, f"{k:032x}", tuple(t[-1] for t in texts)) for k in range(5)]
    file = tmp_path / "reports.jsonl"
    file.write_text("\n".join(json.dumps(r.to_record()) for r in reports) + "\n\n")
    read = list(read_reports([file], design))
    assert [r for _, r in read] == reports and read[2][0] == f"{file}, line 3"
    np.testing.assert_array_equal(codes_of(read, design.domain), np.tile([1, *[3] * VARIANTS], (5, 1)))
    # a design without the category keeps a missing call missing
    plain = small_design()
    one = PersonReport(plain.digest, "0" * 32, ("case", None, *(a.texts[0] for a in list(plain.domain)[2:])))
    merged = merged_reports(plain, [("one", one)])
    assert merged.rows.tolist() == [[1, -1, *[0] * (VARIANTS - 1)]]
    assert next(merged.cohort().blocks())[1].tolist() == [[-1, *[0] * (VARIANTS - 1)]]
