"""What is asked: records planted for people who do not exist, in two runs that start at the same time.

Each run asks, in this order:

- **alike**: records that both runs share, at the same places, so that noise made from the record or from a clock shows;
- **random**: records drawn uniformly and afresh, from which the worst events are found in the first run and bounded in the
  second. Averaged over uniform records, a set of answers counted by how they differ from the record has a probability
  between the smallest and the largest of a single pair of record and answer; that is what bounds ε from below;
- **corners**: every attribute at its first or its last category;
- **again**: people of the first part, half of them with the same record, half with another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optrr.devices.auditing.label import Codes
from optrr.errors import InvalidInput
from optrr_solvers.arrays import IntArray
from optrr_solvers.randomness import RandomState, as_source, bounded

# Shares of a run, and the most people who are asked again.
_ALIKE, _CORNERS, _AGAIN = 0.1, 0.1, 0.05
_MOST_AGAIN = 200
# The second run's people have the first run's numbers and a multiple of this more: seeds of up to 16 bits that are made from
# the number meet again in it.
_NUMBERS = 1 << 16
# Fewer queries could show nothing.
FEWEST = 200
# Codes that one audit holds at once, three arrays of them; records of many attributes are asked less often.
MOST_CELLS = 1 << 26


@dataclass(frozen=True)
class RecordKinds:
    """How many records of a run are of each kind."""

    alike: int
    random: int
    corners: int
    again: int

    @classmethod
    def of(cls, queries: int, m: int) -> RecordKinds:
        """The layout of each of two runs with this many queries in all, fewer where records are wide.

        Raises
        ------
        InvalidInput
            for fewer than 200 queries.
        """
        if queries < FEWEST:
            raise InvalidInput(f"{queries} queries show nothing; ask at least {FEWEST}")
        each = max(FEWEST, min(queries, MOST_CELLS // m)) // 2
        alike, corners, again = int(_ALIKE * each), int(_CORNERS * each), min(_MOST_AGAIN, int(_AGAIN * each))
        return cls(alike, each - alike - corners - again, corners, again)

    @property
    def once(self) -> int:
        """Records of different people in a run."""
        return self.alike + self.random + self.corners

    @property
    def rows(self) -> int:
        """All records of a run."""
        return self.once + self.again


@dataclass(frozen=True, eq=False)
class Questions:
    """People by number, shape (n,), and their records as codes, shape (n, m)."""

    people: IntArray
    records: Codes


def planned(layout: RecordKinds, sizes: IntArray, random_state: RandomState = None) -> list[Questions]:
    """The questions of both runs."""
    source = as_source(random_state)

    kind = np.min_scalar_type(int(sizes.max()))

    def uniform(rows: int, bounds: IntArray) -> Codes:
        out = np.empty((rows, sizes.size), dtype=kind)
        for i, r in enumerate(bounds.tolist()):
            out[:, i] = bounded(source, rows, r)
        return out

    alike = uniform(layout.alike, sizes)
    runs = []
    for run in range(2):
        corners = uniform(layout.corners, np.full(sizes.size, 2)) * (sizes - 1).astype(kind)
        once = np.concatenate([alike, uniform(layout.random, sizes), corners])
        same = layout.again // 2
        # the second half answers with somebody else's record: the one of the person before
        again = np.concatenate([alike[:same], np.roll(alike, 1, axis=0)[same : layout.again]])
        people = np.arange(layout.once) + run * _NUMBERS * -(-layout.once // _NUMBERS)
        runs.append(Questions(np.concatenate([people, people[: layout.again]]), np.concatenate([once, again])))
    return runs
