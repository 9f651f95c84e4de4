"""Personal links that cannot be joined to reports: RSA blind signatures, RSABSSA-SHA384-PSS-Deterministic of RFC 9474.

The browser draws its report's id, hides it by a random factor, and posts the hidden value with the token of the link. The
collector signs the first hidden value of each token; the browser removes the factor, and its report carries the
signature of its id. So one token gives one report. Every hidden value fits every id by some factor, so neither the
database nor the operator can tell which token belongs to which report. Ids are random, as the RFC demands of messages
that are signed without further randomness (§6). The page's part is ``invitation.js``.
"""

import hashlib
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from optrr.core.errors import InvalidInput, in_one_line

_BITS, _EXPONENT = 2048, 65537
_SHA384 = hashes.SHA384()
_PSS = padding.PSS(padding.MGF1(_SHA384), salt_length=_SHA384.digest_size)
_HEX = re.compile(r"([0-9a-f]{2})+")
_TOKEN_BYTES = 16


class Signer:
    """The key of a survey's invitations, from its private key in DER."""

    def __init__(self, der: bytes) -> None:
        key = serialization.load_der_private_key(der, None)
        if not isinstance(key, rsa.RSAPrivateKey):
            raise InvalidInput("the database's key of invitations is not an RSA key; restore a backup")
        self._secret, self._public = key.private_numbers(), key.public_key()
        self.size = key.key_size // 8
        self._modulus = self._secret.public_numbers.n

    def public(self) -> dict[str, str | int]:
        """Return the public key for the page."""
        return {"n": f"{self._modulus:x}", "e": self._secret.public_numbers.e}

    def read(self, text: str) -> bytes | None:
        """Read a hidden value or a signature; None if no client computes it."""
        value = bytes.fromhex(text) if _HEX.fullmatch(text) else b""
        return value if len(value) == self.size and int.from_bytes(value) < self._modulus else None

    def sign(self, hidden: bytes) -> str:
        """Sign a hidden value (RFC 9474, §4.3), by the Chinese remainder theorem."""
        value, key = int.from_bytes(hidden), self._secret
        at_p, at_q = pow(value, key.dmp1, key.p), pow(value, key.dmq1, key.q)
        signature = at_q + (at_p - at_q) * key.iqmp % key.p * key.q
        if pow(signature, key.public_numbers.e, self._modulus) != value:
            # a wrong signature would disclose the key
            raise ArithmeticError
        return signature.to_bytes(self.size).hex()

    def verifies(self, identifier: bytes, signature: str) -> bool:
        """Check the signature that a report carries."""
        value = self.read(signature)
        try:
            self._public.verify(value or b"", identifier, _PSS, _SHA384)
        except InvalidSignature:
            return False
        return True


def digest_of_token(token: str) -> bytes:
    """Compute what the database keeps of a token, which has 128 random bits."""
    return hashlib.sha256(token.encode(errors="replace")).digest()


@dataclass(frozen=True)
class Links:
    """Links to draw for a new survey: how many, to which address, and the file that they are written to."""

    count: int
    address: str
    file: Path

    def drawn(self) -> tuple[bytes, list[bytes]]:
        """Write the links; return the private key, and the digests of the tokens in their order.

        Raises InvalidInput if the file exists or cannot be written.
        """
        tokens = [secrets.token_urlsafe(_TOKEN_BYTES) for _ in range(self.count)]
        try:
            number = os.open(self.file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            raise InvalidInput(f"{self.file}: has the links of an earlier survey; move it away") from None
        except OSError as error:
            raise InvalidInput(f"{self.file}: {in_one_line(error)}; the links must be written there") from error
        with open(number, "w", encoding="ascii") as file:
            file.writelines(f"{self.address.rstrip('/')}/#i={token}\n" for token in tokens)
        key = rsa.generate_private_key(_EXPONENT, _BITS)
        der = key.private_bytes(
            serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return der, sorted(map(digest_of_token, tokens))
