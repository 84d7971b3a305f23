"""The keys of one provider: which are in use, and which are out for a while."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pointsman.kernel.wb1 import METHOD
from pointsman.providers.credentials import Credential
from pointsman.providers.key_choice import KeyChoice, KeyOption, choose_keys
from pointsman.providers.port import UpstreamError
from pointsman.turns.registry.login import ProviderKey

REFUSED_S: Final = 300.0
"""How long a key that was refused is tried last: as long as a provider that is out."""

AT_LIMIT_S: Final = 30.0
"""How long a key at its limit is tried last, where the provider does not say."""


class KeyRing:
    """Chooses a key for each call, and remembers which failed.

    With one key there is no choice, and nothing is remembered.
    """

    def __init__(self, keys: Sequence[ProviderKey], home: Path, now: Callable[[], float]) -> None:
        self.credentials = tuple(Credential(each, home) for each in keys)
        self._weights = tuple(each.weight for each in keys)
        self._out_until = [0.0] * len(keys)
        self._now = now

    def choose(self, unit: str) -> tuple[int, KeyChoice | None]:
        """Return the number of the key that a call of this unit tries first, and the choice."""
        if len(self.credentials) < 2:
            return 0, None
        options = self._options()
        first = choose_keys(unit, options)[0]
        return first, KeyChoice(METHOD, unit, options, options[first].id, options[first].id)

    def order(self, unit: str, first: int) -> tuple[int, ...]:
        """Return the order of keys of a call that began with this one."""
        if len(self.credentials) < 2:
            return (0,)
        others = (each for each in choose_keys(unit, self._options()) if each != first)
        return (first, *others)

    def note_failure(self, key: int, error: UpstreamError) -> None:
        """Put a key that was refused or is at its limit behind the others for a while."""
        if len(self.credentials) < 2:
            return
        if error.error_class == "auth":
            self._out_until[key] = self._now() + REFUSED_S
        elif error.error_class == "rate_limit":
            wait = AT_LIMIT_S if error.retry_after_s is None else error.retry_after_s
            self._out_until[key] = self._now() + wait

    def note_success(self, key: int) -> None:
        """Take a key that worked back into use."""
        if self.credentials:
            self._out_until[key] = 0.0

    def _options(self) -> tuple[KeyOption, ...]:
        now = self._now()
        return tuple(
            KeyOption(each.id, weight, until <= now)
            for each, weight, until in zip(
                self.credentials, self._weights, self._out_until, strict=True
            )
        )
