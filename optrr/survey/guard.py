"""What stands around every answer: strict headers, and one JSON error for whatever goes wrong.

Headers that an answer does not set itself forbid everything: nothing runs, nothing is embedded, nothing is cached, no
referrer. An unexpected error is written to standard error by its kind and place; neither the log nor the answer shows
what was sent, and no log line has an address.

Answers in JSON: errors with one sentence, and the acknowledgement.
"""

from __future__ import annotations

import asyncio
import sys
import time
import traceback
from collections.abc import Mapping

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from optrr.survey.incoming import Refused
from optrr.survey.store import StoreUnavailable

JSON = "application/json"


def json_response(content: object, status: int = 200) -> Response:
    """An object as JSON."""
    return Response(msgspec.json.encode(content), status, media_type=JSON)


def error_response(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    """One JSON object, ``{"error": "…"}``."""
    return Response(msgspec.json.encode({"error": sentence}), status, headers, JSON)


# Seconds that an answer may take; results of many reports are computed in this time, a report is kept in far less.
ANSWER_SECONDS = 120.0
# Seconds in which the log says only once for which reason reports cannot be kept, however many were refused.
_SAID_SECONDS = 60.0

STRICT_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
_STRICT_PAIRS = [(name.lower().encode(), value.encode()) for name, value in STRICT_HEADERS.items()]
_SENTENCES = {404: "there is nothing at this address", 405: "this address does not take that method"}
_LATER = "the report cannot be kept just now; send the same report again later"


class Guard:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        # what was said last of reports that cannot be kept, and when
        self._said, self._said_at = "", 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["app"] = self  # tells the router to raise its refusals instead of answering in plain text
        started, unread = False, _has_body(scope)

        async def receive_noting() -> Message:
            nonlocal unread
            message = await receive()
            if message["type"] == "http.request":
                unread = message.get("more_body", False)
            return message

        async def send_strictly(message: Message) -> None:
            await send(_strict(message, closing=unread))

        async def send_first(message: Message) -> None:
            nonlocal started
            if not started:
                started = True
                limit.reschedule(None)  # a large download over a slow line takes its time
            await send_strictly(message)

        try:
            async with asyncio.timeout(ANSWER_SECONDS) as limit:
                await self._app(scope, receive_noting, send_first)
        except ClientDisconnect:
            return
        except Exception as error:  # nothing is around this place, so an error that passed it would end in a traceback
            if isinstance(error, StoreUnavailable):
                self._say(f"reports cannot be kept: {error}")
            answer = answer_to(error)
            if not started:
                await answer(scope, receive, send_strictly)

    def _say(self, line: str) -> None:
        """Log the line, unless it was the last one and that is not long ago."""
        now = time.monotonic()
        if line != self._said or now - self._said_at >= _SAID_SECONDS:
            self._said, self._said_at = line, now
            _log(line)


def _has_body(scope: Scope) -> bool:
    """Whether a request says that a body follows its headers."""
    stated = dict(scope["headers"])
    return b"transfer-encoding" in stated or stated.get(b"content-length", b"0") != b"0"


def _strict(message: Message, closing: bool) -> Message:
    """A message whose headers, where it has any, are strict; ``closing`` ends the connection after the answer.

    It does where the body has not been read to its end: otherwise the rest could trickle in, and hold the connection, for ever.
    """
    if message["type"] == "http.response.start":
        given = {name.lower() for name, _ in message["headers"]}
        more = [*_STRICT_PAIRS, *([(b"connection", b"close")] if closing else [])]
        message["headers"] = [*message["headers"], *(pair for pair in more if pair[0] not in given)]
    return message


def answer_to(error: Exception) -> Response:
    """The answer to a request that ended in this error."""
    if isinstance(error, Refused):
        return error_response(error.status, error.sentence)
    if isinstance(error, HTTPException):
        return error_response(error.status_code, _SENTENCES.get(error.status_code, error.detail), error.headers)
    if isinstance(error, StoreUnavailable):
        return error_response(503, _LATER, {"Retry-After": "5"})
    if isinstance(error, TimeoutError):
        return error_response(503, "the answer took too long; ask again later", {"Retry-After": "30"})
    where = traceback.extract_tb(error.__traceback__)[-1]
    _log(f"{type(error).__name__} at {where.filename}:{where.lineno}")
    return error_response(500, "the collector failed; whoever runs it finds the place in its log")


def _log(line: str) -> None:
    print(f"optrr serve: {line}", file=sys.stderr, flush=True)
