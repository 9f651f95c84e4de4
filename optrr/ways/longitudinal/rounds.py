"""One round of reports from a file of true records: batch by batch, whole or not at all, and safe to repeat.

The true records need a column that names the person; it goes to the reports as it is, because estimates over several rounds
need to know which reports are one person's. Everything else is drawn from the key: the permanent answer from the person and
the record, the report from these and the round's name. So a round that is made again is the same reports, not further ones.
Their order is drawn anew each time, from the system's random bits: a place would tell about the true record, as in any
release. So does a person's name that was given in the order of the records, and it stays.

What a person spends is stated as the ε for ever, under an id that belongs to key and design. All rounds bear the same id, so
whatever adds releases up counts them once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optrr.domain.domain import Domain, category_text, listed, shown
from optrr.errors import InvalidInput
from optrr.mechanisms.release import FileRelease, ReleaseOptions
from optrr.records.frames import FrameCodec
from optrr.records.origins import randomized_before
from optrr.records.reading.registry import open_source
from optrr.records.reading.source import Places, Source
from optrr.records.writing import check_written_suffix, refuse_input_as_target, released_file
from optrr.releases.account import Release, check_limit
from optrr.releases.provenance import PERSON, Provenance
from optrr.ways.longitudinal.design import LongitudinalDesign
from optrr.ways.longitudinal.keyed import Key, permanent_answers, reports
from optrr_solvers.randomness import as_source

# So many names do not rise by chance: one order in ten million does.
_SOME = 11


def release_round(  # noqa: PLR0913 (what, by which design and key, of whom, in which round, where to)
    place: Places,
    design: LongitudinalDesign,
    target: str | Path,
    *,
    key: Key,
    round_name: str,
    person: str,
    options: ReleaseOptions | None = None,
) -> FileRelease:
    """Everybody's report of one round, into a CSV or Parquet file; returns how many there are, and what they say of themselves.

    Parameters
    ----------
    place
        the true records: one column per attribute, and ``person``; other columns are left out.
    key
        whoever makes the reports has it, and nobody who gets them.
    round_name
        any text; a round's name given twice gives the same reports twice.
    options
        what the release follows, a limit, and whether the order of the true records is kept; a longitudinal design's own
        earlier rounds are counted once.

    Raises
    ------
    InvalidInput
        for unusable columns, categories or people named twice; nothing is written.
    """
    path, how = Path(target), options or ReleaseOptions()
    check_written_suffix(path)
    source = open_source(place, design.domain)
    randomized_before(place, how.again, source)
    refuse_input_as_target(path, source)
    provenance = replace(round_provenance(design, key, how.earlier), order=how.order)
    check_limit(provenance.releases, how.limit)
    reader = _People(source, design.domain, person)
    with released_file(path, reader.output_schema, provenance) as writer:
        for batch in how.in_order(
            how.watched(_reports(reader, design, key, round_name)), as_source(None), writer.folder
        ):
            writer.write(batch)
        if not reader.codec.records:
            raise InvalidInput(f"{source.name} holds no records; give at least one")
    return FileRelease(reader.codec.records, provenance, warnings=reader.warnings())


def _reports(reader: _People, design: LongitudinalDesign, key: Key, round_name: str) -> Iterator[pa.RecordBatch]:
    for people, column, codes in reader.batches():
        answers = permanent_answers(design, key, people, codes)
        batch = reader.codec.decode(reports(design, key, round_name, people, answers))
        yield pa.RecordBatch.from_arrays([column, *batch.columns], schema=reader.output_schema)


def round_provenance(design: LongitudinalDesign, key: Key, earlier: Any = ()) -> Provenance:
    """What a round's reports say of themselves: ε for ever, under one id for all rounds."""
    release = Release(design.digest, design.epsilon, id=key.release_id(design.digest))
    return Provenance((release,), tuple(earlier), PERSON)


class _People:
    """Record batches as people's names, their column, and codes; refuses a person who stands in the data twice."""

    def __init__(self, source: Source, domain: Domain, person: str) -> None:
        names = source.column_names()
        if person in domain.names or person not in names:
            where = (
                "is an attribute of the design" if person in domain.names else f"is not in the data ({listed(names)})"
            )
            raise InvalidInput(f"column {shown(person)} {where}; name the column that tells people apart")
        self._source, self._person = source, person
        columns = [name for name in names if name in domain.names]
        self.codec = FrameCodec(domain, pa.schema([source.schema.field(name) for name in columns]))
        field = pa.field(person, source.schema.field(person).type)
        self.output_schema = pa.schema([field, *self.codec.output_schema])
        self._seen: set[str] = set()
        self._last, self._rises = (0, ""), True

    def warnings(self) -> tuple[str, ...]:
        """One line where people are named in the order of the true records."""
        if not self._rises or self.codec.records < _SOME:
            return ()
        return (
            f"the names in {shown(self._person)} rise from record to record, so whoever sorts by them has the order of the "
            "true records back, which no epsilon covers; name people at random",
        )

    def batches(self) -> Iterator[tuple[list[str], pa.Array, NDArray[np.int32]]]:
        columns = self.codec.schema.names
        for batch in self._source.batches([self._person, *columns]):
            first = self.codec.records
            people = people_of(batch.column(self._person), first)
            self._refuse_repeats(people, first)
            yield people, batch.column(self._person), self.codec.encode(batch.select(columns))

    def _refuse_repeats(self, people: list[str], first: int) -> None:
        for k, name in enumerate(people):
            if name in self._seen:
                raise InvalidInput(
                    f"the person of record {first + k + 1} stands in the data already; give one record of each person"
                )
            self._seen.add(name)
            # as numbers are ordered, and names with numbers behind them
            self._rises = self._rises and self._last < (len(name), name)
            self._last = len(name), name


def people_of(column: pa.Array, first_record: int = 0) -> list[str]:
    """Names of people as canonical texts, so that 7 is the same person in CSV and in Parquet.

    Raises
    ------
    InvalidInput
        where a name is missing.
    """
    texts = [category_text(value) for value in column.to_pylist()]
    if None in texts:
        raise InvalidInput(f"record {first_record + texts.index(None) + 1} names no person; give everybody a name")
    return [str(text) for text in texts]
