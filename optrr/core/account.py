"""Privacy accounting over files: the total ε of several releases of the same respondents."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from optrr.core.design import load_design
from optrr.core.display import TableResult, epsilon_text
from optrr.core.errors import InvalidInput
from optrr.core.files import load
from optrr.core.mechanisms import notes_of
from optrr.core.provenance import (
    DEPLOYMENT,
    PERSON,
    PLAN,
    SEEDED,
    Release,
    content_of,
    distinct_releases,
    finite,
    kind_of,
    shown_digest,
    total_epsilon,
    unit_of,
)

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, repr=False)
class Accounting(TableResult):
    """Distinct releases of some files with their total ε in nats.

    Converts to a table of the releases.

    ``recomputed`` are digests of designs whose ε was recomputed; what else a file states is believed.
    """

    releases: tuple[Release, ...]
    limit: float | None = None
    recomputed: frozenset[str] = frozenset()

    drawn = ("epsilon",)

    @property
    def epsilon(self) -> float:
        """Total ε in nats, rounded up; infinite if a release was seeded."""
        return total_epsilon(self.releases) if self.private else math.inf

    @property
    def private(self) -> bool:
        """Whether no release was drawn from a seed."""
        return not any(r.seeded for r in self.releases)

    @property
    def within_limit(self) -> bool:
        """Whether the total is at most the limit."""
        return self.limit is None or self.epsilon <= self.limit

    @property
    def warnings(self) -> tuple[str, ...]:
        """A line if a release is not private."""
        return () if self.private else (f"a release was {SEEDED}",)

    def headline(self) -> str:
        """Summarize the total and its unit."""
        whose = "each person over time" if unit_of(self.releases) == PERSON else "each record"
        above = "" if self.within_limit else f", above the limit of {self.limit:g}"
        return f"total epsilon {epsilon_text(self.epsilon)} for {whose}, if the files are about the same respondents{above}"

    def summary(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "epsilon": finite(self.epsilon),
            "limit": self.limit,
            "within_limit": self.within_limit,
            "private": self.private,
            "unit": unit_of(self.releases),
            "releases": msgspec.to_builtins(self.releases),
        }

    def to_arrow(self) -> "pa.Table":
        """Convert to a table with one row per release.

        Columns are release, design, mechanism, epsilon, from, private.
        """
        import pyarrow as pa  # noqa: PLC0415 (slow to import)

        return pa.Table.from_pylist(
            [
                {
                    "release": r.id[:12] or "unknown",
                    "design": shown_digest(r.design),
                    "mechanism": r.mechanism,
                    "epsilon": r.epsilon,
                    "from": "its design" if r.design in self.recomputed else "the file",
                    "private": "no" if r.seeded else "yes",
                }
                for r in self.releases
            ]
        )


def account(files: Iterable[str | Path], designs: Iterable[str | Path] = (), limit: float | None = None) -> Accounting:
    """Add up the ε of releases of the same respondents.

    Earlier releases that they name are included.

    Parameters
    ----------
    files : iterable of path-like
        Files of randomized records, with their notes.
    designs : iterable of path-like
        Designs whose ε is recomputed instead of believed.
    limit : float, optional
        Nats that the total should not exceed.

    Returns
    -------
    Accounting

    Raises
    ------
    InvalidInput
        If a file has no note, or states less than its design consumes.
    """
    epsilons = {made.digest: made.epsilon for made in map(_protocol, designs)}
    stated = distinct_releases(release for each in notes_of(files) for release in each.releases)
    return Accounting(tuple(_recomputed(r, epsilons) for r in stated), limit, frozenset(epsilons))


def _protocol(path: str | Path) -> Any:
    """Load a design of any kind, whose ε is recomputed."""
    held = content_of(path, "design file")
    return load_design(held) if kind_of(held) in (DEPLOYMENT, PLAN) else load(held)


def _recomputed(stated: Release, epsilons: dict[str, float]) -> Release:
    """Return the release with the ε of its design, if known.

    Raises InvalidInput if less is stated.
    """
    true = epsilons.get(stated.design, stated.epsilon)
    if stated.epsilon < true:
        raise InvalidInput(
            f"a file states epsilon {epsilon_text(stated.epsilon)} for release {stated.id[:12] or 'unknown'}, and its design "
            f"consumes {epsilon_text(true)}: its provenance was edited; give the file as optrr wrote it"
        )
    return msgspec.structs.replace(stated, epsilon=true)
