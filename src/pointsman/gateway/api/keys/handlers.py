"""Keys and policies over HTTP: for the admin token and admins' keys only."""

from __future__ import annotations

import secrets
from typing import Annotated

from msgspec import Meta, Struct

from pointsman.access.caps import Limit, Per
from pointsman.access.keyring import KeptKey
from pointsman.access.keys import ENTROPY_BYTES, Key, KeyPrivacy, key_token
from pointsman.access.roles import Role, Scope, scopes_of
from pointsman.errors import NotFound
from pointsman.gateway.access import caller_of
from pointsman.gateway.api.policies.writing import write_policy
from pointsman.gateway.asgi import Handler, named_parts
from pointsman.gateway.http import Asked, Receive, Send, answer_value, in_thread
from pointsman.gateway.parts import Parts, check_own_files
from pointsman.kernel.document import Limits
from pointsman.kernel.instant import instant_text, read_instant
from pointsman.kernel.json_text import read_json
from pointsman.kernel.number import microusd
from pointsman.kernel.schema import conform
from pointsman.kernel.written_numbers import Usd
from pointsman.signals.kinds import KINDS
from pointsman.storage.policies.policies import read_table
from pointsman.turns.policy import read_policy
from pointsman.turns.registry.models import read_models

POLICIES = ("models.yaml", "routing.yaml", "placement.yaml")


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


class Admin:
    """Serves what only admins may do."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def routes(self) -> dict[tuple[str, str], Handler]:
        """Give what is served where."""
        return {
            ("GET", "/api/keys"): self.keys,
            ("POST", "/api/keys"): self.create,
            ("DELETE", "/api/keys/{id}"): self.revoke,
            ("GET", "/api/policies/{name}"): self.policy,
            ("PUT", "/api/policies/{name}"): self.put_policy,
        }

    async def keys(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """List the keys; no secret is among what is known of them."""
        caller_of(self._parts, asked, "admin")
        found = await in_thread(self._parts.keyring.listed)
        await answer_value(send, {"keys": [_key_value(each) for each in found]})

    async def create(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Make a key; its secret is in this answer and nowhere else."""
        caller_of(self._parts, asked, "admin")
        given = conform(read_json(asked.body, "the body", _limits(asked)), GivenKey)
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
        )
        await in_thread(lambda: self._parts.keyring.create(key, token))
        self._tell_replicas()
        await answer_value(send, {"id": name, "key": token, "name": given.name}, 201)

    async def revoke(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """End a key."""
        caller_of(self._parts, asked, "admin")
        name = named_parts("/api/keys/{id}", asked.path)["id"]
        now = self._parts.pointsman.clock.now()
        kept = await in_thread(lambda: self._parts.keyring.revoke(name, now))
        self._tell_replicas()
        await answer_value(send, _key_value(kept))

    async def policy(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Give a policy file as it stands, and what is wrong with it."""
        caller_of(self._parts, asked, "admin")
        name = _policy_name(asked)
        pointsman = self._parts.pointsman
        in_force, text = pointsman.in_force(), pointsman.files.text(name)
        problems = [str(p) for file in in_force.invalid if file.name == name for p in file.problems]
        value = {
            "name": name,
            "text": (text or b"").decode("utf-8"),
            "problems": problems,
            "is_there": text is not None,
            "publication_id": in_force.origin.publication_id or None,
        }
        await answer_value(send, value)

    async def put_policy(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Replace a policy file, if what is sent is valid; otherwise nothing changes."""
        caller = caller_of(self._parts, asked, "admin")
        check_own_files(self._parts)
        name = _policy_name(asked)
        self._check(name, asked.body)
        over = asked.header(b"if-match").strip('"')
        await write_policy(self._parts, name, asked.body, caller, over)
        in_force = self._parts.pointsman.in_force()
        value = {
            "name": name,
            "policy_id": in_force.policy_id,
            "problems": [str(each) for each in in_force.problems],
            "publication_id": in_force.origin.publication_id or None,
        }
        await answer_value(send, value)

    def _tell_replicas(self) -> None:
        if self._parts.sharing is not None:
            self._parts.sharing.changed()

    def _check(self, name: str, text: bytes) -> None:
        """Raise with all that is wrong with a candidate."""
        files = self._parts.pointsman.files
        if name == "models.yaml":
            read_models(text, name)
        elif name == "placement.yaml":
            known = files.known(files.in_force().models)
            read_table(text, name, [each.name for each in KINDS], known)
        else:
            read_policy(text, name, files.known(files.in_force().models), "/")


def _policy_name(asked: Asked) -> str:
    name = named_parts("/api/policies/{name}", asked.path)["name"]
    if name not in POLICIES:
        raise NotFound(f"`{name}` is no policy", hint=f"one of {', '.join(POLICIES)}")
    return name


def _key_value(kept: KeptKey) -> dict[str, object]:
    key = kept.key
    return {
        "id": key.id,
        "name": key.name,
        "scopes": key.scopes,
        "role": key.role or None,
        "allowed_models": key.allowed_models,
        "privacy": key.privacy,
        "workspace": key.workspace,
        "created_at": instant_text(key.created_at),
        "expires_at": None if key.expires_at is None else instant_text(key.expires_at),
        "revoked_at": None if kept.revoked_at is None else instant_text(kept.revoked_at),
    }


def _limits(asked: Asked) -> Limits:
    return Limits(bytes=max(1, len(asked.body)))
