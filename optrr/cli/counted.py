"""Counts of the records that a command is given, under its design, with what is in doubt about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from optrr.cli.printing import late_bar
from optrr.designs.design import Design
from optrr.mechanisms.mechanism import Mechanism
from optrr.records.counts import Counts
from optrr.records.reading.source import RecordsAt
from optrr.records.reports import Reports
from optrr.tables.estimation.impossible import impossible


@dataclass(frozen=True, eq=False)
class Counted:
    """The counts of each place of records, and the warnings to show beside whatever comes from them."""

    design: Design
    reports: Reports
    counts: tuple[Counts, ...]
    doubts: tuple[str, ...]

    @property
    def mechanism(self) -> Mechanism:
        """The design's."""
        return self.design.mechanism


def counted(design: Design, reports: Reports, names: Sequence[str]) -> Counted:
    """Count the named attributes of records that were randomized by a design.

    Raises
    ------
    InvalidInput
        for records of another design, and whatever cannot be read or counted.
    """
    doubts = reports.unweighted_doubts
    with late_bar() as show:
        counts = reports.counts(names, lambda done, share: show(f"{done} records counted", share))
    return Counted(design, reports, counts, (*doubts, *impossible(counts, design.mechanism)))


def counted_at(design_file: Path, place: RecordsAt, names: Sequence[str]) -> Counted:
    """The same for the records at one place and the design of a file."""
    design = Design.load(design_file)
    return counted(design, design.reports(place), names)
