"""The dashboard: page, logins, documentation."""

from __future__ import annotations

from typing import Final

from pointsman.access.roles import ALL
from pointsman.gateway.serving.route import BYTES, HTML, PNG, Route, declare

ROUTES: Final = declare(
    "dashboard",
    "handlers.DashboardApi",
    Route("GET", "/", "none", ALL, "give the dashboard", handler="send_page", media=HTML),
    Route(
        "GET",
        "/assets/{name}",
        "none",
        ALL,
        "give a file of the dashboard",
        handler="send_asset",
        media=BYTES,
    ),
    Route(
        "GET",
        "/api/me",
        "none",
        ALL,
        "tell who asks, and what they may do",
        handler="show_caller",
        answer="Me",
    ),
    Route(
        "POST",
        "/api/login",
        "none",
        ALL,
        "log in at the dashboard with a key or the admin token",
        handler="log_in",
        answer="LoggedIn",
        body="LoginBody",
    ),
    Route(
        "POST",
        "/api/logout",
        "none",
        ALL,
        "end a login at the dashboard",
        handler="log_out",
        answer="LoggedOut",
    ),
    Route(
        "GET",
        "/api/help",
        "none",
        ALL,
        "list the pages of the documentation",
        handler="list_help",
        answer="HelpPages",
    ),
    Route(
        "GET",
        "/api/help/pages/{name}",
        "none",
        ALL,
        "give a page of the documentation",
        handler="show_help",
        answer="HelpPage",
    ),
    Route(
        "GET",
        "/api/help/pictures/{name}",
        "none",
        ALL,
        "give a picture of the documentation",
        handler="send_picture",
        media=PNG,
    ),
    types="handlers",
)
