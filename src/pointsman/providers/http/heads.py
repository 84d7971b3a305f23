"""The heads of requests to a provider, made once for each address."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final
from urllib.parse import urlencode

from pointsman.providers.http.exchange import RequestBytes
from pointsman.providers.login import OpenLogin
from pointsman.providers.port import Outgoing, UpstreamError
from pointsman.providers.secret import NO_SECRET, CallerLogin, Secret
from pointsman.providers.vendors import Vendor
from pointsman.turns.registry.upstream import HEADER_VALUE, UpstreamOrigin
from pointsman.version import VERSION


class HeadTemplate:
    """Writes the heads of requests to one address."""

    __slots__ = ("_accept", "_fixed", "_names", "_own", "_ready", "_sign", "_vendor")

    def __init__(
        self,
        vendor: Vendor,
        origin: UpstreamOrigin,
        target: str,
        headers: Mapping[str, str],
        accept: str,
        login: OpenLogin | None = None,
    ) -> None:
        self._accept = accept
        lines = {
            "host": origin.host_header,
            "user-agent": f"pointsman/{VERSION}",
            "content-type": "application/json",
            "accept-encoding": "identity",
            **headers,
        }
        self._vendor = vendor
        self._sign = None if login is None else partial(login.sign, origin.host_header, target)
        self._names = frozenset(lines)
        self._own = _lines(vendor.headers.items())
        self._fixed = f"POST {target} HTTP/1.1\r\n{_lines(lines.items())}"
        self._ready: dict[bool, tuple[Secret, bytes]] = {}
        """The head up to the length, without passed headers, and the key it holds."""

    def message(self, outgoing: Outgoing, secret: Secret) -> RequestBytes:
        """Return the bytes of a request with a key in them."""
        is_stream, body = outgoing.is_stream, outgoing.body
        if outgoing.headers or outgoing.media_type or outgoing.login is not None:
            # Headers that may be refused come first: once the key is written, nothing may raise.
            # Another caller's login comes next: nothing of it is remembered.
            passed = self._passed_lines(outgoing.headers) if outgoing.headers else self._own
            line = _JSON_LINE
            if outgoing.media_type:
                line = f"content-type: {_header_value(outgoing.media_type)}\r\n".encode("ascii")
            head = self._before_length(passed, secret, is_stream, outgoing.login)
            head = head.replace(_JSON_LINE, line)
        else:
            ready = self._ready.get(is_stream)
            if ready is None or ready[0] is not secret:
                ready = (secret, self._before_length(self._own, secret, is_stream))
                self._ready[is_stream] = ready
            head = ready[1]
        if self._sign is not None:
            head += self._sign(body).encode("ascii")
        return RequestBytes(b"%bcontent-length: %d\r\n\r\n" % (head, len(body)), body)

    def _before_length(
        self,
        passed: str,
        secret: Secret,
        is_stream: bool,  # noqa: FBT001 - as an answer is asked for
        login: CallerLogin | None = None,
    ) -> bytes:
        vendor = self._vendor
        accept = "text/event-stream" if is_stream else self._accept
        before = f"{vendor.key_header}: {vendor.key_prefix}"
        if login is not None:
            before = "authorization: Bearer " if login.is_bearer else "x-api-key: "
        key = "" if secret is NO_SECRET else f"{before}{secret.reveal()}\r\n"
        return f"{self._fixed}{passed}{key}accept: {accept}\r\n".encode("ascii")

    def _passed_lines(self, given: Iterable[tuple[str, str]]) -> str:
        """Return the lines of passed headers, over those the vendor always wants."""
        vendor = self._vendor
        lines: dict[str, str] = {}
        for name, value in given:
            key = name.lower()
            if key not in vendor.passed or key in self._names:
                continue
            _header_value(value, key)
            lines[key] = f"{lines[key]}, {value}" if key in lines else value
        return _lines({**vendor.headers, **lines}.items())


_JSON_LINE: Final = b"content-type: application/json\r\n"


def _header_value(value: str, name: str = "content-type") -> str:
    """Return the value of a caller's header, or raise that a header cannot hold it."""
    if HEADER_VALUE.fullmatch(value):
        return value
    message = f"the header `{name}` holds characters that a header cannot hold"
    raise UpstreamError(message, error_class="invalid_request")


def target_of(path: str, query: Mapping[str, str]) -> str:
    """Return the request target: a path and the configured query."""
    return f"{path}?{urlencode(query)}" if query else path


def _lines(headers: Iterable[tuple[str, str]]) -> str:
    return "".join(f"{name}: {value}\r\n" for name, value in headers)
