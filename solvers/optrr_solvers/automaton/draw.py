"""Walking the layers, many records at a time, with as few random bits as will do (design §7).

A record's word for one attribute starts with 32 random bits; only where they equal the threshold's first 32 bits, once
in 2^32 cells, are the rest drawn. The replacement of a changed value takes 16 bits, or 32 for large attributes, by
multiplying and shifting; products that would favour a category are drawn again (Lemire, Fast random integer generation
in an interval, 2019), so that every other category is exactly as likely. A block of records is walked attribute by
attribute, as columns; blocks are independent, each with a source of its own, so that the result depends on the seed and
not on the number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optrr_solvers.arrays import IntArray
from optrr_solvers.automaton.arithmetic import integers
from optrr_solvers.automaton.layers import ChoiceLayer, Layer, Layers
from optrr_solvers.randomness import BitSource, Words, split, words_below

BoolArray = NDArray[np.bool_]

# Cells of a block and its fewest and most records: its columns stay in the cache, and a layer's array operations cost
# more than their calls.
_BLOCK_CELLS = 1 << 23
_FEWEST, _MOST = 1 << 12, 1 << 15
# From this many states in a layer on, blocks have twice as many records, because the layer's tables take long to fetch; and how
# many records are turned into columns at once.
_LARGE, _TURNED = 1 << 10, 1 << 9
# With fewer cells than this, threads would take longer to start than they save.
_THREADED = 1 << 18
# A column is changed as a whole where more than this share of its values changes.
_DENSE = 0.2
_SHORT = 32


@dataclass(frozen=True, eq=False)
class _Table:
    """One layer as arrays: first 32 bits of the thresholds by state, and next states, all of one branch after another."""

    layer: Layer
    first: NDArray[np.uint32]
    first_high: NDArray[np.uint32] | None
    following: IntArray | None

    @classmethod
    def of(cls, layer: Layer) -> _Table:
        ways = [layer.kept, layer.kept if layer.uniform else layer.changed]
        ways += [] if layer.high is None else [layer.high]
        following = np.concatenate(ways).astype(np.intp)
        high = None if layer.high_words is None else _first(layer.high_words)
        return cls(layer, _first(layer.words), high, following if following.any() else None)


def _tiles(rows: slice) -> Iterator[slice]:
    """Pieces of a block small enough that turning rows into columns stays within the cache."""
    return (slice(k, min(k + _TURNED, rows.stop)) for k in range(rows.start, rows.stop, _TURNED))


def _first(words: Words) -> NDArray[np.uint32]:
    return np.asarray(words[0] >> np.uint64(_SHORT), dtype=np.uint32)


class Sampler:
    """Draws change sets, or randomizes codes in place, by an automaton."""

    def __init__(self, automaton: Layers) -> None:
        self._automaton = automaton
        self._bits = automaton.bits
        self._tables = [x if isinstance(x, ChoiceLayer) else _Table.of(x) for x in automaton.layers]

    def changes(self, n: int, source: BitSource) -> BoolArray:
        """``n`` independent change sets, shape (n, m)."""
        out = np.empty((n, self._automaton.sizes.size), dtype=np.bool_)

        def fill(rows: slice, bits: BitSource) -> None:
            for layer, changed in self._walk(rows.stop - rows.start, bits):
                size = int(self._automaton.sizes[layer.attribute])
                moved = words_below(bits, changed.size, size) != 0 if layer.uniform else changed
                out[rows, layer.attribute] = moved

        self._in_blocks(n, source, fill)
        return out

    def randomize(self, codes: NDArray[np.integer], source: BitSource) -> None:
        """Randomize valid codes where they stand, shape (n, m)."""
        small = np.min_scalar_type(2 * int(self._automaton.sizes.max()))

        def fill(rows: slice, bits: BitSource) -> None:
            # a copy with contiguous columns of the smallest type
            columns = np.empty((codes.shape[1], rows.stop - rows.start), dtype=small)
            for part in _tiles(rows):
                columns[:, part.start - rows.start : part.stop - rows.start] = codes[part].T
            for layer, changed in self._walk(columns.shape[1], bits):
                size = int(self._automaton.sizes[layer.attribute])
                _replace(columns[layer.attribute], size, None if layer.uniform else changed, bits)
            for part in _tiles(rows):
                codes[part] = columns[:, part.start - rows.start : part.stop - rows.start].T

        self._in_blocks(codes.shape[0], source, fill)

    def _in_blocks(self, n: int, source: BitSource, fill: Callable[[slice, BitSource], None]) -> None:
        m = self._automaton.sizes.size
        most = _MOST if self._automaton.states < _LARGE * m else 2 * _MOST
        blocks = max(1, -(-n // max(_FEWEST, min(most, _BLOCK_CELLS // m))))
        rows = [slice(k * n // blocks, (k + 1) * n // blocks) for k in range(blocks)]
        sources = split(source, len(rows))
        threads = min(len(rows), _processors())
        if threads < 2 or n * m < _THREADED or sources[0] is sources[-1]:
            for part, bits in zip(rows, sources, strict=True):
                fill(part, bits)
            return
        with ThreadPoolExecutor(threads) as pool:
            # a failure in any block is raised here
            for _ in pool.map(fill, rows, sources):
                pass

    def _walk(self, n: int, source: BitSource) -> Iterator[tuple[Layer, BoolArray]]:
        """Every layer with which of ``n`` records change there, valid until the next; a uniform layer's is undecided."""
        space = _Space.of(n)
        state: IntArray | None = None
        for table in self._tables:
            if isinstance(table, ChoiceLayer):
                state = table.next_states[np.searchsorted(table.ends, source.words(n), side="right")]
                continue
            if table.layer.uniform:
                yield table.layer, space.changed
            else:
                self._branch(table, state, source, space)
                yield table.layer, space.changed
            state = _next(table, state, space)

    def _branch(self, table: _Table, state: IntArray | None, source: BitSource, space: _Space) -> None:
        """Decide for every record whether it changes, and which way, in ``space``."""
        words = source.words((space.changed.size + 1) // 2).view(np.uint32)[: space.changed.size]
        first = _looked_up(table.first, state, space)
        np.less(words, first, out=space.changed)
        tied = np.flatnonzero(np.equal(words, first, out=space.high))
        if table.first_high is not None:
            first = _looked_up(table.first_high, state, space)
            tied = np.concatenate([tied, np.flatnonzero(np.equal(words, first, out=space.high))])
            np.less(words, first, out=space.high)
        for at in sorted(set(tied.tolist())):
            self._settle(table.layer, 0 if state is None else int(state[at]), at, int(words[at]), space, source)

    def _settle(  # noqa: PLR0913 (the rare case of one loop)
        self, layer: Layer, state: int, at: int, word: int, space: _Space, source: BitSource
    ) -> None:
        """Draw the rest of a word whose first 32 bits equal a threshold's."""
        rest = integers(source.words(self._bits // 64)[:, None])[0] & ((1 << (self._bits - _SHORT)) - 1)
        whole = (word << (self._bits - _SHORT)) | rest
        space.changed[at] = whole < integers(layer.words[:, state : state + 1])[0]
        if layer.high_words is not None:
            space.high[at] = whole < integers(layer.high_words[:, state : state + 1])[0]


@dataclass(frozen=True, eq=False)
class _Space:
    """Arrays of a block that every layer writes anew, shape (n,)."""

    changed: BoolArray
    high: BoolArray
    first: NDArray[np.uint32]
    at: IntArray

    @classmethod
    def of(cls, n: int) -> _Space:
        flags = np.zeros((2, n), dtype=np.bool_)
        return cls(flags[0], flags[1], np.empty(n, dtype=np.uint32), np.empty(n, dtype=np.intp))


def _looked_up(values: NDArray[np.uint32], state: IntArray | None, space: _Space) -> np.uint32 | NDArray[np.uint32]:
    return values[0] if state is None else values.take(state, mode="clip", out=space.first)


def _next(table: _Table, state: IntArray | None, space: _Space) -> IntArray | None:
    if table.following is None:
        return None
    if table.layer.uniform:
        return None if state is None else table.following.take(state, mode="clip")
    states = table.first.size
    at = np.multiply(space.changed, states, out=space.at)
    if table.first_high is not None:
        at += np.multiply(space.high, states, dtype=np.intp)
    if state is not None:
        at += state
    return table.following.take(at, mode="clip")


def _replace(column: NDArray[np.unsignedinteger], size: int, changed: BoolArray | None, source: BitSource) -> None:
    """Move the changed values to one of the other categories, each as likely; None: all to any category."""
    if changed is None:
        column[:] = words_below(source, column.size, size)
        return
    if size == 2:
        column ^= changed
        return
    if np.count_nonzero(changed) > _DENSE * column.size:
        moved = words_below(source, column.size, size - 1).astype(column.dtype)
        moved += column.dtype.type(1)
        moved *= changed
        column += moved
        # a difference below 0 wraps around to a larger number than before, so that the smaller of both is the remainder
        np.minimum(column, np.subtract(column, column.dtype.type(size), out=moved), out=column)
        return
    rows = np.flatnonzero(changed)
    moved = column[rows] + words_below(source, rows.size, size - 1).astype(column.dtype) + column.dtype.type(1)
    column[rows] = np.minimum(moved, moved - column.dtype.type(size))


def _processors() -> int:
    limit = os.environ.get("OPTRR_THREADS", "")
    return int(limit) if limit.isdigit() and int(limit) > 0 else len(os.sched_getaffinity(0))
