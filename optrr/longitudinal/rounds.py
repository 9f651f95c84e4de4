"""One wave of reports from a file of true records: in batches, completely or not at all, and repeatable.

The true records need a column that identifies the person. The column is copied to the reports, because estimates over
several waves must link the reports of one person. Everything else is drawn from the key: the memoized response from the
person and the record, the report from these and the name of the wave. So a repeated wave has the same reports, and no
further ones. Their order is drawn from the system's random bits each time, because positions would reveal true records,
as in any release. The same holds for names of persons that were assigned in the order of the records; they are copied
unchanged.

The stated ε of a person is that of a lifetime, under an id that belongs to key and design. All waves have the same id,
so that privacy accounting counts them once.

The memoized response is drawn from a secret key, so that every wave draws the same one without a store. Each person's
response uses a separate stream, SHAKE-256 of the key (padded to one block, as KMAC256 does), the design, the person and
the true record. It is the same in every wave; without the key, it is computationally independent of the responses of
other persons and of that of the same person with another record. The key reveals all true records: it stays in the
place of the true records, which on a device means with that person.

The walk through the automaton below is part of the format: it uses each word of the stream at a fixed place, so that
other versions of this package draw the same responses. A replaced category is a number of 128 bits modulo the number of
categories, whose relative bias is below 2^-100.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optrr.core.domain import Domain, category_text, listed, shown
from optrr.core.errors import InvalidInput, MethodTooLarge, in_one_line
from optrr.core.mechanisms import FileRelease, Mechanism, ReleaseOptions, replaced_release
from optrr.core.provenance import Release, read_named
from optrr.core.records import (
    FrameCodec,
    Places,
    Source,
    format_to_write,
    open_source,
    refuse_input_as_target,
    refuse_randomized,
    released_file,
)
from optrr.longitudinal.design import LongitudinalDesign
from optrr.longitudinal.stages import WholeOrUniform
from optrr_solvers.randomness import Words, as_source
from optrr_solvers.sampling.diagram import ChoiceLayer, Layer, Layers

_BYTES = 32
# Block size of SHAKE-256 in bytes.
_BLOCK = 136
_FORMAT = b"optrr-permanent/1"
_HEXADECIMAL = re.compile(r"[0-9a-f]{64}\s*")
# Words of all streams together that are held at once: 32 MB.
_WORDS = 1 << 22
# Number of names that increase by chance only once in ten million orders.
_SOME = 11


@dataclass(frozen=True, eq=False)
class Key:
    """A secret of 32 bytes that is never shown.

    Raises InvalidInput for another number of bytes.
    """

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) != _BYTES:
            raise InvalidInput(
                f"a key has {_BYTES} bytes, but this one has {len(self.secret)}; make one with Key.new()"
            )

    @staticmethod
    def new() -> Key:
        """Create a key from the operating system's random bits."""
        return Key(secrets.token_bytes(_BYTES))

    @staticmethod
    def load(path: str | Path) -> Key:
        """Read a key file. Raises InvalidInput for other files."""
        text = read_named(path, "the secret").decode("ascii", "replace").replace("\r\n", "\n")
        if not _HEXADECIMAL.fullmatch(text):
            raise InvalidInput(
                f"{path}: not a secret, which is a line of 64 hexadecimal digits; make one with ``new_secret``"
            )
        return Key(bytes.fromhex(text.strip()))

    def save(self, path: str | Path) -> None:
        """Write a key file that only its owner can read.

        Raises InvalidInput where there is a file already: people's permanent answers depend on it.
        """
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError as error:
            raise InvalidInput(
                f"{path}: exists already, and memoized responses may depend on it; choose another name"
            ) from error
        except OSError as error:
            reason = in_one_line(error.strerror or error)
            raise InvalidInput(f"cannot write the key {path}: {reason}; choose another path") from error
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(self.secret.hex() + "\n")

    def stream(self, *parts: bytes) -> hashlib._Hash:
        """Start SHAKE-256 with the key and these parts, each preceded by its length."""
        out = hashlib.shake_256(self.secret.ljust(_BLOCK, b"\0"))
        for part in (_FORMAT, *parts):
            out.update(len(part).to_bytes(8, "big") + part)
        return out

    def release_id(self, design: str) -> str:
        """Compute the release id of this key and design: 32 hexadecimal digits.

        It is shared by everything that people report with this key under the design of this digest.
        """
        return self.stream(b"release", design.encode()).hexdigest(16)  # type: ignore[call-arg]


def permanent_answers(
    design: LongitudinalDesign, key: Key, people: Sequence[str], codes: NDArray[np.integer]
) -> NDArray[np.int32]:
    """Compute everybody's memoized response, codes of shape (n, m).

    The same record always gives the same response.

    Raises MethodTooLarge where the permanent law has no automaton.
    """
    return _keyed(design.permanent, key, (b"permanent", design.digest.encode()), people, codes)


def reports(
    design: LongitudinalDesign, key: Key, wave: str, people: Sequence[str], answers: NDArray[np.integer]
) -> NDArray[np.int32]:
    """Compute everybody's report of one wave from memoized responses, (n, m).

    The same wave always gives the same report.
    """
    parts = (b"report", design.digest.encode(), wave.encode())
    return _keyed(design.instantaneous, key, parts, people, answers)


def _keyed(
    stage: Mechanism | WholeOrUniform,
    key: Key,
    parts: tuple[bytes, ...],
    people: Sequence[str],
    codes: NDArray[np.integer],
) -> NDArray[np.int32]:
    walk = _walk_of(stage)
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
    """Number of words of each layer of the automaton.

    A threshold's words, then two for the category; a choice takes one word, a uniform layer two.
    """

    def __init__(self, stage: Mechanism) -> None:
        automaton = stage.law.automaton
        if automaton is None:
            raise MethodTooLarge(
                f"the memoized response of {stage.domain.m} attributes is too large to be drawn from a key; draw it "
                "once, and store it"
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


@singledispatch
def _walk_of(stage: Any) -> _Coin | _Walk:
    """Build the object that draws one stage from the words of a stream."""
    return _Walk(stage)


_walk_of.register(WholeOrUniform, _Coin)


def _width(layer: Layer | ChoiceLayer) -> int:
    if isinstance(layer, ChoiceLayer):
        return 1
    return 2 if layer.uniform else layer.words.shape[0] + 2


def _less(words: Words, thresholds: Words) -> NDArray[np.bool_]:
    """Compare numbers row by row; the first word is the most significant."""
    less = np.zeros(len(words), dtype=np.bool_)
    equal = np.ones(len(words), dtype=np.bool_)
    for word, bound in zip(words.T, thresholds.T, strict=True):
        less |= equal & (word < bound)
        equal &= word == bound
    return less


def _below(words: Words, bound: int) -> NDArray[np.int64]:
    """Reduce numbers of two words modulo ``bound``, at most 2^31."""
    b = np.uint64(bound)
    rest = (words[:, 0] % b) * np.uint64((1 << 64) % bound) + words[:, 1] % b
    return np.asarray(rest % b, dtype=np.int64)


def randomize_wave(  # noqa: PLR0913 (what, by which design and key, of whom, in which round, where to)
    place: Places,
    design: LongitudinalDesign,
    target: str | Path,
    *,
    key: Key,
    wave: str,
    id_column: str,
    options: ReleaseOptions | None = None,
) -> FileRelease:
    """Write everybody's report of one wave.

    Parameters
    ----------
    place : place of records
        The true records: one column per attribute, and ``id_column``; other columns are left out.
    design : LongitudinalDesign
        Both stages.
    target : path-like
        CSV or Parquet file to write, shuffled, whole or not at all.
    key : Key
        Secret from which memoized responses are drawn; it belongs with the true records.
    wave : str
        Name of the wave; the same name gives the same reports.
    id_column : str
        Column that names each respondent, the same in every wave.
    options : ReleaseOptions, optional
        Earlier releases, a limit, and whether the order of the true records is kept. Earlier waves of the same design and key
        count once.

    Returns
    -------
    FileRelease

    Raises
    ------
    InvalidInput
        For columns or categories that the design does not declare, and respondents named twice; nothing is written.
    """
    path, how = Path(target), options or ReleaseOptions()
    format_to_write(path)
    source = open_source(place, design.domain)
    refuse_randomized(place, source)
    refuse_input_as_target(path, source)
    # lifetime ε, under one id for all waves
    release = Release.of(design, id=key.release_id(design.digest))
    provenance, replaced = how.note(release), replaced_release(path, same=release.id)
    reader = PersonRecords(source, design.domain, id_column)

    def drawn() -> Iterator[pa.RecordBatch]:
        for people, column, codes in reader.batches():
            answers = permanent_answers(design, key, people, codes)
            batch = reader.codec.decode(reports(design, key, wave, people, answers))
            yield pa.RecordBatch.from_arrays([column, *batch.columns], schema=reader.written_schema)

    with released_file(path, reader.written_schema, provenance) as writer:
        writer.write(how.in_order(drawn(), as_source(None), writer.folder))
        if not reader.codec.records:
            raise InvalidInput(f"{source.name} contains no records; give at least one")
    notes = (*how.warnings(str(path)), *reader.warnings(), *replaced)
    return FileRelease.written(path, reader.codec.records, provenance, design.domain, notes=notes)


class PersonRecords:
    """Record batches with people's names and codes.

    A person who occurs twice in the data is refused.
    """

    def __init__(self, source: Source, domain: Domain, id_column: str) -> None:
        names = source.column_names()
        if id_column in domain.names or id_column not in names:
            where = (
                "is an attribute of the design"
                if id_column in domain.names
                else f"is not in the data ({listed(names)})"
            )
            raise InvalidInput(f"``id_column`` {shown(id_column)} {where}; give the column that names each person")
        self._source, self._person = source, id_column
        columns = [name for name in names if name in domain.names]
        self.codec = FrameCodec(domain, pa.schema([source.schema.field(name) for name in columns]))
        field = pa.field(id_column, source.schema.field(id_column).type)
        self.written_schema = pa.schema([field, *self.codec.written_schema])
        self._seen: set[str] = set()
        self._last, self._rises = (0, ""), True

    def warnings(self) -> tuple[str, ...]:
        """Warn if people are named in the order of the true records."""
        if not self._rises or self.codec.records < _SOME:
            return ()
        return (
            f"the names in {shown(self._person)} increase from record to record, so sorting by them restores the "
            "order of the true records, which no epsilon protects; use random names",
        )

    def batches(self) -> Iterator[tuple[list[str], pa.Array, NDArray[np.int32]]]:
        """Yield names, their column and codes of each batch."""
        columns = self.codec.schema.names
        for batch in self._source.batches([self._person, *columns]):
            first = self.codec.records
            people = people_of(batch.column(self._person), first)
            self._refuse_repeats(people, first)
            yield people, batch.column(self._person), self.codec.encode(batch.select(columns))

    def _refuse_repeats(self, people: list[str], first: int) -> None:
        for k, name in enumerate(people):
            if name in self._seen:
                raise InvalidInput(
                    f"the person of record {first + k + 1} occurs twice in the data; give one record per person"
                )
            self._seen.add(name)
            # the order of numbers, and of names that end in numbers
            self._rises = self._rises and self._last < (len(name), name)
            self._last = len(name), name


def people_of(column: pa.Array, first_record: int = 0) -> list[str]:
    """Convert people's names to canonical texts.

    The name 7 is the same person in CSV and in Parquet.

    Raises InvalidInput where a name is missing.
    """
    texts = [category_text(value) for value in column.to_pylist()]
    if None in texts:
        raise InvalidInput(
            f"record {first_record + texts.index(None) + 1} has no person's name; give every record a name"
        )
    return [str(text) for text in texts]
