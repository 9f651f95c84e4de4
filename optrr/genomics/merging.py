"""The collector's side: reports of many people as one file, in an order that says nothing.

Each report is checked: that its design is the one given, that its values are the design's, and that no other has its id. What
comes out has the people numbered 1 to n in random order. No file name, time or id is kept, so nothing leads from a row back to
the report, nor to whoever handed it in. It says of itself that it is one release by that design, under an id that is made from
the reports' own, so that merging the same reports again makes no second release of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from optrr.designs.design import Design
from optrr.errors import InvalidInput
from optrr.genomics.cohort import Cohort
from optrr.genomics.genotypes import Codes, MatrixGenotypes, Variants
from optrr.genomics.layout import Layout, layout_of
from optrr.genomics.person_reports import ENDINGS, PersonReport, codes_of, reports_in
from optrr.genomics.randomize import randomized_cohort, write_plink, write_records
from optrr.genomics.sampled_variants import SCHEMA, SampledVariants
from optrr.records.writing import released_file
from optrr.releases.account import Release
from optrr.releases.provenance import SHUFFLED, SUFFIX, Provenance
from optrr_solvers.arrays import IntArray
from optrr_solvers.randomness import RandomState, as_source, permutation


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
        variants = _variants(layout)
        people = np.array([str(k + 1) for k in range(len(self.rows))], dtype=object)
        true = Cohort(
            MatrixGenotypes(variants, people, np.zeros((people.size, len(variants)), np.int8)),
            np.arange(people.size),
            self.rows[:, layout.status].astype(np.int8),
        )
        return randomized_cohort(true, self.rows.astype(np.int8), layout)

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


def _variants(layout: Layout) -> Variants:
    """What a design knows of its variants: names and alleles."""
    named = Variants.named(list(layout.names))
    a1, a2 = (np.array([pair[k] or "." for pair in layout.alleles], dtype=object) for k in (0, 1))
    return Variants(named.chromosome, named.position, named.name, a1, a2)


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
    release = Release(asking.digest, asking.epsilon, seeded, "" if seeded else ids)
    order = permutation(as_source(random_state), len(given))
    return MergedReports(asking, rows[order], Provenance((release,), order=SHUFFLED))


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
    """Every report of these files and folders. Raises InvalidInput as :func:`optrr.genomics.person_reports.reports_in`."""
    for path in report_files(places)[0]:
        yield from reports_in(path, asking)
