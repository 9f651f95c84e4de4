"""Deployment files: writing, reading, and validation (``docs/deployment-format.md``).

A file contains an automaton, trials (§9), or local queries, of which each respondent answers one (§8). This module
checks the form and the consistency of the parts: each attribute once, next states that exist, thresholds in range. The
values of ε are checked by :mod:`optrr.devices.verify`.

The JSON of a file has one canonical form (RFC 8785), so that its digest is the same in all languages. It contains no
fractions, so only the order of keys, the spacing and the escapes matter.
"""

import hashlib
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Self, TypeAlias, TypeVar

import msgspec
import numpy as np

from optrr.core.display import crossed
from optrr.core.domain import Attribute, Domain
from optrr.core.errors import InvalidInput, in_one_line
from optrr.core.provenance import DEPLOYMENT, Given
from optrr.core.records import whole_file
from optrr.devices.exact import epsilons, log_ceiling, places, work
from optrr_solvers.allocation.questions import MOST_PATTERNS, MOST_SUBSETS, SubsetReport
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.laws.trials import MOST_SUMS, MOST_TRIALS, TrialBall, Trials
from optrr_solvers.problem import SIZE_RANGE
from optrr_solvers.randomness import Words
from optrr_solvers.sampling.diagram import MOST_LAYERS, MOST_STATES, WORD_BITS, ChoiceLayer, Layer, Layers

# Maximum digits of a number; numbers in files have far fewer.
_MOST_DIGITS = 20


def canonical(value: Any) -> bytes:
    """Encode a JSON value without fractions in canonical form, UTF-8.

    Raises UnicodeEncodeError for text with unpaired surrogates, which has no such form.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8")


def digest_of(content: dict[str, Any]) -> str:
    """Compute the SHA-256 of the canonical form without ``digest``, in hex."""
    return hashlib.sha256(canonical({k: v for k, v in content.items() if k != "digest"})).hexdigest()


def _from_canonical(raw: bytes) -> dict[str, Any]:
    """Decode canonical bytes; one line feed may follow.

    Raises InvalidInput for anything else: no JSON, no object, repeated keys, white space, numbers in another form.
    """
    try:
        content = json.loads(
            raw.decode("utf-8"), parse_int=_short, parse_float=_no_fraction, parse_constant=_no_fraction
        )
        same = canonical(content) == raw.removesuffix(b"\n")
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"it is not JSON without fractions ({in_one_line(error)[:120]})") from error
    if not isinstance(content, dict):
        raise InvalidInput("it is not a JSON object")
    if not same:
        raise InvalidInput("it is not in canonical form: repeated keys, other spacing or order, or edited by hand")
    return content


def _short(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"a number has {len(text)} digits")
    return int(text)


def _no_fraction(text: str) -> NoReturn:
    raise ValueError(f"the number {text[:20]} is not an integer in decimal digits")


FORMAT = "optrr-deployment/1"
# Operations on words that are done at once: a few seconds; and bits of thresholds of questions: about a second.
_MOST_HERE, _MOST_BITS_HERE = 1 << 30, 1 << 20
_FORMULAS = "exact integers"
# Attributes times totals of a file of trials that are summed at once: half a second.
_MOST_SUMS_HERE = 1 << 23
# Maximum difference of sums between machines, in nats.
_MACHINES = Decimal("1e-10")
# Widths of a threshold; part of the format.
WIDTHS = range(64, 6144 + 1, 64)
_EPSILON = re.compile(r"(?!-0\.0{15})-?(0|[1-9][0-9]*)\.[0-9]{15}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_HEXADECIMAL = re.compile(r"[0-9a-f]*")

# A report's JSON but for its subsets: format, digest, identifier, keys and the number of its table.
_FRAME_BYTES = 200
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")


class _AttributeRecord(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    categories: list[str | None]


class _FrameRecord(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Common content of all deployment files."""

    format: str
    software: str
    design: str
    attributes: list[_AttributeRecord]
    bits: int
    digest: str


Frame = TypeVar("Frame", bound=_FrameRecord)


class StatedEpsilons(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The ε that a file states, nats, as decimal text with 15 places."""

    total: str
    attributes: tuple[str, ...]
    conditional: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """Return the values as a file holds them."""
        return {"total": self.total, "attributes": list(self.attributes), "conditional": list(self.conditional)}


class _ChangeRecord(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="change"):
    attribute: int
    threshold: str
    kept: list[int]
    changed: list[int]
    second_threshold: str | msgspec.UnsetType = msgspec.UNSET
    second: list[int] | msgspec.UnsetType = msgspec.UNSET


class _UniformRecord(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="uniform"):
    attribute: int
    next: list[int]


class _ChoiceRecord(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="choice"):
    ends: str
    next: list[int]


_LayerRecord = _ChangeRecord | _UniformRecord | _ChoiceRecord


class _AutomatonRecord(_FrameRecord, kw_only=True):
    layers: list[_LayerRecord]
    epsilon: StatedEpsilons


class _BallRecord(msgspec.Struct, forbid_unknown_fields=True):
    acceptance: str
    least: int
    log_ratio: int
    second_thresholds: str
    thresholds: str
    weights: list[int]


class _DrawRecord(msgspec.Struct, forbid_unknown_fields=True):
    balls: list[_BallRecord]
    count: int
    ends: str
    uniform: str


class _TrialsRecord(_FrameRecord, kw_only=True):
    trials: _DrawRecord
    epsilon: StatedEpsilons


class _QuestionRecord(msgspec.Struct, forbid_unknown_fields=True):
    attributes: list[int]
    subset_sizes: list[int]
    likely: list[int]
    threshold: str


class _TotalRecord(msgspec.Struct, forbid_unknown_fields=True):
    total: str


class _QuestionsRecord(_FrameRecord, kw_only=True):
    ends: str
    questions: list[_QuestionRecord]
    epsilon: _TotalRecord


class DeploymentFile(ABC):
    """Common content of deployment files.

    The domain, the digest of the design, and the software that wrote it.

    ``intact``: whether it is as it was written.
    """

    domain: Domain
    design: str
    software: str
    intact: bool
    file_format: ClassVar[str] = DEPLOYMENT

    @abstractmethod
    def parts(self) -> dict[str, Any]:
        """Return the keys of this kind of file only."""

    @classmethod
    @abstractmethod
    def of_content(cls, content: dict[str, Any], intact: bool) -> Self:
        """Build from well-formed canonical JSON.

        Raises InvalidInput if it is malformed or its parts do not fit together.
        """

    @property
    @abstractmethod
    def drawn_by(self) -> str:
        """Short description of a client's work for one record."""

    @abstractmethod
    def recomputed(self) -> list[tuple[str, Sequence[str], Sequence[Decimal], str]]:
        """Recompute every ε from the integers.

        Name, stated values, exact values, and how they are computed.
        """

    @property
    @abstractmethod
    def is_heavy(self) -> bool:
        """Whether recomputing every ε of the file may take more than a few seconds."""

    def save(self, path: str | Path) -> None:
        """Write the file, whole or not at all."""
        with whole_file(Path(path)) as partial:
            partial.write_bytes(self.to_bytes())

    @classmethod
    def read(cls, raw: bytes) -> Self:
        """Read a file's bytes and check their form; ε are as stated.

        Raises InvalidInput where they are no such file, its parts do not fit together, or it was changed after it was written.
        """
        content, intact = _known_content(raw)
        if not intact:
            raise InvalidInput("it was changed after it was written (its digest differs); export the design again")
        return cls.of_content(content, intact)

    def content(self) -> dict[str, Any]:
        """Return the JSON object, with its digest."""
        out = {
            "format": FORMAT,
            "software": self.software,
            "design": self.design,
            "attributes": [{"name": a.name, "categories": list(a.texts)} for a in self.domain],
            **self.parts(),
        }
        return {**out, "digest": digest_of(out)}

    def to_bytes(self) -> bytes:
        """Encode the file.

        Raises InvalidInput if a name or a category has no UTF-8 form.
        """
        try:
            return canonical(self.content()) + b"\n"
        except UnicodeEncodeError as error:
            raise InvalidInput(
                "a name or category holds half a surrogate pair, which has no UTF-8 form; rename it"
            ) from error


@dataclass(frozen=True, eq=False)
class Deployment(DeploymentFile):
    """A deployment file of an automaton, with the ε that it states."""

    domain: Domain
    automaton: Layers
    stated: StatedEpsilons
    design: str
    software: str
    intact: bool = True

    def parts(self) -> dict[str, Any]:
        """Return the keys of this kind of file."""
        return {
            "bits": self.automaton.bits,
            "layers": [_layer_record(x, self.automaton.bits) for x in self.automaton.layers],
            "epsilon": self.stated.record(),
        }

    @property
    def drawn_by(self) -> str:
        """The size of the automaton."""
        return f"{self.automaton.states} states"

    def recomputed(self) -> list[tuple[str, Sequence[str], Sequence[Decimal], str]]:
        """Recompute total, attribute and conditional ε."""
        stated, exact = self.stated, epsilons(self.automaton)
        return [
            ("total epsilon", [stated.total], [exact.total], _FORMULAS),
            ("attribute epsilons", stated.attributes, exact.attributes, _FORMULAS),
            ("conditional epsilons", stated.conditional, exact.conditional, "pairs of states, rounded up"),
        ]

    @property
    def is_heavy(self) -> bool:
        """Whether checks may be slow, by the states and bits of the automaton."""
        return work(self.automaton) > _MOST_HERE

    @classmethod
    def of_content(cls, content: dict[str, Any], intact: bool) -> "Deployment":
        """Build from canonical JSON; see :class:`DeploymentFile`."""
        record, domain = _converted(content, _AutomatonRecord, FORMAT)
        _check_stated(record.epsilon, domain.m)
        return cls(domain, _automaton(record, domain.sizes), record.epsilon, record.design, record.software, intact)


@dataclass(frozen=True, eq=False)
class DeployedTrials(DeploymentFile):
    """Deployment file of balls that are drawn by rejection (§9).

    With the ε that it states.
    """

    domain: Domain
    trials: Trials
    stated: StatedEpsilons
    design: str
    software: str
    intact: bool = True

    @classmethod
    def of(cls, domain: Domain, trials: Trials, design: str, software: str) -> "DeployedTrials":
        """Build the file of these trials with the ε of their draws."""
        total, attributes = (_stated_above(x) for x in (np.array([trials.epsilon]), _attribute_epsilons(trials)))
        conditional = total * trials.m  # the integers give no smaller bound
        return cls(domain, trials, StatedEpsilons(total[0], attributes, conditional), design, software)

    def parts(self) -> dict[str, Any]:
        """Return the keys of this kind of file."""
        t = self.trials
        return {
            "bits": WORD_BITS,
            "trials": {
                "balls": [_ball_record(ball) for ball in t.balls],
                "count": t.count,
                "ends": "".join(f"{end:016x}" for end in t.ends),
                "uniform": f"{t.uniform:016x}",
            },
            "epsilon": self.stated.record(),
        }

    @property
    def drawn_by(self) -> str:
        """The number of trials."""
        return f"{self.trials.count} trials"

    def recomputed(self) -> list[tuple[str, Sequence[str], Sequence[Decimal], str]]:
        """Recompute total and attribute ε; conditional ε are bounded by the total."""
        total = places(Decimal(self.trials.epsilon))
        own = [places(Decimal(x)) for x in _attribute_epsilons(self.trials).tolist()]
        how = "sums of positive doubles, rounded up"
        return [
            ("total epsilon", [self.stated.total], [total], how),
            ("attribute epsilons", self.stated.attributes, own, how),
            ("conditional epsilons", self.stated.conditional, [total] * self.trials.m, "at most the total"),
        ]

    @property
    def is_heavy(self) -> bool:
        """Whether checks may be slow, by attributes times totals."""
        return self.trials.work > _MOST_SUMS_HERE

    @classmethod
    def of_content(cls, content: dict[str, Any], intact: bool) -> "DeployedTrials":
        """Build from canonical JSON; see :class:`DeploymentFile`."""
        record, domain = _converted(content, _TrialsRecord, "a file of trials")
        _check_stated(record.epsilon, domain.m)
        return cls(domain, _trials(record, domain.sizes), record.epsilon, record.design, record.software, intact)


def _ball_record(ball: TrialBall) -> dict[str, Any]:
    return {
        "acceptance": ball.acceptance.astype(">u4").tobytes().hex(),
        "least": ball.least,
        "log_ratio": ball.log_ratio,
        "second_thresholds": ball.second.astype(">u8").tobytes().hex(),
        "thresholds": ball.thresholds.astype(">u8").tobytes().hex(),
        "weights": ball.weights.tolist(),
    }


def _attribute_epsilons(trials: Trials) -> FloatArray:
    kept, changed = trials.flips
    return np.asarray(np.log((trials.sizes - 1) * kept / changed))


def _stated_above(epsilons: FloatArray) -> tuple[str, ...]:
    """Round up to decimals that another machine's sums do not exceed.

    Their last digits may differ.
    """
    return tuple(f"{places(Decimal(x) + _MACHINES):f}" for x in epsilons.tolist())


@dataclass(frozen=True)
class DeployedQuestion:
    """A local query.

    Its attributes by number, its report, and 2^bits times the probability of an unlikely pattern.

    An answer names subsets, and its pattern of matches is likely or not. Its probability is that of the pattern's kind, over
    the number of the question's Π r_i cells that are of this kind, times a factor that does not depend on the record. So e^ε
    is the ratio of both kinds' probabilities, each over its number of cells: exact from the integers of the file, and
    reached.
    """

    attributes: tuple[int, ...]
    report: SubsetReport
    threshold: int

    def epsilon(self, sizes: Sequence[int], bits: int) -> Decimal:
        """Compute ε of its answer in nats, rounded up in the 15th place.

        ``sizes`` are the r_i of its attributes.
        """
        likely = self.report.likely_weight(sizes)
        over = ((1 << bits) - self.threshold) * (math.prod(sizes) - likely)
        under = self.threshold * likely
        return log_ceiling(max(over, under), min(over, under))


@dataclass(frozen=True, eq=False)
class DeployedQuestions(DeploymentFile):
    """Deployment file of local queries.

    The cumulative probabilities of all but the last, and the total ε that it states.

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
        """Return the keys of this kind of file."""
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

    @property
    def drawn_by(self) -> str:
        """The number of questions."""
        return f"{len(self.questions)} questions"

    def recomputed(self) -> list[tuple[str, Sequence[str], Sequence[Decimal], str]]:
        """Recompute the total ε."""
        return [("total epsilon", [self.total], [self.exact_total], _FORMULAS)]

    @property
    def is_heavy(self) -> bool:
        """Whether checks may be slow, by the bits of all thresholds."""
        return len(self.questions) * self.bits > _MOST_BITS_HERE

    def _digits(self, threshold: int) -> str:
        return f"{threshold:0{self.bits // 4}x}"

    @classmethod
    def of_content(cls, content: dict[str, Any], intact: bool) -> "DeployedQuestions":
        """Build from canonical JSON; see :class:`DeploymentFile`."""
        record, domain = _converted(content, _QuestionsRecord, "a file of questions")
        if not record.questions:
            raise InvalidInput("it has no questions")
        ends = _numbers(record.ends, record.bits, len(record.questions) - 1, "ends")
        if any(low >= high for low, high in pairwise(ends)):
            raise InvalidInput("its ends do not increase")
        if sum(1 << min(len(q.subset_sizes), MOST_SUBSETS) for q in record.questions) > MOST_PATTERNS:
            raise InvalidInput(f"its questions have more than {MOST_PATTERNS} patterns of matches in all")
        questions = tuple(_question(k, q, domain, record.bits) for k, q in enumerate(record.questions))
        total = _checked_total(record.epsilon.total)
        return cls(domain, record.bits, ends, questions, total, record.design, record.software, intact)

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Number of categories of each attribute of each question."""
        return tuple(tuple(self.domain.attributes[i].size for i in q.attributes) for q in self.questions)

    @property
    def exact_total(self) -> Decimal:
        """Total ε in nats, rounded up in the 15th place.

        The largest ε of the queries; the choice of the query reveals nothing.
        """
        return max(q.epsilon(shape, self.bits) for q, shape in zip(self.questions, self.shapes, strict=True))

    @property
    def most_report_bytes(self) -> int:
        """Bytes that a report of a client may have as JSON, at most (§8)."""
        subsets = (
            sum(k * (len(str(r - 1)) + 1) for k, r in zip(q.report.subset_sizes, q.report.parts(shape), strict=True))
            for q, shape in zip(self.questions, self.shapes, strict=True)
        )
        return _FRAME_BYTES + max(subsets)

    def members(self, table: int, cells: str) -> list[int]:
        """Parse the members of all subsets of an answer (§8).

        Empty if no client can have drawn or written it.

        Time grows with the text.
        """
        if not 1 <= table <= len(self.questions):
            return []
        report, shape = self.questions[table - 1].report, self.shapes[table - 1]
        parts, texts = report.parts(shape), cells.split("|")
        if len(texts) != len(parts):
            return []
        subsets = list(map(_subset, texts, parts, report.subset_sizes))
        return [member for subset in subsets for member in subset] if all(subsets) else []


def _subset(text: str, r: int, k: int) -> list[int]:
    """Parse k distinct ascending numbers below r, separated by one space.

    Empty for other texts.
    """
    numbers = text.split(" ")
    if len(numbers) != k or not all(map(_NUMBER.fullmatch, numbers)):
        return []
    members = [int(number) for number in numbers]
    return members if members[-1] < r and all(low < high for low, high in pairwise(members)) else []


# Contents of a deployment file.
Deployed: TypeAlias = Deployment | DeployedTrials | DeployedQuestions
# Kind of a file, by the key that only this kind has.
_KINDS: dict[str, type[DeploymentFile]] = {"questions": DeployedQuestions, "trials": DeployedTrials}


def decoded_deployment(raw: bytes, source: Given) -> Deployed:
    """Decode a deployment file and check its form.

    Its ε are as stated, and it may have been edited.

    ``source`` is where the bytes stand, for messages. Raises InvalidInput where they are no deployment of this version, or its
    parts do not fit together.
    """
    try:
        content, intact = _known_content(raw)
        kind: Any = next((_KINDS[key] for key in content if key in _KINDS), Deployment)
        deployed: Deployed = kind.of_content(content, intact)
        return deployed
    except InvalidInput as error:
        raise InvalidInput(f"deployment file {source}: {error}") from error


def hexadecimal(words: Words) -> str:
    """Format thresholds, shape (D, S), most significant word first, in hex.

    Fixed-width digits one after another.
    """
    return np.ascontiguousarray(words.T).astype(">u8").tobytes().hex()


def _layer_record(layer: Layer | ChoiceLayer, bits: int) -> dict[str, Any]:
    if isinstance(layer, ChoiceLayer):
        ends = np.zeros((bits // 64, layer.ends.size), dtype=np.uint64)
        ends[0] = layer.ends
        return {"kind": "choice", "ends": hexadecimal(ends), "next": layer.next_states.tolist()}
    if layer.uniform:
        return {"kind": "uniform", "attribute": layer.attribute, "next": layer.kept.tolist()}
    out = {
        "kind": "change",
        "attribute": layer.attribute,
        "threshold": hexadecimal(layer.words),
        "kept": layer.kept.tolist(),
        "changed": layer.changed.tolist(),
    }
    if layer.high is not None and layer.high_words is not None:
        out |= {"second_threshold": hexadecimal(layer.high_words), "second": layer.high.tolist()}
    return out


def _known_content(raw: bytes) -> tuple[dict[str, Any], bool]:
    """Decode a file of this format, and check that it is intact.

    Raises InvalidInput if it is not such a file.
    """
    content = _from_canonical(raw)
    written = content.get("format")
    if written != FORMAT:
        raise InvalidInput(f"the format is {str(written)[:40]!r}, not {FORMAT!r}: give what `optrr export` wrote")
    return content, content.get("digest") == digest_of(content)


def _converted(content: dict[str, Any], kind: type[Frame], what: str) -> tuple[Frame, Domain]:
    """Convert a file's content to its record and domain.

    Digest and number of bits are checked.
    """
    try:
        record = msgspec.convert(content, type=kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"it does not fit {what}: {in_one_line(error)}") from error
    if not _DIGEST.fullmatch(record.design):
        raise InvalidInput("design is not 64 lower-case hexadecimal digits")
    if record.bits not in WIDTHS:
        raise InvalidInput(f"bits is {record.bits}; give a multiple of 64 from {WIDTHS.start} to {WIDTHS.stop - 1}")
    return record, Domain(tuple(map(_declared_attribute, record.attributes)))


def _declared_attribute(record: _AttributeRecord) -> Attribute:
    if not SIZE_RANGE[0] <= len(record.categories) <= SIZE_RANGE[1]:
        raise InvalidInput(f"attribute {record.name!r} has {len(record.categories)} categories")
    return Attribute(record.name, tuple(record.categories))


def _checked_total(text: str) -> str:
    if not _EPSILON.fullmatch(text) or text.startswith("-"):
        raise InvalidInput(
            f"epsilon holds {text[:40]!r} as its total; give nats, not negative, with 15 places after the point"
        )
    return text


def _check_stated(stated: StatedEpsilons, m: int) -> None:
    if len(stated.attributes) != m or len(stated.conditional) != m:
        raise InvalidInput(f"epsilon must state one number for each of {m} attributes")
    _checked_total(stated.total)
    for text in (*stated.attributes, *stated.conditional):
        if not _EPSILON.fullmatch(text):
            raise InvalidInput(f"epsilon holds {text[:40]!r}; give nats with 15 places after the point")
    if any(x.startswith("-") for x in stated.conditional):
        raise InvalidInput("epsilon states a negative conditional")
    if any(Decimal(x) > Decimal(stated.total) for x in stated.conditional):
        raise InvalidInput("epsilon states a conditional above the total")


def _automaton(record: _AutomatonRecord, sizes: IntArray) -> Layers:
    if len(record.layers) > MOST_LAYERS:
        raise InvalidInput(f"it has {len(record.layers)} layers; {MOST_LAYERS} at most")
    _check_attributes(record.layers, sizes.size)
    counts = [_states(k, x, record.bits) for k, x in enumerate(record.layers)]
    if counts[0] != 1:
        raise InvalidInput(f"layer 0 has {counts[0]} states; there is one before the first layer")
    if sum(counts) > MOST_STATES:
        raise InvalidInput(f"it has {sum(counts)} states; {MOST_STATES} at most")
    layers = [
        _layer(k, x, record.bits, count, after)
        for k, (x, count, after) in enumerate(zip(record.layers, counts, [*counts[1:], 1], strict=True))
    ]
    return Layers(sizes, tuple(layers), record.bits)


def _check_attributes(layers: Sequence[_LayerRecord], m: int) -> None:
    numbers = [x.attribute for x in layers if not isinstance(x, _ChoiceRecord)]
    if sorted(numbers) != list(range(m)):
        raise InvalidInput(f"the layers must visit each of {m} attributes once")
    if isinstance(layers[-1], _ChoiceRecord):
        raise InvalidInput("the last layer is a choice; nothing follows it")


def _states(k: int, layer: _LayerRecord, bits: int) -> int:
    """Count the states before a layer, on which all its lists must agree."""
    if isinstance(layer, _ChoiceRecord):
        if len(layer.ends) * 4 != (len(layer.next) - 1) * bits or len(layer.next) < 1:
            _refuse(k, "its ends are not one threshold for each component but the last")
        return 1
    count = len(layer.next if isinstance(layer, _UniformRecord) else layer.kept)
    if count == 0:
        _refuse(k, "it has no states")
    if isinstance(layer, _ChangeRecord):
        if (layer.second_threshold is msgspec.UNSET) != (layer.second is msgspec.UNSET):
            _refuse(k, "it has one of second_threshold and second without the other")
        lists = [layer.changed] + ([] if layer.second is msgspec.UNSET else [layer.second])
        texts = [layer.threshold] + ([] if layer.second_threshold is msgspec.UNSET else [layer.second_threshold])
        if any(len(x) != count for x in lists) or any(len(x) * 4 != count * bits for x in texts):
            _refuse(k, f"its lists and thresholds are not all for {count} states of {bits} bits")
    return count


def _layer(k: int, record: _LayerRecord, bits: int, count: int, after: int) -> Layer | ChoiceLayer:
    if isinstance(record, _ChoiceRecord):
        return _choice(k, record, bits, after)
    if isinstance(record, _UniformRecord):
        following = _next(k, record.next, after)
        ones = np.ones((bits // 64, count), dtype=np.uint64)
        return Layer(record.attribute, following, following, words=ones, uniform=True)
    words = _thresholds(k, record.threshold, bits)
    kept, changed = _next(k, record.kept, after), _next(k, record.changed, after)
    if record.second is msgspec.UNSET or record.second_threshold is msgspec.UNSET:
        return Layer(record.attribute, kept, changed, words=words)
    second = _thresholds(k, record.second_threshold, bits)
    if not np.all(_below(second, words)):
        _refuse(k, "a second threshold is not below the first")
    return Layer(record.attribute, kept, changed, _next(k, record.second, after), 0.5, words=words, high_words=second)


def _choice(k: int, record: _ChoiceRecord, bits: int, after: int) -> ChoiceLayer:
    ends = _thresholds(k, record.ends, bits)
    if not np.all(_below(ends[:, :-1], ends[:, 1:])):
        _refuse(k, "its ends do not increase")
    if ends[1:].any():
        _refuse(k, "its ends have more than 64 bits")
    return ChoiceLayer(_next(k, record.next, after), ends[0])


def _thresholds(k: int, text: str, bits: int) -> Words:
    if not _HEXADECIMAL.fullmatch(text):
        _refuse(k, "its thresholds are not lower-case hexadecimal digits")
    words = np.frombuffer(bytes.fromhex(text), dtype=">u8").reshape(-1, bits // 64)
    out = np.ascontiguousarray(words.T.astype(np.uint64))
    if not out.any(axis=0).all():
        _refuse(k, "a threshold is 0, for which no finite epsilon holds")
    return out


def _below(a: Words, b: Words) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Compare a < b, word by word from the most significant."""
    less, open_ = np.zeros(a.shape[1], dtype=np.bool_), np.ones(a.shape[1], dtype=np.bool_)
    for x, y in zip(a, b, strict=True):
        less |= open_ & (x < y)
        open_ &= x == y
    return less


def _next(k: int, states: list[int], after: int) -> IntArray:
    # compared as Python integers, so that a value beyond 64 bits is refused instead of wrapped
    if min(states) < 0 or max(states) >= after:
        _refuse(k, f"a next state is not among the {after} that follow")
    return np.array(states, dtype=np.int64)


def _refuse(k: int, why: str) -> NoReturn:
    raise InvalidInput(f"layer {k}: {why}")


def _trials(record: _TrialsRecord, sizes: IntArray) -> Trials:
    draw = record.trials
    if record.bits != WORD_BITS:
        raise InvalidInput(f"bits is {record.bits}; trials have {WORD_BITS}")
    balls = tuple(_ball(k, x, sizes) for k, x in enumerate(draw.balls))
    ends = _numbers(draw.ends, WORD_BITS, len(balls) - 1, "trials")
    if any(low >= high for low, high in pairwise(ends)):
        raise InvalidInput("trials: their ends do not increase")
    (uniform,) = _numbers(draw.uniform, WORD_BITS, 1, "trials", 0)
    made = Trials(balls, ends, uniform, draw.count)
    if made.work > MOST_SUMS or not 0 < draw.count <= MOST_TRIALS:
        raise InvalidInput(
            f"trials: give 1 to {MOST_TRIALS} of them, and totals that times {sizes.size} are at most {MOST_SUMS}"
        )
    if made.flaw:
        raise InvalidInput(f"trials: {made.flaw}; export the design again")
    return made


def _ball(k: int, record: _BallRecord, sizes: IntArray) -> TrialBall:
    where, m = f"ball {k}", sizes.size
    thresholds, second = (
        np.array(_numbers(text, WORD_BITS, m, where, 0), dtype=np.uint64)
        for text in (record.thresholds, record.second_thresholds)
    )
    if np.any(second > thresholds):
        raise InvalidInput(f"{where}: a second threshold is above the first")
    acceptance = np.array(_numbers(record.acceptance, 32, len(record.acceptance) // 8, where, 0), dtype=np.uint32)
    end = record.least + acceptance.size
    if not acceptance.any() or not 0 <= record.least < MOST_SUMS:
        raise InvalidInput(f"{where}: no total is accepted")
    if len(record.weights) != m or not all(0 <= w <= end for w in record.weights):
        raise InvalidInput(f"{where}: its weights are not {m} numbers of 0..{end}")
    if abs(record.log_ratio) >= 1 << 53:
        raise InvalidInput(f"{where}: its log_ratio has more than 53 bits")
    weights = np.array(record.weights, dtype=np.int64)
    return TrialBall(sizes, weights, thresholds, second, record.least, acceptance, record.log_ratio)


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
    (threshold,) = _numbers(record.threshold, bits, 1, where)
    return DeployedQuestion(tuple(members), report, threshold)


def _numbers(text: str, bits: int, count: int, where: str, least: int = 1) -> tuple[int, ...]:
    width = bits // 4
    if len(text) != count * width or not _HEXADECIMAL.fullmatch(text):
        raise InvalidInput(f"{where}: not {count} thresholds of {width} lower-case hexadecimal digits")
    out = tuple(int(text[at : at + width], 16) for at in range(0, len(text), width))
    if any(x < least for x in out):
        raise InvalidInput(f"{where}: a threshold is 0, for which no finite epsilon holds")
    return out
