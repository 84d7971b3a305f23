"""Tokens that a vendor gives for other secrets, fetched from its endpoint: Entra's for Azure."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from pointsman.providers.credentials import Credential
from pointsman.providers.failures import complaint_of, retry_after_s
from pointsman.providers.http.exchange import RequestBytes
from pointsman.providers.http.pool import ConnectionPool, PoolSettings
from pointsman.providers.http.provider import ProviderEnvironment
from pointsman.providers.login import BearerLogin, Grant
from pointsman.providers.port import Deadlines, ErrorClass, UpstreamError
from pointsman.providers.secret import Secret
from pointsman.turns.registry.login import ProviderLogin, SecretRef
from pointsman.turns.registry.upstream import read_base_url
from pointsman.version import VERSION

_DEADLINES = Deadlines(connect_s=10, head_s=30, idle_s=10, total_s=30)
_CLASSES: Mapping[int, ErrorClass] = {408: "network", 429: "rate_limit"}


class TokenEndpoint:
    """One address where tokens are fetched, and no other."""

    def __init__(
        self, name: str, url: str, pool: PoolSettings, outside: ProviderEnvironment
    ) -> None:
        self.origin, path = read_base_url(url)
        self.target = path or "/"
        self._name = name
        self._pool = ConnectionPool(self.origin, pool, resolve=outside.resolve)
        self._outside = outside

    async def post(
        self, form: Mapping[str, str], lines: str = "", accept: str = "application/json"
    ) -> bytes:
        """Send a form and return the body of the answer, or raise `UpstreamError`."""
        body = encode_form(form)
        head = (
            f"POST {self.target} HTTP/1.1\r\nhost: {self.origin.host_header}\r\n"
            f"user-agent: pointsman/{VERSION}\r\naccept: {accept}\r\n"
            f"content-type: {FORM}\r\n{lines}content-length: {len(body)}\r\n\r\n"
        )
        ends_at = asyncio.get_running_loop().time() + _DEADLINES.total_s
        exchange = await self._pool.request(RequestBytes(head.encode(), body), _DEADLINES, ends_at)
        try:
            said = await exchange.read()
        finally:
            await exchange.close()
        if exchange.status != 200:
            raise self._refusal(exchange.status, exchange.headers, said)
        return said

    async def fetch_token(self, form: Mapping[str, str]) -> Grant:
        """Fetch a bearer token as OAuth 2.0 has it."""
        try:
            told = msgspec.json.decode(await self.post(form), type=_Token)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise self.unreadable() from None
        if not (
            told.access_token and told.access_token.isascii() and told.access_token.isprintable()
        ):
            raise self.unreadable()
        return Grant(Secret(told.access_token), float(told.expires_in))

    def unreadable(self) -> UpstreamError:
        """Return the error of an answer that holds no token."""
        message = f"the login of `{self._name}` got an answer without a token"
        return UpstreamError(message, error_class="server_error", status=200)

    async def close(self) -> None:
        """Close every connection."""
        await self._pool.close()

    def _refusal(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        complaint = complaint_of(body)
        code = f": {complaint.codes[0]}" if complaint is not None and complaint.codes else ""
        is_theirs = "server_error" if status >= 500 or status < 400 else "auth"
        # Its words stay unsaid: they may name tenants and clients, which callers need not know.
        return UpstreamError(
            f"the login of `{self._name}` was refused: {status}{code}",
            hint="look at `login:` of the provider in models.yaml",
            error_class=_CLASSES.get(status, "server_error" if is_theirs != "auth" else "auth"),
            status=status,
            retry_after_s=retry_after_s(headers, self._outside.wall_s()),
        )


class _Token(Struct):
    access_token: str
    expires_in: int | float = 3600


FORM = "application/x-www-form-urlencoded"


def encode_form(form: Mapping[str, str]) -> bytes:
    """Write a form."""
    return urlencode(form).encode()


_TOKEN_URL = "https://login.microsoftonline.com/{tenant}/oauth2/v2.0/token"  # noqa: S105 - an address
_SCOPE = "https://cognitiveservices.azure.com/.default"


def entra_login(
    name: str, login: ProviderLogin, home: Path, pool: PoolSettings, outside: ProviderEnvironment
) -> BearerLogin:
    """Return the login of a client; its secret is read anew for each token."""
    url = login.token_url or _TOKEN_URL.replace("{tenant}", login.tenant)
    endpoint = TokenEndpoint(name, url, pool, outside)
    credential = Credential(login.secret or SecretRef(), home)

    async def fetch() -> Grant:
        form = {
            "grant_type": "client_credentials",
            "client_id": login.client,
            "client_secret": credential.secret().reveal(),
            "scope": login.scope or _SCOPE,
        }
        return await endpoint.fetch_token(form)

    return BearerLogin(credential.id, fetch, outside.monotonic_s, endpoint.close)
