"""Privacy accounting: the total ε of several releases of the same respondents, a limit to it, and the steps of one protocol.

ε adds up over releases of the same record (sequential composition). The unit is a record: ε is the budget that the
contributor of one record consumes. For memoized responses the unit is a person over time: all reports of one person.

An :class:`Account` is that of a protocol with several steps (MDR §4): where learning the dependences is ε_1-differentially
private and the release is ε_2-differentially private, the whole is (ε_1 + ε_2)-differentially private. A step that sends true
values (MDR §4.2) has no finite ε.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import msgspec
import numpy as np

from optrr.core.display.text import epsilon_text, sum_of_epsilons
from optrr.core.errors import InvalidInput
from optrr_solvers.problem import EPSILON_RANGE

UNIT, PERSON = "record", "person over time"
# Kind of mechanism whose ε is a person's lifetime ε.
MEMOIZED = "memoized response"
# Number of digits of a digest or id in messages.
_SHOWN = 12


if TYPE_CHECKING:
    _Epsilon = float
else:
    _Epsilon = Annotated[float, msgspec.Meta(ge=0, le=1e300)] | None


class Releasing(Protocol):
    """Anything that randomizes records."""

    @property
    def digest(self) -> str:
        """Digest of the domain and the drawn probabilities, ``sha256:`` and hex."""
        ...

    @property
    def epsilon(self) -> float:
        """Total ε in nats, rounded up."""
        ...

    @property
    def mechanism_name(self) -> str:
        """Kind of mechanism."""
        ...


class Release(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One randomization of all records, as files hold it.

    An infinite ε is null, and a finite one is small enough to be added.

    ``design`` is the digest of the mechanism, ``epsilon`` in nats, rounded up, infinite if it is not differentially private.
    ``seeded``: drawn from a seed or a generator, so that it can be undone. ``id``: 32 random hexadecimal digits, so that copies
    of a release count once; empty if it is not known.
    """

    design: Annotated[str, msgspec.Meta(pattern=r"^sha256:[0-9a-f]{64}\Z")]
    mechanism: str
    epsilon: _Epsilon
    seeded: bool = False
    id: Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{32})?\Z")] = ""

    def __post_init__(self) -> None:
        if self.epsilon is None:
            msgspec.structs.force_setattr(self, "epsilon", math.inf)

    @classmethod
    def of(cls, mechanism: Releasing, seeded: bool = False, id: str = "") -> Release:
        """Build the release of a mechanism."""
        with np.errstate(divide="ignore"):  # a mechanism that changes nothing has an infinite ε
            return cls(mechanism.digest, mechanism.mechanism_name, mechanism.epsilon, seeded, id)

    @classmethod
    def drawn(cls, mechanism: Releasing, seeded: bool = False) -> Release:
        """Build a release with a new id.

        A seeded release has none, so that its file is reproducible.
        """
        return cls.of(mechanism, seeded, "" if seeded else secrets.token_hex(16))

    @property
    def cost(self) -> float:
        """The ε that a contributor consumes; ``inf`` if it was seeded."""
        return math.inf if self.seeded else self.epsilon


def unit_of(releases: Iterable[Release]) -> str:
    """Return the unit of privacy of these releases."""
    return PERSON if any(r.mechanism == MEMOIZED for r in releases) else UNIT


def distinct_releases(releases: Iterable[Release]) -> tuple[Release, ...]:
    """List each release once, by its id; those without an id all count.

    Raises InvalidInput if releases of one id differ.
    """
    out: list[Release] = []
    seen: dict[str, Release] = {}
    for release in releases:
        if release.id not in seen:
            out.append(release)
        first = seen.setdefault(release.id, release) if release.id else release
        if first != release:
            raise InvalidInput(
                f"two different releases have the id {release.id[:_SHOWN]}, of epsilon {epsilon_text(first.epsilon)} and "
                f"{epsilon_text(release.epsilon)}: a provenance note was edited; give the files as optrr wrote them"
            )
    return tuple(out)


def total_epsilon(releases: Iterable[Release]) -> float:
    """Compute Σ ε in nats as stated, rounded up (sequential composition)."""
    return sum_of_epsilons([r.epsilon for r in releases])


def check_limit(releases: Iterable[Release], limit: float | None) -> None:
    """Raise InvalidInput if releases together consume more than a limit in nats."""
    if limit is None:
        return
    each = distinct_releases(releases)
    total = sum_of_epsilons([r.cost for r in each])
    if not total <= limit:  # false for a limit that is NaN, too
        parts = " + ".join(epsilon_text(r.epsilon) + (", drawn from a seed" if r.seeded else "") for r in each)
        raise InvalidInput(
            f"each respondent would have consumed {epsilon_text(total)} nats in all ({parts}), above the limit of "
            f"{limit:g}; use a smaller epsilon, other respondents, or no limit"
        )


def shown_digest(digest: str) -> str:
    """Shorten a digest for messages."""
    return digest.removeprefix("sha256:")[:_SHOWN]


def finite(epsilon: float) -> float | None:
    """Convert ε for JSON; None if it is infinite."""
    return epsilon if math.isfinite(epsilon) else None


def checked_epsilon(epsilon: Any, what: str = "epsilon") -> float:
    """Check one mechanism's ε in nats; raise InvalidInput outside 1e-6..50."""
    low, high = EPSILON_RANGE
    if not isinstance(epsilon, int | float | np.integer | np.floating) or not low <= epsilon <= high:
        raise InvalidInput(f"{what} = {epsilon!r}; give a finite number of nats from {low:g} to {high:g}")
    return float(epsilon)


@dataclass(frozen=True)
class Spent:
    """One step of a protocol.

    Name of the sent data, its ε in nats (``inf`` if not differentially private), and a warning or "".
    """

    step: str
    epsilon: float
    warning: str = ""

    def __post_init__(self) -> None:
        if not self.epsilon >= 0:
            raise InvalidInput(f"step {self.step!r} has epsilon {self.epsilon}; give a number of at least 0")


@dataclass(frozen=True)
class Account:
    """All steps of a protocol, in order."""

    steps: tuple[Spent, ...] = ()

    @property
    def epsilon(self) -> float:
        """Total ε in nats, rounded up; ``inf`` if any step is not differentially private."""
        return sum_of_epsilons([s.epsilon for s in self.steps])

    def plus(self, *steps: Spent) -> Account:
        """Return the account with further steps."""
        return Account(self.steps + steps)
