"""Feeds inputs to a target in a process of its own, where a crash, a hang or too much memory ends that process and is told.

The process works through many inputs. Before each it notes which one it is in memory that it shares with its parent, and sets a
timer: the system ends it after five seconds of processor time, in native code as well. How much memory an input takes is read
from the system afterwards.
"""

from __future__ import annotations

import faulthandler
import gc
import mmap
import os
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.mutations import resident

SECONDS = 5.0
# Seconds by the clock, for what waits without computing.
_WAITING = 60.0
MEMORY = 1 << 30
# Bytes of the longest input, and of the report of an escape.
_LONGEST, _REPORT = 1 << 20, 1 << 16

# Takes an input and a folder of its own; whatever it raises is an escape.
Feed = Callable[[bytes, Path], None]


@dataclass(frozen=True)
class Finding:
    """What went wrong, in words that are alike for one cause, and with which input."""

    what: str
    data: bytes
    report: str = ""


class Notes:
    """What a worker is doing, in memory that its parent reads when it has ended."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 16 + _LONGEST)

    def begin(self, data: bytes) -> None:
        """Note the input that is about to be fed."""
        kept = data[:_LONGEST]
        self._memory[16 : 16 + len(kept)] = kept
        self._memory[8:16] = len(kept).to_bytes(8, "little")
        self._memory[0:8] = (self.count + 1).to_bytes(8, "little")

    @property
    def count(self) -> int:
        """Inputs that have been begun."""
        return int.from_bytes(self._memory[0:8], "little")

    @property
    def data(self) -> bytes:
        """The last of them."""
        return self._memory[16 : 16 + int.from_bytes(self._memory[8:16], "little")]


class Worker:
    """Inside the process: feeds one input after another, and writes escapes down."""

    def __init__(self, feed: Feed, notes: Notes, escapes: Path, folder: Path) -> None:
        self._feed, self._notes, self._escapes, self._folder = feed, notes, escapes, folder
        self._known: set[str] = set()
        self._data = b""

    @property
    def count(self) -> int:
        """Inputs that have been begun."""
        return self._notes.count

    def limit(self) -> None:
        """From now on: no core file, and not much more address space than memory, so that nothing can fill the computer's."""
        # the parent tells of a crash
        faulthandler.disable()
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # arenas and stacks of threads reserve far more than they use
        most = pages * resource.getpagesize() + 8 * MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        # what Python or a library can tell of only by printing is an escape as well
        sys.unraisablehook = self._unraisable
        for number in (signal.SIGPROF, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        # a parent with a large heap would have each collection look through all of it
        gc.freeze()

    def one(self, data: bytes) -> None:
        """Feed one input."""
        self._data = data
        self._notes.begin(data)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.setitimer(signal.ITIMER_REAL, _WAITING)
        before = resident("VmRSS")
        # the highest resident size starts anew
        Path("/proc/self/clear_refs").write_text("5")
        try:
            self._feed(data, self._folder)
            taken = resident("VmHWM") - before
            assert taken < MEMORY, f"{taken >> 20} MiB"
        except BaseException as error:
            self._note(error, data)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _unraisable(self, told: sys.UnraisableHookArgs) -> None:
        if told.exc_value is not None:
            self._note(told.exc_value, self._data)

    def _note(self, error: BaseException, data: bytes) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        own = [f for f in frames if "optrr" in f.filename and "/fuzz/" not in f.filename] or frames
        what = f"{type(error).__name__} at {Path(own[-1].filename).name}:{own[-1].lineno}"
        if what not in self._known:
            self._known.add(what)
            report = "".join(traceback.format_exception(error))[-_REPORT:]
            place = self._escapes / f"{os.getpid()}-{len(self._known)}"
            place.with_suffix(".what").write_text(f"{what}\n{report}", encoding="utf-8", errors="backslashreplace")
            place.with_suffix(".data").write_bytes(data)


_ENDS = {signal.SIGPROF: f"hangs for {SECONDS:g} s", signal.SIGALRM: f"waits for {_WAITING:g} s"}


def in_a_worker(feed: Feed, work: Callable[[Worker], None]) -> tuple[int, list[Finding]]:
    """Let a forked process do ``work``; returns how many inputs it began, and what went wrong."""
    notes = Notes()
    with tempfile.TemporaryDirectory() as name:
        escapes, folder = Path(name) / "escapes", Path(name) / "folder"
        escapes.mkdir()
        folder.mkdir()
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if not child:
            worker, code = Worker(feed, notes, escapes, folder), 1
            try:
                os.chdir(folder)
                worker.limit()
                work(worker)
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        noted = [_read(each) for each in sorted(escapes.glob("*.what"))]
    if os.WIFSIGNALED(status):
        number = signal.Signals(os.WTERMSIG(status))
        noted.append(Finding(_ENDS.get(number, f"dies of {number.name}"), notes.data))
    elif os.WEXITSTATUS(status):
        noted.append(Finding(f"ends with code {os.WEXITSTATUS(status)}", notes.data))
    return notes.count, noted


def _read(place: Path) -> Finding:
    what, _, report = place.read_text(encoding="utf-8").partition("\n")
    return Finding(what, place.with_suffix(".data").read_bytes(), report)


def fed(feed: Feed, inputs: Iterable[bytes]) -> tuple[int, list[Finding]]:
    """Feed these inputs, in as many processes as it takes; an input that ends its process is left behind."""
    left, count, findings = list(inputs), 0, []
    while left:
        waiting = list(left)

        def work(worker: Worker, waiting: list[bytes] = waiting) -> None:
            for data in waiting:
                worker.one(data)

        begun, noted = in_a_worker(feed, work)
        count, left = count + begun, left[max(begun, 1) :]
        findings += noted
    return count, findings
