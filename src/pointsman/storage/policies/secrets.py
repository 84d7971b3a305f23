"""Whether a secret that a configuration names can be found. The secret itself is not read here."""

from __future__ import annotations

import os
from pathlib import Path

from pointsman.turns.registry.models import Provider, SecretRef


def is_resolved(provider: Provider | None, home: Path) -> bool:
    """Tell whether a provider is there and its secrets can be found."""
    return provider is not None and not missing_secrets(provider, home)


def missing_secrets(provider: Provider, home: Path) -> list[str]:
    """Name the secrets of a provider that cannot be found, as they are referenced."""
    keys = provider.api_key
    if keys == ():
        return ["api_key: the list is empty"]
    listed = keys if isinstance(keys, tuple) else (keys,)
    return [
        f"env {key.env}" if key.env else f"file {key.file}"
        for key in listed
        if key is not None and not _is_found(key, home)
    ]


def _is_found(key: SecretRef, home: Path) -> bool:
    if key.env:
        return bool(os.environ.get(key.env))
    return (home / Path(key.file).expanduser()).is_file()
