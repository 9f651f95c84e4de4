"""Counts of the records that a command is given, under its design, with what is in doubt about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from optrr.cli.printing import late_bar
from optrr.cli.releases import doubts_about, public_beside
from optrr.designs.design import Design
from optrr.mechanisms.mechanism import Mechanism
from optrr.records.counts import Counts, count
from optrr.records.reading.source import RecordsAt
from optrr.tables.estimation.impossible import impossible


@dataclass(frozen=True, eq=False)
class Counted:
    """A design, the counts of each place of records, and the warnings to show beside whatever comes from them."""

    design: Design
    counts: tuple[Counts, ...]
    doubts: tuple[str, ...]

    @property
    def mechanism(self) -> Mechanism:
        """The design's."""
        return self.design.mechanism


def counted(design: Design | Path, places: Sequence[RecordsAt], names: Sequence[str]) -> Counted:
    """Count the named attributes of records that were randomized by a design, or by that of a file.

    Raises
    ------
    InvalidInput
        for records of another design, and whatever cannot be read or counted.
    """
    chosen = Design.load(design) if isinstance(design, Path) else design
    doubts = doubts_about(places, chosen)
    with late_bar() as show:
        watched = [place.watched(lambda done, share: show(f"{done} records counted", share)) for place in places]
        counts = tuple(count(place, chosen.domain, names, allow_extra=True) for place in watched)
    return Counted(
        chosen, counts, (*doubts, *public_beside(chosen, places).ignored(), *impossible(counts, chosen.mechanism))
    )
