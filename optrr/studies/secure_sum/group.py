"""A group of prime order in which nobody can take logarithms: the main subgroup of edwards25519, computed by libsodium.

Points are their 32-byte encodings, scalars the integers 0..ℓ−1; G is the curve's base point. H is a second base whose logarithm
to G nobody knows, because it is a hash of a sentence put on the curve (Elligator, cofactor cleared).

libsodium comes with PyNaCl, an optional extra (``pip install 'optrr[secure]'``) that is imported only here.
"""

from __future__ import annotations

import hashlib
from functools import cache
from types import ModuleType
from typing import Protocol

from optrr.errors import InvalidInput, not_installed
from optrr_solvers.randomness import BitSource

_SENTENCE = b"optrr: the second base of the commitments in a secure sum"


class NotInGroup(ValueError):
    """Bytes that encode no element of the group other than its zero."""


class Group(Protocol):
    """What commitments need of a group: its order ℓ, two bases, and sums."""

    @property
    def order(self) -> int:
        """ℓ, a prime."""
        ...

    @property
    def width(self) -> int:
        """Bytes of a point."""
        ...

    @property
    def second(self) -> bytes:
        """H."""
        ...

    def base(self, k: int) -> bytes:
        """k G for 0 ≤ k < ℓ."""
        ...

    def times(self, k: int, point: bytes) -> bytes:
        """k times a point of the group, 0 ≤ k < ℓ."""
        ...

    def add(self, one: bytes, other: bytes) -> bytes:
        """The sum of two points."""
        ...

    def subtract(self, one: bytes, other: bytes) -> bytes:
        """The difference of two points."""
        ...

    def checked(self, point: bytes) -> bytes:
        """The point itself. Raises NotInGroup for anything that is not a point of the group, or is its zero."""
        ...


class Edwards25519:
    """The main subgroup of edwards25519. Raises InvalidInput where PyNaCl is missing or was built without the curve."""

    order = (1 << 252) + 27742317777372353535851937790883648493
    width = 32
    _zero = (1).to_bytes(32, "little")

    def __init__(self) -> None:
        self._library = _bindings()
        self.second: bytes = self._library.crypto_core_ed25519_from_uniform(hashlib.sha256(_SENTENCE).digest())

    def base(self, k: int) -> bytes:
        """k G for 0 ≤ k < ℓ."""
        return self._library.crypto_scalarmult_ed25519_base_noclamp(self._scalar(k)) if k else self._zero

    def times(self, k: int, point: bytes) -> bytes:
        """k times a point of the group, 0 ≤ k < ℓ."""
        # libsodium refuses to return the group's zero
        if not k or point == self._zero:
            return self._zero
        return self._library.crypto_scalarmult_ed25519_noclamp(self._scalar(k), point)  # type: ignore[no-any-return]

    def add(self, one: bytes, other: bytes) -> bytes:
        """The sum of two points."""
        return self._library.crypto_core_ed25519_add(one, other)  # type: ignore[no-any-return]

    def subtract(self, one: bytes, other: bytes) -> bytes:
        """The difference of two points."""
        return self._library.crypto_core_ed25519_sub(one, other)  # type: ignore[no-any-return]

    def checked(self, point: bytes) -> bytes:
        """The point itself. Raises NotInGroup for anything that is not a point of the group, or is its zero."""
        if len(point) != self.width or not self._library.crypto_core_ed25519_is_valid_point(point):
            raise NotInGroup(f"{len(point)} bytes that are no point of the group")
        return point

    def _scalar(self, k: int) -> bytes:
        return k.to_bytes(32, "little")


def _bindings() -> ModuleType:
    try:
        from nacl import bindings  # noqa: PLC0415  # optional extra
    except ImportError as error:
        raise not_installed(
            error, "a secure sum with proofs needs", "secure", ", or run it without proofs (proofs=False)"
        ) from error
    if not (bindings.has_crypto_core_ed25519 and bindings.has_crypto_scalarmult_ed25519):
        raise InvalidInput(
            "this PyNaCl was built without edwards25519: install its wheel, or run the secure sum without proofs (proofs=False)"
        )
    return bindings


@cache
def edwards25519() -> Group:
    """The group, imported on first use. Raises InvalidInput where PyNaCl is missing."""
    return Edwards25519()


def scalars(source: BitSource, count: int, order: int) -> list[int]:
    """``count`` integers uniform on 0..order−1, exactly, for an order below 2^256."""
    limit = (1 << 256) - (1 << 256) % order
    out: list[int] = []
    while len(out) < count:
        raw = source.words(4 * (count - len(out))).astype("<u8").tobytes()
        drawn = (int.from_bytes(raw[k : k + 32], "little") for k in range(0, len(raw), 32))
        out += [v % order for v in drawn if v < limit]
    return out
