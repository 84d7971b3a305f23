"""The live feed."""

from __future__ import annotations

from typing import Final

from pointsman.access.roles import ALL
from pointsman.gateway.serving.route import EVENTS, Route, declare

ROUTES: Final = declare(
    "feed",
    "handlers.FeedApi",
    Route(
        "GET",
        "/api/events",
        "read",
        ALL,
        "follow what is recorded, live; never any text of a message",
        handler="follow",
        media=EVENTS,
    ),
)
