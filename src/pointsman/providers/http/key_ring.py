"""The keys of one provider: which are in use, and which are out for a while."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pointsman.providers.choice_ring import ChoiceRing
from pointsman.providers.credentials import Credential
from pointsman.turns.registry.login import ProviderKey


class KeyRing(ChoiceRing):
    """Chooses a key for each call, and remembers which failed."""

    def __init__(self, keys: Sequence[ProviderKey], home: Path, now: Callable[[], float]) -> None:
        self.credentials = tuple(Credential(each, home) for each in keys)
        named = zip(self.credentials, keys, strict=True)
        super().__init__([(own.id, key.weight) for own, key in named], "provider-key", now)
