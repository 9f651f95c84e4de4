"""What came back: true codes and noise, and which rows are of which part of a run.

The noise of an attribute is (answer − record) mod r: 0 where it is kept. Under any label it has the same law whatever the
record is, so that everything a right client may do is said by the law of independent noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from optrr.devices.auditing.label import Codes
from optrr.devices.auditing.questions import Questions, RecordKinds
from optrr_solvers.arrays import IntArray

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Answers:
    """Records and noise of different people, shape (m, n), the first run's before the second's."""

    sizes: IntArray
    layout: RecordKinds
    records: Codes
    noise: Codes

    @classmethod
    def of(cls, sizes: IntArray, layout: RecordKinds, runs: Sequence[Questions], codes: Sequence[Codes]) -> Answers:
        """From the questions and the valid codes of the answers; those who are asked again are left out."""
        records = np.concatenate([asked.records[: layout.once] for asked in runs]).T
        answers = np.concatenate([c[: layout.once] for c in codes]).T
        noise = np.empty(records.shape, dtype=np.min_scalar_type(int(sizes.max())))
        for i, r in enumerate(sizes.tolist()):
            noise[i] = (answers[i].astype(np.int64) - records[i]) % r
        return cls(sizes, layout, np.ascontiguousarray(records.astype(noise.dtype)), noise)

    @property
    def m(self) -> int:
        """Number of attributes."""
        return int(self.sizes.size)

    @property
    def count(self) -> int:
        """All records."""
        return int(self.noise.shape[1])

    @cached_property
    def changed(self) -> BoolArray:
        """Whether an attribute differs from the record, shape (m, n)."""
        return np.asarray(self.noise != 0)

    @property
    def runs(self) -> tuple[slice, slice]:
        """The rows of each run."""
        return slice(0, self.layout.once), slice(self.layout.once, 2 * self.layout.once)

    @property
    def random(self) -> tuple[slice, slice]:
        """The rows of each run whose records are uniform and independent of everything else."""
        first, rows = self.layout.alike, self.layout.random
        return tuple(slice(r.start + first, r.start + first + rows) for r in self.runs)  # type: ignore[return-value]

    def reported(self, i: int, rows: slice = slice(None)) -> IntArray:
        """The answers' codes of one attribute."""
        return np.asarray((self.records[i, rows].astype(np.int64) + self.noise[i, rows]) % self.sizes[i])

    def pattern(self, chosen: Sequence[int], rows: slice = slice(None)) -> IntArray:
        """Which of the chosen attributes changed, as a number whose highest bit is the first of them; shape (n,)."""
        out = np.zeros(self.changed[0, rows].size, dtype=np.int64)
        for i in chosen:
            out = (out << 1) | self.changed[i, rows]
        return out
