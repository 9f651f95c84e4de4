"""Standard output is a command's own: what libraries print there goes to standard error.

A library in C writes to file descriptor 1 and knows nothing of ``sys.stdout``, so the two part: ``sys.stdout`` keeps the place
that the descriptor had, and the descriptor is that of standard error from then on. It stays so until the process ends, since C
prints what it has kept back only then. No command opens ``/dev/stdout`` by name: outputs that are pipes or devices are refused.
"""

from __future__ import annotations

import io
import os
import sys

_OUTPUT, _ERRORS = 1, 2


def keep_for_ourselves() -> None:
    """Give ``sys.stdout`` a descriptor of its own; nothing where it is no descriptor 1, as in a notebook or under tests."""
    before = sys.stdout
    try:
        if not isinstance(before, io.TextIOWrapper) or before.fileno() != _OUTPUT:
            return
        before.flush()
        os.fstat(_ERRORS)
        ours = os.dup(_OUTPUT)
    except (OSError, ValueError):  # closed, here or at the other end, which the first line that is printed says
        return
    sys.stdout = io.TextIOWrapper(
        open(ours, "wb", buffering=0 if before.write_through else -1),  # noqa: SIM115 (open until the process ends)
        encoding=before.encoding,
        errors=before.errors,
        newline=None if os.name == "nt" else "",
        line_buffering=before.line_buffering,
        write_through=before.write_through,
    )
    os.dup2(_ERRORS, _OUTPUT)
