"""Which kernel a mechanism has on which attributes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from optrr.errors import InvalidInput
from optrr.kernel.effects import EffectKernel
from optrr.kernel.operator import Kernel
from optrr.mechanisms.mechanism import Mechanism
from optrr.records.domain import Domain
from optrr_solvers.laws.base import effect_transform


@runtime_checkable
class SupportsKernel(Protocol):
    """Anything else that randomizes records of a domain and can say its kernel: general matrices, clusters of them."""

    domain: Domain

    def kernel(self, names: Sequence[str]) -> Kernel:
        """The kernel on these attributes, in this order."""


Randomizer = Mechanism | SupportsKernel


def kernel_of(mechanism: Randomizer, names: str | Iterable[str]) -> Kernel:
    """The kernel of a mechanism on the named attributes, axes in this order.

    Only the 2^k change patterns inside the set are needed, whatever the number of attributes of the mechanism.

    Raises
    ------
    InvalidInput
        for what is no mechanism, and for unknown or repeated names.
        A set that cannot be estimated is refused by the kernel's own solves.
    """
    if not isinstance(mechanism, Mechanism | SupportsKernel):
        raise InvalidInput(
            f"got a {type(mechanism).__name__} for a mechanism; give a Mechanism, such as design.mechanism"
        )
    chosen = mechanism.domain.indices(names)
    called = tuple(mechanism.domain.names[i] for i in chosen)
    if isinstance(mechanism, Mechanism):
        sizes = mechanism.domain.sizes[list(chosen)]
        changes = mechanism.law.marginal(chosen)
        return EffectKernel(sizes, effect_transform(changes, sizes), called, changes)
    return mechanism.kernel(called)


def unrandomized(sizes: Sequence[int], names: Iterable[str] = ()) -> EffectKernel:
    """The kernel of attributes that were reported truthfully, such as a public case/control status."""
    return EffectKernel(sizes, np.ones((2,) * len(sizes)), names)
