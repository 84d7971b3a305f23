"""The demo's home and its three scripted providers, served by a real gateway on loopback ports."""

from __future__ import annotations

import asyncio
import http.client
import os
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from pointsman.errors import PointsmanError
from pointsman.gateway import server as gateway
from pointsman.operations.starter import starter_text
from pointsman.providers.http.provider import ProviderEnvironment
from pointsman.providers.messages import Usage
from pointsman.storage.policies.secrets import ADMIN_TOKEN
from pointsman.storage.policies.settings import Server
from pointsman.testing.upstream import ScriptedUpstream
from pointsman.testing.upstream_replies import Received, Reply, Step, fails, says

T = TypeVar("T")

HARD: Final = ("integral", "proof", "deadlock", "schema")
"""Words of the tasks that the small model gets wrong."""

CAPABILITIES: Final = {
    "supports_tools": True,
    "supports_structured_output": True,
    "max_context_tokens": 128_000,
    "max_output_tokens": 4_096,
}
PRICES: Final = {"large": "10", "medium": "3", "small": "0.5", "mini": "0.2"}
"""US dollars for a million tokens of input; output costs five times as much."""


LONGEST_WAIT_S: Final = 0.02


async def _wait_briefly(seconds: float) -> None:
    await asyncio.sleep(min(seconds, LONGEST_WAIT_S))


BRISK: Final = ProviderEnvironment(sleep=_wait_briefly)
"""Failed calls are tried again as always, but the wait before that is cut short."""


class ScriptedProvider:
    """A scripted provider: its models answer in one sentence, unless it is out."""

    def __init__(self) -> None:
        self.is_out = False
        self.upstream = ScriptedUpstream(otherwise=self._reply)

    def _reply(self, request: Received) -> Sequence[Step]:
        said = msgspec.json.encode(request.json).decode().lower()
        is_wrong = "small" in str(request.json.get("model")) and any(word in said for word in HARD)
        words = "I am not sure about this one." if is_wrong else "Done: here is what you asked for."
        usage = Usage(input_tokens=len(request.body) // 4, output_tokens=180)
        answer: Reply = says(words, usage=usage)
        return (fails(503, "overloaded", "we are at capacity") if self.is_out else answer)(request)


class GatewayAnswer(Struct, frozen=True):
    """An answer of the gateway."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def model(self) -> str:
        """The model that served; empty where none did."""
        return self.headers.get("x-pointsman-model", "") if self.status == 200 else ""

    @property
    def turn(self) -> str:
        """The turn's id."""
        return self.headers.get("x-pointsman-turn", "")


class Town(Struct, frozen=True):
    """The running gateway, and the providers behind it."""

    home: Path
    port: int
    admin_token: str
    providers: Mapping[str, ScriptedProvider]

    @property
    def address(self) -> str:
        """Where the gateway listens."""
        return f"http://127.0.0.1:{self.port}"

    def chat(
        self, text: str, key: str = "", model: str = "auto", session: str = ""
    ) -> GatewayAnswer:
        """Ask for an answer, as any client of OpenAI's API does."""
        headers = {"authorization": f"Bearer {key or 'none'}"}
        if session:
            headers["x-session-id"] = session
        body = {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": 200}
        return self._post("/v1/chat/completions", body, headers)

    def act(self, path: str, body: object) -> GatewayAnswer:
        """Call an API of the product as its administrator."""
        return self._post(path, body, {"authorization": f"Bearer {self.admin_token}"})

    def read(self, path: str) -> bytes:
        """Read from an API of the product as its administrator."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", path, headers={"authorization": f"Bearer {self.admin_token}"})
            return connection.getresponse().read()
        finally:
            connection.close()

    def _post(self, path: str, body: object, headers: Mapping[str, str]) -> GatewayAnswer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            given = {"content-type": "application/json", **headers}
            connection.request("POST", path, msgspec.json.encode(body), given)
            told = connection.getresponse()
            return GatewayAnswer(
                told.status,
                {name.lower(): value for name, value in told.getheaders()},
                msgspec.json.decode(told.read()),
            )
        finally:
            connection.close()


@contextmanager
def open_town(home: Path, port: int = 0) -> Iterator[Town]:
    """Write the demo's home, start its providers, and serve it until the end."""
    with ExitStack() as stack:
        loop = stack.enter_context(_background_loop())
        providers = {name: ScriptedProvider() for name in ("north", "south", "house")}
        for each in providers.values():
            _wait(loop, each.upstream.__aenter__())
            stack.callback(_wait, loop, each.upstream.close())
        write_home(home, {name: each.upstream.base_url for name, each in providers.items()})
        server = Server(port=port)
        try:
            listening = stack.enter_context(gateway.bind_socket(server))
        except OSError as error:
            raise PointsmanError(f"cannot listen on port {port}: {error.strerror}") from error
        parts, application = stack.enter_context(
            gateway.open_gateway(home, server=server, surroundings=BRISK)
        )
        serving = gateway.serving(parts, application)
        thread = threading.Thread(
            target=lambda: serving.run(sockets=[listening]), name="demo", daemon=True
        )
        thread.start()
        stack.callback(thread.join, 30)
        stack.callback(setattr, serving, "should_exit", True)  # noqa: FBT003 - setattr's own
        while not serving.started and thread.is_alive():
            time.sleep(0.005)
        # No token is made where the operator's environment holds one.
        token = parts.new_admin_token or os.environ.get(ADMIN_TOKEN, "")
        yield Town(home, listening.getsockname()[1], token, providers)


def write_home(home: Path, addresses: Mapping[str, str]) -> None:
    """Write the policy files of the demo's team."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    files = {
        "models.yaml": msgspec.json.encode(_models(addresses)),
        "routing.yaml": msgspec.json.encode(ROUTING),
        "placement.yaml": starter_text("placement.yaml"),
        "pointsman.yaml": b"telemetry: {logs: 'off'}\n",
    }
    for name, content in files.items():
        path = home / name
        path.write_bytes(msgspec.json.format(content) if content.startswith(b"{") else content)
        path.chmod(0o600)


ROUTING: Final = {
    "schema_version": 1,
    "global_default": ["north:large", "south:medium", "house:llama"],
    "tiers": {"fast": "north:small", "balanced": "south:medium", "deep": "north:large"},
    "rules": [
        {
            "name": "commits are cheap",
            "when": {"message_matches": "(?i)commit message"},
            "use": "south:mini",
        }
    ],
    "pattern": {"method": "evidence", "cost_weight": 0.2},
}


def _models(addresses: Mapping[str, str]) -> dict[str, object]:
    def model(size: str) -> dict[str, object]:
        price = {"input": PRICES[size], "output": str(5 * float(PRICES[size]))}
        return {"location": "cloud", "price": price, "capabilities": CAPABILITIES}

    local = {
        "location": "local",
        "capabilities": CAPABILITIES,
        "price": {"input": "0", "output": "0"},
    }
    return {
        "schema_version": 1,
        "providers": {
            name: {"kind": "openai", "base_url": f"{address}/v1"}
            for name, address in addresses.items()
        },
        "models": {
            "north:large": {**model("large"), "aliases": ["large"]},
            "north:small": {**model("small"), "aliases": ["small"]},
            "south:medium": {**model("medium"), "aliases": ["medium"]},
            "south:mini": {**model("mini"), "aliases": ["mini"]},
            "house:llama": {**local, "aliases": ["llama"]},
        },
    }


@contextmanager
def _background_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="demo providers", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


def _wait(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run_coroutine_threadsafe(work, loop).result(30)
