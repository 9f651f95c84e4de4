"""Permanent answers without a store: drawn from a secret key, so that every round draws the same one again.

Each person's answer comes from a stream of its own, SHAKE-256 of the key (padded to one block, as KMAC256 does), the design,
the person and the true record. It is therefore the same in every round, and independent, as far as anybody without the key
can tell, of every other person's, and of the answer that the same person would give with another record. Whoever has the key
can undo everything: it stays with whoever has the true records, on a device for that person alone.

The walk through the automaton below is part of the format: it uses each word of the stream at a fixed place, so that another
version of this package draws the same answers. A replaced category is a number of 128 bits modulo the number of categories,
which favours none by more than 2^-100, relative.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from optrr.errors import InvalidInput, MethodTooLarge, in_one_line
from optrr.mechanisms.mechanism import Mechanism
from optrr.releases.small_files import read_named
from optrr.ways.longitudinal.design import LongitudinalDesign
from optrr.ways.longitudinal.whole import WholeOrUniform
from optrr_solvers.automaton.layers import ChoiceLayer, Layer, Layers
from optrr_solvers.randomness import Words

_BYTES = 32
# SHAKE-256 takes in blocks of so many bytes.
_BLOCK = 136
_FORMAT = b"optrr-permanent/1"
_HEXADECIMAL = re.compile(r"[0-9a-f]{64}\s*")
# Words of all streams together that are held at once: 32 MB.
_WORDS = 1 << 22


@dataclass(frozen=True, eq=False)
class Key:
    """A secret of 32 bytes; never shown.

    Raises
    ------
    InvalidInput
        for another number of bytes.
    """

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) != _BYTES:
            raise InvalidInput(f"a key has {_BYTES} bytes, and this one {len(self.secret)}; make one with Key.new()")

    @staticmethod
    def new() -> Key:
        """A new key from the operating system's random bits."""
        return Key(secrets.token_bytes(_BYTES))

    @staticmethod
    def load(path: str | Path) -> Key:
        """Read a key file. Raises InvalidInput where it is none."""
        text = read_named(path, "the key").decode("ascii", "replace").replace("\r\n", "\n")
        if not _HEXADECIMAL.fullmatch(text):
            raise InvalidInput(f"{path} is no key: a key is a line of 64 hexadecimal digits; make one with --new-key")
        return Key(bytes.fromhex(text.strip()))

    def save(self, path: str | Path) -> None:
        """Write a key file that only its owner can read.

        Raises
        ------
        InvalidInput
            where there is a file already: people's permanent answers depend on it.
        """
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError as error:
            raise InvalidInput(
                f"{path} exists already, and permanent answers may depend on it; choose another name"
            ) from error
        except OSError as error:
            raise InvalidInput(f"cannot write the key {path}: {in_one_line(error)}") from error
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(self.secret.hex() + "\n")

    def stream(self, *parts: bytes) -> hashlib._Hash:
        """SHAKE-256 of the key and of these parts, each with its length before it."""
        out = hashlib.shake_256(self.secret.ljust(_BLOCK, b"\0"))
        for part in (_FORMAT, *parts):
            out.update(len(part).to_bytes(8, "big") + part)
        return out

    def release_id(self, design: str) -> str:
        """The id of everything that people report with this key under the design of this digest: 32 hexadecimal digits."""
        return self.stream(b"release", design.encode()).hexdigest(16)  # type: ignore[call-arg]


def permanent_answers(
    design: LongitudinalDesign, key: Key, people: Sequence[str], codes: NDArray[np.integer]
) -> NDArray[np.int32]:
    """Everybody's permanent answer: codes, shape (n, m), the same whenever it is asked for with the same record.

    Raises
    ------
    MethodTooLarge
        where the permanent law has no automaton.
    """
    return _keyed(design.permanent, key, (b"permanent", design.digest.encode()), people, codes)


def reports(
    design: LongitudinalDesign, key: Key, round_name: str, people: Sequence[str], answers: NDArray[np.integer]
) -> NDArray[np.int32]:
    """Everybody's report of one round from the permanent answers, shape (n, m): asking again for that round repeats it."""
    parts = (b"report", design.digest.encode(), round_name.encode())
    return _keyed(design.instantaneous, key, parts, people, answers)


def _keyed(
    stage: Mechanism | WholeOrUniform,
    key: Key,
    parts: tuple[bytes, ...],
    people: Sequence[str],
    codes: NDArray[np.integer],
) -> NDArray[np.int32]:
    walk = _Coin(stage) if isinstance(stage, WholeOrUniform) else _Walk(stage)
    out = np.array(codes, dtype=np.int32, order="C")
    base, step = key.stream(*parts), max(1, _WORDS // walk.words)
    for start in range(0, len(people), step):
        piece = out[start : start + step]
        drawn = bytearray()
        for person, record in zip(people[start : start + step], piece.astype("<i4"), strict=True):
            own = base.copy()
            name = person.encode()
            own.update(len(name).to_bytes(8, "big") + name + record.tobytes())
            drawn += own.digest(8 * walk.words)  # type: ignore[call-arg]
        walk.move(np.frombuffer(drawn, dtype="<u8").reshape(len(piece), walk.words), piece)
    return out


class _Coin:
    """One word for the coin, two for each category."""

    def __init__(self, stage: WholeOrUniform) -> None:
        self._stage = stage
        self.words = 1 + 2 * stage.domain.m

    def move(self, words: Words, codes: NDArray[np.int32]) -> None:
        replaced = words[:, 0] >= np.uint64(self._stage.threshold)
        for i, r in enumerate(self._stage.domain.sizes.tolist()):
            codes[replaced, i] = _below(words[replaced, 1 + 2 * i : 3 + 2 * i], r)


class _Walk:
    """Layer by layer: a threshold's words, then two for the category; a choice takes one, a uniform layer two."""

    def __init__(self, stage: Mechanism) -> None:
        automaton = stage.law.automaton
        if automaton is None:
            raise MethodTooLarge(
                f"a law over {stage.domain.m} attributes is too large to be drawn from a key; draw permanent answers once, "
                "and keep them"
            )
        self._layers: Layers = automaton.layers
        self.words = sum(_width(layer) for layer in self._layers.layers)

    def move(self, words: Words, codes: NDArray[np.int32]) -> None:
        state, at = np.zeros(len(codes), dtype=np.int64), 0
        for layer in self._layers.layers:
            own = words[:, at : at + _width(layer)]
            at += own.shape[1]
            if isinstance(layer, ChoiceLayer):
                state = layer.next_states[np.searchsorted(layer.ends, own[:, 0], side="right")]
            else:
                state = self._step(layer, own, state, codes[:, layer.attribute])

    def _step(
        self, layer: Layer, words: Words, state: NDArray[np.int64], column: NDArray[np.int32]
    ) -> NDArray[np.int64]:
        size = int(self._layers.sizes[layer.attribute])
        if layer.uniform:
            column[:] = _below(words, size)
            return layer.kept[state]
        decide, other = words[:, :-2], words[:, -2:]
        changed = _less(decide, layer.words[:, state].T)
        column[changed] = (column[changed] + 1 + _below(other[changed], size - 1)) % size
        after = np.where(changed, layer.changed[state], layer.kept[state])
        if layer.high is not None and layer.high_words is not None:
            after = np.where(_less(decide, layer.high_words[:, state].T), layer.high[state], after)
        return after


def _width(layer: Layer | ChoiceLayer) -> int:
    if isinstance(layer, ChoiceLayer):
        return 1
    return 2 if layer.uniform else layer.words.shape[0] + 2


def _less(words: Words, thresholds: Words) -> NDArray[np.bool_]:
    """Row by row, whether the number of these words, first word highest, is below the other."""
    less = np.zeros(len(words), dtype=np.bool_)
    equal = np.ones(len(words), dtype=np.bool_)
    for word, bound in zip(words.T, thresholds.T, strict=True):
        less |= equal & (word < bound)
        equal &= word == bound
    return less


def _below(words: Words, bound: int) -> NDArray[np.int64]:
    """Numbers of two words modulo ``bound``, at most 2^31."""
    b = np.uint64(bound)
    rest = (words[:, 0] % b) * np.uint64((1 << 64) % bound) + words[:, 1] % b
    return np.asarray(rest % b, dtype=np.int64)
