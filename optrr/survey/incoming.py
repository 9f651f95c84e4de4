"""What a client may send: one report as JSON, checked before anything is kept.

A refusal is one sentence and a status. It repeats nothing of what was sent, because a broken client might send what its
person entered.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.requests import Request

from optrr.devices.deployment_file import DeployedQuestions
from optrr.domain.domain import Attribute, Domain
from optrr.releases.sealed import MALFORMED, refuse_repeats
from optrr.survey.server import Refused, body_of
from optrr.survey.store import Report
from optrr.survey.stored_records import AnswerPacking, Packing

# The form of a report, as the deployment format states it.
FORMAT = "optrr-report/1"
# Bytes for the keys, the digest, the identifier and generous white space.
_FRAME_BYTES = 1024
# Bytes of one UTF-16 unit written as \uXXXX, as some JSON writers do for all that is not ASCII; of quotes, comma and space.
_ESCAPED, _AROUND = 6, 8
_IDENTIFIER = re.compile(r"[0-9a-f]{32}")


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


class ReportReader:
    """Reads reports of one design, which has this identity in its deployment file, and one wording.

    ``over`` are the attributes of its records, or its questions.
    """

    def __init__(self, identity: str, wording: str, over: Domain | DeployedQuestions) -> None:
        self._identity, self._wording = identity, wording
        if isinstance(over, DeployedQuestions):
            self._packed, self._keys, most = _answers_of(over), ", table and cells", over.most_report_bytes
        else:
            self._packed, self._keys, most = _records_of(over), " and values", sum(_longest(a) for a in over)
        body = _AnswerBody if isinstance(over, DeployedQuestions) else _RecordBody
        self._decode = msgspec.json.Decoder(body).decode
        self.most_bytes = _FRAME_BYTES + most

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
        except MALFORMED:
            raise Refused(
                400, f"the body is not a report; send an object with format, design, id{self._keys}, each once"
            ) from None
        if sent.format != FORMAT:
            raise Refused(422, f"the report has another format than {FORMAT}")
        if sent.design != self._identity:
            raise Refused(422, "the report is for another design than this survey's; load the page again")
        if sent.wording not in (msgspec.UNSET, self._wording):
            raise Refused(422, "the report answers other questions than this survey's; load the page again")
        if not _IDENTIFIER.fullmatch(sent.id):
            raise Refused(422, "the report's id is not 32 lower-case hexadecimal digits")
        return Report(bytes.fromhex(sent.id), self._packed(sent))


def _records_of(domain: Domain) -> Callable[[Any], bytes]:
    """The bytes that are stored of a randomized record; raises Refused for one that the design does not have."""
    categories, packing = [a.codes for a in domain], Packing(domain)

    def packed(sent: _RecordBody) -> bytes:
        if len(sent.values) != domain.m:
            raise Refused(422, f"the report has {len(sent.values)} values; this design has {domain.m} attributes")
        codes = [known.get(value, -1) for known, value in zip(categories, sent.values, strict=True)]
        if min(codes) < 0:
            name = domain.names[codes.index(-1)]
            raise Refused(422, f"attribute {name!r} has a value that is none of its declared categories")
        return packing.pack(codes)

    return packed


def _answers_of(deployed: DeployedQuestions) -> Callable[[Any], bytes]:
    """The bytes that are stored of an answer to one of the questions; raises Refused for one that no client can have drawn."""
    count, packing = len(deployed.questions), AnswerPacking(deployed)

    def packed(sent: _AnswerBody) -> bytes:
        if not 1 <= sent.table <= count:
            raise Refused(422, f"the report's table is none of this design's 1 to {count}")
        if not deployed.members(sent.table, sent.cells):
            raise Refused(
                422,
                "the report's cells are not the subsets of its table: as many numbers of each as the deployment file says, "
                "different, ascending and in range",
            )
        return packing.pack(sent.table, sent.cells)

    return packed


def _longest(attribute: Attribute) -> int:
    """Bytes that a value may take, however it is written."""
    return _AROUND + max(_ESCAPED * (len((text or "null").encode("utf-16-le")) // 2) for text in attribute.texts)
