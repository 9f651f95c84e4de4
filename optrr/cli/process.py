"""The process that runs a command: what it prints, and how a signal ends it.

Standard output is a command's own: what libraries print there goes to standard error. A library in C writes to file
descriptor 1 and knows nothing of ``sys.stdout``, so the two part: ``sys.stdout`` keeps the place that the descriptor had, and
the descriptor is that of standard error from then on. It stays so until the process ends, since C prints what it has kept
back only then. No command opens ``/dev/stdout`` by name: outputs that are pipes or devices are refused.

Signals that end a run end it cleanly: what it was writing is removed first, then the process dies of the signal. Schedulers
send SIGTERM, a closed terminal sends SIGHUP; by default both end a Python process without a chance to clean up. Only commands
that write records catch them, and only while they do: a solver that computes for minutes would otherwise not heed them until
it is done.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from traceback import clear_frames
from types import FrameType
from typing import Any

import click

_OUTPUT, _ERRORS = 1, 2


def keep_for_ourselves() -> None:
    """Give ``sys.stdout`` a descriptor of its own; nothing where it is no descriptor 1, as in a notebook or under tests."""
    before = sys.stdout
    try:
        if not isinstance(before, io.TextIOWrapper) or before.fileno() != _OUTPUT:
            return
        before.flush()
        os.fstat(_ERRORS)
        ours = os.dup(_OUTPUT)
    except (OSError, ValueError):  # closed, here or at the other end, which the first line that is printed says
        return
    sys.stdout = io.TextIOWrapper(
        open(ours, "wb", buffering=0 if before.write_through else -1),  # noqa: SIM115 (open until the process ends)
        encoding=before.encoding,
        errors=before.errors,
        newline=None if os.name == "nt" else "",
        line_buffering=before.line_buffering,
        write_through=before.write_through,
    )
    os.dup2(_ERRORS, _OUTPUT)


_ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


# Seconds after which a signal that Python lost is sent again.
_AGAIN = 0.05
# A shell reports this code more than a signal's number for a process that died of it.
_KILLED = 128


class Ended(BaseException):
    """A signal asked for the end; not an Exception, so that nothing on the way mistakes it for a failure."""

    def __init__(self, number: int) -> None:
        self.number = number


@contextmanager
def cleaned_up() -> Iterator[None]:
    """Let the block clean up when SIGTERM, SIGHUP or an interrupt comes; ignored signals stay ignored.

    Raises
    ------
    Ended, KeyboardInterrupt
        once that is done. Whoever runs commands lets the process die of the signal: see :func:`die_of`.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    caught = [s for s in (*_ENDING, signal.SIGINT) if signal.getsignal(s) is not signal.SIG_IGN]
    before = {s: signal.getsignal(s) for s in caught}
    ending = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal ending
        ending = True
        for s in caught:
            signal.signal(s, signal.SIG_IGN)  # a second signal must not disturb the cleaning up
        raise KeyboardInterrupt if number == signal.SIGINT else Ended(number)

    def arm() -> None:
        for s in caught:
            signal.signal(s, end)

    def restore() -> None:
        for s, handler in before.items():
            signal.signal(s, handler)

    try:
        try:
            arm()
            with _not_lost(arm):
                yield
        finally:
            if not ending:
                restore()
    except (Ended, KeyboardInterrupt) as ended:
        # a context manager that had just begun, or was about to end, is known to the traceback's frames alone: without them
        # it cleans up
        clear_frames(ended.__traceback__)
        restore()
        raise


def die_of(ended: Ended) -> int:
    """End the process as the signal would have; returns the exit code where signals do not end a process."""
    clear_frames(ended.__traceback__)
    click.echo(f"error: ended by {signal.Signals(ended.number).name}; no output was left half-written", err=True)
    signal.signal(ended.number, signal.SIG_DFL)
    os.kill(os.getpid(), ended.number)
    return _KILLED + ended.number


@contextmanager
def _not_lost(arm: Callable[[], None]) -> Iterator[None]:
    """Send a signal again that came while Python finalized an object: it drops whatever is raised there, and goes on."""
    before = sys.unraisablehook

    def dropped(what: Any) -> None:
        if not isinstance(what.exc_value, Ended | KeyboardInterrupt):
            before(what)
            return
        arm()
        number = what.exc_value.number if isinstance(what.exc_value, Ended) else signal.SIGINT
        # raised from here it would be dropped, too
        threading.Timer(_AGAIN, os.kill, (os.getpid(), number)).start()

    sys.unraisablehook = dropped
    try:
        yield
    finally:
        sys.unraisablehook = before
