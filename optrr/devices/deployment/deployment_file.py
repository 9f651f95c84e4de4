"""Deployment files: writing, reading, and refusing what does not fit together (``docs/deployment-format.md``).

A file holds an automaton, or questions (:mod:`optrr.devices.deployment.questions`).

What is checked here is the form and that the automaton is one: every attribute once, every next state there, every
threshold in range. Whether the ε are true is :mod:`optrr.devices.deployment.verify`'s question.

The one way to write a deployment file's JSON (RFC 8785), so that a digest means the same in every language.

The file holds no fractions, so that only sorted keys, the spacing and the escapes need care.
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import numpy as np

from optrr.domain.domain import Attribute, Domain
from optrr.errors import InvalidInput, in_one_line
from optrr.records.whole_files import whole_file
from optrr_solvers.arrays import IntArray
from optrr_solvers.automaton.diagram import MOST_LAYERS, MOST_STATES
from optrr_solvers.automaton.layers import ChoiceLayer, Layer, Layers
from optrr_solvers.problem import SIZE_RANGE
from optrr_solvers.randomness import Words

# Digits of a number; every one in a file is far below.
_MOST_DIGITS = 20


def canonical(value: Any) -> bytes:
    """A JSON value without fractions in canonical form, UTF-8.

    Raises
    ------
    UnicodeEncodeError
        for text with unpaired surrogates, which has no such form.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8")


def digest_of(content: dict[str, Any]) -> str:
    """SHA-256 of the canonical form without the key ``digest``, in hexadecimal digits."""
    return hashlib.sha256(canonical({k: v for k, v in content.items() if k != "digest"})).hexdigest()


def from_canonical(raw: bytes) -> dict[str, Any]:
    """The object that canonical bytes hold; one line feed may follow.

    Raises
    ------
    InvalidInput
        for anything else: no JSON, no object, repeated keys, white space, numbers in another form.
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
# Widths of a threshold; part of the format.
WIDTHS = range(64, 6144 + 1, 64)
_EPSILON = re.compile(r"(?!-0\.0{15})-?(0|[1-9][0-9]*)\.[0-9]{15}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_HEXADECIMAL = re.compile(r"[0-9a-f]*")

__all__ = ["FORMAT", "Deployment", "StatedEpsilons", "read_deployment_text", "save_deployment"]


class DeployedAttribute(msgspec.Struct, forbid_unknown_fields=True):
    """An attribute as it stands in a file."""

    name: str
    categories: list[str | None]


class _EpsilonRecord(msgspec.Struct, forbid_unknown_fields=True):
    total: str
    attributes: list[str]
    conditional: list[str]


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


class _DeploymentContent(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    software: str
    design: str
    attributes: list[DeployedAttribute]
    bits: int
    layers: list[_LayerRecord]
    epsilon: _EpsilonRecord
    digest: str


@dataclass(frozen=True)
class StatedEpsilons:
    """The ε that a file states, nats, as decimal text with 15 places."""

    total: str
    attributes: tuple[str, ...]
    conditional: tuple[str, ...]


class DeploymentFile(ABC):
    """What every deployment file holds, whatever draws: the domain, the digest of the design, and which software wrote it."""

    domain: Domain
    design: str
    software: str

    @abstractmethod
    def parts(self) -> dict[str, Any]:
        """The keys that are of this kind of file only."""

    def content(self) -> dict[str, Any]:
        """The JSON object, with its digest."""
        out = {
            "format": FORMAT,
            "software": self.software,
            "design": self.design,
            "attributes": [{"name": a.name, "categories": list(a.texts)} for a in self.domain],
            **self.parts(),
        }
        return {**out, "digest": digest_of(out)}

    def to_bytes(self) -> bytes:
        """The file's bytes.

        Raises
        ------
        InvalidInput
            where a name or a category has no UTF-8 form.
        """
        try:
            return canonical(self.content()) + b"\n"
        except UnicodeEncodeError as error:
            raise InvalidInput(
                "a name or category holds half a surrogate pair, which has no UTF-8 form; rename it"
            ) from error


@dataclass(frozen=True, eq=False)
class Deployment(DeploymentFile):
    """What a deployment file holds: domain, automaton, stated ε, and the digest of the design that it belongs to.

    ``intact``: whether a file is as it was written.
    """

    domain: Domain
    automaton: Layers
    stated: StatedEpsilons
    design: str
    software: str
    intact: bool = True

    def parts(self) -> dict[str, Any]:
        """The keys of this kind of file."""
        return {
            "bits": self.automaton.bits,
            "layers": [_layer_record(x, self.automaton.bits) for x in self.automaton.layers],
            "epsilon": {
                "total": self.stated.total,
                "attributes": list(self.stated.attributes),
                "conditional": list(self.stated.conditional),
            },
        }


def save_deployment(deployed: DeploymentFile, path: str | Path) -> None:
    """Write a deployment file, whole or not at all."""
    with whole_file(Path(path)) as partial:
        partial.write_bytes(deployed.to_bytes())


def hexadecimal(words: Words) -> str:
    """Thresholds, shape (D, S) with the first word highest, as fixed-width digits one after another."""
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


def read_deployment_text(raw: bytes, *, edited: bool = False) -> Deployment:
    """The automaton's deployment in a file's bytes, checked in form; its ε are as stated.

    Raises
    ------
    InvalidInput
        where they are no deployment of this version, or its parts do not fit together; where it was changed after it was
        written, unless it may be ``edited``.
    """
    return of_layers(*known_content(raw, edited=edited))


def known_content(raw: bytes, *, edited: bool) -> tuple[dict[str, Any], bool]:
    """The object of a file of this format, and whether it is as it was written.

    Raises
    ------
    InvalidInput
        where it is none, or was changed, unless it may be ``edited``.
    """
    content = from_canonical(raw)
    written = content.get("format")
    if written != FORMAT:
        raise InvalidInput(
            f"the format is {str(written)[:40]!r}; this version reads {FORMAT!r}: export the design again"
        )
    intact = content.get("digest") == digest_of(content)
    if not intact and not edited:
        raise InvalidInput("it was changed after it was written (its digest differs); export the design again")
    return content, intact


def of_layers(content: dict[str, Any], intact: bool) -> Deployment:
    try:
        record = msgspec.convert(content, type=_DeploymentContent)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"it does not fit {FORMAT}: {in_one_line(error)}") from error
    check_frame(record.design, record.bits)
    domain = Domain(tuple(declared_attribute(a) for a in record.attributes))
    stated = _stated(record.epsilon, domain.m)
    return Deployment(domain, _automaton(record, domain.sizes), stated, record.design, record.software, intact)


def check_frame(design: str, bits: int) -> None:
    """Refuse a digest or a number of bits that no file has."""
    if not _DIGEST.fullmatch(design):
        raise InvalidInput("design is not 64 lower-case hexadecimal digits")
    if bits not in WIDTHS:
        raise InvalidInput(f"bits is {bits}; give a multiple of 64 from {WIDTHS.start} to {WIDTHS.stop - 1}")


def checked_total(text: str) -> str:
    """A stated total ε, right in form."""
    if not _EPSILON.fullmatch(text) or text.startswith("-"):
        raise InvalidInput(
            f"epsilon holds {text[:40]!r} as its total; give nats, not negative, with 15 places after the point"
        )
    return text


def declared_attribute(record: DeployedAttribute) -> Attribute:
    """The attribute of a file. Raises InvalidInput where it has too few categories, or too many."""
    if not SIZE_RANGE[0] <= len(record.categories) <= SIZE_RANGE[1]:
        raise InvalidInput(f"attribute {record.name!r} has {len(record.categories)} categories")
    return Attribute(record.name, tuple(record.categories))


def _stated(record: _EpsilonRecord, m: int) -> StatedEpsilons:
    if len(record.attributes) != m or len(record.conditional) != m:
        raise InvalidInput(f"epsilon must state one number for each of {m} attributes")
    checked_total(record.total)
    for text in (*record.attributes, *record.conditional):
        if not _EPSILON.fullmatch(text):
            raise InvalidInput(f"epsilon holds {text[:40]!r}; give nats with 15 places after the point")
    if any(x.startswith("-") for x in record.conditional):
        raise InvalidInput("epsilon states a negative conditional")
    if any(Decimal(x) > Decimal(record.total) for x in record.conditional):
        raise InvalidInput("epsilon states a conditional above the total")
    return StatedEpsilons(record.total, tuple(record.attributes), tuple(record.conditional))


def _automaton(record: _DeploymentContent, sizes: IntArray) -> Layers:
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
    """How many states stand before a layer, which all of its lists agree on."""
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
        return Layer(
            record.attribute, np.ones((bits // 64, count), dtype=np.uint64), following, following, uniform=True
        )
    words = _thresholds(k, record.threshold, bits)
    kept, changed = _next(k, record.kept, after), _next(k, record.changed, after)
    if record.second is msgspec.UNSET or record.second_threshold is msgspec.UNSET:
        return Layer(record.attribute, words, kept, changed)
    second = _thresholds(k, record.second_threshold, bits)
    if not np.all(_below(second, words)):
        _refuse(k, "a second threshold is not below the first")
    return Layer(record.attribute, words, kept, changed, _next(k, record.second, after), second, fraction=0.5)


def _choice(k: int, record: _ChoiceRecord, bits: int, after: int) -> ChoiceLayer:
    ends = _thresholds(k, record.ends, bits)
    if not np.all(_below(ends[:, :-1], ends[:, 1:])):
        _refuse(k, "its ends do not increase")
    if ends[1:].any():
        _refuse(k, "its ends have more than 64 bits")
    return ChoiceLayer(ends[0], _next(k, record.next, after))


def _thresholds(k: int, text: str, bits: int) -> Words:
    if not _HEXADECIMAL.fullmatch(text):
        _refuse(k, "its thresholds are not lower-case hexadecimal digits")
    words = np.frombuffer(bytes.fromhex(text), dtype=">u8").reshape(-1, bits // 64)
    out = np.ascontiguousarray(words.T.astype(np.uint64))
    if not out.any(axis=0).all():
        _refuse(k, "a threshold is 0, for which no finite epsilon holds")
    return out


def _below(a: Words, b: Words) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """a < b, word by word from the highest."""
    less, open_ = np.zeros(a.shape[1], dtype=np.bool_), np.ones(a.shape[1], dtype=np.bool_)
    for x, y in zip(a, b, strict=True):
        less |= open_ & (x < y)
        open_ &= x == y
    return less


def _next(k: int, states: list[int], after: int) -> IntArray:
    # compared as Python integers: one beyond 64 bits is refused here and not wrapped
    if min(states) < 0 or max(states) >= after:
        _refuse(k, f"a next state is not among the {after} that follow")
    return np.array(states, dtype=np.int64)


def _refuse(k: int, why: str) -> NoReturn:
    raise InvalidInput(f"layer {k}: {why}")
