"""The home folder: identity and keys of one ledger, and where everything else lies.

identity.json   ledger id and public keys          pointsman.yaml, routing.yaml, …
keys/           the secret halves, 0600            last-good/     valid versions of these files
ledger.db       the entries of the chains          content.db     message text, erasable
checkpoints/    signed, outside the database       leases/        who writes which chain
"""

from __future__ import annotations

import os
import secrets
import stat
from copy import copy
from pathlib import Path

import msgspec
from msgspec import Struct

from pointsman.errors import ForeignKey, HomeError, IntegrityFailure
from pointsman.kernel.rotation import KeyRotation, key_ring
from pointsman.kernel.signing import SECRET_BYTES, SigningKey, VerifyKey
from pointsman.storage.files import FILE_MODE, make_folder, replace_file, sync_folder, write_new
from pointsman.storage.place import Store, StorePlace
from pointsman.storage.sqlite.folder import SqliteFolder
from pointsman.storage.store_url import chosen_store
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.stores.tenant_reader import TenantReader
from pointsman.storage.writer.chain_rows import HeldLease, LeasedLedger
from pointsman.storage.writer.checkpoints import Checkpoints

DEFAULT_HOME = "~/.pointsman"
OPEN_TO_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def home_path(given: str | None = None) -> Path:
    """Return the home folder: the one given, else POINTSMAN_HOME, else ~/.pointsman."""
    return Path(given or os.environ.get("POINTSMAN_HOME") or DEFAULT_HOME).expanduser().absolute()


class Identity(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Who a home is: its ledger's id, its public keys, the newest last, and how each came to be."""

    ledger: str
    keys: tuple[str, ...]
    rotations: tuple[KeyRotation, ...] = ()


class Home:
    """An opened home folder."""

    tenant: str | None = None
    """Whose decisions a reader finds; None for those of all."""

    def __init__(self, path: Path, store: Store | None = None) -> None:
        self.path = path
        self.store: Store = store or SqliteFolder(path)
        self.read_identity()

    def read_identity(self) -> None:
        """Read anew which keys the ledger has: another process may have replaced the newest."""
        self.identity, self.keys = _read_identity(self.path / "identity.json")

    def place(self, name: str) -> StorePlace:
        """Where a store is kept, by its name."""
        return self.store.place(name)

    def ledger(self, writer: str) -> LeasedLedger:
        """Take a chain to write: `writer`, or `writer-2`, … when others hold those before it."""
        return self.store.ledger(writer)

    def lease(self, name: str, *, waits: bool = False) -> HeldLease:
        """Take the sole right to something in this home, or raise `ChainHeld`."""
        return self.store.lease(name, waits=waits)

    @property
    def notes(self) -> Checkpoints:
        """Return the signed checkpoints of the ledger's chains."""
        return self.store.checkpoints()

    @property
    def database(self) -> StorePlace:
        """Where decisions are recorded."""
        return self.store.place("ledger")

    def seen_by(self, tenant: str | None) -> Home:
        """Return the same home, but its readers find the decisions of one tenant; None for all."""
        if tenant is None:
            return self
        seen = copy(self)
        seen.tenant = tenant
        return seen

    def reader(self) -> LedgerReader:
        """Open a reader of the ledger; one bound to a tenant reads that tenant's entries."""
        if self.tenant is None:
            return LedgerReader(self.database)
        return TenantReader(self.database, self.tenant)

    @property
    def content(self) -> StorePlace:
        """Where message text is kept."""
        return self.store.place("content")

    @property
    def patterns(self) -> StorePlace:
        """Where outcomes of similar turns are kept."""
        return self.store.place("patterns")

    @property
    def sessions(self) -> StorePlace:
        """Where pins and turns that wait for a tool are kept."""
        return self.store.place("sessions")

    @property
    def checkpoints(self) -> Path:
        """Where signed checkpoints are kept."""
        return self.path / "checkpoints"

    @property
    def leases(self) -> Path:
        """Where writers hold their chains."""
        return self.path / "leases"

    @property
    def last_good(self) -> Path:
        """Where valid versions of configuration files are kept."""
        return self.path / "last-good"

    def signing_key(self) -> SigningKey:
        """Read the key that signs; it must be the newest public one."""
        found = self.path / "keys" / "signing"
        key = _key_in(found)
        if key.id != self.keys[-1].id and self._next_key.exists():
            # A rotation was interrupted behind the step that put the new key in force.
            key = _key_in(self._next_key)
        if key.id != self.keys[-1].id:
            raise ForeignKey(
                where=str(found), hint="put back the key that belongs to identity.json"
            )
        return key

    @property
    def _next_key(self) -> Path:
        """The signing key that is about to be in force."""
        return self.path / "keys" / "signing.next"

    def replace_signing_key(self, secret: bytes, rotation: KeyRotation) -> None:
        """Put a new signing key in force and forget the old one's secret half.

        DURABILITY: a crash leaves the old key in force, or the new one. The identity decides.
        """
        replace_file(self._next_key, secret.hex().encode() + b"\n")
        known = self.identity
        after = Identity(known.ledger, (*known.keys, rotation.new), (*known.rotations, rotation))
        replace_file(self.path / "identity.json", _identity_text(after))
        self.read_identity()
        self.finish_rotation()

    def finish_rotation(self) -> None:
        """Put the new secret in the place of the old one, also after a crash between the two."""
        if self._next_key.exists() and self.signing_key().id == _key_in(self._next_key).id:
            self._next_key.replace(self.path / "keys" / "signing")
            sync_folder(self._next_key.parent)

    def content_key(self) -> bytes:
        """Read the key under which texts are digested."""
        return read_secret(self.path / "keys" / "content")


class BareFolder(Struct, frozen=True):
    """A folder of policy files that is no home: without an identity, nothing is recorded in it."""

    path: Path

    @property
    def last_good(self) -> Path:
        """Where valid versions would be kept, if it were a home."""
        return self.path / "last-good"


def is_home(path: Path) -> bool:
    """Tell whether a folder is a home, and not just any folder."""
    return (path / "identity.json").exists() or (path / "ledger.db").exists()


def open_home(path: Path, *, create: bool = True, store: str = "") -> Home:
    """Open a home, making its folder, identity and keys where there are none.

    `store` is the URL of the database; without it, what POINTSMAN_STORE or `pointsman.yaml` says.
    """
    if not create and not is_home(path):
        raise HomeError(
            "there is no home here",
            where=str(path),
            hint="name another with --home DIR or POINTSMAN_HOME, or make one: `pointsman init`",
        )
    try:
        make_folder(path)
        if not (path / "identity.json").exists():
            _make_identity(path)
    except OSError as error:
        raise HomeError(
            f"the home folder cannot be made: {error.strerror}",
            where=str(path),
            hint="choose another with --home DIR or POINTSMAN_HOME",
        ) from error
    return Home(path, chosen_store(path, store))


def _make_identity(path: Path) -> None:
    if (path / "ledger.db").exists() or (path / "checkpoints").exists():
        raise HomeError(
            "identity.json is gone, but the home has a ledger",
            where=str(path),
            hint="put identity.json back; without it the ledger cannot be verified",
        )
    make_folder(path / "keys")
    # Several processes may meet here at once: the first one's keys stand, the others read them.
    for name in ("signing", "content"):
        write_new(path / "keys" / name, secrets.token_bytes(SECRET_BYTES).hex().encode() + b"\n")
    key = _key_in(path / "keys" / "signing")
    identity = Identity(secrets.token_bytes(16).hex(), (key.public.hex(),))
    write_new(path / "identity.json", _identity_text(identity))


def _identity_text(identity: Identity) -> bytes:
    return msgspec.json.format(msgspec.json.encode(identity), indent=2) + b"\n"


def _read_identity(path: Path) -> tuple[Identity, list[VerifyKey]]:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Identity)
        return found, key_ring(found.ledger, found.keys, found.rotations)
    except (OSError, ValueError, msgspec.MsgspecError, IntegrityFailure) as error:
        raise HomeError(f"the identity cannot be read: {error}", where=str(path)) from error


def _key_in(path: Path) -> SigningKey:
    return SigningKey(read_secret(path))


def read_secret(path: Path) -> bytes:
    """Read 32 secret bytes that only the owner may read."""
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="ascii").strip()
        secret = bytes.fromhex(text)
    except (OSError, ValueError) as error:
        raise HomeError(f"the key cannot be read: {error}", where=str(path)) from error
    if mode & OPEN_TO_OTHERS:
        raise HomeError(
            "others may read this key", where=str(path), hint=f"chmod {FILE_MODE:o} {path}"
        )
    if len(secret) != SECRET_BYTES:
        raise HomeError("the key is not 32 bytes long", where=str(path))
    return secret
