"""One person's report, which is drawn once and remembered, and the reports of many, as a collector reads them.

A report is a randomized record or an answer as clients of a deployment file send it (``optrr-report/1``,
docs/deployment-format.md, §7): ``format``, ``design`` (the design's digest), ``id`` (128 random bits, so that a report
that is sent twice counts once), and ``values``, one category for each attribute in the design's order; null is the
missing category, or a missing call that stays missing where the design has none. By a design for association it has
``question`` and ``answer`` in their place (:mod:`optrr.genomics.sampled_variants`). It contains no name, no file and no
time.

A second draw for the same design would be a second release. So the Python client's diary stores the report, in one
small file for each design, and returns the same report again. The true record is never written.

The collector's side reads a folder of reports, or a file of one on each line. Each report is checked: that its design
is the one given, that its values are the design's, and that no other has its id. People are numbered from 1 in random
order, so rows cannot be linked to reports or to their senders.
"""

import hashlib
import importlib.util
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from optrr.core.design import Design
from optrr.core.display import amount
from optrr.core.errors import InvalidInput, in_one_line
from optrr.core.provenance import Provenance, Release, read_small
from optrr.genomics.cohort import Cohort
from optrr.genomics.genotypes import Codes
from optrr.genomics.layout import Layout, layout_of
from optrr.genomics.randomize import MissingPolicy
from optrr.genomics.sampled_variants import SampledVariants
from optrr_solvers.arrays import IntArray
from optrr_solvers.randomness import BitSource, RandomState, as_source, permutation

FORMAT = "optrr-report/1"
# A record of a hundred thousand variants with long alleles.
_MOST_BYTES = 1 << 24
# Endings of files of reports: of one, and of one on each line.
ENDING, ENDING_OF_MANY = ".json", ".jsonl"
# An ε as the client's diary has it.
_PLACES, _UP = Decimal("1e-15"), Context(prec=50, rounding=ROUND_CEILING)
_Number = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]


class SentReport(msgspec.Struct, forbid_unknown_fields=True):
    """A report as JSON; ``wording`` is added by a survey's page."""

    format: Literal["optrr-report/1"]
    design: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
    id: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
    values: tuple[str | None, ...] | msgspec.UnsetType = msgspec.UNSET
    question: _Number | msgspec.UnsetType = msgspec.UNSET
    answer: _Number | msgspec.UnsetType = msgspec.UNSET
    wording: str | msgspec.UnsetType = msgspec.UNSET


@cache
def python_client() -> Any:
    """Import the Python client, a single file.

    It is next to this module in a wheel and in ``clients/python`` in a checkout.
    """
    packed = Path(__file__).with_name("optrr_client.py")
    file = packed if packed.is_file() else Path(__file__).parents[2] / "clients" / "python" / packed.name
    spec = importlib.util.spec_from_file_location(packed.stem, file)
    assert spec is not None
    assert spec.loader is not None
    client = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(client)
    return client


def spent_in(folder: Path) -> float:
    """Total ε of everything in a diary, in nats."""
    return float(python_client().Diary(folder).ledger().total)


def holds_reports(place: Path) -> bool:
    """Check whether a path is a folder or has the ending of a file of reports."""
    return place.is_dir() or place.suffix.lower() == ENDING_OF_MANY


@dataclass(frozen=True, eq=False)
class CollectedReports:
    """Reports of different people in random order.

    Codes of records, (n, m), or queries and answers, (n, 2).

    ``notes``: how many files of the folder are no reports by their endings, in at most one line.
    """

    rows: Codes | IntArray
    provenance: Provenance
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class ReportedDesign(ABC):
    """A design with which each person can make a report locally."""

    design: Design | SampledVariants

    # Fields of a report in addition to its head.
    fields: ClassVar[tuple[str, ...]]

    @property
    @abstractmethod
    def max_conditional_epsilon(self) -> float:
        """Largest conditional ε of an attribute, in nats.

        It bounds the privacy loss about this attribute for an attacker who knows the others.
        """

    @property
    @abstractmethod
    def spent_said(self) -> str:
        """Statement of the ε of one person's report, in a sentence or two."""

    @property
    def layout(self) -> Layout:
        """Which attribute is which variant, and which the status."""
        return layout_of(self.design.domain)

    @abstractmethod
    def records(self, cohort: Cohort, missing: MissingPolicy = "refuse") -> Codes:
        """Build true records; see :func:`optrr.genomics.randomize.records_of`."""

    @abstractmethod
    def drawn(self, record: Codes, source: BitSource) -> dict[str, Any]:
        """Draw the ``fields`` of a report for one true record, (1, m).

        ``answer``: None for a missing call.
        """

    @abstractmethod
    def rows(self, given: Sequence[tuple[str, SentReport]]) -> Codes | IntArray:
        """Convert reports, each with its name in messages, to one row each.

        Raises InvalidInput for values and answers that are not the design's, never with the value.
        """

    def exposed(self, record: Codes) -> list[str]:
        """List facts that a report of this true record reveals and ε does not cover."""
        return []

    def report(
        self, person: Cohort, folder: Path, missing: MissingPolicy = "refuse", limit: float | None = None
    ) -> dict[str, Any]:
        """Draw one person's report, memoize it in the folder, and return it as JSON.

        Randomness comes from the operating system. Later calls return the memoized report.

        Parameters
        ----------
        person
            from :func:`optrr.genomics.read_person`.
        folder
            the person's diary, the Python client's; a report of this design that is there already is handed out again.
        limit
            most that everything in the diary may cost the person, in nats.

        Raises
        ------
        InvalidInput
            as :meth:`records`; for more than one person; above the limit, before anything is drawn; where the question
            that was drawn asks for a missing call, which is kept, too.
        """
        if person.n != 1:
            raise InvalidInput(
                f"a report is of one person, and these are {person.n} people; use read_person, or randomize for a "
                "cohort"
            )
        return self.report_once(lambda: self.records(person, missing), folder, limit)[0]

    def report_once(
        self, record: Callable[[], Codes], folder: Path, limit: float | None = None
    ) -> tuple[dict[str, Any], bool]:
        """Return the memoized report, or draw one for a record (1, m).

        See :meth:`report`; also returns whether the report is new.
        """
        client = python_client()
        # what the diary needs to know of a design, in place of a deployment file
        sampler = SimpleNamespace(
            design=self.design.digest.partition(":")[2],
            epsilon=Decimal(self.design.epsilon).quantize(_PLACES, context=_UP),
            codes=lambda true: true,
            report=lambda true: self.drawn_report(true, as_source(None)),
        )
        try:
            diary = client.Diary(folder, limit)
            report, new = diary.report(sampler), False
            if report is None:
                true = record()
                try:
                    report, new = diary.answer(sampler, true), True
                except client.AlreadyAnswered:
                    # another process was faster
                    report = diary.report(sampler)
        except client.Refused as error:
            raise InvalidInput(str(error)) from error
        if report.get("answer", 0) is None:
            raise InvalidInput(
                "the drawn query needs a missing call, so this person gives no answer; this is recorded in {folder}, "
                "and no query is drawn again"
            )
        return report, new

    def drawn_report(self, record: Codes, source: BitSource) -> dict[str, Any]:
        """Draw a report for one true record, (1, m).

        Every call is a release; :meth:`report` makes one for each design.
        """
        head = {"format": FORMAT, "design": self.design.digest.partition(":")[2], "id": secrets.token_hex(16)}
        return head | self.drawn(record, source)

    def collected(self, place: Path, random_state: RandomState = None) -> CollectedReports:
        """Read the reports of a folder, .json and .jsonl, or of one .jsonl file.

        Raises
        ------
        InvalidInput
            For no reports, two of one id, reports of another design, and values or answers that are not the design's;
            never with a value of a report.
        """
        if not place.exists():
            raise InvalidInput(f"{place} does not exist; name the folder of the reports, or a .jsonl file")
        files = [place]
        if place.is_dir():
            files = [path for path in sorted(place.iterdir()) if path.is_file() and not path.name.startswith(".")]
        of_reports = [path for path in files if path == place or path.suffix.lower() in (ENDING, ENDING_OF_MANY)]
        given = [(where, self._checked(raw, where)) for file in of_reports for where, raw in _reports_in(file)]
        if not given:
            raise InvalidInput(f"{place}: no reports; name the folder of the reports, or a .jsonl file")
        first: dict[str, str] = {}
        for where, report in given:
            if first.setdefault(report.id, where) != where:
                raise InvalidInput(f"{first[report.id]} and {where} are the same report; give it once")
        rows = self.rows(given)
        # made of the reports' own, so that the same reports are not taken for two releases
        ids = hashlib.sha256("\n".join([self.design.digest, *sorted(first)]).encode()).hexdigest()[:32]
        known = Provenance(Release.of(self.design, id=ids))
        shuffled = rows[permutation(as_source(random_state), len(given))]
        others = len(files) - len(of_reports)
        said = (f"left out because of their file name extensions: {amount(others, 'file')}",) if others else ()
        return CollectedReports(shuffled, known, said)

    def _checked(self, raw: bytes, where: str) -> SentReport:
        """Parse a report from JSON; its values are checked later."""
        try:
            record = msgspec.json.decode(raw, type=SentReport)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            # msgspec's message may contain the text of a key, never of a value
            said = in_one_line(error)[:120]
            raise InvalidInput(f"{where} is not a report: {said}; give the file unchanged") from error
        digest = self.design.digest.partition(":")[2]
        if record.design != digest:
            raise InvalidInput(
                f"{where} is a report by another design ({record.design[:12]}) than the one given ({digest[:12]}); "
                "give the design of the report"
            )
        held = [name for name in ("question", "answer", "values") if getattr(record, name) is not msgspec.UNSET]
        if tuple(held) != self.fields:
            raise InvalidInput(
                f"{where} lacks fields of its design ({' and '.join(self.fields)}); give the report unchanged"
            )
        return record


def _reports_in(path: Path) -> Iterator[tuple[str, bytes]]:
    """Iterate over the reports of a file, each with its name in messages."""
    try:
        held = read_small(path, _MOST_BYTES)
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {in_one_line(error.strerror or error)}; check the path") from error
    if path.suffix.lower() != ENDING_OF_MANY:
        yield str(path), held
        return
    for k, line in enumerate(held.split(b"\n"), start=1):
        if line.strip():
            yield f"{path}, line {k}", line
