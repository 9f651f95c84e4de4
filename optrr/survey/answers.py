"""Answers in JSON: errors with one sentence, and the acknowledgement."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

JSON = "application/json"


def json_response(content: object, status: int = 200) -> Response:
    """An object as JSON."""
    return Response(msgspec.json.encode(content), status, media_type=JSON)


def error_response(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    """One JSON object, ``{"error": "…"}``."""
    return Response(msgspec.json.encode({"error": sentence}), status, headers, JSON)
