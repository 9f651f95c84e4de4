"""One person's file: brought to the design, answered once, remembered; what a file does not say is refused or said."""

import io
import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from genotypes import cohort_of, whole
from person_files import HEADER, line, read_in_this_process, write_vcf

from optrr.cli.main import run
from optrr.core.design.design_file import save_design
from optrr.core.errors import InvalidInput
from optrr.genomics import Budget, GenomicDesign, Wanted, genomic_design, genomic_domain, read_person
from optrr.genomics.designing import sampled_variants
from optrr.genomics.genotypes import MISSING
from optrr.genomics.layout import layout_of
from optrr.genomics.sampled_variants import save_sampled_variants

ROOT = Path(__file__).parents[2]
NAMES, ALLELES = ["rs0", "rs1", "rs2", "rs3"], [("A", "G"), ("C", "T"), ("G", "A"), ("A", "T")]


def layout(names=NAMES, alleles=ALLELES, missing=False, places=tuple(f"chr1:{10 + k}" for k in range(4))):
    return layout_of(genomic_domain(names, missing=missing, alleles=alleles, places=places))


def codes_of(person) -> dict[str, int]:
    return dict(zip(person.variants.name, whole(person)[0].tolist(), strict=True))


@pytest.fixture
def here(tmp_path, monkeypatch):
    read_in_this_process(monkeypatch)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines_of(copies, turned=()):
    return [
        line(n, *pair, c, turned=k in turned, place=f"1\t{10 + k}")
        for k, (n, pair, c) in enumerate(zip(NAMES, ALLELES, copies, strict=True))
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
    strand = [line("rs0", "T", "C", 2), line("rs1", "A", "G", 2), *lines_of([0, 1, 2, 0])[2:]]
    person, said = read_person(write_vcf(here / "p.vcf", strand), layout(), case=False)
    assert codes_of(person) == dict(zip(NAMES, [2, 0, 2, 0], strict=True)) and len(said) == 2
    with pytest.raises(InvalidInput, match="'rs3' has A1/A2 T/A, and A/T in the design: which may be the other strand"):
        read_person(write_vcf(here / "p.vcf", lines_of([0, 0, 0, 1], turned=[3])), layout(), case=True)


def test_variants_without_a_name_are_named_by_place_and_alleles(here):
    names = ["1:10:G:A", "1:11:T:C", "1:12:A:G", "rs3"]
    lines = [line("." if k < 3 else "rs3", *pair, k % 3, place=f"1\t{10 + k}") for k, pair in enumerate(ALLELES)]
    person, _ = read_person(write_vcf(here / "p.vcf", lines), layout(names), True)
    assert codes_of(person) == dict(zip(names, [0, 1, 2, 0], strict=True))


def test_absent_variants_are_what_the_person_says(here):
    """Refused by default; two copies of the reference, which is A2; or missing calls."""
    file = write_vcf(here / "p.vcf", lines_of([1, 2, 0, 1])[:2])
    with pytest.raises(InvalidInput, match=r"no record of 2 variants of the design \('rs2', 'rs3'\), .*``absent`` ref"):
        read_person(file, layout(), True)
    person, said = read_person(file, layout(), True, "missing")
    assert codes_of(person) == {"rs0": 1, "rs1": 2, "rs2": MISSING, "rs3": MISSING} and "missing calls" in said[0]
    person, said = read_person(file, layout(), True, "reference")
    assert codes_of(person) == {"rs0": 1, "rs1": 2, "rs2": 0, "rs3": 0}
    assert said == [f"{file} has no record of 2 variants of the design: taken as two copies of the reference allele"]


def test_the_reference_is_not_guessed(here):
    """A2 need not be the reference of what is not listed, and a record that is not read may be what seems absent."""
    first = lines_of([1, 2, 0, 1])[:2]
    several = "1\t12\trs2\tA\tG,C\t.\t.\t.\tGT\t1/2\n"
    split = [line("rs2", "G", "A", 1, place="1\t12"), line("rs2", "C", "A", 1, place="1\t12")]
    for lines, designs, said in (
        (lines_of([1, 2, 0, 1], turned=[1])[:2], layout(), "reference allele of variant 'rs1' is the design's A1"),
        (first, layout(alleles=()), "the design does not state the position and the alleles of variant 'rs2'"),
        ([*first, several], layout(), r"unsupported records \(1 not biallelic\).*bcftools norm"),
        ([*first, *split], layout(), "has a record at the position of the design's variant 'rs2', under another name"),
        (
            [*first, line("other", "G", "A", 1, place="1\t12")],
            layout(),
            "at the position of the design's variant 'rs2'",
        ),
        (first, layout(places=()), "does not state the position and the alleles of variant 'rs2'"),
    ):
        with pytest.raises(InvalidInput, match=said):
            read_person(write_vcf(here / "p.vcf", lines), designs, True, "reference")
    table = here / "p.csv"
    table.write_text("rs0,rs1\n1,2\n")
    with pytest.raises(InvalidInput, match="is not a VCF"):
        read_person(table, layout(), True, "reference")
    assert codes_of(read_person(table, layout(), True, "missing")[0])["rs2"] == MISSING


def test_files_that_are_no_one_persons_are_refused(here):
    two = here / "two.vcf"
    two.write_text(HEADER.format("ann\tbob") + "1\t10\trs0\tG\tA\t.\t.\t.\tGT\t0/1\t0/0\n")
    with pytest.raises(InvalidInput, match=r"holds 2 people; .*bcftools view -s NAME"):
        read_person(two, layout(), True)
    with pytest.raises(InvalidInput, match="no record of any of the design's 4 variants"):
        read_person(write_vcf(here / "p.vcf", [line("other", "A", "C", 1)]), layout(), True, "reference")
    sex = [line("rs0", "A", "G", 1, place="X\t10"), *lines_of([0, 1, 2, 0])[1:]]
    with pytest.raises(InvalidInput, match="a report does not contain the sex"):
        read_person(write_vcf(here / "p.vcf", sex), layout(), True)
    with pytest.raises(InvalidInput, match="a report is of one person, and these are 2"):
        GenomicDesign(records_design()).report(cohort_of(np.zeros((2, 4)), alleles=ALLELES), here / "d")


def records_design(missing: bool = False, epsilon: float = 1.0):
    return genomic_design(Wanted(NAMES, missing=missing, alleles=ALLELES), Budget(variants=epsilon, status=epsilon))


def question_design():
    return sampled_variants(Wanted(NAMES, alleles=ALLELES), 1.0)


def save(design, name: str) -> None:
    (save_design if name != "q.json" else save_sampled_variants)(design, Path(name))


def randomize(*arguments: object, design: str = "d.json", output: str = "r.json") -> int:
    return run(["gwas", "randomize", *map(str, arguments), "--design", design, "-o", output])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["d.json", "q.json"])
def test_a_person_is_drawn_once(name, here, capsys):
    """Whatever is entered the second time, wherever it is to be written: the same report, and one ε spent."""
    save(records_design() if name == "d.json" else question_design(), name)
    file = write_vcf(here / "p.vcf", lines_of([1, 2, 0, 1], turned=[0]))
    assert randomize(file, "--status", "case", "--json", design=name) == 0
    said = capsys.readouterr()
    first = json.loads(said.out)
    assert "1 variant with A1 and A2 swapped relative to the design: counts were converted" in said.err
    assert first["new"] and first["spent"] == pytest.approx(first["epsilon"]) and first["variants"] == 4
    file.write_text("nothing")  # nothing is read again
    for output in ("again.json", "r.json"):
        assert randomize(file, "--status", "control", "--json", design=name, output=output) == 0
        again = json.loads(capsys.readouterr().out)
        assert not again["new"] and again["spent"] == pytest.approx(first["epsilon"], abs=1e-14)
    assert Path("again.json").read_bytes() == Path("r.json").read_bytes()
    kept = json.loads(next(Path("p.vcf.diary").glob("*.json")).read_text())
    assert kept["report"] == json.loads(Path("r.json").read_text())
    assert not any("ann" in path.read_text() for path in Path("p.vcf.diary").iterdir())


@pytest.mark.slow
def test_the_python_client_shares_the_diary(here, capsys):
    """Its ledger counts what gwas randomize drew; a report by the exported design is sent again by gwas randomize."""
    client = [sys.executable, str(ROOT / "clients" / "python" / "optrr_client.py")]

    def by_client(*arguments: str) -> str:
        return subprocess.run([*client, *arguments], capture_output=True, text=True, check=True).stdout

    design = records_design()
    save(design, "d.json")
    save(question_design(), "q.json")
    assert run(["export", "d.json", "-o", "sampler.json"]) == 0
    file = write_vcf(here / "p.vcf", lines_of([1, 2, 0, 1]))
    answers = {"status": "case", "rs0": "A/G", "rs1": "C/C", "rs2": "A/A", "rs3": "A/T"}
    Path("answers.json").write_text(json.dumps(answers))
    sent = by_client("sampler.json", "p.vcf.diary", "answers.json")
    assert randomize(file, "--status", "case") == 0
    assert json.loads(Path("r.json").read_text()) == json.loads(sent)
    assert randomize(file, "--status", "case", design="q.json", output="q1.json") == 0
    ledger = by_client("p.vcf.diary").splitlines()
    both = design.epsilon + question_design().epsilon
    assert len(ledger) == 3 and float(ledger[-1].split()[-1]) == pytest.approx(both)
    # a limit is that of the diary, and what was sent is sent again, whatever the limit
    assert randomize(file, "--status", "case", "--limit", "0.1", output="again.json") == 0
    assert Path("again.json").read_bytes() == Path("r.json").read_bytes()


def test_above_the_limit_nothing_is_drawn(here, capsys):
    save(records_design(), "d.json")
    save(question_design(), "q.json")
    file = write_vcf(here / "p.vcf", lines_of([1, 2, 0, 1]))
    limit = records_design().epsilon + 0.5
    assert randomize(file, "--status", "case", "--limit", limit) == 0
    assert randomize(file, "--status", "case", "--limit", limit, design="q.json", output="q1.json") == 2
    assert "above the limit" in capsys.readouterr().err and not Path("q1.json").exists()
    assert len(list(Path("p.vcf.diary").glob("*.json"))) == 1


@pytest.mark.slow
def test_who_lacks_the_call_that_is_asked_for_gives_no_answer_and_is_not_asked_again(here, capsys):
    """As in a cohort; the question is kept, so that nobody draws until it is one that can be answered."""
    save(question_design(), "q.json")
    file = write_vcf(here / "p.vcf", [line("rs0", "A", "G", -1), *lines_of([0, 1, 2, 0])[1:]])
    assert randomize(file, "--status", "case", design="q.json") == 2
    assert "missing calls" in capsys.readouterr().err and not list(here.glob("p.vcf.diary/*.json"))
    silent = answered = 0
    for k in range(40):
        more = ("--status", "case", "--missing", "exclude", "--diary", f"d{k}")
        codes = [randomize(file, *more, design="q.json", output=f"r{k}.json") for _ in range(2)]
        error = capsys.readouterr().err
        assert codes in ([0, 0], [2, 2])
        silent, answered = silent + (codes[0] == 2), answered + (codes[0] == 0)
        assert Path(f"r{k}.json").exists() is (codes[0] == 0)
        assert error.count("gives no answer") == (2 if codes[0] == 2 else 0)
        assert len(list(Path(f"d{k}").glob("*.json"))) == 1
    # every variant is in half of the questions or less; none of 40 on either side has a chance below 2e-5
    assert silent and answered


def test_missing_calls_are_the_designs_category_or_stay_missing(here, capsys):
    file = write_vcf(here / "p.vcf", lines_of([-1, 2, 0, 1])[:3])
    args = (file, "--status", "case", "--absent", "missing")
    save(records_design(), "d.json")
    assert randomize(*args) == 2
    assert "has missing calls and the design has no category for them" in capsys.readouterr().err
    assert randomize(*args, "--missing", "exclude") == 0
    assert "2 calls missing in the report: which calls is not covered by epsilon" in capsys.readouterr().err
    values = json.loads(Path("r.json").read_text())["values"]
    assert [v is None for v in values] == [False, True, False, False, True]
    save(records_design(missing=True, epsilon=30.0), "m.json")
    assert randomize(*args, design="m.json") == 0
    assert json.loads(Path("r.json").read_text())["values"] == ["case", None, "C/C", "A/A", None]


def test_the_status_is_never_shown(here, capsys, monkeypatch):
    save(records_design(), "d.json")
    file = write_vcf(here / "p.vcf", lines_of([1, 2, 0, 1]))
    for given, typed in (("Huntington", ""), ("-", "Huntington\n")):
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        assert randomize(file, "--status", given) == 2
        error = capsys.readouterr().err
        assert "Huntington" not in error and "must be case or control" in error
    assert not Path("p.vcf.diary").exists()
    monkeypatch.setattr("sys.stdin", io.StringIO("CASE\n"))
    assert randomize(file, "--status", "-") == 0
    said = capsys.readouterr()
    assert "case" not in (said.out + said.err).lower()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("-o r.json", "--status for one person's report"),
        ("-o r.csv --absent missing", "--absent requires --status"),
        ("-o r.csv --diary d", "--diary requires --status"),
        ("-o r.csv --status case", "the report of one person is written as .json"),
        ("-o r.json --status case --random-state 1", "--random-state is for a file of many people"),
        ("-o r.json --status case --keep-names", "--keep-names is for a file of many people"),
        ("-o r.json --status case --after t.csv", "--after is for a file of many people"),
        ("-o r.json --status case --case ill", "--case is for a file of many people"),
    ],
)
def test_options_of_one_person_and_of_many_are_told_apart(arguments, message, here, capsys):
    save(records_design(), "d.json")
    file = write_vcf(here / "p.vcf", lines_of([1, 2, 0, 1]))
    assert run(["gwas", "randomize", str(file), "--design", "d.json", *arguments.split()]) == 2
    assert message in capsys.readouterr().err and not list(here.glob("r.*"))


def test_with_strict_a_warning_leaves_nothing_behind(here, capsys):
    """Neither a report nor an entry: it is said before anything is drawn."""
    save(records_design(), "d.json")
    args = (write_vcf(here / "p.vcf", lines_of([1, 2, 0, 1], turned=[0])), "--status", "case", "--json")
    assert randomize(*args, "--strict") == 1
    assert not Path("r.json").exists() and not list(here.glob("p.vcf.diary/*.json"))
    assert randomize(*args) == 0 and Path("r.json").exists()
    # nothing is said of a report that is sent again, which may therefore be strict
    capsys.readouterr()
    assert randomize(*args, "--strict") == 0 and not json.loads(capsys.readouterr().out)["new"]


def test_two_that_answer_at_once_end_with_one_report(here):
    design, person = records_design(), cohort_of(np.array([[0, 1, 2, 0]]), alleles=ALLELES)
    start = threading.Barrier(4)
    results: list[tuple[dict, bool]] = []

    def record() -> np.ndarray:
        start.wait()
        return GenomicDesign(design).records(person)

    def answer() -> None:
        results.append(GenomicDesign(design).report_once(record, here / "d"))

    threads = [threading.Thread(target=answer) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (
        [new for _, new in results].count(True) == 1 and len({r["id"] for r, _ in results}) == 1 and len(results) == 4
    )
