"""Health, metrics and the description of the gateway."""

from __future__ import annotations

from typing import Final

from pointsman.access.roles import ALL
from pointsman.gateway.serving.route import TEXT, Route, declare

ROUTES: Final = declare(
    "status",
    "handlers.StatusApi",
    Route(
        "GET",
        "/health",
        "none",
        ALL,
        "say that the process is there",
        handler="report_health",
        answer="HealthAnswer",
    ),
    Route(
        "GET",
        "/health/readiness",
        "none",
        ALL,
        "say whether turns can be served",
        handler="report_readiness",
        answer="ReadinessAnswer",
        errors=(503,),
    ),
    Route(
        "GET",
        "/metrics",
        "read",
        ALL,
        "give the counts for Prometheus",
        handler="write_metrics",
        media=TEXT,
    ),
    Route(
        "GET",
        "/openapi.json",
        "none",
        ALL,
        "describe every route",
        handler="describe_routes",
        answer="OpenApiAnswer",
    ),
    types="handlers",
)
