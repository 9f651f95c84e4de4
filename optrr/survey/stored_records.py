"""The randomized records of a survey as Arrow batches, from its database or while it runs.

What comes out has the attributes as columns and one row per report, in the order of the reports' random identifiers; the
identifiers stay behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

import msgspec
import pyarrow as pa
import sqlalchemy as sa

from optrr.errors import InvalidInput, in_one_line
from optrr.records.domain import Attribute, Category, Domain
from optrr.records.frames import RECORDS
from optrr.survey.database import database_url, held_survey, open_database, readable, reports, shown
from optrr.survey.packing import Packing

_SQLITE_HEADER = b"SQLite format 3\x00"


class _AttributeRecord(msgspec.Struct):
    name: str
    categories: list[Category]


class _DesignRecord(msgspec.Struct):
    attributes: list[_AttributeRecord]


def is_database(text: str) -> bool:
    """Whether this names a database: an address with ``://``, or a file that SQLite wrote."""
    if "://" in text:
        return True
    try:
        with Path(text).open("rb") as file:
            return file.read(len(_SQLITE_HEADER)) == _SQLITE_HEADER
    except OSError:
        return False


class StoredRecords:
    """The records of a survey's database, read anew by every iteration, as one consistent state of it.

    Iterates over record batches of at most 131,072 records; memory is that of one batch. ``domain`` declares the columns,
    ``digest`` says which design randomized them.

    Raises
    ------
    InvalidInput
        where there is no such database, or it holds no survey.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        held = held_survey(engine)
        self.digest = held.digest
        self.domain = _declared_domain(held.design)

    @classmethod
    def open(cls, text: str) -> StoredRecords:
        """The records of the database at this address."""
        url = database_url(text)
        if url.drivername == "sqlite":
            if not is_database(url.database or ""):
                raise InvalidInput(f"there is no survey's database {shown(url)}; name the file `optrr serve` writes")
            url = url.set(database=f"file:{quote(url.database or '')}", query={"mode": "rw", "uri": "true"})
        return cls(open_database(url))

    @cached_property
    def schema(self) -> pa.Schema:
        """One column per attribute: whole numbers, booleans or text, as its categories are."""
        return pa.schema([pa.field(a.name, _values(a).type) for a in self.domain])

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        packing = Packing(self.domain)
        values = [_values(a) for a in self.domain]
        query = sa.select(reports.c.record).order_by(reports.c.identifier)
        with readable(self._engine.url), self._engine.connect() as connection:
            rows = connection.execution_options(yield_per=RECORDS).execute(query).scalars()
            for part in rows.partitions():
                codes = packing.unpack(part)
                columns = [column.take(pa.array(codes[:, i])) for i, column in enumerate(values)]
                yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _declared_domain(design: bytes) -> Domain:
    """The domain of a design file, with its categories' types."""
    try:
        record = msgspec.json.decode(design, type=_DesignRecord)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"the database's design cannot be read: {in_one_line(error)}; restore a backup") from error
    return Domain(tuple(Attribute(a.name, tuple(a.categories)) for a in record.attributes))


def _values(attribute: Attribute) -> pa.Array:
    """The categories as one Arrow array: of their own type where they have one in common, else as text."""
    kinds = {type(c) for c in attribute.categories if c is not None}
    try:
        return pa.array(attribute.categories if len(kinds) == 1 else attribute.texts)
    except (OverflowError, pa.ArrowInvalid):  # whole numbers beyond 64 bits
        return pa.array(attribute.texts)
