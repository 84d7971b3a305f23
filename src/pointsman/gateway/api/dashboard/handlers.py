"""The dashboard: its page and files, who is logged in, and the documentation it shows.

The files are built before the product is; nothing is loaded from anywhere else.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from pointsman.access.keys import ANONYMOUS, Principal
from pointsman.audit.turn_shapes import InstantText
from pointsman.errors import NotAuthenticated, NotFound, NotPermitted
from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.serving.access import check_reader
from pointsman.gateway.serving.http import Answer, Asked, Headers, JsonAnswer, in_thread
from pointsman.gateway.serving.login import check_not_elsewhere, set_cookie
from pointsman.gateway.serving.services import GatewayServices
from pointsman.kernel.instant import instant_text
from pointsman.version import VERSION
from pointsman.web import Asset, HelpEntry, assets, help_pages, help_picture, help_text

POLICY: Final = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
)
"""What the page may do: load its own files, ask this gateway, and make no script of any text."""

GUARDS: Final[Headers] = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)

_FOREVER: Final = (b"cache-control", b"public, max-age=31536000, immutable")
_ASK_AGAIN: Final = (b"cache-control", b"no-cache")
_WHERE_TOKENS_ARE: Final = "the first start showed the admin token; `pointsman keys` makes keys"


class Me(Struct, frozen=True):
    """Who asks; without a login, what this machine may do."""

    name: str
    scopes: tuple[str, ...]
    is_admin: bool
    is_logged_in: bool
    is_login_needed: bool
    expires_at: InstantText | None
    has_keys: bool
    version: str


class LoginBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The admin token or a key."""

    token: Annotated[str, Meta(min_length=1, max_length=1000)]


class LoggedIn(Struct, frozen=True):
    """A login: `page` goes with every request of the page, in `x-pointsman-page`."""

    page: str
    name: str
    scopes: tuple[str, ...]
    expires_at: InstantText


class LoggedOut(Struct, frozen=True):
    """The login is over."""

    is_logged_in: bool


class HelpPages(Struct, frozen=True):
    """The pages of the documentation."""

    pages: tuple[HelpEntry, ...]


class HelpPage(Struct, frozen=True):
    """One page, as Markdown."""

    name: str
    text: str


class DashboardApi:
    """Serves the page, its files, logins and the documentation."""

    def __init__(self, parts: GatewayServices) -> None:
        self._parts = parts
        self._assets = assets()

    async def send_page(self, request: ApiRequest) -> Answer:
        """Send the page; its scripts and styles are loaded by name."""
        found = self._assets.get("index.html")
        if found is None:
            raise NotFound("the dashboard was not built", hint="see web/README.md")
        return self._send(request.asked, found, _ASK_AGAIN)

    async def send_asset(self, request: ApiRequest) -> Answer:
        """Send a file of the page; its name changes with its content, so browsers may keep it."""
        name = request.part("name")
        found = self._assets.get(f"assets/{name}")
        if found is None:
            raise NotFound(f"there is no `{name[:100]}` here")
        return self._send(request.asked, found, _FOREVER)

    def _send(self, asked: Asked, asset: Asset, caching: tuple[bytes, bytes]) -> Answer:
        headers = [(b"content-type", asset.media.encode()), caching, *GUARDS]
        headers += [(b"etag", asset.etag.encode()), (b"vary", b"accept-encoding")]
        if asked.header(b"if-none-match") == asset.etag:
            return Answer(b"", headers, 304)
        if "gzip" in asked.header(b"accept-encoding") and asset.packed:
            return Answer(asset.packed, [*headers, (b"content-encoding", b"gzip")])
        return Answer(asset.body, headers)

    async def show_caller(self, request: ApiRequest) -> Me:
        """Return the caller, and their scopes."""
        parts = self._parts
        now = parts.pointsman.clock.now()
        login = parts.logins.find(request.asked, now)
        who = self._reader(request.asked)
        known = bool(parts.keyring.keys(now).known)
        return Me(
            name=who.name if who else "",
            scopes=_scopes(who),
            is_admin=who is not None and who.is_admin,
            is_logged_in=login is not None and who is not None,
            is_login_needed=who is None,
            expires_at=None if login is None else instant_text(login.expires_at),
            has_keys=known,
            version=VERSION,
        )

    def _reader(self, asked: Asked) -> Principal | None:
        try:
            return check_reader(self._parts, asked)
        except (NotAuthenticated, NotPermitted):
            return None

    async def log_in(self, request: ApiRequest) -> JsonAnswer:
        """Check a token; answer with a cookie and the page's half of a login."""
        check_not_elsewhere(request.asked)
        parts = self._parts
        token, now = request.body_as(LoginBody).token.strip(), parts.pointsman.clock.now()
        try:
            who = parts.keyring.principal(token, scope="read", is_loopback=False, now=now)
        except NotAuthenticated as error:
            parts.metrics.refused_key(error)
            raise NotPermitted("no key goes by this token", hint=_WHERE_TOKENS_ARE) from None
        halves, login = parts.logins.begin(who, now)
        secure = request.asked.header(b"origin").startswith("https://")
        given = LoggedIn(halves.page, who.name, who.scopes, instant_text(login.expires_at))
        return JsonAnswer(given, 200, [set_cookie(halves.cookie, is_secure=secure)])

    async def log_out(self, request: ApiRequest) -> JsonAnswer:
        """End a login."""
        check_not_elsewhere(request.asked)
        self._parts.logins.end(request.asked)
        gone = set_cookie("", is_secure=False, lasts_s=0)
        return JsonAnswer(LoggedOut(is_logged_in=False), 200, [gone])

    async def list_help(self, _request: ApiRequest) -> HelpPages:
        """List the pages of the documentation."""
        return HelpPages(tuple(await in_thread(help_pages)))

    async def show_help(self, request: ApiRequest) -> HelpPage:
        """Return one page of the documentation."""
        name = request.part("name")
        text = await in_thread(lambda: help_text(name))
        if text is None:
            raise NotFound(f"there is no page `{name[:100]}`", hint="GET /api/help lists all")
        return HelpPage(name, text)

    async def send_picture(self, request: ApiRequest) -> Answer:
        """Send a picture of the documentation."""
        name = request.part("name")
        found = await in_thread(lambda: help_picture(name))
        if found is None:
            raise NotFound(f"there is no picture `{name[:100]}`")
        return Answer(found, [(b"content-type", b"image/png"), _ASK_AGAIN, *GUARDS])


def _scopes(who: Principal | None) -> tuple[str, ...]:
    if who is None:
        return ()
    return ("models", "read", "act") if who is ANONYMOUS else who.scopes
