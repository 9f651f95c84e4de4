"""Partitions of the attributes 0..m−1 into groups: classes of alike attributes, blocks, clusters.

A partition is a tuple of index arrays. Certificates and records hold the same as tuples and lists of whole numbers, because
they are written down; :func:`partition` brings any of these to arrays and is the only check that every attribute is in one.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optrr_solvers.errors import InvalidInput

Partition = tuple[NDArray[np.int64], ...]


def partition(groups: Iterable[Sequence[int] | ArrayLike], m: int, what: str = "classes") -> Partition:
    """The groups as index arrays; ``what`` they are is for the message.

    Raises InvalidInput where a group is empty, or they do not hold every attribute 0..m−1 exactly once.
    """
    wrong = InvalidInput(f"the {what} must hold every attribute 0..{m - 1} exactly once")
    try:
        members = tuple(np.asarray(group, dtype=np.int64).ravel() for group in groups)
    except OverflowError:
        raise wrong from None
    if not members or not all(group.size for group in members):
        raise wrong
    if not np.array_equal(np.sort(np.concatenate(members)), np.arange(m)):
        raise wrong
    return members


def singles(m: int) -> Partition:
    """Every attribute a group of its own."""
    return tuple(np.arange(m).reshape(m, 1))


def alike(keys: Sequence[ArrayLike]) -> Partition:
    """Attributes that agree in every key, each of shape (m,), grouped by first appearance; O(m log m)."""
    rows = np.stack([np.asarray(key, dtype=np.float64) for key in keys], axis=1)
    _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(inverse))[:-1])
    return tuple(groups[k].astype(np.int64) for k in np.argsort(first))


def group_numbers(groups: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The number of the group each attribute is in, shape (m,)."""
    counts = [members.size for members in groups]
    out = np.empty(sum(counts), dtype=np.int64)
    out[np.concatenate(groups)] = np.repeat(np.arange(len(groups)), counts)
    return out
