"""No reader, command or request can be made to escape, hang, crash or fill memory: the kept corpus, and changes of it.

``python -m tests.fuzz.run`` does the same for 200,000 inputs of each target that coverage guides.
"""

import random
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("resource", reason="limits of memory and time are POSIX's")
if not Path("/proc/self/clear_refs").exists():
    pytest.skip("how much memory an input takes is read from Linux", allow_module_level=True)
pytest.importorskip("starlette", reason="the collector needs the extra serve")

from tests.fuzz.changes import changed
from tests.fuzz.engine import Finding, fed
from tests.fuzz.targets import TARGETS, Target

# Changed inputs of each target, relative to its share.
CHANGED = 12
_SELDOM = 0.25


def told(findings: list[Finding]) -> str:
    return "\n".join(f"{f.what}: {f.data[:400]!r}\n{f.report}" for f in findings)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_what_is_fed_is_read_or_refused(target: Target) -> None:
    corpus, rng = target.corpus(), random.Random(target.name)
    # of what takes long to be fed a third will do here
    start = corpus if target.share > _SELDOM else corpus[::3]
    inputs = start + [changed(rng.choice(corpus), rng, target.longest) for _ in range(round(CHANGED * target.share))]
    count, findings = fed(target.feed, inputs)
    assert not findings, told(findings)
    assert count == len(inputs)


@pytest.mark.slow
def test_inputs_that_coverage_guides_are_read_or_refused() -> None:
    pytest.importorskip("atheris", reason="atheris is not installed (pip install 'optrr[fuzz]')")
    root = Path(__file__).parents[2]
    call = [sys.executable, "-m", "tests.fuzz.run", "--inputs", "4000"]
    done = subprocess.run(call, cwd=root, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2000:]


@pytest.mark.slow
def test_escapes_hangs_crashes_and_memory_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def feed(data: bytes, folder: object) -> None:
        del folder
        if data == b"escape":
            raise KeyError("x")
        if data == b"hang":
            while True:
                pass
        if data == b"crash":
            import ctypes  # noqa: PLC0415 (for this alone)

            ctypes.string_at(0)
        if data == b"memory":
            bytearray(b"x") * (1 << 27)

    monkeypatch.setattr("tests.fuzz.engine.SECONDS", 1.0)
    monkeypatch.setattr("tests.fuzz.engine.MEMORY", 1 << 26)
    names = [b"good", b"escape", b"hang", b"good", b"crash", b"memory", b"good"]
    count, findings = fed(feed, names)
    assert count == len(names)
    assert {f.data: f.what.split(" at ")[0].split(" for ")[0] for f in findings} == {
        b"escape": "KeyError",
        b"hang": "hangs",
        b"crash": "dies of SIGSEGV",
        b"memory": "AssertionError",
    }
