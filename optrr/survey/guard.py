"""Protection of every response: strict headers, time limits, and one JSON format for errors.

By default, headers forbid scripts, embedding, caching and referrers. Every error is answered by one JSON object with
one sentence. An unexpected error is logged to standard error by its type and place; neither the log nor the response
repeats the request, and no log line contains an address.
"""

import asyncio
import re
import sys
import time
import traceback
from collections.abc import Mapping

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from optrr.survey.store import StoreUnavailable

JSON = "application/json"
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Policy of a page with scripts: nothing from other servers runs, and no other page embeds it.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
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
_SENTENCES = {404: "there is nothing at this address", 405: "this address does not accept this method"}
_LATER = "the report cannot be stored now; send the same report again later"
# Maximum seconds of an answer; enough for the results of many reports.
ANSWER_SECONDS = 120.0
# Seconds in which the log names each reason for refused reports only once.
_SAID_SECONDS = 60.0
# Maximum seconds until a body has arrived.
BODY_SECONDS = 15.0
_LENGTH = re.compile(r"[0-9]{1,15}")


class HTTPRefusal(Exception):
    """A refused request: its HTTP status and one sentence for the sender."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


def json_response(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an object as a JSON response."""
    return Response(msgspec.json.encode(content), status, headers, JSON)


class Guard:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        # last log line about refused reports, and its time
        self._said, self._said_at = "", 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["app"] = self  # tells the router to raise its refusals instead of answering in plain text
        started, stated = False, dict(scope["headers"])
        # whether a body follows, whose rest could arrive slowly and block the connection
        unread = b"transfer-encoding" in stated or stated.get(b"content-length", b"0") != b"0"

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
                limit.reschedule(None)  # a large download over a slow line may take longer
            await send_strictly(message)

        try:
            async with asyncio.timeout(ANSWER_SECONDS) as limit:
                await self._app(scope, receive_noting, send_first)
        except ClientDisconnect:
            return
        except Exception as error:  # outermost layer: an error that passed it would end in a traceback
            if isinstance(error, StoreUnavailable):
                self._say(f"reports cannot be stored: {error}")
            answer = answer_to(error)
            if not started:
                await answer(scope, receive, send_strictly)

    def _say(self, line: str) -> None:
        """Log the line unless it repeats the previous one within a short time."""
        now = time.monotonic()
        if line != self._said or now - self._said_at >= _SAID_SECONDS:
            self._said, self._said_at = line, now
            _log(line)


def _strict(message: Message, closing: bool) -> Message:
    """Add strict security headers to a message; ``closing`` ends the connection after the response."""
    if message["type"] == "http.response.start":
        given = {name.lower() for name, _ in message["headers"]}
        more = [*_STRICT_PAIRS, *([(b"connection", b"close")] if closing else [])]
        message["headers"] = [*message["headers"], *(pair for pair in more if pair[0] not in given)]
    return message


def answer_to(error: Exception) -> Response:
    """Return the response to a request that raised this error."""
    if isinstance(error, HTTPRefusal):
        return json_response({"error": error.sentence}, error.status)
    if isinstance(error, HTTPException):
        sentence = _SENTENCES.get(error.status_code, error.detail)
        return json_response({"error": sentence}, error.status_code, error.headers)
    if isinstance(error, StoreUnavailable):
        return json_response({"error": _LATER}, 503, {"Retry-After": "5"})
    if isinstance(error, TimeoutError):
        return json_response({"error": "the answer took too long; ask again later"}, 503, {"Retry-After": "30"})
    where = traceback.extract_tb(error.__traceback__)[-1]
    _log(f"{type(error).__name__} at {where.filename}:{where.lineno}")
    return json_response({"error": "the collector failed; its operator finds the place of the error in the log"}, 500)


def _log(line: str) -> None:
    print(f"optrr serve: {line}", file=sys.stderr, flush=True)


async def body_of(request: Request, media_type: str, limit: int) -> bytes:
    """Read the body of a request, at most ``limit`` bytes and one chunk in memory.

    Raises HTTPRefusal for another media type or an encoding (415), too large (413) or too slow a body (408).
    """
    headers = request.headers
    if headers.get("content-type", "").split(";")[0].strip().lower() != media_type:
        raise HTTPRefusal(415, f"the body must be sent as {media_type}")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise HTTPRefusal(415, "the body must be sent without an encoding")
    stated = headers.get("content-length")
    if stated is not None and not (_LENGTH.fullmatch(stated) and int(stated) <= limit):
        raise HTTPRefusal(413, f"the body is larger than {limit} bytes, the maximum for this request")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise HTTPRefusal(413, f"the body is larger than {limit} bytes, the maximum for this request")
    except TimeoutError:
        raise HTTPRefusal(408, "the body did not arrive in time; send it again") from None
    return bytes(body)
