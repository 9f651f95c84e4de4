"""What people do wrong, and the one line that each mistake is answered with: the place, the remedy, exit 2, nothing written.

Each row writes what it needs, calls a command, and states what the line must hold: the place and the remedy (``a|b`` is
either). A value of somebody's record is never in it.
"""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from optrr.cli.main import run

SPEC = """
epsilon = 1.0
[[attributes]]
name = "sex"
categories = ["F", "M"]
[[attributes]]
name = "age"
size = 5
[[attributes]]
name = "answer"
categories = ["yes", "no"]
"""
HEADER = "sex,age,answer\n"
GOOD = HEADER + "F,1,yes\nM,4,no\n" * 50
# What stands for a person's true value in the rows below; it must be in no message.
SECRET = "Zanzibar"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> dict[str, bytes]:
    """A specification, a design, records, and what they were randomized into."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "spec.toml").write_text(SPEC)
    (folder / "records.csv").write_text(GOOD)
    design = str(folder / "design.json")
    assert run(["design", str(folder / "spec.toml"), "-o", design, "--preserve", "pairs"]) == 0
    assert run(["perturb", str(folder / "records.csv"), "--design", design, "-o", str(folder / "out.parquet")]) == 0
    assert run(["design", "--attribute", "sex=2:3", "-o", str(folder / "other.json")]) == 0
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


def spec(old: str, new: str) -> Callable[[], None]:
    """The specification with a part replaced."""
    assert old in SPEC
    return lambda: Path("s.toml").write_text(SPEC.replace(old, new)) and None


def text(name: str, content: str | bytes) -> Callable[[], None]:
    """A file."""
    return lambda: Path(name).write_bytes(content.encode() if isinstance(content, str) else content) and None


def parquet(name: str, **columns: list) -> Callable[[], None]:
    """A Parquet file."""
    return lambda: pq.write_table(pa.table(columns), name)


DESIGN = ["design", "s.toml", "-o", "new.json"]
PERTURB = ["perturb", "bad.csv", "--design", "design.json", "-o", "new.parquet"]
AGAIN = ["longitudinal-perturb", "records.csv", "--design", "design.json", "-o", "new.csv", "--key", "k", "--new-key"]
AGAIN += ["--person", "age", "--round", "1"]
ESTIMATE = ["estimate", "out.parquet", "--design", "design.json", "--attributes"]
POWER = ["power", "--design", "design.json", "--attributes", "sex,answer", "--proportions", "p.json"]
ALLOCATE = ["allocate", "spec.toml", "--total-epsilon", "2", "--workload", "w.toml", "-o", "new.json"]
NFD = unicodedata.normalize("NFD", "réponse")


def swapped(call: list[str], old: str, new: str) -> list[str]:
    return [new if part == old else part for part in call]


MISTAKES = {
    # specifications
    "a key misspelt": (
        spec("size = 5", "size = 5\nepsilom = 2.0"),
        DESIGN,
        ["attribute 'age'", "'epsilom'", "did you mean 'epsilon'"],
    ),
    "a key of the whole misspelt": (
        spec("epsilon = 1.0", "epsillon = 1.0"),
        DESIGN,
        ["the specification", "did you mean 'epsilon'"],
    ),
    "epsilon in quotes": (spec("epsilon = 1.0", 'epsilon = "1.0"'), DESIGN, ["epsilon = '1.0'", "without quotes"]),
    "size in quotes": (spec("size = 5", 'size = "5"'), DESIGN, ["attribute 'age'", "size = '5'", "whole number"]),
    "size of one": (spec("size = 5", "size = 1"), DESIGN, ["attribute 'age'", "size 1", "from 2"]),
    "epsilon of zero": (spec("epsilon = 1.0", "epsilon = 0"), DESIGN, ["epsilon 0", "above 0"]),
    "no epsilon": (spec("epsilon = 1.0", ""), DESIGN, ["attribute 'sex' has no epsilon", "give it one"]),
    "size and categories": (
        spec("size = 5", 'size = 5\ncategories = ["a", "b"]'),
        DESIGN,
        ["attribute 'age'", "either"],
    ),
    "a category twice": (spec('"F", "M"', '"F", "F"'), DESIGN, ["attribute 'sex'", "'F' twice", "list it once"]),
    "one category": (spec('"F", "M"', '"F"'), DESIGN, ["attribute 'sex' has 1 categories", "drop it"]),
    "an attribute twice": (spec('name = "age"', 'name = "sex"'), DESIGN, ["'sex' is declared twice", "its own name"]),
    "no name": (spec('name = "age"\n', ""), DESIGN, ["attribute 2", "no name"]),
    "a quote forgotten": (spec('"sex"', '"sex'), DESIGN, ["s.toml is not TOML", "line 4", "mend it"]),
    "no attributes": (text("s.toml", "epsilon = 1.0"), DESIGN, ["lists no attributes", "[[attributes]]"]),
    "an empty file": (text("s.toml", ""), DESIGN, ["s.toml is empty", "list the attributes"]),
    "not UTF-8": (text("s.toml", b"\xff\xfe\xff"), DESIGN, ["s.toml is not UTF-8", "save it"]),
    "YAML": (text("s.yaml", SPEC), swapped(DESIGN, "s.toml", "s.yaml"), ["'.yaml'", "name it .toml or .json"]),
    "JSON cut off": (
        text("s.json", '{"attributes": [{"na'),
        swapped(DESIGN, "s.toml", "s.json"),
        ["s.json is not JSON", "column", "mend it"],
    ),
    "brackets without end": (
        text("s.json", "[" * 100_000),
        swapped(DESIGN, "s.toml", "s.json"),
        ["s.json", "recursion"],
    ),
    "a file that is not there": (
        lambda: None,
        swapped(DESIGN, "s.toml", "specs.toml"),
        ["specs.toml", "check the path"],
    ),
    "bins in disorder": (spec("size = 5", "bins = [0, 65, 18]"), DESIGN, ["edges 0, 65, 18", "lowest to the highest"]),
    "bins of two edges": (spec("size = 5", "bins = [0, 18]"), DESIGN, ["edges 0, 18", "three or more"]),
    "a mark among the categories": (
        spec('"F", "M"]', '"F", "M"]\nmissing = ["M"]'),
        DESIGN,
        ["attribute 'sex'", "keep it in one"],
    ),
    "a rest that is no category": (
        spec('"F", "M"]', '"F", "M"]\nrest = "other"'),
        DESIGN,
        ["attribute 'sex'", "add it"],
    ),
    "marks that are no list": (
        spec('"F", "M"]', '"F", "M"]\nmissing = "NA"'),
        DESIGN,
        ["missing = 'NA'", "list of marks"],
    ),
    # commands and options
    "a command misspelt": (lambda: None, ["desing", "spec.toml"], ["'desing'", "did you mean 'design'"]),
    "a command in German": (lambda: None, ["schätze", "out.parquet"], ["No such command", "--help"]),
    "an option misspelt": (lambda: None, [*swapped(ESTIMATE, "--design", "--desing"), "sex"], ["--desing", "--design"]),
    "a method misspelt": (lambda: None, [*ESTIMATE, "sex", "--method", "unbiassed"], ["'unbiassed'", "unbiased"]),
    "an attribute misspelt": (lambda: None, [*ESTIMATE, "sexx"], ["no attribute 'sexx'", "'sex'"]),
    "a comma in the wrong place": (lambda: None, [*ESTIMATE, "sex,,age"], ["no attribute 'sex,age'", "'sex'"]),
    "an attribute asked for twice": (
        lambda: None,
        [*ESTIMATE, "sex,sex"],
        ["'sex' is asked for twice", "name it once"],
    ),
    "confidence in per cent": (lambda: None, [*ESTIMATE, "sex", "--confidence", "95"], ["confidence", "0.95"]),
    "an attribute without its size": (
        lambda: None,
        ["design", "--attribute", "age:0.5"],
        ["'age:0.5'", "name=size:epsilon"],
    ),
    "a specification and attributes": (
        lambda: None,
        [*DESIGN, "--attribute", "a=2:1"],
        ["SPEC"],
    ),
    "an estimate into Excel": (lambda: None, [*ESTIMATE, "sex", "-o", "new.xlsx"], ["'.xlsx'", ".csv"]),
    "a specification for a design": (
        lambda: None,
        swapped(PERTURB, "design.json", "spec.toml"),
        ["spec.toml", "optrr design spec.toml -o design.json makes one"],
    ),
    "a specification for a longitudinal design": (
        lambda: None,
        swapped(AGAIN, "design.json", "spec.toml"),
        [
            "spec.toml is a specification",
            "optrr longitudinal-design spec.toml --forever EPSILON -o design.json makes one",
        ],
    ),
    "a design for a longitudinal one": (
        lambda: None,
        AGAIN,
        ["design.json", "design again, with optrr longitudinal-design"],
    ),
    "a specification for a design of genotypes": (
        lambda: None,
        ["gwas-perturb", "records.csv", "--design", "spec.toml", "-o", "new.csv"],
        ["spec.toml is a specification", "optrr gwas-design GENOTYPES -o design.json makes one"],
    ),
    "a design of other records for genotypes": (
        lambda: None,
        ["gwas-perturb", "records.csv", "--design", "design.json", "-o", "new.csv"],
        ["neither 'status' with one genotype each nor alleles", "optrr gwas-design"],
    ),
    "a design through a pipe": (
        lambda: os.mkfifo("pipe"),
        swapped(PERTURB, "design.json", "pipe"),
        ["pipe is a pipe", "save it first"],
    ),
    "a design of genotypes through a pipe": (
        lambda: os.mkfifo("pipe"),
        ["gwas-perturb", "records.csv", "--design", "pipe", "-o", "new.csv"],
        ["pipe is a pipe", "save it first"],
    ),
    "a deployment file into a pipe": (
        lambda: os.mkfifo("pipe"),
        ["export", "design.json", "-o", "pipe"],
        ["cannot write pipe", "name a file"],
    ),
    "another design": (
        lambda: None,
        [*swapped(ESTIMATE, "design.json", "other.json"), "sex"],
        ["out.parquet", "design"],
    ),
    "randomized twice": (
        lambda: None,
        swapped(PERTURB, "bad.csv", "out.parquet"),
        ["out.parquet", "already randomized", "--again"],
    ),
    "the input as the target": (
        text("bad.csv", GOOD),
        swapped(PERTURB, "new.parquet", "bad.csv"),
        ["bad.csv is the input itself", "another file"],
    ),
    # files
    "Excel": (text("bad.xlsx", b"PK"), swapped(PERTURB, "bad.csv", "bad.xlsx"), ["'.xlsx'", "export it"]),
    "a target in Excel": (text("bad.csv", GOOD), swapped(PERTURB, "new.parquet", "new.xlsx"), ["'.xlsx'", ".parquet"]),
    "a file that is not there either": (lambda: None, PERTURB, ["bad.csv", "check the path"]),
    "a pattern that matches nothing": (
        lambda: None,
        swapped(PERTURB, "bad.csv", "part-*.csv"),
        ["no files at part-*.csv", "check the path"],
    ),
    "an empty table": (text("bad.csv", ""), PERTURB, ["bad.csv is empty", "columns' names"]),
    "only names": (text("bad.csv", HEADER), PERTURB, ["bad.csv holds no records", "at least one"]),
    "no line of names": (
        text("bad.csv", f"F,1,{SECRET}\nM,2,no\n"),
        PERTURB,
        ["the first line of bad.csv", "write the columns' names"],
    ),
    "a column missing": (text("bad.csv", "sex,age\nF,1\n"), PERTURB, ["column 'answer' is missing", "'sex', 'age'"]),
    "a column misspelt": (
        text("bad.csv", GOOD.replace("answer", "anwser", 1)),
        PERTURB,
        ["'answer' is missing", "did you mean 'anwser'"],
    ),
    "a column too many": (
        text("bad.csv", f"name,{HEADER}{SECRET},F,1,yes\n"),
        PERTURB,
        ["column 'name'", "drop it or declare it"],
    ),
    "a column twice": (
        text("bad.csv", "sex,age,answer,sex\nF,1,yes,F\n"),
        PERTURB,
        ["'sex' appears twice", "its own name"],
    ),
    "a delimiter nobody would find": (
        text("bad.csv", GOOD.replace(",", "^")),
        PERTURB,
        ["the first line of bad.csv", "--delimiter"],
    ),
    "a wrong delimiter said": (
        text("bad.csv", GOOD),
        [*PERTURB, "--delimiter", ";"],
        ["first line of bad.csv", "--delimiter"],
    ),
    "an encoding that does not exist": (
        text("bad.csv", GOOD),
        [*PERTURB, "--encoding", "utf-9"],
        ["'utf-9'", "latin-1"],
    ),
    "a wrong encoding said": (
        text("bad.csv", GOOD.replace("yes", "y\u00e9s")),
        [*PERTURB, "--encoding", "ascii"],
        ["bad.csv is not ascii|it is not ascii", "encoding"],
    ),
    "a ragged record": (
        text("bad.csv", GOOD + f"{SECRET},1\n"),
        PERTURB,
        ["bad.csv", "record 101 has 2 fields", "mend the record"],
    ),
    "quotes left open": (text("bad.csv", GOOD + '"' + SECRET * 300_000), PERTURB, ["bad.csv", "quote"]),
    "JSON lines cut off": (
        text("bad.jsonl", f'{{"sex": "F", "age": 1, "answer": "yes"}}\n{{"sex": "{SECRET}'),
        swapped(PERTURB, "bad.csv", "bad.jsonl"),
        ["bad.jsonl", "line 2 is cut off", "whole JSON object"],
    ),
    "CSV called Parquet": (
        text("bad.parquet", GOOD),
        swapped(PERTURB, "bad.csv", "bad.parquet"),
        ["bad.parquet", "not a whole Parquet file"],
    ),
    "CSV called gzip": (text("bad.csv.gz", GOOD), swapped(PERTURB, "bad.csv", "bad.csv.gz"), ["bad.csv.gz", "check"]),
    "a database without a query": (
        lambda: None,
        swapped(PERTURB, "bad.csv", "duckdb:people.duckdb"),
        ["people.duckdb", "--query"],
    ),
    "a query for a file": (
        text("bad.csv", GOOD),
        [*PERTURB, "--query", "SELECT 1"],
        ["bad.csv is a file", "leave it out"],
    ),
    "a format that does not exist": (
        text("bad.csv", GOOD),
        [*PERTURB, "--format", "cvs"],
        ["'cvs'", "did you mean 'csv'"],
    ),
    # values
    "an unknown category": (
        text("bad.csv", GOOD + f"{SECRET},1,yes\n"),
        PERTURB,
        ["column 'sex', record 101", "unknown category (a text)", "'F', 'M'"],
    ),
    "spaces around a value": (
        text("bad.csv", GOOD + " M,1,yes\n"),
        PERTURB,
        ["column 'sex', record 101", "take them away"],
    ),
    "another case": (
        text("bad.csv", GOOD + "f,1,yes\n"),
        PERTURB,
        ["column 'sex', record 101", "upper and lower case"],
    ),
    "a mark of a missing value": (
        text("bad.csv", GOOD + "NA,1,yes\n"),
        PERTURB,
        ["column 'sex', record 101", 'declare missing = ["NA"]'],
    ),
    "a missing value": (
        text("bad.csv", GOOD + ",1,yes\n"),
        PERTURB,
        ["column 'sex', record 101: missing value", "declare"],
    ),
    "a number out of range": (
        parquet("bad.parquet", sex=["F"], age=[977], answer=["yes"]),
        swapped(PERTURB, "bad.csv", "bad.parquet"),
        ["column 'age', record 1", "(a number)", "'0', '1'"],
    ),
    "a number with decimals": (
        parquet("bad.parquet", sex=["F"], age=[0.977], answer=["yes"]),
        swapped(PERTURB, "bad.csv", "bad.parquet"),
        ["column 'age', record 1", "(a number)"],
    ),
    "lists in a column": (
        parquet("bad.parquet", sex=[[SECRET]], age=[1], answer=["yes"]),
        swapped(PERTURB, "bad.csv", "bad.parquet"),
        ["column 'sex' has type list", "convert it"],
    ),
    "a value of many megabytes": (
        parquet("bad.parquet", sex=[SECRET * 200_000], age=[1], answer=["yes"]),
        swapped(PERTURB, "bad.csv", "bad.parquet"),
        ["column 'sex' holds a value of"],
    ),
    "two Unicode forms of a name": (
        text("bad.csv", f"{NFD},x\na,b\n"),
        ["perturb", "bad.csv", "--design", "accent.json", "-o", "new.csv"],
        ["Unicode form", "\\u0301", "write both names alike"],
    ),
    "a name that would move the cursor": (
        text("bad.csv", "sex,age,answer,\x1b[2Jgone\nF,1,yes,x\n"),
        PERTURB,
        [r"'\x1b[2Jgone' is not an attribute", "drop it or declare it"],
    ),
    "a name of a hundred thousand letters": (
        text("bad.csv", f"sex,age,answer,{'n' * 10**5}\nF,1,yes,x\n"),
        PERTURB,
        ["nnn…' is not an attribute", "drop it or declare it"],
    ),
    # proportions and workloads
    "proportions that do not fit": (text("p.json", "[0.5, 0.5]"), POWER, ["p.json", "shape", "4 shares"]),
    "proportions without end": (text("p.json", "[" * 100_000), POWER, ["p.json", "nested list|not JSON"]),
    "proportions not UTF-8": (text("p.json", b'{"attributes": ["\xff"]}'), POWER, ["p.json", "UTF-8|not JSON"]),
    "proportions of another table": (
        text("p.json", '{"attributes": ["age"], "categories": [[0]], "estimate": [1]}'),
        POWER,
        ["'age', not of 'sex'|'age'", "estimate that table"],
    ),
    "proportions of words": (text("p.json", '[["a", "b"], [1, 2]]'), POWER, ["p.json", "not a number"]),
    "proportions that are not there": (lambda: None, POWER, ["p.json", "check the path"]),
    "a workload not UTF-8": (text("w.toml", b"\xff"), ALLOCATE, ["w.toml", "UTF-8"]),
    "a workload without end": (
        text("w.json", "[" * 100_000),
        swapped(ALLOCATE, "w.toml", "w.json"),
        ["w.json", "not JSON"],
    ),
    "a workload of long numbers": (
        text("w.json", "9" * 10_000),
        swapped(ALLOCATE, "w.toml", "w.json"),
        ["w.json", "not JSON"],
    ),
    "a workload of half a character": (
        text("w.json", '{"\\ud800": 1}'),
        swapped(ALLOCATE, "w.toml", "w.json"),
        ["w.json", "surrogate", "write the whole character"],
    ),
    "a workload of strangers": (
        text("w.toml", '[[tables]]\nattributes = ["height"]'),
        ALLOCATE,
        ["no attribute 'height'", "'sex'"],
    ),
    "a workload of another kind": (lambda: None, swapped(ALLOCATE, "w.toml", "all"), ["'all'", "marginals, pairs"]),
    # specifications from data
    "bins of text": (
        text("bad.csv", GOOD),
        ["spec", "bad.csv", "--bins", "sex=3", "-o", "new.toml"],
        ["column 'sex'", "leave out its bins"],
    ),
    "bins of nobody": (
        text("bad.csv", GOOD),
        ["spec", "bad.csv", "--bins", "agee=3", "-o", "new.toml"],
        ["'agee' is missing", "did you mean 'age'"],
    ),
    "a specification in JSON": (text("bad.csv", GOOD), ["spec", "bad.csv", "-o", "new.json"], ["'.json'", ".toml"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_one_line_with_place_and_remedy(made, tmp_path, monkeypatch, capsys, mistake):
    prepare, call, said = MISTAKES[mistake]
    monkeypatch.chdir(tmp_path)
    for name, content in made.items():
        Path(name).write_bytes(content)
    accented = ["design", "--attribute", "réponse=2:1", "--attribute", "x=2:1", "-o", "accent.json"]
    assert "Unicode form" not in said or run(accented) == 0
    prepare()
    before = {p: p.stat().st_mtime_ns for p in Path().rglob("*")}
    capsys.readouterr()
    code = run(call)
    captured = capsys.readouterr()
    assert code == 2, (captured.out, captured.err)
    lines = captured.err.splitlines()
    assert len(lines) == 1, captured.err[:2000]
    assert lines[0].startswith("error: ")
    assert captured.out == ""
    for part in said:
        assert any(p in lines[0] for p in part.split("|")), lines[0]
    assert SECRET not in lines[0] and "977" not in lines[0]
    assert lines[0].isprintable()
    assert len(lines[0]) < 1_000
    assert {p: p.stat().st_mtime_ns for p in Path().rglob("*")} == before


def test_there_are_sixty():
    assert len(MISTAKES) >= 60


@pytest.mark.slow
def test_names_that_are_markup_or_escapes_are_shown_as_they_are(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = ["[/b]", "[red]x", "\x1b[31mred", "n" * 5_000]
    attributes = [{"name": n, "categories": ["[/i]", "\x1b[2J", "c" * 5_000], "epsilon": 1.0} for n in names]
    Path("s.json").write_text(json.dumps({"attributes": attributes}))
    assert run(["design", "s.json", "-o", "d.json", "--preserve", "pairs"]) == 0
    rows = [{n: ["[/i]", "\x1b[2J", "c" * 5_000][k % 3] for n in names} for k in range(60)]
    pq.write_table(pa.Table.from_pylist(rows), "a.parquet")
    assert run(["perturb", "a.parquet", "--design", "d.json", "-o", "b.parquet", "--random-state", "1"]) == 0
    for name in names:
        assert run(["estimate", "b.parquet", "--design", "d.json", "--attributes", name]) == 0
    assert run(["test", "b.parquet", "--design", "d.json", "--attributes", ",".join(names[1:3])]) == 0
    captured = capsys.readouterr()
    assert "\x1b[31mred" not in captured.out + captured.err
    assert "\x1b[2J" not in captured.out + captured.err
    assert "[/b]" in captured.out and "[red]x" in captured.out and r"\x1b[31mred" in captured.out
