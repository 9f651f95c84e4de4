"""``python -m optrr`` is the command line, also where its script is not on the path."""

from __future__ import annotations

import subprocess
import sys

import optrr


def test_the_package_runs_as_the_command_line() -> None:
    done = subprocess.run([sys.executable, "-m", "optrr", "--version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert optrr.__version__ in done.stdout
    wrong = subprocess.run([sys.executable, "-m", "optrr", "nothing"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2 and wrong.stderr.count("\n") == 1
