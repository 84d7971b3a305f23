"""Keys over HTTP: for the admin token and admins' keys only."""

from __future__ import annotations

import secrets
from typing import Annotated

from msgspec import Meta, Struct

from pointsman.access.caps import Limit, Per
from pointsman.access.keyring import KeptKey
from pointsman.access.keys import (
    ENTROPY_BYTES,
    TENANT_PATTERN,
    Key,
    KeyPrivacy,
    key_token,
)
from pointsman.access.roles import Role, Scope, scopes_of
from pointsman.audit.turn_shapes import InstantText
from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.serving.http import in_thread
from pointsman.gateway.serving.neighbours import KEYS
from pointsman.gateway.serving.services import GatewayServices
from pointsman.kernel.instant import instant_text, read_instant
from pointsman.kernel.literal import Usd
from pointsman.kernel.number import microusd
from pointsman.storage.policies.settings import NO_TERMS, RateTerms


class GivenBudget(Struct, frozen=True, forbid_unknown_fields=True):
    """A key's budget, as it is written."""

    limit_usd: Usd
    per: Per = "day"


class GivenKey(Struct, frozen=True, forbid_unknown_fields=True):
    """A key to make, as it is written."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    scopes: tuple[Scope, ...] = ()
    role: Role | None = None
    allowed_models: tuple[str, ...] | None = None
    budgets: tuple[GivenBudget, ...] = ()
    privacy: KeyPrivacy = "auto"
    workspace: str = ""
    expires_at: str | None = None
    tenant: Annotated[str, Meta(pattern=TENANT_PATTERN)] = ""
    limits: RateTerms = NO_TERMS


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
    tenant: str
    limits: RateTerms


class KeysAnswer(Struct, frozen=True):
    """Every key there ever was."""

    keys: tuple[KeyRow, ...]


class KeyMade(Struct, frozen=True):
    """A new key: its secret is told here and nowhere else."""

    id: str
    key: str
    name: str


class KeyApi:
    """Serves virtual keys."""

    def __init__(self, parts: GatewayServices) -> None:
        self._parts = parts

    async def list_keys(self, _request: ApiRequest) -> KeysAnswer:
        """List the keys, without their secrets."""
        found = await in_thread(self._parts.keyring.list_keys)
        return KeysAnswer(tuple(_key_row(kept) for kept in found))

    async def create_key(self, request: ApiRequest) -> KeyMade:
        """Make a key; its secret is in this answer and nowhere else."""
        given = request.body_as(GivenKey)
        name, token = key_token(secrets.token_bytes(ENTROPY_BYTES))
        key = Key(
            id=name,
            name=given.name,
            created_at=self._parts.pointsman.clock.now(),
            scopes=scopes_of(given.scopes, given.role),
            role=given.role or "",
            allowed_models=given.allowed_models,
            budgets=tuple(
                Limit(microusd(f"{each.limit_usd:f}"), each.per) for each in given.budgets
            ),
            privacy=given.privacy,
            workspace=given.workspace,
            expires_at=None if given.expires_at is None else read_instant(given.expires_at),
            tenant=given.tenant,
            limits=given.limits,
        )
        await in_thread(lambda: self._parts.keyring.create(key, token))
        self._parts.announce(KEYS)
        return KeyMade(name, token, given.name)

    async def revoke_key(self, request: ApiRequest) -> KeyRow:
        """End a key."""
        name = request.part("id")
        now = self._parts.pointsman.clock.now()
        kept = await in_thread(lambda: self._parts.keyring.revoke(name, now))
        self._parts.announce(KEYS)
        return _key_row(kept)


def _key_row(kept: KeptKey) -> KeyRow:
    key = kept.key
    return KeyRow(
        id=key.id,
        name=key.name,
        scopes=key.scopes,
        role=key.role or None,
        allowed_models=key.allowed_models,
        privacy=key.privacy,
        workspace=key.workspace,
        created_at=instant_text(key.created_at),
        expires_at=None if key.expires_at is None else instant_text(key.expires_at),
        revoked_at=None if kept.revoked_at is None else instant_text(kept.revoked_at),
        tenant=key.tenant or key.id,
        limits=key.limits,
    )
