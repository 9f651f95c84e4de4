"""Who may see the results: a token, and the cookie that stands for it afterwards.

The token is compared in constant time and travels in the body of one form, never in an address. The cookie holds the time at
which it ends and a keyed digest of it, so that every collector with the same token accepts it without storing anything; a new
token makes all cookies invalid.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time

from optrr.errors import InvalidInput

COOKIE = "optrr_results"
# Seconds that a browser stays admitted: a working day.
LASTS = 12 * 3600
# Characters of a token: 22 of base64 are 128 bits.
_SHORTEST = 22


def new_token() -> str:
    """A token of 192 random bits."""
    return secrets.token_urlsafe(24)


class Admission:
    """Admits whoever knows ``token``.

    Raises
    ------
    InvalidInput
        for a token that could be guessed.
    """

    def __init__(self, token: str) -> None:
        if len(token) < _SHORTEST or not token.isascii() or not token.isprintable():
            raise InvalidInput(
                f"the results' token has {len(token)} characters; give at least {_SHORTEST} random ones, in ASCII"
            )
        self._token = token.encode()

    def knows(self, given: str) -> bool:
        """Whether this is the token; takes as long for every wrong one of its length."""
        return hmac.compare_digest(self._token, given.encode(errors="replace"))

    def cookie(self) -> str:
        """A cookie's value that admits from now on."""
        ends = str(int(time.time()) + LASTS)
        return f"{ends}.{self._seal(ends)}"

    def admits(self, cookie: str | None) -> bool:
        """Whether the cookie was given out for this token and has not ended."""
        ends, _, seal = (cookie or "").partition(".")
        if not (ends.isascii() and ends.isdecimal() and len(ends) < 20):
            return False
        genuine = hmac.compare_digest(self._seal(ends).encode(), seal.encode(errors="replace"))
        return genuine and int(ends) > time.time()

    def _seal(self, ends: str) -> str:
        return hmac.new(self._token, f"optrr results until {ends}".encode(), hashlib.sha256).hexdigest()
