"""What a provider needs of its login, where a key alone is not enough."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from msgspec import Struct

from pointsman.providers.secret import NO_SECRET, Secret


class OpenLogin(Protocol):
    """A login to one provider: for a while good for calls, then fetched anew."""

    id: str
    """Its short id, made from where its secrets are found, never from them."""

    signs: bool
    """Whether it signs each request; else its token goes into the key's header."""

    @property
    def is_ready(self) -> bool:
        """Tell whether a call can be made without fetching anything first."""
        ...

    async def renew(self) -> None:
        """Fetch what calls need, or raise `UpstreamError`."""
        ...

    def secret(self) -> Secret:
        """Return the token, or the part of a signature to take out of refusals."""
        ...

    def sign(self, host: str, target: str, body: bytes) -> str:
        """Return header lines that sign a request; none where a token is enough."""
        ...

    def drop(self) -> bool:
        """Forget a refused token; tells whether it worked before, so that another may be had."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class Grant(Struct, frozen=True):
    """A token, and for how many seconds it is good."""

    token: Secret
    seconds: float


Fetch = Callable[[], Awaitable[Grant]]

EARLY_S = 60.0
"""How long before its end a token is fetched anew, if it lasts much longer than that."""


class BearerLogin:
    """Keeps a token from one fetch to the next."""

    signs = False

    def __init__(
        self,
        own_id: str,
        fetch: Fetch,
        now: Callable[[], float],
        close: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self.id = own_id
        self.close = close
        self._fetch = fetch
        self._now = now
        self._token = NO_SECRET
        self._good_until = 0.0
        self._uses = 0

    @property
    def is_ready(self) -> bool:
        """Tell whether the token is good for another while."""
        return self._now() < self._good_until

    async def renew(self) -> None:
        """Fetch a token."""
        grant = await self._fetch()
        early = min(EARLY_S, grant.seconds / 10)
        self._token, self._good_until = grant.token, self._now() + grant.seconds - early
        self._uses = 0

    def secret(self) -> Secret:
        """Return the token."""
        self._uses += 1
        return self._token

    def sign(self, host: str, target: str, body: bytes) -> str:  # noqa: ARG002 - the token says it all
        """Sign nothing."""
        return ""

    def drop(self) -> bool:
        """Forget the token."""
        has_worked, self._good_until = self._uses > 1, 0.0
        return has_worked
