"""The store of a survey: SQLite in a file, or PostgreSQL for collectors on many machines; one schema for both.

One database holds one survey: which design, which wording, its files as they were when the survey began, and the reports.
A report is its identifier and its packed record (:mod:`optrr.survey.stored_records`); neither a time nor an address is kept. In
SQLite the reports lie in the order of their random identifiers, so the order in which people answered is not kept either.

What is committed is on disk: SQLite writes ahead and syncs at every commit (``synchronous=FULL``), PostgreSQL waits for its
own log (``synchronous_commit``), and one that was told not to sync at all is refused.

The files of a SQLite database are watched: SQLite goes on writing to files that were moved away or removed, and what it commits
there is lost, or found by nobody. So a batch is acknowledged only while the files are in their places. A file is known by its
device and its inode, which are its own only as long as it is open. SQLite removes its write-ahead log when the last connection
closes, and the next one makes another. So one connection is held open from beginning to end.

Group commit: while one batch of reports is being written to disk, the next one gathers. Each batch is one transaction and so
one sync of the disk, which takes the same time for one report as for a thousand. A report that comes alone is written at once;
it does not wait for others.
"""

import asyncio
import os
import secrets
import sqlite3
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from typing import Any
from urllib.parse import unquote

import sqlalchemy as sa
from sqlalchemy.schema import CreateTable

from optrr.core.errors import InvalidInput, in_one_line, not_installed

FORMAT = "optrr-survey/2"
IDENTIFIER_BYTES = 16

# Seconds that a connection waits for another one's write (SQLite) or for the server (PostgreSQL).
_PATIENCE = 10
# The number of the lock that a collector takes while it makes the tables, so that two which start together do not both make
# them. Any number will do.
_ADVISORY_LOCK = 0x6F707472

_metadata = sa.MetaData()
_surveys = sa.Table(
    "survey",
    _metadata,
    sa.Column("key", sa.Integer, sa.CheckConstraint("key = 1"), primary_key=True),
    sa.Column("format", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("wording", sa.Text, nullable=False),
    sa.Column("design", sa.LargeBinary, nullable=False),
    sa.Column("sampler", sa.LargeBinary, nullable=False),
    sa.Column("provenance", sa.Text, nullable=False),
)
reports = sa.Table(
    "reports",
    _metadata,
    sa.Column("identifier", sa.LargeBinary(IDENTIFIER_BYTES), primary_key=True),
    sa.Column("record", sa.LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)


@dataclass(frozen=True)
class SurveyFiles:
    """Files of a survey with the digests of its design and wording.

    The design file and the deployment file.

    The design's digest covers categories and probabilities alone, so that two surveys which ask different questions may have
    the same one; ``wording`` tells them apart (:attr:`optrr.survey.preparing.Survey.asked`).
    ``provenance`` is what its records say of their randomization, with an id that is drawn when the survey begins.
    """

    digest: str
    wording: str
    design: bytes
    sampler: bytes
    provenance: str = field(compare=False)


def database_url(text: str) -> sa.URL:
    """Parse the address of a database.

    ``postgresql://…``, ``sqlite:FILE``, ``sqlite:///FILE``, or the path of a SQLite file.

    Raises InvalidInput for another kind of database, or what is no address. The text is not repeated: it may hold a password.
    """
    if "://" not in text:
        file = text.removeprefix("sqlite:")
        if file in ("", ":memory:"):
            raise InvalidInput("a survey's reports cannot be kept in memory; give the path of a SQLite file")
        return sa.URL.create("sqlite", database=file)
    try:
        url = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError) as error:
        raise InvalidInput(
            "the address of the database cannot be read; write postgresql://user@host/name or sqlite:///path"
        ) from error
    kind = url.drivername.split("+")[0]
    if kind in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    if kind == "sqlite" and url.database not in (None, "", ":memory:"):
        return url.set(drivername="sqlite")
    missing = " without a file" if kind == "sqlite" else ""
    raise InvalidInput(
        f"a survey's reports cannot be kept in {kind!r}{missing}"
        "; give postgresql://user@host/name or the path of a SQLite file"
    )


def shown(url: sa.URL) -> str:
    """Return the address without its password."""
    if url.drivername == "sqlite":
        file = url.database or ""
        return unquote(file.removeprefix("file:")) if "uri" in url.query else file
    hidden = {key: "hidden" for key in url.query if key.endswith("password")}
    # without the name of the program that talks to it, which nobody wrote
    return url.set(drivername=url.get_backend_name()).update_query_dict(hidden).render_as_string(hide_password=True)


@contextmanager
def readable(url: sa.URL) -> Iterator[None]:
    """Convert database errors to one line that names the database."""
    try:
        yield
    except sa.exc.DBAPIError as error:
        sqlite = url.drivername == "sqlite"
        remedy = (
            "give a file of a survey, or a new one, in a folder that can be written"
            if sqlite
            else "check server and address"
        )
        raise InvalidInput(f"database {shown(url)}: {in_one_line(error.orig)}; {remedy}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"database {shown(url)} is damaged: it holds text that is none; restore a backup") from error
    except ModuleNotFoundError as error:
        raise not_installed(error, f"database {shown(url)} needs", "postgresql") from error


def open_database(url: sa.URL, lasting: bool = True) -> sa.Engine:
    """Create an engine whose commits are on disk when they return.

    ``lasting`` keeps connections open for reuse.
    """
    with readable(url):
        sqlite = url.drivername == "sqlite"
        arguments: dict[str, Any] = {"timeout": _PATIENCE} if sqlite else {"connect_timeout": _PATIENCE}
        pool = None if lasting else sa.NullPool
        engine = sa.create_engine(
            url, poolclass=pool, pool_pre_ping=lasting and not sqlite, connect_args=arguments, hide_parameters=True
        )
    sa.event.listen(engine, "connect", _durable_sqlite if sqlite else _durable_postgresql)
    return engine


def _durable_sqlite(connection: Any, _record: object) -> None:
    """Use a write-ahead log that is synced at every commit.

    On macOS also flush the disk's cache, which a plain sync does not.
    """
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "fullfsync=1"):
        connection.execute(f"PRAGMA {pragma}").fetchall()


def _durable_postgresql(connection: Any, _record: object) -> None:
    """Wait at every commit until its log is on the server's disk.

    This overrides the defaults of server and user.
    """
    connection.execute("SET synchronous_commit = on")
    syncs = connection.execute("SHOW fsync").fetchone()[0]
    connection.commit()
    if syncs != "on":
        raise InvalidInput("the PostgreSQL server runs with fsync off and can lose acknowledged reports; switch it on")


def begin_survey(engine: sa.Engine, files: SurveyFiles) -> None:
    """Make the tables, if they are not there, and say whose they are.

    Raises InvalidInput where the database holds a survey of another design, of other questions or of another format, or cannot
    be written.
    """
    _for_its_owner(engine.url)
    row = {"key": 1, "format": FORMAT, **asdict(files)}
    with readable(engine.url), engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        for table in (_surveys, reports):
            connection.execute(CreateTable(table, if_not_exists=True))
        if (held := _format_of(connection)) not in (None, FORMAT):
            raise InvalidInput(
                f"database {shown(engine.url)} has format {held!r}; this version writes {FORMAT!r}: give a new one"
            )
        connection.execute(insert_new(engine, _surveys), [row])
        kept = _held(connection)
    if kept.digest != files.digest:
        raise InvalidInput(
            f"database {shown(engine.url)} holds the reports of another design ({kept.digest[:12]}…, not "
            f"{files.digest[:12]}…); serve that design, or give another database"
        )
    if kept.wording != files.wording:
        raise InvalidInput(
            f"database {shown(engine.url)} holds answers to other questions: the title or the text of a question was "
            "another one when the survey began; serve it with those texts (a design: with ``wording``), or give another "
            "database"
        )


def _for_its_owner(url: sa.URL) -> None:
    """Create a missing SQLite file that only its owner can read.

    Its log and index inherit the permissions.

    Where that fails, SQLite fails as well, and is asked why.
    """
    if url.get_backend_name() == "sqlite":
        with suppress(OSError):
            os.close(os.open(shown(url), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def held_survey(engine: sa.Engine) -> SurveyFiles:
    """Read the survey that the database holds.

    Raises InvalidInput if there is none.
    """
    with readable(engine.url), engine.connect() as connection:
        if not sa.inspect(connection).has_table(_surveys.name):
            raise InvalidInput(f"database {shown(engine.url)} holds no survey; give one that `optrr serve` wrote")
        if _format_of(connection) != FORMAT:
            raise InvalidInput(
                f"database {shown(engine.url)} holds no survey of format {FORMAT!r}; give one that this version wrote"
            )
        return _held(connection)


def _held(connection: sa.Connection) -> SurveyFiles:
    """Read a survey of this format and check types, which SQLite does not enforce."""
    rows = connection.execute(sa.select(*(_surveys.c[each.name] for each in fields(SurveyFiles)))).all()
    if len(rows) != 1 or not all(map(isinstance, rows[0], (str, str, bytes, bytes, str))):
        raise InvalidInput(
            f"database {shown(connection.engine.url)} is damaged: it does not say what its survey is about; restore a backup"
        )
    return SurveyFiles(*rows[0])


def _format_of(connection: sa.Connection) -> str | None:
    """Read the format alone, because other formats may have other columns."""
    return connection.execute(sa.select(_surveys.c.format)).scalars().first()


def insert_new(engine: sa.Engine, table: sa.Table) -> Any:
    """INSERT that leaves out the rows whose key is there."""
    if engine.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql  # noqa: PLC0415 (one of the two is used)

        return postgresql.insert(table).on_conflict_do_nothing()
    from sqlalchemy.dialects import sqlite  # noqa: PLC0415

    return sqlite.insert(table).on_conflict_do_nothing()


class DatabaseFiles:
    """Identity of the files of an engine's database; empty for PostgreSQL.

    Raises InvalidInput where the database cannot be read.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._opened: dict[str, tuple[int, int] | None] = {}
        self._at_the_end: str | None = None
        self._held: sa.Connection | None = None
        if engine.dialect.name == "sqlite":
            with readable(engine.url):
                self._held = engine.connect()
                # the first reading opens the write-ahead log
                self._held.execute(sa.text("PRAGMA schema_version"))
                self._held.rollback()
            path = os.path.abspath(shown(engine.url))
            # SQLite keeps the log and its index beside the file that a link leads to
            beside = os.path.realpath(path)
            self._opened = {name: _identity(name) for name in (path, f"{beside}-wal", f"{beside}-shm")}
            sa.event.listen(engine, "do_connect", self._guard())

    def fault(self) -> str | None:
        """Name the file that was replaced since it was opened.

        After :meth:`close`, the file that was not there at that time.
        """
        if self._held is None:
            return self._at_the_end
        for path, opened in self._opened.items():
            now = _identity(path)
            if now != opened:
                happened = "was moved away or removed" if now is None else "was replaced by another"
                return f"a file of the database {happened} while in use: {path}"
        return None

    def close(self) -> None:
        """Hold the files no longer."""
        self._at_the_end = self.fault()
        if self._held is not None:
            self._held.close()
            self._held = None

    def _guard(self) -> Callable[..., None]:
        """Refuse connections to replaced files.

        SQLite would create empty files or mix those of two databases.
        """
        # the engine keeps what listens to it, and shall not keep the held connection by that
        weak = weakref.ref(self)

        def refuse(*_: Any) -> None:
            files = weak()
            fault = files.fault() if files else None
            if fault is not None:
                raise sqlite3.OperationalError(fault)

        return refuse


def _identity(path: str) -> tuple[int, int] | None:
    """Return device and inode of a path; None if nothing has it."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


# Characters of a database's message in a log.
_REASON = 200


@dataclass(frozen=True, slots=True)
class Report:
    """One respondent's report.

    16 bytes drawn by the client, and the packed randomized record.
    """

    identifier: bytes
    record: bytes


class Receipt(Enum):
    """Fate of a report: stored once, or its identifier has another record."""

    KEPT = "kept"
    CONFLICT = "conflict"


class StoreUnavailable(Exception):
    """The database cannot take a batch; no report of it may be acknowledged."""


class Store:
    """Reports of one survey; every method may be called from any thread."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._insert = insert_new(engine, reports)
        self.files = DatabaseFiles(engine)

    def add(self, batch: Sequence[Report]) -> list[Receipt]:
        """Keep every report once; on return all that are KEPT are on disk.

        A report that was there with the same record, or stands twice in the batch, is kept once and reported as KEPT again.

        Raises StoreUnavailable where the database fails, or its files are not in place. The batch may then be there or not:
        sending it again settles it.
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
        return {identifier: record for identifier, record in connection.execute(query)}

    def try_writing(self) -> None:
        """Write a report and remove it in one transaction that nobody else sees.

        It is written to disk as a batch is.

        A transaction that is rolled back would not do: SQLite writes nothing before it commits, so a full disk would not show.

        Raises StoreUnavailable where a batch could not be kept.
        """
        tried = secrets.token_bytes(IDENTIFIER_BYTES)
        with self._transaction() as connection:
            connection.execute(self._insert, [{"identifier": tried, "record": b""}])
            connection.execute(sa.delete(reports).where(reports.c.identifier == tried))

    def check_files(self) -> None:
        """Raise StoreUnavailable if the database's files were replaced."""
        fault = self.files.fault()
        if fault is not None:
            raise StoreUnavailable(fault)

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        """Run a transaction that is on disk when it returns, in the opened files."""
        self.check_files()
        try:
            with self._engine.begin() as connection:
                yield connection
        except sa.exc.OperationalError as error:
            # about the database (disk, connection, lock): the operator is told its own words
            raise StoreUnavailable(in_one_line(error.orig)[:_REASON]) from error
        except sa.exc.SQLAlchemyError as error:
            raise StoreUnavailable(type(error).__name__) from error
        self.check_files()


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
        """Store a report; return its receipt once it is on disk.

        Raises StoreUnavailable where too many reports wait, the collector ends, or the database fails: nothing may be
        acknowledged.
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
                for _, settled in batch:
                    if not settled.done():
                        settled.set_exception(_unavailable(error))
            else:
                self._note(None)
                for (_, settled), outcome in zip(batch, outcomes, strict=True):
                    if not settled.done():  # it is where the client went away meanwhile
                        settled.set_result(outcome)
        self._writer = None

    async def check(self) -> None:
        """Check that reports can be stored.

        The last write shows it, or a trial write if the last one is long ago.

        Raises StoreUnavailable where they cannot; also where the trial, which takes its turn among the batches, has not ended
        in two seconds.
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
        """Note the result of a write."""
        self._written = time.monotonic()
        self._failure = None if error is None else str(_unavailable(error))

    async def close(self) -> None:
        """Write what still waits, then stop; reports that come from now on are refused."""
        self._closed = True
        if self._writer is not None:
            await self._writer
        self._thread.shutdown()


def _unavailable(error: Exception) -> StoreUnavailable:
    return error if isinstance(error, StoreUnavailable) else StoreUnavailable(type(error).__name__)
