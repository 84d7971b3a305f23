"""What the tests of providers over HTTP share: a loop that must end clean, providers, requests."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
import uvloop
from tests.open_files import open_files, opened_since

from pointsman.providers.http.exchange import AnswerLimits
from pointsman.providers.http.pool import PoolSettings
from pointsman.providers.http.provider import HttpProvider, ProviderEnvironment
from pointsman.providers.port import Deadlines, Dialect, Outgoing
from pointsman.providers.vendors import VENDORS, Vendor
from pointsman.testing.upstream import ScriptedUpstream
from pointsman.turns.registry.models import Provider as Configured

T = TypeVar("T")
MIB = 1024 * 1024
SOON = Deadlines(connect_s=0.5, head_s=0.1, idle_s=0.1, total_s=600.0)
SMALL = PoolSettings(limits=AnswerLimits(body_bytes=4 * MIB, stream_bytes=16 * MIB))
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}

VENDOR_OF: dict[Dialect, Vendor] = {
    "chat": VENDORS["openai"],
    "responses": VENDORS["openai"],
    "messages": VENDORS["anthropic"],
}
BODIES: dict[Dialect, str] = {
    "chat": '{"model":"m","messages":[]%s}',
    "responses": '{"model":"m","input":"x"%s}',
    "messages": '{"model":"m","max_tokens":9,"messages":[]%s}',
}


def run(work: Callable[[], Awaitable[T]], loop: str = "asyncio") -> T:
    """Run to the end; no task and no file may be left over."""
    LOOPS[loop]().close()  # libuv opens what all its loops share with the first one
    files = open_files()

    async def watched() -> T:
        result = await work()
        for _ in range(200):  # the loop's own tasks for sockets that were just closed
            if not (left := asyncio.all_tasks() - {asyncio.current_task()}):
                return result
            await asyncio.sleep(0.001)
        pytest.fail(f"tasks left over: {left}")

    with asyncio.Runner(debug=loop == "asyncio", loop_factory=LOOPS[loop]) as runner:
        result = runner.run(watched())
    assert not opened_since(files)
    return result


def outgoing(dialect: Dialect = "chat", *, is_stream: bool = False, **more: object) -> Outgoing:
    body = BODIES[dialect] % (',"stream":true' if is_stream else "")
    return Outgoing(dialect, "m", body.encode(), is_stream, **more)


class Sleeps(list[float]):
    """Time that is only written down."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


def provider(
    upstream: ScriptedUpstream | str,
    dialect: Dialect = "chat",
    *,
    sleeps: Sleeps | None = None,
    pool: PoolSettings = SMALL,
    home: Path = Path("/nonexistent"),
    retries: int = 2,
    **configured: object,
) -> HttpProvider:
    url = upstream if isinstance(upstream, str) else upstream.base_url
    vendor = VENDOR_OF[dialect]
    return HttpProvider(
        "it",
        vendor,
        Configured(kind=vendor.kind, base_url=url, **configured),
        home,
        dialects=(dialect,),
        pool=pool,
        surroundings=ProviderEnvironment(
            sleep=Sleeps() if sleeps is None else sleeps,
            jitter=lambda: 0.0,
            wall_s=lambda: 1_772_323_200.0,
            retries=retries,
        ),
    )
