"""A file's checks in a process of its own, which the system ends where they take too much time or memory.

A file of a few kilobytes can ask for hours: wide knots, many balls, heavy certificates. What is known of that beforehand
(:mod:`optrr.designs.work`) is hundreds of times what honest designs of many attributes take, and cannot tell one from the
other. The limits here are known before the checks start, too, but what the checks take is measured. A file that takes long to
be read is read there as well, and not before.

The process imports the same code, gets the file's bytes through standard input, and answers with the checks or with a refusal.
"""

from __future__ import annotations

import importlib
import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from optrr.designs.checks import Check, Verification
from optrr.designs.work import refuse_large
from optrr.domain.public import PublicColumns, PublicRecord
from optrr.errors import InvalidInput, OptrrError, in_one_line
from optrr.releases.sealed import Given, read_named

__all__ = ["CheckedFiles", "Limits", "checked_apart"]

Record = TypeVar("Record")

# Honest designs of a thousand to a hundred thousand attributes are checked in 2 to 4 s on one core of 2024; slower computers
# get twice that. Whatever the file, a command is done within 10 s and 1 GB, the start of both processes included.
_SECONDS, _MEMORY = 8, 0.65e9
# Whoever loads a design to work with it allows it more for each byte beyond so many: twice what the file of a hundred thousand
# attributes, or of a million, takes.
_SMALL, _SECONDS_EACH, _MEMORY_EACH = 1 << 24, 4e-7, 40.0
# A file of more bytes than this is read in the other process, too: reading so many takes a tenth of a second.
_READ_HERE = 1 << 20
_OUT_OF_MEMORY = 3


class _Checks(msgspec.Struct):
    checks: list[Check]
    digest: bool | None
    design: str | None
    public: PublicRecord | msgspec.UnsetType = msgspec.UNSET

    @staticmethod
    def of(result: Verification) -> _Checks:
        return _Checks(list(result.checks), result.digest, result.design, result.public.record())

    def verification(self) -> Verification:
        return Verification(tuple(self.checks), self.digest, self.design, PublicColumns.of_record(self.public))


class _Reply(msgspec.Struct):
    verification: _Checks | None = None
    refused: str = ""


@dataclass(frozen=True)
class Limits:
    """Seconds of processor time, its own start included, and bytes beyond those of that start."""

    seconds: int
    memory: int

    @staticmethod
    def of(raw: bytes, loading: bool = False) -> Limits:
        """What a file of these bytes may take; more for a large one where it is loaded to work with."""
        more = max(0, len(raw) - _SMALL) if loading else 0
        return Limits(math.ceil(_SECONDS + _SECONDS_EACH * more), round(_MEMORY + _MEMORY_EACH * more))

    def __str__(self) -> str:
        return f"{self.seconds} s or {self.memory / 1e9:.2g} GB"


def checked_apart(function: str, raw: bytes, source: Given, loading: bool = False) -> Verification:
    """What ``function`` (``module:name``) says of a file's bytes and its name, within :meth:`Limits.of` those bytes.

    Raises
    ------
    InvalidInput
        what the function refuses; and where it does not come to an end within the limits.
    """
    limits = Limits.of(raw, loading)
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
        answer = msgspec.json.decode(done.stdout, type=_Reply)
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError):
        raise InvalidInput(
            f"the checks of {source} take more than {limits}, the most that a file of its size may take; where you trust who "
            "wrote it, use --no-limit (limited=False)"
        ) from None
    if answer.verification is None:
        raise InvalidInput(answer.refused)
    return answer.verification.verification()


@dataclass(frozen=True)
class CheckedFiles(Generic[Record]):
    """One kind of file whose numbers are recomputed: here, or in another process where that may take long.

    ``what`` it is, for messages; ``decoded`` reads its bytes unchecked, ``checks`` recomputes what they state, ``is_heavy``
    says whether that may take long. ``apart`` names :meth:`checked` of this object for the other process (``module:name``),
    and ``remedy`` is what to do with a file that does not hold.
    """

    what: str
    apart: str
    decoded: Callable[[bytes, Given], Record]
    checks: Callable[[Record], Verification]
    is_heavy: Callable[[Record], bool]
    remedy: str = "design again"

    def checked(self, raw: bytes, source: Given) -> Verification:
        """The checks of a file's content, without a limit; ``source`` is where it stands, for messages."""
        return self._checked(raw, source, limited=False, loading=False)[0]

    def verified(self, path: Given, *, limited: bool) -> Verification:
        """All checks of a file; what does not hold is in the result.

        Raises
        ------
        InvalidInput
            where it cannot be read as what it should be; where it is ``limited``, and has more than 64 MB or takes longer.
        """
        if limited:
            refuse_large(path, self.what)
        return self._checked(read_named(path, self.what), path, limited, loading=False)[0]

    def loaded(self, path: Given, *, limited: bool = True) -> Record:
        """What a file holds that is as it was written and in which every number holds.

        Raises
        ------
        InvalidInput
            for any other; and where its checks take longer, or more memory, than :class:`Limits` allows to a file of its size.
        """
        raw = read_named(path, self.what)
        result, record = self._checked(raw, path, limited, loading=True)
        if not result.digest:
            raise InvalidInput(
                f"{self.what} {path} was changed after it was written (its digest differs); {self.remedy}"
            )
        if result.failed:
            raise InvalidInput(f"{self.what} {path} does not hold: {result.failed[0].line()}; {self.remedy}")
        return self.decoded(raw, path) if record is None else record

    def _checked(self, raw: bytes, source: Given, limited: bool, loading: bool) -> tuple[Verification, Record | None]:
        """The checks, and the record where it was read here."""
        if limited and len(raw) > _READ_HERE:
            return checked_apart(self.apart, raw, source, loading), None
        record = self.decoded(raw, source)
        try:
            if not (limited and self.is_heavy(record)):
                return self.checks(record), record
        # laws compute their numbers only when asked, so that a wrong law may be refused only here
        except (ValueError, ArithmeticError) as error:
            raise InvalidInput(f"{self.what} {source}: {in_one_line(error)}") from error
        return checked_apart(self.apart, raw, source), record


def _limit(limits: Limits) -> None:
    """From now on no more than this, and no core file. macOS does not enforce the memory."""
    if os.name != "posix":
        return
    import resource  # noqa: PLC0415 (POSIX only)

    sizes = Path("/proc/self/statm")
    started = int(sizes.read_text().split()[0]) * resource.getpagesize() if sizes.exists() else 0
    for kind, most in (
        (resource.RLIMIT_CPU, limits.seconds),
        (resource.RLIMIT_AS, started + limits.memory),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        if hard == resource.RLIM_INFINITY or most <= hard:
            resource.setrlimit(kind, (most, hard))


def _main(function: str, source: str, seconds: str, memory: str) -> None:
    module, _, name = function.partition(":")
    checks = attrgetter(name)(importlib.import_module(module))
    _limit(Limits(int(seconds), int(memory)))
    raw = sys.stdin.buffer.read()
    try:
        result: Verification = checks(raw, source)
        answer = _Reply(_Checks.of(result))
    except OptrrError as error:
        answer = _Reply(refused=str(error))
    except MemoryError:
        sys.exit(_OUT_OF_MEMORY)
    sys.stdout.buffer.write(msgspec.json.encode(answer))


if __name__ == "__main__":
    _main(*sys.argv[1:])
