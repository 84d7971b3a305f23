"""Sessions over HTTP."""

from __future__ import annotations

from typing import Final

from pointsman.access.roles import ACTING, ALL
from pointsman.gateway.serving.route import LIMIT, Route, declare

ROUTES: Final = declare(
    "sessions",
    "handlers.SessionApi",
    Route(
        "GET",
        "/api/sessions",
        "read",
        ALL,
        "list the latest sessions",
        handler="list_sessions",
        answer="SessionsAnswer",
        parameters=(LIMIT,),
    ),
    Route(
        "GET",
        "/api/sessions/{id}",
        "read",
        ALL,
        "tell what a session and its workers did and cost",
        handler="show_session",
        answer="SessionAnswer",
    ),
    Route(
        "POST",
        "/api/sessions/{id}/pin",
        "act",
        ACTING,
        "bind a session to a model until it is unpinned",
        handler="pin_session",
        answer="PinAnswer",
        body="PinBody",
    ),
    Route(
        "DELETE",
        "/api/sessions/{id}/pin",
        "act",
        ACTING,
        "let a session go from its model",
        handler="unpin_session",
        answer="PinAnswer",
    ),
    Route(
        "POST",
        "/api/sessions/{id}/clear-taint",
        "act",
        ACTING,
        "let a session leave this machine again; recorded with the reason",
        handler="clear_taint",
        answer="ClearTaintAnswer",
        body="ClearTaintBody",
    ),
)
