"""Who sits before the dashboard: a token is shown once, then a cookie and the page's own half.

A cookie is sent to every port of a host, so another web server on this machine may see it; what a
page stores belongs to its port alone, and no script can read the cookie. Only both together count.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from typing import Final

from msgspec import Struct

from pointsman.access.keyring import Keyring
from pointsman.access.keys import ADMIN, Principal
from pointsman.access.roles import Scope
from pointsman.errors import NotAuthenticated, NotPermitted, OriginRefused
from pointsman.gateway.serving.http import Asked
from pointsman.kernel.instant import SECOND, Instant
from pointsman.storage.stores.live import LiveStore

COOKIE: Final = "pointsman"
PAGE_HEADER: Final = b"x-pointsman-page"
LASTS_S: Final = 12 * 3600
MOST_LOGINS: Final = 1000
ENTROPY: Final = 32

_READING: Final = frozenset({"GET", "HEAD"})
_ELSEWHERE: Final = frozenset({"cross-site", "same-site"})


class Login(Struct, frozen=True):
    """A login: until when, and by which key; without one, by the admin token."""

    key_id: str
    expires_at: Instant


class Halves(Struct, frozen=True):
    """What a login is proved by: one half for the cookie, one for the page."""

    cookie: str
    page: str


class Logins:
    """Who is logged in; forgotten when the gateway stops. Holds digests, never the halves."""

    def __init__(self, random: Callable[[int], str] = secrets.token_urlsafe) -> None:
        self._random = random
        self._known: dict[bytes, Login] = {}

    def __len__(self) -> int:
        return len(self._known)

    def begin(self, who: Principal, now: Instant) -> tuple[Halves, Login]:
        """Log a principal in."""
        halves = Halves(self._random(ENTROPY), self._random(ENTROPY))
        login = Login(who.key_id, Instant(now + LASTS_S * SECOND))
        self._keep(_digest(halves), login, now)
        return halves, login

    def find(self, asked: Asked, now: Instant) -> Login | None:
        """Return the login of a request that carries both halves of one."""
        halves = halves_of(asked)
        login = None if halves is None else self._recall(_digest(halves))
        return login if login is not None and login.expires_at > now else None

    def end(self, asked: Asked) -> None:
        """End the login of a request."""
        halves = halves_of(asked)
        if halves is not None:
            self._drop(_digest(halves))

    def _keep(self, digest: bytes, login: Login, now: Instant) -> None:
        self._known = {name: each for name, each in self._known.items() if each.expires_at > now}
        while len(self._known) >= MOST_LOGINS:
            del self._known[next(iter(self._known))]
        self._known[digest] = login

    def _recall(self, digest: bytes) -> Login | None:
        return self._known.get(digest)

    def _drop(self, digest: bytes) -> None:
        self._known.pop(digest, None)


class SharedLogins(Logins):
    """Who is logged in at any worker of one gateway."""

    def __init__(self, store: LiveStore) -> None:
        super().__init__()
        self._store = store

    def _keep(self, digest: bytes, login: Login, now: Instant) -> None:
        self._store.add_login(digest, login.key_id, now, login.expires_at, MOST_LOGINS)

    def _recall(self, digest: bytes) -> Login | None:
        found = self._store.find_login(digest)
        return None if found is None else Login(found[0], Instant(found[1]))

    def _drop(self, digest: bytes) -> None:
        self._store.drop_login(digest)


def halves_of(asked: Asked) -> Halves | None:
    """Return both halves of a login; none where one is lacking."""
    page = asked.header(PAGE_HEADER)
    try:
        morsel = SimpleCookie(asked.header(b"cookie")).get(COOKIE)
    except CookieError:
        return None
    return Halves(morsel.value, page) if morsel is not None and morsel.value and page else None


def logged_in(login: Login, keyring: Keyring, scope: Scope, now: Instant) -> Principal:
    """Return the principal of a login; a key that was ended since admits no one."""
    if not login.key_id:
        return ADMIN
    known = keyring.keys(now).known.get(login.key_id)
    if known is None or known.ends_at <= now:
        raise NotAuthenticated("the key of this login has ended", hint="log in again")
    if scope not in known.principal.scopes:
        raise NotPermitted(f"this key may not do that: it lacks the scope `{scope}`")
    return known.principal


def check_not_elsewhere(asked: Asked) -> None:
    """Raise where a browser says that a page of another site, or of another port, asks."""
    if asked.header(b"sec-fetch-site") in _ELSEWHERE:
        raise OriginRefused("pages of other sites may not ask here")


def check_same_page(asked: Asked) -> None:
    """Raise unless a page of this gateway asks; who acts must say so."""
    check_not_elsewhere(asked)
    if asked.method in _READING:
        return
    own = asked.header(b"host")
    if asked.header(b"origin") not in {f"http://{own}", f"https://{own}"}:
        raise OriginRefused("only a page of this gateway may act for whoever is logged in")


def set_cookie(value: str, *, is_secure: bool, lasts_s: int = LASTS_S) -> tuple[bytes, bytes]:
    """Return the header that sets the cookie's half or, empty and with `lasts_s=0`, removes it."""
    secure = "; Secure" if is_secure else ""
    text = f"{COOKIE}={value}; Path=/; Max-Age={lasts_s}; HttpOnly; SameSite=Strict{secure}"
    return b"set-cookie", text.encode()


def _digest(halves: Halves) -> bytes:
    return hashlib.sha256(f"{halves.cookie}\0{halves.page}".encode()).digest()
