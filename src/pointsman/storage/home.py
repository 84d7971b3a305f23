"""The home folder: identity and keys of one ledger, and where everything else lies.

identity.json   ledger id and public keys          pointsman.yaml, routing.yaml, …
keys/           the secret halves, 0600            last-good/     valid versions of these files
ledger.db       what was decided                   content.db     message text, erasable
checkpoints/    signed, outside the database       leases/        who writes which chain
"""

from __future__ import annotations

import secrets
import stat
from pathlib import Path

import msgspec
from msgspec import Struct

from pointsman.errors import HomeError
from pointsman.kernel.signing import SigningKey, VerifyKey
from pointsman.storage.files import FILE_MODE, make_folder, write_new

OPEN_TO_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Identity(Struct, frozen=True, forbid_unknown_fields=True):
    """Who a home is: its ledger's id and its public keys, the newest last."""

    ledger: str
    keys: tuple[str, ...]


class Home:
    """An opened home folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.identity = _read_identity(path / "identity.json")
        self.keys = [VerifyKey(bytes.fromhex(public)) for public in self.identity.keys]

    @property
    def database(self) -> Path:
        """Where decisions are recorded."""
        return self.path / "ledger.db"

    @property
    def content(self) -> Path:
        """Where message text is kept."""
        return self.path / "content.db"

    @property
    def patterns(self) -> Path:
        """Where outcomes of similar turns are kept."""
        return self.path / "patterns.db"

    @property
    def sessions(self) -> Path:
        """Where pins and turns that wait for a tool are kept."""
        return self.path / "sessions.db"

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
        key = SigningKey(_read_secret(self.path / "keys" / "signing"))
        if key.id != self.keys[-1].id:
            raise HomeError(
                "the signing key is not the one this home is known by",
                where=str(self.path / "keys" / "signing"),
                hint="put back the key that belongs to identity.json",
            )
        return key

    def content_key(self) -> bytes:
        """Read the key under which texts are digested."""
        return _read_secret(self.path / "keys" / "content")


def open_home(path: Path, *, create: bool = True) -> Home:
    """Open a home, making its folder, identity and keys where there are none."""
    if not create and not (path / "identity.json").exists() and not (path / "ledger.db").exists():
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
    return Home(path)


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
        write_new(path / "keys" / name, secrets.token_bytes(32).hex().encode() + b"\n")
    key = SigningKey(_read_secret(path / "keys" / "signing"))
    identity = Identity(secrets.token_bytes(16).hex(), (key.public.hex(),))
    text = msgspec.json.format(msgspec.json.encode(identity), indent=2)
    write_new(path / "identity.json", text + b"\n")


def _read_identity(path: Path) -> Identity:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Identity)
    except (OSError, msgspec.MsgspecError) as error:
        raise HomeError(f"the identity cannot be read: {error}", where=str(path)) from error


def _read_secret(path: Path) -> bytes:
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
    if len(secret) != 32:
        raise HomeError("the key is not 32 bytes long", where=str(path))
    return secret
