"""Raw HTTP that attackers and odd clients send, each case with the statuses that hold it off.

What cannot be read is followed by one more good request: whoever answers that one reads bytes
differently from what stood before it.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from tests.gateway.house import Running

PATIENCE_S = 9.0
PATH = b"/v1/chat/completions"
LINE = b"POST " + PATH + b" HTTP/1.1\r\n"
HOST = b"host: 127.0.0.1\r\n"
BODY = b'{"model":"no-such","messages":[{"role":"user","content":"hi"}]}'
LENGTH = b"content-length: %d\r\n" % len(BODY)
CHUNKS = b"transfer-encoding: chunked\r\n"
CHUNKED_BODY = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
NEXT = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"

INVALID = frozenset({400})
SERVED = frozenset({404})
"""The model of the body is not known: the request was read as it was meant."""


class Case(NamedTuple):
    """Bytes, the statuses one of which must be the only answer, and whether it must then close."""

    group: str
    name: str
    data: bytes
    statuses: frozenset[int] = INVALID
    closes: bool = True


def head(headers: bytes = b"", *, line: bytes = LINE, host: bytes = HOST) -> bytes:
    return line + host + headers + b"\r\n"


def post(headers: bytes = b"", **parts: bytes) -> bytes:
    return head(headers + LENGTH, **parts) + BODY


def chunked(body: bytes, headers: bytes = CHUNKS) -> bytes:
    return head(headers) + body


def shown(data: bytes) -> str:
    return repr(data)[2:-1]


def _names() -> Iterator[Case]:
    separators = b'"(),/;<=>?@[\\]{} '
    for byte in [*range(32), *separators, 127, 128, 160, 255]:
        yield Case("a byte in a header's name", f"{byte:#04x}", post(b"x%ca: b\r\n" % byte))
    for name in (
        b": empty\r\n",
        b"no colon\r\n",
        b" folded: a\r\n",
        b"x-a : b\r\n",
        b"x-a\t: b\r\n",
    ):
        yield Case("a header's name", shown(name), post(name))


def _values() -> Iterator[Case]:
    for byte in [*range(9), *range(10, 32), 127]:
        yield Case("a byte in a header's value", f"{byte:#04x}", post(b"x-a: b%cc\r\n" % byte))
    for value in (b"x-a: b\r\n c\r\n", b"x-a: b\r\n\tc\r\n", b"x-a:\r\n b\r\n", b"x-a: b\n\r\n"):
        yield Case("a folded or cut line", shown(value), post(value))


def _targets() -> Iterator[Case]:
    for byte in [*range(33), 127, 128, 195, 255]:
        line = b"POST /v1/%cchat HTTP/1.1\r\n" % byte
        yield Case("a byte in the target", f"{byte:#04x}", post(line=line))
    refused = {
        b"//v1/chat/completions": {404}, b"/v1//chat/completions": {404},
        b"/v1/chat/completions/": {404},
        b"/v1/%2e%2e/api/keys": {404}, b"/v1/../api/keys": {404}, b"/v1/chat%2fcompletions": {404},
        b"/V1/CHAT/COMPLETIONS": {404}, b"/v1/chat/completions;a=b": {404}, b"/": {405},
        b"*": {400, 404},
        b"/v1/chat/completions#x": {404}, b"#x": {400}, b"x": {400}, b"http:": {400},
        b"http://": {400}, b"http://127.0.0.1": {400, 404, 405}, b"127.0.0.1:80": {400},
        b"\\": {400},
        b"/%00": {404}, b"/" + b"a" * 300: {404}, b"/%zz": {404},
        b"http://evil.example/": {404, 405, 421},
    }  # fmt: skip
    for target, statuses in refused.items():
        line = b"POST " + target + b" HTTP/1.1\r\n"
        name = shown(target[:40])
        yield Case("a target", name, post(line=line), frozenset(statuses), closes=False)


def _lines() -> Iterator[Case]:
    for version in (
        b"HTTP/2.0", b"HTTP/2", b"HTTP/3.0", b"HTTP/1.2", b"HTTP/1.9", b"HTTP/0.9", b"HTTP/1",
        b"HTTP/1.",
        b"HTTP/1.1.1", b"HTTP/11", b"HTTP/x.y", b"HTTP/9.9", b"http/1.1", b"HTTP /1.1",
        b"HTTP/ 1.1",
        b"HTTPS/1.1", b"HTTP/1.1 ", b"HTTP/1.1\t", b"HTTP/01.1", b"HTTP/+1.1", b"HTTP/1,1",
        b"ICE/1.0",
        b"RTSP/1.0", b"SIP/2.0", b"", b"1.1", b"HTTP", b"HTTP/",
    ):  # fmt: skip
        yield Case(
            "a version", shown(version), post(line=b"POST " + PATH + b" " + version + b"\r\n")
        )
    for line in (
        b"POST  " + PATH + b" HTTP/1.1", b"POST " + PATH + b"  HTTP/1.1",
        b"POST   " + PATH + b"   HTTP/1.1",
        b" POST " + PATH + b" HTTP/1.1", b"POST\t" + PATH + b"\tHTTP/1.1",
        b"POST" + PATH + b" HTTP/1.1",
        b"POST " + PATH, b"POST", b"POST ", PATH + b" HTTP/1.1", b" HTTP/1.1",
        b"post " + PATH + b" HTTP/1.1",
        b"Post " + PATH + b" HTTP/1.1", b"P0ST " + PATH + b" HTTP/1.1",
        b"PO:ST " + PATH + b" HTTP/1.1",
        b"POST\x0b" + PATH + b" HTTP/1.1", b"POST " + PATH + b"\x0cHTTP/1.1",
        b"POST " + PATH + b" x HTTP/1.1",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"SSH-2.0-OpenSSH_9.2", b"\x00", b"{}",
        b"?",
        b"FETCH " + PATH + b" HTTP/1.1", b"PRI * HTTP/2.0", b"GET / HTTP/1.1\nhost: 127.0.0.1\n",
        LINE[:-2] + b"\n" + HOST, LINE[:-2] + b"\r" + HOST, LINE[:-2] + b"\r\r\n" + HOST,
    ):  # fmt: skip
        yield Case("a request line", shown(line), post(line=line + b"\r\n"))


def _lengths() -> Iterator[Case]:
    for value in (
        b"+5", b"-1", b"-0", b"0x5", b"5 5", b"5,5", b"5, 5", b"5;", b"5.0", b"5e1", b"many",
        b"", b" ",
        b"99999999999999999999999", b"18446744073709551616", b"\xb2", b"5\x00", b"5_0", b"''",
        b'"5"',
        b"0b1", b"5a", b"a5", b"\xef\xbc\x95", b"NaN", b"inf", b"5\t5", b"1 ", b"chunked",
    ):  # fmt: skip
        data = head(b"content-length: " + value + b"\r\n") + BODY[:5]
        # One byte and a blank behind it is a length: its body is no JSON, then comes the rest.
        yield Case("a length", shown(value), data)
    for headers in (
        LENGTH + LENGTH, LENGTH + b"content-length: 5\r\n", b"content-length: 5\r\n" + LENGTH,
        LENGTH + b"Content-Length: 0\r\n", b"content-length: 0\r\ncontent-length: 0\r\n",
        LENGTH + CHUNKS, CHUNKS + LENGTH, CHUNKS + b"content-length: 0\r\n",
        b"content-length: 0\r\n" + CHUNKS, LENGTH + b"transfer-encoding: identity\r\n",
        LENGTH + b"transfer-encoding: \r\n", LENGTH + b"transfer-encoding: xchunked\r\n",
    ):  # fmt: skip
        yield Case("two lengths", shown(headers), head(headers) + CHUNKED_BODY)


def _codings() -> Iterator[Case]:
    for value in (
        b"xchunked", b"chunkedx", b"chunked, chunked", b"chunked,chunked", b"chunked, identity",
        b"identity, chunked", b"identity", b"gzip, chunked", b"gzip", b"deflate", b"chunked;a=b",
        b"chunked ;", b"", b",chunked", b"chunked,", b'"chunked"', b"chun ked", b"\x0bchunked",
        b"chunk\x00ed", b"cow, chunked", b"chunked\x0b", b"trailers", b"\xe2\x84\xaahunked",
    ):  # fmt: skip
        headers = b"transfer-encoding: " + value + b"\r\n"
        yield Case("a transfer coding", shown(value), chunked(CHUNKED_BODY, headers))
    for headers in (CHUNKS + CHUNKS, CHUNKS + b"transfer-encoding: identity\r\n"):
        yield Case("two transfer codings", shown(headers), chunked(CHUNKED_BODY, headers))
    for name in (b"transfer_encoding", b"transfer-encoding\x0b", b"transfer-encoding "):
        data = chunked(CHUNKED_BODY, name + b": chunked\r\n")
        yield Case("a transfer coding by another name", shown(name), data)
    old = b"POST " + PATH + b" HTTP/1.0\r\n"
    yield Case("a transfer coding", "of an old client", head(CHUNKS, line=old) + CHUNKED_BODY)


def _chunks() -> Iterator[Case]:
    for body in (
        b"zz\r\nhello\r\n0\r\n\r\n", b"+5\r\nhello\r\n0\r\n\r\n", b"-5\r\nhello\r\n0\r\n\r\n",
        b"0x5\r\nhello\r\n0\r\n\r\n", b"5 \nhello\r\n0\r\n\r\n", b"5\nhello\n0\n\n",
        b"5\r\nhelloXX0\r\n\r\n",
        b"5\r\nhello0\r\n\r\n", b"5\r\nhell\r\n0\r\n\r\n", b"4\r\nhello\r\n0\r\n\r\n",
        b"5\rhello\r\n0\r\n\r\n",
        b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n", b"10000000000000005\r\nhello\r\n0\r\n\r\n",
        b" 5\r\nhello\r\n0\r\n\r\n", b"\r\n5\r\nhello\r\n0\r\n\r\n",
        b"5\r\n\r\nhello\r\n0\r\n\r\n", b"\x00\r\n\r\n",
        b"5;a\nb\r\nhello\r\n0\r\n\r\n", b"5;\x00\r\nhello\r\n0\r\n\r\n",
        b"5_0\r\nhello\r\n0\r\n\r\n",
        b"five\r\nhello\r\n0\r\n\r\n", b"5,5\r\nhello\r\n0\r\n\r\n", b";5\r\nhello\r\n0\r\n\r\n",
        b"0\r\nbroken\r\n\r\n", b"0\r\n x: y\r\n\r\n", b"0\r\nx\x00y: z\r\n\r\n",
        b"0\r\n: y\r\n\r\n",
        b"\xb2\r\nhello\r\n0\r\n\r\n",
    ):  # fmt: skip
        yield Case("a chunk", shown(body), chunked(body))


def _hosts() -> Iterator[Case]:
    for host in (
        b"evil.example", b"evil.example:80", b"127.0.0.1.evil.example", b"127.0.0.1@evil.example",
        b"evil.example/?x=127.0.0.1", b"evil.example#127.0.0.1", b"127.0.0.2", b"2130706433",
        b"0x7f.1",
        b"127.1", b"0.0.0.0", b"[::ffff:7f00:1]", b"localhost.evil.example", b"xlocalhost", b"",
        b":80",
        b"127.0.0.1, evil.example", b"evil.example, 127.0.0.1", b"127.0.0.1 evil.example", b"[::1",
        b"localhost.", b"\xff", b"127.0.0.1%00.evil.example", b"//127.0.0.1", b"a" * 300, b"*",
    ):  # fmt: skip
        data = post(host=b"host: " + host + b"\r\n")
        statuses = frozenset({400, 421})
        yield Case("a host", shown(host[:40]), data, statuses, closes=False)
    yield Case("a host", "none", post(host=b""), frozenset({421}), closes=False)
    absolute = b"POST http://a.example" + PATH + b" HTTP/1.1\r\n"
    data = post(line=absolute, host=b"host: a.example\r\n")
    yield Case("a host", "in absolute form", data, frozenset({421}), closes=False)
    for name in (
        b"host", b"authorization", b"x-api-key", b"content-type", b"x-session-id", b"expect",
        b"x-pointsman-privacy", b"x-pointsman-workspace", b"x-pointsman-agent",
        b"x-pointsman-labels",
    ):  # fmt: skip
        value = b"100-continue" if name == b"expect" else b"127.0.0.1"
        twice = b"%b: %b\r\n%b: %b\r\n" % (name, value, name.title(), value)
        own = b"" if name == b"host" else HOST
        yield Case("a header twice", shown(name), post(twice, host=own), closes=False)


def _methods() -> Iterator[Case]:
    for method in (b"GET", b"PUT", b"DELETE", b"PATCH", b"OPTIONS", b"TRACE", b"PROPFIND", b"LOCK"):
        line = method + b" " + PATH + b" HTTP/1.1\r\n"
        statuses = frozenset({405})
        yield Case("a method", shown(method), post(line=line), statuses, closes=False)
    data = b"CONNECT 127.0.0.1:80 HTTP/1.1\r\n" + HOST + b"\r\n"
    yield Case("a method", "CONNECT", data)


def _upgrades() -> Iterator[Case]:
    h2c = b"connection: Upgrade, HTTP2-Settings\r\nhttp2-settings: AAMAAABkAAQAoAAA\r\n"
    for name, headers in {
        "h2c": h2c + b"upgrade: h2c\r\n",
        "websocket": b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: eA==\r\n",
        "several": b"connection: keep-alive, upgrade\r\nupgrade: h2c, websocket\r\n",
        "TLS": b"connection: upgrade\r\nupgrade: TLS/1.2\r\n",
        "not asked for": b"upgrade: h2c\r\n",
        "without a name": b"connection: upgrade\r\n",
    }.items():
        yield Case("an upgrade", name, post(headers), SERVED, closes=False)
        data = chunked(CHUNKED_BODY, headers + CHUNKS)
        yield Case("an upgrade in chunks", name, data, SERVED, closes=False)


def _expectations() -> Iterator[Case]:
    for value in (b"200-ok", b"100-continue, x", b"", b"x", b"101-switching", b"100", b"continue"):
        data = post(b"expect: " + value + b"\r\n")
        yield Case("an expectation", shown(value), data, frozenset({417}), closes=False)
    for value in (b"100-continue", b"100-Continue", b"100-CONTINUE"):
        data = post(b"expect: " + value + b"\r\n")
        yield Case("an expectation", shown(value), data, SERVED, closes=False)
    old = b"POST " + PATH + b" HTTP/1.0\r\n"
    for value in (b"100-continue", b"200-ok"):
        data = post(b"expect: " + value + b"\r\n", line=old)
        yield Case("an expectation of an old client", shown(value), data, SERVED)


def _sizes() -> Iterator[Case]:
    for name, headers in {
        "one long header": b"x-a: " + b"b" * 70_000 + b"\r\n",
        "a long name": b"x" * 70_000 + b": b\r\n",
        "many headers": b"".join(b"x-%d: b\r\n" % number for number in range(8000)),
        "one header again and again": b"x-a: b\r\n" * 9000,
        "headers without a value": b"x-a:\r\n" * 12_000,
    }.items():
        yield Case("a large head", name, post(headers))
    line = b"POST /" + b"a" * 70_000 + b" HTTP/1.1\r\n"
    yield Case("a large head", "a long target", post(line=line))
    yield Case("a large head", "without an end", LINE + b"x-a: b\r\n" * 9000)
    big = head(b"content-length: 99999999\r\n")
    yield Case("a large body", "by its head", big, frozenset({413}))


def cases() -> list[Case]:
    parts = (
        _names(), _values(), _targets(), _lines(), _lengths(), _codings(), _chunks(), _hosts(),
        _methods(), _upgrades(), _expectations(), _sizes(),
    )  # fmt: skip
    return [case for part in parts for case in part]


def answers(live: Running, case: Case) -> tuple[list[int], bool]:
    """Send a case and one more request; return the statuses that came, and if it was closed."""
    with socket.create_connection(("127.0.0.1", live.port), timeout=PATIENCE_S) as sock:
        with suppress(BrokenPipeError, ConnectionResetError):
            sock.sendall(case.data + NEXT)
        if case.closes:
            found, is_closed = _read(sock, answers=0)
        else:
            found, is_closed = _read(sock, answers=2)
    return found, is_closed


def _read(sock: socket.socket, answers: int) -> tuple[list[int], bool]:
    """Read so many answers, or until it is closed; interim ones do not count."""
    data, statuses = b"", list[int]()
    while not answers or len(statuses) < answers:
        try:
            piece = sock.recv(65_536)
        except (ConnectionResetError, TimeoutError):
            return statuses, False
        if not piece:
            return statuses, True
        data += piece
        while (end := data.find(b"\r\n\r\n")) >= 0:
            told = data[:end].lower()
            status, body = int(told.split(b" ", 2)[1]), 0
            for line in told.split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    body = int(line.partition(b":")[2])
            if len(data) < end + 4 + body:
                break
            data = data[end + 4 + body :]
            if status >= 200:
                statuses.append(status)
    return statuses, False


def fault(live: Running, case: Case) -> str:
    """Say what is wrong with how a case was answered; nothing where it was held off."""
    statuses, is_closed = answers(live, case)
    if case.closes:
        is_right = is_closed and len(statuses) == 1 and statuses[0] in case.statuses
    else:
        is_right = len(statuses) == 2 and statuses[0] in case.statuses and statuses[1] == 200
        is_right = is_right or (is_closed and len(statuses) == 1 and statuses[0] in case.statuses)
    return "" if is_right else f"{case.group}, {case.name}: {statuses}, closed: {is_closed}"
