"""A command is one function in a module of its own, and one line in the registry."""

import json
import sys

import pytest

from optrr.cli.main import COMMANDS, run

MODULE = '''
"""Count the records of a table."""

from typing import Literal

from optrr.cli.inputs import INPUT
from optrr.cli.options import command, option
from optrr.cli.printing import give, warn
from optrr.core.records.reading.registry import open_source
from optrr.core.records.reading.source import RecordsAt


@command
def tally(
    input: RecordsAt = INPUT,
    unit: Literal["rows", "pairs"] = option("What is counted.", default="rows"),
    limit: int | None = option("Warn above this number.", needs="warned"),
    warned: bool = option("Warn above the limit."),
) -> None:
    """Count the records of INPUT."""
    n = sum(batch.num_rows for batch in open_source(input).batches(["a"])) // (2 if unit == "pairs" else 1)
    warn([f"{n} {unit}"] if warned and n > (limit or 0) else [])
    give({"n": n, "unit": unit}, f"{n} {unit}")
'''


@pytest.fixture
def tally(tmp_path, monkeypatch):
    (tmp_path / "tally_module.py").write_text(MODULE)
    (tmp_path / "records.csv").write_text("a;b\n1;2\n3;4\n5;6\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(COMMANDS, "tally", ("Try it", "tally_module:tally", "Count the records of a table."))
    yield
    sys.modules.pop("tally_module", None)


def test_a_registered_command_is_listed_without_being_imported(tally, capsys):
    assert run(["--help"]) == 0
    assert "tally" in (out := capsys.readouterr().out) and "Count the records of a table." in out
    assert "tally_module" not in sys.modules
    assert run(["tally", "--help"]) == 0
    assert "[rows|pairs]" in (out := capsys.readouterr().out) and "--delimiter" in out and "--strict" in out


def test_a_registered_command_runs_with_options_from_its_signature(tally, capsys):
    call = ["tally", "records.csv", "--delimiter", ";"]
    assert run([*call, "--unit", "pairs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"n": 1, "unit": "pairs"}
    assert run(call) == 0
    assert capsys.readouterr().out == "3 rows\n"
    assert run([*call, "--warned", "--strict"]) == 1
    assert "warning: 3 rows" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--unit", "cells"], "'cells' is not one of 'rows', 'pairs'"),
        (["--limit", "2"], "--limit requires --warned; give it too"),
        (["--unit", "rows", "--unit", "pairs"], "--unit is given 2 times"),
        (["--nothing"], "No such option"),
    ],
)
def test_errors_name_the_option_and_exit_with_2(tally, capsys, options, said):
    assert run(["tally", "records.csv", *options]) == 2
    out, err = capsys.readouterr()
    assert not out and err.startswith("error: ") and err.count("\n") == 1 and said in err
