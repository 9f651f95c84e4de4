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


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_the_process_dies_of_the_signal_and_says_so(tmp_path, name):
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from optrr.cli.main import cleaned_up\n"
        "from optrr.core.records.atomic import whole_file\n"
        # what runs in the background of a terminal is started with signals ignored, and ignored signals stay ignored
        "signal.signal(getattr(signal, sys.argv[1]), signal.SIG_DFL)\n"
        "class Batch:\n"
        # Python drops what is raised in a finalizer
        "    def __del__(self):\n"
        "        os.kill(os.getpid(), getattr(signal, sys.argv[1]))\n"
        "with cleaned_up(), whole_file(Path('out.csv')) as partial:\n"
        "    partial.write_text('new')\n"
        "    print(*os.listdir(), flush=True)\n"
        "    batch = Batch()\n"
        "    del batch\n"
        "    print('went on')\n"
    )
    call = [sys.executable, "-c", script, name]
    done = subprocess.run(call, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == -getattr(signal, name) and done.stdout == ".out.csv.partial\n"
    assert done.stderr == f"error: ended by {name}; no incomplete output was left\n"
    assert not os.listdir(tmp_path)


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
            except KeyboardInterrupt:  # before the block, or after it
                os._exit(INTERRUPTED)
            except BaseException:
                os._exit(FAILED)
            os._exit(TOO_FEW if steps < last else 0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == TOO_FEW:
            break
        left = sorted(os.listdir(name))
        assert code == -number or (number == signal.SIGINT and code == INTERRUPTED), (last, code)
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
