"""Stops over HTTP: orders that no model is called, and how they stand."""

from __future__ import annotations

from typing import Final

from pointsman.access.roles import ADMINS, ALL
from pointsman.gateway.serving.route import Route, declare

ROUTES: Final = declare(
    "stops",
    "handlers.StopApi",
    Route(
        "GET",
        "/api/stops",
        "read",
        ALL,
        "list the stops in force",
        handler="list_stops",
        answer="StopsAnswer",
    ),
    Route(
        "POST",
        "/api/stops",
        "admin",
        ADMINS,
        "stop all model calls, those of a tenant or those to a provider",
        handler="order_stop",
        answer="StopRow",
        body="GivenStop",
        status=201,
        errors=(404,),
    ),
    types="handlers",
)
