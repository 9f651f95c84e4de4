"""Sealed files: versioned JSON that says its format, of which a digest over the whole content catches edits by hand.

There is one way to read them, whatever they hold, and specifications, sidecars and keys, too: whole, up to a size, with
every key once, and by bytes that are read once. A device or a pipe has no size before it is read, so the limit is on
the bytes that are read. A kind of file is the part of its format before the version, such as ``optrr-design`` of
``optrr-design/1``.
"""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeGuard, TypeVar

import msgspec

from optrr.core.errors import InvalidInput, in_one_line

# Twice the design file of a million different attributes; a deployment with as many states as its format allows takes as much.
MOST_BYTES = 1 << 28


@dataclass(frozen=True)
class Content:
    """A file that has been read.

    Functions that receive it in place of a path use these bytes and open nothing.

    So checks, signature and use concern the same bytes, even if the file changes meanwhile.
    """

    path: Path
    raw: bytes = field(repr=False)

    def __str__(self) -> str:
        return str(self.path)


# A file that is still to be read, or has been.
Given = str | Path | Content


def content_of(given: Given, what: str) -> Content:
    """Read the file's content unless it is given.

    ``what`` it should be is for messages.

    Raises InvalidInput if the file cannot be opened, and for a pipe.
    """
    if isinstance(given, Content):
        return given
    _refuse_pipe(given)
    return Content(Path(given), read_named(given, what))


def is_file(given: object) -> TypeGuard[Given]:
    """Check whether this is a file's path or content."""
    return isinstance(given, str | Path | Content)


def path_of(given: Given) -> Path:
    """Return the path of a file."""
    return given.path if isinstance(given, Content) else Path(given)


def read_small(path: Given, most: int = MOST_BYTES) -> bytes:
    """Read all bytes of a file.

    Raises OSError as opening does, and InvalidInput above ``most`` bytes.
    """
    if isinstance(path, Content):
        return path.raw
    with Path(path).open("rb") as file:
        held = file.read(most + 1)
    if len(held) > most:
        raise InvalidInput(f"{path} has more than {most} bytes, which no file of this kind has; check the path")
    return held


def read_named(path: Given, what: str) -> bytes:
    """Read all bytes of a file; raise InvalidInput also if it cannot be opened.

    ``what`` it should be is for messages.
    """
    try:
        return read_small(path)
    except OSError as error:
        raise InvalidInput(
            f"cannot read {what} {path}: {in_one_line(error.strerror or error)}; check the path"
        ) from error


def _refuse_pipe(path: Given) -> None:
    if not isinstance(path, Content) and Path(path).is_fifo():
        # bytes that are looked at first would be gone
        raise InvalidInput(f"{path} is a pipe, and this file is read more than once; save it first, and give its name")


DESIGN, DEPLOYMENT, LONGITUDINAL = "optrr-design", "optrr-deployment", "optrr-longitudinal"
SAMPLED_TABLES, SAMPLED_VARIANTS, PLAN = "optrr-sampled-tables", "optrr-sampled-variants", "optrr-plan"
# Number of first characters in which a damaged file's format is searched; the keys of a deployment are sorted, its
# format later.
_HEAD, _MARK = 100, re.compile(rb"(optrr-[a-z-]+)/")


Record = TypeVar("Record", bound=msgspec.Struct)
# Errors of files that are not JSON of the right form.
MALFORMED = (msgspec.DecodeError, UnicodeError, RecursionError)


class _Versioned(msgspec.Struct):
    format: str


def kind_of(path: Given) -> str:
    """Return the kind that a file states, of any version; empty if none.

    Raises InvalidInput for a pipe, of which nothing would be left to read.
    """
    _refuse_pipe(path)
    try:
        raw = read_small(path)
    except (OSError, InvalidInput):
        return ""
    mark = _MARK.search(raw[:_HEAD])
    return format_of(raw).partition("/")[0] or ("" if mark is None else mark[1].decode())


def format_of(raw: bytes) -> str:
    """Return the format and version that a file's bytes state; empty if none."""
    try:
        # whatever else it holds is passed over, which takes no memory
        return msgspec.json.decode(raw, type=_Versioned).format
    except MALFORMED:
        return ""


@dataclass(frozen=True)
class Sealed(Generic[Record]):
    """One file format: its record type and the message for other files.

    ``prefix`` stands before a file's name in messages, ``refused`` after it; ``remedy`` is the advice for a file of
    another format. ``refuse`` may raise a better error for files that are often mistaken for this kind.
    """

    record: type[Record]
    format: str
    prefix: str
    refused: str
    remedy: Callable[[str], str]
    refuse: Callable[[bytes, Given], None] = lambda _raw, _source: None

    def decoded(self, raw: bytes, source: Given) -> Record:
        """Decode a file's bytes to a well-formed record.

        ``source`` is its location in messages.

        Raises InvalidInput if they are malformed, of another format or version, or have a key twice.
        """
        try:
            written = msgspec.json.decode(raw, type=_Versioned).format
            if written != self.format:
                raise InvalidInput(
                    f"{self.prefix}{source} has format {written[:40]!r}, not {self.format!r}"
                    f"{self.remedy(written) or '; give a file of that format'}"
                )
            record = msgspec.json.decode(raw, type=self.record)
            refuse_repeats(raw)
        except MALFORMED as error:
            self.refuse(raw, source)
            raise InvalidInput(
                f"{self.prefix}{source} {self.refused}: {in_one_line(error)}; give the file as optrr wrote it"
            ) from error
        return record


def encoded(record: msgspec.Struct) -> bytes:
    """Encode a file, indented.

    Doubles have the shortest form that reads back to the same bits.
    """
    return msgspec.json.format(msgspec.json.encode(record), indent=1)


def sha256_of(content: Any) -> str:
    """Compute the digest of a file's content with an empty digest key.

    It does not depend on the order of keys.
    """
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()


def refuse_repeats(raw: bytes) -> None:
    """Raise DecodeError if an object has a key twice.

    Readers differ in which one they use.
    """

    def unique(pairs: list[tuple[str, object]]) -> None:
        keys = [key for key, _ in pairs]
        if len(set(keys)) < len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise msgspec.DecodeError(f"the key {twice[:40]!r} is given twice in one object; keep one")

    # the numbers have been read already; their lengths take no memory, whatever their digits
    json.loads(raw, object_pairs_hook=unique, parse_int=len, parse_float=len)
