"""Sole rights: one has it at a time, and whoever lost it writes nothing more under it."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from tests.gateway.house import eventually

from pointsman.app import Pointsman
from pointsman.approvals.approvals import LOCK
from pointsman.approvals.proposal import ActionProposal
from pointsman.cli.sensor import _run_until_interrupted, service_of
from pointsman.errors import ChainHeld, LeaseLost, PolicyMoved
from pointsman.governance.action import Actor
from pointsman.jobs.request import JobRequest
from pointsman.kernel.entry import Draft
from pointsman.operations.rules.publishing import LEASE, Publisher
from pointsman.storage.home import open_home
from pointsman.storage.place import Store
from pointsman.storage.policies.publications import PUBLISHED, succession
from pointsman.storage.policies.settings import WorkflowSettings
from pointsman.storage.postgres.connection import lock_key
from pointsman.storage.postgres.place import PostgresStore
from pointsman.storage.store_url import opened_store
from pointsman.storage.stores.entries import LedgerReader
from pointsman.testing.builders import START
from pointsman.workflows.workflow import WorkflowRunner, WorkflowText

HELD = """
SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
AND (classid::bigint << 32) | objid::bigint = %s
"""
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = %s"
MODELS = """
schema_version: 1
providers:
  acme: {kind: openai, base_url: "https://llm.example/v1", api_key: {env: ACME_KEY}}
models:
  acme:one: {location: cloud, price: {input: 3, output: 15}}
  acme:two: {location: cloud, price: {input: 1, output: 5}}
"""
FLOW = b"""
workflow:
  id: flow
  stages:
    - {id: first, run: {python: "stages:waits"}}
    - {id: second, run: {python: "stages:counts"}}
"""
STAGES = """
import pathlib, time

def waits(context):
    pathlib.Path("began").touch()
    while not pathlib.Path("go").exists():
        time.sleep(0.01)

def counts(context):
    pathlib.Path("second").touch()
"""


def test_one_has_a_right_at_a_time(store: Store) -> None:
    lease = store.lease("work")
    with pytest.raises(ChainHeld):
        store.lease("work")
    store.lease("other work").release()
    lease.release()
    store.lease("work").release()


def test_who_waits_has_it_next(store: Store) -> None:
    lease, order = store.lease("work"), []

    def wait() -> None:
        with closing_lease(store, "work", waits=True):
            order.append("second")

    thread = threading.Thread(target=wait)
    thread.start()
    order.append("first")
    lease.release()
    thread.join(30)
    assert order == ["first", "second"]


@contextmanager
def closing_lease(store: Store, name: str, *, waits: bool = False) -> Iterator[None]:
    lease = store.lease(name, waits=waits)
    try:
        yield
    finally:
        lease.release()


class Server:
    """A PostgreSQL store, and what a failing network does to who uses it."""

    def __init__(self, url: str, path: Path) -> None:
        self.url = url
        self.path = path
        self.store = opened(url, path)
        self._admin = psycopg.connect(url, autocommit=True)

    def lose(self, name: str) -> None:
        """End the connection that holds a right; its holder is not asked."""
        key = lock_key(f"lease/{name}")
        ((pid,),) = self._admin.execute(HELD, (key,)).fetchall()
        self._admin.execute("SELECT pg_terminate_backend(%s)", (pid,))
        eventually(lambda: not self._admin.execute(HELD, (key,)).fetchall())

    def waits(self) -> bool:
        """Tell whether somebody waits for a lock."""
        ((found,),) = self._admin.execute(WAITING, (self._admin.info.dbname,)).fetchall()
        return bool(found)

    def close(self) -> None:
        self._admin.close()


def opened(url: str, path: Path) -> PostgresStore:
    found = opened_store(path, url)
    assert isinstance(found, PostgresStore)
    return found


@pytest.fixture
def server(store_url: str, tmp_path: Path) -> Iterator[Server]:
    with closing(Server(store_url, tmp_path)) as found:
        yield found


def test_a_right_that_is_lost_and_that_nobody_took_is_taken_again(server: Server) -> None:
    lease = server.store.lease("work")
    before = lease.fence()
    server.lose("work")
    assert lease.fence() == before
    with pytest.raises(ChainHeld):
        server.store.lease("work")
    lease.release()


@pytest.mark.parametrize("is_over", [False, True])
def test_a_right_that_another_has_or_had_is_lost_for_good(server: Server, is_over: bool) -> None:
    lease = server.store.lease("work")
    server.lose("work")
    other = server.store.lease("work")
    if is_over:
        other.release()
    for _ in range(2):
        with pytest.raises(LeaseLost, match="another process took over `work`"):
            lease.fence()
    lease.release()
    if not is_over:
        assert other.fence()
        other.release()


def test_what_rests_on_a_lost_right_is_not_written_and_the_ledger_goes_on(
    server: Server, tmp_path: Path
) -> None:
    with Pointsman(tmp_path, store=server.url) as pointsman:
        recorder = pointsman.decision_recorder.recorder()
        lease = pointsman.home.lease("work")
        assert recorder.record_under(lease, a_draft("one")).entry.id == "one"
        fence = lease.fence()
        server.lose("work")
        other = pointsman.home.lease("work")
        assert fence is not None
        # As when the right goes between the last look at it and the write.
        with pytest.raises(LeaseLost, match="nothing is written"):
            recorder._ledger.record_under(a_draft("two"), fence)
        assert recorder.health.is_writable
        recorder.record_under(other, a_draft("three"))
        recorder.record(a_draft("four"))
        assert [each.id for each in entries(pointsman, "event.test")] == ["one", "three", "four"]
        assert pointsman.verify().is_intact
        other.release()
        lease.release()


def test_who_takes_a_right_waits_for_what_is_written_under_it(server: Server) -> None:
    """Whoever has it next sees all that was written under it before."""
    lease = server.store.lease("work")
    fence = lease.fence()
    with psycopg.connect(server.url) as writing, ThreadPoolExecutor(1) as pool:
        writing.execute(
            "SELECT 1 FROM pointsman.leases WHERE name = %s AND token = %s FOR SHARE",
            (fence.name, fence.token),
        )
        server.lose("work")
        taking = pool.submit(server.store.lease, "work")
        eventually(server.waits)
        assert not taking.done()
        writing.commit()
        taking.result(30).release()
    lease.release()


def a_draft(name: str) -> Draft:
    return Draft("event.test", name, "", START, b"{}")


def entries(pointsman: Pointsman, kind: str) -> list[Draft]:
    with closing(LedgerReader(pointsman.home.database)) as reader:
        return [each.entry for each in reader.of_kind(kind)]  # type: ignore[misc] # only looked at


@pytest.fixture
def machines(server: Server) -> Iterator[Callable[[str], Pointsman]]:
    """Give machines with folders of their own that share a ledger."""
    first = server.path / "first"
    with ExitStack() as stack:

        def machine(name: str) -> Pointsman:
            folder = server.path / name
            folder.mkdir(mode=0o700)
            if folder != first:
                shutil.copy2(first / "identity.json", folder)
                shutil.copytree(first / "keys", folder / "keys", copy_function=shutil.copy2)
            (folder / "pointsman.yaml").write_text("policy: {source: ledger}\n")
            (folder / "models.yaml").write_text(MODELS)
            route(folder, "acme:one")
            made = stack.enter_context(Pointsman(folder, store=server.url))
            made.decision_recorder.recorder()
            return made

        yield machine


def route(folder: Path, default: str) -> None:
    (folder / "routing.yaml").write_bytes(routing(default))


def routing(default: str) -> bytes:
    return f"schema_version: 1\nglobal_default: {default}\n".encode()


def test_a_publisher_that_lost_its_right_midway_cannot_fork_the_succession(
    server: Server, machines: Callable[[str], Pointsman]
) -> None:
    slow, quick = machines("first"), machines("second")
    first = slow.publish(slow.publishing().candidate(), "anna")
    route(slow.home.path, "acme:two")
    late = slow.publishing().candidate()
    lease, sources = slow.home.lease(LEASE), (slow.clock, slow.ids)
    with closing(LedgerReader(slow.home.database)) as reader:
        before = succession(reader, slow.home)
        server.lose(LEASE)
        quick.publishing().look()
        given = quick.publishing().compile_with("routing.yaml", routing("acme:two") + b"# hers\n")
        second = quick.publish(given, "berta")
        publisher = Publisher(slow.home, slow.decision_recorder.recorder(), sources, reader, lease)
        with pytest.raises(LeaseLost):
            publisher.publish(late, before, "anna")
        after = succession(reader, slow.home)
    lease.release()
    assert second.publication.previous == first.id
    assert (after.head, after.refused, len(after.numbers)) == (second.id, (), 2)
    assert len(entries(slow, PUBLISHED)) == 2
    with pytest.raises(PolicyMoved, match="publication 2 by `berta`"):
        slow.publish(late, "anna")


def test_a_run_that_another_took_over_does_nothing_more(
    server: Server, machines: Callable[[str], Pointsman]
) -> None:
    one = machines("first")
    folder = server.path / "flows"
    folder.mkdir()
    (folder / "stages.py").write_text(STAGES)
    runner = WorkflowRunner(one.home, one.decision_recorder, one.branching, (one.clock, one.ids))
    given = WorkflowText(FLOW, "flow.yaml", folder)
    with ThreadPoolExecutor(1) as pool:
        settings = WorkflowSettings(python=("stages",), timeout_s=60)
        running = pool.submit(runner.run, given, settings, "r1")
        eventually((folder / "began").exists, seconds=30)
        (name,) = held(server, "run-")
        server.lose(name)
        other = server.store.lease(name)
        (folder / "go").touch()
        with pytest.raises(LeaseLost):
            running.result(60)
    assert not (folder / "second").exists()
    told = [each.kind for each in entries(one, "workflow.")]
    assert told == ["workflow.started", "workflow.stage_started"]
    other.release()


def held(server: Server, prefix: str) -> list[str]:
    rows = server._admin.execute("SELECT name FROM pointsman.leases").fetchall()
    return [name for (name,) in rows if name.startswith(prefix)]


def test_a_job_that_another_took_over_records_no_answer(
    server: Server, machines: Callable[[str], Pointsman]
) -> None:
    one = machines("first")
    fleet = {"modules": {"generic_agent": {"apt": "0.9", "status": "healthy"}}}
    (one.home.path / "agents.yaml").write_text(json.dumps(fleet))
    taken = []

    def answer(_work: object) -> object:
        (name,) = held(server, "job-")
        server.lose(name)
        taken.append(server.store.lease(name))
        return {"text": "the sky is blue", "confidence": 0.9}

    one.jobs.here["generic_agent"] = answer
    with pytest.raises(LeaseLost):
        one.jobs.run(JobRequest(query_text="what colour is the sky"))
    assert entries(one, "event.job.started")
    assert not entries(one, "event.job.output")
    taken[0].release()


def test_sensors_that_another_runs_are_run_no_more(
    server: Server, machines: Callable[[str], Pointsman]
) -> None:
    one = machines("first")
    lease = one.home.lease("sensors")
    server.lose("sensors")
    other = server.store.lease("sensors")
    with pytest.raises(LeaseLost):
        _run_until_interrupted(service_of(one), (), one.home.path, lease)
    other.release()
    lease.release()


def test_what_happens_to_requests_waits_its_turn_over_all_machines(
    server: Server, machines: Callable[[str], Pointsman]
) -> None:
    one, two = machines("first"), machines("second")
    wanted = ActionProposal("sem_write", {"namespace": "n", "key": "k", "value": 1}, "it is so")
    inside = two.home.lease(LOCK)
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(one.approvals.request, wanted, Actor("key-ann", "ann", "operator"))
        eventually(server.waits)
        assert not asking.done()
        inside.release()
        assert asking.result(30).status == "pending"


def test_a_home_of_files_cannot_lose_a_right(tmp_path: Path) -> None:
    lease = open_home(tmp_path).lease("work")
    assert lease.fence() is None
    lease.release()
