"""One person's file: brought to the design, answered once, remembered; what a file does not say is refused or said."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from person_files import HEADER, cohort_of, line, read_in_this_process, write_vcf

from optrr.cli.main import run
from optrr.designs.design_file import save_design
from optrr.errors import InvalidInput
from optrr.genomics import Budget, GenomicDesign, PersonDiary, Wanted, genomic_design, genomic_domain, read_person
from optrr.genomics.asking import AssociationDesign
from optrr.genomics.designing import sampled_variants
from optrr.genomics.genotypes import MISSING
from optrr.genomics.layout import layout_of
from optrr.genomics.person_reports import PersonReport
from optrr.genomics.sampled_variants import save_sampled_variants
from optrr.releases.accounting import Release

ROOT = Path(__file__).parents[2]
NAMES, ALLELES = ["rs0", "rs1", "rs2", "rs3"], [("A", "G"), ("C", "T"), ("G", "A"), ("A", "T")]


def layout(names=NAMES, alleles=ALLELES, missing=False):
    return layout_of(genomic_domain(names, missing=missing, alleles=alleles))


def codes_of(person) -> dict[str, int]:
    codes = np.concatenate([codes for _, codes in person.blocks()], axis=1)[0]
    return dict(zip(person.variants.name, codes.tolist(), strict=True))


@pytest.fixture
def here(tmp_path, monkeypatch):
    read_in_this_process(monkeypatch)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines_of(copies, names=NAMES, alleles=ALLELES, turned=()):
    return [
        line(n, *pair, c, turned=k in turned, place=f"1\t{10 + k}")
        for k, (n, pair, c) in enumerate(zip(names, alleles, copies, strict=True))
    ]


def test_alleles_and_order_are_the_designs(here):
    """Every set of turned variants, in random order, on random genotypes; A/T the other way round may be the other strand."""
    rng = np.random.default_rng(1)
    for turned in ([], [0], [1, 2], [0, 1, 2]):
        copies = rng.integers(0, 3, 4).tolist()
        lines = [*lines_of(copies, turned=turned), line("other", "A", "C", 1)]
        file = write_vcf(here / "p.vcf", [lines[k] for k in rng.permutation(5)])
        person, said = read_person(file, layout(), case=True)
        assert codes_of(person) == dict(zip(NAMES, copies, strict=True)) and person.status.tolist() == [1]
        assert len(said) == bool(turned) and person.people.tolist() == ["1"]
    # the other strand is told where the letters tell it
    strand = write_vcf(
        here / "p.vcf", [line("rs0", "T", "C", 2), line("rs1", "A", "G", 2), *lines_of([0, 1, 2, 0])[2:]]
    )
    person, said = read_person(strand, layout(), case=False)
    assert codes_of(person) == dict(zip(NAMES, [2, 0, 2, 0], strict=True)) and len(said) == 2
    with pytest.raises(InvalidInput, match="'rs3' has A1/A2 T/A, and A/T in the design: which may be the other strand"):
        read_person(write_vcf(here / "p.vcf", lines_of([0, 0, 0, 1], turned=[3])), layout(), case=True)


def test_variants_without_a_name_are_found_by_place_and_alleles(here):
    names = ["1:10:G:A", "chr1:11:T:C", "1:12:A:G", "rs3"]
    lines = [
        line(".", *ALLELES[0], 1),
        line(".", *ALLELES[1], 2, turned=True, place="1\t11"),
        line("rs9", *ALLELES[2], 2, place="1\t12"),
    ]
    person, _ = read_person(
        write_vcf(here / "p.vcf", [*lines, line("rs3", "A", "T", 0, place="1\t13")]), layout(names), True
    )
    assert codes_of(person) == dict(zip(names, [1, 2, 2, 0], strict=True))
    both = [line(".", *ALLELES[0], 1), line(".", *ALLELES[0], 1, turned=True)]
    with pytest.raises(InvalidInput, match="two records of the design's variant '1:10:G:A'"):
        read_person(write_vcf(here / "p.vcf", both), layout(names), True)
    # a design that names no alleles takes a name's own order only
    bare = layout(["1:10:G:A", "rs3"], ())
    with pytest.raises(InvalidInput, match="no record of 1 variant of the design"):
        read_person(
            write_vcf(here / "p.vcf", [line(".", "A", "G", 1, turned=True), line("rs3", "A", "T", 0)]), bare, True
        )


def test_absent_variants_are_what_the_person_says(here):
    """Refused by default; two copies of the reference, which is A2 or stands in a table; or missing calls."""
    file = write_vcf(here / "p.vcf", lines_of([1, 2, 0, 1])[:2])
    with pytest.raises(
        InvalidInput, match=r"no record of 2 variants of the design \('rs2', 'rs3'\): .*--absent reference, --abs"
    ):
        read_person(file, layout(), True)
    person, said = read_person(file, layout(), True, "missing")
    assert codes_of(person) == {"rs0": 1, "rs1": 2, "rs2": MISSING, "rs3": MISSING} and "missing calls" in said[0]
    person, said = read_person(file, layout(), True, "reference")
    assert codes_of(person) == {"rs0": 1, "rs1": 2, "rs2": 0, "rs3": 0}
    assert said == [f"{file} has no record of 2 variants of the design: taken as two copies of the reference allele"]
    person, _ = read_person(file, layout(), True, "reference", {"rs2": "g", "rs3": "T"})
    assert codes_of(person) == {"rs0": 1, "rs1": 2, "rs2": 2, "rs3": 0}
    for table, message in (
        ({"rs2": "C", "rs3": "T"}, "has 'C' for variant 'rs2'"),
        ({"rs3": "T"}, "has no allele for variant 'rs2'"),
    ):
        with pytest.raises(InvalidInput, match=message):
            read_person(file, layout(), True, "reference", table)


def test_the_reference_is_not_guessed(here):
    """Where A1 is the reference of a variant that is listed, A2 need not be that of one that is not."""
    file = write_vcf(here / "p.vcf", lines_of([1, 2, 0, 1], turned=[1])[:2])
    with pytest.raises(InvalidInput, match=r"reference allele of variant 'rs1' is the design's A1, .*--reference FILE"):
        read_person(file, layout(), True, "reference")
    person, _ = read_person(file, layout(), True, "reference", {"rs2": "A", "rs3": "A"})
    assert codes_of(person) == {"rs0": 1, "rs1": 2, "rs2": 0, "rs3": 2}
    with pytest.raises(InvalidInput, match="the design does not name the alleles of variant 'rs2'"):
        read_person(file, layout(alleles=()), True, "reference")
    # a record that the reader leaves out may be the variant that seems absent
    several = "1\t12\trs2\tA\tG,C\t.\t.\t.\tGT\t1/2\n"
    with pytest.raises(InvalidInput, match=r"records that are not read \(1 not biallelic\).*bcftools norm"):
        read_person(write_vcf(here / "p.vcf", [*lines_of([1, 2, 0, 1])[:2], several]), layout(), True, "reference")
    split = [line("rs2", "G", "A", 1, place="1\t12"), line("rs2", "C", "A", 1, place="1\t12")]
    with pytest.raises(InvalidInput, match="several records at one place"):
        read_person(write_vcf(here / "p.vcf", [*lines_of([1, 2, 0, 1])[:2], *split]), layout(), True, "reference")
    table = here / "p.csv"
    table.write_text("rs0,rs1\n1,2\n")
    with pytest.raises(InvalidInput, match="is no VCF"):
        read_person(table, layout(), True, "reference")
    assert codes_of(read_person(table, layout(), True, "missing")[0])["rs2"] == MISSING


def test_files_that_are_no_one_persons_are_refused(here):
    two = here / "two.vcf"
    two.write_text(HEADER.format("ann\tbob") + "1\t10\trs0\tG\tA\t.\t.\t.\tGT\t0/1\t0/0\n")
    with pytest.raises(InvalidInput, match=r"holds 2 people, .*bcftools view -s NAME"):
        read_person(two, layout(), True)
    with pytest.raises(InvalidInput, match="a record of none of the design's 4 variants"):
        read_person(write_vcf(here / "p.vcf", [line("other", "A", "C", 1)]), layout(), True, "reference")
    sex = [line("rs0", "A", "G", 1, place="X\t10"), *lines_of([0, 1, 2, 0])[1:]]
    with pytest.raises(InvalidInput, match="a report does not say who is a man"):
        read_person(write_vcf(here / "p.vcf", sex), layout(), True)
    cohort = cohort_of(np.zeros((2, 5), int), NAMES, ALLELES)
    with pytest.raises(InvalidInput, match="a report is of one person, and these are 2"):
        GenomicDesign(records_design()).report(cohort, PersonDiary(here / "d"))


def records_design(missing: bool = False):
    return genomic_design(Wanted(NAMES, missing=missing, alleles=ALLELES), Budget(variants=1.0, status=1.0))


def question_design(total: float = 1.0):
    return sampled_variants(NAMES, total, alleles=ALLELES)


def command(*arguments: object) -> int:
    return run(["gwas-perturb", *map(str, arguments)])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["records", "questions"])
def test_a_person_is_drawn_once(kind, here, capsys):
    """Whatever is entered the second time, wherever it is to be written: the same report, also as a table, and one ε spent."""
    if kind == "records":
        save_design(records_design(), here / "d.json")
    else:
        save_sampled_variants(question_design(), here / "d.json")
    file = write_vcf(here / "p.vcf", lines_of([1, 2, 0, 1], turned=[0]))
    assert command(file, "--design", "d.json", "--status", "case", "-o", "r.json", "--json") == 0
    said = capsys.readouterr()
    first = json.loads(said.out)
    assert "1 variant named A1 and A2 the other way round than the design: turned" in said.err
    assert first["new"] and first["spent"] == pytest.approx(first["epsilon"]) and first["variants"] == 4
    Path("s.txt").write_text("control\n")
    file.unlink()  # nothing is read again
    file.write_text("nothing")
    for output in ("again.json", "again.csv", "again.parquet", "r.json"):
        assert command(file, "--design", "d.json", "--status-file", "s.txt", "-o", output, "--json") == 0
        said = capsys.readouterr()
        again = json.loads(said.out)
        assert not again["new"] and again["spent"] == pytest.approx(first["epsilon"], abs=1e-14)
        assert said.err.startswith("note: drawn before: the same report again") and said.err.count("\n") == 1
    assert Path("again.json").read_bytes() == Path("r.json").read_bytes()
    kept = json.loads(next(Path("p.vcf.diary").glob("*.json")).read_text())
    assert kept["report"] == json.loads(Path("r.json").read_text())
    merged = [
        run(["gwas-merge", name, "--design", "d.json", "-o", f"m{k}.csv"])
        for k, name in enumerate(("r.json", "again.csv", "again.parquet"))
    ]
    assert merged == [0, 0, 0] and len({Path(f"m{k}.csv").read_text() for k in range(3)}) == 1
    assert run(["account", "again.csv", "again.parquet", "m0.csv"]) == 0
    # a report in the folder twice, in whatever form, is one report
    capsys.readouterr()
    assert run(["gwas-merge", "r.json", "again.csv", "--design", "d.json", "-o", "m.csv"]) == 2
    assert "r.json and again.csv are the same report" in capsys.readouterr().err


@pytest.mark.slow
def test_the_python_client_shares_the_diary(here, capsys):
    """Its ledger counts what gwas-perturb drew; a report that it drew by the exported design is sent again by gwas-perturb."""
    client = [sys.executable, str(ROOT / "clients" / "python" / "optrr_client.py")]
    design = records_design()
    save_design(design, here / "d.json")
    assert run(["export", "d.json", "-o", "sampler.json"]) == 0
    save_sampled_variants(question_design(), here / "q.json")
    file = write_vcf(here / "p.vcf", lines_of([1, 2, 0, 1]))
    answers = {"status": "case", "rs0": "A/G", "rs1": "C/C", "rs2": "A/A", "rs3": "A/T"}
    Path("answers.json").write_text(json.dumps(answers))
    done = subprocess.run(
        [*client, "sampler.json", "p.vcf.diary", "answers.json"], capture_output=True, text=True, check=True
    )
    assert command(file, "--design", "d.json", "--status", "case", "-o", "r.json") == 0
    assert json.loads(Path("r.json").read_text()) == json.loads(done.stdout)
    assert command(file, "--design", "q.json", "--status", "case", "-o", "q1.json") == 0
    ledger = subprocess.run([*client, "p.vcf.diary"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(ledger) == 3 and float(ledger[-1].split()[-1]) == pytest.approx(
        design.epsilon + question_design().epsilon
    )


@pytest.mark.slow
def test_a_limit_and_earlier_releases_are_kept_to(here, capsys):
    design = records_design()
    save_design(design, here / "d.json")
    save_sampled_variants(question_design(), here / "q.json")
    file = write_vcf(here / "p.vcf", lines_of([1, 2, 0, 1]))
    limit = design.epsilon + 0.5
    assert command(file, "--design", "d.json", "--status", "case", "-o", "r.csv", "--limit", limit) == 0
    assert command(file, "--design", "q.json", "--status", "case", "-o", "q1.json", "--limit", limit) == 2
    assert f"above the limit of {limit:g}" in capsys.readouterr().err and not Path("q1.json").exists()
    # what was sent is sent again, whatever the limit
    assert command(file, "--design", "d.json", "--status", "case", "-o", "again.csv", "--limit", "0.1") == 0
    args = ("--design", "q.json", "--status", "case", "-o", "q1.json", "--diary", "new", "--limit", limit)
    assert command(file, *args, "--after", "r.csv") == 2
    assert command(file, *args) == 0
    diary = PersonDiary(here / "p.vcf.diary")
    assert [r.design for r in diary.releases()] == [design.digest]
    with pytest.raises(InvalidInput, match="above the limit"):
        diary.once(question_design(), lambda: pytest.fail("drawn"), 2.0, [Release(design.digest, "", 9.0)])


@pytest.mark.slow
def test_who_lacks_the_call_that_is_asked_for_gives_no_answer_and_is_not_asked_again(here, capsys):
    """As in a cohort; the question is kept, so that nobody draws until it is one that can be answered."""
    save_sampled_variants(question_design(), here / "q.json")
    file = write_vcf(here / "p.vcf", [line("rs0", "A", "G", -1), *lines_of([0, 1, 2, 0])[1:]])
    args = ("--design", "q.json", "--status", "case", "-o", "r.json")
    assert command(file, *args) == 2
    assert "missing calls" in capsys.readouterr().err and not list(Path("p.vcf.diary").glob("*.json"))
    silent = answered = 0
    for k in range(40):
        args = (
            "--design",
            "q.json",
            "--status",
            "case",
            "-o",
            f"r{k}.json",
            "--missing",
            "exclude",
            "--diary",
            f"d{k}",
        )
        codes = [command(file, *args) for _ in range(2)]
        error = capsys.readouterr().err
        assert codes in ([0, 0], [2, 2])
        silent, answered = silent + (codes[0] == 2), answered + (codes[0] == 0)
        assert Path(f"r{k}.json").exists() is (codes[0] == 0)
        assert error.count("gives no answer") == (2 if codes[0] == 2 else 0)
        assert len(PersonDiary(Path(f"d{k}")).releases()) == 1
    # every variant is in half of the questions or less; none of 40 on either side has a chance below 2e-5
    assert silent and answered


def test_missing_calls_are_the_designs_category_or_stay_missing(here, capsys):
    file = write_vcf(here / "p.vcf", lines_of([-1, 2, 0, 1])[:3])
    args = ("--status", "case", "-o", "r.json", "--absent", "missing")
    save_design(records_design(), here / "d.json")
    assert command(file, "--design", "d.json", *args) == 2
    assert "has missing calls and the design has no category for them" in capsys.readouterr().err
    assert command(file, "--design", "d.json", *args, "--missing", "exclude") == 0
    assert "2 calls missing in the report: no epsilon covers which" in capsys.readouterr().err
    values = json.loads(Path("r.json").read_text())["values"]
    assert [v is None for v in values] == [False, True, False, False, True]
    sure = genomic_design(Wanted(NAMES, missing=True, alleles=ALLELES), Budget(variants=30.0, status=30.0))
    save_design(sure, here / "m.json")
    assert command(file, "--design", "m.json", *args) == 0
    assert json.loads(Path("r.json").read_text())["values"] == ["case", None, "C/C", "A/A", None]


def test_the_status_is_never_shown(here, capsys):
    save_design(records_design(), here / "d.json")
    file = write_vcf(here / "p.vcf", lines_of([1, 2, 0, 1]))
    Path("s.txt").write_text("Huntington\n")
    for given in (
        ("--status", "Huntington"),
        ("--status-file", "s.txt"),
        ("--status", "case", "--status-file", "s.txt"),
    ):
        assert command(file, "--design", "d.json", *given, "-o", "r.json") == 2
        error = capsys.readouterr().err
        assert "Huntington" not in error and ("neither case nor control" in error or "give one of them" in error)
    assert not Path("p.vcf.diary").exists()
    Path("s.txt").write_text("CASE")
    assert command(file, "--design", "d.json", "--status-file", "s.txt", "-o", "r.json") == 0
    said = capsys.readouterr()
    assert "case" not in (said.out + said.err).lower()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "r.json"), "r.json is where one person's report goes; say that person's --status"),
        (("-o", "r.csv", "--absent", "missing"), "--absent is for one person's file"),
        (("-o", "r.csv", "--diary", "d"), "--diary is for one person's file"),
        (("-o", "r.bed", "--status", "case"), "one person's report is written as .json, .csv, .parquet"),
        (("-o", "r.json", "--status", "case", "--random-state", "1"), "--random-state is for a file of many people"),
        (("-o", "r.json", "--status", "case", "--keep-names"), "--keep-names is for a file of many people"),
        (("-o", "r.json", "--status", "case", "--case", "ill"), "--case is for a file of many people"),
        (("-o", "r.json", "--status", "case", "--reference", "t.csv"), "--reference is for --absent reference"),
    ],
)
def test_options_of_one_person_and_of_many_are_told_apart(arguments, message, here, capsys):
    save_design(records_design(), here / "d.json")
    Path("t.csv").write_text("variant,reference\nrs2,A\nrs3,A\n")
    file = write_vcf(here / "p.vcf", lines_of([1, 2, 0, 1]))
    assert command(file, "--design", "d.json", *arguments) == 2
    assert message in capsys.readouterr().err and not list(here.glob("r.*"))


def test_the_reference_stands_in_a_table(here, capsys):
    sure = genomic_design(Wanted(NAMES, alleles=ALLELES), Budget(variants=30.0, status=30.0))
    save_design(sure, here / "d.json")
    Path("t.csv").write_text("variant,reference\nrs2,G\nrs3,T\n")
    file = write_vcf(here / "p.vcf", lines_of([1, 2, 0, 1])[:2])
    args = ("--design", "d.json", "--status", "control", "--absent", "reference", "--reference", "t.csv")
    assert command(file, *args, "-o", "r.json") == 0
    assert json.loads(Path("r.json").read_text())["values"] == ["control", "A/G", "C/C", "G/G", "T/T"]
    Path("t.csv").write_text("variant,reference\nrs2,G\nrs2,T\n")
    assert command(file, *args, "-o", "x.json") == 2
    assert "lists variant 'rs2' twice" in capsys.readouterr().err


def test_with_strict_a_warning_leaves_nothing_behind(here, capsys):
    """Neither a report nor an entry: what was drawn has been seen by nobody, and may be drawn again."""
    save_design(records_design(), here / "d.json")
    file = write_vcf(here / "p.vcf", lines_of([1, 2, 0, 1], turned=[0]))
    args = (file, "--design", "d.json", "--status", "case", "-o", "r.json", "--json")
    assert command(*args, "--strict") == 1
    assert not Path("r.json").exists() and not list(Path("p.vcf.diary").glob("*.json"))
    assert command(*args) == 0 and Path("r.json").exists()
    # nothing is said of a report that is sent again, which may therefore be strict
    capsys.readouterr()
    assert command(*args, "--strict") == 0 and not json.loads(capsys.readouterr().out)["new"]


@pytest.mark.slow
def test_an_entry_that_cannot_be_read_is_no_reason_to_draw(here):
    design = records_design()
    diary = PersonDiary(here / "d")
    person = cohort_of(np.array([[1, 0, 1, 2, 0]]), NAMES, ALLELES)
    first = GenomicDesign(design).report(person, diary)
    assert GenomicDesign(design).report(person, diary) == first
    entry = next((here / "d").glob("*.json"))
    whole = json.loads(entry.read_text())
    for wrong in (
        "",
        "{}",
        "[1]",
        json.dumps(whole | {"format": "x"}),
        json.dumps(whole | {"report": {"design": "x", "id": "y"}}),
    ):
        entry.write_text(wrong)
        with pytest.raises(InvalidInput, match="is no entry of this diary; what was sent for its design is not known"):
            GenomicDesign(design).report(person, diary)
    assert AssociationDesign(question_design()).report(person, PersonDiary(here / "e")).answer is not None


@pytest.mark.parametrize("wrong", ["", "{}", "other"])
def test_a_damaged_entry_of_another_design_is_seen_before_anything_is_drawn(wrong, here, capsys):
    save_design(records_design(), here / "d.json")
    file = write_vcf(here / "p.vcf", lines_of([1, 2, 0, 1]))
    folder = here / "diary"
    folder.mkdir()
    (folder / f"{'a' * 64}.json").write_text(wrong)
    before = sorted(here.rglob("*"))
    assert command(file, "--design", "d.json", "--status", "case", "-o", "r.json", "--diary", folder) == 2
    assert "send nothing" in capsys.readouterr().err
    assert sorted(here.rglob("*")) == sorted([*before, folder / "lock"])


@pytest.mark.slow
def test_a_diary_is_one_persons(here, capsys):
    """Another person's file in the same folder is refused, also for another design; moved together, both are known again."""
    save_design(records_design(), here / "d.json")
    save_sampled_variants(question_design(), here / "q.json")
    (here / "at").mkdir()
    for name, copies in (("ann", [1, 2, 0, 1]), ("bob", [0, 0, 1, 2])):
        write_vcf(here / "at" / f"{name}.vcf", lines_of(copies))
    given = ("--status", "case", "--diary", "at/diary")
    assert command("at/ann.vcf", "--design", "d.json", "-o", "ann.json", *given) == 0
    (entry,) = (here / "at" / "diary").glob("*.json")
    assert "ann" not in entry.read_text() and len(json.loads(entry.read_text())["person"]) == 160
    for design in ("d.json", "q.json"):
        capsys.readouterr()
        assert command("at/bob.vcf", "--design", design, "-o", "bob.json", *given) == 2
        said = capsys.readouterr().err
        assert "at/diary holds another person's report" in said and said.count("\n") == 1
        assert not Path("bob.json").exists() and len(list((here / "at" / "diary").glob("*.json"))) == 1
    (here / "at").rename(here / "elsewhere")
    assert command("elsewhere/ann.vcf", "--design", "d.json", "-o", "b.json", *given[:3], "elsewhere/diary") == 0
    assert Path("b.json").read_bytes() == Path("ann.json").read_bytes()


@pytest.mark.slow
def test_a_new_diary_is_removed_where_nothing_is_kept(here):
    save_design(records_design(), here / "d.json")
    file = write_vcf(here / "p.vcf", lines_of([1, 2, 0, 1])[:3])
    args = (file, "--design", "d.json", "--status", "case", "-o", "r.json")
    assert command(*args) == 2 and not Path("p.vcf.diary").exists()
    write_vcf(file, lines_of([1, 2, 0, 1]))
    assert command(*args, "--limit", "0.001") == 2 and not Path("p.vcf.diary").exists()
    assert command(*args) == 0
    write_vcf(file, [])
    save_sampled_variants(question_design(), here / "q.json")
    assert command(file, "--design", "q.json", "--status", "case", "-o", "q1.json") == 2
    assert Path("p.vcf.diary").is_dir()


def test_two_that_answer_at_once_end_with_one_report(here):
    design, drawn = records_design(), []
    person = cohort_of(np.array([[1, 0, 1, 2, 0]]), NAMES, ALLELES)
    start = threading.Barrier(4)

    def draw() -> PersonReport | None:
        drawn.append(1)
        return GenomicDesign(design).drawn(person)

    results: list[PersonReport] = []

    def answer() -> None:
        start.wait()
        results.append(PersonDiary(here / "d").once(design, draw)[0])

    threads = [threading.Thread(target=answer) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(drawn) == 1 and len({r.id for r in results}) == 1 and len(results) == 4


@pytest.mark.slow
def test_three_people_by_the_command_in_processes_of_their_own(tmp_path):
    """As they are run at home: a compressed file, one with the alleles the other way round, and one that lacks a variant."""
    pytest.importorskip("cyvcf2", reason="cyvcf2 is not installed")
    sure = genomic_design(Wanted(NAMES, alleles=ALLELES), Budget(variants=30.0, status=30.0))
    save_design(sure, tmp_path / "d.json")
    (tmp_path / "reports").mkdir()
    files = [
        (lines_of([1, 2, 0, 1]), "case", ()),
        (lines_of([1, 2, 0, 1], turned=[0, 1, 2]), "control", ()),
        (lines_of([2, 1, 0, 0])[:3], "case", ("--absent", "reference")),
    ]
    for k, (lines, status, more) in enumerate(files):
        file = write_vcf(tmp_path / f"p{k}.vcf", lines, f"person{k}")
        if k == 0:
            file = file.with_suffix(".vcf.gz")
            file.write_bytes(gzip.compress(file.with_suffix("").read_bytes()))
        arguments = [
            file,
            "--design",
            tmp_path / "d.json",
            "--status",
            status,
            "-o",
            tmp_path / "reports" / f"{k}.json",
            *more,
        ]
        done = subprocess.run(
            [sys.executable, "-m", "optrr", "gwas-perturb", *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    merged = GenomicDesign(sure).merge([tmp_path / "reports"]).cohort
    rows = np.column_stack([merged.status, next(merged.blocks())[1]])
    assert sorted(rows.tolist()) == sorted([[1, 1, 2, 0, 1], [0, 1, 2, 0, 1], [1, 2, 1, 0, 0]])
