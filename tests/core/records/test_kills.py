"""Runs that die: killed at random moments by each signal, a rerun leaves exactly one release, and nothing else.

Every run is a forked child of a process that has imported the program but not yet used it, so that a moment drawn at random
falls into the run and not into its imports. The moments reach from the start of the run to its usual end; runs that end before
their signal are not counted.
"""

import itertools
import os
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import optrr

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGKILL")
N = 10_000

DRIVER = """
import os, random, signal, sys, time
from pathlib import Path
from optrr.cli.main import main
import optrr.cli.releasing, optrr.core.mechanisms.release, optrr.core.records.reading.text_files
import optrr.core.records.reading.arrow_files, polars, pandas

folder, number, kills, seed = Path(sys.argv[1]), getattr(signal, sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
arguments, companions = sys.argv[5].split(), sys.argv[6].split()
target = companions[0]
os.chdir(folder)
moments = random.Random(seed)

# a shell may have started us with signals ignored; a user's terminal has not
for each in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(each, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

def start():
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1); os.dup2(null, 2)
        try:
            main(arguments)
        except SystemExit as end:
            os._exit(end.code or 0)
    return child

def finish():
    began = time.monotonic()
    status = os.waitpid(start(), 0)[1]
    assert status == 0, f"the rerun ended with {status}"
    return time.monotonic() - began

def files():
    return {p.name: p.read_bytes() for p in Path().iterdir() if p.is_file()}

usual = sorted(finish() for _ in range(2))[1]
first = files()
finish()
assert all(files()[name] != first[name] for name in companions)
inputs = set(files()) - set(companions)
died = sent = 0
while died < kills:
    sent += 1
    assert sent < 20 * kills, "the runs end before the signals come"
    before = files()
    child = start()
    time.sleep(moments.uniform(0, usual))
    os.kill(child, number)
    died += os.waitpid(child, 0)[1] != 0
    after = files()
    folders = [p.name for p in Path().iterdir() if p.is_dir()]
    if number != signal.SIGKILL:
        assert not folders, folders
    for name in inputs:
        assert after[name] == before[name], name
    # the files of a release are moved one after the other, the one that others belong to last
    mixed = target in after and len({after.get(name) == before[name] for name in companions}) > 1
    assert not mixed, "mixed"
    finish()
    now = files()
    assert set(now) == inputs | set(companions), sorted(now)
    assert not [p for p in Path().iterdir() if p.is_dir()]
    assert now[target] != before[target]
print(f"{number.name}: {sent} signals to runs of {usual:.2f} s; after every rerun one release and nothing else")
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    rng = np.random.default_rng(1)
    made = {}
    table = pa.table({f"a{i}": rng.integers(0, 4, N).astype(str) for i in range(4)})
    design = optrr.design({f"a{i}": [str(k) for k in range(4)] for i in range(4)}, 1.0)
    for kind in ("csv", "parquet"):
        made[kind] = tmp_path_factory.mktemp(kind)
        pq.write_table(table, made[kind] / "true.parquet")
        pa_csv.write_csv(table, made[kind] / "true.csv")
        optrr.save(design, made[kind] / "design.json")
    return made


def killed(folder, name, kills, seed, command, companions):
    call = [sys.executable, "-c", DRIVER, str(folder), name, str(kills), str(seed), command, companions]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def randomize(kind):
    sidecar = " out.csv.optrr.json" if kind == "csv" else ""
    return f"randomize true.{kind} --design design.json -o out.{kind}", f"out.{kind}{sidecar}"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="runs are forked")
@pytest.mark.parametrize(("name", "kind"), list(itertools.product(SIGNALS, ("csv", "parquet"))))
def test_kills_of_randomizing_a_table(folders, name, kind):
    assert "one release and nothing else" in killed(folders[kind], name, 8, 7, *randomize(kind))


def test_the_process_dies_of_the_signal_and_says_so(tmp_path):
    script = (
        "import os, signal, sys\n"
        "from optrr.cli.main import Ended, cleaned_up, die_of\n"
        # what runs in the background of a terminal is started with SIGHUP ignored, and ignored signals stay ignored
        "if sys.argv[1] != 'SIGINT': signal.signal(getattr(signal, sys.argv[1]), signal.SIG_DFL)\n"
        "try:\n"
        "    with cleaned_up():\n"
        "        try:\n"
        "            os.kill(os.getpid(), getattr(signal, sys.argv[1]))\n"
        "        finally:\n"
        "            os.kill(os.getpid(), signal.SIGTERM)\n"
        "            print('cleaned', flush=True)\n"
        "except Ended as ended:\n"
        "    die_of(ended)\n"
    )
    for name in ("SIGTERM", "SIGHUP"):
        done = subprocess.run([sys.executable, "-c", script, name], capture_output=True, text=True, check=False)
        assert done.returncode == -getattr(signal, name)
        assert (
            done.stdout == "cleaned\n" and done.stderr == f"error: ended by {name}; no output was left half-written\n"
        )
    interrupted = subprocess.run([sys.executable, "-c", script, "SIGINT"], capture_output=True, text=True, check=False)
    assert interrupted.stdout == "cleaned\n" and "KeyboardInterrupt" in interrupted.stderr


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_that_comes_while_an_object_is_finalized_is_not_lost(name):
    """Python drops what is raised in a finalizer: without a second signal the run would go on, and could not be ended."""
    script = (
        "import os, signal, sys, time\n"
        "from optrr.cli.main import cleaned_up\n"
        "class Batch:\n"
        "    def __del__(self):\n"
        "        os.kill(os.getpid(), getattr(signal, sys.argv[1]))\n"
        "        time.sleep(0)\n"
        "with cleaned_up():\n"
        "    try:\n"
        "        batch = Batch()\n"
        "        del batch\n"
        "        time.sleep(20)\n"
        "        print('went on')\n"
        "    finally:\n"
        "        print('cleaned')\n"
    )
    done = subprocess.run([sys.executable, "-c", script, name], capture_output=True, text=True, check=False)
    assert done.stdout == "cleaned\n" and "Exception ignored" not in done.stderr
    assert done.returncode != 0


EVERY_STEP = """
import contextlib, itertools, os, signal, sys, tempfile
from pathlib import Path
import optrr.cli, optrr.core.records.atomic as atomic

signals = sys.modules["optrr.cli.main"]  # the name is the function's

number, first, stride = getattr(signal, sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
watched = {signals.__file__, atomic.__file__, contextlib.__file__}
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
FAILED, INTERRUPTED, TOO_FEW = 7, 8, 9

def run(folder, last):
    steps = 0
    def trace(frame, event, arg):
        nonlocal steps
        if frame.f_code.co_filename not in watched:
            return None
        frame.f_trace_opcodes = True
        steps += event == "opcode"
        if event == "opcode" and steps == last:
            os.kill(os.getpid(), number)
        return trace
    sys.settrace(trace)
    with signals.cleaned_up(), atomic.whole_files([folder / "out.csv", folder / "out.json"]) as paths:
        for path in paths:
            path.write_text("new")
    sys.settrace(None)
    return steps

for tried, last in enumerate(itertools.count(first, stride)):
    with tempfile.TemporaryDirectory() as name:
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            try:
                steps = run(Path(name), last)
            except signals.Ended as ended:
                signals.die_of(ended)
            except KeyboardInterrupt:
                os._exit(INTERRUPTED)
            except BaseException:
                os._exit(FAILED)
            os._exit(TOO_FEW if steps < last else 0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == TOO_FEW:
            break
        left = sorted(os.listdir(name))
        assert code == (INTERRUPTED if number == signal.SIGINT else -number), (last, code)
        assert left in ([], ["out.csv", "out.json"]), (last, left)
print(tried)
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
@pytest.mark.parametrize(("first", "stride"), [(5, 97), pytest.param(1, 1, marks=pytest.mark.slow)])
def test_a_signal_at_any_step_of_the_interpreter_leaves_nothing(name, first, stride):
    call = [sys.executable, "-c", EVERY_STEP, name, str(first), str(stride)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) * stride > 1000, "the run takes more than a thousand steps"
