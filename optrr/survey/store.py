"""The store: reports go to the database in batches, each batch one transaction and so one sync of the disk."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

import sqlalchemy as sa

from optrr.errors import in_one_line
from optrr.survey.database import IDENTIFIER_BYTES, insert_new, reports
from optrr.survey.database_files import DatabaseFiles

# Characters of a database's message in a log.
_REASON = 200


@dataclass(frozen=True, slots=True)
class Report:
    """One person's report: 16 bytes drawn by the client, and the packed randomized record."""

    identifier: bytes
    record: bytes


class Receipt(Enum):
    """What became of a report: it is on disk, once, or another record has its identifier."""

    KEPT = "kept"
    CONFLICT = "conflict"


class StoreUnavailable(Exception):
    """The database did not take a batch, or would not take one; no report of it may be acknowledged."""


class Store:
    """Reports of one survey; every method may be called from any thread."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._insert = insert_new(engine, reports)
        self.files = DatabaseFiles(engine)

    def add(self, batch: Sequence[Report]) -> list[Receipt]:
        """Keep every report once; on return all that are KEPT are on disk.

        A report that was there with the same record, or stands twice in the batch, is kept once and reported as KEPT again.

        Raises
        ------
        StoreUnavailable
            where the database fails, or its files are not in place. The batch may then be there or not: sending it again
            settles it.
        """
        first: dict[bytes, bytes] = {}
        for report in batch:
            first.setdefault(report.identifier, report.record)
        # in one order everywhere: two collectors that insert the same reports must not wait for each other
        rows = [{"identifier": identifier, "record": first[identifier]} for identifier in sorted(first)]
        with self._transaction() as connection:
            added = connection.execute(self._insert, rows).rowcount
            kept = first if added == len(rows) else self._kept(connection, first)
        return [Receipt.KEPT if kept[r.identifier] == r.record else Receipt.CONFLICT for r in batch]

    @staticmethod
    def _kept(connection: sa.Connection, wanted: dict[bytes, bytes]) -> dict[bytes, bytes]:
        query = sa.select(reports.c.identifier, reports.c.record).where(reports.c.identifier.in_(list(wanted)))
        return {bytes(identifier): bytes(record) for identifier, record in connection.execute(query)}

    def try_writing(self) -> None:
        """Write a report and remove it in one transaction, which nobody else sees; it goes to disk as a batch does.

        A transaction that is rolled back would not do: SQLite writes nothing before it commits, so a full disk would not show.

        Raises
        ------
        StoreUnavailable
            where a batch could not be kept.
        """
        tried = secrets.token_bytes(IDENTIFIER_BYTES)
        with self._transaction() as connection:
            connection.execute(self._insert, [{"identifier": tried, "record": b""}])
            connection.execute(sa.delete(reports).where(reports.c.identifier == tried))

    def check_files(self) -> None:
        """Raise StoreUnavailable where the database's files are no longer those that were opened."""
        fault = self.files.fault()
        if fault is not None:
            raise StoreUnavailable(fault)

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        """On return everything is on disk, in files that can be found."""
        self.check_files()
        try:
            with self._engine.begin() as connection:
                yield connection
        except sa.exc.SQLAlchemyError as error:
            raise StoreUnavailable(_reason(error)) from error
        self.check_files()

    def count(self) -> int:
        """Number of reports. Raises StoreUnavailable where the database fails."""
        try:
            with self._engine.connect() as connection:
                return connection.execute(sa.select(sa.func.count()).select_from(reports)).scalar_one()
        except sa.exc.SQLAlchemyError as error:
            raise StoreUnavailable(_reason(error)) from error


def _reason(error: sa.exc.SQLAlchemyError) -> str:
    """What the operator is told: the database's own words where they are about the database (disk, connection, lock)."""
    if isinstance(error, sa.exc.OperationalError):
        return in_one_line(error.orig)[:_REASON]
    return type(error).__name__
