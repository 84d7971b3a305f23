"""A secret in memory, which does not show itself, and the login that a caller sends along."""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class Secret:
    """A secret that does not show itself, neither in a message nor in a traceback or a pickle."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the secret's text; only to write it on the wire."""
        return self._text

    def redact(self, data: bytes) -> bytes:
        """Take the secret out of something that is not secret."""
        return data.replace(self._text.encode(), b"[redacted]") if self._text else data

    def __repr__(self) -> str:
        return "Secret()"

    def __reduce__(self) -> str:
        raise TypeError("a secret is not copied")


NO_SECRET: Final = Secret("")


class CallerLogin(Struct, frozen=True):
    """A caller's own login at a provider, and whether it came as `authorization: Bearer`.

    It came as `x-api-key` otherwise. It is sent as it came, and never recorded.
    """

    secret: Secret
    is_bearer: bool
