"""Deployment files of questions: everybody answers one of them, drawn at random (``docs/deployment-format.md``, §8).

An answer names subsets, and its pattern of matches is likely or not. Its probability is that of the pattern's kind, over the
number of the question's Π r_i cells that are of this kind, times what does not depend on the record. So e^ε is the ratio of
both kinds' probabilities, each over its number of cells: exact from the integers of the file, and reached.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from typing import Any

import msgspec

from optrr.devices.deployment.deployment_file import (
    DeployedAttribute,
    DeploymentFile,
    check_frame,
    checked_total,
    declared_attribute,
)
from optrr.devices.deployment.exact import log_ceiling
from optrr.domain.domain import Domain
from optrr.errors import InvalidInput, in_one_line
from optrr.show.text import crossed
from optrr_solvers.allocating.questions import MOST_PATTERNS, MOST_SUBSETS, SubsetReport

__all__ = ["DeployedQuestion", "DeployedQuestions", "read_questions"]

# A report's JSON but for its subsets: format, digest, identifier, keys and the number of its table.
_FRAME_BYTES = 200
_HEXADECIMAL = frozenset("0123456789abcdef")


class _QuestionRecord(msgspec.Struct, forbid_unknown_fields=True):
    attributes: list[int]
    subset_sizes: list[int]
    likely: list[int]
    threshold: str


class _TotalRecord(msgspec.Struct, forbid_unknown_fields=True):
    total: str


class _QuestionsContent(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    software: str
    design: str
    attributes: list[DeployedAttribute]
    bits: int
    ends: str
    questions: list[_QuestionRecord]
    epsilon: _TotalRecord
    digest: str


@dataclass(frozen=True)
class DeployedQuestion:
    """The attributes asked about, by number, how they are answered, and 2^bits times the chance of an unlikely pattern."""

    attributes: tuple[int, ...]
    report: SubsetReport
    threshold: int

    def epsilon(self, sizes: Sequence[int], bits: int) -> Decimal:
        """ε in nats of its answer, rounded up in the 15th place; ``sizes`` are the r_i of its attributes."""
        likely = self.report.likely_weight(sizes)
        over = ((1 << bits) - self.threshold) * (math.prod(sizes) - likely)
        under = self.threshold * likely
        return log_ceiling(max(over, under), min(over, under))


@dataclass(frozen=True, eq=False)
class DeployedQuestions(DeploymentFile):
    """What a deployment file of questions holds: where each question's share ends, but for the last, and the stated total ε.

    Shares and thresholds are whole numbers of 2^-``bits``.
    """

    domain: Domain
    bits: int
    ends: tuple[int, ...]
    questions: tuple[DeployedQuestion, ...]
    total: str
    design: str
    software: str
    intact: bool = True

    def parts(self) -> dict[str, Any]:
        """The keys of this kind of file."""
        return {
            "bits": self.bits,
            "ends": "".join(self._digits(x) for x in self.ends),
            "questions": [
                {
                    "attributes": list(q.attributes),
                    "subset_sizes": list(q.report.subset_sizes),
                    "likely": list(q.report.likely),
                    "threshold": self._digits(q.threshold),
                }
                for q in self.questions
            ],
            "epsilon": {"total": self.total},
        }

    def _digits(self, threshold: int) -> str:
        return f"{threshold:0{self.bits // 4}x}"

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Number of categories of each attribute of each question."""
        return tuple(tuple(self.domain.attributes[i].size for i in q.attributes) for q in self.questions)

    @property
    def exact_total(self) -> Decimal:
        """Total ε in nats, rounded up in the 15th place: the largest of the questions', whose choice tells nothing."""
        return max(q.epsilon(shape, self.bits) for q, shape in zip(self.questions, self.shapes, strict=True))

    @property
    def most_report_bytes(self) -> int:
        """Bytes that a report of a client may have as JSON, at most (§8)."""
        subsets = (
            sum(k * (len(str(r - 1)) + 1) for k, r in zip(q.report.subset_sizes, q.report.parts(shape), strict=True))
            for q, shape in zip(self.questions, self.shapes, strict=True)
        )
        return _FRAME_BYTES + max(subsets)


def read_questions(content: dict[str, Any], intact: bool) -> DeployedQuestions:
    """What canonical JSON holds, right in form; raises InvalidInput where it is not, or its parts do not fit together."""
    try:
        record = msgspec.convert(content, type=_QuestionsContent)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"it does not fit a file of questions: {in_one_line(error)}") from error
    check_frame(record.design, record.bits)
    domain = Domain(tuple(declared_attribute(a) for a in record.attributes))
    if not record.questions:
        raise InvalidInput("it has no questions")
    ends = _thresholds(record.ends, record.bits, len(record.questions) - 1, "ends")
    if any(low >= high for low, high in pairwise(ends)):
        raise InvalidInput("its ends do not increase")
    if sum(1 << min(len(q.subset_sizes), MOST_SUBSETS) for q in record.questions) > MOST_PATTERNS:
        raise InvalidInput(f"its questions have more than {MOST_PATTERNS} patterns of matches in all")
    questions = tuple(_question(k, q, domain, record.bits) for k, q in enumerate(record.questions))
    total = checked_total(record.epsilon.total)
    return DeployedQuestions(domain, record.bits, ends, questions, total, record.design, record.software, intact)


def _question(k: int, record: _QuestionRecord, domain: Domain, bits: int) -> DeployedQuestion:
    members, where = record.attributes, f"question {k}"
    if not members or len(set(members)) < len(members) or not all(0 <= i < domain.m for i in members):
        raise InvalidInput(f"{where}: its attributes are not different numbers of 0..{domain.m - 1}")
    if record.likely != sorted(record.likely):
        raise InvalidInput(f"{where}: its likely patterns do not increase")
    report = SubsetReport(tuple(record.subset_sizes), tuple(record.likely))
    asked = [domain.attributes[i] for i in members]
    if flaw := report.flaw([a.size for a in asked]):
        raise InvalidInput(f"{where} about {crossed(a.name for a in asked)} {flaw}")
    (threshold,) = _thresholds(record.threshold, bits, 1, where)
    return DeployedQuestion(tuple(members), report, threshold)


def _thresholds(text: str, bits: int, count: int, where: str) -> tuple[int, ...]:
    width = bits // 4
    if len(text) != count * width or not _HEXADECIMAL.issuperset(text):
        raise InvalidInput(f"{where}: not {count} thresholds of {width} lower-case hexadecimal digits")
    out = tuple(int(text[at : at + width], 16) for at in range(0, len(text), width))
    if not all(out):
        raise InvalidInput(f"{where}: a threshold is 0, for which no finite epsilon holds")
    return out
