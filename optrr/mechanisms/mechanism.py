"""The mechanism of a law of change sets: a domain and a law, which together say how to randomize and what it costs.

For each record the law draws the change set S, and every attribute in S moves to one of its other categories, each as
likely: add a uniform 1..r_i−1 modulo r_i to its code (design §2). Only the flipped cells are edited.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.mechanisms.kernel import EffectKernel
from optrr.mechanisms.labelled import Labelled
from optrr.mechanisms.randomizer import Randomizer
from optrr.releases.provenance import digest_of
from optrr.show.printable import amount
from optrr.show.rounding import epsilon_text
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.laws import Law
from optrr_solvers.laws.base import effect_transform
from optrr_solvers.laws.record import record_of
from optrr_solvers.randomness import BitSource, bounded

# Cells whose change sets are drawn at once. A law may hold 8 bytes for each while it samples: 32 MB.
_CELLS = 1 << 22
# Memory that change sets may take while they are drawn.
_SAMPLED = 1 << 27
# At least this many records are drawn at once, however many attributes there are: each attribute's fixed cost is then shared
# by many records.
_RECORDS = 64


@dataclass(frozen=True, eq=False, repr=False)
class Mechanism(Labelled, Randomizer):
    """Randomizes records of ``domain`` by ``law``.

    Raises
    ------
    InvalidInput
        where the law's sizes are not the domain's.
    """

    domain: Domain
    law: Law

    def __repr__(self) -> str:
        return f"<Mechanism: total epsilon {epsilon_text(self.epsilon)}, {amount(self.domain.m, 'attribute')}>"

    def __post_init__(self) -> None:
        if not np.array_equal(self.law.sizes, self.domain.sizes):
            raise InvalidInput(
                f"the law is for {self.law.m} attributes of sizes {_some(self.law.sizes)} and the domain has "
                f"{self.domain.m} of sizes {_some(self.domain.sizes)}; design the law for this domain"
            )

    @cached_property
    def digest(self) -> str:
        """Of the domain and the law's record."""
        return digest_of(self.domain, {"law": record_of(self.law)})

    def eigenvalues(self, names: str | Iterable[str]) -> FloatArray:
        """λ_W of every W inside the named attributes: shape (2,)*k, index 1 where the attribute is in W."""
        return self.law.eigenvalues(self.domain.indices(names))

    def kernel(self, names: str | Iterable[str]) -> EffectKernel:
        """The kernel on the named attributes: only the 2^k change patterns inside the set are needed."""
        chosen = self.domain.indices(names)
        sizes = self.domain.sizes[list(chosen)]
        changes = self.law.marginal(chosen)
        called = tuple(self.domain.names[i] for i in chosen)
        return EffectKernel(sizes, effect_transform(changes, sizes), called, changes)

    def randomize_in_place(self, codes: NDArray[np.integer], source: BitSource) -> None:
        """Randomize valid codes where they stand, shape (n, m)."""
        flip(codes, self.law, source)


def flip(codes: NDArray[np.integer], law: Law, source: BitSource) -> None:
    """Randomize valid codes in place, shape (n, m): by the law's automaton, or by change sets where it has none."""
    if law.automaton is not None:
        law.automaton.sampler.randomize(codes, source)
        return
    groups = [(int(r), np.flatnonzero(law.sizes == r)) for r in np.unique(law.sizes)]
    step = max(_RECORDS, _CELLS // law.m)
    # some laws pay a fixed price for each call and draw many change sets in it; these are applied to the records in smaller
    # pieces
    drawn = max(step, _SAMPLED // (law.sampling_bytes * law.m))
    for first in range(0, codes.shape[0], drawn):
        changes = law.sample(min(drawn, codes.shape[0] - first), source)
        for start in range(0, changes.shape[0], step):
            piece = codes[first + start : first + min(start + step, changes.shape[0])]
            for r, members in groups:
                rows, columns = np.nonzero(changes[start : start + step, members])
                at = (rows, members[columns])
                piece[at] = (piece[at].astype(np.int64) + 1 + bounded(source, rows.size, r - 1)) % r


def _some(sizes: IntArray) -> str:
    return ", ".join(str(int(r)) for r in sizes[:10]) + (", …" if sizes.size > 10 else "")
