"""Virtual keys: their text, their scopes, and the caller behind one.

Pure: randomness and time are given. A key's secret exists twice: on the screen it is shown on once,
and with its user. Here it is known by its digest.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b32encode
from collections.abc import Iterable, Mapping
from hmac import compare_digest
from types import MappingProxyType
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from pointsman.access.caps import Cap, Limit, key_caps
from pointsman.access.roles import SCOPES, GivenRole, Scope, effective_role
from pointsman.errors import IntegrityFailure, NotAuthenticated, NotPermitted
from pointsman.kernel.codes import Meaning
from pointsman.kernel.instant import LATEST, Instant
from pointsman.storage.policies.settings import NO_TERMS, RateTerms, TenantTerms
from pointsman.turns.facts import Privacy
from pointsman.turns.registry.models import model_id


class KeyRefusal(Meaning):
    """One reason; `meaning` is the sentence the documentation shows."""

    MISSING = "access.key_missing", "the call carries no key"
    MALFORMED = "access.key_malformed", "what the call carries is not written like a key"
    UNKNOWN = "access.key_unknown", "no such key was made here, or its secret is another"
    REVOKED = "access.key_revoked", "the key was revoked"
    EXPIRED = "access.key_expired", "the key's time is over"


KeyPrivacy = Literal["auto", "local"]
"""A key may keep its calls on this machine; it cannot send out what would stay."""

TENANT_PATTERN = r"^([A-Za-z0-9][A-Za-z0-9._-]{0,63})?$"
"""How a tenant is written: it stands in every entry about its calls, so it is short and plain."""

PREFIX = "pk_"
ADMIN_PREFIX = "pa_"
ID_BYTES = 10
ID_LENGTH = 16
ID_END = len(PREFIX) + ID_LENGTH
SECRET_BYTES = 32
ENTROPY_BYTES = ID_BYTES + SECRET_BYTES

_DOMAIN = b"pointsman/token/1\0"
_KEY = re.compile(r"pk_[a-z2-7]{16}_[a-z2-7]{52}", re.ASCII)


class Key(Struct, frozen=True, forbid_unknown_fields=True):
    """A virtual key, without its secret.

    `role` is its role among the agents; empty where its scopes decide. `allowed_models` None
    means all. `tenant` is empty where the key is a tenant of its own; it never changes.
    """

    id: str
    name: Annotated[str, Meta(min_length=1, max_length=100)]
    created_at: Instant
    scopes: tuple[Scope, ...] = ("models",)
    role: GivenRole = ""
    allowed_models: tuple[str, ...] | None = None
    budgets: tuple[Limit, ...] = ()
    privacy: KeyPrivacy = "auto"
    workspace: str = ""
    expires_at: Instant | None = None
    tenant: Annotated[str, Meta(pattern=TENANT_PATTERN)] = ""
    limits: RateTerms = NO_TERMS


class Principal(Struct, frozen=True):
    """Who a call comes from, and what that caller may do. `key_id` is empty without a key.

    `role` is the one the key was given; `acts_as` is the one the caller has among the agents.
    """

    key_id: str
    name: str
    scopes: tuple[Scope, ...]
    allowed_models: tuple[str, ...] | None = None
    privacy: KeyPrivacy = "auto"
    workspace: str = ""
    is_admin: bool = False
    is_anonymous: bool = False
    role: GivenRole = ""
    caps: tuple[Cap, ...] = ()
    tenant: str = ""
    """The tenant whose records the caller adds to; empty without a key."""
    limits: RateTerms = NO_TERMS

    @property
    def reach(self) -> str | None:
        """The tenant whose records the caller may read and change; None for those of all.

        Admins and auditors reach all, and so does this machine while there is no key.
        """
        return None if self.is_admin or self.role == "auditor" else self.tenant or None

    @property
    def agents_reach(self) -> str | None:
        """The tenant whose jobs and requests for actions the caller may see; None for all.

        A council votes on what agents of all tenants ask for.
        """
        return None if self.role == "council" else self.reach

    @property
    def acts_as(self) -> GivenRole:
        """The role among the agents: an admin's, the key's own, or what its scopes come to."""
        return effective_role(self.role, self.scopes, is_admin=self.is_admin)


ANONYMOUS = Principal("", "", ("models",), is_anonymous=True)
ADMIN = Principal("", "admin", SCOPES, is_admin=True, role="admin")


class KnownKey(NamedTuple):
    """The keys by digest, as a call is checked against them."""

    digest: bytes
    principal: Principal
    ends_at: int
    is_revoked: bool


class Keys(NamedTuple):
    """Every key there ever was, by id, and the digest of the admin token."""

    known: Mapping[str, KnownKey]
    admin_digest: bytes


_NOBODY = KnownKey(bytes(32), ANONYMOUS, 0, is_revoked=False)


def principal(
    keys: Keys, credential: str | None, *, scope: Scope, is_loopback: bool, now: Instant
) -> Principal:
    """Return the caller, or raise the reason why the call is refused.

    While there was never a key, model calls from this machine are served whatever they carry.
    """
    given = credential or ""
    digest = token_digest(given)
    # Whatever is wrong, the same is done: one digest, two comparisons. The id is no secret.
    known = keys.known.get(given[3:ID_END], _NOBODY)
    is_known = compare_digest(digest, known.digest)
    is_admin = compare_digest(digest, keys.admin_digest)
    if is_known and known.ends_at > now:
        if scope in known.principal.scopes:
            return known.principal
        raise NotPermitted(f"this key may not do that: it lacks the scope `{scope}`")
    if is_admin:
        return ADMIN
    if not keys.known and is_loopback and scope == "models":
        return ANONYMOUS
    raise NotAuthenticated(reason=_refusal(given, known, is_known=is_known))


def is_own_token(text: str) -> bool:
    """Tell whether a text is written like a virtual key or an admin token of a gateway."""
    return _KEY.fullmatch(text) is not None or text.startswith(ADMIN_PREFIX)


def token_digest(token: str) -> bytes:
    """Return the digest that is stored of a key or an admin token.

    Not slow and not salted: the secret has 256 random bits.
    """
    return hashlib.sha256(_DOMAIN + token.encode("utf-8", "surrogatepass")).digest()


def key_token(entropy: bytes) -> tuple[str, str]:
    """Return a new key's id and the whole key."""
    name, secret = _text(entropy[:ID_BYTES]), _text(entropy[ID_BYTES:ENTROPY_BYTES])
    return name, f"{PREFIX}{name}_{secret}"


def admin_token(entropy: bytes) -> str:
    """Return a new admin token."""
    return ADMIN_PREFIX + _text(entropy[:SECRET_BYTES])


def known_key(
    key: Key,
    digest: bytes,
    revoked_at: Instant | None,
    tenants: Mapping[str, TenantTerms] = MappingProxyType({}),
) -> KnownKey:
    """Return the key as calls are checked against it."""
    is_admin = "admin" in key.scopes or key.role == "admin"
    caller = Principal(
        key.id,
        key.name,
        SCOPES if is_admin else key.scopes,
        _allowed_models(key, tenants.get(key.tenant or key.id) or tenants.get("*")),
        key.privacy,
        key.workspace,
        is_admin=is_admin,
        role=key.role,
        caps=key_caps(key.name, key.budgets),
        tenant=key.tenant or key.id,
        limits=key.limits,
    )
    if revoked_at is not None:
        return KnownKey(digest, caller, 0, is_revoked=True)
    ends_at = LATEST if key.expires_at is None else key.expires_at
    return KnownKey(digest, caller, ends_at, is_revoked=False)


def _allowed_models(key: Key, terms: TenantTerms | None) -> tuple[str, ...] | None:
    """Return the models that both the key and its tenant may ask for."""
    if terms is None or terms.allowed_models is None:
        return key.allowed_models
    own = tuple(model_id(name) for name in terms.allowed_models)
    return own if key.allowed_models is None else tuple(n for n in own if n in key.allowed_models)


def read_key(body: bytes) -> Key:
    """Read a stored key."""
    try:
        return _BODY.decode(body)
    except msgspec.MsgspecError as error:
        raise IntegrityFailure(f"stored key: {error}") from error


def key_body(key: Key) -> bytes:
    """Write a key to be stored."""
    return msgspec.json.encode(key)


def state_of(
    key: Key, revoked_at: Instant | None, now: Instant
) -> Literal["live", "revoked", "expired"]:
    """Say whether a key is taken."""
    if revoked_at is not None:
        return "revoked"
    return "live" if _is_live(key.expires_at, now) else "expired"


def credential_of(authorization: str | None, api_key: str | None) -> str | None:
    """Return what a call carries: `Authorization: Bearer …`, else `x-api-key`."""
    scheme, _, token = (authorization or "").strip().partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    return (api_key or "").strip() or None


def tighten_privacy(level: Privacy, others: Iterable[str | None]) -> Privacy:
    """Return the privacy of a call: what a key or a header says may keep it here, never send it."""
    return "local" if "local" in others else level


def _is_live(expires_at: Instant | None, now: Instant) -> bool:
    return expires_at is None or now < expires_at


def _refusal(given: str, known: KnownKey, *, is_known: bool) -> KeyRefusal:
    # Looked at first, so that a refusal takes as long whatever it is for.
    is_shaped = _KEY.fullmatch(given) is not None
    if is_known:
        return KeyRefusal.REVOKED if known.is_revoked else KeyRefusal.EXPIRED
    if not given:
        return KeyRefusal.MISSING
    return KeyRefusal.UNKNOWN if is_shaped else KeyRefusal.MALFORMED


def _text(data: bytes) -> str:
    return b32encode(data).decode("ascii").rstrip("=").lower()


_BODY = msgspec.json.Decoder(Key)
