"""One HTTP request of a workflow: to this machine, or to a host that is listed. No redirects."""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

import msgspec

from pointsman.errors import InputError
from pointsman.expressions.values import Value
from pointsman.storage.policies.action_written import HttpCall
from pointsman.version import VERSION
from pointsman.workflows.templates import fill

_USUAL = {"http": 80, "https": 443}
_PART = 16 * 1024
_NUMBERS = msgspec.json.Encoder(decimal_format="number")


def host_of(url: str) -> str:
    """Return the host of an address, with its port where it is not the usual one."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise InputError("this is no address", where=url) from None
    if not host or "@" in parts.netloc:
        raise InputError("an address names a host, and no password", where=url)
    return host if port in {None, _USUAL.get(parts.scheme)} else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Tell whether a host, with or without a port, is this machine."""
    name = host if host.count(":") > 1 else host.partition(":")[0]
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def send_http_call(
    call: HttpCall, context: Mapping[str, Value], seconds: float, most: int
) -> tuple[int, bytes]:
    """Make the call; return the status and the body, which may not be larger than `most`.

    Raises TimeoutError where it takes longer than `seconds`.
    """
    body = b"" if call.json is None else _NUMBERS.encode(fill(call.json, context))
    headers = {"user-agent": f"pointsman/{VERSION}", "accept": "application/json"}
    headers |= {"content-type": "application/json"} if body else {}
    headers |= {name.lower(): text for name, text in call.headers.items()}
    parts = urlsplit(call.url)
    path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    deadline = time.monotonic() + seconds
    connection = _connection(call.url, seconds)
    try:
        connection.request(call.method, path, body or None, headers)
        answer = connection.getresponse()
        return answer.status, _body(answer, connection, deadline, most)
    except TimeoutError:
        raise
    except (http.client.HTTPException, OSError) as error:
        raise InputError(f"the call failed: {str(error).lower() or type(error).__name__}") from None
    finally:
        connection.close()


def _connection(url: str, seconds: float) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(host, parts.port, timeout=seconds, context=context)
    return http.client.HTTPConnection(host, parts.port, timeout=seconds)


def _body(
    answer: http.client.HTTPResponse,
    connection: http.client.HTTPConnection,
    deadline: float,
    most: int,
) -> bytes:
    """Read the body until the deadline; a trickle must not keep a run waiting."""
    parts: list[bytes] = []
    size = 0
    while part := answer.read1(_PART):
        size += len(part)
        parts.append(part)
        left = deadline - time.monotonic()
        if size > most:
            raise InputError(f"the answer is larger than {most} bytes")
        if left <= 0:
            raise TimeoutError
        if connection.sock is not None:
            connection.sock.settimeout(left)
    return b"".join(parts)
