"""Whether given records may be used for what is asked of them: randomized once, and by the design that is given.

An :class:`Origin` holds what given records say of themselves (:mod:`optrr.records.origins` collects them from files, frames
and tables); the functions here refuse what does not fit, or say what remains in doubt.
"""

from __future__ import annotations

from dataclasses import dataclass

from optrr.errors import InvalidInput
from optrr.releases.account import shown_digest
from optrr.releases.provenance import Provenance
from optrr.show.rounding import epsilon_text


@dataclass(frozen=True)
class Origin:
    """What is known of where given records come from.

    Parameters
    ----------
    what
        the file or frame, for messages.
    provenance
        what they say of themselves; None where they say nothing.
    doubt
        why that cannot be taken for theirs: a sidecar that was written for other content. Empty where it can.
    """

    what: str
    provenance: Provenance | None = None
    doubt: str = ""

    @property
    def bound(self) -> Provenance | None:
        """The provenance, where it is these records' own beyond doubt."""
        return None if self.doubt else self.provenance


def require_unrandomized(origin: Origin, again: bool = False) -> None:
    """Refuse records that are randomized already, unless a second randomization is meant.

    Raises
    ------
    InvalidInput
        naming what was given and what it has spent.
    """
    known = origin.provenance
    if known is None or again:
        return
    meant = "--again (again=True) to randomize them once more, whose epsilon then adds up"
    if origin.doubt:
        raise InvalidInput(
            f"{origin.what} may be randomized already: {origin.doubt}; give the true records, or {meant}"
        )
    raise InvalidInput(
        f"{origin.what} is already randomized ({_times(known)}, epsilon {epsilon_text(known.epsilon)} spent); give the true "
        f"records, or {meant}"
    )


def require_design(origin: Origin, digest: str) -> None:
    """Refuse records of another design, and those randomized more than once; records that say nothing pass.

    Raises
    ------
    InvalidInput
        naming what was given and the designs.
    """
    known = origin.bound
    if known is None:
        return
    if len(known.randomizations) > 1:
        raise InvalidInput(
            f"{origin.what} was randomized {_times(known)}, and estimates undo one design only; randomize the true records once"
        )
    (release,) = known.randomizations
    if release.design != digest:
        raise InvalidInput(
            f"{origin.what} was randomized by another design ({release.shown_design}) than the one given "
            f"({shown_digest(digest)}); give the design it was randomized by"
        )


def doubts(origin: Origin) -> list[str]:
    """Warnings to show beside every number that comes from these records, one line each."""
    if origin.bound is None:
        said = origin.doubt or "it does not say by which design it was randomized, or whether it was"
        return [f"{origin.what} is not bound to a design: {said}; if it was not this one, every number here is wrong"]
    return origin.bound.not_private(origin.what)


def _times(known: Provenance) -> str:
    n = len(known.randomizations)
    return {1: "once", 2: "twice"}.get(n, f"{n} times")
