"""Errors that users see, with one base class; the classes come from :mod:`optrr_solvers.errors`."""

import sys
import warnings
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from optrr_solvers.errors import (
    Infeasible,
    InvalidCertificate,
    InvalidInput,
    InvalidProblem,
    MethodTooLarge,
    OptrrError,
    SolveFailed,
)

__all__ = [
    "Infeasible",
    "InvalidCertificate",
    "InvalidInput",
    "InvalidProblem",
    "MethodTooLarge",
    "OptrrError",
    "OptrrWarning",
    "SolveFailed",
    "TooFewRecords",
    "did_you_mean",
    "in_one_line",
    "library",
    "not_installed",
    "warn",
]

# Similarity, 0..1, above which a word counts as a misspelling of another: one letter in three may differ.
_NEAR = 0.6
# Characters of a backend's message; ours are shorter.
_LONGEST = 600


class TooFewRecords(InvalidInput):
    """The records have too little information, though all inputs are valid.

    The message names a remedy.

    Examples
    --------
    >>> import optrr
    >>> issubclass(optrr.TooFewRecords, optrr.InvalidInput)
    True
    """


class OptrrWarning(UserWarning):
    """Warning to read before relying on a result.

    The command line prints it as ``warning: …``.

    Examples
    --------
    >>> import optrr, warnings
    >>> warnings.simplefilter("error", optrr.OptrrWarning)  # stop a script where a result is in doubt
    >>> warnings.simplefilter("default", optrr.OptrrWarning)
    """


def warn(lines: Iterable[str]) -> None:
    """Raise Python warnings of these lines at the caller of the package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "optrr":
        level, frame = level + 1, frame.f_back
    for line in dict.fromkeys(lines):
        warnings.warn(line, OptrrWarning, stacklevel=level)


def in_one_line(message: object) -> str:
    """Format a backend's message on one line, cut if it is long."""
    line = " ".join(str(message).split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def not_installed(error: ImportError, needs: str, extra: str = "", instead: str = "") -> InvalidInput:
    """Build the error for a missing optional library.

    Who ``needs`` it, the extra that installs it, and the alternative ``instead``.
    """
    package = (error.name or "an optional library").partition(".")[0].replace("_", "-")
    wanted = f"'optrr[{extra}]'" if extra else package
    return InvalidInput(f"{needs} {package}, which is not installed: pip install {wanted}{instead}")


def library(module: str, needs: str, extra: str = "", instead: str = "") -> Any:
    """Import an optional library; raise InvalidInput if it is not installed.

    The text is that of :func:`not_installed`.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise not_installed(error, needs, extra, instead) from error


def did_you_mean(written: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'epsilon'?`` if a known word is similar, or ""."""
    import difflib  # noqa: PLC0415 (only errors need it)

    words = {word.casefold(): word for word in known}
    near = difflib.get_close_matches(written.casefold(), words, n=1, cutoff=_NEAR)
    return f"; did you mean {words[near[0]]!r}?" if near else ""
