"""Bulk jobs on PostgreSQL: ranges as tasks of procrastinate, done by any number of workers.

The queue only says who does what next. Whether a range is done stands in the job's own tables, so a
task that is run twice, or lost, costs time and nothing else.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import Final

from procrastinate import App, PsycopgConnector, RetryStrategy, SyncPsycopgConnector
from procrastinate.exceptions import ProcrastinateException
from procrastinate.schema import SchemaManager
from procrastinate.types import JSONValue

from pointsman.audit.pool import WorkerPool, home_opener
from pointsman.audit.ranges import Range
from pointsman.bulk.jobs import BulkJobs, part_in_process
from pointsman.errors import HomeError
from pointsman.storage.home import Home
from pointsman.storage.postgres.connection import lock_key
from pointsman.storage.postgres.place import PostgresStore

SCHEMA: Final = "pointsman_queue"
QUEUE: Final = "bulk"
TASK: Final = "pointsman.bulk.range"
AT_ONCE: Final = 1_000
STALLED_S: Final = 10.0
"""A worker that was silent for so long is taken for dead, and its ranges are handed out again."""
LOOK_S: Final = 1.0


class BulkQueue:
    """The queue of one database."""

    def __init__(self, home: Home, jobs: BulkJobs, stalled_s: float = STALLED_S) -> None:
        if not isinstance(home.store, PostgresStore):
            raise HomeError("there is a queue only where the store is PostgreSQL")
        self._home, self._jobs, self._store = home, jobs, home.store
        self._stalled_s = stalled_s

    def prepare(self) -> None:
        """Make the queue's tables where there are none, one process at a time."""
        connection = self._store.connect(SCHEMA)
        try:
            raw = connection.raw
            raw.execute("SELECT pg_advisory_lock(%s)", (lock_key(SCHEMA),))
            found = raw.execute("SELECT to_regclass('procrastinate_jobs')").fetchone()
            if found == (None,):
                raw.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
                raw.execute(SchemaManager.get_schema())
        finally:
            connection.close()

    def hand_out(self, job: str) -> None:
        """Put every range of a job that is not done into the queue."""
        self.prepare()
        places = [each.place for each in self._jobs.store.waiting(job)]
        app = App(connector=SyncPsycopgConnector(conninfo=self._store.conninfo(SCHEMA)))
        with app.open():
            for start in range(0, len(places), AT_ONCE):
                tasks = [_task(job, place) for place in places[start : start + AT_ONCE]]
                app.configure_task(TASK, queue=QUEUE).batch_defer(*tasks)
        if not places:
            self._jobs.conclude(job)

    async def work(self, concurrency: int, *, wait: bool) -> None:
        """Do ranges in other processes until none is left; with `wait`, until told to end."""
        with _ended_by_signals():
            await self._work(concurrency, wait=wait)

    async def _work(self, concurrency: int, *, wait: bool) -> None:
        self.prepare()
        app = App(connector=PsycopgConnector(conninfo=self._store.conninfo(SCHEMA)))
        with closing(WorkerPool(concurrency)) as pool:
            self._take_tasks(app, pool)
            async with app.open_async():
                await self._return_stalled(app)
                watching = asyncio.create_task(self._watch(app))
                try:
                    await self._run(app, concurrency, wait=wait)
                    while not wait and self._is_left():
                        # Others are at it, or died at it.
                        await asyncio.sleep(min(LOOK_S, self._stalled_s))
                        await self._run(app, concurrency, wait=False)
                finally:
                    watching.cancel()
                    with suppress(asyncio.CancelledError):
                        await watching

    async def _run(self, app: App, concurrency: int, *, wait: bool) -> None:
        await app.run_worker_async(
            queues=[QUEUE],
            concurrency=concurrency,
            wait=wait,
            fetch_job_polling_interval=LOOK_S,
            update_heartbeat_interval=self._stalled_s / 5,
            stalled_worker_timeout=self._stalled_s,
            delete_jobs="always",
            # It would take them only after others can see it at work.
            install_signal_handlers=False,
        )

    def _is_left(self) -> bool:
        """Tell whether a range waits; a job whose ranges are all done is concluded now."""
        running = [self._jobs.conclude(job) for job in self._jobs.store.running()]
        return any(each.state == "running" for each in running)

    def _take_tasks(self, app: App, pool: WorkerPool) -> None:
        open_home = home_opener(self._home)

        def there(kind: str, given: bytes, each: Range) -> bytes:
            return pool.run(partial(part_in_process, open_home, kind, given), each)

        # Tried until it is done: `BulkJobs.do` ends the job where that makes no sense.
        @app.task(name=TASK, queue=QUEUE, retry=RetryStrategy(wait=1))
        async def one_range(job: str, place: int) -> None:
            await asyncio.to_thread(self._jobs.do, job, place, there)

    async def _watch(self, app: App) -> None:
        while True:
            await asyncio.sleep(self._stalled_s / 2)
            # A store that is away for a moment is asked again.
            with suppress(ProcrastinateException):
                await self._return_stalled(app)

    async def _return_stalled(self, app: App) -> None:
        """Hand out again the ranges of dead workers, and those the queue has lost."""
        stalled = await app.job_manager.get_stalled_jobs(
            queue=QUEUE, seconds_since_heartbeat=self._stalled_s
        )
        for each in stalled:
            await app.job_manager.retry_job(each)
        if await asyncio.to_thread(self._is_empty):
            for job in await asyncio.to_thread(self._jobs.store.running):
                await asyncio.to_thread(self.hand_out, job)

    def _is_empty(self) -> bool:
        with closing(self._store.connect(SCHEMA, is_reading=True)) as connection:
            wanted = "SELECT 1 FROM procrastinate_jobs WHERE queue_name = ? LIMIT 1"
            return connection.execute(wanted, (QUEUE,)).get is None


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """End after the ranges that are under way on SIGTERM and Ctrl+C."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if task is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, task.cancel)
    try:
        with suppress(asyncio.CancelledError):
            yield
    finally:
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(each)


def _task(job: str, place: int) -> dict[str, JSONValue]:
    return {"job": job, "place": place}
