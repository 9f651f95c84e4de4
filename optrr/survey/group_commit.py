"""Group commit: while one batch of reports is being written to disk, the next one gathers.

A sync takes the same time for one report as for a thousand, so reports that arrive together share one. A report that comes
alone is written at once; it does not wait for others.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor

from optrr.survey.store import Receipt, Report, Store, StoreUnavailable

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
