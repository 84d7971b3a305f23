"""One HTTP exchange with a witness or a time-stamp authority: bounded in time and size."""

from __future__ import annotations

import http.client
import ssl
import time
from typing import Final
from urllib.parse import urlsplit

from pointsman.version import VERSION

MOST_ANSWER: Final = 4 << 20


class Unreachable(Exception):
    """The other side did not answer in time, or not in HTTP."""


def exchange(
    url: str, body: bytes | None, media: str, seconds: float, most: int = MOST_ANSWER
) -> tuple[int, bytes]:
    """Post a body, or get without one; return status and answer. Follows no redirect or proxy."""
    parts = urlsplit(url)
    path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    headers = {"user-agent": f"pointsman/{VERSION}"} | ({"content-type": media} if media else {})
    deadline = time.monotonic() + seconds
    connection = _connection(parts.scheme, parts.hostname or "", parts.port, seconds)
    try:
        connection.request("GET" if body is None else "POST", path, body, headers)
        answer = connection.getresponse()
        data = b""
        while part := answer.read1(1 << 16):
            data += part
            if len(data) > most:
                raise Unreachable(f"its answer is larger than {most} bytes")
            if time.monotonic() > deadline:
                raise Unreachable("its answer took too long")
    except (http.client.HTTPException, OSError, ValueError) as error:
        raise Unreachable(str(error).lower() or type(error).__name__) from error
    finally:
        connection.close()
    return answer.status, data


def _connection(
    scheme: str, host: str, port: int | None, seconds: float
) -> http.client.HTTPConnection:
    if scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(host, port, timeout=seconds, context=context)
    return http.client.HTTPConnection(host, port, timeout=seconds)
