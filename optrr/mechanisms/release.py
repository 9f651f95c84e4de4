"""What a mechanism's output says of itself, and the refusal to randomize it again (:mod:`optrr.releases.provenance`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from optrr.domain.public import NONE, PublicColumns
from optrr.records.origins import randomized_before
from optrr.records.reading.source import Source
from optrr.records.shuffling import shuffled
from optrr.releases.account import Release, check_limit
from optrr.releases.provenance import KEPT, PERSON, SHUFFLED, UNIT, Provenance
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
    """A file of randomized records that was written.

    How many they are, what it says of them, what is to be minded, and which columns it left out.
    """

    records: int
    provenance: Provenance
    warnings: tuple[str, ...] = ()
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
    keep_order
        leave the records in the order of the true ones, which tells about these, instead of shuffling them.
    """

    progress: Callable[[int], None] | None = None
    drop: Collection[str] = ()
    again: bool = False
    earlier: Sequence[Release] = ()
    limit: float | None = None
    public: PublicColumns = NONE
    unit: str = UNIT
    drop_undeclared: bool = False
    keep_order: bool = False

    @property
    def order(self) -> str:
        """What the release says of its order."""
        return KEPT if self.keep_order else SHUFFLED

    def watched(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches, with ``progress`` called after each of them."""
        done = 0
        for batch in batches:
            yield batch
            done += batch.num_rows
            if self.progress is not None:
                self.progress(done)

    def in_order(
        self, batches: Iterable[pa.RecordBatch], bits: BitSource, folder: Path | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Batches of randomized records in the order that they are released in (:mod:`optrr.records.shuffling`)."""
        return iter(batches) if self.keep_order else shuffled(batches, bits, folder)

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
        unit = PERSON if PERSON in (known.unit, self.unit) else UNIT
        return replace(known, public=self.public, unit=unit, order=self.order)


def is_seeded(source: BitSource) -> bool:
    """Whether draws can be repeated by somebody: everything but the operating system's random bits."""
    # another class of this kind may hand out what it likes
    return type(source) is not SystemSource or source.keyed


def released_by(
    mechanism: Releasing, source: BitSource, before: Provenance | None = None, earlier: Sequence[Release] = ()
) -> Provenance:
    """The provenance of records randomized now, after what they had been through ``before``, in the order that they had."""
    with np.errstate(divide="ignore"):  # a mechanism that changes nothing has an infinite ε
        epsilon = mechanism.epsilon
    release = Release.drawn(mechanism.digest, epsilon, is_seeded(source))
    if before is None:
        return Provenance((release,), tuple(earlier), order=KEPT)
    return Provenance((*before.randomizations, release), (*before.earlier, *earlier), before.unit, order=KEPT)
