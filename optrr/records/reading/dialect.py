"""How a CSV file is written: its encoding, its delimiter and its columns, from its beginning and the declared names.

Nothing here is a guess that could change a result: the delimiter is the one under which the first line holds the declared
names, and a wrong encoding yields names and categories that are not declared, which are refused.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from optrr.domain.domain import Domain, listed, shown
from optrr.errors import InvalidInput
from optrr.records.reading.bytes_in import ByteSource, plain_suffix
from optrr.records.reading.source import RecordsAt

DELIMITERS = (",", ";", "\t", "|")
_CALLED = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
# A quotation mark, the end of a line, or a piece of what stands between.
_MARKS = re.compile(r'"|[\r\n]|[^\S\r\n]+|[^"\s]+')
_NO_DELIMITERS = '\0\r\n"'
# Bytes that are looked at to tell the encoding, and those that a first line may take.
_LOOK = 1 << 20
_LONGEST_HEADER = 1 << 26
# Names of a first line; no domain has more.
_MOST_NAMES = 1 << 21


@dataclass(frozen=True)
class Dialect:
    """Encoding, delimiter, and the columns' names."""

    encoding: str
    delimiter: str
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"{_CALLED.get(self.delimiter, repr(self.delimiter))}, {self.encoding}"


def dialect_of(data: ByteSource, where: RecordsAt, domain: Domain | None) -> Dialect:
    """The dialect of a file with a first line of names.

    Raises
    ------
    InvalidInput
        for an empty file, an unknown encoding, or a first line that is no list of names.
    """
    encoding = _encoding(data, where.encoding)
    header = _first_line(data, encoding)
    if not header:
        raise InvalidInput(f"{data.name} is empty; a CSV file starts with the columns' names")
    given = where.delimiter
    if given is not None and not (len(given) == 1 and given.isascii() and given not in _NO_DELIMITERS):
        raise InvalidInput(f"the delimiter is {shown(given)}; give one character, such as ';' or a tab")
    order = (given,) if given else _candidates(data.name)
    most = max(header.count(d) for d in order)
    if len(header) >= _LONGEST_HEADER or most >= _MOST_NAMES:
        raise InvalidInput(
            f"the first line of {data.name} has {most + 1} names in {len(header)} characters or more, and {_MOST_NAMES} names "
            f"in fewer than {_LONGEST_HEADER} are the most that are read; write the columns' names there"
        )
    splits = {d: _split(header, d) for d in order}
    delimiter = max(order, key=lambda d: _fitness(splits[d], domain))
    names = splits[delimiter]
    if domain is not None:
        _checked_header(data.name, names, domain)
    return Dialect(encoding, delimiter, tuple(names))


def _candidates(name: str) -> tuple[str, ...]:
    tabs_first = plain_suffix(name) in (".tsv", ".tab")
    return ("\t", *(d for d in DELIMITERS if d != "\t")) if tabs_first else DELIMITERS


def _fitness(names: Sequence[str], domain: Domain | None) -> tuple[int, int]:
    declared = 0 if domain is None else len(set(names) & set(domain.names))
    return declared, len(names)


def _encoding(data: ByteSource, given: str | None) -> str:
    if given is not None:
        try:
            # a codec that is no text encoding, such as zip, is refused here, too
            return codecs.lookup(io.TextIOWrapper(io.BytesIO(), given).encoding).name
        except (LookupError, ValueError):
            raise InvalidInput(f"there is no encoding {shown(given)}; give one such as utf-8 or latin-1") from None
    head = data.head(_LOOK)
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        # a character may be cut in two at the end of what is looked at
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def _first_line(data: ByteSource, encoding: str) -> str:
    """The header with its line breaks inside quotes; bytes are read until it is whole."""
    size = _LOOK
    while True:
        head = data.head(size)
        text = _decoded(data.name, head, encoding)
        end = _end_of_line(text)
        if end is not None or len(head) < size or size >= _LONGEST_HEADER:
            return text if end is None else text[:end]
        size *= 4


def _decoded(name: str, head: bytes, encoding: str) -> str:
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeError:
        raise InvalidInput(f"{name} is not {encoding}; say which encoding it has, such as latin-1") from None
    return text.removeprefix("\ufeff")


def _end_of_line(text: str) -> int | None:
    quoted, seen = False, False
    for mark in _MARKS.finditer(text):
        if mark[0] == '"':
            quoted, seen = not quoted, True
        elif mark[0] not in "\r\n":
            seen = seen or not mark[0].isspace()
        elif seen and not quoted:
            return mark.start()
    return None


def _split(header: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader(io.StringIO(header.lstrip("\r\n"), newline=""), delimiter=delimiter), [])
    except csv.Error:
        return [header]


def _checked_header(name: str, names: Sequence[str], domain: Domain) -> None:
    """Refuse a first line without any declared name, and do not show it: it may be somebody's record."""
    alike = {_alike(n) for n in domain.names}
    if not any(_alike(n) in alike for n in names):
        raise InvalidInput(
            f"the first line of {name} holds none of the names {listed(domain.names)}; "
            "write the columns' names there, or say --delimiter or --encoding if it has them"
        )


def _alike(name: str) -> str:
    return unicodedata.normalize("NFKC", name).strip().casefold()
