"""Solvers print nothing on standard output: the descriptor itself is read, in a process of its own."""

import subprocess
import sys

import pytest

# A HiGHS that prints while it is made, as 1.16 does, by C's own buffer and by the descriptor.
LOUD = """
import ctypes, os, threading
import highspy
C = ctypes.CDLL(None)
quiet = highspy.Highs
def loud():
    C.printf(b"a banner of C\\n")
    os.write(1, b"a banner of the descriptor\\n")
    return quiet()
highspy.Highs = loud
C.printf(b"before\\n")
"""
SOLVE = """
import numpy as np
from optrr_solvers import Problem
from optrr_solvers import solve
from optrr_solvers.programs.backend import silently
def once():
    return solve(Problem(np.array([2, 3, 4]), np.array([1.0, 0.5, 0.7])), method="lp")
"""


def _printed(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="C's printf is called by name")
@pytest.mark.slow
def test_what_a_solver_prints_reaches_nobody() -> None:
    assert _printed(LOUD + SOLVE + 'once(); print("after", flush=True)') == "before\nafter\n"


@pytest.mark.skipif(sys.platform != "linux", reason="C's printf is called by name")
@pytest.mark.slow
def test_threads_that_solve_at_once_leave_standard_output_where_it_was() -> None:
    code = """
here = os.fstat(1).st_ino, len(os.listdir("/proc/self/fd"))
threads = [threading.Thread(target=lambda: [once() for _ in range(10)]) for _ in range(4)]
for thread in threads: thread.start()
child = os.fork()
if child == 0:
    silently(lambda: os.write(1, b"and nobody hears the child\\n"))
    os.write(1, b"the child\\n")
    os._exit(0)
os.waitpid(child, 0)
for thread in threads: thread.join()
assert here == (os.fstat(1).st_ino, len(os.listdir("/proc/self/fd")))
print("after", flush=True)
"""
    assert _printed(LOUD + SOLVE + "once()\n" + code) == "before\nthe child\nafter\n"


@pytest.mark.skipif(sys.platform != "linux", reason="closes a descriptor before it solves")
@pytest.mark.slow
def test_a_closed_standard_output_stays_closed() -> None:
    code = """
os.close(1)
once()
try:
    os.fstat(1)
except OSError:
    os._exit(0)
os._exit(3)
"""
    assert _printed(SOLVE + "import os" + code) == ""
