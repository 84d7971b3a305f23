"""Every route and every role: allowed, redacted or denied. Data, published in the documentation.

A route without a row is denied to all, and a test fails where one is served.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from pointsman.access.roles import Access, GivenRole

Route = tuple[str, str]
"""A method and a path as it is served, with its parts in braces."""


class Row(Struct, frozen=True):
    """What each role may do on one route."""

    viewer: Access
    operator: Access
    admin: Access
    council: Access
    auditor: Access

    def of(self, role: GivenRole) -> Access:
        """Give what a role may do; nobody may do anything without one."""
        match role:
            case "viewer":
                return self.viewer
            case "operator":
                return self.operator
            case "admin":
                return self.admin
            case "council":
                return self.council
            case "auditor":
                return self.auditor
        return "denied"


ALL: Final = Row("allowed", "allowed", "allowed", "allowed", "allowed")
"""Nothing in it depends on the role: a key's scope decides, or anybody may ask."""
ACTING: Final = Row("denied", "allowed", "allowed", "allowed", "denied")
AUDITING: Final = Row("denied", "allowed", "allowed", "allowed", "allowed")
ADMINS: Final = Row("denied", "denied", "allowed", "denied", "denied")
SNAPSHOT: Final = Row("denied", "redacted", "allowed", "allowed", "redacted")
STEERING: Final = Row("denied", "redacted", "allowed", "allowed", "denied")
"""Changes a state of the agents, and answers with it."""
READING: Final = Row("redacted", "redacted", "allowed", "allowed", "redacted")
VOTING: Final = Row("denied", "denied", "allowed", "allowed", "denied")
"""Whose vote counts depends on the request: see `agents/votes.py`."""

_MODELS: Final = {
    ("POST", "/v1/chat/completions"): ALL,
    ("POST", "/v1/responses"): ALL,
    ("POST", "/v1/messages"): ALL,
    ("POST", "/v1/messages/count_tokens"): ALL,
    ("POST", "/v1/embeddings"): ALL,
    ("POST", "/v1/completions"): ALL,
    ("GET", "/v1/models"): ALL,
    ("GET", "/v1/models/{id}"): ALL,
}

_OPEN: Final = {
    ("GET", "/"): ALL,
    ("GET", "/health"): ALL,
    ("GET", "/health/readiness"): ALL,
    ("GET", "/openapi.json"): ALL,
    # Each tool and resource asks by the row of the route that does the same.
    ("POST", "/mcp"): ALL,
    # The sensor's own secret decides.
    ("POST", "/hooks/{name}"): ALL,
}

_RECORDS: Final = {
    ("GET", "/metrics"): ALL,
    ("GET", "/api/turns"): ALL,
    ("GET", "/api/turns/{id}"): ALL,
    ("GET", "/api/decisions"): ALL,
    ("GET", "/api/sessions"): ALL,
    ("GET", "/api/providers"): ALL,
    ("GET", "/api/cost"): ALL,
    ("GET", "/api/events"): ALL,
    ("GET", "/api/budgets"): ALL,
    ("GET", "/api/audit/egress"): ALL,
    ("POST", "/api/replay"): AUDITING,
    ("POST", "/api/verify"): AUDITING,
    ("POST", "/api/backtest"): AUDITING,
    ("POST", "/api/decisions/{id}/evaluate"): ACTING,
    ("POST", "/api/sessions/{id}/pin"): ACTING,
    ("DELETE", "/api/sessions/{id}/pin"): ACTING,
    ("POST", "/api/sessions/{id}/clear-taint"): ACTING,
    ("POST", "/api/providers/clear"): ACTING,
    ("POST", "/api/feedback"): ACTING,
    ("POST", "/api/route/preview"): ACTING,
    ("POST", "/api/place"): ACTING,
}

_DASHBOARD: Final = {
    ("GET", "/assets/{name}"): ALL,
    ("GET", "/api/me"): ALL,
    ("POST", "/api/login"): ALL,
    ("POST", "/api/logout"): ALL,
    ("GET", "/api/help"): ALL,
    ("GET", "/api/help/pages/{name}"): ALL,
    ("GET", "/api/help/pictures/{name}"): ALL,
    ("GET", "/api/filters"): ALL,
    # The text of a message goes to admins alone: see `gateway/api/turns/record.py`.
    ("GET", "/api/turns/{id}/record"): ALL,
    ("POST", "/api/turns/{id}/replay"): AUDITING,
    ("GET", "/api/overview"): ALL,
    ("GET", "/api/sessions/{id}"): ALL,
    ("GET", "/api/rules"): ALL,
    ("POST", "/api/policies/{name}/check"): ACTING,
    ("POST", "/api/policies/{name}/try"): ACTING,
    ("GET", "/api/workflow-decisions"): ALL,
    ("GET", "/api/workflow-decisions/{id}"): ALL,
    ("GET", "/api/workflow-decisions/{id}/lineage"): ALL,
    ("POST", "/api/workflow-decisions/{id}/dry-run"): ACTING,
    ("DELETE", "/api/workflow-decisions/{id}/cache"): ACTING,
    ("GET", "/api/ledger"): ALL,
    ("GET", "/api/bulk"): ALL,
    ("GET", "/api/bulk/{id}"): ALL,
    ("GET", "/api/agents/history"): ALL,
}

_ADMINISTRATION: Final = {
    ("POST", "/api/export"): ADMINS,
    ("GET", "/api/policies/{name}"): ADMINS,
    ("PUT", "/api/policies/{name}"): ADMINS,
    ("GET", "/api/keys"): ADMINS,
    ("POST", "/api/keys"): ADMINS,
    ("DELETE", "/api/keys/{id}"): ADMINS,
    ("POST", "/api/budgets"): ADMINS,
    ("DELETE", "/api/budgets/{name}"): ADMINS,
}

AGENTS: Final[Mapping[Route, Row]] = MappingProxyType(
    {
        ("POST", "/router/decide"): ACTING,
        ("POST", "/brainstate/create_snapshot"): ACTING,
        ("GET", "/brainstate/{id}"): SNAPSHOT,
        ("POST", "/brainstate/tick"): STEERING,
        ("POST", "/brainstate/query"): ACTING,
        ("POST", "/selfrep/create_snapshot"): ACTING,
        ("GET", "/selfrep"): SNAPSHOT,
        ("GET", "/selfrep/{id}"): SNAPSHOT,
        ("POST", "/jobs"): ACTING,
        ("GET", "/jobs"): READING,
        ("GET", "/jobs/{id}"): READING,
        ("POST", "/jobs/{id}/replay"): AUDITING,
        ("POST", "/actions"): ACTING,
        ("GET", "/actions"): READING,
        ("GET", "/actions/{id}"): READING,
        ("POST", "/actions/{id}/votes"): VOTING,
        ("POST", "/actions/{id}/cancel"): ACTING,
        ("POST", "/actions/{id}/execute"): ADMINS,
        ("POST", "/actions/{id}/settle"): ADMINS,
        ("GET", "/sem/{namespace}"): SNAPSHOT,
        ("GET", "/sem/{namespace}/{key}"): SNAPSHOT,
    }
)
"""Where a key's role decides also when the key was given none."""

KEYLESS: Final[frozenset[Route]] = frozenset(
    key
    for key, row in AGENTS.items()
    if row.operator != "denied" and not key[1].startswith("/sem/")
)
"""Where this machine is served as an operator while there is no key; what governs needs a name."""

ROUTES: Final[Mapping[Route, Row]] = MappingProxyType(
    {**_MODELS, **_OPEN, **_RECORDS, **_DASHBOARD, **_ADMINISTRATION, **AGENTS}
)


def permitted(role: GivenRole, route: Route) -> Access:
    """Give what a role may do on a route, named as it is served: `/actions/{id}`."""
    row = ROUTES.get(route)
    return "denied" if row is None else row.of(role)


def route_of(method: str, path: str) -> Route | None:
    """Give the row a request belongs to: the one without names first."""
    if (method, path) in ROUTES:
        return method, path
    parts = path.split("/")
    return next((each for each in ROUTES if each[0] == method and _fits(each[1], parts)), None)


def _fits(pattern: str, parts: list[str]) -> bool:
    wanted = pattern.split("/")
    return (
        "{" in pattern
        and len(wanted) == len(parts)
        and all(
            want == part or (want.startswith("{") and part != "")
            for want, part in zip(wanted, parts, strict=True)
        )
    )
