"""What the tests of the gateway share: real gateways and scripted providers on loopback ports."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx2 as httpx
import msgspec
import yaml

from pointsman.gateway import server as gateway
from pointsman.kernel.entry import Entry
from pointsman.kernel.record import OUTCOME, OUTCOME_FORM
from pointsman.operations.starter import starter_text
from pointsman.providers.http.provider import ProviderEnvironment
from pointsman.providers.messages import Text
from pointsman.storage.home import open_home
from pointsman.storage.policies.settings import read_settings
from pointsman.storage.stores.entries import LedgerReader
from pointsman.testing import ScriptedUpstream
from pointsman.testing.upstream_replies import (
    LAST_CHUNK,
    Close,
    Pause,
    Received,
    Reply,
    Reset,
    SendBytes,
    Step,
    a_response,
    answer_events,
    chunk,
    stream_head,
)
from pointsman.turns.facts import FACTS_FORM, TurnFacts

T = TypeVar("T")
SOON_S = 30.0
ADMIN_TOKEN = "pa_test-admin-token-of-the-gateway-tests"

ABLE = {
    "supports_images": True,
    "supports_tools": True,
    "supports_structured_output": True,
    "supports_thinking": True,
    "max_context_tokens": 200_000,
    "max_output_tokens": 4096,
}


def eventually(look: Callable[[], T | None], *, seconds: float = SOON_S) -> T:
    """Look until there is something to see; fail when there never is."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"never came true: {found!r}"
        time.sleep(0.002)


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(120)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()


class Upstream:
    """A scripted provider that runs beside the test."""

    def __init__(self, loop: Loop, scripted: ScriptedUpstream) -> None:
        self._loop = loop
        self.scripted = scripted

    @property
    def requests(self) -> list[Received]:
        return self.scripted.requests

    @property
    def url(self) -> str:
        return self.scripted.base_url

    @property
    def kept(self) -> int:
        """How many connections are open, kept for the next call or in use."""
        return self.scripted.open_connections

    def then(self, *replies: Reply) -> None:
        self.scripted.then(*replies)

    def texts(self) -> str:
        """Everything that was ever sent to it."""
        return "\n".join(each.body.decode() for each in self.requests)


@contextmanager
def upstream(*replies: Reply, **settings: Any) -> Iterator[Upstream]:
    """Run a scripted provider."""
    with closing(Loop()) as loop:
        scripted = ScriptedUpstream(*replies, **settings)
        loop.run(scripted.__aenter__())
        try:
            yield Upstream(loop, scripted)
        finally:
            loop.run(scripted.close())


def provider(kind: str, url: str, **more: object) -> dict[str, object]:
    """Give a provider as `models.yaml` writes it."""
    if kind == "openai":
        return {"kind": kind, "base_url": f"{url}/v1", "speaks": ["chat", "responses"], **more}
    return {"kind": kind, "base_url": url, **more}


def model(location: str = "cloud", price: str = "1", **more: object) -> dict[str, object]:
    """Give a model as `models.yaml` writes it."""
    cost = {"input": price, "output": price, "cached_input": "0.1", "cache_write": "1.25"}
    return {"location": location, "capabilities": ABLE, "price": cost, **more}


def write_home(path: Path, **files: object) -> Path:
    """Write policy files; JSON is YAML."""
    path.mkdir(mode=0o700, exist_ok=True)
    for name, value in files.items():
        target = path / f"{name}.yaml"
        target.write_text(json.dumps(value))
        target.chmod(0o600)
    return path


def keeps(*kinds: str, **more: object) -> dict[str, object]:
    """Give a placement table that keeps some kinds of text on this machine."""
    table = yaml.safe_load(starter_text("placement.yaml"))
    return {**table, "sensitive": {"stays_local": kinds, **more}}


async def _at_once(_seconds: float) -> None:
    await asyncio.sleep(0)


PATIENT = ProviderEnvironment(sleep=_at_once)
"""Retries happen, but nobody waits for them."""


class Running:
    """A gateway that serves."""

    def __init__(self, home: Path, parts: Any, server: Any, port: int) -> None:
        self.home = home
        self.parts = parts
        self.server = server
        self.port = port
        self.admin = os.environ[gateway.ADMIN_TOKEN]
        self.url = f"http://127.0.0.1:{port}"
        self.client = httpx.Client(base_url=self.url, timeout=30, trust_env=False)

    def post(self, path: str, body: object, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return self.client.post(path, content=content, headers=named)

    def chat(self, text: str = "hello", model: str = "auto", **more: Any) -> httpx.Response:
        headers = more.pop("headers", {})
        body = {"model": model, "messages": [{"role": "user", "content": text}], **more}
        return self.post("/v1/chat/completions", body, **headers)

    def get(self, path: str, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.get(path, headers=named)

    def entries(self, prefix: str = "") -> list[Entry]:
        return entries(self.home, prefix)

    def kinds(self) -> list[str]:
        """The kinds of what was decided and done, in their order."""
        told = ("decision.", OUTCOME)
        return [each.kind for each in self.entries() if each.kind.startswith(told)]

    def outcomes(self, count: int) -> list[dict[str, Any]]:
        """Wait for so many ends of calls."""

        def found() -> list[dict[str, Any]] | None:
            ends = [OUTCOME_FORM.read(each.payload) for each in self.entries(OUTCOME)]
            return [json.loads(bytes(each.detail)) for each in ends] if len(ends) >= count else None

        return eventually(found) if count else found() or []

    def tasks(self) -> int:
        """How many tasks run in the gateway's event loop."""
        listening, *_ = self.server.servers
        return len(asyncio.all_tasks(listening.get_loop()))


def facts_of(home: Path, decision_id: str) -> TurnFacts:
    """Read the facts of a recorded decision back."""
    with closing(LedgerReader(open_home(home).database)) as reader:
        (stored,) = reader.with_id(decision_id)
        return FACTS_FORM.decode(reader.attachments(stored)[0])


def entries(home: Path, prefix: str = "") -> list[Entry]:
    """Read the ledger back."""
    with closing(LedgerReader(open_home(home).database)) as reader:
        return [each.entry for each in reader.of_kind(prefix)]


@contextmanager
def running(home: Path, surroundings: ProviderEnvironment = PATIENT) -> Iterator[Running]:
    """Serve a home."""
    settings = home / "pointsman.yaml"
    given = read_settings(settings.read_bytes() if settings.exists() else b"", "pointsman.yaml")
    server = msgspec.structs.replace(given.server, port=0)
    os.environ.setdefault(gateway.ADMIN_TOKEN, ADMIN_TOKEN)
    with ExitStack() as stack:
        listening = stack.enter_context(gateway.bind_socket(server))
        parts, application = stack.enter_context(
            gateway.open_gateway(home, server=server, surroundings=surroundings)
        )
        serving = gateway.serving(parts, application)
        thread = threading.Thread(target=lambda: serving.run(sockets=[listening]), daemon=True)
        thread.start()
        stack.callback(thread.join, 30)
        stack.callback(setattr, serving, "should_exit", True)
        eventually(lambda: serving.started or not thread.is_alive())
        live = Running(home, parts, serving, listening.getsockname()[1])
        stack.callback(live.client.close)
        yield live


def stalls(text: str) -> Reply:
    """Stream the first half of a text, and then nothing any more."""

    def reply(request: Received) -> list[Step]:
        pieces = answer_events(request, a_response(Text(text)))
        half = text[: (len(text) + 1) // 2].encode()
        first = next(at for at, each in enumerate(pieces) if half in each)
        return [
            SendBytes(stream_head(request)),
            *(SendBytes(chunk(each)) for each in pieces[: first + 1]),
            Pause(),
        ]

    return reply


def breaks_off(text: str, ending: str) -> Reply:
    """Stream the first half of a text; then `reset`, `close`, or `end` as HTTP wants it."""
    last: dict[str, Step] = {"reset": Reset(), "close": Close(), "end": SendBytes(LAST_CHUNK)}

    def reply(request: Received) -> list[Step]:
        steps = [*stalls(text)(request)][:-1]
        return [*steps, *([Pause(0.02)] if ending == "reset" else []), last[ending]]

    return reply


def streamed(response: httpx.Response) -> list[dict[str, Any]]:
    """Give the events of a stream; `[DONE]` is left out."""
    lines = response.text.replace("\r\n", "\n").split("\n")
    data = [line.removeprefix("data:").strip() for line in lines if line.startswith("data:")]
    return [json.loads(each) for each in data if each != "[DONE]"]


def chat_text(events: list[dict[str, Any]]) -> str:
    """Give the words of a chat stream."""
    choices = [each["choices"][0] for each in events if each.get("choices")]
    return "".join(each["delta"].get("content") or "" for each in choices)
