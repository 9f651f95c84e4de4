"""Nothing that a native library prints where no switch turns it off reaches standard output.

From 1.16 on HiGHS prints a banner while it is made, before any option can be set. It writes to file descriptor 1, which
``sys.stdout`` knows nothing of, so the descriptor itself points elsewhere meanwhile. It belongs to the whole process: another
thread that prints in this moment would not be read either. So only what has no switch runs here, for about a millisecond.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

_Made = TypeVar("_Made")

_STANDARD_OUTPUT = 1
# one thread at a time: a second one would take the first one's detour for the descriptor to put back
_LOCK = threading.Lock()
if hasattr(os, "register_at_fork"):  # a child would inherit the detour, or a lock that nobody opens
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


def silently(make: Callable[[], _Made]) -> _Made:
    """``make()``, with nowhere to print to."""
    with _LOCK, _nowhere():
        return make()


@contextmanager
def _nowhere() -> Iterator[None]:
    try:
        kept = os.dup(_STANDARD_OUTPUT)
    except OSError:  # it is closed already
        yield
        return
    try:
        _flush()  # what others printed before goes where it should
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, _STANDARD_OUTPUT)
        finally:
            os.close(nowhere)
        try:
            yield
        finally:
            _flush()  # or C would keep the text until the descriptor is back
            os.dup2(kept, _STANDARD_OUTPUT)
    finally:
        os.close(kept)


def _flush() -> None:
    """Empty C's buffer of standard output; of nothing else, since a thread that waits for standard input holds that file."""
    with suppress(OSError, AttributeError, TypeError, ValueError):
        library = ctypes.CDLL("ucrtbase" if os.name == "nt" else None)
        library.fflush(_stdout(library))


def _stdout(library: ctypes.CDLL) -> ctypes.c_void_p | None:
    """C's own standard output by its name on Linux or on macOS; None, which means all files, elsewhere."""
    for name in ("stdout", "__stdoutp"):
        with suppress(ValueError):
            return ctypes.c_void_p.in_dll(library, name)
    return None
