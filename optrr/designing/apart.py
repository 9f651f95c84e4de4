"""A file's checks in a process of its own, which the system ends where they take too much time or memory.

A file of a few kilobytes can ask for hours: wide knots, many balls, heavy certificates. What is known of that beforehand
(:mod:`optrr.designing.work`) is hundreds of times what honest designs of many attributes take, and cannot tell one from the
other. The limits here are known before the checks start, too, but what the checks take is measured.

The process imports the same code, gets the file's bytes through standard input, and answers with the checks or with a refusal.
"""

from __future__ import annotations

import importlib
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from optrr.designing.checks import Check, Verification
from optrr.errors import InvalidInput, OptrrError

__all__ = ["Limits", "checked_apart"]

# Honest designs of a thousand to ten thousand attributes are checked in 1 to 3 s on one core of 2024; slower computers get
# three times that. Whatever the file, it is done within 10 s, the process's start included.
_SECONDS, _SECONDS_EACH = 8.0, 2e-4
_MEMORY, _MEMORY_EACH = 0.9e9, 1e4
_OUT_OF_MEMORY = 3


class _Checks(msgspec.Struct):
    checks: list[Check]
    digest: bool | None


class _Answer(msgspec.Struct):
    verification: _Checks | None = None
    refused: str = ""


@dataclass(frozen=True)
class Limits:
    """Seconds of processor time, and bytes beyond those of the process's own start."""

    seconds: int
    memory: int

    @staticmethod
    def of(attributes: int) -> Limits:
        """What the file of a design of so many attributes may take."""
        return Limits(math.ceil(_SECONDS + _SECONDS_EACH * attributes), round(_MEMORY + _MEMORY_EACH * attributes))

    def __str__(self) -> str:
        return f"{self.seconds} s or {self.memory / 1e9:.2g} GB"


def checked_apart(function: str, raw: bytes, source: str | Path, limits: Limits) -> Verification:
    """What ``function`` (``module:name``) says of a file's bytes and its name.

    Raises
    ------
    InvalidInput
        what the function refuses; and where it does not come to an end within the limits.
    """
    order = [function, str(source), str(limits.seconds), str(limits.memory)]
    # the same modules as here, wherever they were imported from
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", __name__, *order],
            input=raw,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            # where the system has no limits of its own, the clock on the wall
            timeout=None if os.name == "posix" else limits.seconds,
            check=True,
        )
        answer = msgspec.json.decode(done.stdout, type=_Answer)
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError):
        raise InvalidInput(
            f"the checks of {source} take more than {limits}, the most that a design of as many attributes may take; where you "
            "trust who wrote it, use --no-limit (limited=False)"
        ) from None
    if answer.verification is None:
        raise InvalidInput(answer.refused)
    return Verification(tuple(answer.verification.checks), answer.verification.digest)


def _limit(limits: Limits) -> None:
    """From now on no more than this, and no core file. macOS does not enforce the memory."""
    if os.name != "posix":
        return
    import resource  # noqa: PLC0415 (POSIX only)

    used, sizes = resource.getrusage(resource.RUSAGE_SELF), Path("/proc/self/statm")
    started = int(sizes.read_text().split()[0]) * resource.getpagesize() if sizes.exists() else 0
    for kind, most in (
        (resource.RLIMIT_CPU, math.ceil(used.ru_utime + used.ru_stime) + limits.seconds),
        (resource.RLIMIT_AS, started + limits.memory),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        if hard == resource.RLIM_INFINITY or most <= hard:
            resource.setrlimit(kind, (most, hard))


def _main(function: str, source: str, seconds: str, memory: str) -> None:
    module, _, name = function.partition(":")
    checks = getattr(importlib.import_module(module), name)
    raw = sys.stdin.buffer.read()
    _limit(Limits(int(seconds), int(memory)))
    try:
        result: Verification = checks(raw, source)
        answer = _Answer(_Checks(list(result.checks), result.digest))
    except OptrrError as error:
        answer = _Answer(refused=str(error))
    except MemoryError:
        sys.exit(_OUT_OF_MEMORY)
    sys.stdout.buffer.write(msgspec.json.encode(answer))


if __name__ == "__main__":
    _main(*sys.argv[1:])
