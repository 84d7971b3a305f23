"""A request to a model endpoint: its caller, its session, and the model it asks for."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Final, Literal, cast, get_args

from msgspec import Struct

from pointsman.access.keys import Principal
from pointsman.errors import InputError, UnknownModel
from pointsman.gateway.serving.access import login_of
from pointsman.gateway.serving.http import Asked
from pointsman.kernel.columns import ascii_lower
from pointsman.providers.dialects.look import RequestLook, look
from pointsman.providers.dialects.parts import Memos
from pointsman.providers.port import Dialect, Operation
from pointsman.providers.secret import CallerLogin
from pointsman.storage.policies.policies import InForce
from pointsman.turns.facts import CallerFacts, Privacy
from pointsman.turns.registry.models import Provider, meant, model_id
from pointsman.turns.registry.provider_problems import callers_wire

AUTO: Final = "auto"


class RequestedModel(Struct, frozen=True):
    """What a caller asked for; `model` is empty where routing decides."""

    requested: str
    model: str


def resolve_model(requested: str, in_force: InForce) -> RequestedModel:
    """Resolve the name of a request, or raise with the nearest names."""
    found = _known_model(requested, in_force)
    if found is None:
        found = in_force.models.accept.get(requested)
        found = _bare_model(requested, in_force) if found is None else _known_model(found, in_force)
    if found is None:
        found = _match_accept(requested, in_force)
    if found is None:
        known = [*dict.fromkeys([AUTO, *in_force.ready.models, *in_force.ready.aliases])]
        raise UnknownModel(
            f"the model `{requested}` is not known here",
            hint=meant(requested, known)
            or f"known: {', '.join(known[:8])}; `accept:` in models.yaml maps other names",
        )
    return RequestedModel(requested, "" if found == AUTO else found)


def _known_model(requested: str, in_force: InForce) -> str | None:
    if requested in {AUTO, ""}:
        return AUTO
    name = model_id(requested)
    if name in in_force.ready.models:
        return name
    return in_force.ready.aliases.get(requested)


def _bare_model(requested: str, in_force: InForce) -> str | None:
    """Return the one model of this name, whatever its provider; raise where several have it."""
    found = [name for name in in_force.ready.models if name.partition(":")[2] == requested]
    if len(found) > 1:
        raise InputError(
            f"`{requested}` is the name of several models", hint=f"name one: {', '.join(found)}"
        )
    return found[0] if found else None


def _match_accept(requested: str, in_force: InForce) -> str | None:
    """Look a name up among the globs of `accept:`, in their order."""
    accept = in_force.models.accept.items()
    target = next((to for pattern, to in accept if fnmatchcase(requested, pattern)), None)
    return None if target is None else _known_model(target, in_force)


MAX_NAME: Final = 255
LONGEST_KEPT: Final = 100

Source = Literal["header", "body", "derived"]

_HEADERS: Final = (b"x-session-id", b"x-claude-code-session-id", b"x-session-affinity")


class SessionName(Struct, frozen=True):
    """A session's name within a key, and where the name comes from."""

    id: str
    source: Source


class SessionHints(Struct, frozen=True):
    """What a body says about the conversation it belongs to."""

    cache_key: str
    user: str
    opening: Callable[[], bytes]
    """What stays the same in all requests of the conversation; asked where nothing names it."""


def conversation(key_id: str, headers: Mapping[bytes, bytes], named: SessionHints) -> SessionName:
    """Name the conversation of a request."""
    if not headers.keys().isdisjoint(_HEADERS):
        for header in _HEADERS:
            value = headers.get(header)
            if value:
                return SessionName(_within(key_id, _check_header(value, header.decode())), "header")
    if named.cache_key:
        return SessionName(
            _within(key_id, _check_length(named.cache_key, "prompt_cache_key")), "body"
        )
    opening = hashlib.sha256(named.opening()).hexdigest()[:32]
    if named.user:
        user = hashlib.sha256(named.user.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return SessionName(_within(key_id, f"{user}-{opening}"), "derived")
    return SessionName(_within(key_id, opening), "derived")


def _within(key_id: str, name: str) -> str:
    if len(name) > LONGEST_KEPT or not name.isascii() or not name.isprintable():
        # The ledger names sessions too, and takes neither long names nor other letters.
        name = "sha256-" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:40]
    # A name with a slash must not read like another key's.
    return f"{key_id}/{name}" if key_id or "/" in name else name


def _check_header(value: bytes, header: str) -> str:
    text = value.decode("latin-1")
    if not text.isascii() or not text.isprintable():
        raise InputError(f"`{header}` must be printable ASCII")
    return _check_length(text, header)


def _check_length(text: str, what: str) -> str:
    if len(text) > MAX_NAME:
        raise InputError(f"`{what}` is longer than {MAX_NAME} characters")
    return text


_STRICTNESS: dict[Privacy, int] = {"cloud": 0, "auto": 1, "local": 2}


class TurnRequest(Struct, frozen=True):
    """One request to a model endpoint."""

    dialect: Dialect
    asked: Asked
    look: RequestLook
    caller: Principal
    conversation: SessionName
    meant: RequestedModel
    privacy: Privacy
    workspace: str | None
    operation: Operation = ""
    labels: tuple[str, ...] = ()

    def login_at(self, provider: Provider | None) -> CallerLogin | None:
        """Return the caller's own login, for a provider that takes it in the request's format."""
        if provider is None or not provider.takes_callers_login:
            return None
        wire = "anthropic" if self.dialect == "messages" else "openai"
        return login_of(self.asked, self.caller) if callers_wire(provider) == wire else None

    def caller_facts(self) -> CallerFacts:
        """Say who sent the request."""
        return caller_facts(self.asked, self.caller)


def incoming(
    dialect: Dialect, asked: Asked, caller: Principal, in_force: InForce, memos: Memos
) -> TurnRequest:
    """Read a request, or raise why it cannot be served."""
    seen = look(dialect, asked.body, memos)
    named = SessionHints(seen.cache_key, seen.user, lambda: seen.opening)
    workspace = asked.header(b"x-pointsman-workspace") or caller.workspace
    return TurnRequest(
        dialect,
        asked,
        seen,
        caller,
        conversation(caller.key_id, asked.headers, named),
        resolve_model(seen.model, in_force),
        privacy_of(asked, caller),
        workspace or None,
        labels=labels_of_header(asked),
    )


MOST_OF_AGENT: Final = 64
"""Letters of a client's name that are looked at: it stands in the facts of a turn."""


def caller_facts(asked: Asked, caller: Principal) -> CallerFacts:
    """Say who sent a request: its key, and the client that it says it is."""
    agent = asked.header(b"x-pointsman-agent") or asked.header(b"user-agent")
    product = agent.partition("/")[0].partition(" ")[0][:MOST_OF_AGENT]
    return CallerFacts(caller.key_id, caller.name, caller.tenant, ascii_lower(product))


_LABEL: Final = re.compile(r"[a-z][a-z0-9_-]{0,62}", re.ASCII)
MOST_LABELS: Final = 32
"""Labels that one request may name; a table seldom has more."""


def labels_of_header(asked: Asked) -> tuple[str, ...]:
    """Return the labels that a caller says its request's items have."""
    if b"x-pointsman-labels" not in asked.headers:
        return ()
    given = asked.header(b"x-pointsman-labels")
    names = tuple(dict.fromkeys(each.strip() for each in given.split(",")))
    if len(names) > MOST_LABELS or not all(_LABEL.fullmatch(each) for each in names):
        raise InputError(
            f"`x-pointsman-labels: {given[:40]}` names no labels",
            hint="names of placement.yaml, with commas between",
        )
    return names


def privacy_of(asked: Asked, caller: Principal) -> Privacy:
    """Return the strictest level that the key and the request ask for."""
    own: Privacy = caller.privacy
    if b"x-pointsman-privacy" not in asked.headers:
        return own
    given = asked.header(b"x-pointsman-privacy")
    if given not in get_args(Privacy):
        raise InputError(
            f"`x-pointsman-privacy: {given[:40]}` is no privacy level",
            hint="local, cloud or auto",
        )
    level = cast("Privacy", given)
    # A request may only tighten: `cloud` asks for nothing that `auto` would not allow.
    return level if _STRICTNESS[level] > _STRICTNESS[own] else own
