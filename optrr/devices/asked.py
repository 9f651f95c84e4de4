"""Does a client answer questions as its label says? Which it answers, which patterns match, and what else it names.

A question is drawn whatever the record is. An answer's pattern of matches has the label's law, whatever the record is; among
the other categories every subset of a size is as likely. A set of patterns has a number of records that it fits, Π k_i or
r_i − k_i, for every answer: divided by it, its probability is a mean over pairs of record and answer, which bounds ε as
:mod:`optrr.devices.bounds` says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from optrr.devices.bounds import Cells
from optrr.devices.clients import Questions, RecordKinds
from optrr.devices.deployment_file import DeployedQuestion
from optrr.devices.label import Codes, QuestionLabel
from optrr.devices.noise import Again, Repeated, record_groups
from optrr.devices.result import Worst, table_bound, two_sided
from optrr.show.text import amount
from optrr_solvers.arrays import FloatArray, IntArray

# Answers, and records of a question, up to which each is looked at on its own.
_MOST_LISTED = 64


@dataclass(frozen=True, eq=False)
class AskedOf:
    """Those who answered one question: their rows, (n,), true codes of each part, (parts, n), and what each subset names."""

    number: int
    question: DeployedQuestion
    shape: tuple[int, ...]
    rows: IntArray
    true: IntArray
    members: list[IntArray]

    @property
    def title(self) -> str:
        """What findings call it."""
        return f"question {self.number + 1}"

    @cached_property
    def parts(self) -> tuple[int, ...]:
        """Of how many categories, or cells, each subset is."""
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
        """How far what is named is from the truth, ascending, of each part."""
        return [
            np.sort((members - own[:, None]) % r, axis=1)
            for own, members, r in zip(self.true, self.members, self.parts, strict=True)
        ]

    def chances(self, bits: int) -> FloatArray:
        """The probability of each pattern by the label."""
        weights = np.array([float(w) for w in self.question.report.weights(self.shape)])
        likely = np.isin(np.arange(weights.size), self.question.report.likely)
        unlikely = self.question.threshold / (1 << bits)
        held = np.where(likely, weights, 0.0).sum()
        each = np.where(likely, (1 - unlikely) / held, unlikely / (weights.sum() - held))
        return np.asarray(weights * each)


@dataclass(frozen=True, eq=False)
class QuestionAnswers:
    """Records and answers of different people, shape (m, n) and (n, width), the first run's before the second's."""

    label: QuestionLabel
    layout: RecordKinds
    records: IntArray
    codes: Codes

    @classmethod
    def of(
        cls, label: QuestionLabel, layout: RecordKinds, runs: Sequence[Questions], codes: Sequence[Codes]
    ) -> QuestionAnswers:
        """From the questions and the valid codes of the answers; those who are asked again are left out."""
        records = np.concatenate([asked.records[: layout.once] for asked in runs]).T.astype(np.int64)
        return cls(label, layout, records, np.concatenate([c[: layout.once] for c in codes]))

    @cached_property
    def shares(self) -> FloatArray:
        """The probability of each question by the label."""
        deployed = self.label.deployed
        ends = [0, *deployed.ends, 1 << deployed.bits]
        return np.array([(high - low) / (1 << deployed.bits) for low, high in pairwise(ends)])

    @cached_property
    def asked(self) -> list[AskedOf]:
        """The answers to each question."""
        return [self._of(k) for k in range(len(self.label.deployed.questions))]

    def _of(self, number: int) -> AskedOf:
        question, shape = self.label.deployed.questions[number], self.label.deployed.shapes[number]
        rows = np.flatnonzero(self.codes[:, 0] == number)
        true = self.records[list(question.attributes)][:, rows]
        if len(question.report.parts(shape)) < len(shape):
            true = np.ravel_multi_index(tuple(true), shape)[None]
        ends = np.cumsum(question.report.subset_sizes)
        members = np.split(self.codes[rows, 1 : 1 + ends[-1]].astype(np.int64), ends[:-1], axis=1)
        return AskedOf(number, question, shape, rows, true, members)

    @cached_property
    def noise(self) -> IntArray:
        """One number for the question and the noise of each answer: different ones get equal numbers with chance 2^-60."""
        odd = np.random.default_rng().integers(0, 1 << 63, self.codes.shape[1], dtype=np.uint64) * 2 + 1
        factors: NDArray[np.uint64] = np.asarray(odd, dtype=np.uint64)
        out = np.zeros(self.codes.shape[0], dtype=np.uint64)
        for asked in self.asked:
            noise = np.concatenate([np.full((asked.rows.size, 1), asked.number + 1), *asked.noise], axis=1)
            out[asked.rows] = noise.astype(np.uint64) @ factors[: noise.shape[1]]
        return out.view(np.int64)

    @cached_property
    def agreement(self) -> float:
        """Probability that two independent answers are to one question, and have the same noise."""
        total = 0.0
        for share, asked in zip(self.shares.tolist(), self.asked, strict=True):
            outcomes = np.zeros(1)
            for r, k in zip(asked.parts, asked.question.report.subset_sizes, strict=True):
                outcomes = np.concatenate([outcomes + _log_choices(r - 1, k), outcomes + _log_choices(r - 1, k - 1)])
            with np.errstate(divide="ignore"):
                chances = np.log(asked.chances(self.label.deployed.bits))
            total += share**2 * float(np.exp(2 * chances - outcomes).sum())
        return total


def _log_choices(n: int, k: int) -> float:
    """The logarithm of how many sets of k there are."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def questions_answered(answers: QuestionAnswers) -> Worst:
    """How often each question is answered, against its share."""
    worst, n = Worst(), answers.codes.shape[0]
    counts = np.bincount(answers.codes[:, 0], minlength=answers.shares.size)
    worst.add(
        two_sided(counts, n, answers.shares),
        lambda k: f"question {k + 1} is answered in {counts[k]} of {n} records; its share is {answers.shares[k]:.6g}",
    )
    worst.add(
        table_bound(counts, answers.shares),
        lambda _: f"which questions are answered in {n} records is not their shares",
    )
    return worst


def matching_patterns(answers: QuestionAnswers) -> Worst:
    """How often each pattern of matches is there, against the label."""
    worst = Worst()
    for asked in answers.asked:
        chances = asked.chances(answers.label.deployed.bits)
        counts, n = np.bincount(asked.matches, minlength=chances.size), asked.rows.size

        def describe(k: int, counts: IntArray = counts, chances: FloatArray = chances, asked: AskedOf = asked) -> str:
            return f"{_pattern(asked, k)} in {counts[k]} of {asked.rows.size} answers; its label says {chances[k]:.6g} of them"

        worst.add(two_sided(counts, n, chances), describe)
        worst.add(
            table_bound(counts, chances),
            lambda _, title=asked.title: f"which subsets of {title} hold the true category is not as its label says",  # type: ignore[misc]
        )
    return worst


def _pattern(asked: AskedOf, pattern: int) -> str:
    matching = [str(i + 1) for i in range(len(asked.parts)) if pattern >> i & 1]
    return (
        f"{asked.title}: of {amount(len(asked.parts), 'subset')} {', '.join(matching) or 'none'} hold the true category"
    )


def other_members(answers: QuestionAnswers) -> Worst:
    """Every other category must be named as often: by its distance from the true one, and by its place among the others."""
    worst = Worst()
    for asked in answers.asked:
        for i, (r, k) in enumerate(zip(asked.parts, asked.question.report.subset_sizes, strict=True)):
            match = (asked.matches >> i & 1).astype(np.bool_)
            for rows, share in ((match, (k - 1) / (r - 1)), (~match, k / (r - 1))):
                distance, members, own = asked.noise[i][rows], asked.members[i][rows], asked.true[i, rows][:, None]
                place = (members - (members > own))[members != own]
                n, title = int(np.count_nonzero(rows)), f"{asked.title}, subset {i + 1}"
                _named(
                    worst, distance[distance > 0] - 1, (r - 1, n, share), f"{title}: at this distance from the truth"
                )
                _named(worst, place, (r - 1, n, share), f"{title}: at this place among the others")
    return worst


def _named(worst: Worst, values: IntArray, named: tuple[int, int, float], what: str) -> None:
    """Each value of 0..size−1 must be named in this share of n answers; ``named`` are size, n and share."""
    size, n, share = named
    counts = np.bincount(values, minlength=size)
    worst.add(
        two_sided(counts, n, share),
        lambda k: (
            f"{what}, {k + 1} of {size}, a category is named in {counts[k]} of {n} answers; {n * share:.4g} are expected"
        ),
    )


def answers_by_record(answers: QuestionAnswers) -> Worst:
    """Neither which question is answered nor the pattern of matches may depend on the record."""
    worst, names = Worst(), answers.label.domain.names
    for j, r in enumerate(answers.label.sizes.tolist()):
        groups, parts = record_groups(answers.records[j], r)
        cells = groups * answers.shares.size + answers.codes[:, 0]
        _by_group(worst, cells, parts, answers.shares, f"questions by {names[j]!r}")
    for asked in answers.asked:
        chances = asked.chances(answers.label.deployed.bits)
        for i, r in enumerate(asked.parts):
            groups, parts = record_groups(asked.true[i], r)
            cells = groups * chances.size + asked.matches
            _by_group(worst, cells, parts, chances, f"matches of {asked.title} by subset {i + 1}")
    return worst


def _by_group(worst: Worst, cells: IntArray, groups: int, chances: FloatArray, what: str) -> None:
    counts = np.bincount(cells, minlength=groups * chances.size).reshape(groups, chances.size)
    n = counts.sum(axis=1)[:, None]

    def describe(k: int) -> str:
        group, of = divmod(k, chances.size)
        return (
            f"{what}, number {group}: number {of} in {counts[group, of]} of {n[group, 0]} answers; "
            f"its label says {chances[of]:.6g} of them, whatever the record is"
        )

    worst.add(two_sided(counts, n, chances), describe)


def asked_twice(label: QuestionLabel, again: Again, *, once: bool) -> Repeated:
    """People who were asked twice: the same answer, and the same noise for another record."""
    people = again.records[0].shape[0]
    records, codes = np.concatenate(again.records).T.astype(np.int64), np.concatenate(again.answers)
    both = QuestionAnswers(label, RecordKinds(0, people, 0, 0), records, codes)
    return Repeated.counted(again, both.noise[:people] == both.noise[people:], both.agreement, once=once)


def pattern_events(answers: QuestionAnswers) -> Iterator[Cells]:
    """Of each question the patterns of matches."""
    for asked in answers.asked:
        weights = np.array([float(w) for w in asked.question.report.weights(asked.shape)])
        counts = _counted(answers, asked, asked.matches, weights.size)
        yield Cells(weights / weights.sum(), counts, lambda k, asked=asked: _pattern(asked, k))  # type: ignore[misc]


def answer_events(answers: QuestionAnswers) -> Iterator[Cells]:
    """For each answer to a question that has few of them, the records that it may be given for."""
    for asked in answers.asked:
        cells, sizes = math.prod(asked.shape), asked.question.report.subset_sizes
        true = (
            asked.true[0]
            if len(asked.parts) < len(asked.shape)
            else np.ravel_multi_index(tuple(asked.true), asked.shape)
        )
        if not asked.rows.size or max(cells, math.prod(map(math.comb, asked.parts, sizes))) > _MOST_LISTED:
            continue
        named, at = np.unique(np.concatenate(asked.members, axis=1), axis=0, return_inverse=True)
        tables = _counted(answers, asked, at.ravel() * cells + true, len(named) * cells).reshape(3, len(named), cells)
        for y in range(len(named)):
            words = f"{asked.title} answered {named[y].tolist()} for record number"
            yield Cells(np.ones(cells), tables[:, y], lambda k, words=words: f"{words} {k}")  # type: ignore[misc]


def _counted(answers: QuestionAnswers, asked: AskedOf, values: IntArray, size: int) -> IntArray:
    """How often each value is there in the parts of the answers that order, choose and bound, shape (3, size)."""
    inside = [(asked.rows >= part.start) & (asked.rows < part.stop) for part in answers.layout.parts]
    return np.array([np.bincount(values[rows], minlength=size) for rows in inside])
