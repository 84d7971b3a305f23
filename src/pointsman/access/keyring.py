"""The keys of a home in memory: asked at every call, read again when a process has written."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import PosixPath
from types import MappingProxyType

from msgspec import Struct

from pointsman.access.keys import (
    Key,
    Keys,
    Principal,
    admin_token,
    key_body,
    known_key,
    principal,
    read_key,
    token_digest,
)
from pointsman.access.roles import Scope
from pointsman.errors import InputError, NotFound
from pointsman.kernel.instant import SECOND, Instant
from pointsman.storage.place import StorePlace, Where
from pointsman.storage.policies.settings import TenantTerms
from pointsman.storage.sqlite.folder import SqliteFolder
from pointsman.storage.stores.access import AccessStore, StoredKey

ACCESS = "access"
"""What the store is called in a home."""

LOOKED_EVERY = SECOND // 4
"""How long a key that was revoked elsewhere may still be taken."""

FOLLOWED_FOR = 3 * SECOND
"""The same where another process looks all the time: then it is looked here, and fails where the
database does."""

USE_NOTED_EVERY = 60 * SECOND


class KeptKey(Struct, frozen=True):
    """A key, and what happened to it since it was made."""

    key: Key
    revoked_at: Instant | None
    last_used_at: Instant | None


class Keyring:
    """The keys of one home; may be shared by threads.

    `where` is their store, or the folder of a home that keeps its own. `admin_digest` is that of
    `POINTSMAN_ADMIN_TOKEN` or of the token that was made here. `tenants` limit the models of keys.
    """

    def __init__(
        self,
        where: Where,
        admin_digest: bytes = b"",
        tenants: Mapping[str, TenantTerms] = MappingProxyType({}),
    ) -> None:
        self._tenants = tenants
        self._store = AccessStore(_kept_in(where))
        self._keys = Keys({}, admin_digest)
        self._lock = threading.Lock()
        self._looked_at = Instant(-LOOKED_EVERY)
        self._version: int | None = None
        self._change = 0
        self._noted: dict[str, Instant] = {}
        self._unwritten: dict[str, Instant] = {}
        self.is_followed = False
        """Whether a thread that may wait for the database looks often enough."""

    def close(self) -> None:
        """Write the pending uses and close the database."""
        self.write_uses()
        self._store.close()

    def principal(
        self, credential: str | None, *, scope: Scope, is_loopback: bool, now: Instant
    ) -> Principal:
        """Return the caller, or raise the reason why the call is refused."""
        caller = principal(
            self.keys(now), credential, scope=scope, is_loopback=is_loopback, now=now
        )
        if caller.key_id and now - self._noted.get(caller.key_id, 0) >= USE_NOTED_EVERY:
            self._note_use(caller.key_id, now)
        return caller

    def keys(self, now: Instant) -> Keys:
        """Return the keys as they were a moment ago."""
        # A clock set back must not keep a revocation from being seen.
        if not 0 <= now - self._looked_at < (FOLLOWED_FOR if self.is_followed else LOOKED_EVERY):
            self.look(now)
        return self._keys

    def session_tenant(self, name: str, now: Instant) -> str:
        """Return the tenant of a session by the key in its name; empty where there is none."""
        key_id, has_key, _ = name.partition("/")
        known = self.keys(now).known.get(key_id) if has_key else None
        return "" if known is None else known.principal.tenant

    def create(self, key: Key, token: str) -> None:
        """Keep a new key; the token itself is not kept."""
        self._store.add(StoredKey(key.id, token_digest(token), key_body(key)))
        self.look_again()

    def revoke(self, name: str, now: Instant) -> KeptKey:
        """End the key whose id is or begins like this; one that was ended before stays so."""
        found = self.find(name)
        self._store.revoke(found.key.id, now)
        self.look_again()
        return self.find(found.key.id)

    def find(self, name: str) -> KeptKey:
        """Return the key whose id is or begins like this."""
        found = [each for each in self.list_keys() if name and each.key.id.startswith(name)]
        if not found:
            hint = "`pointsman keys list` shows the ids"
            raise NotFound(f"no key has the id `{name[:100]}`", hint=hint)
        if len(found) > 1:
            raise InputError(f"{len(found)} keys begin with `{name}`", hint="give more of the id")
        return found[0]

    def list_keys(self) -> list[KeptKey]:
        """Return every key, in the order they were made."""
        return [
            KeptKey(read_key(row.body), row.revoked_at, row.last_used_at)
            for row in self._store.every_key()
        ]

    def write_uses(self) -> None:
        """Write when keys were used last. Blocks: not for an event loop."""
        with self._lock:
            uses, self._unwritten = self._unwritten, {}
        if uses:
            self._store.note_uses(uses)

    def _note_use(self, key_id: str, now: Instant) -> None:
        with self._lock:
            self._noted[key_id] = self._unwritten[key_id] = now

    def look_again(self) -> None:
        """Have the next question answered by the database."""
        with self._lock:
            self._looked_at = Instant(-LOOKED_EVERY)

    def look(self, now: Instant) -> None:
        """Take over keys that were made or ended since; raises when the database cannot be read."""
        with self._lock:
            version = self._store.version()
            if version != self._version:
                self._take_over(self._store.changed_since(self._change))
                self._version = version
            self._looked_at = now

    def _take_over(self, rows: list[StoredKey]) -> None:
        if not rows:
            return
        fresh = {
            row.id: known_key(read_key(row.body), row.digest, row.revoked_at, self._tenants)
            for row in rows
        }
        self._keys = Keys({**self._keys.known, **fresh}, self._keys.admin_digest)
        self._change = rows[-1].changed


class AdminToken(Struct, frozen=True):
    """What calls are compared with; `shown_once` is the token itself when it was made just now."""

    digest: bytes
    shown_once: str = ""


def opened_admin_token(where: Where, given: str, entropy: bytes) -> AdminToken:
    """Return the admin token: `given` is POINTSMAN_ADMIN_TOKEN, which wins and is not stored.

    Without it one is made of `entropy` at the first start, and only its digest is kept.
    """
    if given:
        return AdminToken(token_digest(given))
    store = AccessStore(_kept_in(where))
    try:
        stored = store.admin_digest()
        if stored is not None:
            return AdminToken(stored)
        token = admin_token(entropy)
        if store.add_admin(token_digest(token)):
            return AdminToken(token_digest(token), token)
        # Another process was first: its token is the one that was shown.
        return AdminToken(store.admin_digest() or token_digest(token))
    finally:
        store.close()


def _kept_in(where: Where) -> StorePlace:
    return SqliteFolder(where).place(ACCESS) if type(where) is PosixPath else where  # type: ignore[return-value] # see `place_of`
