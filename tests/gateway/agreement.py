"""Mixed calls with faults, and whether all who count money and tokens come to the same sums.

Whole answers, streams, tools, shadow runs, judges, embeddings and delegations go to scripted
providers that fail in many ways; then the ledger, `/metrics`, the spend store, the budgets and the
rate counters are compared.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import httpx2 as httpx
from tests.gateway.conftest import Town
from tests.gateway.house import Running, eventually, write_home
from tests.gateway.shadows import TIERS
from tests.gateway.town import ADMIN, embedding

from pointsman.access.book import spent_of
from pointsman.access.caps import Cap, Owners, caps_of
from pointsman.calls.call_end import END_FORM
from pointsman.kernel.instant import Instant
from pointsman.kernel.record import OUTCOME, OUTCOME_FORM
from pointsman.providers.messages import Usage
from pointsman.testing import FrozenClock
from pointsman.testing.upstream_replies import (
    Received,
    Reset,
    SendBytes,
    Step,
    calls,
    fails,
    json_answer,
    says,
)

MOST_ASKED = 100_000
LOOKS = 50
WAYS = ("whole", "whole", "stream", "stream", "tools", "named", "embeddings", "hung up", "delegate")
PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
TOOL = {"name": "look", "description": "look", "parameters": {"type": "object"}}
MCP = {"accept": "application/json, text/event-stream", "content_type": "application/json"}


class Script:
    """A provider that answers, fails or breaks off by the roll of a seeded die."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._down = 0
        """How many of the next requests fail: more than one call tries."""

    def __call__(self, request: Received) -> Sequence[Step]:  # noqa: PLR0911 - one a fault
        if request.operation == "embeddings":
            return [SendBytes(json_answer(embedding(request)))]
        roll = self._random.random()
        if self._down or roll < 0.04:
            self._down = (self._down or 4) - 1
            return fails(500)(request)
        if roll < 0.07:
            return fails(self._random.choice([400, 429, 500, 503]))(request)
        if roll < 0.1:
            return [Reset()]
        if roll < 0.16 and request.json.get("tools"):
            return calls(("look", {}))(request)
        steps = list(self._said(request))
        if roll < 0.13 and len(steps) > 2:
            return [*steps[: len(steps) // 2], Reset()]
        return steps

    def _said(self, request: Received) -> Sequence[Step]:
        words = " ".join(["word"] * self._random.randint(1, 30))
        judged = "7" if "rubric" in request.body.decode("utf-8", "replace").lower() else words
        used = Usage(self._random.randint(1, 400), self._random.randint(1, 90))
        return says(judged, usage=used)(request)


def settle_home(town: Town) -> None:
    """Write a home in which shadows run, a judge judges, a cap holds and a provider is limited."""
    open_ = {**town.models["providers"]["open"], "rpm": 1_000_000, "tpm": 1_000_000_000}
    models = {
        **town.models,
        "providers": {**town.models["providers"], "open": open_},
        "models": {
            **town.models["models"],
            "open:embed": {"location": "cloud", "price": {"input": 1, "output": 0}},
        },
    }
    routing = {
        "schema_version": 1,
        "global_default": ["open:big", "claude:opus", "house:llama"],
        "tiers": TIERS,
        "pattern": {"shadow": 0.2},
        "budgets": [{"name": "day", "limit_usd": 1_000}],
    }
    settings = {"judge": {"model": "open:small", "share": 0.1}, "limits": {"idle_s": 5}}
    write_home(town.home, models=models, routing=routing, pointsman=settings)


def stop_refill(live: Running) -> None:
    """Hold the clock of the rate limits, so that what was taken can be read from what is left."""
    health = live.parts.pointsman.health
    health.rates._clock = FrozenClock(Instant(0))


def script(town: Town, seed: int) -> None:
    """Let every provider answer by its own die, for as long as it is asked."""
    for number, each in enumerate((town.openai, town.anthropic, town.local)):
        each.then(*[Script(seed * 3 + number)] * MOST_ASKED)


def call(live: Running, chance: random.Random, number: int) -> str:
    """Make one call; says which way it was."""
    way = chance.choice(WAYS)
    text = f"number {number} " + "word " * chance.randint(1, 40)
    if way == "embeddings":
        live.post("/v1/embeddings", {"model": "open:embed", "input": text})
    elif way == "delegate":
        _delegate(live, text, number)
    elif way == "hung up":
        _hang_up(live, text)
    else:
        _ask(live, chance, way, text)
    return way


def _ask(live: Running, chance: random.Random, way: str, text: str) -> None:
    path = chance.choice(PATHS)
    model = chance.choice(["open:small", "claude:opus"]) if way == "named" else "auto"
    body: dict[str, Any] = {"model": model, "stream": way == "stream"}
    if path == "/v1/responses":
        body["input"] = text
    else:
        body |= {"messages": [{"role": "user", "content": text}], "max_tokens": 300}
    if way == "tools" and path == "/v1/chat/completions":
        body["tools"] = [{"type": "function", "function": TOOL}]
    live.post(path, body)


def _hang_up(live: Running, text: str) -> None:
    """Ask for a stream, and leave after its first bytes."""
    body = {"model": "auto", "stream": True, "messages": [{"role": "user", "content": text}]}
    with (
        suppress(httpx.HTTPError),
        live.client.stream("POST", PATHS[0], content=json.dumps(body).encode()) as answer,
    ):
        for _ in answer.iter_raw():
            break


def _delegate(live: Running, text: str, number: int) -> None:
    arguments = {"task": text, "tier": "fast"}
    asked = {
        "jsonrpc": "2.0", "id": number, "method": "tools/call",
        "params": {"name": "delegate", "arguments": arguments},
    }  # fmt: skip
    live.post("/mcp", asked, **MCP, **ADMIN)


def quiet(live: Running) -> None:
    """Wait until nothing is under way any more."""
    seen: list[int] = []

    def still() -> bool:
        seen.append(len(live.entries()))
        # Shadow runs and judges go on beside the turns, and ends of calls are written in groups.
        is_still = len(seen) > LOOKS and len({*seen[-LOOKS:]}) == 1
        return is_still and live.parts.metrics.in_flight == 0

    eventually(still, seconds=60)


def compared(live: Running) -> tuple[dict[str, Any], list[str]]:
    """Add up what each of the counters says; gives the sums, and where they differ."""
    ledger = _ledger(live)
    told = _metrics(live)
    clock = live.parts.pointsman.clock
    budgets = live.parts.budgets.amount_spent(Owners(), "all", "day", clock.now())
    (left,) = live.parts.budgets.standings(Owners(), live_caps(live), clock.now())
    total = sum(each["cost"] for each in ledger.values())
    wrong = [
        f"{model}: ledger {sums}, metrics {told.get(model)}"
        for model, sums in ledger.items()
        if sums != told.get(model)
    ]
    shown = _cost_page(live, total)
    if not total == budgets == shown == left.limit_microusd - left.left_microusd:
        wrong.append(f"ledger {total}, budgets {budgets}, cost {shown}, left {left}")
    wrong += _rates(live)
    tokens = sum(s["input"] + s["output"] for m, s in ledger.items() if m.startswith("open:"))
    return {"models": ledger, "cost_microusd": total, "open_tokens": tokens}, wrong


def _rates(live: Running) -> list[str]:
    """Compare what the limits of `open` counted with its calls and tokens in the ledger."""
    (row,) = live.parts.pointsman.health.rates.rows()
    assert row.rpm is not None
    assert row.tpm is not None
    counted = row.rpm - (row.requests_left or 0), row.tpm - (row.tokens_left or 0)
    calls = tokens = 0
    for entry in live.entries(OUTCOME):
        end = END_FORM.decode(bytes(OUTCOME_FORM.decode(entry.payload).detail))
        if end.model.startswith("open:"):
            calls += end.attempts > 0
            tokens += 0 if end.spent is None else end.spent.input_tokens + end.spent.output_tokens
    return [] if counted == (calls, tokens) else [f"limits {counted}, ledger {(calls, tokens)}"]


def _cost_page(live: Running, total: int) -> int:
    """Read the total of the cost page; its sums are written twice a second."""
    shown = [0]

    def is_there() -> bool:
        (shown[0],) = (
            each["amounts"][-1] for each in live.get("/api/cost", **ADMIN).json()["by_all"]
        )
        return shown[0] == total

    with suppress(AssertionError):
        eventually(is_there, seconds=10)
    return shown[0]


def live_caps(live: Running) -> tuple[Cap, ...]:
    return caps_of(live.parts.pointsman.in_force().ready.policy.budgets)


def _ledger(live: Running) -> dict[str, dict[str, int]]:
    sums: dict[str, Counter[str]] = {}
    for entry in live.entries(OUTCOME):
        spent = spent_of(entry)
        if spent is not None:
            own = sums.setdefault(spent.model, Counter())
            own.update(
                input=spent.input_tokens, output=spent.output_tokens, cost=spent.cost_microusd or 0
            )
    return {model: dict(each) for model, each in sums.items()}


def _metrics(live: Running) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    pattern = re.compile(
        r'pointsman_(tokens|spend_microusd)_total\{model="([^"]+)"(?:,type="(\w+)")?\} (\d+)'
    )
    for kind, model, which, count in pattern.findall(live.get("/metrics", **ADMIN).text):
        name = "cost" if kind == "spend_microusd" else which
        found.setdefault(model, {})[name] = int(count)
    return {model: each for model, each in found.items() if any(each.values())}
