"""Checks of files of ours: what a check says, and a file's checks under limits of time and memory.

A file of a few kilobytes can ask for hours: wide knots, many balls, heavy certificates. What its checks may take is known from
its sizes before any is done, roughly and never too low: the estimates take no advantage of what the sums leave out, and their
constants were measured on a computer of 2020. They are hundreds of times what honest designs of many attributes take, and
cannot tell one from the other. So whatever may take long is checked in a process of its own, which the system ends where it
takes too much: there what the checks take is measured. A file that takes long to be read is read there as well, and not before.

The process imports the same code, gets the file's bytes through standard input, and answers with the checks or with a refusal.
"""

import importlib
import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from optrr.core.display.result import TableResult
from optrr.core.domain.public import NONE, PublicColumns
from optrr.core.errors import InvalidInput, OptrrError, in_one_line
from optrr.core.provenance.sealed import Content, Given, path_of, read_named
from optrr_solvers import BallLaw, Certificate, CountLaw, Law, Solution, TableLaw
from optrr_solvers.certificates.certificate import EXACT_CELLS, cell_count
from optrr_solvers.certificates.grid_bound import MAX_WINDOW
from optrr_solvers.laws.block import BlockLaw
from optrr_solvers.laws.count import MAX_CELLS
from optrr_solvers.laws.weighted_ball import MAX_COUNTED, MAX_NODES, WeightedBall
from optrr_solvers.sampling.diagram import MOST_LAYERS, MOST_STATES

Record = TypeVar("Record")

# Numbers may err by this much to the side that promises less: a total or conditional ε that is too high, an accuracy or a lower
# bound that is too low.
SAME = 1e-9
# To the other side they may not err; where they come from exp and log they may differ in the last places, which another
# machine rounds otherwise. 2^-46 of 1 + the number is sixty times what one exp and one log do to it.
LAST_PLACES = 2.0**-46
# Honest designs of a thousand to a hundred thousand attributes are checked in 2 to 4 s on one core of 2024; slower computers
# get twice that. Whatever the file, a command is done within 10 s and 1 GB, the start of both processes included.
_SECONDS, _MEMORY = 8, 0.58e9
# Whoever loads a design to work with it allows it more for each byte beyond so many: twice what the file of a hundred thousand
# attributes, or of a million, takes.
_SMALL, _SECONDS_EACH, _MEMORY_EACH = 1 << 24, 4e-7, 40.0
# A file of more bytes than this is read in the other process, too: reading so many takes a tenth of a second.
_READ_HERE = 1 << 20
_OUT_OF_MEMORY = 3
# Checks that are done at once take no more by these estimates, which came out at two to twenty times what was measured.
MOST_SECONDS = 8.0
MOST_MEMORY = 7 << 27
# Reading a file takes some ten times its size in memory; the design of 250,000 attributes has as many bytes.
MOST_BYTES = 1 << 26
# Seconds for one state of an automaton: in words of 64 bits, and more where a threshold has many.
_STATE, _STATE_WORD = 1e-6, 5e-8
# Words of a threshold at most: one more is refused before it is used.
MOST_WORDS = 96
# Seconds for one ball, however small: for each of its layers, and for its sums.
_LAYER, _BALL = 2e-4, 3e-3
# Nats that one more word of a threshold resolves.
_WORD_NATS = 44.0
# Seconds and bytes for one frequency of one class: exponentials of complex numbers, a dozen vectors of them at once.
_FREQUENCY, _FREQUENCY_BYTES, _CLASSES_AT_ONCE = 1.3e-6, 200, 32
# Seconds for one step of arithmetic on an array of doubles, and on one of Python's integers.
_STEP, _INTEGER_STEP = 1e-8, 1e-6
# Bytes of one of Python's integers in an array.
_INTEGER_BYTES = 100
# Seconds for the marginal of one pair where a law has no table of them.
_MARGINAL = 1e-4


@dataclass(frozen=True)
class Check:
    """One claim: its name, what was stated, what was recomputed, how, and whether it holds."""

    name: str
    stated: str
    recomputed: str
    how: str
    holds: bool

    def line(self) -> str:
        """In one line."""
        verb = "holds" if self.holds else "FAILS"
        return f"{self.name} {verb}: stated {self.stated}, recomputed {self.recomputed} ({self.how})"

    def summary(self) -> dict[str, Any]:
        """As a JSON object."""
        return {k: getattr(self, k) for k in ("name", "holds", "stated", "recomputed", "how")}


def total_check(stated: float, drawn: float, how: str) -> Check:
    """Whether a total ε that is stated, in nats, is the one that is drawn: not below it, nor above by more than rounding."""
    holds = drawn - LAST_PLACES * (1 + drawn) <= stated <= drawn + SAME * (1 + drawn)
    return Check("total epsilon", f"{stated:.9g}", f"{drawn:.9g}", how, holds)


@dataclass(frozen=True, repr=False)
class Verification(TableResult):
    """All checks of one design, and whether its file is as it was written (None where it comes from no file).

    Of a design file also ``design``, the digest that reports and randomized records name it by, and the columns
    that it does not protect. ``unchecked`` is what a file states that cannot be known from it alone, one line each.
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
        """Verified or not, and what fails."""
        failed = [c.name for c in self.failed] + (["digest"] if self.digest is False else [])
        return f"verified, {len(self.checks)} checks hold" if self.holds else "NOT verified: " + ", ".join(failed)

    def to_arrow(self) -> pa.Table:
        """One row per check: name, holds, stated, recomputed, how."""
        return pa.Table.from_pylist([c.summary() for c in self.checks])

    def summary(self) -> dict[str, Any]:
        """The command line's JSON object."""
        return super().summary() | ({"unchecked": list(self.unchecked)} if self.unchecked else {})


class _Reply(msgspec.Struct):
    verification: Verification | None = None
    refused: str = ""


@dataclass(frozen=True)
class Limits:
    """Seconds of processor time, its own start included, and bytes beyond those of that start."""

    seconds: int
    memory: int

    @staticmethod
    def of(raw: bytes, loading: bool = False) -> "Limits":
        """What a file of these bytes may take; more for a large one where it is loaded to work with."""
        more = max(0, len(raw) - _SMALL) if loading else 0
        return Limits(math.ceil(_SECONDS + _SECONDS_EACH * more), round(_MEMORY + _MEMORY_EACH * more))

    def __str__(self) -> str:
        return f"{self.seconds} s or {self.memory / 1e9:.2g} GB"


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

        Raises InvalidInput where it cannot be read as what it should be; where it is ``limited``, and has more than 64 MB or
        takes longer.
        """
        if limited:
            refuse_large(path, self.what)
        return self._checked(read_named(path, self.what), path, limited, loading=False)[0]

    def loaded(self, path: Given, *, limited: bool = True) -> Record:
        """What a file holds that is as it was written and in which every number holds.

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
            raise InvalidInput(f"{self.what} {path} does not hold: {result.failed[0].line()}; {self.remedy}")
        return self.decoded(raw, path) if record is None else record

    def _checked(self, raw: bytes, source: Given, limited: bool, loading: bool) -> tuple[Verification, Record | None]:
        """The checks, and the record where it was read here."""
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
        """What the other process says of a file's bytes and its name, within :meth:`Limits.of` those bytes."""
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
                f"the checks of {source} take more than {limits}, the most that a file of its size may take; where you trust "
                "who wrote it, use --no-limit (limited=False)"
            ) from None
        if reply.verification is None:
            raise InvalidInput(reply.refused)
        return reply.verification


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
        reply = _Reply(result)
    except OptrrError as error:
        reply = _Reply(refused=str(error))
    except MemoryError:
        sys.exit(_OUT_OF_MEMORY)
    sys.stdout.buffer.write(msgspec.json.encode(reply))


@dataclass(frozen=True)
class Work:
    """Seconds, and bytes held at once; sums of both."""

    seconds: float
    memory: float

    def __add__(self, other: "Work") -> "Work":
        return Work(self.seconds + other.seconds, self.memory + other.memory)


def refuse_large(path: Given, what: str = "design file") -> None:
    """Raise InvalidInput where a file has more than ``MOST_BYTES``; one that is missing is left to its reader."""
    at = path_of(path)
    size = len(path.raw) if isinstance(path, Content) else at.stat().st_size if at.is_file() else 0
    if size > MOST_BYTES:
        raise InvalidInput(
            f"{what} {path} has {size} bytes, more than {MOST_BYTES} bytes; where you trust who wrote it, use "
            "--no-limit (limited=False)"
        )


def is_heavy(*solutions: Solution) -> bool:
    """Whether the checks of designs in one file may take more than ``MOST_SECONDS`` or ``MOST_MEMORY``, by :func:`work`."""
    needed = sum(map(work, solutions), Work(0.0, 0.0))
    return needed.seconds > MOST_SECONDS or needed.memory > MOST_MEMORY


def work(solution: Solution) -> Work:
    """An upper estimate for all checks of a design."""
    law, problem = solution.law, solution.problem
    out = _of_law(law) + _of_certificate(solution.certificate)
    if not problem.pairs or isinstance(law, TableLaw):
        return out
    # eigenvalues of all pairs, which are computed where some are to be preserved
    if isinstance(law, BallLaw):
        nodes = sum(min(_nodes(law, x.ball), MAX_NODES) for x in law.balls)
        seconds = _STEP * len(law.classes) ** 2 * nodes
    elif isinstance(law, CountLaw):
        seconds = len(law.classes) ** 2 / 2 * (_MARGINAL + _STEP * law.log_density.size)
    else:
        seconds = problem.m**2 / 2 * _MARGINAL
    return out + Work(seconds, 32.0 * problem.m**2)


def _of_law(law: Law) -> Work:
    if isinstance(law, BlockLaw):
        return sum((_of_law(inner) for _, inner in law.blocks), Work(0.0, 0.0))
    nats = float(np.ptp(law.log_density_range()))
    if isinstance(law, BallLaw):
        balls = [_of_sums(law, x.ball) for x in law.balls]
        # the sums of one ball are done when those of the next begin
        return Work(sum(x.seconds for x in balls), max(x.memory for x in balls)) + _of_ball_states(law, nats)
    if isinstance(law, (CountLaw, TableLaw)):
        cells = law.log_density.size
        states = min(cells * (law.m if isinstance(law, CountLaw) else 2), MOST_STATES)
        sums = Work(_STEP * cells * law.log_density.ndim**2, 64.0 * cells)
        # accuracies in rationals, where the cells are few enough for them
        words = (nats + float(np.log(law.sizes).sum())) / _WORD_NATS
        steps = cells * (law.log_density.ndim + 4) if cells <= EXACT_CELLS else 0
        rationals = Work(steps * (_INTEGER_STEP + _STATE_WORD * words), cells * 16 * words if steps else 0.0)
        return _of_states(states, nats) + sums + rationals
    # a law of more attributes than layers has no automaton
    return _of_states(min(4 * law.m, MOST_STATES) if law.m <= MOST_LAYERS else 0, nats)


def _of_states(states: float, nats: float) -> Work:
    words = 2 + min(nats / _WORD_NATS, MOST_WORDS)
    return Work(states * (_STATE + _STATE_WORD * words**2), states * (60 + 24 * words))


def _of_sums(law: BallLaw, ball: WeightedBall) -> Work:
    groups = len(law.classes)
    cells = math.prod(int(n) + 1 for n in law.counts) if groups <= math.log2(MAX_COUNTED) else math.inf
    if cells <= MAX_COUNTED and not ball.fractions.any():
        sums = Work(_STEP * cells * (groups + 8) * 2, 64.0 * cells)
    else:
        nodes = min(_nodes(law, ball), MAX_NODES)
        sums = Work(
            _FREQUENCY * nodes * (4 + groups / 2), _FREQUENCY_BYTES * nodes * (1 + min(groups, _CLASSES_AT_ONCE) / 2)
        )
    return sums + Work(_BALL + _LAYER * min(law.m, MOST_LAYERS), 0.0)


def _of_ball_states(law: BallLaw, nats: float) -> Work:
    """The totals that the balls reach, and their automaton."""
    if law.m > MOST_LAYERS:
        return Work(0.0, 0.0)
    states = 0.0
    for x in law.balls:
        # at most two or three times those before every attribute, and no more than fit up to the end
        reach = np.sort((x.ball.floors + (x.ball.fractions > 0))[law.class_of].astype(np.float64))[::-1]
        widths = np.minimum(np.cumsum(reach), max(x.ball.end, 0)) + 1
        branches = (3.0 if x.ball.fractions.any() else 2.0) ** np.minimum(np.arange(1, law.m + 1), 64.0)
        states += float(min(np.minimum(widths, branches).sum(), MOST_STATES))
    return Work(_STATE * states, 0.0) + _of_states(min(states, MOST_STATES), nats)


def _nodes(law: BallLaw, ball: WeightedBall) -> float:
    """At least as many frequencies as the ball's transform has."""
    reach = float(law.counts @ (ball.floors + 1.0))
    return 1.1 * (min(reach, 4.0 * MAX_NODES) + 2 * float(ball.knots[-1] - min(int(ball.knots[0]), 0)) + 64)


def _of_certificate(certificate: Certificate | None) -> Work:
    if certificate is None:
        return Work(0.0, 0.0)
    cells, m = cell_count(certificate), sum(len(c) for c in certificate.classes)
    if certificate.effects:
        # a table of more totals is refused before it is made
        rows, columns = (
            sum(abs(v) * len(c) for c, v in zip(certificate.classes, values, strict=False)) + 1
            for values in (certificate.weights, certificate.effects)
        )
        table = min(rows * columns, MAX_NODES)
        return Work(_STEP * m * table, 24.0 * table)
    if cells > MAX_CELLS and not certificate.pairs and not certificate.caps:
        heaviest = sum(abs(w) * len(c) for c, w in zip(certificate.classes, certificate.weights, strict=False))
        # a row beyond the largest window is refused before it is made
        window = min(heaviest, MAX_WINDOW)
        return Work(_STEP * m * window, 32.0 * window)
    cells = min(cells, MAX_CELLS)
    rows = len(certificate.classes) + len(certificate.pairs) + 4
    whole = cells if cells <= EXACT_CELLS or certificate.caps else 0
    return Work(rows * (_STEP * cells + _INTEGER_STEP * whole), 64.0 * cells + 4.0 * _INTEGER_BYTES * whole)


if __name__ == "__main__":
    _main(*sys.argv[1:])
