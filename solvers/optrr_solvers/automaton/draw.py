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

from optrr_solvers.automaton.arithmetic import integers
from optrr_solvers.automaton.layers import ChoiceLayer, Layer, Layers
from optrr_solvers.problem import IntArray
from optrr_solvers.randomness import BitSource, split, words_below

BoolArray = NDArray[np.bool_]

# Cells of a block and its fewest and most records: its columns stay in the cache, and a layer's array operations cost
# more than their calls.
_BLOCK_CELLS = 1 << 22
_FEWEST, _MOST = 1 << 12, 1 << 15
# Below so many cells threads cost more than they save.
_THREADED = 1 << 18
# A column is changed as a whole where more than this share of its values changes.
_DENSE = 0.2
_SHORT = 32


@dataclass(frozen=True, eq=False)
class _Table:
    """One layer as arrays: first 32 bits of the thresholds, and next states by 2 or 3 times state plus branch."""

    layer: Layer
    first: NDArray[np.uint32]
    first_high: NDArray[np.uint32] | None
    following: IntArray | None

    @classmethod
    def of(cls, layer: Layer) -> _Table:
        first = (layer.words[0] >> np.uint64(_SHORT)).astype(np.uint32)
        high = None if layer.high_words is None else (layer.high_words[0] >> np.uint64(_SHORT)).astype(np.uint32)
        parts = [
            layer.kept,
            layer.kept if layer.uniform else layer.changed,
            *([] if layer.high is None else [layer.high]),
        ]
        following = np.stack(parts, axis=1).ravel().astype(np.intp)
        return cls(layer, first, high, following if following.any() else None)


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
            columns = np.ascontiguousarray(codes[rows].T, dtype=small)
            for layer, changed in self._walk(columns.shape[1], bits):
                size = int(self._automaton.sizes[layer.attribute])
                _replace(columns[layer.attribute], size, None if layer.uniform else changed, bits)
            codes[rows] = columns.T

        self._in_blocks(codes.shape[0], source, fill)

    def _in_blocks(self, n: int, source: BitSource, fill: Callable[[slice, BitSource], None]) -> None:
        m = self._automaton.sizes.size
        size = max(_FEWEST, min(_MOST, _BLOCK_CELLS // m))
        rows = [slice(start, min(start + size, n)) for start in range(0, n, size)]
        sources = split(source, len(rows))
        threads = min(len(rows), _processors())
        if threads < 2 or n * m < _THREADED or sources[0] is source:
            for part, bits in zip(rows, sources, strict=True):
                fill(part, bits)
            return
        with ThreadPoolExecutor(threads) as pool:
            # a failure in any block is raised here
            for _ in pool.map(fill, rows, sources):
                pass

    def _walk(self, n: int, source: BitSource) -> Iterator[tuple[Layer, BoolArray]]:
        """Every layer with which of ``n`` records change there; for a uniform layer that is undecided."""
        state: IntArray | None = None
        undecided = np.zeros(n, dtype=np.bool_)
        for table in self._tables:
            if isinstance(table, ChoiceLayer):
                state = table.next_states[np.searchsorted(table.ends, source.words(n), side="right")]
                continue
            if table.layer.uniform:
                yield table.layer, undecided
                if table.following is not None and state is not None:
                    state = table.following[2 * state]
                continue
            changed, high = self._branch(table, state, n, source)
            yield table.layer, changed
            state = _next(table, state, changed, high)

    def _branch(
        self, table: _Table, state: IntArray | None, n: int, source: BitSource
    ) -> tuple[BoolArray, BoolArray | None]:
        words = _short_words(source, n)
        first: np.uint32 | NDArray[np.uint32] = (
            table.first[0] if state is None else table.first.take(state, mode="clip")
        )
        changed, tied = words < first, words == first
        high = None
        if table.first_high is not None:
            inner = table.first_high[0] if state is None else table.first_high.take(state, mode="clip")
            high = words < inner
            tied |= words == inner
        for at in np.flatnonzero(tied).tolist():
            self._settle(table.layer, 0 if state is None else int(state[at]), at, int(words[at]), changed, high, source)
        return changed, high

    def _settle(  # noqa: PLR0913 (the rare case of one loop)
        self,
        layer: Layer,
        state: int,
        at: int,
        word: int,
        changed: BoolArray,
        high: BoolArray | None,
        source: BitSource,
    ) -> None:
        """Draw the rest of a word whose first 32 bits equal a threshold's."""
        rest = integers(source.words(self._bits // 64)[:, None])[0] & ((1 << (self._bits - _SHORT)) - 1)
        whole = (word << (self._bits - _SHORT)) | rest
        changed[at] = whole < integers(layer.words[:, state : state + 1])[0]
        if high is not None and layer.high_words is not None:
            high[at] = whole < integers(layer.high_words[:, state : state + 1])[0]


def _next(table: _Table, state: IntArray | None, changed: BoolArray, high: BoolArray | None) -> IntArray | None:
    if table.following is None:
        return None
    branches = 2 if high is None else 3
    at = changed.astype(np.intp) if state is None else state * branches
    if state is not None:
        at += changed
    if high is not None:
        at += high
    return table.following.take(at, mode="clip")


def _short_words(source: BitSource, n: int) -> NDArray[np.uint32]:
    return source.words((n + 1) // 2).view(np.uint32)[:n]


def _replace(column: NDArray[np.unsignedinteger], size: int, changed: BoolArray | None, source: BitSource) -> None:
    """Move the changed values to one of the other categories, each as likely; None: all to any category."""
    if changed is None:
        column[:] = words_below(source, column.size, size)
        return
    if size == 2:
        column ^= changed
        return
    count = int(np.count_nonzero(changed))
    if count > _DENSE * column.size:
        moved = words_below(source, column.size, size - 1).astype(column.dtype)
        moved += 1
        moved *= changed
        column += moved
        np.subtract(column, size, out=column, where=column >= size)
        return
    rows = np.flatnonzero(changed)
    moved = column[rows] + (words_below(source, rows.size, size - 1).astype(column.dtype) + column.dtype.type(1))
    column[rows] = np.where(moved >= size, moved - column.dtype.type(size), moved)


def _processors() -> int:
    limit = os.environ.get("OPTRR_THREADS", "")
    return int(limit) if limit.isdigit() and int(limit) > 0 else len(os.sched_getaffinity(0))
