"""Whether a secret that a configuration names can be found. The secret itself is not read here."""

from __future__ import annotations

import os
from pathlib import Path

from pointsman.turns.registry import Provider, SecretRef


def is_resolved(provider: Provider | None, home: Path) -> bool:
    """Tell whether a provider has what it needs; a built-in one needs nothing."""
    if provider is None or provider.api_key is None:
        return True
    keys = provider.api_key if isinstance(provider.api_key, tuple) else (provider.api_key,)
    return bool(keys) and all(_is_found(key, home) for key in keys)


def _is_found(key: SecretRef, home: Path) -> bool:
    if key.env:
        return bool(os.environ.get(key.env))
    return (home / Path(key.file).expanduser()).is_file()
