"""`/openapi.json` tells every route that is served, who may ask, and nothing that is not there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import Running, running
from tests.gateway.town import ADMIN

from pointsman.access.roles import SCOPES, Scope, effective_role
from pointsman.gateway.api.models import CALLS
from pointsman.gateway.api.status.openapi import openapi, statuses
from pointsman.gateway.route_table import ROUTES
from pointsman.gateway.routes import make_handlers
from pointsman.gateway.serving.route import Route

DOCUMENT = openapi(ROUTES.values())
IN_ORDER = sorted(ROUTES.values(), key=lambda route: (route.path, route.method))


def name(route: Route) -> str:
    return " ".join(route.key)


def refs(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for each in value.values():
            yield from refs(each)
    elif isinstance(value, list):
        for each in value:
            yield from refs(each)


def test_every_served_route_is_described_and_every_described_one_is_served(live: Running) -> None:
    assert set(make_handlers(live.parts)) == set(ROUTES)
    told = live.get("/openapi.json").json()
    listed = {(method.upper(), path) for path, each in told["paths"].items() for method in each}
    assert listed == set(ROUTES)
    assert told["openapi"] == "3.1.0"


def test_every_reference_leads_to_a_schema_that_compiles() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    for ref in refs(DOCUMENT):
        assert ref.removeprefix("#/components/schemas/") in schemas
    for name in schemas:
        whole = {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}
        jsonschema_rs.Draft202012Validator(whole)


def test_operations_have_names_of_their_own() -> None:
    names = [each["operationId"] for path in DOCUMENT["paths"].values() for each in path.values()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("route", IN_ORDER, ids=name)
def test_a_route_names_its_errors(route: Route) -> None:
    answers = DOCUMENT["paths"][route.path][route.method.lower()]["responses"]
    assert {str(status) for status in statuses(route)} < set(answers)
    assert ("401" in answers) == (route.scope != "none")


def test_what_asks_for_no_answer_gets_one_without_a_body(live: Running) -> None:
    told = {"jsonrpc": "2.0", "method": "notifications/unheard-of"}
    admin = {"authorization": f"Bearer {live.admin}"}
    heard = live.client.post("/mcp", json=told, headers=admin)
    assert (heard.status_code, heard.content) == (202, b"")
    assert "content" not in DOCUMENT["paths"]["/mcp"]["post"]["responses"]["202"]


def test_a_call_names_the_headers_of_its_answer() -> None:
    for route in CALLS:
        operation = DOCUMENT["paths"][route.path][route.method.lower()]
        headers = operation["responses"]["200"]["headers"]
        assert "x-pointsman-decision" in headers


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, dict[Scope, str]]]:
    """A gateway with keys of each scope."""
    with running(tmp_path_factory.mktemp("doors") / "home") as live:
        keys: dict[Scope, str] = {}
        for scope in SCOPES:
            body = {"name": scope, "scopes": [scope]}
            made = live.post("/api/keys", body, **ADMIN)
            assert made.status_code == 201
            keys[scope] = made.json()["key"]
        yield live, keys


def _asked(live: Running, route: Route, credential: str | None) -> Any:
    path = re.sub(r"\{\w+\}", "some-name", route.path)
    headers = {} if credential is None else {"authorization": f"Bearer {credential}"}
    return live.client.request(route.method, path, headers=headers, content=b"{}")


def _has_part(scope: Scope, route: Route) -> bool:
    """Whether the role that a key's scope comes to has a part in an agents' route."""
    role = effective_role("", (scope,), is_admin=scope == "admin")
    return not route.call_name or route.roles.of(role) != "denied"


@pytest.mark.parametrize(
    "route", [each for each in IN_ORDER if each.path != "/api/events"], ids=name
)
def test_who_may_ask_is_as_it_is_told(
    doors: tuple[Running, dict[Scope, str]], route: Route
) -> None:
    live, keys = doors
    access = route.scope
    without = _asked(live, route, None).status_code
    assert (without == 401) == (access != "none")
    for scope, credential in keys.items():
        status = _asked(live, route, credential).status_code
        is_scoped = access in {"none", "any", scope} or scope == "admin"
        is_welcome = is_scoped and _has_part(scope, route)
        assert (status == 403) == (not is_welcome), (scope, status)


def test_errors_of_the_vendors_routes_have_the_vendors_shape(town: Town, live: Running) -> None:
    missing = live.get("/v1/models/no-such-model")
    assert missing.status_code == 404
    assert missing.json()["error"]["type"] == "invalid_request_error"
    wrong = live.get("/v1/messages")
    assert wrong.status_code == 405
    assert wrong.json()["type"] == "error"
    own = live.get("/api/nothing")
    assert own.json()["error_code"] == "input.not_found"
