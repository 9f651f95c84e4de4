"""A client of optrr in one file, which randomizes one person's record on the person's device. Standard library only.

    sampler = Sampler.load("sampler.json")          # refuses a file that is not what it claims
    diary = Diary("~/.optrr", limit=4)              # what this person has answered, and the most that they want to spend
    report = diary.answer(sampler, {"sex": "F", "income": "3"})
    send(json.dumps(report))                        # and nothing else
    diary.report(sampler)                           # the same again, never a second draw
    diary.ledger()                                  # every design answered, with its epsilon, and the sum

As a program it reads answers as a JSON object from standard input or a file, never from arguments, which shells save and lists
of processes show.

    optrr_client.py [--limit EPSILON] sampler.json DIARY [ANSWERS]      prints the report
    optrr_client.py DIARY                                               prints the ledger

The file is specified in docs/deployment-format.md of the project. Random bytes come from the operating system; there is
no seed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import re
import stat
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_CEILING, Context, Decimal
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, NamedTuple

try:
    import fcntl
except ImportError:  # Windows has no such locks; there, a limit does not hold for two answers at the same moment
    fcntl = None  # type: ignore[assignment]

__all__ = ["AlreadyAnswered", "BeyondLimit", "Diary", "Ledger", "Refused", "Sampler"]

FORMAT = "optrr-deployment/1"
REPORT = "optrr-report/1"
_ENTRY = "optrr-client-entry/1"
# Larger files are not meant for one person's device.
MOST_BYTES = 1 << 22
# Operations on words of 64 bits that the exact total of a file may take: some seconds. Exported files need far fewer.
MOST_WORK = 1 << 32
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
# Bits kept of the smallest number whose ratio is the total: many more than its 15 places need.
_BITS = 1 << 13
# Limits of a question: subsets of one report, cells of a table that one subset is taken from, and bits of a cell's number.
MOST_SUBSETS = 12
MOST_PATTERNS = 1 << 20
MOST_CELLS = 1 << 16
MOST_CELL_BITS = 62
# Limits of a file of trials: how many, and attributes times totals, for whose sums a client takes some seconds.
MOST_TRIALS = 1 << 12
MOST_TRIAL_SUMS = 1 << 24
# |ln ρ| times the number of totals, at most, and the least chances that doubles hold.
MOST_TILT = 2500
LEAST_CHANCE = 1e-290
# Relative error of sums of positive doubles for each attribute: five times what rounding can add.
_ROUNDING = 2.0**-49
_UP = Context(prec=50, rounding=ROUND_CEILING, Emax=10**9, Emin=-(10**9))
_EPSILON = r"(?!-0\.0{15})-?(0|[1-9][0-9]*)\.[0-9]{15}"
_DIGEST = r"[0-9a-f]{64}"
_KEYS = {
    "file": {"format", "software", "design", "attributes", "bits", "layers", "epsilon", "digest"},
    "attribute": {"name", "categories"},
    "epsilon": {"total", "attributes", "conditional"},
    "file of trials": {"format", "software", "design", "attributes", "bits", "trials", "epsilon", "digest"},
    "trials": {"balls", "count", "ends", "uniform"},
    "ball": {"acceptance", "least", "log_ratio", "second_thresholds", "thresholds", "weights"},
    "epsilon of trials": {"total", "attributes", "conditional"},
    "file of questions": {
        "format",
        "software",
        "design",
        "attributes",
        "bits",
        "ends",
        "questions",
        "epsilon",
        "digest",
    },
    "question": {"attributes", "subset_sizes", "likely", "threshold"},
    "epsilon of questions": {"total"},
    "change": {"kind", "attribute", "threshold", "kept", "changed"},
    "second": {"kind", "attribute", "threshold", "kept", "changed", "second_threshold", "second"},
    "uniform": {"kind", "attribute", "next"},
    "choice": {"kind", "ends", "next"},
}

Take = Callable[[int], bytes]


class Refused(ValueError):
    """A file, an answer or a source of random bytes that a client must not use. Never holds an answer of the person."""


class AlreadyAnswered(Refused):
    """A design that this person has answered: a second draw would be a second release."""


class BeyondLimit(Refused):
    """A design that would bring the person's total epsilon above the limit that was declared."""


class _Layer(NamedTuple):
    """``ends`` of a choice; thresholds ``a`` and ``b`` by state; next states: kept (or the only ones), changed, second."""

    kind: str
    attribute: int
    a: Sequence[int]
    b: Sequence[int]
    ways: Sequence[Sequence[int]]


class _Question(NamedTuple):
    """The attributes asked about, and how: subsets of ``subset_sizes`` of ``parts``; a word below ``threshold`` is unlikely."""

    attributes: Sequence[int]
    sizes: Sequence[int]
    parts: Sequence[int]
    subset_sizes: Sequence[int]
    threshold: int
    likely: Sequence[int]

    def kinds(self) -> list[list[tuple[int, int]]]:
        """The patterns of matches with their weights: the unlikely ones, and the likely ones."""
        weights = [1]
        for r, k in zip(self.parts, self.subset_sizes, strict=True):
            weights = [w * (r - k) for w in weights] + [w * k for w in weights]
        likely = set(self.likely)
        return [[(p, w) for p, w in enumerate(weights) if (p in likely) == held] for held in (False, True)]

    def subsets(self, codes: Sequence[int], held: bool, take: Take) -> Iterator[list[int]]:
        """Of each part the members of a random subset, ascending, given a record's codes and whether its pattern is likely."""
        # both are taken in any case, so that the stream's use says nothing of the answer
        kinds = self.kinds()
        numbers = [_below(sum(weight for _, weight in kind), take, 8) for kind in kinds]
        number, patterns = numbers[held], iter(kinds[held])
        pattern, weight = next(patterns)
        while number >= weight:
            number -= weight
            pattern, weight = next(patterns)
        cell = 0
        for i, r in zip(self.attributes, self.sizes, strict=True):
            cell = cell * r + codes[i]
        own = [codes[i] for i in self.attributes] if len(self.parts) == len(self.sizes) else [cell]
        for i, (r, k) in enumerate(zip(self.parts, self.subset_sizes, strict=True)):
            others = [c for c in range(r) if c != own[i]]
            for j in range(k):
                d = _below(r - 1 - j, take)
                others[j], others[j + d] = others[j + d], others[j]
            yield sorted([own[i], *others[: k - 1]] if pattern >> i & 1 else others[:k])


class _Ball(NamedTuple):
    """One ball of a file of trials: as in the file, thresholds as whole numbers."""

    sizes: Sequence[int]
    weights: Sequence[int]
    thresholds: Sequence[int]
    second: Sequence[int]
    least: int
    acceptance: Sequence[int]
    log_ratio: int

    @property
    def end(self) -> int:
        """Totals up to the largest that is accepted."""
        return self.least + len(self.acceptance)

    def trial(self, take: Take) -> list[bool] | None:
        """Which attributes change in one trial; None where it is not accepted."""
        m = len(self.sizes)
        words = struct.unpack(f">{m}QI", _taken(take, 8 * m + 4))
        changed = [word < limit for word, limit in zip(words, self.thresholds, strict=False)]
        heavier = sum(word < limit for word, limit in zip(words, self.second, strict=False))
        place = heavier + sum(w for w, moves in zip(self.weights, changed, strict=True) if moves) - self.least
        return changed if 0 <= place < len(self.acceptance) and words[m] < self.acceptance[place] else None

    def cost(self, count: int) -> tuple[float, float, float]:
        """ln of the chance that no trial is accepted, its chance for one, and ln of the largest density of what is.

        Sums of positive doubles: complements are differences of whole numbers.
        """
        rho, full, beyond = self.log_ratio / 2**40, 1 << 64, 0.0
        most = max(_ln(x / 2**32) - rho * (self.least + k) for k, x in enumerate(self.acceptance))
        f = [1.0] + [0.0] * (self.end - 1)
        for r, w, first, second in zip(self.sizes, self.weights, self.thresholds, self.second, strict=True):
            kept, lighter, heavier = (full - first) / 2**64, (first - second) / 2**64, second / 2**64
            change = _log_sum((_ln(lighter), _ln(heavier) + rho)) + rho * w + math.log(r / (r - 1))
            most += max(math.log(kept * r), change)
            beyond += lighter * sum(f[max(0, self.end - w) :]) + heavier * sum(f[max(0, self.end - w - 1) :])
            light, heavy = [0.0] * w + f, [0.0] * (w + 1) + f
            f = [kept * x + lighter * y + heavier * z for x, y, z in zip(f, light, heavy, strict=False)]
        a = math.fsum(x * y / 2**32 for x, y in zip(self.acceptance, f[self.least :], strict=True))
        rejected = sum(((1 << 32) - x) * y / 2**32 for x, y in zip(self.acceptance, f[self.least :], strict=True))
        _require(a >= LEAST_CHANCE, "almost no trial is accepted")
        none = count * (math.log1p(-a) if a < 1 / 2 else math.log(beyond + sum(f[: self.least]) + rejected))
        return none, a, most - math.log(a)


class _Trials(NamedTuple):
    """Balls that are drawn by rejection, where the share of each ends, and how many trials there are."""

    balls: Sequence[_Ball]
    ends: Sequence[int]
    uniform: int
    count: int

    def drawn(self, codes: Sequence[int], take: Take) -> list[int]:
        """The randomized codes. Every trial is made, so that the stream's use says nothing of the answer."""
        is_uniform = int.from_bytes(_taken(take, 8), "big") < self.uniform
        place = int.from_bytes(_taken(take, 8), "big")
        ball = self.balls[sum(end <= place for end in self.ends)]
        made = [ball.trial(take) for _ in range(self.count)]
        chosen = next((changed for changed in made if changed is not None), None)
        out = []
        for i, (code, r) in enumerate(zip(codes, ball.sizes, strict=True)):
            free, step = _below(r, take), 1 + _below(r - 1, take)
            out.append(free if is_uniform or chosen is None else (code + step) % r if chosen[i] else code)
        return out

    def total(self) -> Decimal:
        """The total epsilon, in nats, rounded up (docs/deployment-format.md, §9)."""
        ends, full = [0, *self.ends, 1 << 64], 1 << 64
        tried = [(full - self.uniform) / 2**64 * ((high - low) / 2**64) for low, high in pairwise(ends)]
        costs = [ball.cost(self.count) for ball in self.balls]
        alpha = self.uniform / 2**64 + math.fsum(
            s * math.exp(none) for s, (none, _, _) in zip(tried, costs, strict=True)
        )
        _require(alpha >= LEAST_CHANCE, "an answer is almost never uniform")
        logs = [
            math.log(s / alpha) + _ln(-math.expm1(none)) + most for s, (none, _, most) in zip(tried, costs, strict=True)
        ]
        total = _log_sum((0.0, *logs)) + (2 * self.count + 3) * len(self.balls[0].sizes) * _ROUNDING
        return _UP.quantize(Decimal(total), Decimal("1e-15"))


def _ln(x: float) -> float:
    return math.log(x) if x else -math.inf


def _log_sum(logs: Sequence[float]) -> float:
    most = max(logs)
    return most if most == -math.inf else most + math.log(math.fsum(math.exp(x - most) for x in logs))


class Sampler:
    """A checked deployment file: its total epsilon is not below the truth. Its other ones are as stated, and not used."""

    def __init__(self, text: bytes) -> None:
        """Refuses (Refused) what the specification tells a client to refuse."""
        content = _content(text)
        self.design: str = content["design"]
        self.names: list[str] = [a["name"] for a in content["attributes"]]
        self.categories: list[list[str | None]] = [a["categories"] for a in content["attributes"]]
        self.epsilon = Decimal(content["epsilon"]["total"])
        self.bits: int = content["bits"]
        asks, sizes = "questions" in content, [len(x) for x in self.categories]
        self._trials = _trials(content["trials"], self.bits, sizes) if "trials" in content else None
        self._layers = _layers(content["layers"], self.bits, len(self.names)) if "layers" in content else []
        self._questions = _questions(content["questions"], self.bits, sizes) if asks else []
        self._ends = _ends(content["ends"], self.bits, len(self._questions)) if asks else []
        _require(self._work() <= MOST_WORK, "its exact sums would take too long; export the design to a smaller size")
        self._codes = [{c: k for k, c in enumerate(x)} for x in self.categories]
        if self.total() > self.epsilon:
            _refuse("its total epsilon is larger than stated")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Sampler:
        """Read and check a deployment file."""
        source = Path(path).expanduser()
        if source.stat().st_size > MOST_BYTES:
            _refuse(f"it has more than {MOST_BYTES} bytes")
        return cls(source.read_bytes())

    def codes(self, record: dict[str, Any]) -> list[int]:
        """Positions of the answers among the categories; numbers and booleans count as their text."""
        if not isinstance(record, dict):
            raise Refused("the record is not a dictionary; give one with an answer for each attribute")
        missing = [n for n in self.names if n not in record]
        if missing or len(record) != len(self.names):
            # what is not an attribute's name may be an answer that was mistaken for one
            given = f"the record has {len(record)} answers for {len(self.names)} attributes"
            raise Refused(
                f"{given}; missing are {missing}" if missing else (f"{given}; remove keys that are not attributes")
            )
        out = []
        for name, codes in zip(self.names, self._codes, strict=True):
            value = record[name]
            text = str(value).lower() if isinstance(value, bool) else value
            if isinstance(text, int | float):
                text = str(int(text) if text == text // 1 else text)
            if not (text is None or isinstance(text, str)) or text not in codes:
                raise Refused(f"the answer to {name!r} is not one of its declared categories")
            out.append(codes[text])
        return out

    def randomized(self, codes: Sequence[int], take: Take = os.urandom) -> list[int]:
        """The randomized codes; ``take`` hands out the next bytes of the stream, and only tests give another one."""
        if self._questions:
            raise Refused("this design asks one question, whose answer is not a record; use draw()")
        if self._trials is not None:
            return self._trials.drawn(codes, take)
        out, s, width = list(codes), 0, self.bits // 8
        for kind, i, thresholds, seconds, ways in self._layers:
            if kind == "choice":
                w = int.from_bytes(_taken(take, width), "big")
                s = ways[0][sum(end <= w for end in thresholds)]
                continue
            r = len(self.categories[i])
            if kind == "uniform":
                out[i] = _below(r, take)
                s = ways[0][s]
                continue
            w = int.from_bytes(_taken(take, width), "big")
            # taken in any case, so that the stream's use says nothing of what changes
            d = _below(r - 1, take)
            if w < thresholds[s]:
                out[i] = (codes[i] + 1 + d) % r
                s = ways[2][s] if w < seconds[s] else ways[1][s]
            else:
                s = ways[0][s]
        return out

    def draw(self, codes: Sequence[int], take: Take = os.urandom) -> dict[str, Any]:
        """What a report says: ``values``, the randomized record; or, of a file of questions, ``table`` and ``cells``."""
        if not self._questions:
            return {"values": [x[c] for x, c in zip(self.categories, self.randomized(codes, take), strict=True)]}
        w, v = (int.from_bytes(_taken(take, self.bits // 8), "big") for _ in range(2))
        asked = sum(end <= w for end in self._ends)
        question = self._questions[asked]
        subsets = question.subsets(codes, v >= question.threshold, take)
        return {"table": asked + 1, "cells": "|".join(" ".join(map(str, members)) for members in subsets)}

    def _work(self) -> int:
        """Operations on words that the sums of a whole check of the file take, roughly: known before any of it is done."""
        words, count = self.bits // 64, len(self._layers)
        return sum(8 * len(x.ways[0]) * words**2 * max(k, count - k) for k, x in enumerate(self._layers))

    def total(self) -> Decimal:
        """The total epsilon of what is drawn, in nats, rounded up in the 15th place: from the integers alone."""
        if self._trials is not None:
            return self._trials.total()
        if self._questions:
            return max(self._asked_total(x) for x in self._questions)
        top = bottom = [1]
        full = 1 << self.bits
        for kind, i, thresholds, seconds, ways in reversed(self._layers):
            if kind == "choice":
                ends = [0, *thresholds, full]
                chances = [high - low for low, high in pairwise(ends)]
                top = [sum(c * top[s] for c, s in zip(chances, ways[0], strict=True))]
                bottom = [sum(c * bottom[s] for c, s in zip(chances, ways[0], strict=True))]
            elif kind == "uniform":
                top, bottom = [top[s] for s in ways[0]], [bottom[s] for s in ways[0]]
            else:
                others, table = len(self.categories[i]) - 1, list(zip(thresholds, seconds, *ways, strict=True))
                top, bottom = (
                    [best((full - a) * others * x[k], (a - b) * x[c] + b * x[h]) for a, b, k, c, h in table]
                    for best, x in ((max, top), (min, bottom))
                )
            # rounded outward, or the numbers would grow by as many bits with every layer
            beyond = max(0, min(x.bit_length() for x in bottom) - _BITS)
            top, bottom = [-(-x >> beyond) for x in top], [x >> beyond for x in bottom]
        return _log(top[0], bottom[0])

    def _asked_total(self, question: _Question) -> Decimal:
        """That of one question: how likely both kinds of patterns are, each over the number of cells that are of its kind."""
        unlikely, likely = (sum(weight for _, weight in kind) for kind in question.kinds())
        over, under = ((1 << self.bits) - question.threshold) * unlikely, question.threshold * likely
        return _log(max(over, under), min(over, under))

    def report(self, record: dict[str, Any]) -> dict[str, Any]:
        """A fresh draw as a report. Every call is a release: use a Diary, which makes one for each design."""
        drawn = self.draw(self.codes(record))
        return {"format": REPORT, "design": self.design, "id": _taken(os.urandom, 16).hex(), **drawn}


class Ledger(NamedTuple):
    """Every design answered with its total epsilon, and their exact sum: what the person has spent, in nats."""

    entries: list[tuple[str, Decimal]]
    total: Decimal


class Diary:
    """A folder with one small file for each design answered: the report that was sent, and what it cost.

    The true record is never written. Two processes that answer at once end with one report: whoever comes second gets
    AlreadyAnswered, and sends nothing. ``limit`` is the most, in nats, that all designs together may cost the person.
    Answers wait for each other, with a limit and without; on Windows, which has no such locks, they do not.
    """

    def __init__(self, folder: str | os.PathLike[str], limit: Decimal | float | str | None = None) -> None:
        self._folder = Path(folder).expanduser()
        self._limit = None if limit is None else _limit(limit)

    def answer(self, sampler: Sampler, record: dict[str, Any]) -> dict[str, Any]:
        """Randomize, remember and return the report.

        Raises AlreadyAnswered for a design that was answered before, and BeyondLimit, before anything is drawn, for one
        that would bring the ledger's sum above the limit.
        """
        sampler.codes(record)  # a record that is refused leaves no folder behind
        # also without a limit: another Diary of this folder may have one, and nothing may be added while it compares
        with self._alone():
            if os.path.lexists(self._path(sampler.design)):
                raise AlreadyAnswered("this design was already answered; send the same report again with report()")
            if self._limit is not None:
                self._check_limit(self._limit, sampler)
            report = sampler.report(record)
            entry = {"format": _ENTRY, "epsilon": f"{sampler.epsilon:f}", "report": report}
            self._write(sampler.design, json.dumps(entry, ensure_ascii=False).encode("utf-8"))
            return report

    def _check_limit(self, limit: Decimal, sampler: Sampler) -> None:
        total = _sum([self.ledger().total, sampler.epsilon])
        if total > limit:
            raise BeyondLimit(f"with this design, the total epsilon would be {total:f}, above the limit {limit:f}")

    def report(self, sampler: Sampler) -> dict[str, Any] | None:
        """The report that was made for this design, to be sent again; None if there is none."""
        path = self._path(sampler.design)
        report: dict[str, Any] | None = self._entry(path)["report"] if os.path.lexists(path) else None
        return report

    def ledger(self) -> Ledger:
        """What was spent in all."""
        # other files may lie there, the deployment file itself for one
        kept = [self._entry(p) for p in sorted(self._folder.glob("*.json")) if _matches(_DIGEST, p.stem)]
        entries = [(x["report"]["design"], Decimal(x["epsilon"])) for x in kept]
        return Ledger(entries, _sum([e for _, e in entries]))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """While nobody else adds to this folder."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._regular(self._folder / "lock", os.O_RDWR | os.O_CREAT) as file:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    @staticmethod
    def _regular(path: Path, flags: int) -> IO[bytes]:
        """A file of this folder, opened as it is: no link to another file, nor a pipe, for which it would wait."""
        try:
            handle = os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o600)
        except OSError as error:
            if not path.is_symlink():
                raise
            raise Refused(f"{path} is a link, but a diary needs regular files; remove it") from error
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise Refused(f"{path} is not a file, but a diary needs regular files; remove it")
        return os.fdopen(handle, "rb")

    def _path(self, design: str) -> Path:
        return self._folder / f"{design}.json"

    def _entry(self, path: Path) -> dict[str, Any]:
        try:
            with self._regular(path, os.O_RDONLY) as file:
                entry = json.loads(file.read().decode("utf-8"))
            named = entry["format"] == _ENTRY and entry["report"]["design"] == path.stem
            whole = named and _matches(_EPSILON, entry["epsilon"]) and not entry["epsilon"].startswith("-")
        except Refused:
            raise
        except (ValueError, KeyError, TypeError):
            whole = False
        if not whole:
            raise Refused(
                f"{path} is not an entry of this diary, so the report for its design is unknown; send nothing"
            )
        result: dict[str, Any] = entry
        return result

    def _write(self, design: str, entry: bytes) -> None:
        """On disk before it is returned, and only where no entry is: a link fails where its name is taken."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=self._folder, suffix=".partial")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(entry)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(partial, self._path(design))
            except FileExistsError:
                raise AlreadyAnswered(
                    "this design was answered in the meantime; send that report with report()"
                ) from None
        finally:
            os.unlink(partial)
        if hasattr(os, "O_DIRECTORY"):
            folder = os.open(self._folder, os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def _limit(given: Any) -> Decimal:
    try:
        # Python writes no whole number of thousands of digits as text
        limit = Decimal(given) if isinstance(given, int) else Decimal(str(given))
    except ArithmeticError:
        limit = Decimal(-1)
    if isinstance(given, bool) or not limit.is_finite() or limit < 0:
        raise Refused(
            f"the diary's limit {repr(given)[:60]} is not a privacy budget; give a number of nats, 0 or more, such "
            "as 4, or None for no limit"
        )
    return limit


def _sum(epsilons: Sequence[Decimal]) -> Decimal:
    """Exact, whatever precision the caller's decimals have."""
    return reduce(_EXACT.add, epsilons, Decimal(0))


def _taken(take: Take, n: int) -> bytes:
    out = take(n)
    if len(out) != n:
        raise Refused("the source of random bytes ended early; nothing was drawn")
    return out


def _below(n: int, take: Take, size: int = 4) -> int:
    """Uniform on 0..n−1: four bytes (or eight) at a time until they are below the largest multiple of n."""
    if n == 1:
        return 0
    limit = (1 << 8 * size) - (1 << 8 * size) % n
    while (w := int.from_bytes(_taken(take, size), "big")) >= limit:
        pass
    return w % n


def _log(over: int, under: int) -> Decimal:
    """ln(over/under), rounded up in the 15th place; exactly 0 for equal ones."""
    if over == under:
        return Decimal(0)
    ratio = _UP.divide(Decimal(over), Decimal(under))
    return _UP.next_plus(_UP.ln(ratio)).quantize(Decimal("1e-15"), context=_UP)


def _refuse(why: str) -> None:
    raise Refused(f"this deployment file cannot be used: {why}")


def _require(holds: bool, why: str) -> None:
    if not holds:
        _refuse(why)


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode("utf-8")


def _no_fraction(text: str) -> None:
    raise ValueError(text)


def _content(text: bytes) -> dict[str, Any]:
    """The file's object: canonical, with the keys of the format and the digest that it states."""
    try:
        content = json.loads(text.decode("utf-8"), parse_float=_no_fraction, parse_constant=_no_fraction)
        same = _canonical(content) == (text[:-1] if text.endswith(b"\n") else text)
    except (ValueError, RecursionError):
        content, same = None, False
    _require(same and isinstance(content, dict), "it is not a canonical JSON object")
    _require(content.get("format") == FORMAT, f"its format is not {FORMAT}")
    kind = next((f" of {key}" for key in ("questions", "trials") if key in content), "")
    _keys(content, f"file{kind}")
    bare = {k: v for k, v in content.items() if k != "digest"}
    _require(content["digest"] == hashlib.sha256(_canonical(bare)).hexdigest(), "its digest differs")
    _require(isinstance(content["software"], str) and _matches(_DIGEST, content["design"]), "it names no design")
    _check_attributes(content["attributes"])
    _keys(content["epsilon"], f"epsilon{kind}")
    _check_epsilon(content["epsilon"], len(content["attributes"]))
    bits = content["bits"]
    _require(type(bits) is int and bits % 64 == 0 and 64 <= bits <= 6144, "bits is out of range")
    result: dict[str, Any] = content
    return result


def _keys(value: Any, what: str) -> None:
    _require(
        isinstance(value, dict) and set(value) == _KEYS[what], f"the keys of the {what} are not those of the format"
    )


def _matches(pattern: str, value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None


def _check_attributes(attributes: Any) -> None:
    _require(isinstance(attributes, list) and bool(attributes), "it has no attributes")
    for a in attributes:
        _keys(a, "attribute")
        name, categories = a["name"], a["categories"]
        _require(isinstance(name, str) and bool(name), "an attribute has no name")
        _require(isinstance(categories, list) and 2 <= len(categories) <= 10**6, f"the categories of {name!r}")
        _require(all(c is None or isinstance(c, str) for c in categories), f"a category of {name!r} is no text")
        _require(len(set(categories)) == len(categories), f"{name!r} has a category twice")
    _require(len({a["name"] for a in attributes}) == len(attributes), "two attributes have one name")


def _check_epsilon(epsilon: Any, m: int) -> None:
    lists = [epsilon[key] for key in ("attributes", "conditional") if key in epsilon]
    _require(all(isinstance(x, list) and len(x) == m for x in lists), f"epsilon is not for {m} attributes")
    texts = [epsilon["total"], *(t for x in lists for t in x)]
    _require(all(_matches(_EPSILON, t) for t in texts), "an epsilon is no decimal text with 15 places")
    total, conditional = epsilon["total"], epsilon.get("conditional", [])
    _require(not any(t.startswith("-") for t in (total, *conditional)), "an epsilon is negative")
    _require(all(Decimal(t) <= Decimal(total) for t in conditional), "a conditional epsilon is above the total")


def _layers(records: Any, bits: int, m: int) -> list[_Layer]:
    _require(isinstance(records, list) and bool(records), "it has no layers")
    layers = [_layer(x, bits) for x in records]
    _require(
        sorted(x.attribute for x in layers if x.kind != "choice") == list(range(m)), "layers and attributes differ"
    )
    _require(layers[-1].kind != "choice", "a choice is the last layer")
    counts = [1 if x.kind == "choice" else len(x.ways[0]) for x in layers]
    _require(counts[0] == 1, "there is more than one state before the first layer")
    for layer, after in zip(layers, [*counts[1:], 1], strict=True):
        _require(all(0 <= s < after for way in layer.ways for s in way), "a next state does not exist")
    return layers


def _layer(record: Any, bits: int) -> _Layer:
    kind = record.get("kind") if isinstance(record, dict) else None
    _require(kind in ("change", "uniform", "choice"), "a layer is of no known kind")
    _keys(record, "second" if kind == "change" and ("second" in record or "second_threshold" in record) else str(kind))
    _require(kind == "choice" or type(record["attribute"]) is int, "a layer's attribute is no number")
    lists = [record[k] for k in ("next", "kept", "changed", "second") if k in record]
    _require(all(isinstance(x, list) and x and all(type(s) is int for s in x) for x in lists), "states are no numbers")
    if kind == "choice":
        ends = _thresholds(record["ends"], bits, len(lists[0]) - 1)
        _require(all(x < y for x, y in pairwise(ends)), "the ends of a choice do not increase")
        _require(all(x % (1 << (bits - 64)) == 0 for x in ends), "an end of a choice has more than 64 bits")
        return _Layer("choice", -1, ends, (), lists)
    count = len(lists[0])
    if kind == "uniform":
        return _Layer("uniform", record["attribute"], (), (), lists)
    _require(all(len(x) == count for x in lists), "the lists of a layer differ in length")
    a = _thresholds(record["threshold"], bits, count)
    if len(lists) == 2:
        return _Layer("change", record["attribute"], a, [0] * count, [*lists, lists[1]])
    b = _thresholds(record["second_threshold"], bits, count)
    _require(all(x < y for x, y in zip(b, a, strict=True)), "a second threshold is not below the first")
    return _Layer("change", record["attribute"], a, b, lists)


def _trials(record: Any, bits: int, sizes: Sequence[int]) -> _Trials:
    _keys(record, "trials")
    balls, count = record["balls"], record["count"]
    _require(bits == 64, "trials have words of 64 bits")
    _require(isinstance(balls, list) and bool(balls), "it has no balls")
    _require(type(count) is int and 0 < count <= MOST_TRIALS, "the number of trials is out of range")
    read = [_ball(ball, sizes) for ball in balls]
    work = sum(ball.end * len(sizes) for ball in read)
    _require(work <= MOST_TRIAL_SUMS, "its sums would take too long; export the design to a smaller size")
    ends = _thresholds(record["ends"], 64, len(read) - 1)
    _require(all(x < y for x, y in pairwise(ends)), "the ends of the balls do not increase")
    (uniform,) = _thresholds(record["uniform"], 64, 1, zero=True)
    return _Trials(read, ends, uniform, count)


def _ball(record: Any, sizes: Sequence[int]) -> _Ball:
    _keys(record, "ball")
    least, log_ratio, weights, text = (record[key] for key in ("least", "log_ratio", "weights", "acceptance"))
    _require(all(type(x) is int and abs(x) < 1 << 53 for x in (least, log_ratio)), "a number of a ball is out of range")
    _require(_matches("([0-9a-f]{8})+", text), "acceptance is not in the form of the format")
    acceptance = _thresholds(text, 32, len(text) // 8, zero=True)
    _require(0 <= least < MOST_TRIAL_SUMS and any(acceptance), "no total of a ball is accepted")
    _require(isinstance(weights, list) and len(weights) == len(sizes), "weights and attributes differ")
    end = least + len(acceptance)
    _require(all(type(w) is int and 0 <= w <= end for w in weights), "a weight is out of range")
    _require(abs(log_ratio) * end <= MOST_TILT << 40, "a ratio times its totals is out of range")
    first, second = (_thresholds(record[key], 64, len(sizes), zero=True) for key in ("thresholds", "second_thresholds"))
    _require(all(x <= y for x, y in zip(second, first, strict=True)), "a second threshold is above the first")
    return _Ball(sizes, weights, first, second, least, acceptance, log_ratio)


def _questions(records: Any, bits: int, sizes: Sequence[int]) -> list[_Question]:
    _require(isinstance(records, list) and bool(records), "it has no questions")
    read = [_question(x, bits, sizes) for x in records]
    _require(sum(1 << len(x.parts) for x in read) <= MOST_PATTERNS, "its questions have too many patterns of matches")
    return read


def _ends(text: Any, bits: int, count: int) -> list[int]:
    ends = _thresholds(text, bits, count - 1)
    _require(all(x < y for x, y in pairwise(ends)), "the ends of the questions do not increase")
    return ends


def _question(record: Any, bits: int, sizes: Sequence[int]) -> _Question:
    _keys(record, "question")
    members, chosen, likely = record["attributes"], record["subset_sizes"], record["likely"]
    for numbers in (members, chosen, likely):
        _require(isinstance(numbers, list) and bool(numbers), "a question's numbers are no list")
        _require(all(type(x) is int and 0 <= x < 1 << 32 for x in numbers), "a question's numbers are out of range")
    _require(len(set(members)) == len(members) and max(members) < len(sizes), "a question's attributes do not fit")
    asked = [sizes[i] for i in members]
    cells = reduce(int.__mul__, asked)
    parts = asked if len(chosen) == len(asked) else [cells]
    _require(len(chosen) == len(parts) <= MOST_SUBSETS, "a question has too many subsets, or too few")
    _require(cells <= 1 << MOST_CELL_BITS and (len(parts) > 1 or cells <= MOST_CELLS), "a question has too many cells")
    _require(all(0 < k < r for k, r in zip(chosen, parts, strict=True)), "a question's subset holds nothing, or all")
    _require(all(x < y for x, y in pairwise(likely)), "a question's likely patterns do not increase")
    _require(max(likely) < 1 << len(parts) > len(likely), "a question's likely patterns are none, or all")
    (threshold,) = _thresholds(record["threshold"], bits, 1)
    return _Question(members, asked, parts, chosen, threshold, likely)


def _thresholds(text: Any, bits: int, count: int, *, zero: bool = False) -> list[int]:
    width = bits // 4
    _require(_matches("[0-9a-f]*", text) and len(text) == count * width, "thresholds are not in the form of the format")
    out = [int(text[k : k + width], 16) for k in range(0, len(text), width)]
    _require(zero or all(out), "a threshold is 0")
    return out


def _print_ledger(folder: Path) -> None:
    if not folder.is_dir():
        raise Refused(f"{folder} is not a diary: there is no such folder")
    ledger = Diary(folder).ledger()
    for design, epsilon in ledger.entries:
        print(f"{design[:12]} {epsilon:f}")
    print(f"total epsilon {ledger.total:f}")


def _answers(place: str | None) -> dict[str, Any]:
    """The object in a file or, without one, on standard input. No message repeats what stands there, nor the file's name."""
    if place is None and sys.stdin.isatty():
        print('enter your answers as a JSON object, such as {"sex": "F"}, then the end of input:', file=sys.stderr)
    try:
        text = sys.stdin.buffer.read() if place is None else Path(place).expanduser().read_bytes()
        record = json.loads(text.decode("utf-8-sig"), object_pairs_hook=_different)
    except (OSError, ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise Refused(
            "no answers could be read; give a JSON object with each name once, on standard input or in a file"
        )
    return record


def _different(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError
    return dict(pairs)


def _run(limit: str | None, places: Sequence[str]) -> None:
    if len(places) == 1:
        _print_ledger(Path(places[0]).expanduser())
        return
    sampler, diary = Sampler.load(places[0]), Diary(places[1], limit)
    report = diary.report(sampler)
    if report is None:
        report = diary.answer(sampler, _answers(*places[2:] or [None]))
    print(json.dumps(report, ensure_ascii=False))


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer, or print the ledger; see the top of this file."""
    usage = "%(prog)s [--limit EPSILON] SAMPLER DIARY [ANSWERS], or %(prog)s DIARY; answers come from standard input or a file"
    parser = argparse.ArgumentParser(prog="optrr_client.py", usage=usage, allow_abbrev=False)
    parser.add_argument("--limit", metavar="EPSILON", help="maximum total epsilon of all designs in DIARY, in nats")
    parser.add_argument(
        "places", nargs="*", help="deployment file; folder of reports; file of answers (default: standard input)"
    )
    known, others = parser.parse_known_args(arguments)
    if others or not 1 <= len(known.places) <= 3:
        # what is too much may be an answer, so it is not repeated
        print(f"error: these arguments are not valid; {usage % {'prog': parser.prog}}", file=sys.stderr)
        return 2
    try:
        _run(known.limit, known.places)
    except (Refused, OSError) as error:
        print(f"error: {_told(error)}", file=sys.stderr)
        return 2
    return 0


def _told(error: Refused | OSError) -> str:
    """The operating system's words, without its numbers."""
    return f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)


if __name__ == "__main__":
    sys.exit(main())
