"""Walking the layers, many records at a time, with as few random bits as will do (design §7).

A record's word for one attribute starts with 32 random bits; only where they equal the threshold's first 32 bits, once
in 2^32 cells, are the rest drawn. A block of records is walked attribute by attribute, as columns; blocks are independent, each
with a source of its own, so that the result depends on the seed and not on the number of threads.

Threads do array operations at the same time, but take turns at all else that Python does, and to hand a turn over takes as long
as an operation on some ten thousand numbers: with short operations two threads are slower than one. Blocks are therefore long,
and what need not wait for the layer before is done for several layers at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optrr_solvers.arrays import IntArray
from optrr_solvers.automaton.arithmetic import integers
from optrr_solvers.automaton.layers import ChoiceLayer, Layer, Layers
from optrr_solvers.automaton.replacement import replace, smallest_kind
from optrr_solvers.automaton.space import BoolArray, Shape, Short, Space, put_back, turned
from optrr_solvers.randomness import BitSource, Words, split, words_below

# The most records of a block, its most cells, and the fewest records that a block has in spite of that.
_MOST, _BLOCK_CELLS, _FEWEST = 1 << 18, 1 << 25, 1 << 12
# Blocks of so many records are walked faster by two threads than by one.
_LONG = 1 << 14
_SHORT = 32


@dataclass(frozen=True, eq=False)
class _Table:
    """One layer as arrays, with ``ways`` entries for each state: where it is kept, where it changes, where it goes to ``high``.

    A state is the place of its first entry. ``first`` holds the first 32 bits of its threshold there, and of the second
    threshold one place further; ``following`` the next states, None where there is only one.
    """

    layer: Layer
    attribute: int
    ways: int
    first: Short
    following: IntArray | None

    @classmethod
    def of(cls, layer: Layer, after: int) -> _Table:
        """``after``: ways of the next layer."""
        threshold, states = _first(layer.words), [layer.kept]
        first = [threshold]
        if not layer.uniform:
            states.append(layer.changed)
            first.append(threshold)
        if layer.high is not None and layer.high_words is not None and not layer.uniform:
            states.append(layer.high)
            first = [threshold, _first(layer.high_words), threshold]
        following = np.stack(states, axis=1).ravel().astype(np.intp) * after
        return cls(
            layer, layer.attribute, len(states), np.stack(first, axis=1).ravel(), following if following.any() else None
        )


def _first(words: Words) -> Short:
    return np.asarray(words[0] >> np.uint64(_SHORT), dtype=np.uint32)


def _runs(layers: Sequence[Layer | ChoiceLayer]) -> list[ChoiceLayer | list[_Table]]:
    """Choices, and between them the tables of layers that follow one another."""
    out: list[ChoiceLayer | _Table] = []
    after = 1
    for layer in reversed(layers):
        if isinstance(layer, ChoiceLayer):
            out.append(ChoiceLayer(layer.ends, layer.next_states * after))
            after = 1
        else:
            table = _Table.of(layer, after)
            out.append(table)
            after = table.ways
    runs: list[ChoiceLayer | list[_Table]] = []
    for x in reversed(out):
        if isinstance(x, ChoiceLayer):
            runs.append(x)
        elif runs and isinstance(runs[-1], list):
            runs[-1].append(x)
        else:
            runs.append([x])
    return runs


class Sampler:
    """Draws change sets, or randomizes codes in place, by an automaton."""

    def __init__(self, automaton: Layers) -> None:
        self._sizes, self._bits = automaton.sizes, automaton.bits
        self._runs = _runs(automaton.layers)
        tables = [run for run in self._runs if isinstance(run, list)]
        thresholds = max(1, *(table.ways - 1 for run in tables for table in run))
        self._shape = Shape(automaton.sizes.size, max(map(len, tables)), thresholds)
        uniform = [x.attribute for x in automaton.layers if isinstance(x, Layer) and x.uniform]
        self._uniform = [(i, int(automaton.sizes[i])) for i in uniform]

    def changes(self, n: int, source: BitSource) -> BoolArray:
        """``n`` independent change sets, shape (n, m)."""
        out = np.empty((n, self._sizes.size), dtype=np.bool_)

        def draw(space: Space, rows: slice, bits: BitSource) -> None:
            self._walk(space, bits)
            for i, size in self._uniform:
                space.changed[i] = words_below(bits, space.n, size) != 0
            put_back(space.changed, out[rows])

        self._in_blocks(n, source, np.dtype(np.uint8), draw)
        return out

    def randomize(self, codes: NDArray[np.integer], source: BitSource) -> None:
        """Randomize valid codes where they stand, shape (n, m)."""

        def draw(space: Space, rows: slice, bits: BitSource) -> None:
            turned(codes[rows], space.columns)
            self._walk(space, bits)
            replace(space, self._sizes, bits)
            for i, size in self._uniform:
                space.columns[i] = words_below(bits, space.n, size)
            put_back(space.columns, codes[rows])

        self._in_blocks(codes.shape[0], source, smallest_kind(self._sizes), draw)

    def _in_blocks(
        self,
        n: int,
        source: BitSource,
        kind: np.dtype[np.unsignedinteger],
        draw: Callable[[Space, slice, BitSource], None],
    ) -> None:
        if n == 0:
            return
        m = self._sizes.size
        count = max(-(-n // max(_FEWEST, min(_MOST, _BLOCK_CELLS // m))), 2 if n >= 2 * _LONG else 1)
        rows = [slice(k * n // count, (k + 1) * n // count) for k in range(count)]
        sources = split(source, count)
        # a source that cannot be split serves all blocks in order
        threads = min(count, _processors()) if n >= count * _LONG and sources[0] is not sources[-1] else 1

        def every(first: int) -> None:
            space = Space(self._shape, -(-n // count), kind)
            for part, bits in zip(rows[first::threads], sources[first::threads], strict=True):
                draw(space.of(part.stop - part.start), part, bits)

        if threads < 2:
            every(0)
            return
        with ThreadPoolExecutor(threads) as pool:
            # a failure in any block is raised here
            for _ in pool.map(every, range(threads)):
                pass

    def _walk(self, space: Space, source: BitSource) -> None:
        """Decide which of the block's records change where, in ``space.changed``; attributes of uniform layers never do."""
        state: IntArray | None = None
        for run in self._runs:
            if isinstance(run, ChoiceLayer):
                state = run.next_states[np.searchsorted(run.ends, source.words(space.n), side="right")]
                continue
            for start in range(0, len(run), space.layers):
                state = self._several(run[start : start + space.layers], state, space, source)

    def _several(
        self, tables: list[_Table], start: IntArray | None, space: Space, source: BitSource
    ) -> IntArray | None:
        """Walk layers that follow one another, from the states before them; returns the states after them."""
        words, state = space.words(len(tables), source), start
        for k, table in enumerate(tables):
            _decide(table, words[k], state, space, k)
            state = _next(table, state, space, start)
        compared = space.first[:, : len(tables)]
        if not np.equal(words, compared, out=space.flags(*compared.shape)).any():
            return state
        # a word begins as a threshold does: these layers are walked again, and the rest of such words is drawn
        state = start
        for k, table in enumerate(tables):
            _decide(table, words[k], state, space, k)
            self._settle(table, words[k], state, space, source)
            state = _next(table, state, space, start)
        return state

    def _settle(self, table: _Table, words: Short, state: IntArray | None, space: Space, source: BitSource) -> None:
        """Decide by whole words where the first 32 bits are a threshold's."""
        if table.ways == 1:
            return
        layer, rest = table.layer, self._bits - _SHORT
        places = 0 if state is None else state
        tied = np.equal(words, table.first[places]) | np.equal(words, table.first[1:][places])
        for at in np.flatnonzero(tied).tolist():
            own = slice(None) if state is None else slice(place := int(state[at]) // table.ways, place + 1)
            whole = integers(source.words(self._bits // 64)[:, None])[0] & ((1 << rest) - 1) | int(words[at]) << rest
            space.changed[layer.attribute, at] = whole < integers(layer.words[:, own])[0]
            if layer.high_words is not None:
                space.high[at] = whole < integers(layer.high_words[:, own])[0]


def _decide(table: _Table, words: Short, state: IntArray | None, space: Space, k: int) -> None:
    """Compare every record's word with the thresholds of its state, as layer ``k`` of those walked at once."""
    changed, _ = space.ways[table.attribute]
    if table.ways == 1:
        changed.fill(False)
        return
    np.less(words, _looked_up(table.first, state, space.looked_up[0][k]), changed)
    if table.ways > 2:
        np.less(words, _looked_up(table.first[1:], state, space.looked_up[1][k]), space.high)


def _looked_up(values: Short, state: IntArray | None, out: Short) -> Short:
    if state is None:
        out.fill(values[0])
        return out
    return values.take(state, None, out, "clip")


def _next(table: _Table, state: IntArray | None, space: Space, start: IntArray | None) -> IntArray | None:
    """The states after a layer, not in the array of those that the walk may have to go back to."""
    if table.following is None:
        return None
    if table.ways > 1:
        _, way = space.ways[table.attribute]
        if table.ways > 2:
            way = np.add(way, space.high_way, space.way)
        if state is None:
            space.at[:] = way
        else:
            np.add(state, way, space.at)
        return table.following.take(space.at, None, space.state(start, state), "clip")
    return None if state is None else table.following.take(state, None, space.state(start, state), "clip")


def _processors() -> int:
    limit = os.environ.get("OPTRR_THREADS", "")
    return int(limit) if limit.isdigit() and int(limit) > 0 else len(os.sched_getaffinity(0))
