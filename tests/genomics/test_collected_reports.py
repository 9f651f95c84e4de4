"""Reports of single people: the same distribution as the cohort's path, an order that says nothing, scans, and refusals."""

import json
from collections import Counter
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import person_files
import pytest
from genotypes import cohort_of, command, refused, whole
from person_files import line, write_vcf
from scipy.stats import chi2_contingency, chisquare, rankdata

from optrr.core.design.design_file import save_design
from optrr.core.errors import InvalidInput
from optrr.genomics import Budget, GenomicDesign, Wanted, genomic_design, read_person
from optrr.genomics.asking import AssociationDesign
from optrr.genomics.designing import sampled_variants
from optrr.genomics.layout import layout_of
from optrr.genomics.person_reports import CollectedReports
from optrr.genomics.sampled_variants import save_sampled_variants
from optrr_solvers.randomness import as_source

PEOPLE, VARIANTS = 500, 6
NAMES = [f"rs{k}" for k in range(VARIANTS)]
# the last one reads the same on both strands, so its files name it the same way round
ALLELES = [("A", "G"), ("C", "T"), ("G", "A"), ("T", "C"), ("AC", "A"), ("A", "T")]
FREQUENCIES = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
# 21 tables of two attributes are compared by chi-squared, so a test that is right fails in fewer than 21 of a million runs:
# counts of both paths are sums over people of draws by the same laws, whose variance is at most that of a multinomial.
FALSE_ALARM = 1e-6


def true_records() -> np.ndarray:
    rng = np.random.default_rng(5)
    status = (np.arange(PEOPLE) < PEOPLE // 2).astype(int)
    shift = np.where(status, 0.15, 0.0)[:, None]
    return np.column_stack([status, rng.binomial(2, FREQUENCIES + shift, (PEOPLE, VARIANTS))])


def cohort(records: np.ndarray):
    return cohort_of(records[:, 1:], records[:, 0], alleles=ALLELES)


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """The true records, and the people as read from files of their own, half of which name the alleles the other way round."""
    folder, records, read = tmp_path_factory.mktemp("people"), true_records(), []
    with pytest.MonkeyPatch.context() as patch:
        person_files.read_in_this_process(patch)
        for k, record in enumerate(records):
            lines = [
                line(n, *ALLELES[v], record[1 + v], turned=k % 2 == 1 and v < VARIANTS - 1, place=f"1\t{10 + v}")
                for v, n in enumerate(NAMES)
            ]
            # in another order, beside one that the design does not have
            order = np.random.default_rng(k).permutation(VARIANTS)
            file = write_vcf(
                folder / f"{k}.vcf", [*(lines[v] for v in order), line("other", "A", "C", 1, place="1\t99")]
            )
            read.append(read_person(file, layout_of(small_design().domain), bool(record[0])))
    assert [bool(said) for _, said in read] == [k % 2 == 1 for k in range(PEOPLE)]
    return records, [person for person, _ in read]


@cache
def small_design(epsilon: float | None = None):
    return genomic_design(Wanted(NAMES, alleles=ALLELES), Budget(None if epsilon else 5.0, epsilon or 1.0, epsilon))


def asking_about(total: float):
    return sampled_variants(Wanted(NAMES, alleles=ALLELES), total, frequencies=FREQUENCIES)


def drawn(asked: GenomicDesign | AssociationDesign, persons, seed: int) -> list[dict]:
    source = as_source(np.random.default_rng(seed))
    return [asked.drawn_report(asked.records(person), source) for person in persons]


def written(reports: list[dict], file: Path) -> Path:
    file.write_text("".join(json.dumps(report) + "\n" for report in reports))
    return file


def rows_of(table: np.ndarray) -> Counter:
    return Counter(map(tuple, np.asarray(table).tolist()))


@pytest.mark.slow
def test_without_noise_the_collected_records_and_answers_are_the_true_ones(people, tmp_path):
    """At ε = 30 for every attribute one of the 3,500 values changes in 7e-10 of runs."""
    records, persons = people
    sure = GenomicDesign(small_design(30.0))
    collected = sure.collected(written(drawn(sure, persons, 1), tmp_path / "r.jsonl"), 2)
    found = sure.of_collected(collected).cohort
    assert rows_of(np.column_stack([found.status, whole(found)])) == rows_of(records) == rows_of(collected.rows)
    asked, asking = AssociationDesign(asking_about(30.0)), asking_about(30.0)
    assert not asking.reports, "a cell is named at such a total"
    answers = drawn(asked, persons, 1)
    for report, record in zip(answers, records, strict=True):
        first = report["question"] - 1
        codes = [record[0], *(record[1 + (first + j) % VARIANTS] for j in range(asking.each))]
        assert report["answer"] == int("".join(map(str, codes[1:])), 3) + codes[0] * 3**asking.each
    rows = asked.collected(written(answers, tmp_path / "q.jsonl"), 2).rows
    assert rows_of(rows) == Counter((r["question"], r["answer"]) for r in answers)


def pair_p_values(one: np.ndarray, other: np.ndarray) -> list[float]:
    """p-values of homogeneity of every table of two attributes, between the two sets of records."""
    out = []
    for i, j in combinations(range(one.shape[1]), 2):
        tables = [np.bincount(3 * x[:, i].astype(int) + x[:, j], minlength=9) for x in (one, other)]
        kept = [t[np.sum(tables, axis=0) > 0] for t in tables]
        out.append(float(chi2_contingency(kept, correction=False).pvalue))
    return out


@pytest.mark.slow
def test_collected_records_have_the_distribution_of_the_cohorts_path(people, tmp_path):
    """20 releases of 500 people each way. Reports whose alleles were not turned are told apart at once."""
    records, persons = people
    asked = GenomicDesign(small_design())
    files = [written(drawn(asked, persons, s), tmp_path / f"{s}.jsonl") for s in range(20)]
    single = np.concatenate([asked.collected(file, s).rows for s, file in enumerate(files)])

    def by_cohort(true: np.ndarray) -> np.ndarray:
        made = [asked.randomize(cohort(true), 1000 + s).cohort for s in range(20)]
        return np.concatenate([np.column_stack([each.status, whole(each)]) for each in made])

    p_values = pair_p_values(single, by_cohort(records))
    assert len(p_values) == 21 and min(p_values) > FALSE_ALARM
    not_turned = records.copy()
    not_turned[1::2, 1:-1] = 2 - not_turned[1::2, 1:-1]
    assert min(pair_p_values(single, by_cohort(not_turned))) < FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("total", [1.0, 6.0])
def test_collected_answers_have_the_distribution_of_the_cohorts_path(people, total, tmp_path):
    """One test of the table of questions and answers; two in a million runs of the two fail by chance."""
    records, persons = people
    asked = AssociationDesign(asking_about(total))
    files = [written(drawn(asked, persons, s), tmp_path / f"{s}.jsonl") for s in range(10)]
    single = np.concatenate([asked.collected(file, s).rows for s, file in enumerate(files)])
    tables = [asked.randomize(cohort(records), 2000 + s).answers for s in range(10)]
    others = np.concatenate([np.column_stack([t["question"].to_numpy(), t["answer"].to_numpy()]) for t in tables])
    seen = rows_of(single), rows_of(others)
    counts = np.array([[each[cell] for cell in sorted(set(seen[0]) | set(seen[1]))] for each in seen])
    frequent = counts.sum(axis=0) >= 20
    counts = np.column_stack([counts[:, frequent], counts[:, ~frequent].sum(axis=1)])
    counts = counts[:, counts.sum(axis=0) > 0]
    assert counts.shape[1] > 8 and chi2_contingency(counts, correction=False).pvalue > FALSE_ALARM


def numbered_reports(count: int) -> list[dict]:
    """Reports that can be told apart by their values, the number in ternary digits; cases first."""
    design, out = small_design(), []
    for k in range(count):
        digits = [int(k < count // 2), *(k // 3**v % 3 for v in range(VARIANTS))]
        values = [a.texts[d] for a, d in zip(design.domain, digits, strict=True)]
        digest = design.digest.partition(":")[2]
        out.append({"format": "optrr-report/1", "design": digest, "id": f"{k:032x}", "values": values})
    return out


def numbers_of(collected: CollectedReports) -> list[int]:
    return [int(sum(int(digit) * 3**v for v, digit in enumerate(row[1:]))) for row in collected.rows]


@pytest.mark.slow
def test_the_order_of_collected_rows_says_nothing_of_the_files(tmp_path):
    """300 readings of 100 reports: rank correlation of place in and place out, and where the first report goes.

    The mean of 300 correlations has standard error 1/sqrt(300 · 99); 5 of them are passed in 6e-7 of all runs, and so is the
    test of uniform places.
    """
    file, asked = written(numbered_reports(100), tmp_path / "r.jsonl"), GenomicDesign(small_design())
    orders = np.array([numbers_of(asked.collected(file, seed)) for seed in range(300)])
    assert all(sorted(order) == list(range(100)) for order in orders.tolist())
    place = np.arange(100) - 49.5
    correlations = (orders - 49.5) @ place / np.sum(place**2)
    assert abs(correlations.mean()) * np.sqrt(300 * 99) < 5
    assert np.var(correlations) * 99 == pytest.approx(1, abs=5 * np.sqrt(2 / 300))
    first = np.argmin(orders, axis=1)
    assert chisquare(np.bincount(first // 10, minlength=10)).pvalue > FALSE_ALARM
    # one reading says nothing of the next one either, by ranks of places
    ranks = np.array([rankdata(np.argsort(order)) for order in orders])
    pairs = np.sum((ranks[:-1] - 50.5) * (ranks[1:] - 50.5), axis=1) / np.sum(place**2)
    assert abs(pairs.mean()) * np.sqrt(299 * 99) < 5


@pytest.mark.slow
def test_nothing_of_collected_people_leads_back_to_a_report(tmp_path):
    """People are numbered; neither a file's name nor an id stands in what comes out. Unseeded readings are of random order."""
    given, asked = numbered_reports(40), GenomicDesign(small_design())
    for k, report in enumerate(given):
        (tmp_path / f"case{k}.json").write_text(json.dumps(report))
    one, two = (asked.collected(tmp_path) for _ in range(2))
    # 40! to 1 that two orders are different, of one release
    assert numbers_of(one) != numbers_of(two) and sorted(numbers_of(one)) == sorted(numbers_of(two)) == list(range(40))
    assert one.provenance == two.provenance
    assert asked.of_collected(one).cohort.people.tolist() == [str(k + 1) for k in range(40)]
    said = json.dumps(one.provenance.metadata())
    assert not any(report["id"] in said for report in given) and "case0" not in said


@pytest.mark.slow
def test_commands_scan_a_folder_or_a_file_of_reports(people, tmp_path, capsys, monkeypatch):
    """Records and answers; a folder of files, and one file; with other files beside them, which are counted."""
    monkeypatch.chdir(tmp_path)
    records, answers = GenomicDesign(small_design()), AssociationDesign(asking_about(2.0))
    save_design(records.design, "d.json")
    save_sampled_variants(answers.design, "q.json")
    for asked, name in ((records, "d.json"), (answers, "q.json")):
        reports = drawn(asked, people[1], 7)
        file = written(reports, Path(f"{name}l"))
        folder = Path(f"reports of {name}")
        folder.mkdir()
        for k, report in enumerate(reports):
            (folder / f"{k}.json").write_text(json.dumps(report))
        (folder / "readme.txt").write_text("x")
        expected = asked.reports(file).scan()
        for place in (file, folder):
            code, out, err = command(capsys, "gwas", "scan", place, "--design", name, "--json")
            assert code == 0 and ("left out because of their file name extensions: 1 file" in err) == (
                place == folder
            ), err
            assert json.loads(out)["n"] == int(expected.n.max()) and "provenance" not in err
            for row in json.loads(out)["top"]:
                k = NAMES.index(row["SNP"])
                assert row["STAT"] == pytest.approx(expected.scores.statistic[k], rel=1e-9)
                assert (row["A1"], row["A2"]) == ALLELES[k]
    code, out, _ = command(capsys, "gwas variants d.jsonl --design d.json --html v.html --json")
    frequency = [row["FREQ"] for row in json.loads(out)["results"]]
    np.testing.assert_allclose(frequency, records.reports(Path("d.jsonl")).variants().frequency.estimate)
    Path("c.csv").write_text("sample,age\n1,3\n2,4\n")
    for more, said in (
        ("--covariates c.csv", "no names to match"),
        ("--phenotype c.csv", "these reports contain the status"),
    ):
        refused(capsys, f"gwas scan d.jsonl --design d.json {more}", said)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: {**r, "id": "0" * 31 + "1"}, "are the same report; give it once"),
        (lambda r: {**r, "design": "0" * 64}, "is a report by another design (000000000000)"),
        (lambda r: {**r, "values": ["secret", *r["values"][1:]]}, "has a value of 'status' that is not one of its"),
        (lambda r: {**r, "values": [None, *r["values"][1:]]}, "has a value of 'status' that is not one of its"),
        (lambda r: {**r, "values": r["values"][1:]}, "has 6 values for 7 attributes"),
        (lambda r: {**r, "values": "secret"}, "is not a report"),
        (lambda r: {**r, "more": "secret"}, "is not a report"),
        (lambda r: {**r, "format": "optrr-report/9"}, "is not a report"),
        (lambda r: {**r, "id": "x"}, "is not a report"),
        (
            lambda r: {k: v for k, v in r.items() if k != "values"} | {"question": 1, "answer": 1},
            "fields of its design (values)",
        ),
        (lambda r: [], "is not a report"),
    ],
)
def test_what_is_no_report_of_the_design_is_refused_without_its_values(change, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_design(small_design(), "d.json")
    first, second, last = numbered_reports(3)
    written([first, second, change(last)], Path("r.jsonl"))
    code, out, err = command(capsys, "gwas scan r.jsonl --design d.json -o r.tsv")
    assert code == 2 and not out and not Path("r.tsv").exists()
    assert err.count("\n") == 1 and message in err and "r.jsonl, line 3" in err and "secret" not in err


@pytest.mark.slow
def test_answers_that_the_design_cannot_have_are_refused_by_their_place(tmp_path):
    asking = asking_about(2.0)
    report = {"format": "optrr-report/1", "design": asking.digest.partition(":")[2], "question": 1, "answer": 0}
    for wrong, message in (
        ({"question": VARIANTS + 2}, "an answer does not belong to a query of this design"),
        ({"answer": 10**6}, "an answer is not one of its query's answers"),
        ({"answer": None}, "is not a report"),
        ({"answer": 10**12}, "is not a report"),
    ):
        file = written([report | {"id": "0" * 32}, report | {"id": "1" * 32} | wrong], tmp_path / "r.jsonl")
        with pytest.raises(InvalidInput, match=message) as error:
            AssociationDesign(asking).collected(file)
        assert "line 2" in str(error.value) and "1000000" not in str(error.value)


def test_places_without_reports_are_refused(tmp_path):
    asked = GenomicDesign(small_design())
    with pytest.raises(InvalidInput, match="no reports"):
        asked.collected(tmp_path)
    with pytest.raises(InvalidInput, match=r"nowhere\.jsonl does not exist"):
        asked.collected(tmp_path / "nowhere.jsonl")


def test_missing_values_are_the_designs_category_or_stay_missing(tmp_path):
    with_category = genomic_design(Wanted(NAMES, missing=True, alleles=ALLELES), Budget(variants=1.0))
    for design, code in ((with_category, 3), (small_design(), -1)):
        texts = [a.texts for a in design.domain]
        report = {"format": "optrr-report/1", "design": design.digest.partition(":")[2], "id": "0" * 32}
        values = ["case", None, *(t[0] for t in texts[2:])]
        asked = GenomicDesign(design)
        collected = asked.collected(written([report | {"values": values}], tmp_path / "r.jsonl"))
        assert collected.rows.tolist() == [[1, code, *[0] * (VARIANTS - 1)]]
        assert whole(asked.of_collected(collected).cohort).tolist() == [[-1, *[0] * (VARIANTS - 1)]]
