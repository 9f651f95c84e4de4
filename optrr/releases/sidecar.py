"""Provenance beside files that have no room for it: ``out.csv`` and ``out.csv.optrr.json``.

The sidecar holds the provenance and the size and SHA-256 of every file it speaks of, so that one of another file is noticed:
a CSV that was replaced or edited, or a sidecar copied along. Reading checks the sizes first, then the digests; a gigabyte
takes about a second.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from optrr.errors import InvalidInput, in_one_line
from optrr.releases.binding import Origin
from optrr.releases.provenance import Provenance, SyntheticNote
from optrr.releases.small_files import read_small

SUFFIX = ".optrr.json"


class _Content(msgspec.Struct, forbid_unknown_fields=True):
    bytes: int
    sha256: str


class _Sidecar(msgspec.Struct, forbid_unknown_fields=True):
    provenance: msgspec.Raw
    # by suffix (.csv, or .bed, .bim and .fam), so that the files may be renamed together with the sidecar
    content: dict[str, _Content]


def sidecar_path(target: Path) -> Path:
    """Where the sidecar of a file stands."""
    return target.with_name(target.name + SUFFIX)


def write_sidecar(path: Path, files: Sequence[Path], provenance: Provenance | SyntheticNote) -> None:
    """Write the sidecar of complete files to ``path``."""
    content = {file.suffix.lower(): _content(file) for file in files}
    text = msgspec.json.encode(_Sidecar(msgspec.Raw(provenance.to_json().encode()), content))
    path.write_bytes(msgspec.json.format(text, indent=1) + b"\n")


def origin_from_sidecar(target: Path, raw: bytes | None = None) -> Origin:
    """What the sidecar of ``target`` says, with the files of other suffixes that it speaks of, too.

    ``raw`` are the sidecar's bytes where they have been read already.

    Raises
    ------
    InvalidInput
        where there is one that cannot be read.
    """
    path = sidecar_path(target)
    if raw is None and not path.exists():
        return _of_twin(target)
    try:
        sidecar = msgspec.json.decode(read_small(path) if raw is None else raw, type=_Sidecar)
    except FileNotFoundError:
        return Origin(str(target))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(
            f"{path} cannot be read: {in_one_line(error)}; restore it, or remove it where {target} has nothing to do with it"
        ) from error
    provenance = Provenance.from_json(bytes(sidecar.provenance), str(path))
    try:
        files = {target, *(target.with_suffix(suffix) for suffix in sidecar.content if suffix != target.suffix.lower())}
        whole = all(_is_described(file, sidecar) for file in files)
    except (ValueError, OSError):
        # a suffix that no file can have, or a file that cannot be looked at
        whole = False
    return Origin(str(target), provenance, "" if whole else f"{path.name} was written for other content than it has")


def _of_twin(target: Path) -> Origin:
    """What another sidecar of the folder says where it is of this very content: a release that was copied or renamed alone."""
    said = Origin(str(target))
    if not target.is_file():
        return said
    size, content = target.stat().st_size, None
    for path in sorted(target.parent.glob(f"*{SUFFIX}")):
        try:
            sidecar = msgspec.json.decode(read_small(path), type=_Sidecar)
        except (OSError, InvalidInput, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue  # whoever reads its own file says what is wrong
        stated = sidecar.content.get(target.suffix.lower())
        if stated is None or len(sidecar.content) > 1 or stated.bytes != size:
            continue
        content = content or _content(target)
        if content == stated:
            return Origin(str(target), Provenance.from_json(bytes(sidecar.provenance), str(path)))
    return said


def _is_described(file: Path, sidecar: _Sidecar) -> bool:
    stated = sidecar.content.get(file.suffix.lower())
    if stated is None or not file.is_file() or file.stat().st_size != stated.bytes:
        return False
    return _content(file) == stated


def _content(file: Path) -> _Content:
    with file.open("rb") as opened:
        return _Content(file.stat().st_size, hashlib.file_digest(opened, "sha256").hexdigest())
