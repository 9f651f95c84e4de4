"""Checks of a file that optrr wrote: their results, and limits of their time and memory.

A file of a few kilobytes can require hours of checks: wide knots, many balls, heavy certificates. The cost of its
checks is estimated from its sizes before any is done, roughly and never too low: the estimates take no advantage of
terms that the sums leave out, and their constants were measured on a computer of 2020. The estimates are hundreds of
times the cost of proper designs of many attributes, and cannot separate these from hostile files. So a check that may
take long runs in a separate process, which the system ends if it takes too much: there the time and memory of the
checks are measured. A file that takes long to be read is read there as well, and not before.

The process imports the same code, gets the file's bytes through standard input, and answers with the checks or with a refusal.
"""

import importlib
import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import pyarrow as pa

from optrr.core.display.parts import Table
from optrr.core.display.result import TableResult
from optrr.core.domain.public import NONE, PublicColumns
from optrr.core.errors import InvalidInput, OptrrError, in_one_line
from optrr.core.provenance.sealed import Content, Given, path_of, read_named
from optrr_solvers import Solution
from optrr_solvers.work import Work

Record = TypeVar("Record")

# Tolerance for numbers that promise too little: a total or conditional ε that is too high, an accuracy or a lower bound
# that is too low.
SAME = 1e-9
# Tolerance to the other side: only for numbers from exp and log, whose last places another machine may round
# differently. 2^-46 of 1 + the number is sixty times what one exp and one log do to it.
LAST_PLACES = 2.0**-46
# Honest designs of a thousand to a hundred thousand attributes are checked in 2 to 4 s on one core of 2024; slower computers
# get twice that. Whatever the file, a command is done within 10 s and 1 GB, the start of both processes included.
_SECONDS, _MEMORY = 8, 0.58e9
# Loading a design for use allows more time for each byte beyond this number: twice what the file of a hundred thousand
# attributes, or of a million, takes.
_SMALL, _SECONDS_EACH, _MEMORY_EACH = 1 << 24, 4e-7, 40.0
# A file of more bytes than this is read in the other process, too: reading so many takes a tenth of a second.
_READ_HERE = 1 << 20
_OUT_OF_MEMORY = 3
# Largest estimated cost of checks in this process; estimates were two to twenty times the measured cost.
MOST_SECONDS = 8.0
MOST_MEMORY = 7 << 27
# Reading a file takes some ten times its size in memory; the design of 250,000 attributes has as many bytes.
MOST_BYTES = 1 << 26


@dataclass(frozen=True)
class Check:
    """One verified claim.

    Its name, the stated and recomputed values, the method, and whether it holds.
    """

    name: str
    stated: str
    recomputed: str
    how: str
    holds: bool

    def line(self) -> str:
        """Format the check in one line."""
        verb = "holds" if self.holds else "FAILS"
        return f"{self.name} {verb}: stated {self.stated}, recomputed {self.recomputed} ({self.how})"

    def summary(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {k: getattr(self, k) for k in ("name", "holds", "stated", "recomputed", "how")}


def total_check(stated: float, drawn: float, how: str) -> Check:
    """Check that a stated total ε, in nats, covers the drawn distribution.

    It may exceed it only by rounding.
    """
    holds = drawn - LAST_PLACES * (1 + drawn) <= stated <= drawn + SAME * (1 + drawn)
    return Check("total epsilon", f"{stated:.9g}", f"{drawn:.9g}", how, holds)


@dataclass(frozen=True, repr=False)
class Verification(TableResult):
    """All checks of one design, and whether its file is intact.

    None if it comes from no file.

    Of a design file also ``design``, the digest that reports and randomized records name it by, and the columns that it
    does not protect. ``unchecked`` lists the file's statements that cannot be verified from it alone, one line each.

    Examples
    --------
    >>> import optrr
    >>> optrr.verify(optrr.design({"sex": 2, "age": 3}, 1.0)).holds
    True
    """

    checks: tuple[Check, ...]
    digest: bool | None = None
    design: str | None = None
    public: PublicColumns = NONE
    unchecked: tuple[str, ...] = ()

    in_summary = ("holds", "digest", "checks")
    drawn = ("holds",)

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that do not hold; empty for a sound design."""
        return tuple(c for c in self.checks if not c.holds)

    @property
    def holds(self) -> bool:
        """Whether every check holds and the file was not changed."""
        return self.digest is not False and not self.failed

    def headline(self) -> str:
        """State whether all checks hold, and which fail."""
        failed = [c.name for c in self.failed] + (
            ["it was changed after it was written (its digest differs)"] if self.digest is False else []
        )
        if not self.holds:
            return "NOT verified: " + ", ".join(failed)
        return "verified, 1 check holds" if len(self.checks) == 1 else f"verified, {len(self.checks)} checks hold"

    def to_arrow(self) -> pa.Table:
        """Convert to a table with one row per check.

        Columns are name, holds, stated, recomputed, how.
        """
        return pa.Table.from_pylist([c.summary() for c in self.checks])

    def shown(self, most: int | None = None) -> Table:
        """Build the printed table with one row per check."""
        rows = [
            [c.name, "holds" if c.holds else "FAILS", c.stated, c.recomputed, c.how] for c in self.checks[slice(most)]
        ]
        return Table(["check", "verdict", "stated", "recomputed", "how"], rows)

    def sentences(self) -> Sequence[str]:
        """State the digest, its use, and the limits of a file's proof."""
        digest = "" if self.digest is None else "digest holds" if self.digest else "digest FAILS: the file was changed"
        named = [f"design {self.design}"] if self.holds and self.design else []
        public = [self.public.warning()] if named and self.public else []
        return [line for line in (digest, *(f"not checked: {x}" for x in self.unchecked), *named, *public) if line]

    def summary(self) -> dict[str, Any]:
        """Return the JSON object."""
        named = {"design": self.design} if self.holds and self.design else {}
        public = {"public": self.public.summary()} if named and self.public else {}
        return super().summary() | named | public | ({"unchecked": list(self.unchecked)} if self.unchecked else {})


class _Reply(msgspec.Struct):
    verification: Verification | None = None
    refused: str = ""


@dataclass(frozen=True)
class Limits:
    """Limits of processor time and memory for checks.

    Seconds include the process's start; bytes are beyond those of that start.
    """

    seconds: int
    memory: int

    @staticmethod
    def of(raw: bytes, loading: bool = False) -> "Limits":
        """Return the limits for a file of these bytes.

        More for a large file that is loaded to work with.
        """
        more = max(0, len(raw) - _SMALL) if loading else 0
        return Limits(math.ceil(_SECONDS + _SECONDS_EACH * more), round(_MEMORY + _MEMORY_EACH * more))

    def __str__(self) -> str:
        return f"{self.seconds} s or {self.memory / 1e9:.2g} GB"


@dataclass(frozen=True)
class CheckedFiles(Generic[Record]):
    """A kind of file whose numbers are recomputed.

    In this process, or in another one if that may take long.

    ``what`` it is, for messages; ``decoded`` reads its bytes unchecked, ``checks`` recomputes the numbers that they
    state, ``is_heavy`` says whether that may take long. ``apart`` names :meth:`checked` of this object for the other
    process (``module:name``), and ``remedy`` is the advice for a file that fails.
    """

    what: str
    apart: str
    decoded: Callable[[bytes, Given], Record]
    checks: Callable[[Record], Verification]
    is_heavy: Callable[[Record], bool]
    remedy: str = "design again"

    def checked(self, raw: bytes, source: Given) -> Verification:
        """Check a file's content without a limit.

        ``source`` is its location in messages.
        """
        return self._checked(raw, source, limited=False, loading=False)[0]

    def verified(self, path: Given, *, limited: bool) -> Verification:
        """Check a file; failed checks are in the result.

        Raises InvalidInput if it cannot be read as a file of its kind, or if it is ``limited`` and has more than 64 MB
        or takes longer.
        """
        if limited:
            refuse_large(path, self.what)
        return self._checked(read_named(path, self.what), path, limited, loading=False)[0]

    def loaded(self, path: Given, *, limited: bool = True) -> Record:
        """Load a file that is intact and in which every number holds.

        Raises InvalidInput for any other; and where its checks take longer, or more memory, than :class:`Limits` allows to a
        file of its size.
        """
        raw = read_named(path, self.what)
        result, record = self._checked(raw, path, limited, loading=True)
        if not result.digest:
            raise InvalidInput(
                f"{self.what} {path} was changed after it was written (its digest differs); {self.remedy}"
            )
        if result.failed:
            raise InvalidInput(f"{self.what} {path} does not verify: {result.failed[0].line()}; {self.remedy}")
        return self.decoded(raw, path) if record is None else record

    def _checked(self, raw: bytes, source: Given, limited: bool, loading: bool) -> tuple[Verification, Record | None]:
        """Return the checks, and the record if it was read in this process."""
        if limited and len(raw) > _READ_HERE:
            return self._apart(raw, source, loading), None
        record = self.decoded(raw, source)
        try:
            if not (limited and self.is_heavy(record)):
                return self.checks(record), record
        # laws compute their numbers only when asked, so that a wrong law may be refused only here
        except (ValueError, ArithmeticError) as error:
            raise InvalidInput(f"{self.what} {source}: {in_one_line(error)}") from error
        return self._apart(raw, source), record

    def _apart(self, raw: bytes, source: Given, loading: bool = False) -> Verification:
        """Check a file in another process, within :meth:`Limits.of` its bytes."""
        limits = Limits.of(raw, loading)
        order = [self.apart, str(source), str(limits.seconds), str(limits.memory)]
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
            reply = msgspec.json.decode(done.stdout, type=_Reply)
        except (OSError, subprocess.SubprocessError, msgspec.DecodeError):
            raise InvalidInput(
                f"the checks of {source} take more than {limits}, the most that a file of its size may take; if you "
                "trust its author, check it in Python with limited=False"
            ) from None
        if reply.verification is None:
            raise InvalidInput(reply.refused)
        return reply.verification


def _limit(limits: Limits) -> None:
    """Limit this process and disable core files.

    macOS does not enforce the memory limit.
    """
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
        reply = _Reply(result)
    except OptrrError as error:
        reply = _Reply(refused=str(error))
    except MemoryError:
        sys.exit(_OUT_OF_MEMORY)
    sys.stdout.buffer.write(msgspec.json.encode(reply))


def refuse_large(path: Given, what: str = "design file") -> None:
    """Raise InvalidInput if a file has more than ``MOST_BYTES``.

    A missing file is left to its reader.
    """
    at = path_of(path)
    size = len(path.raw) if isinstance(path, Content) else at.stat().st_size if at.is_file() else 0
    if size > MOST_BYTES:
        raise InvalidInput(
            f"{what} {path} has {size} bytes, more than {MOST_BYTES} bytes; if you trust its author, check it in "
            "Python with limited=False"
        )


def is_heavy(*solutions: Solution) -> bool:
    """Check whether verifying designs may exceed the limits.

    ``MOST_SECONDS`` or ``MOST_MEMORY``, for the designs in one file.
    """
    needed = sum(map(_work, solutions), Work())
    return needed.seconds > MOST_SECONDS or needed.memory > MOST_MEMORY


def _work(solution: Solution) -> Work:
    """Estimate the work of all checks of a design from above."""
    law, certificate = solution.law, solution.certificate
    out = law.work() + (Work() if certificate is None else certificate.work())
    # eigenvalues of all pairs, which are computed where some are to be preserved
    return out + law.pair_work() if solution.problem.pairs else out


if __name__ == "__main__":
    _main(*sys.argv[1:])
