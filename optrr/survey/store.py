"""The store: reports go to the database in batches, each batch one transaction and so one sync of the disk.

Group commit: while one batch of reports is being written to disk, the next one gathers.

A sync takes the same time for one report as for a thousand, so reports that arrive together share one. A report that comes
alone is written at once; it does not wait for others.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

import sqlalchemy as sa

from optrr.errors import in_one_line
from optrr.survey.database import IDENTIFIER_BYTES, DatabaseFiles, insert_new, reports

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


# Reports of one transaction: enough to make the sync cheap, and below the 32,766 parameters of a SQLite statement.
_AT_ONCE = 1000
# Reports that may wait for the disk, a few seconds' worth; more are told to come again.
_WAITING = 10_000
# Seconds for which the last write shows whether reports can be kept. Anybody may ask for health, and causes no more trial
# writes than one in this time.
FRESH_SECONDS = 5.0
# Seconds that a question for health waits for a trial write: less than those who ask (deploy/Dockerfile) wait for the answer.
TRIAL_SECONDS = 2.0


class GroupCommit:
    """Reports on their way to the store; for use on one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: deque[tuple[Report, asyncio.Future[Receipt]]] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._trial: asyncio.Task[None] | None = None
        # when the last write ended, and why it failed, if it did
        self._written = -FRESH_SECONDS
        self._failure: str | None = None
        self._closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="optrr-store")

    async def add(self, report: Report) -> Receipt:
        """What became of the report, once it is on disk.

        Raises
        ------
        StoreUnavailable
            where too many reports wait, the collector ends, or the database fails: nothing may be acknowledged.
        """
        if self._closed:
            raise StoreUnavailable("the collector is ending")
        if len(self._waiting) >= _WAITING:
            raise StoreUnavailable("too many reports wait")
        settled: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self._waiting.append((report, settled))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())
        return await settled

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(_AT_ONCE, len(self._waiting)))]
            written = loop.run_in_executor(self._thread, self._store.add, [report for report, _ in batch])
            try:
                outcomes = await written
            except Exception as error:
                self._note(error)
                _fail(batch, error)
            else:
                self._note(None)
                for (_, settled), outcome in zip(batch, outcomes, strict=True):
                    if not settled.done():  # it is where the client went away meanwhile
                        settled.set_result(outcome)
        self._writer = None

    async def check(self) -> None:
        """Return where reports can be kept, as the last write shows, or a trial write where the last one is long ago.

        Raises
        ------
        StoreUnavailable
            where they cannot; also where the trial, which takes its turn among the batches, has not ended in two seconds.
        """
        self._store.check_files()
        if self._closed:
            raise StoreUnavailable("the collector is ending")
        if time.monotonic() - self._written >= FRESH_SECONDS:
            if self._trial is None or self._trial.done():
                self._trial = asyncio.create_task(self._try_writing())
            ended, _ = await asyncio.wait([self._trial], timeout=TRIAL_SECONDS)
            if not ended:
                raise StoreUnavailable(f"the database has not taken a trial write in {TRIAL_SECONDS:g} seconds")
        if self._failure is not None:
            raise StoreUnavailable(self._failure)

    async def _try_writing(self) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._store.try_writing)
        except Exception as error:
            self._note(error)
        else:
            self._note(None)

    def _note(self, error: Exception | None) -> None:
        """What a write has shown."""
        self._written = time.monotonic()
        self._failure = None if error is None else str(_unavailable(error))

    async def close(self) -> None:
        """Write what still waits, then stop; reports that come from now on are refused."""
        self._closed = True
        if self._writer is not None:
            await self._writer
        self._thread.shutdown()


def _fail(batch: list[tuple[Report, asyncio.Future[Receipt]]], error: Exception) -> None:
    unavailable = _unavailable(error)
    for _, settled in batch:
        if not settled.done():
            settled.set_exception(unavailable)


def _unavailable(error: Exception) -> StoreUnavailable:
    return error if isinstance(error, StoreUnavailable) else StoreUnavailable(type(error).__name__)
