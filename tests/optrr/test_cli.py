"""The command line as scripts outside call it: keys, exit codes, one-line errors, nothing left behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest

from optrr.cli.main import cli, run
from optrr.cli.printing import print_table
from optrr.designs.design_file import load_design

SPEC = """
epsilon = 1.0
[[attributes]]
name = "sex"
categories = ["F", "M"]
[[attributes]]
name = "age"
size = 5
epsilon = 1.5
[[attributes]]
name = "answer"
categories = ["yes", "no"]
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a specification, a design that keeps pairs, and 3,000 records."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.toml").write_text(SPEC)
    assert run(["design", "spec.toml", "-o", "design.json", "--preserve", "pairs"]) == 0
    rng = np.random.default_rng(1)
    rows = zip(rng.choice(["F", "M"], 3000), rng.integers(0, 5, 3000), rng.choice(["yes", "no"], 3000), strict=True)
    (tmp_path / "records.csv").write_text("sex,age,answer\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows))
    return tmp_path


def out_json(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict:
    capsys.readouterr()
    assert run([*arguments, "--json"]) == code
    text = capsys.readouterr().out
    assert text.count("\n") == 1  # one object, nothing else on standard output
    return json.loads(text)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    before = sorted(p.name for p in Path().iterdir())
    capsys.readouterr()
    assert run(list(arguments)) == code
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert len(lines) == 1, captured.err
    assert lines[0].startswith("error: ")
    assert captured.out == ""
    assert sorted(p.name for p in Path().iterdir()) == before  # nothing written, no partial file left
    return lines[0]


def test_design_json(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = out_json(capsys, "design", "spec.toml", "-o", "other.json")
    assert {"epsilon", "lower_bound", "gap", "method", "kronecker_epsilon", "seconds", "attributes", "pairs"} <= set(
        printed
    )
    assert printed["epsilon"] == load_design("other.json").epsilon
    inline = out_json(
        capsys, "design", "--attribute", "sex=2:1", "--attribute", "age=5:1.5", "--attribute", "answer=2:1"
    )
    assert inline["epsilon"] == printed["epsilon"]
    capped = out_json(capsys, "design", "spec.toml", "--conditional-cap", "1.6")
    assert max(a["conditional_epsilon"] for a in capped["attributes"]) <= 1.6 + 1e-9
    assert capped["epsilon"] > printed["epsilon"]


def test_design_for_people_shows_the_three_epsilons(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["design", "spec.toml"]) == 0
    captured = capsys.readouterr()
    for word in (
        "total epsilon",
        "lower bound",
        "gap",
        "Kronecker",
        "requested",
        "attribute epsilon",
        "conditional",
        "pair eigenvalue",
    ):
        assert word in captured.out
    assert "--preserve pairs" in captured.err


def test_compare_lists_every_applicable_method(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = out_json(capsys, "compare", "spec.toml")
    by_name = {m["method"]: m for m in printed["methods"]}
    assert {"lp", "reduced", "classes", "inductive", "kronecker"} <= set(by_name)
    for method in ("lp", "classes"):
        assert by_name[method]["epsilon"] == pytest.approx(by_name["reduced"]["epsilon"], abs=1e-9)
    assert by_name["kronecker"]["epsilon"] == pytest.approx(3.5)
    # what is asked for is within what any mechanism may need, which knows nothing of flips
    assert 0 < printed["total_bound"] < by_name["lp"]["epsilon"]
    assert run(["compare", "spec.toml"]) == 0
    assert "no mechanism, whatever people send" in capsys.readouterr().out


def test_perturb_then_verify(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = out_json(
        capsys, "perturb", "records.csv", "--design", "design.json", "-o", "out.parquet", "--random-state", "1"
    )
    assert printed["records"] == 3000
    assert Path("out.parquet").exists()
    assert out_json(capsys, "verify", "design.json")["holds"] is True


def test_verify_fails_loudly_on_an_edit(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = json.loads(Path("design.json").read_text())
    record["epsilon"] *= 0.9
    Path("edited.json").write_text(json.dumps(record))
    printed = out_json(capsys, "verify", "edited.json", code=1)
    assert printed["holds"] is False
    assert printed["digest"] is False
    assert [c["name"] for c in printed["checks"] if not c["holds"]] == ["total epsilon"]
    assert "changed after" in refused(capsys, "perturb", "records.csv", "--design", "edited.json", "-o", "out.csv")


def test_bad_records_are_refused_and_leave_nothing(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = Path("records.csv").read_text().splitlines()
    cases = {
        "unknown category": ([*good, "F,9,yes"], "unknown category (a number above all of them)"),
        "missing value": ([*good, "F,,yes"], "age"),
        "missing column": (["sex,age", "F,1"], "'answer' is missing"),
        "extra column": (["sex,age,answer,name", "F,1,yes,Ann"], "'name' is not an attribute"),
        "empty file": ([], "empty"),
        "no records": (["sex,age,answer"], "no records"),
    }
    for name, (lines, message) in cases.items():
        Path("bad.csv").write_text("\n".join(lines) + ("\n" if lines else ""))
        line = refused(capsys, "perturb", "bad.csv", "--design", "design.json", "-o", "out.csv")
        assert message in line, (name, line)
    Path("named.csv").write_text("name,sex,age,answer\nAnn,F,1,yes\n")
    call = ("perturb", "named.csv", "--design", "design.json", "-o", "named_out.csv")
    assert "drop it or declare it" in refused(capsys, *call)
    assert out_json(capsys, *call, "--drop", "name")["records"] == 1
    assert "Ann" not in Path("named_out.csv").read_text()
    assert "nothere.csv" in refused(capsys, "perturb", "nothere.csv", "--design", "design.json", "-o", "out.csv")
    assert "out.txt" in refused(capsys, "perturb", "records.csv", "--design", "design.json", "-o", "out.txt")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["design"], "give either SPEC"),
        (["design", "nothere.toml"], "cannot read"),
        (["design", "--attribute", "a=1:1"], "size 1"),
        (["design", "--attribute", "a=2:0"], "epsilon 0"),
        (["design", "--attribute", "a=2:inf"], "epsilon inf"),
        (["design", "--attribute", "a=2:-1"], "epsilon -1"),
        (["design", "--attribute", "a=2"], "'a' has no epsilon"),
        (["design", "--attribute", "a"], "name=size:epsilon"),
        (["design", "--attribute", "a=2:1_0"], "name=size:epsilon"),
        (["design", "--attribute", "a=2:1", "--attribute", "a=3:1"], "declared twice"),
        (["design", "spec.toml", "--method", "closed-form"], "closed-form"),
        (["design", "spec.toml", "--method", "magic"], "magic"),
        (["design", "spec.toml", "--conditional-cap", "0.5"], "raise the cap"),
        (["design", *(f"--attribute=a{i}={i + 2}:1" for i in range(21)), "--method", "reduced"], "up to 20 attributes"),
        (["verify", "records.csv"], "cannot be read as a design or a deployment file"),
        (["design", "spec.toml", "--conditional-cap", "nan"], "the conditional cap is nan"),
        (["design", "spec.toml", "--tolerance", "-1"], "tolerance = -1"),
        (["design", "spec.toml", "--tolerance", "nan"], "tolerance = nan"),
        (["design", "spec.toml", "--method", "kronecker", "--tolerance", "0.1"], "'kronecker' has no tolerance"),
        (["design", "spec.toml", "--method", "kronecker", "--time-limit", "5"], "'kronecker' has no time limit"),
        (["design", "spec.toml", "--time-limit", "0"], "time limit = 0"),
        (["design", "spec.toml", "-o", "spec.toml"], "spec.toml ends in '.toml'; a design is written as .json"),
        (["design", "spec.toml", "-o", "."], "is a directory"),
        (["design", "spec.toml", "-o", ""], "is a directory"),
        (["design", "spec.toml", "-o", "no/such/place.json"], "create it first"),
        (["frobnicate"], "No such command"),
        (["design", "--frobnicate"], "No such option"),
    ],
)
def test_bad_calls(place: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert message in refused(capsys, *arguments)


@pytest.mark.slow
def test_every_option_says_what_it_does() -> None:
    context = click.Context(cli)
    commands = {name: cli.get_command(context, name) for name in cli.list_commands(context)}
    assert len(commands) > 15
    for name, command in commands.items():
        assert command is not None and command.help, name
        options = [o for o in command.params if isinstance(o, click.Option)]
        assert options and not [o.opts for o in options if not o.help], name


def test_installed_command_answers() -> None:
    command = Path(sys.executable).with_name("optrr")
    if not command.exists():
        pytest.skip("the optrr command is not installed in this environment")
    done = subprocess.run([str(command), "--help"], capture_output=True, text=True, check=True)
    assert "design" in done.stdout
    bad = subprocess.run([str(command), "design", "--attribute", "a=1:1"], capture_output=True, text=True, check=False)
    assert bad.returncode == 2
    assert bad.stderr.startswith("error: ")
    assert "Traceback" not in bad.stderr


def test_estimate_reads_what_perturb_wrote(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["perturb", "records.csv", "--design", "design.json", "-o", "out.csv", "--random-state", "3"]) == 0
    printed = out_json(capsys, "estimate", "out.csv", "--design", "design.json", "--attributes", "age,sex")
    assert {"attributes", "categories", "estimate", "standard_error", "n"} <= set(printed)
    assert printed["attributes"] == ["age", "sex"]
    assert np.shape(printed["estimate"]) == np.shape(printed["standard_error"]) == (5, 2)
    assert np.sum(printed["estimate"]) == pytest.approx(1)
    for method in ("norm-sub", "clip", "mle", "ibu", "adjusted"):
        call = ("estimate", "out.csv", "--design", "design.json", "--attributes", "age,sex")
        table = out_json(capsys, *call, "--method", method)
        assert np.min(table["estimate"]) >= 0
    assert run(["estimate", "out.csv", "--design", "design.json", "--attributes", "sex"]) == 0
    assert "95% intervals" in capsys.readouterr().out


def test_estimate_refusals(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ("estimate", "records.csv", "--design", "design.json", "--attributes")
    assert "no attribute 'colour'" in refused(capsys, *call, "colour")
    assert "asked for twice" in refused(capsys, *call, "sex,sex")
    assert "confidence" in refused(capsys, *call, "sex", "--confidence", "1.5")
    # three binary attributes at 0.5: the pair's eigenvalue is 0 at the optimum (design §3.2)
    assert run(["design", *(f"--attribute={a}=2:0.5" for a in "abc"), "-o", "hidden.json"]) == 0
    Path("abc.csv").write_text("a,b,c\n" + "0,1,0\n1,0,1\n" * 50)
    line = refused(capsys, "estimate", "abc.csv", "--design", "hidden.json", "--attributes", "a,b")
    assert "--preserve pairs" in line


def test_tests_on_randomized_records(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["perturb", "records.csv", "--design", "design.json", "-o", "out.csv", "--random-state", "3"]) == 0
    for name, df in (("independence", 4), ("trend", 1), ("likelihood-ratio", 4)):
        printed = out_json(
            capsys, "test", "out.csv", "--design", "design.json", "--attributes", "age,sex", "--test", name
        )
        assert {"statistic", "df", "p_value", "n"} <= set(printed)
        assert (printed["df"], printed["n"]) == (df, 3000)
        # the attributes are independent: a p-value below 1e-4 would be a false alarm of that rate, and the seed is fixed
        assert 1e-4 < printed["p_value"] <= 1
    assert run(["test", "out.csv", "--design", "design.json", "--attributes", "age,sex"]) == 0
    assert "degrees of freedom" in capsys.readouterr().out
    asked = ("test", "out.csv", "--design", "design.json", "--attributes", "age,sex", "--test", "likelihood-ratio")
    simulated = out_json(capsys, *asked, "--calibration", "bootstrap", "--bootstrap", "99", "--random-state", "1")
    assert simulated["calibration"] in ("bootstrap", "exact")
    call = ("test", "out.csv", "--design", "design.json", "--attributes")
    assert "two attributes" in refused(capsys, *call, "sex")
    assert "three categories" in refused(capsys, *call, "sex,age", "--test", "genotypic")


def test_a_table_that_is_not_printed_to_a_terminal_is_as_wide_as_columns_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    widths = {}
    for columns in ("", "60", "nonsense"):
        monkeypatch.setenv("COLUMNS", columns)
        print_table("what was said", ["sentence"], [("a word " * 40,)])
        widths[columns] = max(map(len, capsys.readouterr().out.splitlines()))
    assert widths == {"": 120, "60": 60, "nonsense": 120}


def test_large_numbers_stay_whole_in_tables(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("errors", ["way", "error"], [("a", 1.1126463362852278e22), ("b", 7.4587e9), ("c", 236.0163)])
    out = capsys.readouterr().out
    assert "1.1126e+22 │" in out and "7.4587e+09 │" in out and "  236.0163 │" in out  # to the right: read as numbers
