"""Malformed, oversized and slow HTTP over raw sockets: refused, never a 5xx, never a hang."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import Running, eventually, running, write_home

from pointsman.providers.messages import Text
from pointsman.testing.upstream_replies import (
    STREAM_HEAD,
    Received,
    SendBytes,
    Step,
    a_response,
    answer_events,
    chunk,
)

BODY = b'{"model":"big","messages":[{"role":"user","content":"hi"}]}'
PATH = b"/v1/chat/completions"
TYPE = b"content-type: application/json\r\n"
PATIENCE_S = 9.0
"""Less than the least of the limits where nobody sets one."""

LIMITS = {
    "head_timeout_s": 1,
    "body_timeout_s": 1,
    "write_timeout_s": 1,
    "max_head_bytes": 16_384,
    "max_body_bytes": 65_536,
}


def request(
    body: bytes = BODY,
    headers: bytes = TYPE,
    line: bytes = b"POST " + PATH + b" HTTP/1.1",
    host: bytes = b"host: 127.0.0.1\r\n",
    length: bytes | None = None,
) -> bytes:
    told = b"content-length: %d\r\n" % len(body) if length is None else length
    return line + b"\r\n" + host + headers + told + b"\r\n" + body


def deep(depth: int) -> bytes:
    return b'{"model":"big","messages":' + b"[" * depth + b"]" * depth + b"}"


CHUNKED = b"transfer-encoding: chunked\r\n"


def chunked(body: bytes, headers: bytes = CHUNKED) -> bytes:
    return request(body, TYPE + headers, length=b"")


FRAMING: dict[str, bytes] = {
    "length and chunks": request(headers=TYPE + b"transfer-encoding: chunked\r\n"),
    "chunks and length": chunked(b"0\r\n\r\n", CHUNKED + b"content-length: 5\r\n"),
    "two lengths that differ": request(length=b"content-length: 5\r\ncontent-length: 60\r\n"),
    "a length with a plus": request(length=b"content-length: +59\r\n"),
    "a negative length": request(length=b"content-length: -1\r\n"),
    "a length in hex": request(length=b"content-length: 0x3b\r\n"),
    "a length with a comma": request(length=b"content-length: 59, 60\r\n"),
    "a length that is text": request(length=b"content-length: many\r\n"),
    "an endless length": request(length=b"content-length: 99999999999999999999999\r\n"),
    "another encoding": chunked(b"0\r\n\r\n", b"transfer-encoding: xchunked\r\n"),
    "chunks twice": chunked(b"0\r\n\r\n", b"transfer-encoding: chunked, chunked\r\n"),
    "chunks and then identity": chunked(b"0\r\n\r\n", b"transfer-encoding: chunked, identity\r\n"),
    "a chunk size that is text": chunked(b"zz\r\nhello\r\n0\r\n\r\n"),
    "a chunk size with a sign": chunked(b"+5\r\nhello\r\n0\r\n\r\n"),
    "an endless chunk size": chunked(b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
    "a chunk without its end": chunked(b"5\r\nhelloXX0\r\n\r\n"),
    "a bare line feed in a head": b"POST " + PATH + b" HTTP/1.1\nhost: 127.0.0.1\n\n",
    "a folded header": request(headers=TYPE + b"x-a: b\r\n c\r\n"),
    "a header without a colon": request(headers=TYPE + b"broken\r\n"),
    "a header without a name": request(headers=TYPE + b": value\r\n"),
    "a space before a colon": request(headers=TYPE + b"x-a : b\r\n"),
    "a NUL in a header": request(headers=TYPE + b"x-a: b\x00c\r\n"),
    "a carriage return in a header": request(headers=TYPE + b"x-a: b\rc\r\n"),
    "no line at all": b"\r\n\r\n\x00\x01\x02\r\n\r\n",
    "TLS on a plain port": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "HTTP/2 at once": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a lower-case method": request(line=b"post " + PATH + b" HTTP/1.1"),
    "an unknown method": request(line=b"FETCH " + PATH + b" HTTP/1.1"),
    "no method": request(line=PATH + b" HTTP/1.1"),
    "no version": request(line=b"POST " + PATH),
    "a future version": request(line=b"POST " + PATH + b" HTTP/9.9"),
    "a version that is text": request(line=b"POST " + PATH + b" HTTP/x.y"),
    "two spaces in the line": request(line=b"POST  " + PATH + b"  HTTP/1.1"),
    "a NUL in the path": request(line=b"POST /v1/\x00chat HTTP/1.1"),
    "a space in the path": request(line=b"POST /v1/chat completions HTTP/1.1"),
    "bytes beyond ascii in the path": request(line=b"POST /v1/ch\xc3\xa4t HTTP/1.1"),
    "a fragment only": request(line=b"POST #x HTTP/1.1"),
    "a huge header": request(headers=TYPE + b"x-a: " + b"b" * 70_000 + b"\r\n"),
    "many headers": request(headers=TYPE + b"x-a: bcdefgh\r\n" * 3000),
    "a huge path": request(line=b"POST /" + b"a" * 70_000 + b" HTTP/1.1"),
    "a head without an end": b"GET / HTTP/1.1\r\n" + b"x-a: b\r\n" * 9000,
}  # fmt: skip

MEANING: dict[str, tuple[bytes, int]] = {
    "no host": (request(host=b""), 421),
    "two hosts": (request(host=b"host: 127.0.0.1\r\nhost: evil.example\r\n"), 400),
    "a foreign host": (request(host=b"host: evil.example\r\n"), 421),
    "a host with a path": (request(host=b"host: evil.example/?x=127.0.0.1\r\n"), 421),
    "a host with a user": (request(host=b"host: 127.0.0.1@evil.example\r\n"), 421),
    "a foreign host in absolute form": (
        request(line=b"POST http://a.example" + PATH + b" HTTP/1.1", host=b"host: a.example\r\n"),
        421,
    ),
    "two authorizations": (request(headers=b"authorization: a\r\nauthorization: b\r\n"), 400),
    "two api keys": (request(headers=b"x-api-key: a\r\nx-api-key: b\r\n"), 400),
    "two session ids": (request(headers=b"x-session-id: a\r\nx-session-id: b\r\n"), 400),
    "a foreign origin": (request(headers=TYPE + b"origin: https://evil.example\r\n"), 403),
    "a null origin": (request(headers=TYPE + b"origin: null\r\n"), 403),
    "an oversized body": (request(b" " * 65_537), 413),
    "a chunked oversized body": (chunked(b"10001\r\n" + b" " * 65_537 + b"\r\n0\r\n\r\n"), 413),
    "no body": (request(b""), 400),
    "bytes that are no utf-8": (request(BODY.replace(b"hi", b"\xff\xfe")), 400),
    "utf-16": (request(BODY.decode().encode("utf-16")), 400),
    "a lone surrogate": (request(b'{"model":"big","messages":[],"user":"\\ud800"}'), 400),
    "no JSON": (request(b"hello"), 400),
    "half of a JSON": (request(BODY[:-5]), 400),
    "a JSON and a half": (request(BODY + b"{}"), 400),
    "a JSON list": (request(b"[]"), 400),
    "a JSON null": (request(b"null"), 400),
    "deep JSON": (request(deep(5000)), 400),
    "a key twice": (request(b'{"model":"big","model":"opus","messages":[]}'), 400),
    "no messages": (request(b'{"model":"big"}'), 400),
    "messages that are a number": (request(b'{"model":"big","messages":5}'), 400),
    "a model that is a number": (request(b'{"model":5,"messages":[]}'), 400),
    "NaN": (request(b'{"model":"big","messages":[],"temperature":NaN}'), 400),
    "a long session id": (request(headers=b"x-session-id: " + b"a" * 300 + b"\r\n"), 400),
    "a session id beyond ascii": (request(headers=b"x-session-id: \xe4\r\n"), 400),
    "an unknown path": (request(line=b"POST /v1/nothing HTTP/1.1"), 404),
    "a double slash": (request(line=b"POST //v1/chat/completions HTTP/1.1"), 404),
    "an escaped dot": (request(line=b"POST /v1/%2e%2e/api/keys HTTP/1.1"), 404),
    "a GET of a POST": (request(b"", line=b"GET " + PATH + b" HTTP/1.1"), 405),
    "a DELETE of a POST": (request(line=b"DELETE " + PATH + b" HTTP/1.1"), 405),
    "a form": (request(b"model=big", b"content-type: application/x-www-form-urlencoded\r\n"), 400),
    "a multipart form": (request(b"--x", b"content-type: multipart/form-data\r\n"), 400),
}  # fmt: skip


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = write_home(tmp_path_factory.mktemp("limits") / "home", pointsman={"server": LIMITS})
    with running(home) as live:
        yield live


def answered(live: Running, data: bytes) -> bytes:
    """Send bytes and read until the server closes, or has answered and waits for more."""
    with socket.create_connection(("127.0.0.1", live.port), timeout=PATIENCE_S) as sock:
        with suppress(BrokenPipeError, ConnectionResetError):
            sock.sendall(data)
        return received(sock)


def received(sock: socket.socket) -> bytes:
    found = b""
    with suppress(ConnectionResetError):
        while not is_whole(found) and (piece := sock.recv(65_536)):
            found += piece
    return found


def is_whole(data: bytes) -> bool:
    head, end, body = data.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return bool(end and lengths) and len(body) >= int(lengths[0].split(b":")[1])


def status_of(data: bytes) -> int:
    return int(data.split(b" ", 2)[1]) if data else 0


@pytest.mark.parametrize("case", FRAMING)
def test_bytes_that_are_no_request_are_refused_and_the_connection_closed(
    limited: Running, case: str
) -> None:
    told = answered(limited, FRAMING[case])
    assert status_of(told) in (0, 400, 404, 405), told[:200]
    assert b"traceback" not in told.lower()
    assert limited.get("/health").status_code == 200


@pytest.mark.parametrize("case", MEANING)
def test_requests_that_mean_nothing_here_are_refused(limited: Running, case: str) -> None:
    data, status = MEANING[case]
    told = answered(limited, data)
    assert status_of(told) == status, told[:300]
    assert b"access-control" not in told.lower()
    value = json.loads(told.partition(b"\r\n\r\n")[2])
    assert value.get("error") or value["error_code"]


def test_sixty_cases_and_more_are_covered() -> None:
    assert len(FRAMING) + len(MEANING) >= 60


def test_nothing_was_decided_by_any_of_them(limited: Running) -> None:
    for data, _status in MEANING.values():
        answered(limited, data)
    assert limited.kinds() == []


def test_a_preflight_gets_no_permission(limited: Running) -> None:
    asked = (
        b"OPTIONS " + PATH + b" HTTP/1.1\r\nhost: 127.0.0.1\r\norigin: https://evil.example\r\n"
        b"access-control-request-method: POST\r\n\r\n"
    )
    told = answered(limited, asked)
    assert status_of(told) in (403, 405)
    assert b"access-control" not in told.lower()


def test_its_own_page_may_ask(limited: Running) -> None:
    own = b"origin: http://127.0.0.1\r\n"
    told = answered(limited, request(b"", own, b"GET /health HTTP/1.1"))
    assert status_of(told) == 200


def test_an_upgrade_is_not_taken(limited: Running) -> None:
    upgrade = b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: eA==\r\n"
    told = answered(limited, request(b"", upgrade, b"GET /health HTTP/1.1"))
    assert status_of(told) in (200, 400)


@pytest.mark.parametrize(
    "begun", [b"", b"POST ", b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nx-a: "]
)
def test_a_head_that_does_not_arrive_is_not_waited_for(limited: Running, begun: bytes) -> None:
    started = time.monotonic()
    told = answered(limited, begun)
    assert time.monotonic() - started < PATIENCE_S
    assert status_of(told) in (0, 400, 408)


def test_a_head_that_drips_is_not_waited_for(limited: Running) -> None:
    deadline = time.monotonic() + PATIENCE_S
    with socket.create_connection(("127.0.0.1", limited.port), timeout=0.05) as sock:
        with suppress(BrokenPipeError, ConnectionResetError):
            sock.sendall(b"GET /health HTTP/1.1\r\n")
            while time.monotonic() < deadline:
                sock.sendall(b"x")
                with suppress(TimeoutError):
                    sock.recv(100)
        assert time.monotonic() < deadline


def test_a_body_that_does_not_arrive_is_not_waited_for(limited: Running) -> None:
    started = time.monotonic()
    told = answered(limited, request(BODY[:10], length=b"content-length: 59\r\n"))
    assert time.monotonic() - started < PATIENCE_S
    assert status_of(told) == 408
    assert b"connection: close" in told.lower()


def test_a_client_that_does_not_read_is_cut_and_its_call_ended(town: Town) -> None:
    """The provider would send for ever; nobody reads."""

    def endless(asked: Received) -> list[Step]:
        pieces = answer_events(asked, a_response(Text("x" * 20_000)))[:2]
        return [
            SendBytes(STREAM_HEAD),
            SendBytes(chunk(pieces[0])),
            SendBytes(chunk(pieces[1]), times=0),
        ]

    town.openai.then(endless)
    write_home(town.home, pointsman={"server": LIMITS})
    with running(town.home) as live:
        with socket.create_connection(("127.0.0.1", live.port), timeout=PATIENCE_S) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            body = BODY[:-1] + b',"stream":true}'
            sock.sendall(request(body))
            (end,) = live.outcomes(1)
        assert end["error_class"] == "cancelled"
        assert live.get("/health").status_code == 200
        eventually(lambda: town.openai.kept == 0)


def test_a_good_request_follows_on_the_same_connection(limited: Running) -> None:
    asked = request(b"", b"", b"GET /health HTTP/1.1")
    with socket.create_connection(("127.0.0.1", limited.port), timeout=PATIENCE_S) as sock:
        for _ in range(3):
            sock.sendall(asked)
            assert status_of(received(sock)) == 200


def test_pipelined_requests_are_answered_in_their_order(limited: Running) -> None:
    asked = request(b"", b"", b"GET /health HTTP/1.1")
    with socket.create_connection(("127.0.0.1", limited.port), timeout=PATIENCE_S) as sock:
        sock.sendall(asked * 3)
        found = b""
        while found.count(b"HTTP/1.1 200") < 3 or found.count(b'"ok"') < 3:
            found += sock.recv(65_536)
    assert found.count(b"HTTP/1.1 200") == 3


def test_a_foreign_name_can_be_allowed(tmp_path: Path) -> None:
    settings = {"server": {"hosts": ["gateway.example"], "origins": ["https://app.example"]}}
    home = write_home(tmp_path / "home", pointsman=settings)
    with running(home) as live:
        headers = b"origin: https://app.example\r\n"
        asked = request(b"", headers, b"GET /health HTTP/1.1", b"host: gateway.example:443\r\n")
        assert status_of(answered(live, asked)) == 200
