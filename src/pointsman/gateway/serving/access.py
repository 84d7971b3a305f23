"""Who asks: the key a request carries, and what its caller may do."""

from __future__ import annotations

import re
from typing import Final

from pointsman.access.keys import ANONYMOUS, Principal, is_own_token
from pointsman.access.roles import ALL, SCOPES, Access, RoleAccess, Scope
from pointsman.errors import NotAuthenticated, NotPermitted, PermissionDenied
from pointsman.gateway.serving.http import Asked
from pointsman.gateway.serving.login import (
    PAGE_HEADER,
    check_not_elsewhere,
    check_same_page,
    logged_in,
)
from pointsman.gateway.serving.route import Route
from pointsman.gateway.serving.services import GatewayServices
from pointsman.providers.secret import CallerLogin, Secret

OWN_KEY: Final = b"x-pointsman-key"
"""Carries a key of this gateway where the vendors' headers carry the caller's own login."""
_FITS_A_HEADER: Final = re.compile(r"[\x21-\x7e]{1,8192}", re.ASCII)
_BEARER = b"bearer "
_LOOPBACK = frozenset({"::1", "::ffff:127.0.0.1"})


def caller_of(
    parts: GatewayServices, asked: Asked, scope: Scope = "models", roles: RoleAccess = ALL
) -> Principal:
    """Return the caller, or raise why it is not served.

    Its scopes decide, and the role of a key that was given one.
    """
    if asked.refusal is not None:
        raise asked.refusal
    # Models are called with keys alone.
    caller = None if scope == "models" else _logged_in(parts, asked, scope)
    if caller is None:
        caller = parts.keyring.principal(
            credential_of(asked),
            scope=scope,
            is_loopback=is_loopback(asked.client),
            now=parts.pointsman.clock.now(),
        )
    if caller.role:
        access_of(caller, roles)
    return caller


def _logged_in(parts: GatewayServices, asked: Asked, scope: Scope) -> Principal | None:
    """Return the caller who is logged in at the dashboard, if any."""
    if PAGE_HEADER not in asked.headers or credential_of(asked) is not None:
        return None
    now = parts.pointsman.clock.now()
    login = parts.logins.find(asked, now)
    if login is None:
        return None
    check_same_page(asked)
    return logged_in(login, parts.keyring, scope, now)


def access_of(caller: Principal, roles: RoleAccess) -> Access:
    """Return what a caller's role allows, all or redacted, or raise that it allows nothing."""
    access = roles.of(caller.acts_as)
    if access == "denied":
        role = caller.acts_as or "a key without a role"
        raise PermissionDenied(f"`{role}` may not do that")
    return access


def admit(parts: GatewayServices, asked: Asked, route: Route) -> Principal:
    """Return the caller of a route of the product's own API, or raise why it is not served."""
    check = caller_of if route.scope == "admin" else check_reader
    return check(parts, asked, route.key_scope, route.roles)


def check_reader(
    parts: GatewayServices, asked: Asked, scope: Scope = "read", roles: RoleAccess = ALL
) -> Principal:
    """Return the caller; while there is no key, this machine may read and act."""
    try:
        return caller_of(parts, asked, scope, roles)
    except NotAuthenticated:
        if is_loopback(asked.client) and not parts.keyring.keys(parts.pointsman.clock.now()).known:
            check_not_elsewhere(asked)
            return ANONYMOUS
        raise


def find_caller(parts: GatewayServices, asked: Asked) -> Principal:
    """Return the caller by whatever scope they have, or raise why nothing here is served."""
    refused: NotPermitted | None = None
    for scope in SCOPES:
        check = check_reader if scope in {"read", "act"} else caller_of
        try:
            return check(parts, asked, scope)
        except NotPermitted as error:
            refused = error
    raise refused or NotAuthenticated


def is_known(parts: GatewayServices, asked: Asked) -> bool:
    """Tell whether the caller has a valid key, or needs none."""
    try:
        find_caller(parts, asked)
    except NotAuthenticated:
        return False
    return True


def credential_of(asked: Asked) -> str | None:
    """Return the key of a request: under our own name, else as vendors' clients send theirs."""
    if OWN_KEY in asked.headers:
        return asked.header(OWN_KEY).strip() or None
    return _vendor_credential(asked)


def login_of(asked: Asked, caller: Principal) -> CallerLogin | None:
    """Return the caller's own login at a provider; None where the request brings none.

    INVARIANT: a key of this gateway, or its admin token, is never returned.
    """
    if OWN_KEY not in asked.headers and not caller.is_anonymous:
        return None
    text = _vendor_credential(asked) or ""
    if not _FITS_A_HEADER.fullmatch(text) or is_own_token(text):
        return None
    is_bearer = asked.headers.get(b"authorization", b"")[:7].lower() == _BEARER
    return CallerLogin(Secret(text), is_bearer)


def _vendor_credential(asked: Asked) -> str | None:
    given = asked.headers.get(b"authorization", b"")
    if given[:7].lower() == _BEARER:
        return given[7:].decode("latin-1").strip()
    return asked.header(b"x-api-key") or None


def is_loopback(client: str) -> bool:
    """Tell whether a request comes from this machine."""
    return client == "127.0.0.1" or client.startswith("127.") or client in _LOOPBACK
