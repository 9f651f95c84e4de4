"""Files of protocols: write, read with recomputed numbers, verify, sign and export them.

A file states its kind by its ``format``, and an object by its ``file_format``; the functions of each kind are listed in
:mod:`optrr.core.provenance.formats`.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optrr.core.errors import InvalidInput
from optrr.core.provenance.formats import function_of
from optrr.core.provenance.sealed import DEPLOYMENT, Given, content_of, is_file, kind_of

if TYPE_CHECKING:
    from optrr.core.design.signing import Signature
    from optrr.core.design.verification import Verification
    from optrr.core.reports import Reports

__all__ = ["export", "load", "reports", "save", "sign", "verify"]

# Suffixes that other programs read as other formats.
_OTHER_SUFFIXES = (".csv", ".html", ".parquet", ".toml", ".txt", ".xlsx")

# Maximum number of bytes of a deployment file, compressed: a phone fetches it in a second or two.
MOST_BYTES = 1 << 20


def _of(made: Any, operation: str, problem: str, kinds: str = "a design or sampled tables") -> Callable[..., Any]:
    """Find the function for an object; raise InvalidInput if it has none."""
    kind = getattr(made, "file_format", "")
    function = function_of(kind, operation) if kind else None
    if function is None:
        raise InvalidInput(f"{getattr(made, 'name', type(made).__name__)} {problem}; give {kinds}")
    return function


def save(made: Any, path: str | Path) -> None:
    """Write a design, or another protocol, as a file.

    Parameters
    ----------
    made : Design, SampledTables, LongitudinalDesign, …
        The protocol; the file carries everything that :func:`load` needs.
    path : path-like
        File to write, whole or not at all.

    Raises
    ------
    InvalidInput
        If the protocol is for studies and has no file.

    Examples
    --------
    >>> import optrr, tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> optrr.save(optrr.design({"smokes": 2, "age": 4}, 1.0), folder / "design.json")
    >>> optrr.load(folder / "design.json").domain.names
    ('smokes', 'age')
    """
    function = _of(made, "save", "cannot be saved")
    if Path(path).suffix.lower() in _OTHER_SUFFIXES:
        raise InvalidInput(f"{path} ends in {Path(path).suffix!r}; a protocol is written as .json")
    function(made, path)


def export(
    design: Any,
    path: str | Path,
    *,
    max_bytes: int = MOST_BYTES,
    form: str = "deployment",
    attributes: Iterable[str] | None = None,
) -> Any:
    """Write the deployment file of a design or of sampled tables.

    With this file a client randomizes one respondent's record.

    If the weights of a design's noise distribution are too fine for a client, coarser ones take their place.
    Reports are then estimated with another design, which is written beside the file and returned.

    Parameters
    ----------
    design : Design or SampledTables
        The protocol.
    path : path-like
        File to write.
    max_bytes : int
        Maximum size of the deployment file, compressed.
    form : {"deployment", "matrix", "events", "program"}
        What to write. For other software: the distortion matrix (csv, npz, json), the probability of each change set (csv, npz,
        json), or POR's linear program (npz).
    attributes : iterable of str, optional
        Attributes of a matrix or of change sets; all by default.

    Returns
    -------
    optrr.devices.export.Exported
        Its size and ε, and ``design``, with which reports are estimated.

    Raises
    ------
    InvalidInput
        If nothing fits, or a file of another design would be overwritten.

    Examples
    --------
    >>> import optrr, tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> design = optrr.design({"smokes": 2, "age": 4}, 1.0)
    >>> optrr.export(design, folder / "sampler.json").design is design
    True
    """
    if form == "deployment":
        function = _of(design, "export", "has no deployment file")
        return function(design, path, max_bytes=max_bytes)
    return _of(design, "tabulate", f"has no {form}", "a design of whole records")(design, path, form, attributes)


def load(path: Given, *, limited: bool = True) -> Any:
    """Read a file of optrr of any kind, and recompute every number in it.

    Parameters
    ----------
    path : path-like
        A design, deployment, longitudinal design, or sampled tables.
    limited : bool
        Refuse a file whose checks take longer, or more memory, than :class:`optrr.core.design.verification.Limits` allows to a
        file of its size.

    Returns
    -------
    Design, SampledTables, LongitudinalDesign, …

    Raises
    ------
    InvalidInput
        If the file is missing, malformed, of an unknown version, edited, or states a number that does not hold.

    Examples
    --------
    >>> import optrr, tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "design.json"
    >>> optrr.save(optrr.design({"smokes": 2, "age": 4}, 1.0), file)
    >>> optrr.load(file).epsilon < 2.0
    True
    """
    held = content_of(path, "design file")
    read = function_of(kind_of(held), "load")
    assert read is not None
    return read(held, limited=limited)


def verify(
    made: Any, design: Given | None = None, *, public_key: str | Path | None = None, limited: bool = True
) -> "Verification":
    """Recompute every number of a design or of a file of this project.

    From its noise distribution and certificate alone.

    Parameters
    ----------
    made : path-like or Design
        The file, or a design in memory.
    design : path-like, optional
        For a deployment file: the design or sampled tables that it should have been exported from.
    public_key : path-like, optional
        Ed25519 public key in PEM: also check the signature beside the file, ``FILE.sig``.
    limited : bool
        Refuse a file of more than 64 MB, and one whose checks take longer, or more memory, than
        :class:`optrr.core.design.verification.Limits` allows to a file of its size.

    Returns
    -------
    Verification
        ``holds``, and every check.

    Raises
    ------
    InvalidInput
        If a file cannot be read, or its checks take too long.

    Examples
    --------
    >>> import optrr
    >>> optrr.verify(optrr.design({"smokes": 2, "age": 4}, 1.0)).holds
    True
    """
    if not is_file(made):
        recomputed: Verification = _of(made, "recompute", "is verified by its file")(made)
        return recomputed
    from optrr.core.design import refuse_large, refuse_specification, signature_check  # noqa: PLC0415 (brings solvers)

    if limited:
        refuse_large(made)
    held = content_of(made, "file")
    kind = kind_of(held)
    if design is not None and kind != DEPLOYMENT:
        raise InvalidInput(
            f"``design`` is for files from optrr export, and {made} is not a deployment file; leave ``design`` out"
        )
    if not kind:
        refuse_specification(held.raw, held)
        raise InvalidInput(
            f"{made} cannot be read as a design or a deployment file: it is damaged, or another file; get it again "
            "from its author"
        )
    # checked first, because a stranger's file may be refused before its numbers are recomputed
    signed = () if public_key is None else (signature_check(held, Path(public_key)),)
    check = function_of(kind, "verify")
    assert check is not None
    result: Verification = check(held, limited=limited) if design is None else check(held, design, limited=limited)
    return replace(result, checks=(*signed, *result.checks))


def sign(path: Given, private_key: str | Path, passphrase: Callable[[], str] | None = None) -> "Signature":
    """Sign a design or a deployment file that verifies.

    The signature is written to ``FILE.sig``.

    Parameters
    ----------
    path : path-like
        The file.
    private_key : path-like
        Ed25519 private key in PEM.
    passphrase : callable, optional
        Returns the passphrase of an encrypted key.

    Returns
    -------
    Signature
        The file that was written, and the SHA-256 of the public key.

    Raises
    ------
    InvalidInput
        If a number in the file does not hold, or the key cannot be used; nothing is written.
    """
    from optrr.core.design import sign_file  # noqa: PLC0415 (brings solvers)

    held = content_of(path, "file")
    verified = verify(held, limited=False)
    if not verified.holds:
        raise InvalidInput(f"{path} is not signed, because it does not verify: {verified.headline()}")
    return sign_file(held, Path(private_key), passphrase)


def reports(data: Any, design: Any) -> "Reports":
    """Open randomized records of a design for analyses.

    Parameters
    ----------
    data
        A file, several, a data frame, or a table of a database; answers, if respondents answer local queries.
    design
        The design that the records were randomized by, or its file.

    Returns
    -------
    Reports
        Its methods are the analyses; records are read once.

    Raises
    ------
    InvalidInput
        As :func:`load`; and, at the first analysis, for records that were randomized by another design, twice, or not
        at all.

    Examples
    --------
    >>> import optrr, pandas
    >>> design = optrr.design({"smokes": ["no", "yes"]}, 1.0)
    >>> released = design.randomize(pandas.DataFrame({"smokes": ["no", "yes"] * 500}))
    >>> optrr.reports(released, design).table("smokes").n
    1000
    """
    made = load(design) if is_file(design) else design
    bound = getattr(made, "reports", None)
    if bound is None:
        what = f"{design}" if is_file(design) else f"an object of type {type(design).__name__}"
        raise InvalidInput(
            f"{what} is read by other commands, not by tables; give a design file, or one of sampled tables"
        )
    opened: Reports = bound(data)
    return opened
