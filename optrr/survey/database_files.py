"""The files of a SQLite database, watched: SQLite goes on writing to files that were moved away or removed.

What it commits there is lost, or found by nobody. So a batch is acknowledged only while the files are in their places.

A file is known by its device and its inode, which are its own only as long as it is open. SQLite removes its write-ahead log
when the last connection closes, and the next one makes another. So one connection is held open from beginning to end.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from optrr.survey.database import readable, shown


class DatabaseFiles:
    """The files that an engine's database has from now on, and what has become of them; none where it is PostgreSQL.

    Raises
    ------
    InvalidInput
        where the database cannot be read.
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
        """Which file is no longer the one that was opened; after :meth:`close`, which one was not when it came."""
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
        """Lets no connection be opened to other files: SQLite would make empty ones, or mix two databases' files."""
        # the engine keeps what listens to it, and shall not keep the held connection by that
        weak = weakref.ref(self)

        def refuse(*_: Any) -> None:
            files = weak()
            fault = files.fault() if files else None
            if fault is not None:
                raise sqlite3.OperationalError(fault)

        return refuse


def _identity(path: str) -> tuple[int, int] | None:
    """Device and inode of what has this path; None where nothing has."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
