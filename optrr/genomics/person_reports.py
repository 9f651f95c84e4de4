"""One person's report: a randomized record or an answer, as it is sent (``optrr-report/1``, docs/deployment-format.md, §7).

As JSON it is what clients of a deployment file send: ``format``, ``design`` (the design's digest), ``id`` (128 random bits,
so that a report that is sent twice counts once), and ``values``, one category for each attribute in the design's order; null is
the missing category, or a missing call that stays missing where the design has none. By a design for association it has
``question`` and ``answer`` in their place (:mod:`optrr.genomics.sampled_variants`). It names nobody, no file and no time.

As CSV or Parquet it is a table of one record that carries its provenance; the release's id is the report's.

The collector's side are reports of many people as one file, in an order that says nothing. Each report is checked: that its
design is the one given, that its values are the design's, and that no other has its id. What comes out has the people numbered
1 to n in random order. No file name, time or id is kept, so nothing leads from a row back to the report, nor to whoever handed
it in. It says of itself that it is one release by that design, under an id that is made from the reports' own, so that merging
the same reports again makes no second release of them.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa

from optrr.designs.design import Design
from optrr.domain.domain import Domain
from optrr.errors import InvalidInput, in_one_line
from optrr.genomics.cohort import Cohort
from optrr.genomics.genotypes import MISSING, Codes, MatrixGenotypes, Variants
from optrr.genomics.layout import STATUS, layout_of
from optrr.genomics.randomize import randomize_records, randomized_cohort
from optrr.genomics.sampled_variants import SCHEMA, SampledVariants
from optrr.genomics.writing import write_plink, write_records
from optrr.mechanisms.mechanism import is_seeded
from optrr.records.reading.registry import open_source, origins_of
from optrr.records.whole_files import whole_file
from optrr.records.writing import released_file
from optrr.releases.accounting import Release
from optrr.releases.provenance import SUFFIX, Provenance
from optrr.releases.sealed import read_small
from optrr_solvers.arrays import IntArray
from optrr_solvers.randomness import BitSource, RandomState, as_source, permutation

FORMAT = "optrr-report/1"
_DIGEST, _ID = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{32}")
# A record of a hundred thousand variants with long alleles.
_MOST_BYTES = 1 << 24
_TABLES = (".csv", ".parquet")
_Number = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
# File endings of reports; a file .jsonl holds one on each line.
ENDINGS = (".json", ".jsonl", *_TABLES)


class _SentReport(msgspec.Struct, forbid_unknown_fields=True):
    """A report as JSON; ``wording`` is what a survey's page adds."""

    format: str
    design: str
    id: str
    values: tuple[str | None, ...] | msgspec.UnsetType = msgspec.UNSET
    question: _Number | msgspec.UnsetType = msgspec.UNSET
    answer: _Number | msgspec.UnsetType = msgspec.UNSET
    wording: str | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True)
class PersonReport:
    """What one person sends.

    Parameters
    ----------
    design
        digest of the design, ``sha256:`` and 64 hexadecimal digits.
    id
        32 hexadecimal digits, drawn once.
    values
        of a randomized record, one category each; empty for an answer.
    answer
        question and answer, by a design for association; None for a record.
    seeded
        whether it was drawn from a seed, so that it is not private.
    """

    design: str
    id: str
    values: tuple[str | None, ...] = ()
    answer: tuple[int, int] | None = None
    seeded: bool = False

    def to_record(self) -> dict[str, Any]:
        """The JSON object. Raises InvalidInput for what was drawn from a seed, of which it could not say so."""
        if self.seeded:
            raise InvalidInput(
                "this report was drawn from a seed, so it is not private and is not sent; leave out the seed"
            )
        asked = dict(zip(SCHEMA.names, self.answer, strict=True)) if self.answer else {"values": list(self.values)}
        return {"format": FORMAT, "design": self.design.partition(":")[2], "id": self.id, **asked}

    def write(self, target: Path, asking: Design | SampledVariants) -> None:
        """To a file .json, .csv or .parquet, whole or not at all. Raises InvalidInput for another ending."""
        if target.suffix.lower() == ".json":
            with whole_file(target) as partial:
                partial.write_bytes(msgspec.json.encode(self.to_record()) + b"\n")
            return
        known = Provenance(Release.of(asking, self.seeded, "" if self.seeded else self.id))
        if self.answer is not None:
            with released_file(target, SCHEMA, known) as writer:
                writer.write(pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, self.answer, strict=True))], SCHEMA))
            return
        write_records(codes_of([("the report", self)], asking.domain), asking.domain, np.array(["1"]), target, known)


def drawn_report(
    asking: Design | SampledVariants, record: Codes, random_state: RandomState | BitSource = None
) -> PersonReport | None:
    """A fresh draw for one true record, (1, m); None where the call that is asked for is missing, so that nobody answers.

    Every call is a release: :class:`optrr.genomics.diary.PersonDiary` makes one for each design.
    """
    source = as_source(random_state)
    frame: dict[str, Any] = {"design": asking.digest, "id": secrets.token_hex(16), "seeded": is_seeded(source)}
    if isinstance(asking, SampledVariants):
        question, answer = (int(x[0]) for x in asking.answered(record, source))
        return None if answer < 0 else PersonReport(**frame, answer=(question + 1, answer))
    drawn = record.copy()
    randomize_records(drawn, asking.mechanism, source)
    codes = drawn[0].tolist()
    values = (None if code == MISSING else a.texts[code] for a, code in zip(asking.domain, codes, strict=True))
    return PersonReport(**frame, values=tuple(values))


def reports_in(path: Path, asking: Design | SampledVariants) -> list[tuple[str, PersonReport]]:
    """The reports of one file, each with what it is called in messages.

    Raises InvalidInput for a file that holds none, or of another design, or drawn from a seed; never with a value that it
    holds.
    """
    if path.suffix.lower() in _TABLES:
        return [(str(path), _of_table(path, asking))]
    try:
        held = read_small(path, _MOST_BYTES)
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {in_one_line(error.strerror or error)}; check the path") from error
    if path.suffix.lower() != ".jsonl":
        return [(str(path), report_of(held, str(path), asking))]
    lines = [(f"{path}, line {k}", line) for k, line in enumerate(held.split(b"\n"), start=1) if line.strip()]
    return [(where, report_of(line, where, asking)) for where, line in lines]


def report_of(raw: bytes | dict[str, Any], where: str, asking: Design | SampledVariants) -> PersonReport:
    """From JSON, or from an object that it holds. Raises InvalidInput as :func:`reports_in`."""
    try:
        held = msgspec.json.decode(raw) if isinstance(raw, bytes) else raw
        record = msgspec.convert(held, _SentReport)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        # what msgspec says may hold the text of a key, and never a value's
        raise InvalidInput(f"{where} is no report: {in_one_line(error)[:120]}; give what gwas-perturb wrote") from error
    if record.format != FORMAT:
        raise InvalidInput(f"{where} is no report (its format is {record.format[:40]!r}); give what gwas-perturb wrote")
    if not _DIGEST.fullmatch(record.design) or not _ID.fullmatch(record.id):
        raise InvalidInput(f"{where} has a digest or an id that is none; give the report as it was written")
    _check_digest(where, f"sha256:{record.design}", asking)
    answered = isinstance(record.question, int) and isinstance(record.answer, int)
    if answered is not isinstance(asking, SampledVariants) or answered is not isinstance(
        record.values, msgspec.UnsetType
    ):
        wanted = "question and answer" if isinstance(asking, SampledVariants) else "values"
        raise InvalidInput(
            f"{where} does not have what its design asks for ({wanted}); give the report as it was written"
        )
    if answered:
        return PersonReport(asking.digest, record.id, answer=(record.question, record.answer))  # type: ignore[arg-type]
    return PersonReport(asking.digest, record.id, record.values)  # type: ignore[arg-type]


def _check_digest(where: str, digest: str, asking: Design | SampledVariants) -> None:
    if digest != asking.digest:
        raise InvalidInput(
            f"{where} is a report by another design ({digest[7:19]}) than the one given ({asking.digest[7:19]}); give the "
            "design that it was drawn by"
        )


def _of_table(path: Path, asking: Design | SampledVariants) -> PersonReport:
    """From a table of one record."""
    source = open_source(path)
    known = origins_of(path)[0]
    if known.provenance is None:
        raise InvalidInput(
            f"{path} has no provenance metadata; give the file as gwas-perturb wrote it, with its sidecar"
        )
    if len(known.provenance.releases) != 1:
        raise InvalidInput(
            f"{path} follows other releases of the same person, which merged reports cannot state; merge what was sent alone"
        )
    release = known.provenance.release
    _check_digest(str(path), release.design, asking)
    if release.seeded or not release.id:
        raise InvalidInput(f"{path} was drawn from a seed, so it is not private; give what the person's own draw wrote")
    names = SCHEMA.names if isinstance(asking, SampledVariants) else list(asking.domain.names)
    rows = [row for batch in source.batches(names) for row in batch.to_pylist()]
    if len(rows) != 1:
        raise InvalidInput(f"{path} holds {len(rows)} records, and a report is one person's; it need not be merged")
    values = tuple(None if rows[0][name] is None else str(rows[0][name]) for name in names)
    if not isinstance(asking, SampledVariants):
        return PersonReport(release.design, release.id, values)
    if not all(text and text.isascii() and text.isdigit() and len(text) < 10 for text in values):
        raise InvalidInput(f"{path} has no whole numbers as question and answer; give the file as it was written")
    return PersonReport(release.design, release.id, answer=(int(values[0] or ""), int(values[1] or "")))


def codes_of(reports: Sequence[tuple[str, PersonReport]], domain: Domain) -> Codes:
    """Randomized records as codes, (n, m), MISSING where a call stays missing.

    Raises InvalidInput for values that are none of the design's, by their attribute.
    """
    out = np.empty((len(reports), domain.m), dtype=np.int8)
    # a genotype may stay missing, and the status never does
    gone: dict[str | None, int] = {None: MISSING} if layout_of(domain).status is not None else {}
    codes = [({} if a.name == STATUS else gone) | {text: k for k, text in enumerate(a.texts)} for a in domain]
    for row, (where, report) in zip(out, reports, strict=True):
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


@dataclass(frozen=True, eq=False)
class MergedReports:
    """Reports of different people in random order: codes of records, (n, m), or questions and answers, (n, 2)."""

    asking: Design | SampledVariants
    rows: Codes | IntArray
    provenance: Provenance

    def cohort(self) -> Cohort:
        """Randomized genotypes and status. Raises InvalidInput for answers, and in the alleles layout."""
        layout = layout_of(self.asking.domain)
        if isinstance(self.asking, SampledVariants) or layout.status is None:
            raise InvalidInput("these reports hold no genotype beside a status; write them as .csv or .parquet")
        people = np.array([str(k + 1) for k in range(len(self.rows))], dtype=object)
        records, variants = self.rows.astype(np.int8), Variants.named(layout.names, layout.alleles)
        asked = Cohort(
            MatrixGenotypes(variants, people, np.zeros((people.size, len(variants)), np.int8)),
            np.arange(people.size),
            records[:, layout.status],
        )
        return randomized_cohort(asked, records, layout)

    def answers(self) -> pa.Table:
        """Questions and answers. Raises InvalidInput for records."""
        if not isinstance(self.asking, SampledVariants):
            raise InvalidInput("these reports are records, and no answers to questions; take cohort()")
        columns = [pa.array(self.rows[:, k], pa.int32()) for k in range(len(SCHEMA))]
        return pa.Table.from_arrays(columns, schema=SCHEMA).replace_schema_metadata(self.provenance.metadata())

    def write(self, target: Path) -> None:
        """To .bed (with .bim and .fam), .csv or .parquet. Raises InvalidInput for what that cannot hold."""
        if isinstance(self.asking, SampledVariants):
            with released_file(target, SCHEMA, self.provenance) as writer:
                for batch in self.answers().to_batches():
                    writer.write(batch)
        elif target.suffix.lower() == ".bed":
            write_plink(self.cohort(), target, self.provenance)
        else:
            people = np.arange(1, len(self.rows) + 1).astype(str).astype(object)
            write_records(self.rows.astype(np.int8), self.asking.domain, people, target, self.provenance)


def merged_reports(
    asking: Design | SampledVariants,
    reports: Iterable[tuple[str, PersonReport]],
    random_state: RandomState = None,
) -> MergedReports:
    """Reports, each with what it is called in messages, in random order.

    Raises
    ------
    InvalidInput
        for no reports, two of one id, and values or answers that are none of the design's.
    """
    given = list(reports)
    if not given:
        raise InvalidInput("there are no reports; name the folder that holds them")
    first: dict[str, str] = {}
    for where, report in given:
        if report.id in first:
            raise InvalidInput(f"{first[report.id]} and {where} are the same report; give it once")
        first[report.id] = where
    rows = _answers(asking, given) if isinstance(asking, SampledVariants) else codes_of(given, asking.domain)
    seeded = any(report.seeded for _, report in given)
    ids = hashlib.sha256("\n".join([asking.digest, *sorted(first)]).encode()).hexdigest()[:32]
    release = Release.of(asking, seeded, "" if seeded else ids)
    order = permutation(as_source(random_state), len(given))
    return MergedReports(asking, rows[order], Provenance(release))


def _answers(asking: SampledVariants, given: Sequence[tuple[str, PersonReport]]) -> IntArray:
    """Questions and answers, (n, 2). Raises InvalidInput for the first report that the design cannot have."""
    for where, report in given:
        if report.answer is None:
            raise InvalidInput(
                f"{where} is a record, and this design asks a question; give the design that it was drawn by"
            )
    rows = np.array([report.answer for _, report in given], dtype=np.int64)
    try:
        asking.told([(rows[:, 0] - 1, rows[:, 1])])
    except InvalidInput:
        for (where, _), row in zip(given, rows, strict=True):
            try:
                asking.told([(row[:1] - 1, row[1:])])
            except InvalidInput as error:
                raise InvalidInput(f"{where}: {error}") from error
    return rows


def report_files(places: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """The files of reports that are named, or lie in folders that are, and other files there.

    Raises InvalidInput for a place that is not there.
    """
    files: list[Path] = []
    others: list[Path] = []
    for place in places:
        if not place.is_dir():
            if not place.exists():
                raise InvalidInput(f"{place} does not exist; name reports, or the folder that holds them")
            files.append(place)
            continue
        for path in sorted(place.iterdir()):
            if path.is_file() and not path.name.startswith(".") and not path.name.endswith(SUFFIX):
                (files if path.suffix.lower() in ENDINGS else others).append(path)
    return files, others


def read_reports(places: Sequence[Path], asking: Design | SampledVariants) -> Iterator[tuple[str, PersonReport]]:
    """Every report of these files and folders. Raises InvalidInput as :func:`reports_in`."""
    for path in report_files(places)[0]:
        yield from reports_in(path, asking)
