"""A randomized record as a few bytes: the form in which reports are stored.

Attribute after attribute its category's code, little-endian and unsigned, in one byte where it has at most 2^8 categories,
two where at most 2^16, else four; nothing between them. So a record of nine attributes takes nine bytes, and a column of
stored records becomes an array of codes without a loop.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
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
