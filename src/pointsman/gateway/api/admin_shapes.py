"""What admins take and give over HTTP: keys, policies, budgets."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from pointsman.access.caps import Each, Per
from pointsman.access.keys import KeyPrivacy
from pointsman.access.roles import Role, Scope
from pointsman.audit.turn_shapes import InstantText
from pointsman.kernel.written_numbers import Usd


class BudgetBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A budget of `routing.yaml`; one of the same name is replaced."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    limit_usd: Usd
    per: Literal["day", "month"] = "day"
    each: Each = "all"


class BudgetRow(Struct, frozen=True):
    """A budget; what is left is told where it is counted over all calls or belongs to a key."""

    name: str
    limit_usd: str
    per: Per
    each: Each
    left_usd: str | None
    resets_at: InstantText | None
    key_id: str | None = None


class BudgetsAnswer(Struct, frozen=True):
    """The budgets of the policy in force and of keys."""

    budgets: tuple[BudgetRow, ...]


class KeyRow(Struct, frozen=True):
    """A key, without its secret."""

    id: str
    name: str
    scopes: tuple[Scope, ...]
    role: Role | None
    allowed_models: tuple[str, ...] | None
    privacy: KeyPrivacy
    workspace: str
    created_at: InstantText
    expires_at: InstantText | None
    revoked_at: InstantText | None


class KeysAnswer(Struct, frozen=True):
    """Every key there ever was."""

    keys: tuple[KeyRow, ...]


class KeyMade(Struct, frozen=True):
    """A new key: its secret is told here and nowhere else."""

    id: str
    key: str
    name: str


class PolicyAnswer(Struct, frozen=True):
    """A policy file as it stands; `publication_id` where the policy is published in the ledger."""

    name: str
    text: str
    problems: tuple[str, ...]
    is_there: bool
    publication_id: str | None


class PolicyWritten(Struct, frozen=True):
    """The policy in force after a file was replaced."""

    name: str
    policy_id: str
    problems: tuple[str, ...]
    publication_id: str | None
