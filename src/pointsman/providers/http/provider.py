"""A provider over HTTP: one call with its retries and its keys. Companion §2.2."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from pointsman.errors import InputError
from pointsman.providers.choice_ring import KeyRing
from pointsman.providers.dialects.chat.fields import with_field_names
from pointsman.providers.dialects.messages.request_out import for_model_in_address
from pointsman.providers.failures import failure_of
from pointsman.providers.http.address import Resolve, resolve_host
from pointsman.providers.http.event_stream import EVENT_STREAM
from pointsman.providers.http.exchange import Exchange, RequestBytes
from pointsman.providers.http.heads import HeadTemplate, target_of
from pointsman.providers.http.pool import ConnectionPool, PoolSettings
from pointsman.providers.key_choice import with_used_key
from pointsman.providers.login import OpenLogin
from pointsman.providers.port import (
    Deadlines,
    Dialect,
    ErrorClass,
    NotConfigured,
    Operation,
    Outgoing,
    UpstreamAnswer,
    UpstreamError,
)
from pointsman.providers.secret import NO_SECRET, Secret
from pointsman.providers.vendors import Vendor, default_dialects
from pointsman.turns.registry.login import ProviderKey
from pointsman.turns.registry.models import Provider as Configured
from pointsman.turns.registry.upstream import (
    read_base_url,
    read_headers,
)

Jitter = Callable[[], float]
"""Gives a number between -1 and 1, another one each time."""

_RETRIED: Final[tuple[ErrorClass, ...]] = ("rate_limit", "server_error", "network")
_OF_THE_KEY: Final[tuple[ErrorClass, ...]] = ("rate_limit", "auth")

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
_SPREAD = 0.25


class Try(Struct, frozen=True):
    """Make the call with the key of this number; answered with its error, None when it worked."""

    key: int


class Wait(Struct, frozen=True):
    """Wait so long."""

    seconds: float


Effect = Try | Wait
Flow = Generator[Effect, UpstreamError | None, None]


def retry_flow(keys: int, first_key: int, jitter: Jitter, retries: int = 2) -> Flow:
    """Yield the tries of one call until one works or no try is left.

    The next key is tried at once, each key once; waiting and trying again is done `retries` times.
    """
    key = first_key
    other_keys = keys - 1
    done = 0
    while True:
        error = yield Try(key)
        if error is None or error.is_policy_refusal:
            return
        if error.error_class in _OF_THE_KEY and other_keys > 0:
            other_keys -= 1
            key = (key + 1) % keys
            continue
        if error.error_class not in _RETRIED or done == retries:
            return
        yield Wait(pause_s(done, error.retry_after_s, jitter()))
        done += 1


def pause_s(done: int, retry_after_s: float | None, jitter: float) -> float:
    """Return the pause after so many retries: the provider's own wish, else doubling."""
    if retry_after_s is not None:
        return retry_after_s
    return min(_FIRST_PAUSE_S * 2.0**done, _LONGEST_PAUSE_S) * (1.0 + _SPREAD * jitter)


Sleep = Callable[[float], Awaitable[None]]

_MODEL: Final = "{model}"
"""Where the model stands in an address."""
_ERROR_BODY_S = 5.0
_ERROR_BODY_BYTES = 64 * 1024
_ACCEPTED_TYPES = ("application/json", "text/event-stream", EVENT_STREAM, "")
_OF_JSON: Final = ("", "embeddings", "completions")
"""The operations that answer in JSON or events; others may bring sound, pictures or plain text."""


def _random_spread() -> float:
    return random.SystemRandom().uniform(-1.0, 1.0)


class ProviderEnvironment(Struct, frozen=True):
    """What a provider takes from outside; a test gives its own."""

    sleep: Sleep = asyncio.sleep
    jitter: Jitter = _random_spread
    wall_s: Callable[[], float] = time.time
    monotonic_s: Callable[[], float] = time.monotonic
    resolve: Resolve = resolve_host
    retries: int = 2


class HttpProvider:
    """A provider that is reached over HTTP.

    It speaks to the host of its configuration and to no other. Keys are read when they are needed,
    and a call that fails for its key goes on with the next one.
    """

    def __init__(  # noqa: PLR0913 - each is a setting of one provider
        self,
        name: str,
        vendor: Vendor,
        configured: Configured,
        home: Path,
        *,
        dialects: tuple[Dialect, ...] = (),
        pool: PoolSettings = PoolSettings(),  # noqa: B008 - it is frozen
        surroundings: ProviderEnvironment = ProviderEnvironment(),  # noqa: B008 - it is frozen
        login: OpenLogin | None = None,
    ) -> None:
        origin, path = read_base_url(configured.base_url or vendor.base_url)
        for end in vendor.trimmed:
            path = path.removesuffix(end)
        self.name = name
        self.dialects = dialects or default_dialects(vendor, origin.host)
        unknown = [each for each in self.dialects if each not in vendor.paths]
        if unknown:
            raise InputError(f"a provider of kind `{vendor.kind}` cannot speak `{unknown[0]}`")
        headers = read_headers(configured.headers)
        self.operations = tuple(vendor.operations)
        self._vendor = vendor
        self._has_own_names = bool(vendor.renames or vendor.leaves_out)
        self._places: dict[str, str] = {each: vendor.paths[each] for each in self.dialects}
        self._places |= {str(name): at for name, at in vendor.operations.items()}

        def new_head(name: str, at: str, query: Mapping[str, str]) -> HeadTemplate:
            target = target_of(path + at, {**vendor.query, **configured.query, **query})
            is_json = name in _OF_JSON or name in self.dialects
            accept = "application/json" if is_json else "*/*"
            return HeadTemplate(vendor, origin, target, headers, accept, login)

        self._new_head = new_head
        self._heads = {
            name: new_head(name, at, {}) for name, at in self._places.items() if _MODEL not in at
        }
        self._login = login
        self._renewing: asyncio.Task[None] | None = None
        self._takes_callers_login = configured.takes_callers_login
        self._keys = KeyRing(_keys(configured), home, surroundings.monotonic_s)
        self._timeout_s = float(configured.timeout_s)
        self._pool = ConnectionPool(origin, pool, resolve=surroundings.resolve)
        self._outside = surroundings

    @property
    def open_connections(self) -> int:
        """Tell how many connections are open."""
        return self._pool.open_connections

    @property
    def can_begin(self) -> bool:
        """Tell whether a call can be written at once: it may have to log in first."""
        return self._login is None or self._login.is_ready

    def write(self, outgoing: Outgoing) -> RequestBytes:
        """Return a call as it would be sent now."""
        key, choice = self._keys.choose(outgoing.unit)
        message = self._message(outgoing, key)[0]
        message.key_choice = choice
        return message

    def begin(self, message: RequestBytes, deadlines: Deadlines) -> Exchange | None:
        """Begin a call at once, where a connection rests; `send` finishes it."""
        exchange = self._pool.begin(message, deadlines, self._ends_at(deadlines))
        if exchange is not None:
            exchange.key, exchange.key_choice = message.key, message.key_choice
        return exchange

    async def send(
        self, outgoing: Outgoing, deadlines: Deadlines, begun: Exchange | None = None
    ) -> UpstreamAnswer:
        """Make one call and give its answer once the head is a success."""
        if begun is None:
            (key, choice), ends_at = self._keys.choose(outgoing.unit), self._ends_at(deadlines)
        else:
            # Other calls may have put the key out since.
            key, choice, ends_at = begun.key, begun.key_choice, begun.ends_at
        try:
            answer = await self._try(outgoing, deadlines, ends_at, key, begun)
        except UpstreamError as failed:
            error = failed
        else:
            answer.key_choice = choice
            return answer
        try:
            answer = await self._retry(outgoing, deadlines, ends_at, key, error)
        except UpstreamError as failed:
            failed.key_choice = with_used_key(choice, failed.credential)
            raise
        answer.key_choice = with_used_key(choice, answer.credential)
        return answer

    async def _retry(
        self,
        outgoing: Outgoing,
        deadlines: Deadlines,
        ends_at: float,
        key: int,
        error: UpstreamError,
    ) -> Exchange:
        """Go on after the first try, with this key, failed, as the flow of tries says."""
        loop, outside = asyncio.get_running_loop(), self._outside
        order = self._keys.order(outgoing.unit, key)
        retries = 0 if outgoing.has_others else outside.retries
        flow = retry_flow(len(order), 0, outside.jitter, retries)
        next(flow)
        attempts = error.attempts = 1
        effect = _after(flow, error)
        while effect is not None:
            if isinstance(effect, Try):
                attempts += 1
                try:
                    answer = await self._try(outgoing, deadlines, ends_at, order[effect.key])
                except UpstreamError as failed:
                    failed.attempts = attempts
                    error = failed
                    effect = _after(flow, failed)
                else:
                    answer.attempts = attempts
                    return answer
            elif loop.time() + effect.seconds < ends_at:
                await outside.sleep(effect.seconds)
                effect = _after(flow, None)
            else:
                effect = None  # there is no time left to wait
        raise error

    def warm(self, deadlines: Deadlines) -> None:
        """Begin to open a connection that calls will find ready, if the settings say so."""
        self._pool.warm(deadlines)

    async def close(self) -> None:
        """Close every connection."""
        if self._renewing is not None:
            self._renewing.cancel()
        if self._login is not None:
            await self._login.close()
        await self._pool.close()

    def _ends_at(self, deadlines: Deadlines) -> float:
        return asyncio.get_running_loop().time() + min(deadlines.total_s, self._timeout_s)

    def _message(self, outgoing: Outgoing, key: int) -> tuple[RequestBytes, str, Secret]:
        """Return the bytes of a call, which key is in them by its id, and the key."""
        secret, used = NO_SECRET, ""
        if self._login is not None:
            secret, used = self._login.secret(), self._login.id
        elif self._takes_callers_login:
            secret = self._callers_secret(outgoing)
        elif self._keys.credentials:
            credential = self._keys.credentials[key]
            secret, used = credential.secret(), credential.id
        head = self._heads.get(outgoing.operation or outgoing.dialect) or self._head_of(outgoing)
        if self._has_own_names and outgoing.dialect == "chat" and not outgoing.operation:
            vendor = self._vendor
            body = with_field_names(outgoing.body, vendor.renames, vendor.leaves_out)
            outgoing = replace(outgoing, body=body)
        if self._vendor.messages_version and outgoing.dialect == "messages":
            body = for_model_in_address(outgoing.body, self._vendor.messages_version)
            outgoing = replace(outgoing, body=body)
        is_signed = self._login is not None and self._login.signs
        message = head.message(outgoing, NO_SECRET if is_signed else secret)
        message.key = key
        return message, used, secret

    def _callers_secret(self, outgoing: Outgoing) -> Secret:
        if outgoing.login is None:
            error = NotConfigured(
                f"`{self.name}` takes the login of each caller, and this call brought none",
                hint="send it as `authorization` or `x-api-key`, and a key of this gateway as "
                "`x-pointsman-key`",
            )
            error.is_of_caller = True
            raise error
        return outgoing.login.secret

    def _head_of(self, outgoing: Outgoing) -> HeadTemplate:
        """Return the head of an address with the model in it, made when it is first needed."""
        dialect, vendor = outgoing.dialect, self._vendor
        at = self._places.get(outgoing.operation or dialect)
        if at is None:
            raise self._unspoken(outgoing)
        query: Mapping[str, str] = {}
        if outgoing.is_stream:
            at, query = vendor.stream_paths.get(dialect, at), vendor.stream_query.get(dialect, {})
        # The name is the configuration's; the models of a home are few.
        at = at.replace(_MODEL, quote(outgoing.model, safe=vendor.model_letters))
        if at not in self._heads:
            self._heads[at] = self._new_head(outgoing.operation or dialect, at, query)
        return self._heads[at]

    async def _try(
        self,
        outgoing: Outgoing,
        deadlines: Deadlines,
        ends_at: float,
        key: int,
        begun: Exchange | None = None,
        *,
        may_log_in_anew: bool = True,
    ) -> Exchange:
        if self._login is not None and begun is None and not self._login.is_ready:
            await self._renew(self._login)
        try:
            request, used, secret = self._message(outgoing, key)
        except UpstreamError as error:
            self._keys.note_failure(key, error)
            raise
        try:
            exchange = await self._pool.request(request, deadlines, ends_at, begun)
        except UpstreamError as error:
            error.credential = used
            raise
        exchange.credential = used
        unreadable = unreadable_reason(exchange.headers, outgoing.operation)
        if exchange.status >= 300 or unreadable:
            failure = await self._failure(exchange, secret, unreadable)
            failure.credential = used
            if self._takes_callers_login and failure.error_class in _OF_THE_KEY:
                failure.is_of_caller = True
            login = self._login if failure.error_class == "auth" else None
            if login is not None and login.drop() and may_log_in_anew:
                # It was good before: it may have been called back, and another one may be had.
                return await self._try(outgoing, deadlines, ends_at, key, may_log_in_anew=False)
            self._keys.note_failure(key, failure)
            raise failure
        self._keys.note_success(key)
        return exchange

    async def _renew(self, login: OpenLogin) -> None:
        """Log in, once for all calls that wait for it."""
        if self._renewing is None:
            self._renewing = asyncio.get_running_loop().create_task(login.renew())
            self._renewing.add_done_callback(self._end_renewing)
        try:
            await asyncio.shield(self._renewing)
        except UpstreamError as error:
            error.credential = login.id
            raise

    def _end_renewing(self, task: asyncio.Task[None]) -> None:
        self._renewing = None
        if not task.cancelled():
            task.exception()  # looked at, also where no call waits any more

    def _unspoken(self, outgoing: Outgoing) -> UpstreamError:
        wanted = outgoing.operation or outgoing.dialect
        message = f"`{self.name}` does not speak `{wanted}`"
        return UpstreamError(message, error_class="invalid_request")

    async def _failure(self, exchange: Exchange, secret: Secret, unreadable: str) -> UpstreamError:
        status = exchange.status
        is_packed = "content-encoding" in exchange.headers
        body = await _error_body(exchange) if status >= 400 and not is_packed else b""
        await exchange.close()
        if status < 300:
            return UpstreamError(f"`{self.name}` {unreadable}", error_class="other", status=status)
        now_s = self._outside.wall_s()
        return failure_of(self.name, status, exchange.headers, secret.redact(body), now_s)


def unreadable_reason(headers: Mapping[str, str], operation: Operation = "") -> str:
    """Say why a body that is on its way cannot be used; empty when it can."""
    if headers.get("content-type") == "application/json" and "content-encoding" not in headers:
        return ""
    encoding = headers.get("content-encoding")
    if encoding and encoding.lower() != "identity":
        return "packed its answer, which was not asked for"
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in _ACCEPTED_TYPES or kind.endswith("+json"):
        return ""
    if operation in _OF_JSON:
        return "answered with neither JSON nor events"
    return "answered with a page" if kind == "text/html" else ""


def _keys(configured: Configured) -> tuple[ProviderKey, ...]:
    keys = configured.api_key
    if keys is None:
        return ()
    return keys if isinstance(keys, tuple) else (keys,)


def _after(flow: Flow, told: UpstreamError | None) -> Effect | None:
    try:
        return flow.send(told)
    except StopIteration:
        return None


async def _error_body(exchange: Exchange) -> bytes:
    """Return the beginning of an error's body; a slow rest is not waited for."""
    exchange.hurry(_ERROR_BODY_S)
    body = b""
    try:
        async for piece in exchange:
            body += piece
            if len(body) > _ERROR_BODY_BYTES:
                break
    except UpstreamError:
        pass  # the status says enough
    return body[:_ERROR_BODY_BYTES]
