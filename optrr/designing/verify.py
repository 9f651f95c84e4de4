"""Verification of a design or of a design file, by the checks of :mod:`optrr.designing.checks`."""

from __future__ import annotations

import os
from pathlib import Path

from optrr.designing.checks import Verification, checks
from optrr.designing.design import Design
from optrr.designing.design_file import read_design_file
from optrr.designing.work import refuse_heavy, refuse_large
from optrr.errors import InvalidInput, in_one_line

__all__ = ["Verification", "verify"]


def verify(design: Design | str | os.PathLike[str], *, limited: bool = True) -> Verification:
    """Recompute every number of a design, or of a design file, from its law and certificate alone (design §3.4).

    Parameters
    ----------
    limited
        refuse a file whose checks may take longer, or more memory, than :mod:`optrr.designing.work` allows to a stranger's.

    Raises
    ------
    InvalidInput
        where a file cannot be read as a design at all, or its checks would take too long, which is known before they start;
        a number that does not hold is in the result.
    """
    if isinstance(design, Design):
        return design.verify()
    path = Path(design)
    if limited:
        refuse_large(path)
    record = read_design_file(path)
    try:
        if limited:
            refuse_heavy(record.solution)
        read = Design(record.domain, record.solution)
        return Verification(tuple(checks(read, record.stated)), record.intact)
    # laws compute their numbers only when asked, so that a wrong law may be refused only here
    except (ValueError, ArithmeticError) as error:
        raise InvalidInput(f"design file {path}: {in_one_line(error)}") from error
