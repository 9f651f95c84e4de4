"""What a mechanism's output says of itself, and the refusal to randomize it again (:mod:`optrr.records.provenance`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from optrr.records.account import Release, check_limit
from optrr.records.origins import randomized_before
from optrr.records.provenance import PERSON, UNIT, Provenance
from optrr.records.public import NONE, PublicColumns
from optrr.records.reading.source import Source
from optrr_solvers.randomness import BitSource, SystemSource


class Releasing(Protocol):
    """Whatever randomizes records: its digest, and its total ε in nats."""

    @property
    def digest(self) -> str:
        """Of the domain and of the probabilities that are drawn."""
        ...

    @property
    def epsilon(self) -> float:
        """Total ε in nats, rounded up."""
        ...


@dataclass(frozen=True)
class FileRelease:
    """A file of randomized records that was written: how many they are, what it says of them, and which columns it left out."""

    records: int
    provenance: Provenance
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReleaseOptions:
    """How a file of records is released.

    Parameters
    ----------
    progress
        called after every batch with the number of records done.
    drop
        columns to leave out of the target, none of them an attribute.
    drop_undeclared
        leave out every column that is neither an attribute nor public.
    again
        randomize records that say they are randomized already; what they have spent is carried on.
    earlier
        other releases of the same people that this one follows, to be carried on.
    limit
        nats that everything together may cost; None for no limit.
    public
        columns that go through as they are.
    unit
        whose ε everything together is, where the other releases say so: of a record, or of a person over time.
    """

    progress: Callable[[int], None] | None = None
    drop: Collection[str] = ()
    again: bool = False
    earlier: Sequence[Release] = ()
    limit: float | None = None
    public: PublicColumns = NONE
    unit: str = UNIT
    drop_undeclared: bool = False

    def provenance(
        self, mechanism: Releasing, source: BitSource, records: Any, opened: Source | None = None
    ) -> Provenance:
        """Of these records, randomized now; ``opened`` are the same records, where they are opened already.

        Raises
        ------
        InvalidInput
            for records that are randomized already, and above the limit.
        """
        known = released_by(mechanism, source, randomized_before(records, self.again, opened), self.earlier)
        check_limit(known.releases, self.limit)
        return replace(known, public=self.public, unit=PERSON if PERSON in (known.unit, self.unit) else UNIT)


def is_seeded(source: BitSource) -> bool:
    """Whether draws can be repeated by somebody: everything but the operating system's random bits."""
    return not isinstance(source, SystemSource)


def released_by(
    mechanism: Releasing, source: BitSource, before: Provenance | None = None, earlier: Sequence[Release] = ()
) -> Provenance:
    """The provenance of records randomized now, after what they had been through ``before``."""
    with np.errstate(divide="ignore"):  # a mechanism that changes nothing has an infinite ε
        epsilon = mechanism.epsilon
    release = Release.drawn(mechanism.digest, epsilon, is_seeded(source))
    if before is None:
        return Provenance((release,), tuple(earlier))
    return Provenance((*before.randomizations, release), (*before.earlier, *earlier), before.unit)
