"""The command line as scripts outside call it: keys, exit codes, one-line errors; and the demonstration."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import optrr
from optrr.cli.main import run
from optrr.core.design.design_file import encoded_design
from optrr.studies.demonstration import TABLES, demonstrate

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
    """A directory with a specification."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.toml").write_text(SPEC)
    return tmp_path


def out_json(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict:
    assert run([*arguments, "--json"]) == code
    text = capsys.readouterr().out
    assert text.count("\n") == 1  # one object, nothing else on standard output
    return json.loads(text)


def test_design_for_people_shows_the_three_epsilons(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["design", "spec.toml"]) == 0
    captured = capsys.readouterr()
    shown = (
        "total epsilon",
        ">=",
        "independent RR",
        "requested",
        "attribute epsilon",
        "conditional",
        "most attenuated pair",
    )
    assert all(word in captured.out for word in shown)
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
    assert "any mechanism that estimates every attribute" in capsys.readouterr().out


def test_verify_fails_loudly_on_an_edit(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = json.loads(encoded_design(optrr.design({"sex": ["F", "M"], "age": 5}, 1.0)))
    Path("edited.json").write_text(json.dumps(record | {"epsilon": 0.9 * record["epsilon"]}))
    printed = out_json(capsys, "verify", "edited.json", code=1)
    assert printed["holds"] is printed["digest"] is False
    assert [c["name"] for c in printed["checks"] if not c["holds"]] == ["total epsilon"]
    Path("records.csv").write_text("sex,age\nF,1\n")
    assert run(["randomize", "records.csv", "--design", "edited.json", "-o", "out.csv"]) == 2
    assert "changed after" in capsys.readouterr().err and not Path("out.csv").exists()


@pytest.mark.slow
@pytest.mark.parametrize("command", [[sys.executable, "-m", "optrr"], [str(Path(sys.executable).with_name("optrr"))]])
def test_the_package_runs_as_the_command_line(command: list[str]) -> None:
    """With Python's -m, and by its own name where it is installed."""
    if not Path(command[0]).exists():
        pytest.skip("the optrr command is not installed in this environment")
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert optrr.__version__ in done.stdout
    bad = subprocess.run([*command, "design", "--attribute", "a=1:1"], capture_output=True, text=True, check=False)
    assert bad.returncode == 2 and bad.stderr.startswith("error: ") and bad.stderr.count("\n") == 1


LOUD = """
import ctypes, os, sys, threading, time
from optrr.cli import main
from optrr.cli import printing
C = ctypes.CDLL(None)
def print_json(value, ours=printing.print_json):
    C.printf(b"kept back by C\\n")
    os.write(1, b"by the descriptor\\n")
    os.system("echo a child")
    ours(value)
    os.write(1, b"and afterwards\\n")
printing.print_json = print_json
main(["power", *"--attributes a,b --design".split(), sys.argv[1], *"--truth .3,.2,.2,.3 --json".split()])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="C's printf is called by name")
@pytest.mark.slow
def test_nothing_but_json_whatever_libraries_print(tmp_path) -> None:
    design = str(tmp_path / "design.json")
    made = [sys.executable, "-m", "optrr", "design", "--attribute", "a=2:1", "--attribute", "b=2:1", "-o", design]
    subprocess.run(made, check=True, capture_output=True)
    done = subprocess.run([sys.executable, "-c", LOUD, design], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["attributes"] == ["a", "b"]
    assert {"kept back by C", "by the descriptor", "a child", "and afterwards"} <= set(done.stderr.splitlines())


@pytest.mark.skipif(sys.platform == "win32", reason="descriptors of POSIX")
@pytest.mark.slow
@pytest.mark.parametrize("how", [">&-", "2>&-", "| true", ">/dev/full"])
def test_a_place_that_takes_nothing_is_no_traceback(how: str) -> None:
    done = subprocess.run(
        f"{sys.executable} -m optrr design --attribute a=2:1 --json {how}",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONUNBUFFERED": "1"},
    )
    assert "Traceback" not in done.stderr + done.stdout
    if how == "2>&-":
        assert json.loads(done.stdout)["epsilon"] == 1.0


# Fixed seed; estimates lie within 5 standard errors of the truth but for a false-alarm rate below 1e-4 over all cells.
SEED = 11


def test_estimates_lie_near_the_truth_and_the_optimum_wins() -> None:
    shown = demonstrate(SEED)
    best, kept, _, independent = (d.epsilon for d in shown.designs.values())
    assert best < kept < independent == pytest.approx(8.0)
    assert [truth.domain.names for truth, _ in shown.tables] == [tuple(t) for t in TABLES]
    for truth, estimates in shown.tables:
        assert truth.n == 32561 and truth.proportions.sum() == pytest.approx(1)
        for made in estimates.values():
            assert np.all(np.abs(made.estimate - truth.proportions) < 5 * made.standard_error)
        _, expected = shown.errors(truth, estimates)
        assert expected["independent"] > 3 * expected["pairs visible"]
    text = str(shown)
    for word in ("32561 records", "sex × income", "education × income", "truth", "times that of pairs visible"):
        assert word in text


@pytest.mark.slow
def test_the_demo_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert out_json(capsys, "demo", "--random-state", "1")["n"] == 32561
