"""The command line on releases: refusals, warnings, privacy accounting, limits, seeds, second rounds."""

import csv
import dataclasses
import io
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from genotypes import cohort_of

import optrr
from optrr.cli.main import run
from optrr.core.design.design_file import load_design
from optrr.core.domain.public import PublicColumns
from optrr.genomics.writing import write_plink

N = 3000


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    party = rng.choice(["a", "b", "c"], N, p=[0.9, 0.07, 0.03])
    table = pa.table({"party": party, "sex": np.where(rng.random(N) < 0.8, party == "a", party == "b").astype(str)})
    table = table.set_column(1, "sex", pa.array(np.where(table["sex"].to_numpy() == "True", "F", "M")))
    pa_csv.write_csv(table, "true.csv")
    pq.write_table(table, "true.parquet")
    domain = {"party": ["a", "b", "c"], "sex": ["F", "M"]}
    optrr.save(optrr.design(domain, 0.75, method="kronecker"), "one.json")
    optrr.save(optrr.design(domain, 1.0, method="kronecker"), "two.json")
    return tmp_path


def said(capsys, *arguments, code=0):
    capsys.readouterr()
    assert run(list(map(str, arguments))) == code, capsys.readouterr().err
    captured = capsys.readouterr()
    return captured.out, captured.err


def as_json(capsys, *arguments, code=0):
    return json.loads(said(capsys, *arguments, "--json", code=code)[0])


def estimate(capsys, file, design="one.json", code=0):
    return said(capsys, "estimate", file, "--design", design, "--attributes", "party", code=code)


def test_silent_mistakes_are_refused_or_warned_of(here, capsys):
    made = as_json(capsys, "randomize", "true.csv", "--design", "one.json", "-o", "out.csv")
    assert made["private"] and made["epsilon"] == made["release_epsilon"] == pytest.approx(1.5)
    assert estimate(capsys, "out.csv")[1] == ""
    # an unrandomized file
    err = estimate(capsys, "true.csv")[1]
    assert "has no provenance metadata" in err and "this does not look like data randomized by this design" in err
    # randomized twice
    err = said(capsys, "randomize", "out.csv", "--design", "one.json", "-o", "twice.csv", code=2)[1]
    assert "already randomized (by design " in err and ", epsilon 1.5" in err and err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(("true", "out"), [("true.csv", "out.parquet"), ("true.parquet", "out.csv")])
def test_pandas_is_not_imported_for_files(true, out, here):
    """It takes as long to import as all else that a command needs."""
    commands = [f"randomize {true} --design one.json -o {out}", f"estimate {out} --design one.json --attributes party"]
    code = "import sys; from optrr.cli.main import run; assert not any(run(each.split()) for each in sys.argv[1:])"
    subprocess.run([sys.executable, "-c", f"{code}; assert 'pandas' not in sys.modules", *commands], check=True)


def test_every_command_that_reads_randomized_records_refuses_another_design(here, capsys):
    said(capsys, "randomize", "true.csv", "--design", "one.json", "-o", "out.csv")
    for command in (
        ("test", "out.csv", "--attributes", "party,sex"),
        ("cluster", "out.csv", "--max-combinations", "6", "--min-dependence", "0.1"),
    ):
        assert "another design" in said(capsys, *command, "--design", "two.json", code=2)[1]
        assert said(capsys, *command, "--design", "one.json")[1] == ""
        true = (command[0], "true.csv", *command[2:])
        assert "has no provenance metadata" in said(capsys, *true, "--design", "one.json")[1]
        told = as_json(capsys, *true, "--design", "one.json")
        assert any("no provenance metadata" in line for line in (*told["warnings"], *told.get("doubts", ())))


def test_accounts_add_up_distinct_releases(here, capsys):
    said(capsys, "randomize", "true.csv", "--design", "one.json", "-o", "first.csv")
    said(capsys, "randomize", "true.csv", "--design", "two.json", "-o", "second.parquet", "--after", "first.csv")
    Path("copy.csv").write_bytes(Path("first.csv").read_bytes())
    Path("copy.csv.optrr.json").write_bytes(Path("first.csv.optrr.json").read_bytes())
    for files, total in (
        (("first.csv",), 1.5),
        (("first.csv", "copy.csv"), 1.5),
        (("second.parquet", "copy.csv"), 3.5),
    ):
        account = as_json(capsys, "account", *files)
        assert account["epsilon"] == pytest.approx(total) and account["epsilon"] >= total - 1e-15
        assert account["unit"] == "record" and account["within_limit"]
        exact = math.fsum(r["epsilon"] for r in account["releases"])
        assert exact <= account["epsilon"] <= math.nextafter(exact, math.inf)
    out, err = said(capsys, "account", "first.csv", "second.parquet", "--limit", "3", code=1)
    assert "for each record" in out and "above the limit of 3" in out and not err
    assert said(capsys, "account", "first.csv", "--limit", "1.51")[1] == ""
    assert (
        "true.csv has no provenance metadata, so its epsilon is not known"
        in said(capsys, "account", "true.csv", code=2)[1]
    )
    assert "cannot read absent.csv: No such file" in said(capsys, "account", "absent.csv", code=2)[1]


def edited(file, **release):
    """Edit the release in the sidecar of a file."""
    path = Path(f"{file}.optrr.json")
    note = json.loads(path.read_text())
    note["release"].update(release)
    path.write_text(json.dumps(note))


def test_the_account_recomputes_what_a_sidecar_states(here, capsys):
    said(capsys, "randomize", "true.csv", "--design", "one.json", "-o", "first.csv")
    honest = as_json(capsys, "account", "first.csv", "--design", "one.json", "--design", "two.json")
    assert honest["epsilon"] == pytest.approx(1.5)
    edited("first.csv", epsilon=0.001)
    assert as_json(capsys, "account", "first.csv")["epsilon"] == 0.001
    err = said(capsys, "account", "first.csv", "--design", "one.json", code=2)[1]
    assert "a file states epsilon 0.001" in err and "its design consumes 1.5" in err and err.count("\n") == 1
    # another design's digest says nothing about this one
    assert as_json(capsys, "account", "first.csv", "--design", "two.json")["epsilon"] == 0.001
    edited("first.csv", epsilon=9)
    assert as_json(capsys, "account", "first.csv", "--design", "one.json")["epsilon"] == honest["epsilon"]


def test_a_limit_is_kept_before_anything_is_written(here, capsys):
    said(capsys, "randomize", "true.csv", "--design", "one.json", "-o", "first.csv")
    second = ("randomize", "true.csv", "--design", "two.json", "-o", "second.csv", "--after", "first.csv")
    before = sorted(p.name for p in Path().iterdir())
    assert "above the limit of 3" in said(capsys, *second, "--limit", "3", code=2)[1]
    assert (
        "drawn from a seed), above the limit" in said(capsys, *second, "--limit", "9", "--random-state", "1", code=2)[1]
    )
    assert "above the limit of nan" in said(capsys, *second, "--limit", "nan", code=2)[1]
    assert sorted(p.name for p in Path().iterdir()) == before
    assert as_json(capsys, *second, "--limit", "3.51")["epsilon"] == pytest.approx(3.5)


def through_a_pipe(monkeypatch, content):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(content))))


def test_what_comes_through_a_pipe_is_not_randomized_twice_either(here, capsys, monkeypatch):
    randomized = load_design("one.json").mechanism.randomize(pa_csv.read_csv("true.csv"))
    streamed = io.BytesIO()
    with pa.ipc.new_stream(streamed, randomized.schema) as writer:
        writer.write_table(randomized)
    randomize = ("randomize", "-", "--design", "two.json", "-o", "again.csv")
    through_a_pipe(monkeypatch, streamed.getvalue())
    out, err = said(capsys, *randomize, code=2)
    assert "standard input is already randomized (by design " in err and out == ""
    assert not Path("again.csv").exists()
    through_a_pipe(monkeypatch, Path("true.csv").read_bytes())
    assert as_json(capsys, *randomize)["epsilon"] == pytest.approx(2)


def test_an_account_takes_designs_and_nothing_else(here, capsys):
    said(capsys, "randomize", "true.csv", "--design", "one.json", "-o", "first.csv")
    said(capsys, "export", "one.json", "-o", "sampler.json")
    err = said(capsys, "account", "first.csv", "--design", "sampler.json", code=2)[1]
    assert "it is a deployment file; give the design" in err and err.count("\n") == 1
    err = said(capsys, "verify", "sampler.json", "--worksheet", "sheet.md", code=2)[1]
    assert "has no worksheet; give a design" in err and not Path("sheet.md").exists()


def test_a_second_round_prints_the_sum(here, capsys):
    said(capsys, "randomize", "true.csv", "--design", "one.json", "-o", "round1.parquet")
    cluster = [
        "cluster",
        "round1.parquet",
        "--design",
        "one.json",
        "--max-combinations",
        "6",
        "--min-dependence",
        "0.1",
    ]
    said(capsys, *cluster, "-o", "second.json")
    second = load_design("second.json")
    assert second.epsilon == pytest.approx(1.5, abs=1e-6) and second.epsilon_in_all == pytest.approx(3, abs=1e-6)
    assert "in all with earlier releases" in repr(second) and second.summary()["epsilon_in_all"] >= 3 - 1e-6
    out, _ = said(capsys, "randomize", "true.csv", "--design", "second.json", "-o", "round2.csv")
    assert "total epsilon 3.0000" in out and "1.5" in out
    # the first round counts once, whether its file is named or not
    for files in (("round2.csv",), ("round1.parquet", "round2.csv")):
        assert as_json(capsys, "account", *files)["epsilon"] == pytest.approx(3, abs=1e-6)
    assert estimate(capsys, "round2.csv", "second.json")[1] == ""


def test_replacing_a_release_says_so(here, capsys):
    randomize = ("randomize", "true.csv", "--design", "one.json", "-o", "out.csv")
    assert said(capsys, *randomize)[1] == ""
    assert "out.csv held a release of epsilon 1.500" in said(capsys, *randomize)[1]


def test_sampled_tables_are_bound_too(here, capsys):
    domain = optrr.Domain.of({"party": ["a", "b", "c"], "sex": ["F", "M"]})
    optrr.save(optrr.SampledTables(domain, (("party",), ("sex",)), np.array([0.5, 0.5]), 3.0), "asked.json")
    said(capsys, "randomize", "true.csv", "--design", "asked.json", "-o", "out.csv")
    assert estimate(capsys, "out.csv", "asked.json")[1] == ""
    again = ("randomize", "out.csv", "--design", "asked.json", "-o", "x.csv")
    assert "already randomized" in said(capsys, *again, code=2)[1]
    true = Path("true.csv").read_bytes()
    err = said(capsys, "randomize", "true.csv", "--design", "asked.json", "-o", "true.csv", code=2)[1]
    assert "is the input itself" in err and Path("true.csv").read_bytes() == true
    # reports that no randomization would give: everybody supports the same cell
    Path("lie.csv").write_text("table,cells\n" + "1,0\n" * N)
    assert "does not look like data randomized by this design" in estimate(capsys, "lie.csv", "asked.json")[1]


def test_plink_is_bound_too(tmp_path, monkeypatch, capsys):
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    true = cohort_of(rng.binomial(2, 0.05, (2000, 4)), rng.integers(0, 2, 2000))
    write_plink(true, Path("true.bed"))
    for name, total in (("one.json", 4), ("two.json", 5)):
        said(capsys, "gwas", "design", "true.bed", "--total-epsilon", total, "--method", "kronecker", "-o", name)
    made = as_json(capsys, "gwas", "randomize", "true.bed", "--design", "one.json", "-o", "out.bed")
    assert made["private"] and made["epsilon"] == pytest.approx(4, rel=1e-5)
    assert sorted(p.name for p in Path().glob("out*")) == ["out.bed", "out.bed.optrr.json", "out.bim", "out.fam"]
    assert as_json(capsys, "gwas", "scan", "out.bed", "--design", "one.json")["doubts"] == []
    assert "another design" in said(capsys, "gwas", "scan", "out.bed", "--design", "two.json", code=2)[1]
    replacing = said(capsys, "gwas", "randomize", "true.bed", "--design", "one.json", "-o", "out.bed")[1]
    assert "out.bed held a release of epsilon 4.0000" in replacing
    again = ("gwas", "randomize", "out.bed", "--design", "one.json", "-o", "x.bed")
    assert "already randomized" in said(capsys, *again, code=2)[1]
    err = said(capsys, "gwas", "scan", "true.bed", "--design", "one.json")[1]
    assert "has no provenance metadata" in err and "does not look like data randomized by this design" in err
    # true genotypes in the place of a release do not keep its note
    write_plink(true, Path("out.bed"))
    assert "has no provenance metadata" in said(capsys, "gwas", "scan", "out.bed", "--design", "one.json")[1]


def test_after_a_seeded_release_every_place_says_what_the_account_says(here, capsys):
    first = ("randomize", "true.csv", "--design", "one.json", "-o", "first.csv", "--random-state", "1")
    second = ("randomize", "true.csv", "--design", "two.json", "-o", "second.csv", "--after", "first.csv")
    out, err = said(capsys, *first)
    assert "not private" in err and "1.500000" in out and not as_json(capsys, *first)["private"]
    assert said(capsys, "account", "first.csv", "--limit", "100", code=1)[1].count("not private") == 1
    err = said(capsys, *second, "--limit", "100", code=2)[1]
    assert "consumed inf nats in all (1.500000, drawn from a seed + 2.000000), above the limit" in err
    assert not Path("second.csv").exists()
    out, err = said(capsys, *second)
    assert "total epsilon inf in all" in out and "second.csv was drawn" not in err
    assert err.count("second.csv follows a release of the same respondents that was drawn from a seed") == 1
    made, account = as_json(capsys, *second), as_json(capsys, "account", "second.csv")
    assert made["epsilon"] is None and account["epsilon"] is None and not account["private"]
    assert [r["seeded"] for r in account["releases"]] == [True, False]
    err = estimate(capsys, "second.csv", "two.json")[1]
    assert "second.csv was drawn" not in err and "follows a release of the same respondents that was drawn" in err
    both = said(capsys, *second, "--random-state", "2")[1]
    assert "second.csv was drawn from a seed" in both and "second.csv follows a release" in both


def weighted_release(name, public, design="bd.json", keep=("w", "v")):
    """500 people with y = 1 and weight 9, 500 with y = 0 and weight 1; v is the other way round."""
    y = np.arange(1000) % 2
    columns = {"y": y, "w": np.where(y == 1, 9.0, 1.0), "v": np.where(y == 1, 1.0, 9.0)}
    pa_csv.write_csv(pa.table({c: columns[c] for c in ("y", *keep)}), f"{name}-true.csv")
    options = [part for text in public for part in ("--public", text)]
    options += ["--drop-undeclared"]
    assert run(["randomize", f"{name}-true.csv", "--design", design, "-o", f"{name}.csv", *options]) == 0


def share(capsys, *arguments):
    return as_json(capsys, "estimate", *arguments, "--design", "bd.json", "--attributes", "y")


def test_weights_that_a_release_names_are_used_as_those_of_its_design(here, capsys):
    optrr.save(optrr.design({"y": 2}, 4.0), "bd.json")
    weighted_release("br", ["weight=w"])
    by_option = share(capsys, "br.csv", "--weights", "w")
    of_release = share(capsys, "br.csv")
    assert of_release["estimate"] == by_option["estimate"]
    # drawn from the operating system; ±0.1 is six standard errors of a weighted share, seven of the other
    assert of_release["estimate"][1] == pytest.approx(0.9, abs=0.1)
    plain = share(capsys, "br.csv", "--unweighted")
    assert plain["estimate"][1] == pytest.approx(0.5, abs=0.15)
    assert plain["doubts"] == []


def test_releases_that_name_different_weights_need_a_word(here, capsys):
    optrr.save(optrr.design({"y": 2}, 4.0), "bd.json")
    weighted_release("one", ["weight=w"])
    weighted_release("other", ["weight=v"])
    command = ("estimate", "one.csv", "other.csv", "--design", "bd.json", "--attributes", "y")
    err = said(capsys, *command, code=2)[1]
    assert "name different columns, " in err and err.count("\n") == 1
    design = load_design("bd.json")
    optrr.save(dataclasses.replace(design, public=PublicColumns("v")), "bd.json")
    command = ("estimate", "one.csv", "--design", "bd.json", "--attributes", "y")
    assert "name different columns, " in said(capsys, *command, code=2)[1]
    assert share(capsys, "one.csv", "--weights", "w")["estimate"][1] == pytest.approx(0.9, abs=0.1)
    assert share(capsys, "one.csv", "--unweighted")["estimate"][1] == pytest.approx(0.5, abs=0.15)


def test_what_a_spreadsheet_would_compute(here, capsys):
    """A table for people has an apostrophe before it; randomized records stay what they are, with a warning."""
    texts = ["=CMD|' /C calc'!A0", "-", "+1+2", "low", "-9"]
    domain = {"=answer": texts, "sex": ["F", "M"]}
    optrr.save(optrr.design(domain, 3.0, method="kronecker"), "f.json")
    rng = np.random.default_rng(5)
    table = pa.table({"=answer": rng.choice(texts, 500), "sex": rng.choice(["F", "M"], 500)})
    pq.write_table(table, "f.parquet")
    warned = said(capsys, "randomize", "f.parquet", "--design", "f.json", "-o", "out.csv")[1]
    assert "a spreadsheet would compute '=answer' and others of out.csv" in warned
    assert "spreadsheet" not in said(capsys, "randomize", "f.parquet", "--design", "f.json", "-o", "out.parquet")[1]
    assert "spreadsheet" not in said(capsys, "randomize", "true.csv", "--design", "one.json", "-o", "plain.csv")[1]
    # what was written is read again as the same categories
    assert set(pa_csv.read_csv("out.csv")["=answer"].to_pylist()) == set(texts)
    said(capsys, "estimate", "out.csv", "--design", "f.json", "--attributes", "=answer", "-o", "table.csv")
    with open("table.csv", newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    assert head[0] == "'=answer"
    assert [row[0] for row in rows] == [f"'{text}" for text in texts[:3]] + texts[3:]
    warned = said(capsys, "export", "f.json", "--form", "matrix", "--attributes", "sex", "-o", "matrix.csv")[1]
    assert "spreadsheet" in warned
