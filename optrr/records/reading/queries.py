"""Database queries as record batches, through libraries that hand out Arrow: DuckDB, and ADBC for SQLite and PostgreSQL."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa

from optrr.domain.domain import Domain
from optrr.errors import InvalidInput, in_one_line, not_installed
from optrr.records.frames import RECORDS
from optrr.records.reading.bytes_in import BoundedSource
from optrr.records.reading.source import RecordsAt

_DRIVERS = {
    "sqlite": "adbc_driver_sqlite",
    "postgresql": "adbc_driver_postgresql",
    "postgres": "adbc_driver_postgresql",
}
# What a connection string may hold and nobody else should read.
_PASSWORD = re.compile(r"(?<=:)[^:@/]+(?=@)")
# Rows from which SQLite's driver takes the types of the columns, unless it is told otherwise.
_TYPING_ROWS = 1024


class Query(BoundedSource):
    """The result of one SQL query, run again each time its batches are asked for."""

    def __init__(self, where: RecordsAt, domain: Domain | None) -> None:
        self._place = str(where.place)
        self._scheme = self._place.partition(":")[0]
        self._is_duckdb = self._scheme == "duckdb" or self._place.endswith((".duckdb", ".ddb"))
        self.name = _PASSWORD.sub("…", self._place)
        if not where.query:
            raise InvalidInput(f"{self.name} is a database; say which records with a query, --query 'SELECT …'")
        self._query = where.query
        self._cursor: Any = None
        # SQLite's columns have no types of their own: its driver takes them from the first rows
        rows = _TYPING_ROWS if self._scheme == "sqlite" else 0
        with closing(self._connected()) as connection:
            self.schema = self._run(
                connection, f"SELECT * FROM ({self._query.rstrip().rstrip(';')}) AS records LIMIT {rows}"
            ).schema

    def _connected(self) -> Any:
        if self._is_duckdb:
            duckdb = _library("duckdb")
            return self._asked(lambda: duckdb.connect(self._place.removeprefix("duckdb:"), read_only=True))
        driver = _library(f"{_DRIVERS[self._scheme]}.dbapi")
        file = self._place.partition(":")[2].removeprefix("//")
        return self._asked(lambda: driver.connect(file if self._scheme == "sqlite" else self._place))

    def _run(self, connection: Any, query: str) -> pa.RecordBatchReader:
        def reader() -> pa.RecordBatchReader:
            if self._is_duckdb:
                relation = connection.sql(query)
                # its name in older versions is now deprecated
                name = "to_arrow_reader" if hasattr(relation, "to_arrow_reader") else "fetch_record_batch"
                return getattr(relation, name)(RECORDS)
            # the records end where their cursor is thrown away, so it is kept
            self._cursor = connection.cursor()
            self._cursor.execute(query)
            return self._cursor.fetch_record_batch()

        return self._asked(reader)

    def _asked(self, ask: Any) -> Any:
        try:
            return ask()
        except Exception as error:  # every driver has errors of its own
            said = in_one_line(error).replace(self._place, self.name)[:300]
            raise InvalidInput(f"cannot read {self.name}: {said}; check the database and the query") from None

    def _read(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        with closing(self._connected()) as connection:
            try:
                for batch in self._run(connection, self._query):
                    yield batch.select(columns)
            except InvalidInput:
                raise
            except Exception:
                raise InvalidInput(
                    f"cannot read {self.name}: the query failed half-way; where a column's type changes from row to row, CAST "
                    "it in the query"
                ) from None


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise not_installed(error, "reading this database needs", "sql") from error
