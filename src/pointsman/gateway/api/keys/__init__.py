"""Virtual keys over HTTP."""

from __future__ import annotations

from typing import Final

from pointsman.access.roles import ADMINS
from pointsman.gateway.serving.route import Route, declare

ROUTES: Final = declare(
    "keys",
    "handlers.KeyApi",
    Route(
        "GET",
        "/api/keys",
        "admin",
        ADMINS,
        "list the keys",
        handler="list_keys",
        answer="KeysAnswer",
    ),
    Route(
        "POST",
        "/api/keys",
        "admin",
        ADMINS,
        "make a key; its secret is in this answer only",
        handler="create_key",
        answer="KeyMade",
        body="GivenKey",
        status=201,
    ),
    Route(
        "DELETE",
        "/api/keys/{id}",
        "admin",
        ADMINS,
        "end a key",
        handler="revoke_key",
        answer="KeyRow",
    ),
    types="handlers",
)
