"""The store of a survey: SQLite in a file, or PostgreSQL for collectors on several machines, with one schema for both.

One database holds one survey: its files and the reports. A report is its identifier and its packed record
(:mod:`optrr.survey.stored_records`), without time or address. When the collector stops, SQLite's file is rewritten in
the order of the random identifiers; until then, and in PostgreSQL, the places of the rows show the order of arrival.

Committed data is on disk: SQLite syncs at every commit (``synchronous=FULL``); PostgreSQL waits for its log
(``synchronous_commit``), and a server with fsync off is refused. SQLite continues to write to files that were moved or
removed, so a batch is acknowledged only while the files are those that were opened.

Group commit: while one batch of reports is written to disk, the next one is collected. A batch is one transaction and
one sync of the disk, which takes the same time for one report as for a thousand.
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

FORMAT = "optrr-survey/3"
IDENTIFIER_BYTES = 16

# Seconds that a connection waits for another write (SQLite) or for the server (PostgreSQL).
_PATIENCE = 10
# Arbitrary number of the lock that a collector holds while it makes the tables, so that two collectors do not both make them.
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
    # private key of the invitations; null if everybody may answer
    sa.Column("signer", sa.LargeBinary),
)
reports = sa.Table(
    "reports",
    _metadata,
    sa.Column("identifier", sa.LargeBinary(IDENTIFIER_BYTES), primary_key=True),
    sa.Column("record", sa.LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)
# Digest of each token, and the hidden value that was signed for it, if there is one (:mod:`optrr.survey.invitations`).
_invitations = sa.Table(
    "invitations",
    _metadata,
    sa.Column("digest", sa.LargeBinary(32), primary_key=True),
    sa.Column("hidden", sa.LargeBinary),
    sqlite_with_rowid=False,
)


@dataclass(frozen=True)
class SurveyFiles:
    """Design file and deployment file of a survey, the digests of design and wording, and the records' provenance."""

    digest: str
    wording: str
    design: bytes
    sampler: bytes
    provenance: str = field(compare=False)


def database_url(text: str) -> sa.URL:
    """Parse the address of a database.

    It is ``postgresql://…``, ``sqlite:FILE``, ``sqlite:///FILE``, or the path of a SQLite file. Raises InvalidInput for
    another kind of database, or an invalid address. The message does not repeat the text, which may contain a password.
    """
    if "://" not in text:
        file = text.removeprefix("sqlite:")
        if file in ("", ":memory:"):
            raise InvalidInput("a survey's reports cannot be stored in memory; give the path of a SQLite file")
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
        f"a survey's reports cannot be stored in {kind!r}{missing}; give postgresql://user@host/name or the path of "
        "a SQLite file"
    )


def shown(url: sa.URL) -> str:
    """Return the address without its password."""
    if url.drivername == "sqlite":
        file = url.database or ""
        return unquote(file.removeprefix("file:")) if "uri" in url.query else file
    hidden = {key: "hidden" for key in url.query if key.endswith("password")}
    # without the driver's name, which the user did not write
    return url.set(drivername=url.get_backend_name()).update_query_dict(hidden).render_as_string(hide_password=True)


@contextmanager
def readable(url: sa.URL) -> Iterator[None]:
    """Convert database errors to one line that names the database."""
    remedy = "check the server and the address"
    if url.drivername == "sqlite":
        remedy = "give the file of a survey, or a new file, in a folder with write permission"
    try:
        yield
    except sa.exc.DBAPIError as error:
        raise InvalidInput(f"database {shown(url)}: {in_one_line(error.orig)}; {remedy}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"database {shown(url)} is damaged: it contains invalid text; restore a backup") from error
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
    """Sync a write-ahead log at every commit; on macOS also flush the disk's cache."""
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "fullfsync=1"):
        connection.execute(f"PRAGMA {pragma}").fetchall()


def _durable_postgresql(connection: Any, _record: object) -> None:
    """Wait at every commit until its log is on the server's disk, whatever the defaults."""
    connection.execute("SET synchronous_commit = on")
    syncs = connection.execute("SHOW fsync").fetchone()[0]
    connection.commit()
    if syncs != "on":
        raise InvalidInput("the PostgreSQL server runs with fsync off and can lose acknowledged reports; switch it on")


def begin_survey(
    engine: sa.Engine, files: SurveyFiles, invite: Callable[[], tuple[bytes, list[bytes]]] | None = None
) -> bytes | None:
    """Make the tables if they do not exist, and check whose they are; return the key of the invitations, if any.

    ``invite`` draws the key, and digests of tokens, for a new survey. Raises InvalidInput if the database cannot be
    written, or holds a survey of another design, of other questions, of another format, or without the invitations.
    """
    _for_its_owner(engine.url)
    with readable(engine.url), engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        for table in _metadata.sorted_tables:
            connection.execute(CreateTable(table, if_not_exists=True))
        if (held := _format_of(connection)) not in (None, FORMAT):
            raise InvalidInput(
                f"database {shown(engine.url)} has format {held!r}, but this version writes {FORMAT!r}; give a new "
                "database"
            )
        row = insert_new(engine, _surveys).values(key=1, format=FORMAT, **asdict(files))
        began = connection.execute(row.returning(_surveys.c.key)).first() is not None
        kept = _held(connection)
        if began and invite is not None:
            signer, digests = invite()
            connection.execute(sa.update(_surveys).values(signer=signer))
            connection.execute(sa.insert(_invitations), [{"digest": digest} for digest in digests])
        held_signer: bytes | None = connection.execute(sa.select(_surveys.c.signer)).scalar_one()
    if kept.digest != files.digest:
        raise InvalidInput(
            f"database {shown(engine.url)} holds the reports of another design ({kept.digest[:12]}…, not "
            f"{files.digest[:12]}…); serve that design, or give another database"
        )
    if kept.wording != files.wording:
        raise InvalidInput(
            f"database {shown(engine.url)} holds answers to other questions: the title or the text of a question "
            "has changed since the survey began; serve it with the original texts (for a design: ``wording``), or "
            "give another database"
        )
    if invite is not None and held_signer is None:
        raise InvalidInput(
            f"database {shown(engine.url)} began as an open survey, without invitations; leave out ``invite``, or give "
            "another database"
        )
    return held_signer


def _for_its_owner(url: sa.URL) -> None:
    """Create a missing SQLite file that only its owner can read; SQLite reports an error of its own."""
    if url.get_backend_name() == "sqlite":
        with suppress(OSError):
            os.close(os.open(shown(url), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def held_survey(engine: sa.Engine) -> SurveyFiles:
    """Read the survey of the database; raise InvalidInput without one."""
    with readable(engine.url), engine.connect() as connection:
        if not sa.inspect(connection).has_table(_surveys.name):
            name = shown(engine.url)
            if engine.dialect.name == "sqlite":
                raise InvalidInput(
                    f"{name} is an SQLite database without a survey; read your own table with sqlite:{name} and "
                    "``query``, such as SELECT report FROM reports"
                )
            raise InvalidInput(f"database {name} holds no survey; give a database that `optrr serve` wrote")
        if (held := _format_of(connection)) != FORMAT:
            raise InvalidInput(
                f"database {shown(engine.url)} has format {held!r}, and this version reads {FORMAT!r}; read it with the "
                "version that wrote it"
            )
        return _held(connection)


def _held(connection: sa.Connection) -> SurveyFiles:
    """Read a survey of this format and check types, which SQLite does not enforce."""
    rows = connection.execute(sa.select(*(_surveys.c[each.name] for each in fields(SurveyFiles)))).all()
    if len(rows) != 1 or not all(map(isinstance, rows[0], (str, str, bytes, bytes, str))):
        raise InvalidInput(
            f"database {shown(connection.engine.url)} is damaged: it does not state its survey; restore a backup"
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
    """Identity of the files of an engine's database, by device and inode; empty for PostgreSQL.

    These are unique only while a file is open, so one connection stays open. Raises InvalidInput if the database
    cannot be read.
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
            # SQLite keeps the log and its index in the folder of a link's target
            beside = os.path.realpath(path)
            self._opened = {name: _identity(name) for name in (path, f"{beside}-wal", f"{beside}-shm")}
            sa.event.listen(engine, "do_connect", self._guard())

    def fault(self) -> str | None:
        """Name the file that was replaced since it was opened, or missing at :meth:`close`."""
        if self._held is None:
            return self._at_the_end
        for path, opened in self._opened.items():
            now = _identity(path)
            if now != opened:
                happened = "was moved or removed" if now is None else "was replaced by another"
                return f"a file of the database {happened} while in use: {path}"
        return None

    def close(self) -> None:
        """Hold the files no longer, and rewrite them: pages of SQLite list their rows by key, but keep the order of arrival."""
        self._at_the_end = self.fault()
        if self._held is not None:
            with suppress(sa.exc.DBAPIError):  # another collector, or a full disk; the last to stop rewrites them
                self._held.execution_options(isolation_level="AUTOCOMMIT").execute(sa.text("VACUUM"))
            self._held.close()
            self._held = None

    def _guard(self) -> Callable[..., None]:
        """Refuse connections to replaced files: SQLite would create empty ones or mix those of two databases."""
        # the engine keeps its listeners, which must not keep the open connection alive
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


# Maximum characters of a database's message in the log.
_REASON = 200


@dataclass(frozen=True, slots=True)
class Report:
    """One respondent's report: 16 bytes drawn by the client, and the packed randomized record."""

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
        """Store every report once; on return, all KEPT reports are on disk, also those that were stored before.

        Raises StoreUnavailable if the database fails, or its files are not in place. The batch may then be stored or
        not; sending it again settles it.
        """
        first: dict[bytes, bytes] = {}
        for report in batch:
            first.setdefault(report.identifier, report.record)
        # a common order avoids deadlocks between collectors that insert the same reports
        rows = [{"identifier": identifier, "record": first[identifier]} for identifier in sorted(first)]
        with self._transaction() as connection:
            added = connection.execute(self._insert, rows).rowcount
            if added < len(rows):
                query = sa.select(reports.c.identifier, reports.c.record)
                kept = connection.execute(query.where(reports.c.identifier.in_(list(first))))
                first = {identifier: record for identifier, record in kept}
        return [Receipt.KEPT if first[r.identifier] == r.record else Receipt.CONFLICT for r in batch]

    def claim(self, digest: bytes, hidden: bytes) -> bytes | None:
        """Bind a token to the first hidden value that is posted with it; return that one, or None for an unknown token.

        The value is on disk when this returns.
        """
        with self._transaction() as connection:
            mine, free = _invitations.c.digest == digest, _invitations.c.hidden.is_(None)
            connection.execute(sa.update(_invitations).where(mine, free).values(hidden=hidden))
            bound: bytes | None = connection.execute(sa.select(_invitations.c.hidden).where(mine)).scalar()
            return bound

    def try_writing(self) -> None:
        """Write a report and remove it in one transaction; raise StoreUnavailable if a batch could not be stored.

        Rolling back would not test the disk, because SQLite writes nothing before a commit.
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
            # an error of the database (disk, connection, lock): log its message for the operator
            raise StoreUnavailable(in_one_line(error.orig)[:_REASON]) from error
        except sa.exc.SQLAlchemyError as error:
            raise StoreUnavailable(type(error).__name__) from error
        self.check_files()


# Maximum reports of one transaction: enough to make the sync cheap, and below the 32,766 parameters of a SQLite statement.
_AT_ONCE = 1000
# Maximum number of reports that wait for the disk, for a few seconds; more are refused for now.
_WAITING = 10_000
# Seconds for which the last write answers a health request; any client may request it, so trial writes are at most one in this
# time.
FRESH_SECONDS = 5.0
# Seconds that a health request waits for a trial write, less than the timeout in deploy/Dockerfile.
TRIAL_SECONDS = 2.0


class GroupCommit:
    """Reports on their way to the store; for use on one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: deque[tuple[Report, asyncio.Future[Receipt]]] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._trial: asyncio.Task[None] | None = None
        # end of the last write, and the reason if it failed
        self._written = -FRESH_SECONDS
        self._failure: str | None = None
        self._closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="optrr-store")

    async def add(self, report: Report) -> Receipt:
        """Store a report; return its receipt once it is on disk; raise StoreUnavailable if nothing may be acknowledged."""
        if self._closed:
            raise StoreUnavailable("the collector is stopping")
        if len(self._waiting) >= _WAITING:
            raise StoreUnavailable("too many reports are waiting")
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
                    if not settled.done():  # the future is already done if the client has left
                        settled.set_result(outcome)
        self._writer = None

    async def claim(self, digest: bytes, hidden: bytes) -> bytes | None:
        """Claim an invitation between two batches; see :meth:`Store.claim`."""
        if self._closed:
            raise StoreUnavailable("the collector is stopping")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._store.claim, digest, hidden)
        except Exception as error:
            raise _unavailable(error) from error

    async def check(self) -> None:
        """Raise StoreUnavailable if reports cannot be stored.

        The last write shows it, or, if it is long ago, a trial write, which may take two seconds.
        """
        self._store.check_files()
        if self._closed:
            raise StoreUnavailable("the collector is stopping")
        if time.monotonic() - self._written >= FRESH_SECONDS:
            if self._trial is None or self._trial.done():
                self._trial = asyncio.create_task(self._try_writing())
            ended, _ = await asyncio.wait([self._trial], timeout=TRIAL_SECONDS)
            if not ended:
                raise StoreUnavailable(f"the database did not accept a trial write within {TRIAL_SECONDS:g} seconds")
        if self._failure is not None:
            raise StoreUnavailable(self._failure)

    async def _try_writing(self) -> None:
        tried = asyncio.get_running_loop().run_in_executor(self._thread, self._store.try_writing)
        (failure,) = await asyncio.gather(tried, return_exceptions=True)
        self._note(failure if isinstance(failure, Exception) else None)

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
