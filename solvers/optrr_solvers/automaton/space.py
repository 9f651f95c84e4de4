"""The arrays that one thread randomizes a block of records in: made once, used for every block, with records side by side.

Arrays that were made anew for every step would cost more than the steps, because the operating system clears their memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optrr_solvers.arrays import IntArray
from optrr_solvers.randomness import BitSource, fill

BoolArray = NDArray[np.bool_]
Short = NDArray[np.uint32]
Codes = NDArray[np.unsignedinteger]

# Cells of several layers that are walked at once, and their bytes: half of a core's own cache. As many bytes of codes are
# replaced at once.
_AT_ONCE, _CELL = 1 << 17, 4
# Bytes of records that are turned into columns at once, or back where a record has at least as many attributes as the second
# number: shorter records are put back column by column.
_TURNED, _SHORT_RECORD = 1 << 16, 64


@dataclass(frozen=True)
class Shape:
    """Attributes of a record, the most layers that follow one another, and the most thresholds of a state (1 or 2)."""

    attributes: int
    layers: int
    thresholds: int


class Space:
    """Arrays for blocks of ``most`` records at most; ``of`` says how many records the next block has.

    ``changed``, shape (m, n): which attribute of which record changes. ``columns``, shape (m, n): codes. ``layers``: how many
    layers are walked at once; ``first``, shape (thresholds, layers, n), the beginnings of the thresholds that their words are
    compared with. Of the present layer, shape (n,): ``high`` and ``way``, and ``at``, a place in a table.

    Rows that every layer needs are at hand: ``looked_up`` those of ``first``, ``ways`` those of ``changed``, as flags and as
    numbers.
    """

    def __init__(self, shape: Shape, most: int, kind: np.dtype[np.unsignedinteger]) -> None:
        self._shape, m = shape, shape.attributes
        cells = min(max(_AT_ONCE, most), most * shape.layers)
        self._changed = np.empty(m * most, dtype=np.bool_)
        self._columns = np.empty(m * most, dtype=kind)
        self._random = np.empty(max(cells * _CELL, most * kind.itemsize) // 8 + 1, dtype=np.uint64)
        self._first = np.empty(shape.thresholds * cells, dtype=np.uint32)
        self._same = np.empty(max(cells * max(shape.thresholds, _CELL), most), dtype=np.bool_)
        self._flags = np.empty((2, most), dtype=np.bool_)
        self._places = np.empty((4, most), dtype=np.intp)
        self.of(most)

    def of(self, n: int) -> Space:
        """Itself, for a block of ``n`` records."""
        m, thresholds = self._shape.attributes, self._shape.thresholds
        self.n, self.layers = n, max(1, min(_AT_ONCE // n, self._shape.layers))
        self.changed = self._changed[: m * n].reshape(m, n)
        self.columns = self._columns[: m * n].reshape(m, n)
        self.first = self._first[: thresholds * self.layers * n].reshape(thresholds, self.layers, n)
        self.high, self.way = self._flags[0, :n], self._flags[1, :n].view(np.uint8)
        self.high_way = self.high.view(np.uint8)
        self.at, *self._states = self._places[:, :n]
        self.looked_up = [list(rows) for rows in self.first]
        self.ways = list(zip(self.changed, self.changed.view(np.uint8), strict=True))
        return self

    def words(self, layers: int, source: BitSource) -> Short:
        """32 random bits for every record and so many layers, shape (layers, n), until the next are drawn."""
        return self.random(layers * self.n, np.dtype(np.uint32), source).reshape(layers, self.n)

    def random(self, count: int, kind: np.dtype[np.unsignedinteger], source: BitSource) -> Codes:
        """``count`` uniform numbers of this type, shape (count,), until the next are drawn."""
        words = self._random[: -(-count * kind.itemsize // 8)]
        fill(source, words)
        return words.view(kind)[:count]

    @property
    def rows(self) -> int:
        """How many columns are replaced at once; bytes are drawn eight at a time."""
        return max(1, self._random.nbytes // (self.n * self.columns.itemsize + 8))

    def flags(self, *shape: int) -> BoolArray:
        """An array of flags to be written, until the next is asked for."""
        return self._same[: int(np.prod(shape))].reshape(shape)

    def state(self, *used: IntArray | None) -> IntArray:
        """An array for every record's state that is none of those in use, at most two."""
        return next(x for x in self._states if not any(x is y for y in used))


def turned(records: NDArray[np.integer], columns: Codes) -> None:
    """Copy records, shape (n, m), into columns, shape (m, n), in pieces that stay in the cache."""
    step = max(1, _TURNED // columns.shape[0])
    for start in range(0, len(records), step):
        columns[:, start : start + step] = records[start : start + step].T


def put_back(columns: Codes | BoolArray, records: NDArray[np.generic]) -> None:
    """Copy columns, shape (m, n), into records, shape (n, m)."""
    if len(columns) < _SHORT_RECORD:
        for i, column in enumerate(columns):
            records[:, i] = column
        return
    step = max(1, _TURNED // len(columns))
    for start in range(0, len(records), step):
        records[start : start + step] = columns[:, start : start + step].T
