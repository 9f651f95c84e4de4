"""What one person has sent: a second draw for the same design would be a second release, so the first is kept and sent again.

A folder with one small file for each design, DIGEST.json: the report, and what it cost. The true record is never written. The
files and the lock are those of the Python client (``clients/python/optrr_client.py``), so one folder serves both, and the
client prints it as a ledger.

An entry may remember whose it is, so that one folder is not used for several people by mistake, who would all send the first
one's report: a salted digest of where that person's file stands, seen from the folder. It holds nothing of the record.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from optrr.designs.design import Design
from optrr.errors import InvalidInput
from optrr.genomics.person_reports import PersonReport, report_of
from optrr.genomics.sampled_variants import SampledVariants
from optrr.records.whole_files import whole_file
from optrr.releases.accounting import Release, check_limit
from optrr.releases.sealed import read_small

try:
    import fcntl
except ImportError:  # Windows has no such locks; there, a limit does not hold for two answers at the same moment
    fcntl = None  # type: ignore[assignment]

_ENTRY = "optrr-client-entry/1"
_PLACES = Decimal("1e-15")
_UP = Context(prec=50, rounding=ROUND_CEILING)
_DIGEST = "[0-9a-f]" * 64
_SALT = 32


def _salted(person: str, salt: str) -> str:
    """The salt, and the digest of both."""
    return salt + blake2b(person.encode("utf-8", "surrogateescape"), salt=salt[:16].encode()).hexdigest()


class _Entry(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """``person``: salt and digest of whose it is, 32 and 128 hexadecimal digits; empty where nobody said."""

    format: str
    epsilon: str
    report: dict[str, Any]
    person: str = ""

    def is_of(self, person: str) -> bool:
        """Whether it is of this person, as far as both are known."""
        return not (self.person and person) or self.person == _salted(person, self.person[:_SALT])


@dataclass(frozen=True)
class PersonDiary:
    """One person's folder; made when something is first kept there, so that only its owner can enter."""

    folder: Path

    def place_of(self, file: Path) -> str:
        """Where a person's file stands, seen from this folder: both may be moved together."""
        try:
            return os.path.relpath(file.resolve(), self.folder.resolve())
        except ValueError:  # on another drive
            return str(file.resolve())

    def once(
        self,
        asking: Design | SampledVariants,
        draw: Callable[[], PersonReport | None],
        limit: float | None = None,
        earlier: Sequence[Release] = (),
        person: str = "",
    ) -> tuple[PersonReport, bool]:
        """The report for this design, drawn now or long ago, and whether it is new. It is on disk before it is returned.

        Parameters
        ----------
        draw
            called at most once, where nothing is kept yet; None: the person gives no answer, which is kept, too.
        limit
            most that all designs of this diary and ``earlier`` releases may cost the person, in nats.
        person
            what tells this person from others, such as :meth:`place_of`; kept as a salted digest. Empty: not known.

        Raises
        ------
        InvalidInput
            above the limit, before anything is drawn; for a person who gives no answer; for an entry, of any design, that
            cannot be read or is of another person.
        """
        with self._alone():
            # every entry is read before anything is drawn, also those of other designs
            entries = self._entries()
            if not all(entry.is_of(person) for entry in entries):
                raise InvalidInput(
                    f"{self.folder} holds another person's report, or one of this person's file under another name; keep one "
                    "folder for each person (--diary), and give the file whose report was kept"
                )
            kept = self._kept(asking)
            if kept is not None:
                return kept, False
            if limit is not None:
                check_limit([*earlier, *self.releases(), Release.drawn(asking)], limit)
            report = draw()
            self._keep(asking, report, person)
        if report is None:
            raise _silent(self._path(asking.digest))
        return report, True

    def releases(self) -> list[Release]:
        """Everything that is kept here, what was drawn without an answer, too."""
        return [
            Release(f"sha256:{x.report['design']}", "", float(x.epsilon), id=x.report["id"]) for x in self._entries()
        ]

    def _entries(self) -> list[_Entry]:
        return [self._entry(path) for path in sorted(self.folder.glob(f"{_DIGEST}.json"))]

    def _kept(self, asking: Design | SampledVariants) -> PersonReport | None:
        path = self._path(asking.digest)
        if not path.exists():
            return None
        entry = self._entry(path)
        if entry.report.get("answer", 0) is None:
            raise _silent(path)
        return report_of(entry.report, str(path), asking)

    def _keep(self, asking: Design | SampledVariants, report: PersonReport | None, person: str) -> None:
        epsilon = f"{Decimal(asking.epsilon).quantize(_PLACES, context=_UP):f}"
        design = asking.digest.partition(":")[2]
        held = {"design": design, "id": secrets.token_hex(16), "answer": None} if report is None else report.to_record()
        whose = _salted(person, secrets.token_hex(_SALT // 2)) if person else ""
        with whole_file(self._path(asking.digest)) as partial:
            partial.write_bytes(msgspec.json.encode(_Entry(_ENTRY, epsilon, held, whose)))

    def _path(self, digest: str) -> Path:
        return self.folder / f"{digest.partition(':')[2]}.json"

    def _entry(self, path: Path) -> _Entry:
        try:
            entry = msgspec.json.decode(read_small(path), type=_Entry)
            whole = entry.format == _ENTRY and entry.report["design"] == path.stem and Decimal(entry.epsilon) >= 0
            whole = whole and bool(re.fullmatch("[0-9a-f]{32}", entry.report["id"]))
        except (msgspec.DecodeError, UnicodeError, ArithmeticError, KeyError, TypeError):
            whole = False
        if not whole:
            raise InvalidInput(
                f"{path} is no entry of this diary; what was sent for its design is not known, so send nothing"
            )
        return entry

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """While nobody else adds to this folder; where it is new and the block fails, it is removed, unless it holds more."""
        new, lock = not self.folder.exists(), self.folder / "lock"
        with self._locked(lock):
            try:
                yield
            except BaseException:
                if new and [path.name for path in self.folder.iterdir()] == [lock.name]:
                    with suppress(OSError):
                        lock.unlink()
                        self.folder.rmdir()
                raise

    @contextmanager
    def _locked(self, lock: Path) -> Iterator[None]:
        while True:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileNotFoundError), ExitStack() as own:
                file = own.enter_context(lock.open("a"))
                if fcntl is not None:
                    fcntl.flock(file, fcntl.LOCK_EX)
                # whoever held it may have failed, and removed the folder
                if os.path.samestat(os.fstat(file.fileno()), lock.stat()):
                    held = own.pop_all()
                    break
        with held:
            yield


def _silent(path: Path) -> InvalidInput:
    return InvalidInput(
        "the question that was drawn asks for a call that is missing, so this person gives no answer; that is kept in "
        f"{path.name[:12]}… of the diary, and nothing is drawn again"
    )
