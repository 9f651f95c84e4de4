"""Notes which functions of the project a benchmark runs and which of its files it opens.

Python imports this module by itself at start wherever its folder is on the path, so processes that a benchmark starts are
traced as well. Lines are appended to the file that OPTRR_TRACE names at the moment something is first seen, so nothing is
lost when a process ends abruptly. Without OPTRR_TRACE nothing happens.
"""

from __future__ import annotations

import os
import sys
import threading
from types import CodeType, FrameType

# Flag of a code object that belongs to a function: bodies of classes and modules run when they are imported.
_FUNCTION = 0x1
_WRITING = os.O_WRONLY | os.O_RDWR


class _Trace:
    """Appends a line for everything that is seen for the first time under one of the watched folders."""

    def __init__(self, target: str, folders: tuple[str, ...]) -> None:
        # appended in one call each, so that lines of several processes never mix
        self._target = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._folders = folders
        self._seen: set[object] = set()

    def code(self, code: CodeType) -> None:
        if code not in self._seen:
            self._seen.add(code)
            if code.co_flags & _FUNCTION and code.co_filename.startswith(self._folders):
                self._write("F", code.co_filename, code.co_qualname)

    def call(self, frame: FrameType, event: str, argument: object) -> None:
        # ``None`` asks Python not to report what happens inside the function
        self.code(frame.f_code)

    def started(self, code: CodeType, offset: int) -> object:
        self.code(code)
        return sys.monitoring.DISABLE

    def audited(self, event: str, arguments: tuple[object, ...]) -> None:
        if event != "open" or not isinstance(arguments[0], str | bytes | os.PathLike):
            return
        path = os.path.abspath(os.fsdecode(arguments[0]))
        if path.startswith(self._folders) and not path.endswith((".py", ".pyc")) and "__pycache__" not in path:
            mode, flags = arguments[1], arguments[2]
            writes = any(c in mode for c in "wax+") if isinstance(mode, str) else bool(int(str(flags)) & _WRITING)
            if (path, writes) not in self._seen:
                self._seen.add((path, writes))
                self._write("W" if writes else "R", path)

    def _write(self, *parts: str) -> None:
        os.write(self._target, ("\t".join(parts) + "\n").encode())


def _start() -> None:
    target = os.environ.get("OPTRR_TRACE")
    if not target:
        return
    trace = _Trace(target, tuple(os.environ["OPTRR_TRACE_FOLDERS"].split(os.pathsep)))
    sys.addaudithook(trace.audited)
    if sys.version_info >= (3, 12):
        # each function is reported once and then runs at full speed
        sys.monitoring.use_tool_id(sys.monitoring.COVERAGE_ID, "optrr benchmarks")
        sys.monitoring.register_callback(sys.monitoring.COVERAGE_ID, sys.monitoring.events.PY_START, trace.started)
        sys.monitoring.set_events(sys.monitoring.COVERAGE_ID, sys.monitoring.events.PY_START)
    else:
        threading.settrace(trace.call)
        sys.settrace(trace.call)


_start()
