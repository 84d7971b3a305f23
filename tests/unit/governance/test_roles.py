"""Roles beside scopes: what each brings, what each may do, and what a key is made for."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from click.testing import CliRunner

from pointsman.access.keys import ADMIN, ANONYMOUS, Key, Principal, key_body, known_key, read_key
from pointsman.access.roles import (
    ROLE_SCOPES,
    ROLES,
    SCOPES,
    GivenRole,
    Role,
    effective_role,
    scopes_of,
)
from pointsman.cli.main import main
from pointsman.gateway.route_table import ROUTES, find_route
from pointsman.kernel.instant import Instant

# One letter a role, in the order viewer, operator, admin, council, auditor.
WANTED = {
    ("POST", "/router/decide"): "daaad",
    ("POST", "/brainstate/create_snapshot"): "daaad",
    ("GET", "/brainstate/{id}"): "draar",
    ("POST", "/brainstate/tick"): "draad",
    ("POST", "/brainstate/query"): "daaad",
    ("POST", "/selfrep/create_snapshot"): "daaad",
    ("GET", "/selfrep"): "draar",
    ("GET", "/selfrep/{id}"): "draar",
    ("POST", "/jobs"): "daaad",
    ("GET", "/jobs"): "rraar",
    ("GET", "/jobs/{id}"): "rraar",
    ("POST", "/jobs/{id}/replay"): "daaaa",
    ("POST", "/actions"): "daaad",
    ("GET", "/actions"): "rraar",
    ("GET", "/actions/{id}"): "rraar",
    ("POST", "/actions/{id}/votes"): "ddaad",
    ("POST", "/actions/{id}/cancel"): "daaad",
    ("POST", "/actions/{id}/execute"): "ddadd",
    ("POST", "/actions/{id}/settle"): "ddadd",
    ("GET", "/sem/{namespace}"): "draar",
    ("GET", "/sem/{namespace}/{key}"): "draar",
}


@pytest.mark.req(388, 391, 404)
def test_the_agents_routes_are_open_to_whom_the_contract_names() -> None:
    found = {
        key: "".join(route.roles.of(role)[0] for role in ROLES)
        for key, route in ROUTES.items()
        if route.call_name
    }
    assert found == WANTED


@pytest.mark.req(388)
def test_full_snapshots_are_for_admin_and_council_only() -> None:
    found = {role: ROUTES["GET", "/brainstate/{id}"].roles.of(role) for role in ROLES}
    assert [role for role in ROLES if found[role] == "allowed"] == ["admin", "council"]
    assert [role for role in ROLES if found[role] == "redacted"] == ["operator", "auditor"]
    assert found["viewer"] == "denied"


def test_without_a_role_nothing_is_allowed() -> None:
    assert {route.roles.of("") for route in ROUTES.values()} == {"denied"}


def test_an_admin_may_do_everything_there_is() -> None:
    assert {route.roles.of("admin") for route in ROUTES.values()} == {"allowed"}


def test_a_viewer_may_do_nothing_that_an_operator_may_not() -> None:
    order = ("denied", "redacted", "allowed")
    for lower, higher in (("viewer", "operator"), ("operator", "admin"), ("auditor", "admin")):
        for route in ROUTES.values():
            low, high = (route.roles.of(each) for each in (lower, higher))  # type: ignore[arg-type]
            assert order.index(low) <= order.index(high), (route.key, lower, higher)


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("/actions", ("GET", "/actions")),
        ("/actions/01H", ("GET", "/actions/{id}")),
        ("/actions/", None),
        ("/actions/01H/votes", None),
        ("/brainstate/bs:1", ("GET", "/brainstate/{id}")),
        ("/nowhere", None),
        ("/v1/models/a/b", None),
    ],
)
def test_a_request_belongs_to_one_route(path: str, wanted: tuple[str, str] | None) -> None:
    route = find_route("GET", path)
    assert (None if route is None else route.key) == wanted


@pytest.mark.parametrize(
    ("given", "scopes", "is_admin", "wanted"),
    [
        ("", ("models",), False, ""),
        ("", ("read",), False, "viewer"),
        ("", ("read", "act"), False, "operator"),
        ("council", ("read",), False, "council"),
        ("", SCOPES, True, "admin"),
        ("viewer", SCOPES, True, "admin"),
    ],
)
def test_a_key_without_a_role_acts_by_its_scopes(
    given: GivenRole, scopes: Any, is_admin: bool, wanted: str
) -> None:
    assert effective_role(given, scopes, is_admin=is_admin) == wanted


def test_the_admin_token_is_an_admin_and_nobody_is_nobody() -> None:
    assert ADMIN.acts_as == "admin"
    assert ANONYMOUS.acts_as == ""


def test_a_key_carries_its_role_to_its_principal() -> None:
    key = Key("k", "kim", Instant(0), scopes=("read", "act"), role="council")
    assert read_key(key_body(key)) == key
    known = known_key(key, b"", None).principal
    assert (known.role, known.acts_as, known.is_admin) == ("council", "council", False)


def test_an_admins_key_is_an_admin_by_role_or_by_scope() -> None:
    for key in (
        Key("k", "kim", Instant(0), role="admin"),
        Key("k", "kim", Instant(0), scopes=("admin",)),
    ):
        known: Principal = known_key(key, b"", None).principal
        assert (known.is_admin, known.scopes, known.acts_as) == (True, SCOPES, "admin")


def test_a_key_made_before_there_were_roles_is_read_as_it_was() -> None:
    body = b'{"id":"k","name":"kim","created_at":0,"scopes":["models"],"role":""}'
    assert read_key(body).role == ""


@pytest.mark.parametrize("role", ROLES)
def test_scopes_are_the_roles_unless_they_are_named(role: Role) -> None:
    assert scopes_of((), role) == ROLE_SCOPES[role]
    assert scopes_of(("read",), role) == ("read",)
    assert scopes_of((), None) == ("models",)
    assert set(get_args(GivenRole)) == {"", *ROLES}


def ran(home: Path, *words: str) -> Any:
    done = CliRunner().invoke(main, [*words, "--home", str(home), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.parametrize("role", ROLES)
def test_a_key_is_made_for_a_role_at_the_command_line(tmp_path: Path, role: Role) -> None:
    made = ran(tmp_path, "keys", "create", "kim", "--role", role)
    assert (made["role"], tuple(made["scopes"])) == (role, ROLE_SCOPES[role])
    (listed,) = ran(tmp_path, "keys", "list")
    assert listed["role"] == role
    text = CliRunner().invoke(main, ["keys", "list", "--home", str(tmp_path)]).output
    assert f"as {role}" in text


def test_an_unknown_role_is_refused(tmp_path: Path) -> None:
    words = ["keys", "create", "kim", "--role", "king", "--home", str(tmp_path)]
    assert CliRunner().invoke(main, words).exit_code == 2
