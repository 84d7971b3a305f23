"""A request to a model endpoint, understood: who asks, in which conversation, for which model."""

from __future__ import annotations

from typing import cast, get_args

from msgspec import Struct

from pointsman.access.keys import Principal
from pointsman.errors import InputError
from pointsman.gateway.http import Asked
from pointsman.gateway.turns.identity import Conversation, Named, conversation
from pointsman.gateway.turns.names import Meant, meant_by
from pointsman.providers.dialects.look import Look, look
from pointsman.providers.port import Dialect, Operation
from pointsman.storage.policies.policies import InForce
from pointsman.turns.facts import Privacy

_STRICTNESS: dict[Privacy, int] = {"cloud": 0, "auto": 1, "local": 2}


class Incoming(Struct, frozen=True):
    """One request to a model endpoint."""

    dialect: Dialect
    asked: Asked
    look: Look
    caller: Principal
    conversation: Conversation
    meant: Meant
    privacy: Privacy
    workspace: str | None
    operation: Operation = ""


def incoming(dialect: Dialect, asked: Asked, caller: Principal, in_force: InForce) -> Incoming:
    """Understand a request, or raise saying what is wrong with it."""
    seen = look(dialect, asked.body)
    named = Named(seen.cache_key, seen.user, seen.opening)
    workspace = asked.header(b"x-pointsman-workspace") or caller.workspace
    return Incoming(
        dialect,
        asked,
        seen,
        caller,
        conversation(caller.key_id, asked.headers, named),
        meant_by(seen.model, in_force),
        privacy_of(asked, caller),
        workspace or None,
    )


def privacy_of(asked: Asked, caller: Principal) -> Privacy:
    """Give the strictest level that the key and the request ask for."""
    own: Privacy = caller.privacy
    if b"x-pointsman-privacy" not in asked.headers:
        return own
    given = asked.header(b"x-pointsman-privacy")
    if given not in get_args(Privacy):
        raise InputError(
            f"`x-pointsman-privacy: {given[:40]}` is no privacy level",
            hint="local, cloud or auto",
        )
    level = cast(Privacy, given)
    # A request may only tighten: `cloud` asks for nothing that `auto` would not allow.
    return level if _STRICTNESS[level] > _STRICTNESS[own] else own
