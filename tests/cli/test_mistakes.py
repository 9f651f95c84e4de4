"""What people do wrong, and the one line that each mistake is answered with: the place, the remedy, exit 2, nothing written."""

import os
import shlex
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
# Stands for a person's true value; it must be in no message.
SECRET = "Zanzibar"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> dict[str, bytes]:
    """A specification, designs, records, and what they were randomized into."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "spec.toml").write_text(SPEC)
    (folder / "records.csv").write_text(GOOD)
    design = str(folder / "design.json")
    assert run(["design", str(folder / "spec.toml"), "-o", design, "--preserve", "pairs"]) == 0
    assert run(["randomize", str(folder / "records.csv"), "--design", design, "-o", str(folder / "out.parquet")]) == 0
    assert run(["design", "--attribute", "sex=2:3", "-o", str(folder / "other.json")]) == 0
    accented = ["design", "--attribute", "réponse=2:1", "--attribute", "x=2:1"]
    assert run([*accented, "-o", str(folder / "accent.json")]) == 0
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


# A file's content, or what makes it.
Content = str | bytes | Callable[[str], object]
# Files, the call, and what its line must hold: parts divided by " … ", alternatives by "|".
Mistake = tuple[dict[str, Content], str, str]


def specified(old: str, new: str, said: str) -> Mistake:
    """The specification with a part replaced."""
    assert old in SPEC
    return {"s.toml": SPEC.replace(old, new)}, "design s.toml -o new.json", said


def specification(name: str, content: Content, said: str) -> Mistake:
    return {name: content}, f"design {name} -o new.json", said


def records(content: Content, said: str, options: str = "", name: str = "bad.csv") -> Mistake:
    return {name: content}, f"randomize {name} --design design.json -o new.parquet {options}", said


def parquet(said: str, **columns: list) -> Mistake:
    return records(lambda path: pq.write_table(pa.table(columns), path), said, name="bad.parquet")


def called(call: str, said: str) -> Mistake:
    return {}, call, said


def estimated(options: str, said: str) -> Mistake:
    return called(f"estimate out.parquet --design design.json --attributes {options}", said)


def proportions(content: Content, said: str) -> Mistake:
    power = "power --design design.json --attributes sex,answer --truth p.json"
    return {"p.json": content}, power, said


def workload(name: str, content: Content, said: str) -> Mistake:
    return {name: content}, f"allocate spec.toml --total-epsilon 2 --workload {name} -o new.json", said


def studied(options: str, said: str) -> Mistake:
    return {"g.csv": "ill,rs0,rs1\nyes,0,1\nno,1,2\n"}, f"gwas study {options}", said


LONGITUDINAL = "waves randomize records.csv -o new.csv --secret k --new-secret --id-column age --wave 1 --design"
GENOTYPES = "gwas randomize records.csv -o new.csv --design"
HUGE = "1" + "0" * 400
MANY = " ".join(f"--attribute a{i}={i + 2}:1" for i in range(21))
MISTAKES = [
    # specifications
    specified("size = 5", "size = 5\nepsilom = 2.0", "attribute 'age' … 'epsilom' … did you mean 'epsilon'"),
    specified("epsilon = 1.0", "epsillon = 1.0", "the specification … did you mean 'epsilon'"),
    specified("epsilon = 1.0", 'epsilon = "1.0"', "epsilon … without quotes"),
    specified("size = 5", 'size = "5"', "attribute 'age', size … whole number"),
    specified("size = 5", "size = 1", "attribute 'age' … size 1 … from 2"),
    specified("epsilon = 1.0", "epsilon = 0", "epsilon 0 … above 0"),
    specified("epsilon = 1.0", "", "attribute 'sex' has no epsilon … give it one"),
    specified("size = 5", 'size = 5\ncategories = ["a", "b"]', "attribute 'age' … either … size … categories"),
    specified('"F", "M"', '"F", "F"', "attribute 'sex' … 'F' twice … list it once"),
    specified('"F", "M"', '"F"', "attribute 'sex' has 1 categories … drop it"),
    specified('name = "age"', 'name = "sex"', "'sex' is declared twice … its own name"),
    specified('name = "age"\n', "", "attribute 2 … 'name'; add it"),
    specified('"sex"', '"sex', "s.toml is not TOML … line 4 … correct it"),
    specified("size = 5", "bins = [0, 65, 18]", "edges 0, 65, 18 … lowest to the highest"),
    specified("size = 5", "bins = [0, 18]", "edges 0, 18 … three or more"),
    specified('"F", "M"]', '"F", "M"]\nmissing = ["M"]', "attribute 'sex' … keep it in one"),
    specified('"F", "M"]', '"F", "M"]\nrest = "other"', "attribute 'sex' … add it"),
    specified('"F", "M"]', '"F", "M"]\nmissing = "NA"', "attribute 'sex', missing … a list in brackets"),
    specified("size = 5", f"bins = [-{HUGE}, 0, 1]", "edge"),
    specification("s.toml", "epsilon = 1.0", "'attributes'; add it"),
    specification("s.toml", "", "s.toml is empty … list the attributes"),
    specification("s.toml", b"\xff\xfe\xff", "s.toml is not UTF-8 … save it"),
    specification("s.yaml", SPEC, "'.yaml' … name it .toml or .json"),
    specification("s.json", '{"attributes": [{"na', "s.json is not JSON … column … correct it"),
    called("design specs.toml", "cannot read … specs.toml … check the path"),
    # attributes and options of a design
    called("design", "give either SPEC"),
    called("design spec.toml --attribute a=2:1", "SPEC"),
    called("design --attribute age:0.5", "'age:0.5' … name=size:epsilon"),
    called("design --attribute a=2:1_0", "name=size:epsilon"),
    called("design --attribute a=2:inf", "epsilon inf"),
    called("design --attribute a=2", "'a' has no epsilon … 'a=2:1'"),
    called("demo --random-state x", "error: --random-state: 'x' is not a whole number"),
    called("demo --random-state -1", "error: --random-state: -1 is not in the range x>=0"),
    called("design --attribute a=2:1 --tolerance x", "error: --tolerance: 'x' is not a number"),
    called("allocate --attribute a=2 --attribute b=2 --total-epsilon 1 --min-epsilon 2", "for the minimum epsilons"),
    called(
        "allocate --attribute a=2 --total-epsilon 2 --min-epsilon 0.9 --max-epsilon 0.5",
        "for its smallest epsilon or accuracy, more than its largest epsilon 0.5",
    ),
    called("design spec.toml --method closed-form", "closed-form"),
    called("design spec.toml --method magic", "magic"),
    called(f"design {MANY} --method reduced", "up to 20 attributes"),
    called("design spec.toml --conditional-cap 0.5", "raise the cap"),
    called("design spec.toml --method kronecker --tolerance 0.1", "'kronecker' has no tolerance"),
    called("design spec.toml --method kronecker --time-limit 5", "'kronecker' has no time limit"),
    called("design spec.toml -o spec.toml", "spec.toml ends in '.toml'; a design is written as .json"),
    called("design spec.toml -o .", "is a directory"),
    called("design spec.toml -o ''", "is a directory"),
    called("design spec.toml -o no/such/place.json", "create it first"),
    # commands and options
    called("desing spec.toml", "'desing' … did you mean 'design'"),
    called("schätze out.parquet", "No such command … --help"),
    called("estimate out.parquet --desing design.json --attributes sex", "--desing … --design"),
    estimated("sex --method unbiassed", "'unbiassed' … unbiased"),
    estimated("sexx", "no attribute 'sexx' … 'sex'"),
    estimated("sex,,age", "no attribute 'sex,age' … 'sex'"),
    estimated("sex,sex", "'sex' is named twice … name it once"),
    estimated("sex --confidence 95", "confidence … 0.95"),
    estimated("sex -o new.xlsx", "'.xlsx' … .csv"),
    called("verify records.csv", "cannot be read as a design or a deployment file"),
    called("estimate out.parquet --design other.json --attributes sex", "out.parquet … design"),
    called(
        "randomize out.parquet --design design.json -o new.parquet",
        "out.parquet … already randomized … give the true records",
    ),
    # a file of one kind for another
    called(
        "randomize records.csv --design spec.toml -o new.csv",
        "spec.toml … optrr design spec.toml -o design.json makes one",
    ),
    called(
        f"{LONGITUDINAL} spec.toml",
        "spec.toml is a specification … waves design spec.toml --lifetime-epsilon EPSILON -o design.json makes one",
    ),
    called(f"{LONGITUDINAL} design.json", "design.json … design again, with optrr waves design"),
    called(
        f"{GENOTYPES} spec.toml", "spec.toml is a specification … optrr gwas design GENOTYPES -o design.json makes one"
    ),
    called(f"{GENOTYPES} design.json", "not a design for genotypes … optrr gwas design"),
    ({"pipe": os.mkfifo}, "randomize records.csv --design pipe -o new.csv", "pipe is a pipe … save it first"),
    ({"pipe": os.mkfifo}, f"{GENOTYPES} pipe", "pipe is a pipe … save it first"),
    ({"pipe": os.mkfifo}, "export design.json -o pipe", "cannot write pipe … name a file"),
    # files of records
    (
        {"bad.csv": GOOD},
        "randomize bad.csv --design design.json -o bad.csv",
        "bad.csv is the input itself … another file",
    ),
    ({"bad.csv": GOOD}, "randomize bad.csv --design design.json -o new.xlsx", "'.xlsx' … .parquet"),
    records(b"PK", "'.ods' … export it", name="bad.ods"),
    records(b"PK", "cannot read bad.xlsx … write it again", name="bad.xlsx"),
    called("randomize bad.csv --design design.json -o new.csv", "bad.csv … check the path"),
    called("randomize 'part-*.csv' --design design.json -o new.csv", "no files at part-*.csv … check the path"),
    records("", "bad.csv is empty … columns' names"),
    records(HEADER, "bad.csv contains no records … at least one"),
    records(f"F,1,{SECRET}\nM,2,no\n", "the first line of bad.csv … write the columns' names"),
    records("sex,age\nF,1\n", "column 'answer' is missing … 'sex', 'age'"),
    records(GOOD.replace("answer", "anwser", 1), "'answer' is missing … did you mean 'anwser'"),
    records("sex, age,answer\nF,1,yes\n", "column 'age' is missing; the data has 'sex', ' age', 'answer'"),
    records(b"s\xe9x,age,answer\nF,1,yes\n", "column 'sex' is missing"),
    records(f"name,{HEADER}{SECRET},F,1,yes\n", "column 'name' … drop it or declare it"),
    records(GOOD.replace(",", "^"), "the first line of bad.csv … --delimiter"),
    records(GOOD, "first line of bad.csv … --delimiter", "--delimiter ';'"),
    records(GOOD, "'utf-9' … latin-1", "--encoding utf-9"),
    records(GOOD.replace("yes", "y\u00e9s"), "bad.csv is not ascii|it is not ascii … encoding", "--encoding ascii"),
    # Arrow's own message holds the record, whose words were once taken for those of an empty file
    records(GOOD + "F,1,Empty CSV file,2\n", "record 101 has 4 fields and the first line 3"),
    records(GOOD + f"{SECRET},1\n", "bad.csv … record 101 has 2 fields … correct the record"),
    records(GOOD + '"' + SECRET * 300_000, "bad.csv … quote"),
    records(
        f'{{"sex": "F", "age": 1, "answer": "yes"}}\n{{"sex": "{SECRET}',
        "bad.jsonl … line 2 is not one whole JSON object … write one object per line",
        name="bad.jsonl",
    ),
    records(GOOD, "bad.parquet … not a whole Parquet file", name="bad.parquet"),
    records(GOOD, "bad.csv.gz … check", name="bad.csv.gz"),
    called("randomize duckdb:people.duckdb --design design.json -o new.csv", "people.duckdb … --query"),
    records(GOOD, "bad.csv is a file … leave the query out", "--query 'SELECT 1'"),
    records(GOOD, "'cvs' … did you mean 'csv'", "--format cvs"),
    # values
    records(GOOD + f"{SECRET},1,yes\n", "column 'sex', record 101 … unknown category (a text) … 'F', 'M'"),
    records(GOOD + " M,1,yes\n", "column 'sex', record 101 … take them away"),
    records(GOOD + "f,1,yes\n", "column 'sex', record 101 … upper and lower case"),
    records(GOOD + "NA,1,yes\n", "column 'sex', record 101 … declare missing = [\"NA\"]"),
    records(GOOD + ",1,yes\n", "column 'sex', record 101: missing value … declare"),
    records(GOOD + "F,977,yes\n", "column 'age', record 101 … unknown category (a number)"),
    records(GOOD.encode() + b"F,1,\xe9\n", "column 'answer', record 101: unknown category"),
    parquet("column 'age', record 1 … (a number) … '0', '1'", sex=["F"], age=[977], answer=["yes"]),
    parquet("column 'sex' has type list … convert it", sex=[[SECRET]], age=[1], answer=["yes"]),
    parquet("column 'sex' contains a value of", sex=[SECRET * 200_000], age=[1], answer=["yes"]),
    (
        {"bad.csv": unicodedata.normalize("NFD", "réponse") + ",x\na,b\n"},
        "randomize bad.csv --design accent.json -o new.csv",
        "Unicode form … \\u0301 … write both names alike",
    ),
    records("sex,age,answer,\x1b[2Jgone\nF,1,yes,x\n", r"'\x1b[2Jgone' is not an attribute … drop it or declare it"),
    records(f"sex,age,answer,{'n' * 10**5}\nF,1,yes,x\n", "nnn…' is not an attribute … drop it or declare it"),
    # proportions and workloads
    proportions("[0.5, 0.5]", "p.json … 2 numbers … one for each … 4 cells"),
    proportions("[" * 100_000, "p.json … nested list|not JSON"),
    proportions(b'{"attributes": ["\xff"]}', "p.json … UTF-8|not JSON"),
    proportions('{"attributes": ["age"], "categories": [[0]], "estimate": [1]}', "p.json … estimate that table"),
    proportions('[["a", "b"], [1, 2]]', "p.json … not a list of numbers"),
    called("power --design design.json --attributes sex,answer --truth p.json", "p.json … check the path"),
    workload("w.toml", b"\xff", "w.toml … UTF-8"),
    workload("w.json", "[" * 100_000, "w.json … not JSON"),
    workload("w.json", '{"\\ud800": 1}', "w.json … surrogate … write the whole character"),
    workload("w.toml", '[[tables]]\nattributes = ["height"]', "no attribute 'height' … 'sex'"),
    # specifications from data
    called("spec records.csv --bins sex=3 -o new.toml", "column 'sex' … leave out its bins"),
    called("spec records.csv --bins agee=3 -o new.toml", "'agee' is missing … did you mean 'age'"),
    called("spec records.csv --bins age=x", "age=x|'x'"),
    called(f"spec records.csv --bins age={HUGE}", "too few different values"),
    called("spec records.csv -o new.json", "--output new.json … .toml"),
    # allocations and clusters
    *(
        called(f"allocate spec.toml {options}", said)
        for options, said in (
            ("--total-epsilon 1 --min-epsilon age=x", "name=epsilon"),
            ("--total-epsilon 1 --records-only --protocol sampling", "keeps no records"),
            ("--total-epsilon 1 --n 2000 --standard-error 0.013", "suffices"),
        )
    ),
    *(
        called(f"cluster out.parquet --design design.json {options}", said)
        for options, said in (
            ("--max-combinations 12 --min-dependence 0.2 --algorithm kmeans", "kmeans"),
            ("--max-combinations 12 --min-dependence 0 --clusters 0 --matrix inverse-distance", "clusters"),
            ("--max-combinations 12 --min-dependence 0.2 -o design.json", "design.json is an input of this command"),
            ("--max-combinations 12 --min-dependence 0.2 -o out.parquet", "a design is written as .json"),
        )
    ),
    studied("g.csv --total-epsilon 1 --odds-ratio 2", "--odds-ratio requires --causal"),
    studied("g.csv --total-epsilon 1 --causal 2 --n x", "--n 'x'"),
    studied("g.csv --causal 2", "--total-epsilon"),
    # what is read, or a table that cannot be tested
    estimated("sex -o out.parquet", "out.parquet is an input of this command"),
    estimated("sex --html out.parquet", "a page is written as .html"),
    called("estimate 'o*.parquet' --design design.json --attributes sex -o out.parquet", "out.parquet is an input"),
    called("design spec.toml --html spec.toml", "a page is written as .html"),
    called("test out.parquet --design design.json --attributes sex", "two attributes"),
    called("test out.parquet --design design.json --attributes sex,age --hypothesis genotypic", "three categories"),
]


@pytest.mark.parametrize(("files", "call", "said"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_one_line_with_place_and_remedy(made, tmp_path, monkeypatch, capsys, files, call, said):
    monkeypatch.chdir(tmp_path)
    for name, content in (made | files).items():
        if callable(content):
            content(name)
        else:
            Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    before = {p: p.stat().st_mtime_ns for p in Path().rglob("*")}
    code = run(shlex.split(call))
    captured = capsys.readouterr()
    assert code == 2, (captured.out, captured.err)
    lines = captured.err.splitlines()
    assert len(lines) == 1, captured.err[:2000]
    assert lines[0].startswith("error: ")
    assert captured.out == ""
    for part in said.split(" … "):
        assert any(p in lines[0] for p in part.split("|")), lines[0]
    assert SECRET not in lines[0] and "977" not in lines[0]
    assert lines[0].isprintable()
    assert len(lines[0]) < 1_000
    assert {p: p.stat().st_mtime_ns for p in Path().rglob("*")} == before
