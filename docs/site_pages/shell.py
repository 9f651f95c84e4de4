"""Runs in each page's kernel before its first cell: ``%%sh`` and ``%%bash``, whose output is what a terminal would show.

IPython's own hands output on in pieces of a hundred bytes, which do not end where lines do, and asks commands for colours.
"""

import os
import subprocess

from IPython.core.getipython import get_ipython

_COLOURS = ("CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR")
_ANYWAY = "--no-raise-error"


def _run(shell: str, line: str, commands: str) -> None:
    """Run a cell's commands up to the first that fails, and print all their output at once."""
    plain = {name: value for name, value in os.environ.items() if name not in _COLOURS}
    # what is printed to either stream appears in the order in which it was printed
    plain["PYTHONUNBUFFERED"] = "1"
    ended = subprocess.run(
        [shell, "-ec", commands],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=plain,
        check=False,
    )
    print(ended.stdout, end="")
    if line.strip() != _ANYWAY:
        ended.check_returncode()


def sh(line: str, cell: str) -> None:
    """The magic ``%%sh``."""
    _run("sh", line, cell)


def bash(line: str, cell: str) -> None:
    """The magic ``%%bash``."""
    _run("bash", line, cell)


for _magic in (sh, bash):
    get_ipython().register_magic_function(_magic, "cell")
