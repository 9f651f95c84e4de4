"""Walking the layers, many records at a time, with as few random bits as will do (design §7).

A record's word for one attribute starts with 32 random bits; only where they equal the threshold's first 32 bits, once
in 2^32 cells, are the rest drawn. A block of records is walked attribute by attribute, as columns; blocks are independent, each
with a source of its own, so that the result depends on the seed and not on the number of threads.

Threads do array operations at the same time, but take turns at all else that Python does, and to hand a turn over takes as long
as an operation on some ten thousand numbers. So only three operations a layer wait for the layer before: an entry is looked up,
the random bits are subtracted, and what is left is shifted. Second thresholds, which balls have, need three more: they are
looked up, compared, and what that decides is added. All else is done for many layers at once, and threads whose blocks are
short walk one after the other, each while the others do such longer operations.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from optrr_solvers.arrays import IntArray
from optrr_solvers.randomness import BitSource, Words, split, words_below
from optrr_solvers.sampling.arithmetic import integers
from optrr_solvers.sampling.layers import ChoiceLayer, Layer, Layers
from optrr_solvers.sampling.replacement import draw_steps, move, smallest_kind
from optrr_solvers.sampling.space import HALF, BoolArray, Shape, Short, Space, as_records

# The most records of a block, its most cells, and as many records as a block has in spite of that.
_MOST, _BLOCK_CELLS, _FEWEST = 1 << 18, 1 << 25, 1 << 12
# What would be a single block is divided where both halves have ``_LONG`` records, or ``_FEWEST`` and together ``_LARGE``
# cells. Blocks of fewer than ``_LONG`` records are walked one at a time, which is a quarter of a thread's work and more, so
# that more threads than ``_IN_TURNS`` would only wait.
_LONG, _LARGE, _IN_TURNS = 1 << 14, 1 << 22, 4


@dataclass(frozen=True, eq=False)
class _LayerTable:
    """One layer as integers from which the random bits are subtracted.

    A place is a state and what is decided there: ``ways`` times the state, one more where the attribute changes, and one more
    again where the next state is the layer's ``high``. ``entries`` has a number for each place of the layer before, or each
    component of the choice before, and a single one where all of them lead to the first state. The number is the place of a
    change, times 2^32, and the first 32 bits of the threshold, less 1. When the random bits are subtracted, they borrow from
    the upper half unless they are below the threshold. So the upper half becomes the place of what they decide, and the lower
    half is all ones where they equal the threshold's.

    ``second`` has the first 32 bits of the second threshold, likewise, where there is one. ``onward`` says whether the next
    layer's entries depend on the place.
    """

    layer: Layer
    ways: int
    entries: IntArray
    second: Short | None
    onward: bool

    @classmethod
    def of(cls, layer: Layer, states: IntArray | None) -> "tuple[_LayerTable, IntArray | None]":
        """The table, and for each of its places the next layer's state; None where that is always the first.

        ``states`` are those of this layer for each place of the layer before, in the same way.
        """
        arrivals = np.zeros(1, dtype=np.int64) if states is None else states
        first, second = _first(layer.words), None
        ways, following = 2, [layer.kept, layer.changed]
        if layer.uniform:
            # nothing is below 0
            first, following = np.zeros_like(first), [layer.kept, layer.kept]
        elif layer.high is not None and layer.high_words is not None:
            # with four places a state, all of which but the last are reached, a state's first place is even like with two, and
            # the place of a change is odd
            ways, following = 4, [layer.kept, layer.changed, layer.high, layer.high]
            second = _first(layer.high_words)[arrivals].astype(np.uint32)
        entries = (ways * np.arange(layer.states) + 1 << HALF) + first - 1
        after = np.stack(following, axis=1).ravel()
        onward = bool(after.any())
        return cls(layer, ways, entries[arrivals], second, onward), after if onward else None


def _first(words: Words) -> IntArray:
    return np.asarray(words[0] >> np.uint64(HALF), dtype=np.int64)


def _runs(layers: Sequence[Layer | ChoiceLayer]) -> list[ChoiceLayer | list[_LayerTable]]:
    """Choices, and between them the tables of layers that follow one another."""
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
        uniform = [x.attribute for x in automaton.layers if isinstance(x, Layer) and x.uniform]
        self._uniform = [(i, int(automaton.sizes[i])) for i in uniform]

    def changes(self, n: int, source: BitSource) -> BoolArray:
        """``n`` independent change sets, shape (n, m)."""
        out = np.empty((n, self._sizes.size), dtype=np.bool_)

        def draw(space: Space, rows: slice, bits: BitSource) -> None:
            self._walk(space, bits)
            for i, size in self._uniform:
                space.changed[i] = words_below(bits, space.n, size) != 0
            as_records(space.changed, out[rows])

        self._in_blocks(n, source, np.dtype(np.uint8), draw)
        return out

    def randomize(self, codes: NDArray[np.integer], source: BitSource) -> None:
        """Randomize valid codes where they stand, shape (n, m)."""

        def draw(space: Space, rows: slice, bits: BitSource) -> None:
            self._walk(space, bits)
            draw_steps(space, self._sizes, bits)
            move(codes[rows], space.steps, self._sizes)
            for i, size in self._uniform:
                codes[rows, i] = words_below(bits, space.n, size)

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
        divided = n >= 2 * _LONG or (n >= 2 * _FEWEST and n * m >= _LARGE)
        count = max(-(-n // max(_FEWEST, min(_MOST, _BLOCK_CELLS // m))), 2 if divided else 1)
        rows = [slice(k * n // count, (k + 1) * n // count) for k in range(count)]
        sources = split(source, count)
        # a source that cannot be split serves all blocks in order
        limit = os.environ.get("OPTRR_THREADS", "")
        processors = int(limit) if limit.isdecimal() and int(limit) > 0 else len(os.sched_getaffinity(0))
        threads = min(count, processors) if sources[0] is not sources[-1] else 1
        turn: AbstractContextManager[object] = nullcontext()
        if n < count * _LONG:
            threads, turn = min(threads, _IN_TURNS), Lock()

        def every(first: int) -> None:
            space = Space(self._shape, -(-n // count), kind, turn)
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
        """Walk layers that follow one another, from the places before them; returns the places after them."""
        space.draw(len(tables), source)
        space.begin()
        with space.turn:
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
        """One layer after another; with a source, the rest of a word is drawn where its beginning equals a threshold's."""
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
