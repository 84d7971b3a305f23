"""Providers over HTTP."""

from __future__ import annotations

from typing import Final

from pointsman.access.roles import ACTING, ALL
from pointsman.gateway.serving.route import Route, declare

ROUTES: Final = declare(
    "providers",
    "handlers.ProviderApi",
    Route(
        "GET",
        "/api/providers",
        "read",
        ALL,
        "tell which providers and models are out, and what their limits leave",
        handler="list_providers",
        answer="ProvidersAnswer",
    ),
    Route(
        "POST",
        "/api/providers/clear",
        "act",
        ACTING,
        "end the outage of a provider or a model, for all processes of the home; recorded",
        handler="clear_outage",
        answer="ClearProviderAnswer",
        body="ClearProviderBody",
        errors=(404,),
    ),
    types="handlers",
)
