"""Audit of a mixture of local queries: its label, and answers as evidence.

The query is drawn independently of the record. The pattern of matches in an answer has the label's distribution for any
record; among the other categories, all subsets of a size are equally likely. In every answer, a set of patterns fits
the same number of records, Π k_i or r_i − k_i; its probability divided by that number is a mean over pairs of record
and answer, which bounds ε as :mod:`optrr.devices.epsilon_bounds` explains.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import msgspec
import numpy as np

from optrr.core.display import amount
from optrr.core.domain import Domain
from optrr.devices.audit_checks import Fingerprints, Tally, fingerprints_of
from optrr.devices.deployment_file import DeployedQuestion, DeployedQuestions
from optrr.devices.epsilon_bounds import Cells
from optrr.devices.planting import Codes, read_answers
from optrr_solvers.arrays import FloatArray, IntArray

# Answers, and records of a query, up to which each is compared on its own.
_MOST_LISTED = 64


class _QueryReply(msgspec.Struct):
    table: int
    cells: str


@dataclass(frozen=True, eq=False)
class QueryLabel:
    """The promises of a deployment file of local queries.

    An answer has the codes of its query, from 0, and of the members of its subsets, one subset after another and ascending,
    then zeros; shape (n, ``width``). The first is −1 if it answers no query.
    """

    deployed: DeployedQuestions

    @property
    def domain(self) -> Domain:
        """The attributes of a record."""
        return self.deployed.domain

    @property
    def epsilon(self) -> float:
        """Total ε as stated, nats."""
        return float(self.deployed.total)

    @property
    def sizes(self) -> IntArray:
        """r_i, shape (m,)."""
        return self.domain.sizes

    @property
    def width(self) -> int:
        """Codes of an answer."""
        return 1 + max(sum(q.report.subset_sizes) for q in self.deployed.questions)

    def foreign(self, codes: Codes) -> int:
        """Count answers that answer no query."""
        return int(np.count_nonzero(codes[:, 0] < 0))

    def read(self, lines: Sequence[bytes], count: int, name: str) -> Codes:
        """Read the codes of ``count`` lines.

        Each is a JSON object with ``table`` and ``cells``.
        """
        out = np.zeros((count, self.width), dtype=np.int32)
        form = '{"table": 1, "cells": "…"} as the deployment format says'
        for row, reply in enumerate(read_answers(lines, count, name, _QueryReply, form)):
            members = self.deployed.members(reply.table, reply.cells)
            out[row, 0] = reply.table - 1 if members else -1
            out[row, 1 : 1 + len(members)] = members
        return out

    def answers(self, records: Codes, codes: Codes) -> "QueryAnswers":
        """Compare records, shape (n, m), with answers, shape (n, ``width``)."""
        return QueryAnswers(self.deployed, records.T.astype(np.int64), codes)


@dataclass(frozen=True, eq=False)
class AnswersToOne:
    """Answers to one query.

    Rows, (n,), true codes of each part, (parts, n), and the members of each subset.
    """

    number: int
    question: DeployedQuestion
    shape: tuple[int, ...]
    rows: IntArray
    true: IntArray
    members: list[IntArray]

    @property
    def title(self) -> str:
        """Name of the query in findings."""
        return f"query {self.number + 1}"

    @cached_property
    def parts(self) -> tuple[int, ...]:
        """Number of categories, or cells, of each subset."""
        return self.question.report.parts(self.shape)

    @cached_property
    def matches(self) -> IntArray:
        """Each answer's pattern, as the sum of 2^i over the matching subsets i."""
        out = np.zeros(self.rows.size, dtype=np.int64)
        for i, (own, members) in enumerate(zip(self.true, self.members, strict=True)):
            out |= (members == own[:, None]).any(axis=1).astype(np.int64) << i
        return out

    @cached_property
    def noise(self) -> list[IntArray]:
        """Distances of listed categories from the true one, ascending, of each part."""
        return [
            np.sort((members - own[:, None]) % r, axis=1)
            for own, members, r in zip(self.true, self.members, self.parts, strict=True)
        ]

    @cached_property
    def weights(self) -> FloatArray:
        """The number of records that each pattern fits, in any answer, up to a factor."""
        return np.array([float(w) for w in self.question.report.weights(self.shape)])

    def chances(self, bits: int) -> FloatArray:
        """Return the stated probability of each pattern."""
        likely = np.isin(np.arange(self.weights.size), self.question.report.likely)
        unlikely = self.question.threshold / (1 << bits)
        held = np.where(likely, self.weights, 0.0).sum()
        each = np.where(likely, (1 - unlikely) / held, unlikely / (self.weights.sum() - held))
        return np.asarray(self.weights * each)

    def pattern(self, pattern: int) -> str:
        """Describe a pattern of matches in words."""
        of = len(self.parts)
        matching = ", ".join(str(i + 1) for i in range(of) if pattern >> i & 1)
        return f"{self.title}: of {amount(of, 'subset')}, {matching or 'none'} contain the true category"

    def counted(self, values: IntArray, size: int, parts: Sequence[slice]) -> IntArray:
        """Count each value in the parts of all answers, shape (3, size)."""
        inside = [(self.rows >= part.start) & (self.rows < part.stop) for part in parts]
        return np.array([np.bincount(values[rows], minlength=size) for rows in inside])


@dataclass(frozen=True, eq=False)
class QueryAnswers:
    """Records, shape (m, n), and answers, shape (n, width)."""

    deployed: DeployedQuestions
    records: IntArray
    codes: Codes

    @cached_property
    def shares(self) -> FloatArray:
        """The probability of each query by the label."""
        ends = [0, *self.deployed.ends, 1 << self.deployed.bits]
        return np.array([(high - low) / (1 << self.deployed.bits) for low, high in pairwise(ends)])

    @cached_property
    def asked(self) -> list[AnswersToOne]:
        """The answers to each query."""
        return [self._of(k) for k in range(len(self.deployed.questions))]

    def _of(self, number: int) -> AnswersToOne:
        question, shape = self.deployed.questions[number], self.deployed.shapes[number]
        rows = np.flatnonzero(self.codes[:, 0] == number)
        true = self.records[list(question.attributes)][:, rows]
        if len(question.report.parts(shape)) < len(shape):
            true = np.ravel_multi_index(tuple(true), shape)[None]
        ends = np.cumsum(question.report.subset_sizes)
        members = np.split(self.codes[rows, 1 : 1 + ends[-1]].astype(np.int64), ends[:-1], axis=1)
        return AnswersToOne(number, question, shape, rows, true, members)

    def flips(self) -> Iterator[Tally]:
        """Tally the queries, and for each the pattern of matches."""
        counts = np.bincount(self.codes[:, 0], minlength=self.shares.size)
        yield Tally("shares of the queries", counts, len(self.codes), self.shares, lambda k: f"query {k + 1}")
        for asked in self.asked:
            chances = asked.chances(self.deployed.bits)
            counts = np.bincount(asked.matches, minlength=chances.size)
            yield Tally(f"matches of {asked.title}", counts, asked.rows.size, chances, asked.pattern)

    def replacements(self) -> Iterator[Tally]:
        """Tally the other categories that are named.

        By distance from the true one, and by place among the others.
        """
        for asked in self.asked:
            for i, (r, k) in enumerate(zip(asked.parts, asked.question.report.subset_sizes, strict=True)):
                match = (asked.matches >> i & 1).astype(np.bool_)
                for rows, named in ((match, k - 1), (~match, k)):
                    distance, members, own = asked.noise[i][rows], asked.members[i][rows], asked.true[i, rows][:, None]
                    place = (members - (members > own))[members != own]
                    n, expected = int(np.count_nonzero(rows)), np.full(r - 1, named / (r - 1))
                    for values, what in ((distance[distance > 0] - 1, "distances from the truth"), (place, "places")):
                        title = f"{what} of the categories that {asked.title} lists in subset {i + 1}"
                        counts = np.bincount(values, minlength=r - 1)
                        yield Tally(
                            title,
                            counts,
                            n,
                            expected,
                            lambda k, title=title, r=r: f"{title}: number {k + 1} of {r - 1}",  # type: ignore[misc]
                        )

    def fingerprints(self) -> list[Fingerprints]:
        """Return fingerprints of the query and its noise."""
        noise = np.zeros(self.codes.shape, dtype=np.int64)
        same = 0.0
        for share, asked in zip(self.shares.tolist(), self.asked, strict=True):
            own = np.concatenate([np.full((asked.rows.size, 1), asked.number + 1), *asked.noise], axis=1)
            noise[asked.rows, : own.shape[1]] = own
            outcomes = np.zeros(1)
            for r, k in zip(asked.parts, asked.question.report.subset_sizes, strict=True):
                outcomes = np.concatenate([outcomes + _log_choices(r - 1, k), outcomes + _log_choices(r - 1, k - 1)])
            with np.errstate(divide="ignore"):
                chances = np.log(asked.chances(self.deployed.bits))
            same += share**2 * float(np.exp(2 * chances - outcomes).sum())
        return [Fingerprints(fingerprints_of(list(noise.T)), same, "noise")]

    def events(self, parts: Sequence[slice]) -> list[Iterable[Cells]]:
        """List two families of events.

        Patterns of matches, and, for queries with few answers, the records behind each answer.
        """
        patterns = [
            Cells(a.weights / a.weights.sum(), a.counted(a.matches, a.weights.size, parts), a.pattern)
            for a in self.asked
        ]
        given = [cells for asked in self.asked for cells in _by_record(asked, parts)]
        return [family for family in (patterns, given) if family]


def _by_record(asked: AnswersToOne, parts: Sequence[slice]) -> Iterator[Cells]:
    cells, sizes = math.prod(asked.shape), asked.question.report.subset_sizes
    whole = len(asked.parts) < len(asked.shape)
    true = asked.true[0] if whole else np.ravel_multi_index(tuple(asked.true), asked.shape)
    if not asked.rows.size or max(cells, math.prod(map(math.comb, asked.parts, sizes))) > _MOST_LISTED:
        return
    named, at = np.unique(np.concatenate(asked.members, axis=1), axis=0, return_inverse=True)
    tables = asked.counted(at.ravel() * cells + true, len(named) * cells, parts).reshape(3, len(named), cells)
    for y in range(len(named)):
        words = f"{asked.title} answered {named[y].tolist()} for record number"
        yield Cells(np.ones(cells), tables[:, y], lambda k, words=words: f"{words} {k}")  # type: ignore[misc]


def _log_choices(n: int, k: int) -> float:
    """Compute the logarithm of the number of subsets of size k."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
