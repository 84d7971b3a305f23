"""Every role on every route, as it is served: what the matrix says is what happens."""

from __future__ import annotations

import re

import pytest
from tests.gateway.house import Running
from tests.gateway.test_keys_over_http import bearer, made

from pointsman.access.roles import ROLE_SCOPES, ROLES, Role
from pointsman.gateway.route_table import ROUTES, find_route
from pointsman.gateway.routes import make_handlers


def test_every_served_route_has_a_row_and_every_row_is_served(live: Running) -> None:
    assert set(make_handlers(live.parts)) == set(ROUTES)


def test_before_the_first_key_this_machine_has_the_part_of_an_operator(live: Running) -> None:
    """What is governed needs a name: votes, semantic memory, what only admins may."""
    wrong = []
    for route in ROUTES.values():
        if route.call_name:
            asked = re.sub(r"\{\w+\}", "someone", route.path)
            status = live.client.request(route.method, asked, content=b"{}").status_code
            if (status != 401) != route.is_keyless:
                wrong.append((*route.key, status))
    assert wrong == []
    for named in (("POST", "/actions/{id}/votes"), ("GET", "/sem/{namespace}/{key}")):
        assert not ROUTES[named].is_keyless
    keyless = [route for route in ROUTES.values() if route.is_keyless]
    assert all(route.roles.operator != "denied" for route in keyless)


@pytest.mark.req(404)
@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_do_what_its_rows_say_and_nothing_else(live: Running, role: Role) -> None:
    own = made(live, name=f"the {role}", role=role)
    wrong = []
    for (method, path), route in ROUTES.items():
        asked = re.sub(r"\{\w+\}", "someone", path)
        assert find_route(method, asked) == route
        access = route.scope
        is_scoped = access in {"none", "any", *ROLE_SCOPES[role]}
        is_open = is_scoped and route.roles.of(role) != "denied"
        with live.client.stream(method, asked, headers=own, content=b"{}") as told:
            status = told.status_code
        # A webhook's own secret decides, and none was set here.
        if (status in {401, 403}) == is_open and access != "none":
            wrong.append((method, path, status, is_open))
    assert wrong == []


def test_a_key_made_for_a_role_has_the_scopes_it_brings(live: Running) -> None:
    made(live, name="kim", role="council")
    (row,) = live.get("/api/keys", **bearer(live.admin)).json()["keys"]
    assert (row["role"], row["scopes"]) == ("council", ["read", "act"])


def test_a_role_narrows_what_scopes_allow(live: Running) -> None:
    own = made(live, scopes=["models", "read", "act"], role="viewer")
    assert live.get("/api/turns", **own).status_code == 200
    told = live.post("/api/feedback", {}, **own)
    assert (told.status_code, told.json()["error_code"]) == (403, "PERMISSION_DENIED")


def test_a_key_without_a_role_acts_by_its_scopes_as_before(live: Running) -> None:
    own = made(live, scopes=["act"])
    assert live.post("/api/feedback", {}, **own).status_code == 400


def test_only_an_admin_approves_with_the_call_itself(live: Running) -> None:
    path = "/api/decisions/any/evaluate"
    body = {"input": {}, "approved": ["deploy"]}
    told = live.post(path, body, **made(live, scopes=["act"]))
    assert (told.status_code, told.json()["error_code"]) == (403, "PERMISSION_DENIED")
    assert live.post(path, body, **bearer(live.admin)).status_code == 404
