"""What randomized records say of themselves, and what their people have spent: releases, their sum, and a limit.

Records that do not say by which designs they were randomized can be randomized twice, or estimated with another design's
mechanism, and every number that comes out looks right. So their provenance travels with them:

- in the schema metadata of Arrow tables and Parquet files, under ``optrr``, and in ``attrs`` of pandas frames;
- beside files that have no room for it (CSV, PLINK), in a sidecar, ``out.csv.optrr.json``, with the size and SHA-256 of every
  file that it speaks of, so that a file that was replaced or edited, and a sidecar that was copied along, are noticed;
- in databases, in a column ``optrr_provenance`` of the table, the same text in every row.

Everywhere it is one JSON object: ``format``, ``software``, ``unit``, ``epsilon`` (spent in all, nats, null where there is no
finite one), ``seeded``, ``randomizations`` (what was done to these records, in order) and ``earlier`` (other releases of the
same people that these followed); each entry of the two has ``design`` (digest of the mechanism), ``epsilon``, ``seeded`` and
``id``. ``order`` says whether the records were ``shuffled`` or stand in the order of the true ones (``kept``); notes without
it do not say. Where columns stand beside the randomized ones as they are, ``public`` names them by what they are for. Nothing
in it depends on the records.

The unit is a record: ε is what one record's contributor spends. Of rounds of a longitudinal design it is a person over time: ε
is then of everything that the person ever reports, while the true record stays as it is. ε add up over releases of the same
record (sequential composition): ``optrr account`` prints the sum; ``perturb`` keeps to a limit by it. Where the second
randomization saw only the first's output, its people spent no more than the first's ε; the sum is then an upper bound.

An :class:`Origin` holds what given records say (:mod:`optrr.records.reading.registry` collects them from files, frames and
tables); the functions here refuse what does not fit, or say what remains in doubt.

An :class:`Account` is of a protocol in which a person answers in several steps. MDR §4: where learning the dependences is
ε_1-differentially private and the release is ε_2-differentially private, the whole is (ε_1 + ε_2)-differentially private. A
step that sends true values (MDR §4.2) has no finite ε, and says so.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from optrr.domain.domain import Domain
from optrr.domain.public import NONE, PublicColumns, PublicRecord
from optrr.errors import InvalidInput, in_one_line
from optrr.releases.sealed import MALFORMED, read_small
from optrr.show import SOFTWARE
from optrr.show.text import epsilon_text, sum_of_epsilons
from optrr_solvers.problem import EPSILON_RANGE

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_ID = re.compile(r"([0-9a-f]{32})?")
# Sums of so many nats, and of as many releases as anybody has files, are doubles.
_MOST_NATS = 1e300
# Hexadecimal digits of a digest that a message shows.
_SHOWN = 12


class ReleaseRecord(msgspec.Struct, forbid_unknown_fields=True):
    """A release in a file."""

    design: str
    epsilon: float | None
    seeded: bool
    id: str


@dataclass(frozen=True)
class Release:
    """One randomization of everybody's record: the digest of the mechanism (:func:`digest_of`), and ε in nats, rounded up.

    ε is ``inf`` where it is not differentially private. ``seeded``: drawn from a seed or from a generator, so that it can be
    undone. ``id``: 32 hexadecimal digits drawn for this release, so that its copies are counted once; empty where it is not
    known. Raises InvalidInput for a negative ε, or a digest or id of another form.
    """

    design: str
    epsilon: float
    seeded: bool = False
    id: str = ""

    def __post_init__(self) -> None:
        if not self.epsilon >= 0:
            raise InvalidInput(f"a release states epsilon {self.epsilon}; give a number of at least 0")
        if not _DIGEST.fullmatch(self.design) or not _ID.fullmatch(self.id):
            raise InvalidInput("a release states a digest or id that is none; take it from the design")

    @staticmethod
    def drawn(design: str, epsilon: float, seeded: bool) -> Release:
        """A new release, with an id of its own; without one where it was seeded, so that its file can be made again."""
        return Release(design, epsilon, seeded, "" if seeded else secrets.token_hex(16))

    def to_record(self) -> ReleaseRecord:
        """As it stands in files."""
        return ReleaseRecord(self.design, finite(self.epsilon), self.seeded, self.id)

    @staticmethod
    def from_record(record: ReleaseRecord) -> Release:
        """From a file; more nats than can be added up protect nobody, and are read as infinitely many."""
        promised = record.epsilon is not None and record.epsilon <= _MOST_NATS
        return Release(record.design, record.epsilon if promised else math.inf, record.seeded, record.id)  # type: ignore[arg-type]

    @property
    def cost(self) -> float:
        """What it costs a contributor: its ε, ``inf`` where it was seeded."""
        return math.inf if self.seeded else self.epsilon

    @property
    def shown_design(self) -> str:
        """The first digits of the design's digest, for messages."""
        return shown_digest(self.design)


def distinct_releases(releases: Iterable[Release]) -> tuple[Release, ...]:
    """Each release once, by its id; those without an id are all counted.

    Raises InvalidInput where one id stands for two different releases.
    """
    out: list[Release] = []
    seen: dict[str, Release] = {}
    for release in releases:
        first = seen.get(release.id) if release.id else None
        if first is None:
            out.append(release)
            seen[release.id] = release
        elif release != first:
            raise InvalidInput(
                f"the id {release.id[:_SHOWN]} stands for two releases, of epsilon {epsilon_text(first.epsilon)} and "
                f"{epsilon_text(release.epsilon)}, so one of these files was edited; give the files as optrr wrote them"
            )
    return tuple(out)


def recomputed(releases: Iterable[Release], epsilons: Mapping[str, float]) -> tuple[Release, ...]:
    """The releases with the ε of their designs, by digest, in nats, where that is known; as they are stated elsewhere."""
    return tuple(replace(r, epsilon=epsilons.get(r.design, r.epsilon)) for r in releases)


def total_epsilon(releases: Iterable[Release]) -> float:
    """Σ ε in nats, rounded up (sequential composition); exact where a double holds it."""
    return sum_of_epsilons([r.epsilon for r in releases])


def check_limit(releases: Iterable[Release], limit: float | None) -> None:
    """Refuse releases, the last of them new, that together cost their people more than a declared limit, in nats.

    Raises InvalidInput naming both.
    """
    if limit is None:
        return
    spent = distinct_releases(releases)
    if any(r.seeded for r in spent[:-1]):
        raise InvalidInput(
            "an earlier release of these people was drawn from a seed and can be undone, so they have spent epsilon inf, "
            f"above the limit of {limit:g}; leave out the limit, or ask other people"
        )
    if spent and spent[-1].seeded:
        raise InvalidInput("what is drawn from a seed can be undone, so it keeps to no limit; leave out the seed")
    if not total_epsilon(spent) <= limit:  # nor is it within a limit that is no number
        parts = " + ".join(epsilon_text(r.epsilon) for r in spent)
        raise InvalidInput(
            f"this would bring what each person has spent to {epsilon_text(total_epsilon(spent))} nats ({parts}), above the "
            f"limit of {limit:g}; ask for less, or of other people"
        )


def shown_digest(digest: str) -> str:
    """Its first digits, for messages."""
    return digest.removeprefix("sha256:")[:_SHOWN]


def finite(epsilon: float) -> float | None:
    """As files write it: None where it is infinite."""
    return epsilon if math.isfinite(epsilon) else None


def checked_epsilon(epsilon: Any, what: str = "epsilon") -> float:
    """One mechanism's ε in nats. Raises InvalidInput outside 1e-6..50."""
    low, high = EPSILON_RANGE
    if not isinstance(epsilon, int | float | np.integer | np.floating) or not low <= epsilon <= high:
        raise InvalidInput(f"{what} = {epsilon!r}; give a finite number of nats from {low:g} to {high:g}")
    return float(epsilon)


@dataclass(frozen=True)
class Spent:
    """One release: what was sent, its ε in nats (``inf`` where it is not differentially private), and a warning or ""."""

    step: str
    epsilon: float
    warning: str = ""

    def __post_init__(self) -> None:
        if not self.epsilon >= 0:
            raise InvalidInput(f"step {self.step!r} has epsilon {self.epsilon}; give a number of at least 0")


@dataclass(frozen=True)
class Account:
    """All releases of one person's record, in order."""

    steps: tuple[Spent, ...] = ()

    @property
    def epsilon(self) -> float:
        """Total ε in nats, rounded up; ``inf`` where any step is not differentially private."""
        return sum_of_epsilons([s.epsilon for s in self.steps])

    def plus(self, *steps: Spent) -> Account:
        """The account with further releases."""
        return Account(self.steps + steps)

    def lines(self) -> list[str]:
        """One line per release, then the total."""
        out = [
            f"{s.step}: {epsilon_text(s.epsilon)} nats" + (f" ({s.warning})" if s.warning else "") for s in self.steps
        ]
        return [*out, f"total: {epsilon_text(self.epsilon)} nats"]


FORMAT = "optrr-records/1"
SYNTHETIC = "optrr-synthetic/1"
UNIT, PERSON = "record", "person over time"
SHUFFLED, KEPT = "shuffled", "kept"
# Under which the JSON text stands in schema metadata (Arrow, Parquet) and in a pandas frame's attrs.
KEY = "optrr"
# The column that carries it through databases.
COLUMN = "optrr_provenance"

SEEDED = "drawn from a seed, so it is not private: whoever knows the seed can undo it"

IN_ORDER = (
    "stands in the order of the true records, which no epsilon covers: where that order follows a value, as in a sorted or "
    "grouped file, a record's place tells the value, however much noise there is"
)

# Where pandas.DataFrame.to_parquet keeps a frame's attrs, and Spark the metadata of its columns.
_PANDAS_ATTRS = b"PANDAS_ATTRS"
_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"


class _ProvenanceRecord(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    software: str
    unit: str
    epsilon: float | None
    seeded: bool
    randomizations: list[ReleaseRecord]
    earlier: list[ReleaseRecord] = []
    public: PublicRecord | msgspec.UnsetType = msgspec.UNSET
    order: str | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True)
class SyntheticNote:
    """What synthetic records say of themselves, in the same places: of which design's estimates they are drawn, from how many.

    ``sets`` is the number of data sets, whose estimates are to be combined. Whatever reads randomized records refuses them
    (:meth:`Provenance.from_json`).
    """

    design: str | None
    estimated_from: int
    sets: int = 1

    def to_json(self) -> str:
        """The JSON text."""
        record = {"format": SYNTHETIC, "software": SOFTWARE, **vars(self)}
        return msgspec.json.encode(record).decode()

    def metadata(self) -> dict[str, str]:
        """As schema metadata."""
        return {KEY: self.to_json()}


@dataclass(frozen=True)
class Provenance:
    """What was done to these records, what their people had released before, and which columns were not randomized.

    ``order`` is SHUFFLED, KEPT, or empty where nothing is known of it. Raises InvalidInput without a randomization.
    """

    randomizations: tuple[Release, ...]
    earlier: tuple[Release, ...] = ()
    unit: str = UNIT
    public: PublicColumns = NONE
    order: str = ""

    def __post_init__(self) -> None:
        if not self.randomizations:
            raise InvalidInput("records that were never randomized have no provenance; leave it out")

    @property
    def releases(self) -> tuple[Release, ...]:
        """Every release that counts, each id once, in order."""
        return distinct_releases((*self.earlier, *self.randomizations))

    @property
    def epsilon(self) -> float:
        """Spent in all, in nats, rounded up: the sum over the releases, as labelled."""
        return total_epsilon(self.releases)

    @property
    def seeded(self) -> bool:
        """Whether any of it was drawn from a seed, so that it is not private."""
        return any(r.seeded for r in self.releases)

    @property
    def cost(self) -> float:
        """What a contributor has spent in all, in nats, as an account states it: ``inf`` where any of it was seeded."""
        return math.inf if self.seeded else self.epsilon

    def not_private(self, what: str) -> list[str]:
        """One line for each thing that was drawn from a seed: these records, named ``what``, and what came before them."""
        before = any(r.seeded for r in (*self.earlier, *self.randomizations[:-1]))
        itself = [f"{what} was {SEEDED}"] if self.randomizations[-1].seeded else []
        others = f"{what} follows a release of the same people that was {SEEDED}; in all they have spent epsilon inf"
        return [*itself, *([others] if before else [])]

    def in_order(self, what: str) -> list[str]:
        """One line where these records, named ``what``, stand in the order of the true ones."""
        return [f"{what} {IN_ORDER}"] if self.order == KEPT else []

    def to_json(self) -> str:
        """The JSON text."""
        return msgspec.json.encode(self.to_record()).decode()

    def to_record(self) -> dict[str, Any]:
        """The JSON object, as plain values."""
        record = _ProvenanceRecord(
            FORMAT,
            SOFTWARE,
            self.unit,
            finite(self.epsilon),
            self.seeded,
            [r.to_record() for r in self.randomizations],
            [r.to_record() for r in self.earlier],
            self.public.record(),
            self.order or msgspec.UNSET,
        )
        return dict(msgspec.to_builtins(record))

    @staticmethod
    def from_json(text: str | bytes, what: str) -> Provenance:
        """Read what :meth:`to_json` wrote; ``what`` is what it belongs to, for messages.

        Raises InvalidInput where it is malformed, of an unknown version, or states less than its releases cost; for synthetic
        records.
        """
        known = _parsed(text)
        if isinstance(known, dict) and known.get("format") == SYNTHETIC:
            raise InvalidInput(
                f"{what} holds synthetic records, drawn from a model, whose errors are not those of any data; give the "
                "randomized records that they come from"
            )
        try:
            return _checked(msgspec.json.decode(text, type=_ProvenanceRecord))
        except (*MALFORMED, InvalidInput) as error:
            raise InvalidInput(
                f"{what} carries a note on its randomization that cannot be read: {in_one_line(error)}; "
                "use the file as optrr wrote it"
            ) from error

    def metadata(self) -> dict[str, str]:
        """As schema metadata."""
        return {KEY: self.to_json()}

    @staticmethod
    def from_metadata(metadata: Mapping[bytes, bytes] | None, what: str) -> Provenance | None:
        """From schema metadata, also as pandas carries its attrs and Spark its columns' own; None where there is none."""
        if metadata is None:
            return None
        text: Any = metadata.get(KEY.encode())
        if text is None and _PANDAS_ATTRS in metadata:
            text = _text_in(_parsed(metadata[_PANDAS_ATTRS]))
        if text is None and _SPARK_SCHEMA in metadata:
            schema = _parsed(metadata[_SPARK_SCHEMA])
            fields = (schema.get("fields") if isinstance(schema, dict) else None) or []
            texts = (_text_in(f.get("metadata")) for f in fields if isinstance(f, dict))
            text = next((t for t in texts if t is not None), None)
        return None if text is None else Provenance.from_json(text, what)


def digest_of(domain: Domain, drawn: Mapping[str, Any]) -> str:
    """SHA-256 of a domain and of plain values that say what is drawn: ``sha256:`` and 64 hexadecimal digits.

    Categories count by their canonical texts.
    """
    content = {**drawn, "domain": [(a.name, a.texts) for a in domain]}
    return f"sha256:{hashlib.sha256(msgspec.json.encode(content, order='sorted')).hexdigest()}"


def _checked(record: _ProvenanceRecord) -> Provenance:
    if record.format != FORMAT:
        raise InvalidInput(f"its format is {record.format[:40]!r} and this version reads {FORMAT!r}")
    if record.unit not in (UNIT, PERSON):
        raise InvalidInput(f"its unit is {record.unit[:40]!r} and this version knows {UNIT!r} and {PERSON!r}")
    if record.order and record.order not in (SHUFFLED, KEPT):
        raise InvalidInput(f"its order is {record.order[:40]!r} and this version knows {SHUFFLED!r} and {KEPT!r}")
    known = Provenance(
        tuple(map(Release.from_record, record.randomizations)),
        tuple(map(Release.from_record, record.earlier)),
        record.unit,
        PublicColumns.of_record(record.public),
        record.order or "",
    )
    stated = math.inf if record.epsilon is None else record.epsilon
    if stated < known.epsilon or record.seeded < known.seeded:
        raise InvalidInput("it states less than its releases cost")
    return known


def _parsed(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None  # the text is not ours: other software keeps something else under this key


def _text_in(holder: Any) -> str | None:
    value = holder.get(KEY) if isinstance(holder, dict) else None
    return value if isinstance(value, str) else None


@dataclass(frozen=True)
class Origin:
    """What is known of where given records come from: the file or frame, for messages, and what they say of themselves, if so.

    ``doubt``: why that cannot be taken for theirs: a sidecar that was written for other content. Empty where it can.
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

    Raises InvalidInput naming what was given and what it has spent.
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

    Raises InvalidInput naming what was given and the designs.
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


SUFFIX = ".optrr.json"


class _Content(msgspec.Struct, forbid_unknown_fields=True):
    bytes: int
    sha256: str

    @classmethod
    def of(cls, file: Path) -> _Content:
        with file.open("rb") as opened:
            return cls(file.stat().st_size, hashlib.file_digest(opened, "sha256").hexdigest())

    def is_of(self, file: Path) -> bool:
        """Sizes first: a digest takes about a second for a gigabyte."""
        return file.is_file() and file.stat().st_size == self.bytes and _Content.of(file) == self


class _Sidecar(msgspec.Struct, forbid_unknown_fields=True):
    provenance: msgspec.Raw
    # by suffix (.csv, or .bed, .bim and .fam), so that the files may be renamed together with the sidecar
    content: dict[str, _Content]


def sidecar_path(target: Path) -> Path:
    """Where the sidecar of a file stands."""
    return target.with_name(target.name + SUFFIX)


def write_sidecar(path: Path, files: Sequence[Path], provenance: Provenance | SyntheticNote) -> None:
    """Write the sidecar of complete files to ``path``."""
    content = {file.suffix.lower(): _Content.of(file) for file in files}
    text = msgspec.json.encode(_Sidecar(msgspec.Raw(provenance.to_json().encode()), content))
    path.write_bytes(msgspec.json.format(text, indent=1) + b"\n")


def origin_from_sidecar(target: Path, raw: bytes | None = None) -> Origin:
    """What the sidecar of ``target`` says, with the files of other suffixes that it speaks of, too.

    ``raw`` are the sidecar's bytes where they have been read already. Raises InvalidInput where it cannot be read.
    """
    path = sidecar_path(target)
    if raw is None and not path.exists():
        return _of_twin(target)
    try:
        sidecar = msgspec.json.decode(read_small(path) if raw is None else raw, type=_Sidecar)
    except FileNotFoundError:
        return Origin(str(target))
    except (OSError, *MALFORMED) as error:
        raise InvalidInput(
            f"{path} cannot be read: {in_one_line(error)}; restore it, or remove it where {target} has nothing to do with it"
        ) from error
    provenance = Provenance.from_json(bytes(sidecar.provenance), str(path))
    own = target.suffix.lower()
    try:
        whole = own in sidecar.content and all(
            content.is_of(target if suffix == own else target.with_suffix(suffix))
            for suffix, content in sidecar.content.items()
        )
    except (ValueError, OSError):
        # a suffix that no file can have, or a file that cannot be looked at
        whole = False
    return Origin(str(target), provenance, "" if whole else f"{path.name} was written for other content than it has")


def _of_twin(target: Path) -> Origin:
    """What another sidecar of the folder says where it is of this very content: a release that was copied or renamed alone."""
    held: _Content | None = None
    for path in sorted(target.parent.glob(f"*{SUFFIX}")) if target.is_file() else []:
        try:
            sidecar = msgspec.json.decode(read_small(path), type=_Sidecar)
        except (OSError, InvalidInput, *MALFORMED):
            continue  # whoever reads its own file says what is wrong
        stated = sidecar.content.get(target.suffix.lower())
        if stated is None or len(sidecar.content) > 1 or stated.bytes != target.stat().st_size:
            continue
        held = held or _Content.of(target)
        if held == stated:
            return Origin(str(target), Provenance.from_json(bytes(sidecar.provenance), str(path)))
    return Origin(str(target))
