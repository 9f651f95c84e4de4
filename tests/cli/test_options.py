"""Options: what an output needs is asked before any work; what a call has no use for, or lacks the library for, is refused."""

import sys
from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any

import click
import numpy as np
import pandas as pd
import pytest

import optrr
from optrr import InvalidInput, design
from optrr.analysis.regression.formulas import Formula
from optrr.cli.main import COMMANDS, run
from optrr.cli.outputs import Target
from optrr.core.display.charts import new_figure
from optrr.genomics.genotypes import required

DESIGN = ["design", "--attribute", "a=2:1", "--attribute", "b=3:1"]
# Paths that commands write to, by their options; all others are read. --new-secret makes that of --secret.
WRITTEN = {"--output", "--html", "--worksheet"}


def _options() -> list[tuple[str, click.Option]]:
    made = [(name, resolve_name(home)) for name, (_, home, _) in COMMANDS.items()]
    return [(name, p) for name, command in made for p in command.params if isinstance(p, click.Option)]


def test_every_path_that_is_written_to_is_checked_as_one() -> None:
    kinds = {(name, p.opts[-1]): p.type for name, p in _options() if isinstance(p.type, click.Path)}
    written = {key for key, kind in kinds.items() if isinstance(kind, Target)}
    assert {option for _, option in written} == WRITTEN
    assert written == {key for key in kinds if key[1] in WRITTEN}
    # pages and plots are drawn
    drawn = {key for key, kind in kinds.items() if isinstance(kind, Target) and kind.drawn}
    assert drawn == {key for key in kinds if key[1] == "--html"}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ([*DESIGN, "-o", "d.json", "--html", "d.html"], "figures need matplotlib, which is not installed"),
        ([*DESIGN, "-o", "none/d.json"], "cannot write none/d.json: there is no directory none; create it first"),
        ([*DESIGN, "-o", "d.json", "--html", "."], "cannot write .: it is a directory; name a file in it"),
    ],
)
def test_what_cannot_be_written_is_said_before_a_solve(call, said, tmp_path, monkeypatch, capsys):
    def no_work(*_: object, **__: object) -> None:
        raise AssertionError("work was done first")

    monkeypatch.chdir(tmp_path)
    if "matplotlib" in said:
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setattr("optrr.cli.designing.make_design", no_work)
    assert run(call) == 2
    out, error = capsys.readouterr()
    assert said in error and error.startswith("error: ") and error.count("\n") == 1 and not out
    assert not list(tmp_path.iterdir())


def test_plink_files_need_their_library_before_anybody_is_read(tmp_path, monkeypatch, capsys):
    optrr.save(optrr.design({"status": 2, "rs1": 3}, 1.0), tmp_path / "d.json")
    monkeypatch.setitem(sys.modules, "bed_reader", None)
    design = ["--design", str(tmp_path / "d.json")]
    assert run(["gwas", "randomize", "in.csv", *design, "-o", str(tmp_path / "out.bed")]) == 2
    assert "bed-reader, which is not installed" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["estimate", "test"])
def test_records_that_say_too_little_are_no_bad_input(command, tmp_path, capsys):
    made = optrr.design({"a": 2, "b": 3}, 1.0)
    optrr.save(made, tmp_path / "d.json")
    (tmp_path / "x.csv").write_text("a,b\n0,2\n")
    call = [command, str(tmp_path / "x.csv"), "--design", str(tmp_path / "d.json"), "--attributes", "a,b", "--json"]
    written = ["-o", str(tmp_path / "out.csv")] if command == "estimate" else []
    assert run([*call, *written]) == 1
    out, error = capsys.readouterr()
    assert error.splitlines()[-1].startswith("error: 1 record") and "count at least 2" in error and not out
    assert not (tmp_path / "out.csv").exists()
    # for those who catch it, it is what it was
    assert issubclass(optrr.TooFewRecords, optrr.InvalidInput)


CALL = ("--design", "design.json", "--attributes", "a,b")
SHARES = ("--proportions", "0.3,0.2,0.1,0.4")
TEST = ("test", "records.csv", *CALL)
GOODNESS = ("--hypothesis", "goodness-of-fit", *SHARES)
HOMOGENEITY = ("--hypothesis", "homogeneity", "--group", "others.csv")
WEIGHTED = ("--weights", "w")
POWER = ("power", *CALL, "--truth", SHARES[1])
WIDTH = (*POWER, "--width", "0.2")
REFUSED = [
    ("--draws", "7", (*TEST, "--given", "c")),
    ("--draws", "1999", (*TEST, *GOODNESS)),
    ("--draws", "7", (*TEST, *HOMOGENEITY)),
    ("--draws", "7", (*TEST, "--calibration", "asymptotic")),
    ("--random-state", "7", (*TEST, "--calibration", "asymptotic")),
    ("--draws", "7", (*TEST, *WEIGHTED)),
    ("--random-state", "7", (*TEST, *WEIGHTED)),
    ("--lonely-psu", "centred", TEST),
    ("--lonely-psu", "centred", ("estimate", "records.csv", *CALL)),
    ("--alpha", "0.05", WIDTH),
    ("--power", "0.8", WIDTH),
    ("--n", "9", WIDTH),
    ("--confidence", "0.95", POWER),
    ("--simultaneous", None, POWER),
    ("--random-state", "1", ("model", "records.csv", *CALL, "--terms", "a*b")),
    ("--clusters", "3", ("cluster", "records.csv", *CALL[:2], "--max-combinations", "9", "--min-dependence", "0.1")),
    ("--control", "no", ("gwas", "study", "g.csv", "--total-epsilon", "1")),
    ("--n", "500", ("verify", "design.json")),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("refusals")
    made = optrr.design(dict.fromkeys("abc", 2), dict.fromkeys("abc", 3.0), method="kronecker")
    optrr.save(made, folder / "design.json")
    pd.DataFrame({"v1": [0, 1, 2]}).to_csv(folder / "g.csv", index=False)
    records = pd.DataFrame(np.random.default_rng(1).integers(0, 2, (400, 3)), columns=list("abc"))
    for name in ("records", "others"):
        records.assign(w=1 + np.arange(400) % 2).to_csv(folder / f"{name}.csv", index=False)
    return folder


@pytest.mark.parametrize(("option", "value", "call"), REFUSED)
def test_an_option_without_use_is_refused(place, monkeypatch, capsys, option, value, call):
    monkeypatch.chdir(place)
    assert run([*call, option, *([] if value is None else [value])]) == 2
    out, err = capsys.readouterr()
    assert not out and option in err and err.count("\n") == 1


@pytest.mark.parametrize("call", [TEST, (*TEST, *WEIGHTED), WIDTH])
def test_the_same_call_without_it_is_answered(place, monkeypatch, call):
    monkeypatch.chdir(place)
    assert run([*call]) == 0


USES: dict[str, tuple[str, Callable[[], Any], str]] = {
    "figures": ("matplotlib.figure", new_figure, "figures need matplotlib, which is not .*'optrr[reports]'"),
    "formulas": ("formulaic", lambda: Formula.of("y ~ x"), "formulas need formulaic, .*'optrr[regression]'"),
    "genotypes": (
        "bed_reader",
        lambda: required("bed_reader"),
        "need bed-reader, .*'optrr[genomics]'",
    ),
}


@pytest.mark.parametrize("use", USES)
def test_what_is_missing_is_said_with_its_extra(use: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, call, said = USES[use]
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InvalidInput, match=said.replace("[", r"\[").replace("]", r"\]")) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_a_design_needs_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, *_ in USES.values():
        monkeypatch.setitem(sys.modules, module, None)
    assert design({"a": 2, "b": 3}, 1.0).epsilon > 0


def test_a_seed_is_taken_by_drawn_tests_of_records_with_public_columns(tmp_path, monkeypatch, capsys):
    """Proportions are tested without the weights, by tables that are drawn."""
    monkeypatch.chdir(tmp_path)
    made = 'epsilon = 1\n[public]\nweight = "w"\n[[attributes]]\nname = "a"\nsize = 2\n'
    (tmp_path / "s.toml").write_text(made)
    pd.DataFrame({"a": [0, 1] * 20, "w": 1.0}).to_csv(tmp_path / "t.csv", index=False)
    for call in ("design s.toml -o d.json", "randomize t.csv --design d.json -o r.csv"):
        assert run(call.split()) == 0
    tested = "test r.csv --design d.json --attributes a --proportions 0.5,0.5 --random-state 1 --json"
    assert run(tested.split()) == 0
    capsys.readouterr()
    assert run([*tested.split(), "--draws", "9"]) == 2
    assert "--draws: not available in a test of goodness-of-fit" in capsys.readouterr().err
