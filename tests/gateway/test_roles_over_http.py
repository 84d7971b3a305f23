"""Every role on every route, as it is served: what the matrix says is what happens."""

from __future__ import annotations

import re

import pytest
from tests.gateway.house import Running
from tests.gateway.test_keys_over_http import bearer, made

from pointsman.access.matrix import AGENTS, KEYLESS, ROUTES, permitted, route_of
from pointsman.access.roles import ROLE_SCOPES, ROLES, Role
from pointsman.gateway.api.described import DESCRIBED
from pointsman.gateway.routes import served


def test_every_served_route_has_a_row_and_every_row_is_served(live: Running) -> None:
    assert set(served(live.parts)) == set(ROUTES)


def test_before_the_first_key_this_machine_has_the_part_of_an_operator(live: Running) -> None:
    """What is governed needs a name: votes, semantic memory, what only admins may."""
    wrong = []
    for method, path in sorted(AGENTS):
        asked = re.sub(r"\{\w+\}", "someone", path)
        status = live.client.request(method, asked, content=b"{}").status_code
        if (status != 401) != ((method, path) in KEYLESS):
            wrong.append((method, path, status))
    assert wrong == []
    named = {("POST", "/actions/{id}/votes"), ("GET", "/sem/{namespace}/{key}")}
    assert named & KEYLESS == set()
    assert all(AGENTS[each].operator != "denied" for each in KEYLESS)


@pytest.mark.req(404)
@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_do_what_its_rows_say_and_nothing_else(live: Running, role: Role) -> None:
    own = made(live, name=f"the {role}", role=role)
    wrong = []
    for method, path in served(live.parts):
        asked = re.sub(r"\{\w+\}", "someone", path)
        assert route_of(method, asked) == (method, path)
        access = DESCRIBED[method, path].access
        is_scoped = access in {"none", "any", *ROLE_SCOPES[role]}
        is_open = is_scoped and permitted(role, (method, path)) != "denied"
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
