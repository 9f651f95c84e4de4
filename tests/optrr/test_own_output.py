"""A command's standard output is its own, whatever a library writes to the descriptor, and whenever."""

import json
import subprocess
import sys

import pytest

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
main(["power", *"--attributes a,b --design".split(), sys.argv[1], *"--proportions .3,.2,.2,.3 --json".split()])
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
