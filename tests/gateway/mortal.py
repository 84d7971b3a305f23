"""Gateways that die at a marked point, and the client that holds them to what they said.

A nursery process imports the product once and forks a gateway for every death. The marks are laid
around methods of the product in that process; the product itself knows nothing of them.
"""

from __future__ import annotations

import functools
import http.client
import inspect
import json
import os
import random
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tests.gateway.house import Upstream, entries, model, provider, write_home

from pointsman.app import Pointsman
from pointsman.calls.model_call import ModelCall
from pointsman.gateway.turns.turn import LiveTurn
from pointsman.gateway.wire.connection import ClientConnection
from pointsman.providers.http.exchange import Exchange
from pointsman.providers.http.pool import ConnectionPool
from pointsman.recording.decision_recorder import DecisionRecorder
from pointsman.storage.sqlite.ledger import SqliteRows
from pointsman.storage.stores.content import ContentStore
from pointsman.storage.writer.durability import Durability
from pointsman.storage.writer.ledger import LedgerWriter

ROOT = Path(__file__).parents[2]
CLIENTS = 4
MOST_REQUESTS = 60


class Point(NamedTuple):
    """A moment: before or after a method does its work."""

    owner: type
    method: Callable[..., Any]
    when: Literal["before", "after"]


POINTS = {
    "the request is read": Point(LiveTurn, LiveTurn.__init__, "after"),
    "the ruling is about to be handed in": Point(
        DecisionRecorder, DecisionRecorder.hand_in, "before"
    ),
    "the ruling is handed in": Point(DecisionRecorder, DecisionRecorder.hand_in, "after"),
    "the text is about to be committed": Point(ContentStore, ContentStore._commit, "before"),
    "the text is committed": Point(ContentStore, ContentStore._commit, "after"),
    "the ledger is about to commit": Point(LedgerWriter, LedgerWriter._commit, "before"),
    "the entries are ready": Point(LedgerWriter, LedgerWriter._chain_group, "after"),
    "the entries are inserted": Point(SqliteRows, SqliteRows.append, "after"),
    "the ledger has committed": Point(LedgerWriter, LedgerWriter._commit, "after"),
    "the provider is about to be called": Point(ConnectionPool, ConnectionPool.begin, "before"),
    "the provider's head is here": Point(Exchange, Exchange.on_head, "after"),
    "the decision is durable": Point(Durability, Durability.resume, "after"),
    "a caller waits for that": Point(Durability, Durability.wait, "after"),
    "the first bytes are out": Point(ClientConnection, ClientConnection.write, "after"),
    "the end is about to be noted": Point(ModelCall, ModelCall._finish, "before"),
    "the end is noted": Point(ModelCall, ModelCall._finish, "after"),
}


# In the process that dies.


def lay(point: Point, count: int) -> Callable[[], None]:
    """Die when a method is used for the so-and-so-many-th time after the mark was armed."""
    work = point.method
    left = iter(range(count - 1, -1, -1))
    armed = threading.Event()

    def pass_by(when: str) -> None:
        if armed.is_set() and when == point.when and next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    @functools.wraps(work)
    def plain(*args: Any, **named: Any) -> Any:
        pass_by("before")
        result = work(*args, **named)
        pass_by("after")
        return result

    @functools.wraps(work)
    async def waiting(*args: Any, **named: Any) -> Any:
        pass_by("before")
        result = await work(*args, **named)
        pass_by("after")
        return result

    setattr(point.owner, work.__name__, waiting if inspect.iscoroutinefunction(work) else plain)
    return armed.set


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def live(home: Path, name: str, count: int) -> None:
    """Serve until death."""
    from tests.gateway.house import PATIENT

    from pointsman.gateway import server as gateway
    from pointsman.storage.policies.settings import Server

    server = Server(port=0)
    arm = lay(POINTS[name], count)
    with (
        gateway.bind_socket(server) as listening,
        gateway.open_gateway(home, server=server, surroundings=PATIENT) as (parts, application),
    ):
        arm()
        listening.listen(100)
        say("port", listening.getsockname()[1], os.getpid())
        gateway.serve(parts, application, listening)


def nursery() -> None:
    """Fork a gateway for every line, and say when it is dead."""
    from pointsman.gateway import server  # noqa: F401 - imported once, for all that are forked

    say("ready")
    for line in sys.stdin:
        home, name, count = json.loads(line)
        pid = os.fork()
        if pid == 0:
            try:
                live(Path(home), name, count)
            finally:
                os._exit(1)
        say("dead", os.waitpid(pid, 0)[1])


# In the process that watches.


@dataclass
class Tally:
    """What was found after all deaths."""

    deaths: int = 0
    requests: int = 0
    answered: int = 0
    """Answers of which at least the head arrived."""
    unrecorded: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    survived: list[str] = field(default_factory=list)


class Reaper:
    """Runs gateways on one home, lets them die, and checks what they left."""

    def __init__(self, home: Path, upstream: Upstream, seed: int = 0) -> None:
        self.tally = Tally()
        self._home = write_home(
            home,
            models={
                "schema_version": 1,
                "providers": {"p": provider("openai", upstream.url)},
                "models": {"p:m": model()},
            },
            routing={"schema_version": 1, "global_default": "p:m"},
        )
        self._chance = random.Random(seed)
        self._nursery = subprocess.Popen(
            [sys.executable, "-m", __spec__.name],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert self._heard() == ["ready"]

    def __enter__(self) -> Reaper:
        return self

    def __exit__(self, *_error: object) -> None:
        assert self._nursery.stdin
        assert self._nursery.stdout
        self._nursery.stdin.close()
        self._nursery.wait(30)
        self._nursery.stdout.close()

    def reap(self, point: str) -> None:
        """Let one gateway die at a point under load, and check."""
        assert self._nursery.stdin
        told = json.dumps([str(self._home), point, self._chance.randint(1, MOST_REQUESTS // 2)])
        self._nursery.stdin.write(told + "\n")
        self._nursery.stdin.flush()
        word, *values = self._heard()
        assert word == "port", (point, word, values)
        port, pid = map(int, values)
        answered = self._load(port)
        self.tally.deaths += 1
        assert self._nursery.stdout
        if not select.select([self._nursery.stdout], [], [], 2)[0]:
            self.tally.survived.append(point)
            os.kill(pid, signal.SIGKILL)
        assert self._heard() == ["dead", str(int(signal.SIGKILL))], point
        self.tally.answered += len(answered)
        recorded = {each.id for each in entries(self._home, "decision.turn")}
        self.tally.unrecorded += sorted(answered - recorded)

    def check_all(self) -> None:
        """Verify the whole ledger, and re-run every decision in it."""
        with Pointsman(self._home, writer="check") as pointsman:
            self.tally.broken += [str(each) for each in pointsman.verify().faults]
            report = pointsman.replay_all()
        self.tally.broken += [f"{each.decision_id}: {each.reason}" for each in report.others]

    def _heard(self) -> list[str]:
        assert self._nursery.stdout
        return self._nursery.stdout.readline().split()

    def _load(self, port: int) -> set[str]:
        answered: set[str] = set()
        threads = [
            threading.Thread(target=self._ask, args=(port, number, answered))
            for number in range(CLIENTS)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join(60)
        return answered

    def _ask(self, port: int, number: int, answered: set[str]) -> None:
        """Ask until the gateway is gone; note every answer that began."""
        with suppress(OSError, http.client.HTTPException):
            for count in range(MOST_REQUESTS):
                client = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                try:
                    self.tally.requests += 1
                    told = {"role": "user", "content": f"{number} asks {count}"}
                    body = {"model": "auto", "messages": [told], "stream": count % 2 == 0}
                    client.request("POST", "/v1/chat/completions", json.dumps(body))
                    answer = client.getresponse()
                    answered.add(answer.headers["x-pointsman-decision"])
                    answer.read()
                finally:
                    client.close()


if __name__ == "__main__":
    nursery()
