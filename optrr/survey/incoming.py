"""What a client may send: one report as JSON, checked before anything is kept.

A refusal is one sentence and a status. It repeats nothing of what was sent, because a broken client might send what its
person entered.

A randomized record as a few bytes: the form in which reports are stored.

Attribute after attribute its category's code, little-endian and unsigned, in one byte where it has at most 2^8 categories,
two where at most 2^16, else four; nothing between them. So a record of nine attributes takes nine bytes, and a column of
stored records becomes an array of codes without a loop. The answer to a question is stored as its table's number and its cells,
``3 0 2|1``, the text that clients send.
"""

from __future__ import annotations

import asyncio
import re
import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from starlette.requests import Request

from optrr.devices.deployment_file import DeployedQuestions
from optrr.domain.domain import Attribute, Domain
from optrr.errors import InvalidInput
from optrr.releases.sealed import refuse_repeats
from optrr.survey.store import Report
from optrr_solvers.arrays import IntArray

# The struct module's letters for unsigned integers of 1, 2 and 4 bytes, by the number of categories they hold.
_WIDTHS = ((1 << 8, "B"), (1 << 16, "H"), (1 << 32, "I"))


class Packing:
    """Codes of records of ``domain`` to bytes and back."""

    def __init__(self, domain: Domain) -> None:
        self.sizes: tuple[int, ...] = tuple(int(r) for r in domain.sizes)
        letters = [next(letter for limit, letter in _WIDTHS if r <= limit) for r in self.sizes]
        self._struct = struct.Struct("<" + "".join(letters))
        kinds = {letter: np.dtype(f"<u{struct.calcsize('<' + letter)}") for _, letter in _WIDTHS}
        self._dtype = np.dtype([(f"f{i}", kinds[letter]) for i, letter in enumerate(letters)])

    @property
    def width(self) -> int:
        """Bytes of a packed record."""
        return self._struct.size

    def pack(self, codes: Sequence[int]) -> bytes:
        """The bytes of one record, whose codes are valid: m whole numbers, each in 0..r_i−1."""
        return self._struct.pack(*codes)

    def unpack(self, packed: Sequence[bytes]) -> IntArray:
        """Codes of packed records, shape (n, m), column-major.

        Raises
        ------
        InvalidInput
            where a record has another width or a code that its attribute does not have: the store was changed.
        """
        # a database that was changed may hold anything in this place
        if any(not isinstance(record, bytes) or len(record) != self.width for record in packed):
            raise InvalidInput("a stored record has another width than the design's records; restore a backup")
        fields = np.frombuffer(b"".join(packed), dtype=self._dtype)
        codes = np.empty((len(packed), len(self.sizes)), dtype=np.int64, order="F")
        for i in range(len(self.sizes)):
            codes[:, i] = fields[f"f{i}"]
        if len(packed) and (codes.max(axis=0) >= self.sizes).any():
            raise InvalidInput("a stored record has a category that the design does not have; restore a backup")
        return codes


class AnswerPacking:
    """Answers to the questions of a deployment file to bytes and back."""

    def __init__(self, deployed: DeployedQuestions) -> None:
        self._deployed = deployed

    def pack(self, table: int, cells: str) -> bytes:
        """The bytes of an answer that a client can have drawn."""
        return f"{table} {cells}".encode("ascii")

    def unpack(self, packed: Sequence[bytes]) -> tuple[list[int], list[str]]:
        """The tables and the cells of packed answers. Raises InvalidInput for what is none: the store was changed."""
        tables, cells = [], []
        for answer in packed:
            table, _, text = answer.decode("latin-1").partition(" ") if isinstance(answer, bytes) else ("", "", "")
            if not _NUMBER.fullmatch(table) or not self._deployed.members(int(table), text):
                raise InvalidInput("a stored answer is none to the design's questions; restore a backup")
            tables.append(int(table))
            cells.append(text)
        return tables, cells


# Seconds in which a body must have arrived.
BODY_SECONDS = 15.0
# The form of a report, as the deployment format states it.
FORMAT = "optrr-report/1"
# Bytes for the keys, the digest, the identifier and generous white space.
_FRAME_BYTES = 1024
# Bytes of one UTF-16 unit written as \uXXXX, as some JSON writers do for all that is not ASCII; and of quotes, comma and space.
_ESCAPED, _AROUND = 6, 8
_IDENTIFIER = re.compile(r"[0-9a-f]{32}")
_LENGTH = re.compile(r"[0-9]{1,15}")
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")


class Refused(Exception):
    """A request that is not served: its HTTP status, and one sentence for whoever sent it."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class _ReportFrame(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    format: str
    design: str
    id: str
    # clients that answer by the deployment file alone do not know the wording
    wording: str | msgspec.UnsetType = msgspec.UNSET


class _RecordBody(_ReportFrame, kw_only=True):
    values: list[str | None]


class _AnswerBody(_ReportFrame, kw_only=True):
    table: int
    cells: str


class _ReportKind(ABC):
    """What reports hold beside their frame: its keys, in words and as a type, and the bytes that it may take."""

    body: type[_ReportFrame]
    keys: str
    most_bytes: int

    @abstractmethod
    def packed(self, sent: Any) -> bytes:
        """The bytes that are stored. Raises Refused where the design does not have such a report."""


class ReportReader:
    """Reads reports of one design, which has this identity in its deployment file, and one wording.

    ``over`` are the attributes of its records, or its questions.
    """

    def __init__(self, identity: str, wording: str, over: Domain | DeployedQuestions) -> None:
        self._identity, self._wording = identity, wording
        self._kind: _ReportKind = _AnswerKind(over) if isinstance(over, DeployedQuestions) else _RecordKind(over)
        self._decode = msgspec.json.Decoder(self._kind.body).decode
        self.most_bytes = _FRAME_BYTES + self._kind.most_bytes

    async def read(self, request: Request) -> Report:
        """The report in a request.

        Raises
        ------
        Refused
            with 408 (too slow), 413 (too large), 415 (not JSON), 400 (malformed), 422 (another design, other questions, or
            values that the design does not have).
        """
        return self.report(await body_of(request, "application/json", self.most_bytes))

    def report(self, body: bytes) -> Report:
        """The report in a body. Raises Refused."""
        try:
            sent = self._decode(body)
            refuse_repeats(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Refused(
                400, f"the body is not a report; send an object with format, design, id{self._kind.keys}, each once"
            ) from None
        if sent.format != FORMAT:
            raise Refused(422, f"the report has another format than {FORMAT}")
        if sent.design != self._identity:
            raise Refused(422, "the report is for another design than this survey's; load the page again")
        if sent.wording not in (msgspec.UNSET, self._wording):
            raise Refused(422, "the report answers other questions than this survey's; load the page again")
        if not _IDENTIFIER.fullmatch(sent.id):
            raise Refused(422, "the report's id is not 32 lower-case hexadecimal digits")
        return Report(bytes.fromhex(sent.id), self._kind.packed(sent))


class _RecordKind(_ReportKind):
    """Randomized records over a domain."""

    body, keys = _RecordBody, " and values"

    def __init__(self, domain: Domain) -> None:
        self._names, self._codes = domain.names, [a.codes for a in domain]
        self._packing = Packing(domain)
        self.most_bytes = sum(_longest(a) for a in domain)

    def packed(self, sent: _RecordBody) -> bytes:
        return self._packing.pack(self._coded(sent.values))

    def _coded(self, values: list[str | None]) -> list[int]:
        if len(values) != len(self._codes):
            raise Refused(422, f"the report has {len(values)} values; this design has {len(self._codes)} attributes")
        codes = [known.get(value, -1) for known, value in zip(self._codes, values, strict=True)]
        if min(codes) < 0:
            name = self._names[codes.index(-1)]
            raise Refused(422, f"attribute {name!r} has a value that is none of its declared categories")
        return codes


class _AnswerKind(_ReportKind):
    """Answers to one of several questions."""

    body, keys = _AnswerBody, ", table and cells"

    def __init__(self, deployed: DeployedQuestions) -> None:
        self._deployed, self._packing = deployed, AnswerPacking(deployed)
        self.most_bytes = deployed.most_report_bytes

    def packed(self, sent: _AnswerBody) -> bytes:
        count = len(self._deployed.questions)
        if not 1 <= sent.table <= count:
            raise Refused(422, f"the report's table is none of this design's 1 to {count}")
        if not self._deployed.members(sent.table, sent.cells):
            raise Refused(
                422,
                "the report's cells are not the subsets of its table: as many numbers of each as the deployment file says, "
                "different, ascending and in range",
            )
        return self._packing.pack(sent.table, sent.cells)


def _longest(attribute: Attribute) -> int:
    """Bytes that a value may take, however it is written."""
    return _AROUND + max(_ESCAPED * (len((text or "null").encode("utf-16-le")) // 2) for text in attribute.texts)


async def body_of(request: Request, media_type: str, limit: int) -> bytes:
    """The body of a request, never holding more than ``limit`` bytes and one chunk.

    Raises
    ------
    Refused
        for another media type or an encoding (415), a body that is larger (413, before it is read where its length is
        stated), or one that takes longer than 15 seconds (408).
    """
    headers = request.headers
    if headers.get("content-type", "").split(";")[0].strip().lower() != media_type:
        raise Refused(415, f"the body must be sent as {media_type}")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused(415, "the body must be sent without an encoding")
    stated = headers.get("content-length")
    if stated is not None and not (_LENGTH.fullmatch(stated) and int(stated) <= limit):
        raise Refused(413, f"the body is larger than {limit} bytes, the most a request of this kind can have")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise Refused(
                        413, f"the body is larger than {limit} bytes, the most a request of this kind can have"
                    )
    except TimeoutError:
        raise Refused(408, "the body did not arrive in time; send it again") from None
    return bytes(body)
