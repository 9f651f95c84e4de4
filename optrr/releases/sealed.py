"""Sealed files: versioned JSON that says its format, of which a digest over the whole content catches edits by hand.

There is one way to read them, whatever they hold: up to a size, with every key once, and by bytes that are read once. A kind of
file is the part of its format before the version, such as ``optrr-design`` of ``optrr-design/1``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from optrr.errors import InvalidInput, in_one_line
from optrr.releases.small_files import Given, read_small, refuse_pipe

DESIGN, DEPLOYMENT, LONGITUDINAL = "optrr-design", "optrr-deployment", "optrr-longitudinal"
SAMPLED_TABLES, RECORDS = "optrr-sampled-tables", "optrr-records"
# What a damaged file still says of itself among its first characters; the keys of a deployment are sorted, its format later.
_HEAD, _MARK = 100, re.compile(rb"(optrr-(?:design|longitudinal|sampled-tables))/")


Record = TypeVar("Record", bound=msgspec.Struct)
# What a file that cannot be read as JSON of the right form raises.
_MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Versioned(msgspec.Struct):
    format: str


def kind_of(path: Given) -> str:
    """The kind that a file says it is, of whatever version; nothing where it says none, or cannot be read.

    Raises
    ------
    InvalidInput
        for a pipe, of which nothing would be left to read.
    """
    refuse_pipe(path)
    try:
        raw = read_small(path)
    except (OSError, InvalidInput):
        return ""
    mark = _MARK.search(raw[:_HEAD])
    return format_of(raw).partition("/")[0] or ("" if mark is None else mark[1].decode())


def format_of(raw: bytes) -> str:
    """The format that a file's bytes state, with its version; nothing where they state none, or are damaged."""
    try:
        # whatever else it holds is passed over, which takes no memory
        return msgspec.json.decode(raw, type=_Versioned).format
    except _MALFORMED:
        return ""


@dataclass(frozen=True)
class Sealed(Generic[Record]):
    """One format: the record that a file holds, and what is said of a file that holds none.

    ``prefix`` stands before a file's name in messages, ``refused`` after it; ``remedy`` is what to do with a file of another
    format. ``refuse`` may raise a better error for what is often mistaken for such a file.
    """

    record: type[Record]
    format: str
    prefix: str
    refused: str
    remedy: Callable[[str], str]
    refuse: Callable[[bytes, Given], None] = lambda _raw, _source: None

    def decoded(self, raw: bytes, source: Given) -> Record:
        """What a file's bytes hold, right in form; ``source`` is where they stand, for messages.

        Raises
        ------
        InvalidInput
            where they are malformed, of another format or version, or have a key twice.
        """
        try:
            written = msgspec.json.decode(raw, type=_Versioned).format
            if written != self.format:
                raise InvalidInput(
                    f"{self.prefix}{source} has format {written[:40]!r}; this version reads {self.format!r}"
                    f"{self.remedy(written)}"
                )
            record = msgspec.json.decode(raw, type=self.record)
            refuse_repeats(raw)
        except _MALFORMED as error:
            self.refuse(raw, source)
            raise InvalidInput(f"{self.prefix}{source} {self.refused}: {in_one_line(error)}") from error
        return record


def encoded(record: msgspec.Struct) -> bytes:
    """A file's bytes, indented for people. Doubles are written in the shortest form that reads back to the same bits."""
    return msgspec.json.format(msgspec.json.encode(record), indent=1)


def sha256_of(content: Any) -> str:
    """The digest of a file's content, whose own key holds nothing: it does not depend on the order of keys."""
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()


def refuse_repeats(raw: bytes) -> None:
    """Raise DecodeError where an object has a key twice: readers differ in which they take, so that people see another."""

    def unique(pairs: list[tuple[str, object]]) -> None:
        keys = [key for key, _ in pairs]
        if len(set(keys)) < len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise msgspec.DecodeError(f"the key {twice[:40]!r} is given twice in one object; keep one")

    # the numbers have been read already; their lengths take no memory, whatever their digits
    json.loads(raw, object_pairs_hook=unique, parse_int=len, parse_float=len)
