"""Who asks: the key a request carries, and what its caller may do."""

from __future__ import annotations

from pointsman.access.keys import ANONYMOUS, Principal, Scope
from pointsman.errors import NotAuthenticated
from pointsman.gateway.http import Asked
from pointsman.gateway.parts import Parts

_BEARER = "bearer "


def caller_of(parts: Parts, asked: Asked, scope: Scope = "models") -> Principal:
    """Give who makes a call, or raise why it is not served."""
    return parts.keyring.principal(
        credential_of(asked),
        scope=scope,
        is_loopback=is_loopback(asked.client),
        now=parts.pointsman.clock.now(),
    )


def check_reader(parts: Parts, asked: Asked, scope: Scope = "read") -> Principal:
    """Give who reads what was decided; while there is no key, this machine may."""
    try:
        return caller_of(parts, asked, scope)
    except NotAuthenticated:
        if is_loopback(asked.client) and not parts.keyring.keys(parts.pointsman.clock.now()).known:
            return ANONYMOUS
        raise


def credential_of(asked: Asked) -> str | None:
    """Give the key of a request: as OpenAI's clients send it, or as Anthropic's do."""
    given = asked.header(b"authorization")
    if given[: len(_BEARER)].lower() == _BEARER:
        return given[len(_BEARER) :].strip()
    return asked.header(b"x-api-key") or None


def is_loopback(client: str) -> bool:
    """Tell whether a request comes from this machine."""
    return client.startswith("127.") or client in {"::1", "::ffff:127.0.0.1"}
