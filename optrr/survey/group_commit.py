"""Group commit: while one batch of reports is being written to disk, the next one gathers.

A sync takes the same time for one report as for a thousand, so reports that arrive together share one. A report that comes
alone is written at once; it does not wait for others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import ThreadPoolExecutor

from optrr.survey.store import Outcome, Report, Store, StoreUnavailable

# Reports of one transaction: enough to make the sync cheap, and below the 32,766 parameters of a SQLite statement.
_AT_ONCE = 1000
# Reports that may wait for the disk, a few seconds' worth; more are told to come again.
_WAITING = 10_000


class GroupCommit:
    """Reports on their way to the store; for use on one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: deque[tuple[Report, asyncio.Future[Outcome]]] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="optrr-store")

    async def add(self, report: Report) -> Outcome:
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
        settled: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
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
                _fail(batch, error)
            else:
                for (_, settled), outcome in zip(batch, outcomes, strict=True):
                    if not settled.done():  # it is where the client went away meanwhile
                        settled.set_result(outcome)
        self._writer = None

    async def close(self) -> None:
        """Write what still waits, then stop; reports that come from now on are refused."""
        self._closed = True
        if self._writer is not None:
            await self._writer
        self._thread.shutdown()


def _fail(batch: list[tuple[Report, asyncio.Future[Outcome]]], error: Exception) -> None:
    known = isinstance(error, StoreUnavailable)
    for _, settled in batch:
        if not settled.done():
            settled.set_exception(error if known else StoreUnavailable(type(error).__name__))
