"""The arrays that one thread randomizes a block of records in: made once, used for every block, with records side by side.

Arrays that were made anew for every step would cost more than the steps, because the operating system clears their memory.
"""

import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optrr_solvers.arrays import IntArray
from optrr_solvers.randomness import BitSource, fill

BoolArray = NDArray[np.bool_]
Short = NDArray[np.uint32]
Codes = NDArray[np.unsignedinteger]

# Bits of a half of a number of 64 bits, and where its upper and its lower half stand among two numbers of 32 bits.
HALF = 32
_LOWER = 0 if sys.byteorder == "little" else 1
_ONES = (1 << HALF) - 1

# Cells of several layers that are walked at once, and the bytes of a cell's random bits. Fewer would fit a core's own cache,
# and make operations so short that threads wait for one another.
_AT_ONCE, _CELL = 1 << 18, 4
# Bytes of random bits for the columns that are replaced at once.
_REPLACED = 1 << 19
# How many records columns are turned into at once, where a record has at least as many attributes as the second number: shorter
# records are written column by column.
_TURNED, _SHORT_RECORD = 1 << 10, 64


@dataclass(frozen=True)
class Shape:
    """Attributes of a record, the most layers that follow one another, and whether some have second thresholds."""

    attributes: int
    layers: int
    second: bool


class Space:
    """Arrays for blocks of ``most`` records at most; ``of`` says how many records the next block has.

    ``changed``, shape (m, n): which attribute of which record changes. ``steps``, shape (m, n): how far its value is moved.
    ``layers``: how many layers are walked at once.

    For these layers, shape (layers, n): ``short``, 32 random bits each; ``second``, the second thresholds that these are
    compared with; ``reached``, entries less the random bits, whose upper half is the place that a record reaches, or one less
    where the bits are below the second threshold. ``rows`` are those of ``reached``, at hand for every layer.

    Of the present layer, shape (n,): ``entry``, what is looked up, and ``below_second``, as numbers ``one_more``.

    Where blocks are short, only the thread that holds ``turn`` walks.
    """

    short: Short

    def __init__(
        self,
        shape: Shape,
        most: int,
        kind: np.dtype[np.unsignedinteger],
        turn: AbstractContextManager[object],
    ) -> None:
        self._shape, self.turn, m = shape, turn, shape.attributes
        cells = min(max(_AT_ONCE, most), most * shape.layers)
        self._changed = np.empty(m * most, dtype=np.bool_)
        self._steps = np.empty(m * most, dtype=kind)
        self._replaced = max(min(_REPLACED, most * shape.layers * _CELL), most * max(_CELL, kind.itemsize)) // 8 * 8 + 8
        self._random = np.empty(max(cells * _CELL, self._replaced) // 8 + 1, dtype=np.uint64)
        self._reached = np.empty(cells, dtype=np.int64)
        self._second = np.empty(cells if shape.second else 0, dtype=np.uint32)
        self._flags = np.empty(max(cells, self._replaced), dtype=np.bool_)
        self._below_second = np.empty(most, dtype=np.bool_)
        self._places = np.empty((3, most), dtype=np.int64)
        self.of(most)

    def of(self, n: int) -> "Space":
        """Itself, for a block of ``n`` records."""
        m = self._shape.attributes
        self.n, self.layers = n, max(1, min(_AT_ONCE // n, self._shape.layers))
        cells = self.layers * n
        self.changed = self._changed[: m * n].reshape(m, n)
        self.steps = self._steps[: m * n].reshape(m, n)
        self.reached = self._reached[:cells].reshape(self.layers, n)
        self.rows = list(self.reached)
        self.second = self._second[:cells].reshape(-1, n)
        self.below_second = self._below_second[:n]
        self.one_more = self.below_second.view(np.uint8)
        self.entry = self._places[0, :n]
        self._two_places: tuple[IntArray, IntArray] = self._places[1, :n], self._places[2, :n]
        self._lower = self.reached.view(np.uint32)[:, _LOWER::2]
        return self

    def draw(self, layers: int, source: BitSource) -> None:
        """Random bits for so many layers."""
        self.short = self.random(layers * self.n, np.dtype(np.uint32), source).reshape(layers, self.n)

    def begin(self) -> None:
        """Copy the random bits to where they will be subtracted."""
        self.reached[: len(self.short)] = self.short

    def random(self, count: int, kind: np.dtype[np.unsignedinteger], source: BitSource) -> Codes:
        """``count`` uniform numbers of this type, shape (count,), until the next are drawn."""
        words = self._random[: -(-count * kind.itemsize // 8)]
        fill(source, words)
        return words.view(kind)[:count]

    @property
    def columns_at_once(self) -> int:
        """How many columns are replaced at once; bytes are drawn eight at a time."""
        return max(1, self._replaced // (self.n * self.steps.itemsize + 8))

    def flags(self, *shape: int) -> BoolArray:
        """An array of flags to be written, until the next is asked for."""
        return self._flags[: int(np.prod(shape))].reshape(shape)

    def place(self, used: IntArray | None) -> IntArray:
        """An array for every record's place that is not the one in use."""
        first, second = self._two_places
        return second if used is first else first

    def lift(self) -> None:
        """Shift ``reached`` so that the last bit of every place is the sign, and the lower half follows."""
        reached = self.reached[: len(self.short)]
        np.left_shift(reached, HALF - 1, out=reached)

    def tied(self, seconds: bool) -> bool:
        """Whether any random bits are those of a threshold, or, where layers have ``seconds``, of a second one.

        To be asked of lifted numbers: where bits are the threshold's, nothing changes, so the place is even, and the lower
        half is all ones. No number is larger.
        """
        layers = len(self.short)
        if self.reached[:layers].max() == _ONES << HALF - 1:
            return True
        # rows of layers without second thresholds hold anything: at worst these layers are walked twice, with the same result
        return seconds and bool(np.equal(self.short, self.second[:layers], out=self.flags(layers, self.n)).any())

    def equal(self, k: int) -> BoolArray:
        """Of which records the random bits are those of layer ``k``'s first threshold, shape (n,)."""
        equal: BoolArray = self._lower[k] == _ONES
        return equal

    def mark(self, attributes: list[int]) -> None:
        """Write to ``changed`` what lifted numbers say of these attributes: whether the places are odd."""
        reached = self.reached[: len(attributes)]
        first, last = attributes[0], attributes[-1]
        if attributes == list(range(first, last + 1)):
            np.less(reached, 0, out=self.changed[first : last + 1])
            return
        for attribute, row in zip(attributes, reached, strict=True):
            np.less(row, 0, out=self.changed[attribute])


def as_records(columns: Codes | BoolArray, records: NDArray[np.generic]) -> None:
    """Copy columns, shape (m, n), into records, shape (n, m)."""
    if len(columns) < _SHORT_RECORD:
        for i, column in enumerate(columns):
            records[:, i] = column
        return
    for start in range(0, len(records), _TURNED):
        records[start : start + _TURNED] = columns[:, start : start + _TURNED].T
