"""Help, groups and completion: what a person sees who does not know a command yet."""

import io
import json
import os
import re
import subprocess
import sys
import tokenize
from pathlib import Path
from pkgutil import resolve_name

import click
import pytest

import optrr
from optrr.cli.main import COMMANDS, run
from optrr.cli.options import _SECTION, command, option
from optrr.cli.printing import give
from optrr.core.display import Result
from optrr.core.errors import InvalidInput


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_has_help(name):
    made = resolve_name(COMMANDS[name][1])
    assert made.help and made.help.startswith(COMMANDS[name][2].rstrip("."))
    options = [o for o in made.params if isinstance(o, click.Option)]
    assert options and not [o.opts for o in options if not o.help]


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_the_terminal(name, width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    assert run([*name.split(), "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"Usage: optrr {name}")
    headings = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert not [line for line in lines[lines.index(headings[0]) :] if len(line) > width]
    assert "Output:" in headings and len(headings) == len(set(headings))


def test_every_option_with_a_heading_of_its_own_is_a_command_s():
    known = {o for name in COMMANDS for p in resolve_name(COMMANDS[name][1]).params for o in p.opts}
    assert set(_SECTION) - known == {"--help"}


def test_without_a_command_the_most_used_are_listed(capsys):
    assert run([]) == 0
    out = capsys.readouterr().out
    assert all(f"\n  {name} " in out for name in ("plan", "design", "randomize", "estimate", "test"))
    assert "verify" not in out and "--help lists all" in out


class Found(Result):
    def __init__(self, n):
        self.n = n

    def headline(self):
        return f"{self.n} found; ``search_depth='deep'`` finds more, and so does ``n``"

    def summary(self):
        return {"n": self.n}


@command
def found(
    n: int = option("How many.", "--number", default=2),
    deep_search: bool = option("Look deeper."),
) -> None:
    """Find things.

    Much can be found.

    Example: optrr gwas found --number 3
    """
    if n < 0:
        raise InvalidInput(f"``n`` {n}: must be at least 0; see also ``other_name``")
    give(Found(n), deep=deep_search)


@pytest.fixture
def table(monkeypatch):
    for name in [name for name in COMMANDS if name.startswith("gwas")]:
        monkeypatch.delitem(COMMANDS, name)
    monkeypatch.setitem(COMMANDS, "gwas found", ("Genomics", f"{__name__}:found", "Find things."))


def test_commands_stand_in_groups(table, capsys):
    assert run(["gwas"]) == 0
    assert "found" in (out := capsys.readouterr().out) and "Find things." in out and "estimate" not in out
    assert run(["--help"]) == 0
    assert "Association studies" in (out := capsys.readouterr().out) and "Find things." not in out
    assert run(["gwas", "fuond"]) == 2
    assert "did you mean 'found'" in capsys.readouterr().err


def test_help_ends_with_an_example(table, capsys):
    assert run(["gwas", "found", "-h"]) == 0
    out = capsys.readouterr().out
    assert out.endswith("Example:\n  optrr gwas found --number 3\n") and "Much can be found." in out


def test_a_result_is_text_or_json_with_what_is_said_about_it(table, capsys):
    assert run(["gwas", "found", "--deep-search", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"n": 2, "deep": True}
    assert run(["gwas", "found"]) == 0
    # parameters of the library have the names of the options
    assert capsys.readouterr().out == "2 found; --search-depth deep finds more, and so does --number\n"
    assert run(["gwas", "found", "--number", "-1"]) == 2
    assert capsys.readouterr().err == "error: --number -1: must be at least 0; see also --other-name\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(shell, capsys):
    if shell == "bash":
        pytest.importorskip("fcntl")
    assert run(["--completion", shell]) == 0
    assert "_OPTRR_COMPLETE" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "offered"),
    [("optrr est", ["estimate"]), ("optrr design --pres", ["--preserve"]), ("optrr design --preserve p", ["pairs"])],
)
def test_a_shell_completes_commands_options_and_choices(words, offered):
    known = {"_OPTRR_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    done = subprocess.run(
        [sys.executable, "-m", "optrr"], env=os.environ | known, capture_output=True, text=True, check=False
    )
    assert [line.partition(",")[2] for line in done.stdout.splitlines()] == offered


def test_work_of_a_second_shows_on_a_terminal_and_leaves_nothing_behind(monkeypatch):
    pty = pytest.importorskip("pty")
    script = (
        "import time\nfrom optrr.cli import printing\nprinting._PATIENCE = .05\n"
        "with printing.working('designing'):\n"
        "    printing.progress('designing', .5)\n    time.sleep(.4)\n    printing.say('done')\n"
    )
    ours, theirs = pty.openpty()
    done = subprocess.run([sys.executable, "-c", script], stderr=theirs, stdout=subprocess.PIPE, check=True)
    os.close(theirs)
    shown = os.read(ours, 10_000).decode()
    assert "designing 50 %" in shown and shown.endswith("\r\x1b[K") and done.stdout == b"done\n"
    quiet = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert quiet.stderr == b"" and quiet.stdout == b"done\n"


def test_no_module_outside_the_command_line_names_an_option():
    """Messages of the library name parameters, which the command line prints as options."""
    known = {
        o for name in COMMANDS for p in resolve_name(COMMANDS[name][1]).params for o in p.opts if o.startswith("--")
    }
    folder = Path(optrr.__file__).parent
    found = []
    # the Python client, which the wheel has a copy of, is a program of its own
    for file in (f for f in folder.rglob("*.py") if f.parent != folder / "cli" and f.name != "optrr_client.py"):
        for token in tokenize.generate_tokens(io.StringIO(file.read_text(encoding="utf-8")).readline):
            named = known.intersection(re.findall(r"(?<![\w-])--[a-z][a-z-]*", token.string))
            found += [f"{file.name}:{token.start[0]}: {option}" for option in named]
    assert not found
