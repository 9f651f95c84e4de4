"""Walking the layers, many records at a time, with as few random bits as will do (theory §7).

A record's word for one attribute starts with 32 random bits; only where they equal the threshold's first 32 bits, once
in 2^32 cells, are the rest drawn. A block of records is walked attribute by attribute, as columns. The arrays of a
block are made once: new arrays in each step would cost more than the steps, because the operating system clears
their memory.

Three operations a layer depend on the layer before: an entry is looked up, the random bits are subtracted, and the
difference is shifted. Second thresholds, which balls have, need three more: they are looked up, compared, and the
result is added. All other operations handle many layers at once.

A changed value is replaced by one of the other categories, each exactly as likely: a uniform number of 8, 16, 32 or 64
bits is divided into as many equal parts as there are other categories; numbers in the remainder are drawn again. The
number of its part, and one, is added to the value, modulo the number of categories.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optrr_solvers.arrays import IntArray
from optrr_solvers.randomness import BitSource, Words, fill, words_below
from optrr_solvers.sampling.arithmetic import integers
from optrr_solvers.sampling.diagram import ChoiceLayer, Layer, Layers

BoolArray = NDArray[np.bool_]
Short = NDArray[np.uint32]
Codes = NDArray[np.unsignedinteger]

# Bits of a half of a number of 64 bits, and where its upper and its lower half stand among two numbers of 32 bits.
HALF = 32
_LOWER = 0 if sys.byteorder == "little" else 1
_ONES = (1 << HALF) - 1

# Cells of several layers that are walked at once, and the bytes of a cell's random bits.
_AT_ONCE, _CELL = 1 << 18, 4
# Bytes of random bits for the columns that are replaced at once.
_REPLACED = 1 << 19
# The largest share of numbers that may have to be drawn again.
_REPEATED = 1 / 16
# Cells of records that are moved at once, and as many records in spite of that: fewer would read columns a few bytes at
# a time.
_MOVED, _FEWEST_MOVED = 1 << 17, 1 << 7
# The most records of a block, its most cells, and as many records as a block has in spite of that.
_MOST, _BLOCK_CELLS, _FEWEST = 1 << 18, 1 << 25, 1 << 12


@dataclass(frozen=True)
class Shape:
    """Size of the walk: attributes, consecutive layers, and second thresholds.

    ``layers`` is the most that follow one another; ``second`` is whether any layer has second thresholds.
    """

    attributes: int
    layers: int
    second: bool


class Space:
    """Arrays for blocks of at most ``most`` records.

    :meth:`of` sets the number of records of the next block.

    ``changed``, shape (m, n): which attribute of which record changes. ``steps``, shape (m, n): how far its value is
    moved. ``layers``: how many layers are walked at once.

    For these layers, shape (layers, n): ``short``, 32 random bits each; ``second``, the second thresholds that these
    are compared with; ``reached``, entries less the random bits, whose upper half is the place that a record reaches,
    or one less where the bits are below the second threshold. ``rows`` are those of ``reached``, at hand for each
    layer.

    Of the current layer, shape (n,): ``entry``, the table entries, and ``below_second``, as numbers ``one_more``.
    """

    short: Short

    def __init__(self, shape: Shape, most: int, kind: np.dtype[np.unsignedinteger]) -> None:
        self._shape, m = shape, shape.attributes
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
        """Set the number of records to ``n`` and return the space itself."""
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
        """Generate random bits for this many layers."""
        self.short = self.random(layers * self.n, np.dtype(np.uint32), source).reshape(layers, self.n)

    def begin(self) -> None:
        """Copy the random bits to where they will be subtracted."""
        self.reached[: len(self.short)] = self.short

    def random(self, count: int, kind: np.dtype[np.unsignedinteger], source: BitSource) -> Codes:
        """Generate ``count`` uniform numbers of this type, shape (count,).

        They are valid until the next call.
        """
        words = self._random[: -(-count * kind.itemsize // 8)]
        fill(source, words)
        return words.view(kind)[:count]

    @property
    def columns_at_once(self) -> int:
        """How many columns are replaced at once; bytes are drawn eight at a time."""
        return max(1, self._replaced // (self.n * self.steps.itemsize + 8))

    def flags(self, *shape: int) -> BoolArray:
        """Return an array of flags to write to, valid until the next call."""
        return self._flags[: int(np.prod(shape))].reshape(shape)

    def place(self, used: IntArray | None) -> IntArray:
        """Return an array for each record's place other than the one in use."""
        first, second = self._two_places
        return second if used is first else first

    def lift(self) -> None:
        """Move the last bit of every place in ``reached`` to the sign.

        The lower half follows it.
        """
        reached = self.reached[: len(self.short)]
        np.left_shift(reached, HALF - 1, out=reached)

    def tied(self, seconds: bool) -> bool:
        """Check whether any random bits equal those of a threshold.

        Second thresholds are checked if layers have them (``seconds``).

        For lifted numbers: if bits equal the threshold's, the attribute does not change, so the place is even, and the
        lower half is all ones. No number is larger.
        """
        layers = len(self.short)
        if self.reached[:layers].max() == _ONES << HALF - 1:
            return True
        # rows of layers without second thresholds hold anything: at worst these layers are walked twice, with the same
        # result
        return seconds and bool(np.equal(self.short, self.second[:layers], out=self.flags(layers, self.n)).any())

    def equal(self, k: int) -> BoolArray:
        """Return which records' random bits equal layer ``k``'s first threshold.

        The shape is (n,).
        """
        equal: BoolArray = self._lower[k] == _ONES
        return equal

    def mark(self, attributes: list[int]) -> None:
        """Write to ``changed`` whether these attributes change: whether places are odd.

        Call it with lifted numbers.
        """
        for attribute, row in zip(attributes, self.rows, strict=False):
            np.less(row, 0, out=self.changed[attribute])


def smallest_kind(sizes: IntArray) -> np.dtype[np.unsignedinteger]:
    """Choose the smallest type for sums of two codes that divides evenly enough."""
    for kind in (np.uint8, np.uint16, np.uint32):
        numbers = np.iinfo(kind).max + 1
        if 2 * int(sizes.max()) < numbers and np.all(numbers % (sizes - 1) <= _REPEATED * numbers):
            return np.dtype(kind)
    return np.dtype(np.uint64)


def draw_steps(space: Space, sizes: IntArray, source: BitSource) -> None:
    """Generate the moves of a block's values, in ``space.steps``.

    1 to the size less 1 where ``space.changed``, else 0.
    """
    kind = space.steps.dtype
    others = (sizes - 1).astype(kind)[:, None]
    numbers = 1 << 8 * kind.itemsize
    # the only part of a binary attribute would not fit in the type: it leaves one number out, which is drawn again
    width = np.array([numbers // d if d > 1 else numbers - 1 for d in others.ravel().tolist()], dtype=kind)[:, None]
    for start in range(0, sizes.size, space.columns_at_once):
        rows = slice(start, start + space.columns_at_once)
        changed = space.changed[rows].view(np.uint8)
        parts = space.random(changed.size, kind, source).reshape(changed.shape)
        np.floor_divide(parts, width[rows], out=parts)
        # kept values need no part, and therefore none that is drawn again
        np.multiply(parts, changed, out=parts)
        over = np.flatnonzero(np.greater_equal(parts, others[rows], out=space.flags(*parts.shape)))
        every, row = parts.ravel(), start + over // space.n
        while over.size:
            again = source.words(over.size).astype(kind) // width[row, 0]
            every[over] = again
            wrong = again >= others[row, 0]
            over, row = over[wrong], row[wrong]
        np.add(parts, changed, out=space.steps[rows])


def move(records: NDArray[np.integer], steps: Codes, sizes: IntArray) -> None:
    """Move the values of records, shape (n, m), in place by steps, shape (m, n).

    Each value is taken modulo its size.
    """
    n, m = records.shape
    rows = min(n, max(_FEWEST_MOVED, _MOVED // m))
    moved, less, modulus = np.empty((3, rows, m), dtype=steps.dtype)
    modulus[:] = sizes
    for start in range(0, n, rows):
        own = records[start : start + rows]
        to, other = moved[: len(own)], less[: len(own)]
        to[:] = steps[:, start : start + rows].T
        other[:] = own
        np.add(to, other, out=to)
        # a difference below 0 wraps around to a larger number than before, so that the smaller of both is the remainder
        np.subtract(to, modulus[: len(own)], out=other)
        np.minimum(to, other, out=other)
        own[:] = other


@dataclass(frozen=True, eq=False)
class _LayerTable:
    """One layer as integers from which the random bits are subtracted.

    A place is a state and its decision: ``ways`` times the state, one more where the attribute changes, and one more
    again where the next state is the layer's ``high``. ``entries`` has a number for each place of the layer before, or
    each component of the choice before, and a single one where all of them lead to the first state. The number is the
    place of a change, times 2^32, and the first 32 bits of the threshold, less 1. When the random bits are subtracted,
    they borrow from the upper half unless they are below the threshold. So the upper half becomes the place of what
    they decide, and the lower half is all ones where they equal the threshold's.

    ``second`` has the first 32 bits of the second threshold, if there is one. ``onward`` is whether the next layer's
    entries depend on the place.
    """

    layer: Layer
    ways: int
    entries: IntArray
    second: Short | None
    onward: bool

    @classmethod
    def of(cls, layer: Layer, states: IntArray | None) -> "tuple[_LayerTable, IntArray | None]":
        """Build the table, and the next layer's state for each of its places.

        Returns None for the states if all places lead to the first state.

        ``states`` are those of this layer for each place of the layer before, in the same way.
        """
        arrivals = np.zeros(1, dtype=np.int64) if states is None else states
        first, second = _first(layer.words), None
        ways, following = 2, [layer.kept, layer.changed]
        if layer.uniform:
            # nothing is below 0
            first, following = np.zeros_like(first), [layer.kept, layer.kept]
        elif layer.high is not None and layer.high_words is not None:
            # with four places a state, all of which but the last are reached, a state's first place is even like with
            # two, and the place of a change is odd
            ways, following = 4, [layer.kept, layer.changed, layer.high, layer.high]
            second = _first(layer.high_words)[arrivals].astype(np.uint32)
        entries = (ways * np.arange(layer.states) + 1 << HALF) + first - 1
        after = np.stack(following, axis=1).ravel()
        onward = bool(after.any())
        return cls(layer, ways, entries[arrivals], second, onward), after if onward else None


def _first(words: Words) -> IntArray:
    return np.asarray(words[0] >> np.uint64(HALF), dtype=np.int64)


def _runs(layers: Sequence[Layer | ChoiceLayer]) -> list[ChoiceLayer | list[_LayerTable]]:
    """Split layers into choices and runs of tables between them."""
    runs: list[ChoiceLayer | list[_LayerTable]] = []
    states: IntArray | None = None
    for layer in layers:
        if isinstance(layer, ChoiceLayer):
            runs.append(layer)
            states = layer.next_states
            continue
        table, states = _LayerTable.of(layer, states)
        if runs and isinstance(runs[-1], list):
            runs[-1].append(table)
        else:
            runs.append([table])
    return runs


class Sampler:
    """Draws change sets, or randomizes codes in place, by an automaton."""

    def __init__(self, automaton: Layers) -> None:
        self._sizes, self._bits = automaton.sizes, automaton.bits
        self._runs = _runs(automaton.layers)
        tables = [run for run in self._runs if isinstance(run, list)]
        second = any(table.second is not None for run in tables for table in run)
        self._shape = Shape(automaton.sizes.size, max(map(len, tables)), second)
        uniform = [x.attribute for x in automaton.steps if x.uniform]
        self._uniform = [(i, int(automaton.sizes[i])) for i in uniform]

    def changes(self, n: int, source: BitSource) -> BoolArray:
        """Sample ``n`` independent change sets, shape (n, m)."""
        out = np.empty((n, self._sizes.size), dtype=np.bool_)
        for rows, space in self._blocks(n, np.dtype(np.uint8)):
            self._walk(space, source)
            for i, size in self._uniform:
                space.changed[i] = words_below(source, space.n, size) != 0
            out[rows] = space.changed.T
        return out

    def randomize(self, codes: NDArray[np.integer], source: BitSource) -> None:
        """Randomize valid codes in place, shape (n, m)."""
        for rows, space in self._blocks(codes.shape[0], smallest_kind(self._sizes)):
            self._walk(space, source)
            draw_steps(space, self._sizes, source)
            move(codes[rows], space.steps, self._sizes)
            for i, size in self._uniform:
                codes[rows, i] = words_below(source, space.n, size)

    def _blocks(self, n: int, kind: np.dtype[np.unsignedinteger]) -> Iterator[tuple[slice, Space]]:
        """Yield the rows of each block of ``n`` records, and arrays for it."""
        most = min(max(1, n), max(_FEWEST, min(_MOST, _BLOCK_CELLS // self._sizes.size)))
        space = Space(self._shape, most, kind)
        for start in range(0, n, most):
            yield slice(start, start + most), space.of(min(most, n - start))

    def _walk(self, space: Space, source: BitSource) -> None:
        """Decide in ``space.changed`` which attributes of the block's records change.

        Attributes of uniform layers never do.
        """
        place: IntArray | None = None
        for run in self._runs:
            if isinstance(run, ChoiceLayer):
                place = np.searchsorted(run.ends, source.words(space.n), side="right")
                continue
            for start in range(0, len(run), space.layers):
                place = self._several(run[start : start + space.layers], place, space, source)

    def _several(
        self, tables: list[_LayerTable], start: IntArray | None, space: Space, source: BitSource
    ) -> IntArray | None:
        """Walk consecutive layers from the places before them; return the places after."""
        space.draw(len(tables), source)
        space.begin()
        end = self._through(tables, start, space)
        space.lift()
        if space.tied(seconds=any(table.second is not None for table in tables)):
            # these layers are walked again, which is so rare that nobody needs to wait for it
            space.begin()
            end = self._through(tables, start, space, source)
            space.lift()
        space.mark([table.layer.attribute for table in tables])
        return end

    def _through(
        self, tables: list[_LayerTable], start: IntArray | None, space: Space, source: BitSource | None = None
    ) -> IntArray | None:
        """Walk one layer after another; return the places after them.

        With a source, the rest of a word is drawn if its first 32 bits equal a threshold's.
        """
        place, after = start, space.place(start)
        for k, table in enumerate(tables):
            # every record's random bits are subtracted from the entry for its place; all places are in the table, and
            # without "clip", numpy would write to an array of its own before it checks them
            reached = space.rows[k]
            entries = table.entries[0] if place is None else table.entries.take(place, None, space.entry, "clip")
            np.subtract(entries, reached, reached)
            if table.second is not None:
                if place is None:
                    space.second[k].fill(table.second[0])
                else:
                    table.second.take(place, None, space.second[k], "clip")
                np.less(space.short[k], space.second[k], space.below_second)
            if source is not None:
                self._settle(table, k, place, space, source)
            place = None
            if table.onward:
                np.right_shift(reached, HALF, after)
                place = after if table.second is None else np.add(after, space.one_more, after)
        return place

    def _settle(self, table: _LayerTable, k: int, place: IntArray | None, space: Space, source: BitSource) -> None:
        """Decide by whole words where the first 32 bits are a threshold's."""
        layer, short, rest = table.layer, space.short[k], self._bits - HALF
        if layer.uniform:
            return
        tied = space.equal(k) if table.second is None else space.equal(k) | np.equal(short, space.second[k])
        for i in np.flatnonzero(tied).tolist():
            state = int(table.entries[0 if place is None else place[i]] >> HALF) // table.ways
            own = slice(state, state + 1)
            whole = integers(source.words(self._bits // 64)[:, None])[0] & ((1 << rest) - 1) | int(short[i]) << rest
            changes = bool(whole < integers(layer.words[:, own])[0])
            space.reached[k, i] = table.ways * state + changes << HALF
            if layer.high_words is not None:
                space.below_second[i] = whole < integers(layer.high_words[:, own])[0]
