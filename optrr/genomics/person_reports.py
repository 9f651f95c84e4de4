"""One person's report, which is drawn once and remembered, and the reports of many as a cohort to be tested.

A report is a randomized record or an answer as clients of a deployment file send it (``optrr-report/1``,
docs/deployment-format.md, §7): ``format``, ``design`` (the design's digest), ``id`` (128 random bits, so that a report that is
sent twice counts once), and ``values``, one category for each attribute in the design's order; null is the missing category, or
a missing call that stays missing where the design has none. By a design for association it has ``question`` and ``answer`` in
their place (:mod:`optrr.genomics.sampled_variants`). It names nobody, no file and no time.

A second draw for the same design would be a second release. So the Python client's diary keeps what was drawn, in one small
file for each design, and hands out the same report again. The true record is never written.

The collector's side reads a folder of reports, or a file of one on each line. Each report is checked: that its design is the
one given, that its values are the design's, and that no other has its id. People come out in random order and numbered from 1,
so that nothing leads from a row back to the report, nor to whoever handed it in.
"""

import hashlib
import importlib.util
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa

from optrr.core.design.design import Design
from optrr.core.domain.domain import Domain
from optrr.core.errors import InvalidInput, in_one_line
from optrr.core.provenance.accounting import Release
from optrr.core.provenance.provenance import Provenance
from optrr.core.provenance.sealed import read_small
from optrr.genomics.cohort import Cohort
from optrr.genomics.genotypes import MISSING, Codes, MatrixGenotypes, Variants
from optrr.genomics.layout import STATUS, layout_of
from optrr.genomics.randomize import randomize_records, randomized_cohort
from optrr.genomics.sampled_variants import SCHEMA, SampledVariants
from optrr_solvers.arrays import IntArray
from optrr_solvers.randomness import BitSource, RandomState, as_source, permutation

FORMAT = "optrr-report/1"
_DIGEST, _ID = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{32}")
# A record of a hundred thousand variants with long alleles.
_MOST_BYTES = 1 << 24
# Endings of files of reports: of one, and of one on each line.
ENDING, ENDING_OF_MANY = ".json", ".jsonl"
# An ε as the client's diary has it.
_PLACES, _UP = Decimal("1e-15"), Context(prec=50, rounding=ROUND_CEILING)
_Number = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]


class _SentReport(msgspec.Struct, forbid_unknown_fields=True):
    """A report as JSON; ``wording`` is what a survey's page adds."""

    format: str
    design: str
    id: str
    values: tuple[str | None, ...] | msgspec.UnsetType = msgspec.UNSET
    question: _Number | msgspec.UnsetType = msgspec.UNSET
    answer: _Number | msgspec.UnsetType = msgspec.UNSET
    wording: str | msgspec.UnsetType = msgspec.UNSET


@cache
def python_client() -> Any:
    """The Python client, one file of its own: beside this one in a wheel, in ``clients/python`` of a checkout."""
    packed = Path(__file__).with_name("optrr_client.py")
    file = packed if packed.is_file() else Path(__file__).parents[2] / "clients" / "python" / packed.name
    spec = importlib.util.spec_from_file_location(packed.stem, file)
    assert spec is not None
    assert spec.loader is not None
    client = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(client)
    return client


@dataclass(frozen=True)
class _Sampler:
    """What the client's diary needs to know of a design, in place of a deployment file."""

    asking: Design | SampledVariants

    @property
    def design(self) -> str:
        return self.asking.digest.partition(":")[2]

    @property
    def epsilon(self) -> Decimal:
        return Decimal(self.asking.epsilon).quantize(_PLACES, context=_UP)

    @staticmethod
    def codes(record: Codes) -> Codes:
        return record

    def report(self, record: Codes) -> dict[str, Any]:
        return drawn_report(self.asking, record, as_source(None))


def report_once(
    asking: Design | SampledVariants, record: Callable[[], Codes], folder: Path, limit: float | None = None
) -> tuple[dict[str, Any], bool]:
    """The report that the diary in this folder keeps for the design, or one that is drawn now and kept; and whether it is new.

    Parameters
    ----------
    record
        makes the true record, codes of the design's domain, shape (1, m); not called where a report is kept.
    folder
        of one person; made where it is not there.
    limit
        most that all designs in the diary may cost the person, in nats.

    Raises
    ------
    InvalidInput
        above the limit, before anything is drawn; for an entry that cannot be read; where the question that was drawn asks for
        a missing call, which is kept, too.
    """
    client, sampler = python_client(), _Sampler(asking)
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
            "the question that was drawn asks for a call that is missing, so this person gives no answer; that is kept in "
            f"{folder}, and nothing is drawn again"
        )
    return report, new


def spent_in(folder: Path) -> float:
    """Total ε of everything in a diary, in nats."""
    return float(python_client().Diary(folder).ledger().total)


def drawn_report(asking: Design | SampledVariants, record: Codes, source: BitSource) -> dict[str, Any]:
    """A fresh draw for one true record, (1, m); its ``answer`` is None where the call that is asked for is missing.

    Every call is a release: :func:`report_once` makes one for each design.
    """
    report = {"format": FORMAT, "design": asking.digest.partition(":")[2], "id": secrets.token_hex(16)}
    if isinstance(asking, SampledVariants):
        question, answer = (int(x[0]) for x in asking.answered(record, source))
        return report | ({"answer": None} if answer < 0 else {"question": question + 1, "answer": answer})
    drawn = record.copy()
    randomize_records(drawn, asking.mechanism, source)
    codes = zip(asking.domain, drawn[0].tolist(), strict=True)
    return report | {"values": [None if code == MISSING else a.texts[code] for a, code in codes]}


@dataclass(frozen=True, eq=False)
class CollectedReports:
    """Reports of different people in random order: codes of records, (n, m), or questions and answers, (n, 2).

    ``left_out`` counts files in the folder that are no reports by their endings.
    """

    asking: Design | SampledVariants
    rows: Codes | IntArray
    provenance: Provenance
    left_out: int = 0

    def cohort(self) -> Cohort:
        """Randomized genotypes and status. Raises InvalidInput for answers."""
        if isinstance(self.asking, SampledVariants):
            raise InvalidInput("these reports are answers to questions, and no records; take answers()")
        layout = layout_of(self.asking.domain)
        people = np.array([str(k + 1) for k in range(len(self.rows))], dtype=object)
        records, variants = self.rows.astype(np.int8), Variants.named(layout.names, layout.alleles, layout.places)
        nobody: Codes = np.zeros((people.size, len(variants)), np.int8)
        asked = Cohort(MatrixGenotypes(variants, people, nobody), np.arange(people.size), records[:, layout.status])
        return randomized_cohort(asked, records, layout)

    def answers(self) -> pa.Table:
        """Questions and answers. Raises InvalidInput for records."""
        if not isinstance(self.asking, SampledVariants):
            raise InvalidInput("these reports are records, and no answers to questions; take cohort()")
        columns = [pa.array(self.rows[:, k], pa.int32()) for k in range(len(SCHEMA))]
        return pa.Table.from_arrays(columns, schema=SCHEMA).replace_schema_metadata(self.provenance.metadata())


def holds_reports(place: Path) -> bool:
    """Whether a place is a folder, or a file of reports by its ending."""
    return place.is_dir() or place.suffix.lower() == ENDING_OF_MANY


def read_reports(asking: Design | SampledVariants, place: Path, random_state: RandomState = None) -> CollectedReports:
    """The reports of a folder, from its files .json and .jsonl, or of one file .jsonl.

    Raises
    ------
    InvalidInput
        for no reports, two of one id, reports of another design, and values or answers that are none of the design's; never
        with a value that a report holds.
    """
    files, left_out = _files(place)
    given = [each for file in files for each in _reports_in(file, asking)]
    if not given:
        raise InvalidInput(f"there are no reports in {place}; name the folder that holds them, or a file .jsonl")
    first: dict[str, str] = {}
    for where, report in given:
        if report.id in first:
            raise InvalidInput(f"{first[report.id]} and {where} are the same report; give it once")
        first[report.id] = where
    rows = _answers(asking, given) if isinstance(asking, SampledVariants) else _codes_of(given, asking.domain)
    # made of the reports' own, so that the same reports are not taken for two releases
    ids = hashlib.sha256("\n".join([asking.digest, *sorted(first)]).encode()).hexdigest()[:32]
    known = Provenance(Release.of(asking, id=ids))
    return CollectedReports(asking, rows[permutation(as_source(random_state), len(given))], known, left_out)


def _files(place: Path) -> tuple[list[Path], int]:
    """Files of reports, and how many others there are. Raises InvalidInput for a place that is not there."""
    if not place.exists():
        raise InvalidInput(f"{place} does not exist; name the folder that holds the reports, or a file .jsonl")
    if not place.is_dir():
        return [place], 0
    files = [path for path in sorted(place.iterdir()) if path.is_file() and not path.name.startswith(".")]
    reports = [path for path in files if path.suffix.lower() in (ENDING, ENDING_OF_MANY)]
    return reports, len(files) - len(reports)


def _reports_in(path: Path, asking: Design | SampledVariants) -> Iterator[tuple[str, _SentReport]]:
    """The reports of one file, each with what it is called in messages."""
    try:
        held = read_small(path, _MOST_BYTES)
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {in_one_line(error.strerror or error)}; check the path") from error
    if path.suffix.lower() != ENDING_OF_MANY:
        yield str(path), _checked(held, str(path), asking)
        return
    for k, line in enumerate(held.split(b"\n"), start=1):
        if line.strip():
            yield f"{path}, line {k}", _checked(line, f"{path}, line {k}", asking)


def _checked(raw: bytes, where: str, asking: Design | SampledVariants) -> _SentReport:
    """From JSON; its values are checked later. Raises InvalidInput as :func:`read_reports`."""
    try:
        record = msgspec.json.decode(raw, type=_SentReport)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        # what msgspec says may hold the text of a key, and never a value's
        raise InvalidInput(f"{where} is no report: {in_one_line(error)[:120]}; give what gwas-perturb wrote") from error
    if record.format != FORMAT:
        raise InvalidInput(f"{where} is no report (its format is {record.format[:40]!r}); give what gwas-perturb wrote")
    if not _DIGEST.fullmatch(record.design) or not _ID.fullmatch(record.id):
        raise InvalidInput(f"{where} has a digest or an id that is none; give the report as it was written")
    digest = asking.digest.partition(":")[2]
    if record.design != digest:
        raise InvalidInput(
            f"{where} is a report by another design ({record.design[:12]}) than the one given ({digest[:12]}); give the design "
            "that it was drawn by"
        )
    held = {name for name in ("values", *SCHEMA.names) if getattr(record, name) is not msgspec.UNSET}
    wanted = set(SCHEMA.names) if isinstance(asking, SampledVariants) else {"values"}
    if held != wanted:
        asked = " and ".join(sorted(wanted, reverse=True))
        raise InvalidInput(
            f"{where} does not have what its design asks for ({asked}); give the report as it was written"
        )
    return record


def _codes_of(given: Sequence[tuple[str, _SentReport]], domain: Domain) -> Codes:
    """Randomized records as codes, (n, m), MISSING where a call stays missing.

    Raises InvalidInput for values that are none of the design's, by their attribute.
    """
    out = np.empty((len(given), domain.m), dtype=np.int8)
    # a genotype may stay missing, and the status never does
    gone: dict[str | None, int] = {None: MISSING}
    codes = [({} if a.name == STATUS else gone) | {text: k for k, text in enumerate(a.texts)} for a in domain]
    for row, (where, report) in zip(out, given, strict=True):
        assert isinstance(report.values, tuple)
        if len(report.values) != domain.m:
            raise InvalidInput(
                f"{where} has {len(report.values)} values for {domain.m} attributes; give it as it was written"
            )
        try:
            row[:] = [known[value] for known, value in zip(codes, report.values, strict=True)]
        except KeyError:
            wrong = next(a.name for a, known, x in zip(domain, codes, report.values, strict=True) if x not in known)
            raise InvalidInput(
                f"{where} has a value of {wrong!r} that is none of its categories; give it as it was written"
            ) from None
    return out


def _answers(asking: SampledVariants, given: Sequence[tuple[str, _SentReport]]) -> IntArray:
    """Questions and answers, (n, 2). Raises InvalidInput for the first report that the design cannot have."""
    rows = np.array([[getattr(report, name) for name in SCHEMA.names] for _, report in given], dtype=np.int64)
    try:
        asking.told([(rows[:, 0] - 1, rows[:, 1])])
    except InvalidInput:
        for (where, _), row in zip(given, rows, strict=True):
            try:
                asking.told([(row[:1] - 1, row[1:])])
            except InvalidInput as error:
                raise InvalidInput(f"{where}: {error}") from error
    return rows
