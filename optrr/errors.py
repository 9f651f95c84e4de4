"""The error of bad data or a bad specification: one line that says what, where, and the remedy."""

from __future__ import annotations


class InvalidInput(ValueError):
    """Data or a specification cannot be used; the message is one line: what was received, where, and the remedy."""


def in_one_line(message: object) -> str:
    """A backend's message on one line, so that it can stand inside ours."""
    return " ".join(str(message).split())
