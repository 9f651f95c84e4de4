"""The one way to write a deployment file's JSON (RFC 8785), so that a digest means the same in every language.

The file holds no fractions, so that only sorted keys, the spacing and the escapes need care.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, NoReturn

from optrr.errors import InvalidInput, in_one_line

# Digits of a number; every one in a file is far below.
_MOST_DIGITS = 20


def canonical(value: Any) -> bytes:
    """A JSON value without fractions in canonical form, UTF-8.

    Raises
    ------
    UnicodeEncodeError
        for text with unpaired surrogates, which has no such form.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8")


def digest_of(content: dict[str, Any]) -> str:
    """SHA-256 of the canonical form without the key ``digest``, in hexadecimal digits."""
    return hashlib.sha256(canonical({k: v for k, v in content.items() if k != "digest"})).hexdigest()


def from_canonical(raw: bytes) -> dict[str, Any]:
    """The object that canonical bytes hold; one line feed may follow.

    Raises
    ------
    InvalidInput
        for anything else: no JSON, no object, repeated keys, white space, numbers in another form.
    """
    try:
        content = json.loads(
            raw.decode("utf-8"), parse_int=_short, parse_float=_no_fraction, parse_constant=_no_fraction
        )
        same = canonical(content) == raw.removesuffix(b"\n")
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"it is not JSON without fractions ({in_one_line(error)[:120]})") from error
    if not isinstance(content, dict):
        raise InvalidInput("it is not a JSON object")
    if not same:
        raise InvalidInput("it is not in canonical form: repeated keys, other spacing or order, or edited by hand")
    return content


def _short(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"a number has {len(text)} digits")
    return int(text)


def _no_fraction(text: str) -> NoReturn:
    raise ValueError(f"the number {text[:20]} is not an integer in decimal digits")
