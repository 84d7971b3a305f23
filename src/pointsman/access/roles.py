"""The agents' roles: what a role may do where, beside what a key's scopes allow.

| role     | scopes it brings         | among the agents                                      |
|----------|--------------------------|-------------------------------------------------------|
| viewer   | read                     | reads requests and jobs, redacted; no snapshots       |
| operator | read, act                | runs jobs, asks for actions; snapshots redacted       |
| auditor  | read, act                | reads all, redacted; replays and verifies; no changes |
| council  | read, act                | votes where the council must; reads all in full       |
| admin    | models, read, act, admin | everything but the council's votes                    |

A scope says which kind of call a key may make at all, a role which of them: both must allow a call,
and each route of `gateway/api` says what every role may do. A key without a role acts by its
scopes: `act` as an operator, `read` as a viewer; with neither it has no part in the agents' routes,
and on others its scopes decide alone. The admin token is an admin.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, Literal, get_args

from msgspec import Struct

Role = Literal["viewer", "operator", "admin", "council", "auditor"]
GivenRole = Literal["", "viewer", "operator", "admin", "council", "auditor"]
"""A key's role; empty where none was given."""

Scope = Literal["models", "read", "act", "admin"]
"""The calls a key may make: models; reading records; preview, evaluate, replay and give
feedback; everything, with keys, budgets and policies."""

RouteKey = tuple[str, str]
"""A method and a path; a `{name}` in it stands for one part."""

Access = Literal["allowed", "redacted", "denied"]

ROLES: Final[tuple[Role, ...]] = get_args(Role)
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)

ROLE_SCOPES: Final[Mapping[Role, tuple[Scope, ...]]] = MappingProxyType(
    {
        "viewer": ("read",),
        "operator": ("read", "act"),
        "admin": SCOPES,
        "council": ("read", "act"),
        "auditor": ("read", "act"),
    }
)
"""What a key made for a role may do, where its scopes are not named."""


def scopes_of(given: Collection[Scope], role: Role | None) -> tuple[Scope, ...]:
    """Return a new key's scopes: those named, else those its role brings, else `models`."""
    if given:
        return tuple(each for each in SCOPES if each in given)
    return ("models",) if role is None else ROLE_SCOPES[role]


def effective_role(given: GivenRole, scopes: tuple[Scope, ...], *, is_admin: bool) -> GivenRole:
    """Return the role a caller acts in: admin, the key's own, or the one its scopes amount to."""
    if is_admin:
        return "admin"
    if given:
        return given
    if "act" in scopes:
        return "operator"
    return "viewer" if "read" in scopes else ""


class RoleAccess(Struct, frozen=True):
    """What each role may do on one route."""

    viewer: Access
    operator: Access
    admin: Access
    council: Access
    auditor: Access

    def of(self, role: GivenRole) -> Access:
        """Return what a role may do; without a role, nothing."""
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


ALL: Final = RoleAccess("allowed", "allowed", "allowed", "allowed", "allowed")
"""Nothing depends on the role: a key's scope decides, or no key is needed."""
ACTING: Final = RoleAccess("denied", "allowed", "allowed", "allowed", "denied")
AUDITING: Final = RoleAccess("denied", "allowed", "allowed", "allowed", "allowed")
ADMINS: Final = RoleAccess("denied", "denied", "allowed", "denied", "denied")
SNAPSHOT: Final = RoleAccess("denied", "redacted", "allowed", "allowed", "redacted")
STEERING: Final = RoleAccess("denied", "redacted", "allowed", "allowed", "denied")
"""Changes a state of the agents, and answers with it."""
READING: Final = RoleAccess("redacted", "redacted", "allowed", "allowed", "redacted")
VOTING: Final = RoleAccess("denied", "denied", "allowed", "allowed", "denied")
"""Whose vote counts depends on the request: see `governance/votes.py`."""
