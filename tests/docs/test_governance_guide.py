"""The tables of the governance guide say what the code says."""

import re
from pathlib import Path

from pointsman.access.roles import ROLE_SCOPES, ROLES
from pointsman.errors import (
    JobPrivacyBlocked,
    PermissionDenied,
    RouterNoMatch,
    RouterNoSnapshot,
    SemNotFound,
)
from pointsman.gateway.api.agents.call import refusal_value
from pointsman.gateway.route_table import ROUTES
from pointsman.governance.action import ACTIONS, QUORUM, VOTE_WINDOW, ActionRefusal
from pointsman.kernel.instant import SECOND

GUIDE = (Path(__file__).parents[2] / "docs" / "guide" / "governance.md").read_text("utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in GUIDE.splitlines()
    if line.startswith("| `")
]


def rows(width: int, pattern: str) -> list[list[str]]:
    return [row for row in ROWS if len(row) == width and re.fullmatch(pattern, row[0])]


def test_every_action_stands_there_with_its_approval() -> None:
    found = {row[0]: row[1:] for row in rows(3, r"`[a-z_]+`")}
    assert found == {
        f"`{name}`": [f"`{rule.approval}`", rule.meaning] for name, rule in ACTIONS.items()
    }


def test_every_role_stands_there_with_its_scopes() -> None:
    found = {row[0]: row[1] for row in rows(2, r"`[a-z]+`")}
    assert found == {f"`{role}`": ", ".join(ROLE_SCOPES[role]) for role in ROLES}


def test_every_route_stands_there_with_what_each_role_may_do() -> None:
    found = {row[0]: row[1:] for row in rows(1 + len(ROLES), r"`[A-Z]+ /.*`")}
    assert found == {
        f"`{method} {path}`": [route.roles.of(role) for role in ROLES]
        for (method, path), route in ROUTES.items()
    }


def test_every_refusal_stands_there_with_its_meaning() -> None:
    found = [tuple(row) for row in rows(2, r"`action\..*`")]
    assert found == [(f"`{each}`", each.meaning) for each in ActionRefusal]


def test_every_code_stands_there_as_it_is_told_over_http() -> None:
    kinds = (RouterNoMatch, RouterNoSnapshot, JobPrivacyBlocked, PermissionDenied, SemNotFound)
    told = [refusal_value(each(), "t", "now") for each in kinds]
    found = rows(3, r"`[A-Z_]+`")
    assert found == [[f"`{x['error_code']}`", str(x["status"]), str(x["severity"])] for x in told]


def test_the_numbers_in_words_are_the_numbers_in_force() -> None:
    assert (QUORUM, VOTE_WINDOW) == (3, 24 * 3600 * SECOND)
    assert "three members of the council" in GUIDE
    assert "24 hours" in GUIDE
