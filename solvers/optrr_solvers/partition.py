"""Partitions of the attributes 0..m−1 into groups: classes of alike attributes, blocks, clusters.

Certificates and records hold them as lists of whole numbers, because they are written down; :func:`partition` brings these to
arrays and is the only check that every attribute is in one group.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from optrr_solvers.arrays import IntArray
from optrr_solvers.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Partition(Sequence[IntArray]):
    """Groups that hold every attribute once; a sequence of index arrays.

    ``members``: the attributes, one group after the other, shape (m,); ``counts``: how many each group has, shape (G,).
    """

    members: IntArray
    counts: IntArray

    def __len__(self) -> int:
        return int(self.counts.size)

    def __getitem__(self, at: Any) -> Any:
        """Return one group, or a list of those of a slice."""
        if isinstance(at, slice):
            return [self[g] for g in range(*at.indices(len(self)))]
        end = int(self._ends[at])
        return self.members[end - int(self.counts[at]) : end]

    @cached_property
    def _ends(self) -> IntArray:
        return np.cumsum(self.counts)

    @property
    def first(self) -> IntArray:
        """One attribute of each group, shape (G,)."""
        return np.asarray(self.members[self._ends - self.counts])

    @cached_property
    def numbers(self) -> IntArray:
        """The number of the group each attribute is in, shape (m,)."""
        out = np.empty(self.members.size, dtype=np.int64)
        out[self.members] = np.repeat(np.arange(len(self)), self.counts)
        return out


def partition(groups: Iterable[Sequence[int] | ArrayLike], m: int, what: str = "classes") -> Partition:
    """Convert groups to index arrays; ``what`` they are is for messages.

    Raises InvalidInput where a group is empty, or they do not hold every attribute 0..m−1 exactly once.
    """
    wrong = InvalidInput(f"the {what} must hold every attribute 0..{m - 1} exactly once")
    if isinstance(groups, Partition):
        if groups.members.size != m:
            raise wrong
        return groups
    try:
        each = [np.asarray(group, dtype=np.int64).ravel() for group in groups]
    except OverflowError:
        raise wrong from None
    counts = np.array([group.size for group in each], dtype=np.int64)
    if not each or not counts.all():
        raise wrong
    members = np.concatenate(each)
    if not np.array_equal(np.sort(members), np.arange(m)):
        raise wrong
    return Partition(members, counts)


def singles(m: int) -> Partition:
    """Put every attribute in its own group."""
    return Partition(np.arange(m), np.ones(m, dtype=np.int64))


def alike(keys: Sequence[ArrayLike]) -> Partition:
    """Group attributes that agree in every key, by first appearance.

    Keys have shape (m,); O(m log m).
    """
    rows = np.stack([np.asarray(key, dtype=np.float64) for key in keys])
    order = np.lexsort(rows)
    rows = rows[:, order]
    starts = np.append(True, np.any(rows[:, 1:] != rows[:, :-1], axis=0))
    numbers = np.empty(order.size, dtype=np.int64)
    # sorting is stable, so that each group's first place is its first attribute
    numbers[order] = order[starts][np.cumsum(starts) - 1]
    counts = np.bincount(numbers)
    return Partition(np.argsort(numbers, kind="stable"), counts[counts > 0])
