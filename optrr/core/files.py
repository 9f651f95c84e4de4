"""Every file of ours that holds a protocol: written whole, read with its numbers recomputed, verified.

A file says what it is by its ``format``, and an object by its ``file_format``; the functions of each kind are listed in
:mod:`optrr.core.provenance.formats`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optrr.core.errors import InvalidInput
from optrr.core.provenance.formats import function_of
from optrr.core.provenance.sealed import DEPLOYMENT, Given, content_of, is_file, kind_of

if TYPE_CHECKING:
    from optrr.core.design.verification import Verification
    from optrr.core.reports import Reports

__all__ = ["export", "load", "reports", "save", "verify"]

# Most bytes of a deployment file, compressed: what a phone fetches in a blink.
DEFAULT_SIZE = 64 * 1024


def _of(made: Any, operation: str, remedy: str) -> Callable[..., Any]:
    """The function for an object. Raises InvalidInput where its kind has none."""
    kind = getattr(made, "file_format", "")
    function = function_of(kind, operation) if kind else None
    if function is None:
        raise InvalidInput(f"{getattr(made, 'name', type(made).__name__)} {remedy}; give a design or sampled tables")
    return function


def save(made: Any, path: str | Path) -> None:
    """Write the file that both sides work from, whole or not at all; it carries everything that :func:`load` needs.

    An export's :class:`optrr.devices.export.Fitted` is written with the design that its reports are estimated with,
    where that was made anew.

    Raises
    ------
    InvalidInput
        for a protocol that is for studies and has no file.

    Examples
    --------
    >>> import optrr, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "design.json")
    >>> optrr.save(optrr.design({"sex": 2, "age": 3}, 1.0), path)
    >>> round(optrr.load(path).epsilon, 4)
    1.6913
    """
    _of(made, "save", "is for studies and has no file")(made, path)


def export(design: Any, path: str | Path, size: int = DEFAULT_SIZE) -> Any:
    """Write the deployment file of a design, or of sampled tables: what a device needs to answer for one person.

    Where a design's own mechanism is too large, another takes its place
    (:func:`optrr.devices.export.fitted_deployment`). The design to estimate with is then another one, which is
    written beside the file and returned.

    Parameters
    ----------
    size
        most bytes of the file, compressed.

    Raises
    ------
    InvalidInput
        where nothing fits, or a file of another design would be written over.

    Examples
    --------
    >>> import optrr, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "sampler.json")
    >>> _ = optrr.export(optrr.design({"sex": 2, "age": 3}, 1.0), path)
    >>> optrr.verify(path).holds
    True
    """
    return _of(design, "export", "has no deployment file")(design, path, size)


def load(path: Given, *, limited: bool = True) -> Any:
    """What a file of ours holds, whatever its kind, with every number in it recomputed.

    Parameters
    ----------
    limited
        refuse a file whose checks take longer, or more memory, than :class:`optrr.core.design.verification.Limits` allows to a
        file of its size.

    Raises
    ------
    InvalidInput
        where the file is missing, malformed, of an unknown version, edited, or states a number that does not hold.

    Examples
    --------
    >>> import optrr, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "design.json")
    >>> optrr.save(optrr.design({"sex": 2, "age": 3}, 1.0), path)
    >>> optrr.load(path).domain.names
    ('sex', 'age')
    """
    held = content_of(path, "design file")
    read = function_of(kind_of(held), "load")
    assert read is not None
    return read(held, limited=limited)


def verify(made: Any, design: Given | None = None, *, limited: bool = True) -> "Verification":
    """Recompute every number of a design, or of a file of ours, from its law and certificate alone (design §3.4).

    Parameters
    ----------
    design
        of a deployment file: the file of the design, or of the sampled tables, that it should belong to.
    limited
        refuse a file of more than 64 MB, and one whose checks take longer, or more memory, than
        :class:`optrr.core.design.verification.Limits` allows to a file of its size.

    Raises
    ------
    InvalidInput
        where a file cannot be read as what it should be, or its checks take too long; a number that does not hold is in the
        result.

    Examples
    --------
    >>> import optrr
    >>> optrr.verify(optrr.design({"sex": 2, "age": 3}, 1.0)).holds
    True
    """
    if not is_file(made):
        recomputed: Verification = _of(made, "recompute", "is verified by its file")(made)
        return recomputed
    kind = kind_of(made)
    if design is not None and kind != DEPLOYMENT:
        raise InvalidInput(f"``design``: {made} is no deployment file; leave it out")
    check = function_of(kind, "verify")
    assert check is not None
    result: Verification = check(made, limited=limited) if design is None else check(made, design, limited=limited)
    return result


def reports(data: Any, design: Any) -> "Reports":
    """Records or answers, opened once, bound to what they were asked by, or its file; every analysis starts from them.

    Parameters
    ----------
    data
        what :func:`optrr.count` takes: a file, several, a frame, or a table of a database.

    Raises
    ------
    InvalidInput
        as :func:`load`; and, as soon as something is asked of them, where the records were randomized by another design, twice,
        or not at all.

    Examples
    --------
    >>> import optrr, pandas as pd
    >>> design = optrr.design({"sex": ["F", "M"]}, 3.0)
    >>> people = pd.DataFrame({"sex": ["F"] * 600 + ["M"] * 400})
    >>> reports = optrr.reports(design.randomize(people), design)
    >>> reports.table("sex").to_pandas()["sex"].tolist()
    ['F', 'M']
    """
    made = load(design) if is_file(design) else design
    bound = getattr(made, "reports", None)
    if bound is None:
        raise InvalidInput(
            f"{design} is read by commands of its own, not by tables; give a design file, or one of sampled tables"
        )
    opened: Reports = bound(data)
    return opened
