"""A mechanism: a domain and a law, that is, everything needed to randomize records and to know what it costs.

For each record the law draws the change set S, and every attribute in S moves to one of its other categories, each as
likely: add a uniform 1..r_i−1 modulo r_i to its code (design §2). Only the flipped cells are edited.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from optrr.errors import InvalidInput
from optrr.records.domain import Domain
from optrr_solvers.laws import Law
from optrr_solvers.problem import FloatArray, IntArray
from optrr_solvers.randomness import BitSource, RandomState, as_source, bounded

Frame = TypeVar("Frame")

# A dense matrix over 4096 cells takes 128 MB.
MAX_MATRIX = 4096

# Cells whose change sets are drawn at once. A law may hold 8 bytes for each while it samples: 32 MB.
_CELLS = 1 << 22
# Memory that change sets may take while they are drawn.
_SAMPLED = 1 << 27
# ... but never fewer records than this, so that the cost per attribute is spread when there are very many.
_RECORDS = 64


class RandomizesCodes(Protocol):
    """What frames, files and engines need of a mechanism: a designed one, or matrices (:mod:`optrr.matrix`)."""

    @property
    def domain(self) -> Domain:
        """The columns of a record."""
        ...

    def randomize_in_place(self, codes: NDArray[np.integer], source: BitSource) -> None:
        """Randomize valid codes where they stand, shape (n, m)."""
        ...


@dataclass(frozen=True, eq=False)
class Mechanism:
    """Randomizes records of ``domain`` by ``law``.

    Raises
    ------
    InvalidInput
        where the law's sizes are not the domain's.
    """

    domain: Domain
    law: Law

    def __post_init__(self) -> None:
        if not np.array_equal(self.law.sizes, self.domain.sizes):
            raise InvalidInput(
                f"the law is for {self.law.m} attributes of sizes {_some(self.law.sizes)} and the domain has "
                f"{self.domain.m} of sizes {_some(self.domain.sizes)}; design the law for this domain"
            )

    @cached_property
    def epsilon(self) -> float:
        """Total ε in nats, rounded up: local differential privacy of the whole record."""
        return self.law.epsilon

    @cached_property
    def attribute_epsilons(self) -> FloatArray:
        """ε_i in nats of the randomized response that is as accurate on attribute i alone, shape (m,)."""
        return self.law.attribute_epsilons()

    @cached_property
    def conditional_epsilons(self) -> FloatArray:
        """What an observer who knows all other attributes learns about attribute i, in nats, shape (m,), rounded up."""
        return self.law.conditional_epsilons()

    def eigenvalues(self, names: str | Iterable[str]) -> FloatArray:
        """λ_W of every W inside the named attributes: shape (2,)*k, index 1 where the attribute is in W."""
        return self.law.eigenvalues(self.domain.indices(names))

    def matrix(self, names: str | Iterable[str] | None = None) -> FloatArray:
        """Distortion matrix P[u, v] = Pr(output v | input u) over the named attributes' product, row-stochastic.

        Cells are numbered in row-major order (last attribute fastest). For looking at: estimation never needs it.

        Raises
        ------
        InvalidInput
            above 4096 cells (128 MB).
        """
        chosen = self.domain.indices(self.domain.names if names is None else names)
        sizes = [self.domain.attributes[i].size for i in chosen]
        cells = prod(sizes)
        if cells > MAX_MATRIX:
            raise InvalidInput(
                f"the matrix over {len(chosen)} attributes has {cells} rows; ask for attributes with at most "
                f"{MAX_MATRIX} combinations (estimates need no matrix)"
            )
        k = len(chosen)
        table = self.law.marginal(chosen)
        changed = []
        for axis, r in enumerate(sizes):
            shape = [1] * (2 * k)
            shape[axis] = shape[k + axis] = r
            table = table / np.reshape([1, r - 1], [2 if a == axis else 1 for a in range(k)])
            changed.append((1 - np.eye(r, dtype=np.int64)).reshape(shape))
        return np.asarray(table[tuple(changed)]).reshape(cells, cells)

    def perturb(self, data: Frame, random_state: RandomState = None) -> Frame:
        """Randomized records, as the same kind of frame: pandas, polars, pyarrow Table or RecordBatch.

        Columns, their order and their types are kept; a type that cannot hold every declared category becomes text.
        Everything else that could tell about the true records is left out: a pandas index, metadata, and the
        dictionaries of categorical columns, which are rebuilt from the domain. (A type may tell something by itself:
        some readers make a column of integers floating point as soon as one value is missing. Declare types, too.)

        Parameters
        ----------
        data
            one column per attribute, in any order, and no other column; at least one record.
        random_state
            None draws from the operating system's entropy. A seed or a Generator makes the draw repeatable, for
            studies: whoever knows the seed can undo it. A seed has a stream of its own, not the one numpy draws from it; a
            Generator must not be in the state that the records were drawn from.

        Raises
        ------
        InvalidInput
            naming the column, the value and the first record it stands in.
        """
        # frames build on the domain only, so they can be imported before or after this module
        from optrr.records.frames import recode_frame  # noqa: PLC0415

        source = as_source(random_state)
        return recode_frame(data, self.domain, lambda codes: self.randomize_in_place(codes, source))

    def randomize_in_place(self, codes: NDArray[np.integer], source: BitSource) -> None:
        """Randomize valid codes where they stand, shape (n, m)."""
        flip(codes, self.law, source)

    def perturb_codes(self, codes: NDArray[np.integer], random_state: RandomState = None) -> NDArray[np.integer]:
        """Randomized codes: shape (n, m) as given, same integer type, values 0..r_i−1; the input is left alone.

        O(n m) time; beyond the result, memory for about 4 million cells at a time.
        """
        out = checked_codes(codes, self.domain).copy()
        self.randomize_in_place(out, as_source(random_state))
        return out


def flip(codes: NDArray[np.integer], law: Law, source: BitSource) -> None:
    """Randomize valid codes in place, shape (n, m); attributes of one size share their draws' array operations."""
    groups = [(int(r), np.flatnonzero(law.sizes == r)) for r in np.unique(law.sizes)]
    step = max(_RECORDS, _CELLS // law.m)
    # a law with a costly pass per call draws many records at once; they are applied in pieces all the same
    drawn = max(step, _SAMPLED // (law.sampling_bytes * law.m))
    for first in range(0, codes.shape[0], drawn):
        changes = law.sample(min(drawn, codes.shape[0] - first), source)
        for start in range(0, changes.shape[0], step):
            piece = codes[first + start : first + min(start + step, changes.shape[0])]
            for r, members in groups:
                rows, columns = np.nonzero(changes[start : start + step, members])
                at = (rows, members[columns])
                piece[at] = (piece[at].astype(np.int64) + 1 + bounded(source, rows.size, r - 1)) % r


def checked_codes(codes: NDArray[np.integer], domain: Domain) -> NDArray[np.integer]:
    """The array itself, if it holds codes of this domain, shape (n, m), n at least 1.

    Raises
    ------
    InvalidInput
        for another shape or type, or a code outside 0..r_i−1.
    """
    array = np.asarray(codes)
    if array.ndim != 2 or array.shape[1] != domain.m or not np.issubdtype(array.dtype, np.integer):
        raise InvalidInput(
            f"an array of shape {array.shape} and type {array.dtype} is not codes of this domain; "
            f"give integers of shape (n, {domain.m})"
        )
    if not array.shape[0]:
        raise InvalidInput("the array holds no records; give at least one row")
    bad = (array.min(axis=0) < 0) | (array.max(axis=0) >= domain.sizes)
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        row = int(np.flatnonzero((array[:, i] < 0) | (array[:, i] >= domain.sizes[i]))[0])
        raise InvalidInput(
            f"attribute {domain.names[i]!r} has code {array[row, i]} in record {row + 1}; "
            f"its codes are 0..{domain.sizes[i] - 1}"
        )
    return array


def _some(sizes: IntArray) -> str:
    return ", ".join(str(int(r)) for r in sizes[:10]) + (", …" if sizes.size > 10 else "")
