"""What the fleets of these tests serve, and what is read back of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
from redis import Redis
from tests.gateway.house import ABLE, provider
from tests.replicas.fleet import Fleet

from pointsman.access.book import Spent, spent_of
from pointsman.app import Pointsman
from pointsman.kernel.entry import Entry
from pointsman.kernel.record import OUTCOME
from pointsman.providers.messages import Text, Usage
from pointsman.storage.home import open_home
from pointsman.storage.stores.entries import LedgerReader
from pointsman.testing import calls, says
from pointsman.testing.upstream_replies import (
    LAST_CHUNK,
    STREAM_HEAD,
    Pause,
    Received,
    SendBytes,
    Step,
    a_response,
    answer_events,
    chunk,
)

PRICE = {"input": "0", "output": "1000"}
"""A tenth of a cent for every token of an answer, and nothing else."""


LEASE_S = 8


def answered(request: Received) -> Sequence[Step]:
    """Answer with what costs exactly as was quoted; ask for a tool where one helps."""
    last, usage = request.json["messages"][-1], Usage(7, request.json["max_tokens"])
    text = str(last["content"])
    if "weather" in text and last["role"] == "user":
        return calls(("weather", {}), usage=usage)(request)
    said = says("so it is, and more of it is to come", usage=usage)(request)
    if "slowly" in text and request.is_stream:
        pieces = answer_events(request, a_response(Text("so it is, in the end"), usage=usage))
        steps: list[Step] = [SendBytes(STREAM_HEAD)]
        for each in pieces:
            steps += [SendBytes(chunk(each)), Pause(0.3)]
        return [*steps, SendBytes(LAST_CHUNK)]
    return said


def files_for(url: str, **settings: Any) -> dict[str, Any]:
    """Give the files of a home with two models, and $5.00 for each session."""
    budget = {"name": "each session", "limit_usd": "5.00", "per": "month", "each": "session"}
    a_model = {"location": "cloud", "capabilities": ABLE, "price": PRICE}
    return {
        "models": {
            "schema_version": 1,
            "providers": {
                "p": provider("openai", url),
                "q": provider("openai", url),
                "gone": provider("openai", "http://127.0.0.1:9"),
            },
            "models": {"p:m": a_model, "q:n": a_model, "gone:g": a_model},
        },
        "routing": {"schema_version": 1, "global_default": "p:m", "budgets": [budget]},
        "pointsman": {"telemetry": {"logs": "off"}, "replicas": {"lease_s": LEASE_S}, **settings},
    }


def entries(fleet: Fleet, prefix: str = "") -> list[Entry]:
    """Read the ledger of a fleet."""
    home = open_home(fleet.ships[0].home, store=fleet.store)
    with closing(LedgerReader(home.database)) as reader:
        return [each.entry for each in reader.of_kind(prefix)]


def spending(fleet: Fleet, session: str = "") -> list[Spent]:
    """Give what the ledger says was spent in a session, or in all."""
    found = (spent_of(each) for each in entries(fleet, OUTCOME))
    return [each for each in found if each is not None and session in each.session_id]


def cost_of(fleet: Fleet, session: str) -> int:
    """Add up what the ledger says a session cost."""
    return sum(each.cost_microusd or 0 for each in spending(fleet, session))


def faults(home: Path, store: str) -> list[str]:
    """Verify the whole ledger and re-run every decision in it; give what is wrong."""
    with Pointsman(home, store=store, writer="check") as pointsman:
        found = [str(each) for each in pointsman.verify().faults]
        report = pointsman.replay_all()
    return found + [f"{each.decision_id}: {each.reason}" for each in report.others]


def stored(fleet: Fleet, sql: str) -> list[tuple[Any, ...]]:
    """Ask the database of a fleet."""
    with psycopg.connect(fleet.store) as connection:
        return connection.execute(sql).fetchall()  # type: ignore[call-overload,no-any-return,unused-ignore]


def is_well(fleet: Fleet) -> bool:
    """Tell whether every replica is ready, and lacks nothing that it shares."""
    found = [each.get("/health/readiness") for each in fleet.ships]
    return all(each.status_code == 200 and not each.json()["shared"]["trouble"] for each in found)


def is_settled(fleet: Fleet) -> bool:
    """Tell whether the sums are those of the ledger, and nothing is held any more."""
    ((total,),) = stored(fleet, "SELECT coalesce(sum(cost_microusd), 0) FROM pointsman_spend.spent")
    ((held,),) = stored(fleet, "SELECT count(*) FROM pointsman_shared.holds")
    return int(total) == cost_of(fleet, "") and not held and not _held_in_redis(fleet)


def _held_in_redis(fleet: Fleet) -> int:
    if not fleet.redis:
        return 0
    with closing(Redis.from_url(fleet.redis)) as redis:
        # One field of each says that it is whole.
        return sum(redis.hlen(key) - 1 for key in redis.scan_iter("*:holds"))
