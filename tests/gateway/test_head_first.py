"""Who may send a body is judged by its head, and what callers without a key send is bounded."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
from tests.gateway.house import Running, eventually, running, write_home
from tests.gateway.test_http_limits import received, request, status_of
from tests.gateway.test_keys_over_http import bearer, made

MODELS = b"POST /v1/chat/completions HTTP/1.1"
LOGIN = b"POST /api/login HTTP/1.1"
CHUNKED = b"transfer-encoding: chunked\r\n"
MIB = 1024 * 1024


class Keys(NamedTuple):
    """A gateway that needs a key, and the headers of a key for models and of one that reads."""

    live: Running
    calling: bytes
    reading: bytes


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keys]:
    limits = {"max_body_bytes": MIB, "max_keyless_bytes": 64 * 1024, "head_timeout_s": 60}
    home = write_home(tmp_path_factory.mktemp("keys") / "home", pointsman={"server": limits})
    with running(home) as live:
        yield Keys(live, header(made(live)), header(made(live, scopes=["read"])))


def header(given: dict[str, str]) -> bytes:
    ((name, value),) = given.items()
    return f"{name}: {value}\r\n".encode()


def length(size: int) -> bytes:
    return b"content-length: %d\r\n" % size


def head(headers: bytes = b"", line: bytes = MODELS, size: int = 1000) -> bytes:
    return request(b"", headers, line, length=length(size))


@contextmanager
def connected(live: Running) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", live.port), timeout=9) as sock:
        yield sock


def told_by_head(live: Running, data: bytes) -> bytes:
    """Send a head alone and read until the gateway says that nothing follows."""
    with connected(live) as sock:
        sock.sendall(data)
        found = b""
        while piece := sock.recv(65_536):
            found += piece
    return found


@pytest.mark.parametrize(
    "path", [b"/v1/messages", b"/v1/embeddings", b"/api/route/preview", b"/mcp"]
)
@pytest.mark.parametrize("given", [b"", b"authorization: Bearer pk_nobody\r\n"])
def test_without_a_valid_key_a_body_is_refused_by_its_head(
    keys: Keys, path: bytes, given: bytes
) -> None:
    told = told_by_head(keys.live, head(given, b"POST " + path + b" HTTP/1.1"))
    assert status_of(told) == 401
    assert b"connection: close" in told.lower()


def test_a_body_in_chunks_is_refused_by_its_head(keys: Keys) -> None:
    assert status_of(told_by_head(keys.live, request(b"", CHUNKED, MODELS, length=b""))) == 401


@pytest.mark.parametrize("line", [MODELS, b"PUT /api/policies/routing.yaml HTTP/1.1"])
def test_a_key_that_lacks_the_scope_is_refused_by_the_head(keys: Keys, line: bytes) -> None:
    assert status_of(told_by_head(keys.live, head(keys.reading, line))) == 403


def test_a_large_body_is_refused_by_its_head_once_the_key_is_good(keys: Keys) -> None:
    assert status_of(told_by_head(keys.live, head(keys.calling, size=MIB + 1))) == 413
    assert status_of(told_by_head(keys.live, head(b"", size=MIB + 1))) == 401


def test_a_refused_caller_is_not_told_to_go_on(keys: Keys) -> None:
    expecting = b"expect: 100-continue\r\n"
    for given in (expecting, expecting + keys.reading):
        assert told_by_head(keys.live, head(given)).startswith(b"HTTP/1.1 40")
    told = told_by_head(keys.live, head(expecting + keys.calling, size=MIB + 1))
    assert told.startswith(b"HTTP/1.1 413")


def test_a_refusal_by_the_head_is_counted_as_any_other(keys: Keys) -> None:
    metrics = keys.live.parts.metrics
    before = (
        metrics.total("pointsman_refused_keys_total"),
        metrics.total("pointsman_requests_total"),
    )
    told_by_head(keys.live, head())
    after = metrics.total("pointsman_refused_keys_total"), metrics.total("pointsman_requests_total")
    assert after == (before[0] + 1, before[1] + 1)


def test_an_agents_call_refused_by_its_head_leaves_its_entry(keys: Keys) -> None:
    before = len(keys.live.entries("event.agents.call"))
    told = told_by_head(keys.live, head(keys.calling, b"POST /router/decide HTTP/1.1"))
    assert status_of(told) == 403
    eventually(lambda: len(keys.live.entries("event.agents.call")) == before + 1)


def test_a_client_that_goes_on_sending_still_reads_its_refusal(keys: Keys) -> None:
    with connected(keys.live) as sock:
        sock.sendall(head(size=16 * MIB))
        for _ in range(16):
            sock.sendall(bytes(MIB))
        assert status_of(received(sock)) == 401


def test_a_client_that_goes_on_for_ever_is_cut(keys: Keys) -> None:
    with connected(keys.live) as sock:
        sock.sendall(head(size=MIB))
        begun = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() < begun + 9:
                sock.sendall(bytes(1000))
                time.sleep(0.05)
        assert time.monotonic() < begun + 9


def test_bodies_of_callers_without_a_key_are_bounded_all_together(keys: Keys) -> None:
    bodies = keys.live.server.bodies
    with ExitStack() as stack:
        first = stack.enter_context(connected(keys.live))
        first.sendall(head(b"", LOGIN, 60_000) + bytes(40_000))
        eventually(lambda: bodies.keyless == 40_000)
        told = told_by_head(keys.live, head(b"", LOGIN, 40_000))
        assert status_of(told) == 503
        chunked = stack.enter_context(connected(keys.live))
        chunked.sendall(
            request(b"", CHUNKED, LOGIN, length=b"") + b"%x\r\n" % 50_000 + bytes(50_000)
        )
        assert status_of(received(chunked)) == 503
        own = told_by_head(
            keys.live, request(b"[]", b"connection: close\r\n" + keys.calling, MODELS)
        )
        assert status_of(own) == 400
        first.sendall(bytes(20_000))
        assert status_of(received(first)) == 400
    eventually(lambda: bodies.keyless == 0)


def test_heads_that_are_not_whole_count_as_well(keys: Keys) -> None:
    bodies = keys.live.server.bodies
    part = b"GET /health HTTP/1.1\r\nx-a: " + b"b" * 40_000
    with ExitStack() as stack:
        stack.enter_context(connected(keys.live)).sendall(part)
        eventually(lambda: bodies.keyless == len(part))
        second = stack.enter_context(connected(keys.live))
        second.sendall(part)
        assert status_of(received(second)) == 503
        assert keys.live.get("/health").status_code == 200
    eventually(lambda: bodies.keyless == 0)


def test_where_no_key_is_needed_this_machine_is_not_bounded(tmp_path: Path) -> None:
    limits = {"max_keyless_bytes": 1024}
    with running(write_home(tmp_path / "home", pointsman={"server": limits})) as live:
        assert live.post("/api/login", b" " * 100_000).status_code == 400
        assert live.chat("x" * 1_000_000).status_code in (200, 400)


def test_a_refused_request_with_a_whole_body_keeps_its_connection(keys: Keys) -> None:
    with connected(keys.live) as sock:
        for _ in range(3):
            sock.sendall(request(b"{}", b"", b"POST /api/route/preview HTTP/1.1"))
            assert status_of(received(sock)) == 401


def test_memory_goes_back_after_large_bodies(keys: Keys) -> None:
    """Blocks of the C library's heap with one that lives on top of them: it keeps them all."""
    own = psutil.Process()
    blocks = [bytes(2000) for _ in range(60_000)]
    kept = blocks[::1000]
    del blocks
    full = own.memory_info().rss
    body = b" " * MIB
    for _ in range(17):
        keys.live.post("/v1/chat/completions", body, authorization=keys.calling.decode()[15:-2])
    eventually(lambda: own.memory_info().rss < full - 80 * MIB)
    assert len(kept) == 60


def test_what_may_be_read_may_be_asked_for_its_head(keys: Keys) -> None:
    for path in ("/health", "/", "/openapi.json", "/v1/models", "/api/turns", "/api/events"):
        headers = bearer(keys.live.admin) | {"accept-encoding": "identity"}
        told = keys.live.client.head(path, headers=headers)
        assert (told.status_code, told.content) == (200, b""), path
        if path != "/api/events":
            whole = keys.live.get(path, **headers)
            assert told.headers["content-type"] == whole.headers["content-type"]
            assert int(told.headers["content-length"]) == len(whole.content)
    assert keys.live.client.head("/v1/chat/completions").status_code == 405
    assert keys.live.client.head("/api/turns").status_code == 401
