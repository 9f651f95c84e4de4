"""The randomized records of a survey as Arrow batches, from its database, also while it runs.

Batches have the attributes as columns and one row per report, in the order of the reports' random identifiers, which
are left out. Answers to single questions have the columns ``table`` and ``cells``. The schema holds the provenance
metadata.

A randomized record is stored as a few bytes: the code of each attribute's category, little-endian and unsigned, in one
byte for at most 2^8 categories, two for at most 2^16, otherwise four. So a record of nine attributes takes nine bytes,
and a column of stored records becomes an array of codes without a loop. The answer to a question is stored as the
number of its table and its cells, ``3 0 2|1``, the text that clients send.
"""

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import quote

import msgspec
import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from optrr.allocation.sampled_tables import SCHEMA
from optrr.core.domain import DeclaredAttribute, Domain, ReleasedColumn
from optrr.core.errors import InvalidInput, in_one_line
from optrr.core.provenance import KEY, MALFORMED, SAMPLED_TABLES, format_of
from optrr.core.records import RECORDS, RecordsAt, Source
from optrr.devices.deployment_file import DeployedQuestions
from optrr.survey.store import database_url, held_survey, open_database, readable, reports, shown
from optrr_solvers.arrays import IntArray

_SQLITE_HEADER = b"SQLite format 3\x00"
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
# The struct module's letters for unsigned integers of 1, 2 and 4 bytes, by the number of categories they hold.
_WIDTHS = ((1 << 8, "B"), (1 << 16, "H"), (1 << 32, "I"))


class Packing:
    """Codes of records of ``domain`` to bytes and back."""

    def __init__(self, domain: Domain) -> None:
        self.sizes: tuple[int, ...] = tuple(int(r) for r in domain.sizes)
        letters = [next(letter for limit, letter in _WIDTHS if r <= limit) for r in self.sizes]
        self._struct = struct.Struct("<" + "".join(letters))
        kinds = {letter: np.dtype(f"<u{struct.calcsize('<' + letter)}") for _, letter in _WIDTHS}
        self._dtype = np.dtype([(f"f{i}", kinds[letter]) for i, letter in enumerate(letters)])

    @property
    def width(self) -> int:
        """Bytes of a packed record."""
        return self._struct.size

    def pack(self, codes: Sequence[int]) -> bytes:
        """Pack the valid codes of one record: m whole numbers in 0..r_i−1."""
        return self._struct.pack(*codes)

    def unpack(self, packed: Sequence[bytes]) -> IntArray:
        """Unpack records to codes, shape (n, m), column-major; raise InvalidInput if the store was changed."""
        # a modified database may hold anything here
        if any(not isinstance(record, bytes) or len(record) != self.width for record in packed):
            raise InvalidInput("a stored record does not have the width of the design's records; restore a backup")
        fields = np.frombuffer(b"".join(packed), dtype=self._dtype)
        codes = np.empty((len(packed), len(self.sizes)), dtype=np.int64, order="F")
        for i in range(len(self.sizes)):
            codes[:, i] = fields[f"f{i}"]
        if len(packed) and (codes.max(axis=0) >= self.sizes).any():
            raise InvalidInput("a stored record has a category that the design does not have; restore a backup")
        return codes


class AnswerPacking:
    """Answers to the questions of a deployment file to bytes and back."""

    def __init__(self, deployed: DeployedQuestions) -> None:
        self._deployed = deployed

    def pack(self, table: int, cells: str) -> bytes:
        """Pack an answer that a client can draw."""
        return f"{table} {cells}".encode("ascii")

    def unpack(self, packed: Sequence[bytes]) -> tuple[list[int], list[str]]:
        """Unpack the tables and the cells of answers; raise InvalidInput if the store was changed."""
        tables, cells = [], []
        for answer in packed:
            table, _, text = answer.decode("latin-1").partition(" ") if isinstance(answer, bytes) else ("", "", "")
            if not _NUMBER.fullmatch(table) or not self._deployed.members(int(table), text):
                raise InvalidInput("a stored answer does not fit the questions of the design; restore a backup")
            tables.append(int(table))
            cells.append(text)
        return tables, cells


class _StoredAttribute(DeclaredAttribute, forbid_unknown_fields=False, kw_only=True):
    """An attribute of a design file, without its ε."""


class _DesignRecord(msgspec.Struct):
    attributes: list[_StoredAttribute]


def survey_records(where: RecordsAt, _domain: Domain | None) -> "StoredRecords":
    """Open the records of a database, a SQLite file or ``postgresql://…``; raise InvalidInput if it holds no survey."""
    url = database_url(str(where.place))
    if url.drivername == "sqlite":
        if not is_sqlite(Path(url.database or "")):
            raise InvalidInput(f"there is no survey database {shown(url)}; name a file that `optrr serve` wrote")
        # this form does not create a missing file, and allows any character in its name
        url = url.set(database=f"file:{quote(url.database or '')}", query={"mode": "rw", "uri": "true"})
    return StoredRecords(open_database(url, lasting=False))


def is_sqlite(path: Path) -> bool:
    """Check whether SQLite wrote this file."""
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE_HEADER)) == _SQLITE_HEADER
    except OSError:
        return False


class StoredRecords(Source):
    """Records of a survey's database; each read sees one consistent state.

    ``domain`` declares the attributes, and ``digest`` is that of the design. Raises InvalidInput if the database holds
    no survey.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        held = held_survey(engine)
        self.digest = held.digest
        self.domain = _declared_domain(held.design)
        # every reader of records looks for provenance metadata under this key
        known = {KEY: held.provenance}
        asked = format_of(held.design).startswith(f"{SAMPLED_TABLES}/")
        self._answers = AnswerPacking(DeployedQuestions.read(held.sampler)) if asked else None
        columns = SCHEMA if asked else pa.schema([(a.name, ReleasedColumn(a).type) for a in self.domain])
        super().__init__(f"survey {shown(engine.url)}", columns.with_metadata(known), self._stored)

    def _stored(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Iterate over batches of these columns in the order of identifiers."""
        arrays = self._of_records(columns) if self._answers is None else partial(_of_answers, self._answers, columns)
        schema = pa.schema([self.schema.field(name) for name in columns])
        query = sa.select(reports.c.record).order_by(reports.c.identifier)
        with readable(self._engine.url), self._engine.connect() as connection:
            rows = connection.execution_options(yield_per=RECORDS).execute(query).scalars()
            for part in rows.partitions():
                yield pa.RecordBatch.from_arrays(arrays(part), schema=schema)

    def _of_records(self, columns: Sequence[str]) -> Callable[[Sequence[bytes]], list[pa.Array]]:
        packing = Packing(self.domain)
        chosen = [(self.domain.index(name), ReleasedColumn(self.domain[name])) for name in columns]

        def arrays(packed: Sequence[bytes]) -> list[pa.Array]:
            codes = packing.unpack(packed)
            return [codec.decode(codes[:, i]) for i, codec in chosen]

        return arrays


def _of_answers(packing: AnswerPacking, columns: Sequence[str], packed: Sequence[bytes]) -> list[pa.Array]:
    held = dict(zip(SCHEMA.names, packing.unpack(packed), strict=True))
    return [pa.array(held[name], SCHEMA.field(name).type) for name in columns]


def _declared_domain(design: bytes) -> Domain:
    """Read the domain with all declarations of a design file."""
    try:
        record = msgspec.json.decode(design, type=_DesignRecord)
    except MALFORMED as error:
        raise InvalidInput(f"the database's design cannot be read: {in_one_line(error)}; restore a backup") from error
    return Domain(tuple(a.attribute() for a in record.attributes))
