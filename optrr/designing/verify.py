"""Verification of a design or of a design file, by the checks of :mod:`optrr.designing.checks`."""

from __future__ import annotations

import os
from pathlib import Path

from optrr.designing.checks import Verification, checks
from optrr.designing.design import Design
from optrr.designing.design_file import read_design_file

__all__ = ["Verification", "verify"]


def verify(design: Design | str | os.PathLike[str]) -> Verification:
    """Recompute every number of a design, or of a design file, from its law and certificate alone (design §3.4).

    Raises
    ------
    InvalidInput
        where a file cannot be read as a design at all; a number that does not hold is in the result.
    """
    if isinstance(design, Design):
        return design.verify()
    record = read_design_file(Path(design))
    read = Design(record.domain, record.solution)
    return Verification(tuple(checks(read, record.stated)), record.intact)
