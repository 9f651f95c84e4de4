"""Replacing changed values by one of the other categories, each exactly as likely.

A uniform number of 8, 16, 32 or 64 bits is divided into as many equal parts as there are other categories; what is left over is
drawn again. The number of its part, and one, is added to the value, modulo the number of categories.
"""

import numpy as np
from numpy.typing import NDArray

from optrr_solvers.arrays import IntArray
from optrr_solvers.randomness import BitSource
from optrr_solvers.sampling.space import Codes, Space, as_records

# The largest share of numbers that may have to be drawn again.
_REPEATED = 1 / 16
# Cells of records that are moved at once, and as many records in spite of that: fewer would read columns a few bytes at a time.
_MOVED, _FEWEST = 1 << 17, 1 << 7


def smallest_kind(sizes: IntArray) -> np.dtype[np.unsignedinteger]:
    """The smallest type that holds the sum of two codes, and whose numbers divide evenly enough."""
    for kind in (np.uint8, np.uint16, np.uint32):
        numbers = np.iinfo(kind).max + 1
        if 2 * int(sizes.max()) < numbers and np.all(numbers % (sizes - 1) <= _REPEATED * numbers):
            return np.dtype(kind)
    return np.dtype(np.uint64)


def draw_steps(space: Space, sizes: IntArray, source: BitSource) -> None:
    """Write to ``space.steps`` how far a block's values are moved: 1 to the size less 1 where ``space.changed``, else 0."""
    kind = space.steps.dtype
    if sizes.max() == 2:
        np.copyto(space.steps, space.changed)
        return
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
    """Move the values of records, shape (n, m), by steps, shape (m, n), each modulo its size, where they stand."""
    n, m = records.shape
    rows = min(n, max(_FEWEST, _MOVED // m))
    moved, less, modulus = np.empty((3, rows, m), dtype=steps.dtype)
    modulus[:] = sizes
    for start in range(0, n, rows):
        own = records[start : start + rows]
        to, other = moved[: len(own)], less[: len(own)]
        as_records(steps[:, start : start + rows], to)
        other[:] = own
        np.add(to, other, out=to)
        # a difference below 0 wraps around to a larger number than before, so that the smaller of both is the remainder
        np.subtract(to, modulus[: len(own)], out=other)
        np.minimum(to, other, out=other)
        own[:] = other
