"""Releases, and what people have spent over those that their records carry: each release once, their sum, and a limit.

ε add up over releases of the same record (sequential composition). ``optrr account`` prints the sum; ``perturb`` keeps to a
limit by it. Where the releases of a file are written, and what else it says of itself, is in :mod:`optrr.releases.provenance`.

An account is of a protocol in which a person answers in several steps. MDR §4: where learning the dependences is
ε_1-differentially private and the release is ε_2-differentially private, the whole is (ε_1 + ε_2)-differentially private. A
step that sends true values (MDR §4.2) has no finite ε, and says so.
"""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from optrr.errors import InvalidInput
from optrr.show.text import epsilon_text, sum_of_epsilons
from optrr_solvers.problem import EPSILON_RANGE

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_ID = re.compile(r"([0-9a-f]{32})?")
# Sums of so many nats, and of as many releases as anybody has files, are doubles.
_MOST_NATS = 1e300
# Hexadecimal digits of a digest that a message shows.
_SHOWN = 12


class ReleaseRecord(msgspec.Struct, forbid_unknown_fields=True):
    """A release in a file."""

    design: str
    epsilon: float | None
    seeded: bool
    id: str


@dataclass(frozen=True)
class Release:
    """One randomization of everybody's record.

    Parameters
    ----------
    design
        digest of the mechanism, ``sha256:`` and 64 hexadecimal digits (:func:`optrr.releases.provenance.digest_of`).
    epsilon
        in nats, rounded up; ``inf`` where it is not differentially private.
    seeded
        whether it was drawn from a seed or from a generator, so that it can be undone.
    id
        32 hexadecimal digits drawn for this release, so that its copies are counted once; empty where it is not known.

    Raises InvalidInput for a negative ε, or a digest or id of another form.
    """

    design: str
    epsilon: float
    seeded: bool = False
    id: str = ""

    def __post_init__(self) -> None:
        if not self.epsilon >= 0:
            raise InvalidInput(f"a release states epsilon {self.epsilon}; give a number of at least 0")
        if not _DIGEST.fullmatch(self.design) or not _ID.fullmatch(self.id):
            raise InvalidInput("a release states a digest or id that is none; take it from the design")

    @staticmethod
    def drawn(design: str, epsilon: float, seeded: bool) -> Release:
        """A new release, with an id of its own; without one where it was seeded, so that its file can be made again."""
        return Release(design, epsilon, seeded, "" if seeded else secrets.token_hex(16))

    def to_record(self) -> ReleaseRecord:
        """As it stands in files."""
        return ReleaseRecord(self.design, finite(self.epsilon), self.seeded, self.id)

    @staticmethod
    def from_record(record: ReleaseRecord) -> Release:
        """From a file; more nats than can be added up protect nobody, and are read as infinitely many."""
        promised = record.epsilon is not None and record.epsilon <= _MOST_NATS
        return Release(record.design, record.epsilon if promised else math.inf, record.seeded, record.id)  # type: ignore[arg-type]

    @property
    def cost(self) -> float:
        """What it costs a contributor: its ε, ``inf`` where it was seeded."""
        return math.inf if self.seeded else self.epsilon

    @property
    def shown_design(self) -> str:
        """The first digits of the design's digest, for messages."""
        return shown_digest(self.design)


def distinct_releases(releases: Iterable[Release]) -> tuple[Release, ...]:
    """Each release once, by its id; those without an id are all counted.

    Raises InvalidInput where one id stands for two different releases.
    """
    out: list[Release] = []
    seen: dict[str, Release] = {}
    for release in releases:
        first = seen.get(release.id) if release.id else None
        if first is None:
            out.append(release)
            seen[release.id] = release
        elif release != first:
            raise InvalidInput(
                f"the id {release.id[:_SHOWN]} stands for two releases, of epsilon {epsilon_text(first.epsilon)} and "
                f"{epsilon_text(release.epsilon)}, so one of these files was edited; give the files as optrr wrote them"
            )
    return tuple(out)


def recomputed(releases: Iterable[Release], epsilons: Mapping[str, float]) -> tuple[Release, ...]:
    """The releases with the ε of their designs, by digest, in nats, where that is known; as they are stated elsewhere."""
    return tuple(replace(r, epsilon=epsilons.get(r.design, r.epsilon)) for r in releases)


def total_epsilon(releases: Iterable[Release]) -> float:
    """Σ ε in nats, rounded up (sequential composition); exact where a double holds it."""
    return sum_of_epsilons([r.epsilon for r in releases])


def check_limit(releases: Iterable[Release], limit: float | None) -> None:
    """Refuse releases, the last of them new, that together cost their people more than a declared limit, in nats.

    Raises InvalidInput naming both.
    """
    if limit is None:
        return
    spent = distinct_releases(releases)
    if any(r.seeded for r in spent[:-1]):
        raise InvalidInput(
            "an earlier release of these people was drawn from a seed and can be undone, so they have spent epsilon inf, "
            f"above the limit of {limit:g}; leave out the limit, or ask other people"
        )
    if spent and spent[-1].seeded:
        raise InvalidInput("what is drawn from a seed can be undone, so it keeps to no limit; leave out the seed")
    if not total_epsilon(spent) <= limit:  # nor is it within a limit that is no number
        parts = " + ".join(epsilon_text(r.epsilon) for r in spent)
        raise InvalidInput(
            f"this would bring what each person has spent to {epsilon_text(total_epsilon(spent))} nats ({parts}), above the "
            f"limit of {limit:g}; ask for less, or of other people"
        )


def shown_digest(digest: str) -> str:
    """Its first digits, for messages."""
    return digest.removeprefix("sha256:")[:_SHOWN]


def finite(epsilon: float) -> float | None:
    """As files write it: None where it is infinite."""
    return epsilon if math.isfinite(epsilon) else None


def checked_epsilon(epsilon: Any, what: str = "epsilon") -> float:
    """One mechanism's ε in nats. Raises InvalidInput outside 1e-6..50."""
    low, high = EPSILON_RANGE
    if not isinstance(epsilon, int | float | np.integer | np.floating) or not low <= epsilon <= high:
        raise InvalidInput(f"{what} = {epsilon!r}; give a finite number of nats from {low:g} to {high:g}")
    return float(epsilon)


@dataclass(frozen=True)
class Spent:
    """One release: what was sent, its ε in nats (``inf`` where it is not differentially private), and a warning or ""."""

    step: str
    epsilon: float
    warning: str = ""

    def __post_init__(self) -> None:
        if not self.epsilon >= 0:
            raise InvalidInput(f"step {self.step!r} has epsilon {self.epsilon}; give a number of at least 0")


@dataclass(frozen=True)
class Account:
    """All releases of one person's record, in order."""

    steps: tuple[Spent, ...] = ()

    @property
    def epsilon(self) -> float:
        """Total ε in nats, rounded up; ``inf`` where any step is not differentially private."""
        return sum_of_epsilons([s.epsilon for s in self.steps])

    def plus(self, *steps: Spent) -> Account:
        """The account with further releases."""
        return Account(self.steps + steps)

    def lines(self) -> list[str]:
        """One line per release, then the total."""
        out = [
            f"{s.step}: {epsilon_text(s.epsilon)} nats" + (f" ({s.warning})" if s.warning else "") for s in self.steps
        ]
        return [*out, f"total: {epsilon_text(self.epsilon)} nats"]
