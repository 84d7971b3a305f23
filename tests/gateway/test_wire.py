"""HTTP/1.1 as clients of every kind speak it: old, patient, chunked, in a hurry."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from tests.gateway.house import Running, eventually, running, write_home
from tests.gateway.test_http_limits import answered, request, status_of

HEALTH = b"GET /health HTTP/1.1"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("wire") / "home"
    with running(write_home(home, pointsman={"server": {"head_timeout_s": 2}})) as found:
        yield found


def read_until_closed(sock: socket.socket) -> bytes:
    found = b""
    while piece := sock.recv(65_536):
        found += piece
    return found


def test_an_answer_stands_whole_before_what_cannot_be_read(live: Running) -> None:
    with socket.create_connection(("127.0.0.1", live.port), timeout=30) as sock:
        sock.sendall(request(b"", b"", HEALTH) + b"\x00\x01 nonsense\r\n\r\n")
        told = read_until_closed(sock)
    assert told.count(b"HTTP/1.1") == 1
    assert status_of(told) == 200
    assert told.endswith(b"}")


def test_an_old_client_is_answered_and_let_go(live: Running) -> None:
    with socket.create_connection(("127.0.0.1", live.port), timeout=30) as sock:
        sock.sendall(request(b"", b"", b"GET /health HTTP/1.0"))
        told = read_until_closed(sock)
    assert status_of(told) == 200
    assert b"connection: close" in told.lower()


def test_a_client_that_closes_is_let_go(live: Running) -> None:
    with socket.create_connection(("127.0.0.1", live.port), timeout=30) as sock:
        sock.sendall(request(b"", b"connection: close\r\n", HEALTH))
        assert status_of(read_until_closed(sock)) == 200


def test_a_body_in_chunks_is_the_same_body(live: Running) -> None:
    body = b'{"model":"nobody-knows","messages":[]}'
    whole = answered(live, request(body))
    cut = b"".join(b"%x\r\n%b\r\n" % (1, body[at : at + 1]) for at in range(len(body)))
    headers = b"content-type: application/json\r\ntransfer-encoding: chunked\r\n"
    chunked = answered(live, request(cut + b"0\r\n\r\n", headers, length=b""))
    assert status_of(whole) == status_of(chunked) == 404
    assert whole.partition(b"\r\n\r\n")[2] == chunked.partition(b"\r\n\r\n")[2]


def test_a_kept_connection_is_answered_alike_however_its_requests_differ(live: Running) -> None:
    bodies = [b'{"model":"nobody-%d","messages":[]}' % 10**number for number in range(4)]
    other = request(b"[]", b"content-type: application/json\r\nx-session-id: s\r\n")
    asked = [*map(request, bodies), other, request(bodies[0]), request(b"", b"", HEALTH)]
    with socket.create_connection(("127.0.0.1", live.port), timeout=30) as sock:
        kept = []
        for each in asked:
            sock.sendall(each)
            kept.append(sock.recv(65_536))
    assert [status_of(each) for each in kept] == [404] * 4 + [400, 404, 200]
    for each, body in zip(kept, bodies, strict=False):
        assert msgspec.json.decode(body)["model"].encode() in each
    alone = [answered(live, each) for each in asked[:-1]]
    assert [each.partition(b"\r\n\r\n")[2] for each in kept[:-1]] == [
        each.partition(b"\r\n\r\n")[2] for each in alone
    ]


def test_a_client_that_asks_before_it_sends_is_told_to_go_on(live: Running) -> None:
    body = b'{"model":"nobody-knows","messages":[]}'
    asked = request(body, b"content-type: application/json\r\nexpect: 100-continue\r\n")
    head, body = asked[: -len(body)], asked[-len(body) :]
    with socket.create_connection(("127.0.0.1", live.port), timeout=30) as sock:
        sock.sendall(head)
        assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(body)
        assert status_of(sock.recv(65_536)) == 404


def test_a_head_in_single_bytes_is_the_same_head(live: Running) -> None:
    with socket.create_connection(("127.0.0.1", live.port), timeout=30) as sock:
        for byte in request(b"", b"", HEALTH):
            sock.sendall(bytes([byte]))
        assert status_of(sock.recv(65_536)) == 200


def test_a_refused_head_is_answered_without_its_body(live: Running) -> None:
    with socket.create_connection(("127.0.0.1", live.port), timeout=30) as sock:
        sock.sendall(request(b"", b"", b"POST /nothing HTTP/1.1", length=b"content-length: 9\r\n"))
        told = read_until_closed(sock)
    assert status_of(told) == 404
    assert b"connection: close" in told.lower()


def test_silent_clients_make_room_for_those_that_ask(tmp_path: Path) -> None:
    settings = {"server": {"max_connections": 8, "head_timeout_s": 60}}
    with running(write_home(tmp_path / "home", pointsman=settings)) as few, ExitStack() as stack:
        address = ("127.0.0.1", few.port)
        kept = stack.enter_context(socket.create_connection(address, timeout=30))
        kept.sendall(request(b"", b"", HEALTH))
        assert status_of(kept.recv(65_536)) == 200
        silent = [
            stack.enter_context(socket.create_connection(address, timeout=30)) for _ in range(30)
        ]
        for each in silent:
            each.sendall(b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: ")
        assert status_of(answered(few, request(b"", b"", HEALTH))) == 200
        kept.sendall(request(b"", b"", HEALTH))
        assert status_of(kept.recv(65_536)) == 200
        assert is_cut(silent[0])


def test_callers_that_come_together_are_accepted_together(live: Running) -> None:
    counts: list[int] = []
    known: set[object] = set()
    is_held, are_here = threading.Event(), threading.Event()
    loop = live.server.loop

    def look(rounds: int) -> None:
        counts.append(len(live.server.connections - known))
        if rounds:
            loop.call_soon(look, rounds - 1)

    def hold_up() -> None:
        """Keep the event loop busy until all callers wait to be accepted."""
        known.update(live.server.connections)
        is_held.set()
        are_here.wait(30)
        look(2)

    loop.call_soon_threadsafe(hold_up)
    assert is_held.wait(30)
    with ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(socket.create_connection(("127.0.0.1", live.port), timeout=30))
        are_here.set()
        eventually(lambda: len(counts) == 3)
    assert (counts[0], counts[-1]) == (0, 8)


def is_cut(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except ConnectionError:
        return True
