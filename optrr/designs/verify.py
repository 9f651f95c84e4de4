"""Verification of a design or of a design file, by the checks of :mod:`optrr.designs.checks`."""

from __future__ import annotations

import os
from pathlib import Path

from optrr.designs.checks import Verification
from optrr.designs.design import Design, verified_bytes
from optrr.designs.work import refuse_large
from optrr.releases.sealed import Content, Given, read_named

__all__ = ["Verification", "verification_of", "verify"]


def verify(design: Design | Content | str | os.PathLike[str], *, limited: bool = True) -> Verification:
    """Recompute every number of a design, or of a design file, from its law and certificate alone (design §3.4).

    Parameters
    ----------
    limited
        refuse a file of more than 64 MB, and one whose checks take longer, or more memory, than
        :class:`optrr.designs.apart.Limits` allows to a file of its size.

    Raises
    ------
    InvalidInput
        where a file cannot be read as a design at all, or its checks take too long; a number that does not hold is in the
        result.
    """
    if isinstance(design, Design):
        return design.verify()
    path = design if isinstance(design, Content) else Path(design)
    if limited:
        refuse_large(path)
    return verified_bytes(read_named(path, "design file"), path, limited=limited)


def verification_of(raw: bytes, source: Given) -> Verification:
    """The checks of a design file's content, without a limit; ``source`` is where it stands, for messages."""
    return verified_bytes(raw, source, limited=False)
