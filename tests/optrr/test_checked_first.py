"""What an output needs is asked before any work: a library that draws, a folder, a name that is no directory."""

from __future__ import annotations

import sys

import click
import pytest

import optrr
from optrr.cli.main import _COMMANDS, cli, run
from optrr.cli.outputs import Target

DESIGN = ["design", "--attribute", "a=2:1", "--attribute", "b=3:1"]
# Paths that commands write to, by their options; all others are read. "--key" of longitudinal-perturb is made by --new-key.
PLOTS = {"--manhattan", "--qq", "--forest", "--region-plot", "--figures"}
WRITTEN = {"--output", "--report", "--plant", "--ld-output", "--state", *PLOTS}


def _options() -> list[tuple[str, click.Option]]:
    made = [(name, cli.get_command(click.Context(cli), name)) for name in _COMMANDS]
    return [(name, p) for name, command in made for p in command.params if isinstance(p, click.Option)]  # type: ignore[union-attr]


def test_every_path_that_is_written_to_is_checked_as_one() -> None:
    kinds = {(name, p.opts[-1]): p.type for name, p in _options() if isinstance(p.type, click.Path)}
    written = {key for key, kind in kinds.items() if isinstance(kind, Target)}
    assert {option for _, option in written} == WRITTEN
    assert written == {key for key in kinds if key[1] in WRITTEN}
    # pages and plots are drawn
    drawn = {key for key, kind in kinds.items() if isinstance(kind, Target) and kind.drawn}
    assert drawn == {key for key in kinds if key[1] in {"--report", *PLOTS}} | {("demo", "--output")}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ([*DESIGN, "-o", "d.json", "--report", "d.html"], "figures need matplotlib, which is not installed"),
        (["demo", "-o", "demo.html"], "figures need matplotlib, which is not installed"),
        ([*DESIGN, "-o", "none/d.json"], "cannot write none/d.json: there is no directory none; create it first"),
        ([*DESIGN, "-o", "d.json", "--report", "."], "cannot write .: it is a directory; name a file in it"),
    ],
)
def test_what_cannot_be_written_is_said_before_a_solve(call, said, tmp_path, monkeypatch, capsys):
    def no_work(*_: object, **__: object) -> None:
        raise AssertionError("work was done first")

    monkeypatch.chdir(tmp_path)
    if "matplotlib" in said:
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setattr("optrr.cli.designing.make_design", no_work)
    monkeypatch.setattr("optrr.cli.demo.demonstrate", no_work)
    assert run(call) == 2
    out, error = capsys.readouterr()
    assert said in error and error.startswith("error: ") and error.count("\n") == 1 and not out
    assert not list(tmp_path.iterdir())


def test_plink_files_need_their_library_before_anybody_is_read(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "bed_reader", None)
    assert run(["gwas-perturb", "in.csv", "--design", "d.json", "-o", str(tmp_path / "out.bed")]) == 2
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
