"""The dashboard: its page and files, who is logged in, and the documentation it shows.

The files are built before the product is; nothing is loaded from anywhere else.
"""

from __future__ import annotations

from typing import Final

from pointsman.access.keys import ANONYMOUS, Principal
from pointsman.errors import NotAuthenticated, NotFound, NotPermitted
from pointsman.gateway.access import check_reader
from pointsman.gateway.api.bodies import body_as
from pointsman.gateway.api.dashboard.login import LoginBody, check_not_elsewhere, set_cookie
from pointsman.gateway.api.dashboard.shapes import HelpPage, HelpPages, LoggedIn, LoggedOut, Me
from pointsman.gateway.asgi import named_parts
from pointsman.gateway.http import (
    Asked,
    Handler,
    Headers,
    Receive,
    Send,
    answer,
    answer_value,
    in_thread,
)
from pointsman.gateway.parts import Parts
from pointsman.kernel.instant import instant_text
from pointsman.version import VERSION
from pointsman.web import Asset, assets, help_pages, help_picture, help_text

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
_ASSET: Final = "/assets/{name}"
_PAGE: Final = "/api/help/pages/{name}"
_PICTURE: Final = "/api/help/pictures/{name}"


class Dashboard:
    """Serves the page, its files, logins and the documentation."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._assets = assets()

    def routes(self) -> dict[tuple[str, str], Handler]:
        """Give what is served where."""
        return {
            ("GET", "/"): self.page,
            ("GET", _ASSET): self.asset,
            ("GET", "/api/me"): self.me,
            ("POST", "/api/login"): self.log_in,
            ("POST", "/api/logout"): self.log_out,
            ("GET", "/api/help"): self.help,
            ("GET", _PAGE): self.help_page,
            ("GET", _PICTURE): self.picture,
        }

    async def page(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Give the page; everything else of it is loaded by name."""
        found = self._assets.get("index.html")
        if found is None:
            raise NotFound("the dashboard was not built", hint="see web/README.md")
        await self._give(asked, send, found, _ASK_AGAIN)

    async def asset(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Give a file of the page; its name changes with what it holds, so it may be kept."""
        name = named_parts(_ASSET, asked.path)["name"]
        found = self._assets.get(f"assets/{name}")
        if found is None:
            raise NotFound(f"there is no `{name[:100]}` here")
        await self._give(asked, send, found, _FOREVER)

    async def _give(
        self, asked: Asked, send: Send, asset: Asset, caching: tuple[bytes, bytes]
    ) -> None:
        headers = [(b"content-type", asset.media.encode()), caching, *GUARDS]
        headers += [(b"etag", asset.etag.encode()), (b"vary", b"accept-encoding")]
        if asked.header(b"if-none-match") == asset.etag:
            await answer(send, 304, b"", headers)
        elif "gzip" in asked.header(b"accept-encoding") and asset.packed:
            await answer(send, 200, asset.packed, [*headers, (b"content-encoding", b"gzip")])
        else:
            await answer(send, 200, asset.body, headers)

    async def me(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Tell who asks, and what they may do."""
        parts = self._parts
        now = parts.pointsman.clock.now()
        login = parts.logins.found(asked, now)
        who = self._reader(asked)
        known = bool(parts.keyring.keys(now).known)
        await answer_value(
            send,
            Me(
                name=who.name if who else "",
                scopes=_scopes(who),
                is_admin=who is not None and who.is_admin,
                is_logged_in=login is not None and who is not None,
                is_login_needed=who is None,
                expires_at=None if login is None else instant_text(login.expires_at),
                has_keys=known,
                version=VERSION,
            ),
        )

    def _reader(self, asked: Asked) -> Principal | None:
        try:
            return check_reader(self._parts, asked)
        except (NotAuthenticated, NotPermitted):
            return None

    async def log_in(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Take a token, and give a cookie and the page's half of a login."""
        check_not_elsewhere(asked)
        parts = self._parts
        token, now = body_as(asked, LoginBody).token.strip(), parts.pointsman.clock.now()
        try:
            who = parts.keyring.principal(token, scope="read", is_loopback=False, now=now)
        except NotAuthenticated as error:
            parts.metrics.refused_key(error)
            raise NotPermitted("no key goes by this token", hint=_WHERE_TOKENS_ARE) from None
        halves, login = parts.logins.begin(who, now)
        secure = asked.header(b"origin").startswith("https://")
        given = LoggedIn(halves.page, who.name, who.scopes, instant_text(login.expires_at))
        await answer_value(send, given, 200, [set_cookie(halves.cookie, is_secure=secure)])

    async def log_out(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """End a login."""
        check_not_elsewhere(asked)
        self._parts.logins.end(asked)
        gone = set_cookie("", is_secure=False, lasts_s=0)
        await answer_value(send, LoggedOut(is_logged_in=False), 200, [gone])

    async def help(self, _asked: Asked, _receive: Receive, send: Send) -> None:
        """List the pages of the documentation."""
        await answer_value(send, HelpPages(tuple(await in_thread(help_pages))))

    async def help_page(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Give one page of the documentation."""
        name = named_parts(_PAGE, asked.path)["name"]
        text = await in_thread(lambda: help_text(name))
        if text is None:
            raise NotFound(f"there is no page `{name[:100]}`", hint="GET /api/help lists all")
        await answer_value(send, HelpPage(name, text))

    async def picture(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Give a picture of the documentation."""
        name = named_parts(_PICTURE, asked.path)["name"]
        found = await in_thread(lambda: help_picture(name))
        if found is None:
            raise NotFound(f"there is no picture `{name[:100]}`")
        await answer(send, 200, found, [(b"content-type", b"image/png"), _ASK_AGAIN, *GUARDS])


def _scopes(who: Principal | None) -> tuple[str, ...]:
    if who is None:
        return ()
    return ("models", "read", "act") if who is ANONYMOUS else who.scopes
