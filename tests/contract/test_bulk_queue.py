"""Bulk work on PostgreSQL: handed out to workers, taken up again when one dies, counted once."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from procrastinate import App, PsycopgConnector
from tests.models.many_turns import record_turns, write_policy

from pointsman.app import Pointsman
from pointsman.bulk.jobs import BulkJobs
from pointsman.bulk.queue import QUEUE, SCHEMA, BulkQueue
from pointsman.bulk.reruns import REPLAY, ReplayGiven
from pointsman.bulk.verifying import VerifyGiven
from pointsman.cli.main import main
from pointsman.storage.postgres.place import PostgresStore

TURNS = 300
SHORT = 60


@pytest.fixture
def pointsman(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Pointsman]:
    """A home whose store is PostgreSQL, with some turns."""
    monkeypatch.setenv("POINTSMAN_STORE", postgres_url)
    write_policy(tmp_path / "home")
    with Pointsman(tmp_path / "home") as found:
        for _ in record_turns(found, 0, TURNS):
            pass
        yield found


@pytest.fixture
def jobs(pointsman: Pointsman) -> Iterator[BulkJobs]:
    with closing(BulkJobs(pointsman.home, pointsman.clock, pointsman.ids)) as found:
        yield found


def queue(pointsman: Pointsman, jobs: BulkJobs) -> BulkQueue:
    return BulkQueue(pointsman.home, jobs, stalled_s=0.5)


def identical(count: int = TURNS) -> str:
    return f"{count} of {count} decisions identical"


def test_two_processes_replay_and_verify_what_was_handed_out(
    pointsman: Pointsman, jobs: BulkJobs
) -> None:
    names = [
        jobs.begin("replay", ReplayGiven(length=SHORT)).id,
        jobs.begin("verify", VerifyGiven(length=SHORT)).id,
    ]
    for name in names:
        queue(pointsman, jobs).hand_out(name)
    asyncio.run(queue(pointsman, jobs).work(2, wait=False))
    replayed, verified = (jobs.store.job(name) for name in names)
    assert (replayed.told, replayed.is_clean) == (identical(), True)
    assert (verified.state, verified.is_clean) == ("done", True)


def test_what_a_dead_worker_held_is_handed_out_again(pointsman: Pointsman, jobs: BulkJobs) -> None:
    name = jobs.begin("replay", ReplayGiven(length=SHORT)).id
    queue(pointsman, jobs).hand_out(name)
    assert isinstance(pointsman.home.store, PostgresStore)
    conninfo = pointsman.home.store.conninfo(SCHEMA)

    async def take_one_and_die() -> None:
        app = App(connector=PsycopgConnector(conninfo=conninfo))
        async with app.open_async():
            worker = await app.job_manager.register_worker()
            taken = await app.job_manager.fetch_job(queues=[QUEUE], worker_id=worker)
            assert taken is not None

    asyncio.run(take_one_and_die())
    asyncio.run(queue(pointsman, jobs).work(1, wait=False))
    assert jobs.store.job(name).told == identical()


def test_a_queue_that_lost_its_tasks_gets_them_again(pointsman: Pointsman, jobs: BulkJobs) -> None:
    name = jobs.begin("replay", ReplayGiven(length=SHORT)).id
    queue(pointsman, jobs).hand_out(name)
    assert isinstance(pointsman.home.store, PostgresStore)
    with psycopg.connect(pointsman.home.store.conninfo(SCHEMA)) as connection:
        connection.execute("DELETE FROM procrastinate_jobs")
    asyncio.run(queue(pointsman, jobs).work(1, wait=False))
    assert jobs.store.job(name).told == identical()


def test_a_range_that_is_handed_out_twice_counts_once(pointsman: Pointsman, jobs: BulkJobs) -> None:
    name = jobs.begin("replay", ReplayGiven(length=SHORT)).id
    for _ in range(2):
        queue(pointsman, jobs).hand_out(name)
    asyncio.run(queue(pointsman, jobs).work(2, wait=False))
    job = jobs.store.job(name)
    assert (job.told, job.ranges_done) == (identical(), job.ranges)


def test_a_cancelled_job_leaves_workers_nothing_to_do(pointsman: Pointsman, jobs: BulkJobs) -> None:
    name = jobs.begin("replay", ReplayGiven(length=SHORT)).id
    queue(pointsman, jobs).hand_out(name)
    jobs.cancel(name)
    asyncio.run(queue(pointsman, jobs).work(1, wait=False))
    assert jobs.store.job(name).ranges_done == 0


def test_parts_are_those_of_sqlite(pointsman: Pointsman) -> None:
    given = b"{}"
    ranges = REPLAY.plan_ranges(pointsman.home, given)
    assert [REPLAY.part(pointsman.home, given, each) for each in ranges] == [
        b'{"identical":%d,"diverged":0,"unable":0,"others":[]}' % TURNS
    ]


@pytest.mark.slow
def test_a_worker_that_is_killed_is_replaced(
    pointsman: Pointsman, jobs: BulkJobs, capsys: pytest.CaptureFixture[str]
) -> None:
    name = jobs.begin("replay", ReplayGiven(length=10)).id
    queue(pointsman, jobs).hand_out(name)
    command = [sys.executable, "-m", "pointsman.cli", "bulk", "work", "--concurrency", "1"]
    script = "from pointsman.cli.main import main; main()"
    command[1:3] = ["-c", script]
    home = str(pointsman.home.path)
    with subprocess.Popen([*command, "--home", home], start_new_session=True) as worker:
        _until(lambda: jobs.store.job(name).ranges_done > 0)
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
    asyncio.run(queue(pointsman, jobs).work(1, wait=False))
    assert jobs.store.job(name).told == identical()
    with pytest.raises(SystemExit) as end:
        main(["bulk", "status", name, "--home", home])
    assert not end.value.code
    assert identical() in capsys.readouterr().out


def _until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)
