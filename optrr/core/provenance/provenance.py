"""Provenance: one note beside a release of randomized records, which states how they were drawn.

A file does not show which design randomized its values. Analysed with another mechanism, or randomized a second time,
it gives numbers that look right and are wrong. So a release has a note, the same JSON object everywhere: schema
metadata of Arrow tables and Parquet files (key ``optrr``), ``attrs`` of pandas frames, and a sidecar,
``NAME.optrr.json``, beside CSV, JSON lines and PLINK. Databases, Spark and polars have none, and commands that read
them warn.

- ``release``: ``design`` (digest of the mechanism), ``mechanism`` (its kind), ``epsilon`` (nats), ``seeded``, and ``id``;
- ``earlier``: other releases of the same respondents, which this one followed (:mod:`optrr.core.provenance.accounting`);
- ``public``: columns that are not randomized, if any.

The note does not depend on the records, and nothing binds it to them: a file that was edited, or replaced beside its sidecar,
is not noticed.
"""

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from optrr.core.display import SOFTWARE
from optrr.core.display.text import epsilon_text
from optrr.core.domain.domain import Domain
from optrr.core.domain.public import NONE, PublicColumns
from optrr.core.errors import InvalidInput
from optrr.core.provenance.accounting import (
    PERSON,
    Release,
    distinct_releases,
    finite,
    shown_digest,
    total_epsilon,
    unit_of,
)
from optrr.core.provenance.sealed import Sealed, read_named

FORMAT, SYNTHETIC = "optrr-records/1", "optrr-synthetic/1"
# Key of the note in schema metadata and in attrs.
KEY = "optrr"
SUFFIX = ".optrr.json"
SEEDED = "drawn from a seed, so it is not private: anyone who knows the seed can undo it"
# Key under which pandas.DataFrame.to_parquet keeps a frame's attrs.
_PANDAS_ATTRS = b"PANDAS_ATTRS"


def digest_of(domain: Domain, drawn: Mapping[str, Any]) -> str:
    """Compute ``sha256:`` and the SHA-256 of a domain and drawn probabilities.

    Categories count by their texts.
    """
    content = {**drawn, "domain": [(a.name, a.texts) for a in domain]}
    return f"sha256:{hashlib.sha256(msgspec.json.encode(content, order='sorted')).hexdigest()}"


class _NoteRecord(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    software: str
    release: Release
    earlier: tuple[Release, ...] = ()
    public: PublicColumns | msgspec.UnsetType = msgspec.UNSET


def _remedy(written: str) -> str:
    if written == SYNTHETIC:
        return (
            ": synthetic records are drawn from a model, and their errors are not those of any data; give the randomized "
            "records that they come from"
        )
    return ": give the file as optrr wrote it"


_NOTE = Sealed(_NoteRecord, FORMAT, "the provenance of ", "is damaged; give the file as optrr wrote it", _remedy)


@dataclass(frozen=True)
class SyntheticNote:
    """Provenance of synthetic records.

    The design of the estimates, and the number of randomized records.

    ``sets`` is the number of data sets, whose estimates must be combined. Readers of randomized records refuse it.
    """

    design: str | None
    estimated_from: int
    sets: int = 1

    def to_json(self) -> str:
        """Return the JSON text."""
        return msgspec.json.encode({"format": SYNTHETIC, "software": SOFTWARE, **vars(self)}).decode()

    def metadata(self) -> dict[str, str]:
        """Return schema metadata, or attrs, with the provenance."""
        return {KEY: self.to_json()}


@dataclass(frozen=True)
class Provenance:
    """Provenance of a release.

    How it was drawn, earlier releases of the same respondents, and its public columns.
    """

    release: Release
    earlier: tuple[Release, ...] = ()
    public: PublicColumns = NONE

    @property
    def releases(self) -> tuple[Release, ...]:
        """All known releases of the respondents, each once, this one last."""
        return distinct_releases((*self.earlier, self.release))

    @property
    def epsilon(self) -> float:
        """Total ε in nats as stated, rounded up.

        Also of seeded releases, whose actual privacy loss is infinite.
        """
        return total_epsilon(self.releases)

    @property
    def seeded(self) -> bool:
        """Whether any of them was drawn from a seed."""
        return any(r.seeded for r in self.releases)

    @property
    def in_all(self) -> float:
        """Total ε that was consumed, in nats; of a single seeded release, its stated ε."""
        return math.inf if self.seeded and len(self.releases) > 1 else self.epsilon

    def summary(self) -> dict[str, Any]:
        """Return ε of all releases and this one, the unit, and whether it is private."""
        return {
            "epsilon": finite(self.in_all),
            "unit": unit_of(self.releases),
            "release_epsilon": self.release.epsilon,
            "private": not self.seeded,
            **({"public": self.public.summary()} if self.public else {}),
        }

    def phrase(self) -> str:
        """Describe the total, with its parts if there are several releases."""
        known = self.releases
        lifetime = " over a lifetime" if unit_of(known) == PERSON else ""
        total = f"total epsilon {epsilon_text(self.in_all)}{lifetime}"
        if len(known) == 1:
            return total
        return f"{total} in all ({' + '.join(epsilon_text(r.epsilon) for r in known)})"

    def not_private(self, what: str) -> list[str]:
        """Warn if these records, or earlier ones, were drawn from a seed.

        ``what`` names the records.
        """
        itself = [f"{what} was {SEEDED}"] if self.release.seeded else []
        others = (
            f"{what} follows a release of the same respondents that was {SEEDED}; in all they have consumed epsilon inf"
        )
        return [*itself, *([others] if any(r.seeded for r in self.earlier) else [])]

    def to_json(self) -> str:
        """Return the JSON text."""
        record = _NoteRecord(FORMAT, SOFTWARE, self.release, self.earlier, self.public or msgspec.UNSET)
        return msgspec.json.encode(record).decode()

    @staticmethod
    def from_json(text: str | bytes, what: str) -> "Provenance":
        """Read what :meth:`to_json` wrote, the note of ``what``.

        Raises InvalidInput if it is malformed, of another version, or of synthetic records.
        """
        raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        record = _NOTE.decoded(raw, what)
        return Provenance(record.release, record.earlier, record.public or NONE)

    def metadata(self) -> dict[str, str]:
        """Return schema metadata, or attrs, with the provenance."""
        return {KEY: self.to_json()}

    @staticmethod
    def from_metadata(metadata: Mapping[bytes, bytes] | None, what: str) -> "Provenance | None":
        """Read provenance from schema metadata of ``what``; None if absent.

        The metadata is as Arrow or pandas writes it.
        """
        text: Any = (metadata or {}).get(KEY.encode())
        if text is None and metadata is not None and _PANDAS_ATTRS in metadata:
            try:
                attrs = json.loads(metadata[_PANDAS_ATTRS])
            except (ValueError, RecursionError):
                attrs = None  # other software may keep something else under this key
            text = attrs.get(KEY) if isinstance(attrs, dict) else None
        return Provenance.from_json(text, what) if isinstance(text, str | bytes) else None


def sidecar_path(target: Path) -> Path:
    """Return the path of a file's sidecar."""
    return target.with_name(target.name + SUFFIX)


def write_sidecar(path: Path, note: Provenance | SyntheticNote) -> None:
    """Write a sidecar."""
    path.write_bytes(msgspec.json.format(note.to_json().encode(), indent=1) + b"\n")


def provenance_beside(target: Path) -> Provenance | None:
    """Read the provenance in the sidecar of ``target``; None if absent.

    Raises InvalidInput if it cannot be read.
    """
    if not target.name or not os.path.isfile(path := sidecar_path(target)):
        return None
    return Provenance.from_json(read_named(path, "provenance"), str(path))


@dataclass(frozen=True)
class Origin:
    """Origin of records: a name for messages, and provenance if known."""

    what: str
    provenance: Provenance | None = None


def require_unrandomized(origin: Origin) -> None:
    """Raise InvalidInput for records that are randomized already."""
    known = origin.provenance
    if known is not None:
        raise InvalidInput(
            f"{origin.what} is already randomized (by design {shown_digest(known.release.design)}, epsilon "
            f"{epsilon_text(known.epsilon)}); give the true records, or remove its provenance if it belongs to other records"
        )


def require_design(origin: Origin, digest: str) -> None:
    """Raise InvalidInput for records of another design than this digest.

    Records without provenance pass.
    """
    known = origin.provenance
    if known is not None and known.release.design != digest:
        raise InvalidInput(
            f"{origin.what} was randomized by another design ({shown_digest(known.release.design)}) than the one given "
            f"({shown_digest(digest)}); give the design it was randomized by"
        )


def doubts(origin: Origin) -> list[str]:
    """List warnings for all results from these records."""
    if origin.provenance is None:
        return [
            f"estimates are wrong if {origin.what} was not randomized by this design: it has no provenance metadata; "
            "give a file that `optrr randomize` wrote"
        ]
    return origin.provenance.not_private(origin.what)
