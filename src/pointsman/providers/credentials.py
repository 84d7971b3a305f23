"""The keys of a provider: read where they are referenced, when they are needed, and never shown."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from pointsman.providers.port import NotConfigured
from pointsman.providers.secret import Secret
from pointsman.storage.policies.secrets import ADMIN_TOKEN, is_forbidden
from pointsman.turns.registry.login import SecretRef

_FITS_A_HEADER = re.compile(r"[\x21-\x7e]+", re.ASCII)
_LONGEST = 16 * 1024


class Credential:
    """One key: where it is found, and the id by which it is known."""

    __slots__ = ("_home", "_kept", "_ref", "_stamp", "id")

    def __init__(self, ref: SecretRef, home: Path) -> None:
        self._ref = ref
        self._home = home
        self._kept: Secret | None = None
        self._stamp: tuple[int, int, int] | None = None
        self.id = credential_id(ref)

    def secret(self) -> Secret:
        """Read the key as it is now, or raise `NotConfigured`."""
        # INVARIANT: where this raises, no frame holds the secret's text.
        found = self._from_environment() if self._ref.env else self._from_file()
        if found is None:
            message = f"the secret `{self._ref.label}` is missing, or is no key"
            raise NotConfigured(message, credential=self.id)
        return found

    def _from_environment(self) -> Secret | None:
        # The admin token is no provider's, whatever a file says.
        text = "" if self._ref.env == ADMIN_TOKEN else os.environ.get(self._ref.env, "")
        if self._kept is None or self._kept.reveal() != text:
            self._kept = _secret(text)
        return self._kept

    def _from_file(self) -> Secret | None:
        path = self._home / Path(self._ref.file).expanduser()
        try:
            now = path.stat()
            stamp = (now.st_mtime_ns, now.st_size, now.st_ino)
            if stamp != self._stamp:
                # Looked at with every new file: a link may lead elsewhere by now.
                may_be_read = now.st_size <= _LONGEST and not is_forbidden(self._ref, self._home)
                self._kept = _secret(path.read_text("utf-8")) if may_be_read else None
                self._stamp = stamp
        except (OSError, UnicodeDecodeError):
            return None
        return self._kept


def _secret(text: str) -> Secret | None:
    text = text.strip("\r\n \t")
    return Secret(text) if _FITS_A_HEADER.fullmatch(text) else None


def read_text(ref: SecretRef, home: Path) -> str | None:
    """Return a secret of many lines as it is now; None where it is missing."""
    if is_forbidden(ref, home):
        return None
    if ref.env:
        return os.environ.get(ref.env)
    path = home / Path(ref.file).expanduser()
    try:
        return path.read_text("utf-8") if path.stat().st_size <= _LONGEST else None
    except (OSError, UnicodeDecodeError):
        return None


def credential_id(ref: SecretRef) -> str:
    """Return the short id of a key. It is made from where the key is found, never from the key."""
    return hashlib.sha256(ref.label.encode()).hexdigest()[:8]
