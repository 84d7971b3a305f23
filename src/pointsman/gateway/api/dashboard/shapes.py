"""What the dashboard's own routes give: who is there, and the documentation."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from pointsman.audit.turn_shapes import InstantText
from pointsman.web import HelpEntry


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
