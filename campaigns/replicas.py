"""Three replicas on one PostgreSQL, with and without Redis: `python -m campaigns.replicas`.

`[rounds] [deaths]`: so many rounds of sixteen clients on one budget of $5.00, and so many deaths or
standstills of replicas, PostgreSQL and Redis under load, half of each on either kind. Fails when a
budget was passed or blocked what fitted, an answer is not recorded, a call charged twice or a chain
broken. Writes `evidence/replicas.json`.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from campaigns.evidence import write

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.gateway.house import upstream
from tests.replicas.deaths import check, under_load
from tests.replicas.fleet import Crowd, Fleet
from tests.replicas.harbour import LEASE_S, answered, cost_of, entries, faults, files_for
from tests.servers import PostgresServer, RedisServer

LIMIT_MICROUSD = 5_000_000
CALLS = 40
FITTING = 500
TOKENS = 10
"""At a tenth of a cent each: 500 of 640 calls fit into $5.00."""


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    deaths = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    begun = time.monotonic()
    found = {kind: _campaign(kind, rounds // 2, deaths // 2) for kind in ("postgres", "redis")}
    evidence = {
        "what": "three replicas: budgets under sixteen clients, and deaths under load",
        "rounds": rounds,
        "deaths": deaths,
        "kinds": found,
        "seconds": round(time.monotonic() - begun),
    }
    write("replicas", evidence)
    return 1 if any(each["faults"] for each in found.values()) else 0


def _campaign(kind: str, rounds: int, deaths: int) -> dict[str, Any]:
    wrong: list[str] = []
    harmed: Counter[str] = Counter()
    answers = 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        provider = stack.enter_context(upstream(otherwise=answered))
        postgres = PostgresServer()
        stack.callback(postgres.close)
        redis = RedisServer() if kind == "redis" else None
        if redis is not None:
            stack.callback(redis.close)
        url = "" if redis is None else redis.url
        fleet = stack.enter_context(Fleet(postgres.fresh(), url))
        fleet.launch(folder, files_for(provider.url), 3)
        with Crowd() as crowd:
            for number in range(rounds):
                wrong += _round(fleet, crowd, f"round {number}")
        ways = _ways(fleet, postgres, redis)
        chance = random.Random(len(kind))
        for number in range(deaths):
            name = [*ways][number % len(ways)]
            try:
                told = under_load(fleet, f"death {number}", lambda name=name: ways[name](chance))
                check(fleet, f"death {number}", told)
            except AssertionError as error:
                wrong.append(f"death {number}, {name}: {error}")
            harmed[name] += 1
            answers += len(told)
        wrong += faults(fleet.ships[0].home, fleet.store)
    return {"rounds": rounds, "harmed": dict(harmed), "answers": answers, "faults": wrong}


def _round(fleet: Fleet, crowd: Crowd, session: str) -> list[str]:
    crowd.ask(fleet.ports, CALLS, session, key=fleet.key, max_tokens=TOKENS)
    answers = crowd.answers()
    statuses = Counter(each["status"] for each in answers)
    cost = cost_of(fleet, session)
    if statuses[200] != FITTING or cost != LIMIT_MICROUSD:
        codes = Counter(each["code"] for each in answers if each["code"])
        taken = len(entries(fleet, "decision.turn.fallback"))
        told = f"{dict(statuses)} {dict(codes)}, {taken} fallbacks so far"
        return [f"{session}: {told}, {cost} micro-dollars"]
    return []


def _ways(
    fleet: Fleet, postgres: PostgresServer, redis: RedisServer | None
) -> dict[str, Callable[[random.Random], None]]:
    """Return the processes that may be killed or paused, and how each is restarted."""

    def replica(chance: random.Random) -> None:
        number = chance.randrange(len(fleet.ships))
        fleet.ships[number].kill()
        fleet.start(number)

    def database(_chance: random.Random) -> None:
        postgres.kill()
        postgres.start()

    def still(chance: random.Random) -> None:
        with (postgres if chance.random() < 0.5 else chance.choice(fleet.ships)).standstill():
            time.sleep(LEASE_S + chance.uniform(-4, 2))

    found = {"replica": replica, "postgresql": database, "standstill": still}
    if redis is not None:
        found["redis"] = lambda _chance: (redis.kill(), redis.start())[1]
        found["redis emptied"] = lambda _chance: redis.empty()
    return found


if __name__ == "__main__":
    sys.exit(main())
