"""Things that serve the same: which one a session's calls go to, and which are out for a while."""

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
"""How long one at its limit is tried last, where the provider does not say."""


class ChoiceRing:
    """Chooses one for each call, and remembers which failed.

    With one there is no choice, and nothing is remembered.
    """

    def __init__(
        self, options: Sequence[tuple[str, int]], kind: str, now: Callable[[], float]
    ) -> None:
        self._ids_and_weights = tuple(options)
        self._kind = kind
        self._out_until = [0.0] * len(options)
        self._now = now

    def choose(self, unit: str) -> tuple[int, KeyChoice | None]:
        """Return the number of the one that a call of this unit tries first, and the choice."""
        if len(self._out_until) < 2:
            return 0, None
        options = self._options()
        first = choose_keys(unit, options, self._kind)[0]
        return first, KeyChoice(METHOD, unit, options, options[first].id, options[first].id)

    def order(self, unit: str, first: int) -> tuple[int, ...]:
        """Return the order in which a call that began with this one tries them."""
        if len(self._out_until) < 2:
            return (0,)
        others = (each for each in choose_keys(unit, self._options(), self._kind) if each != first)
        return (first, *others)

    def note_failure(self, number: int, error: UpstreamError) -> None:
        """Put one that was refused or is at its limit behind the others for a while."""
        if len(self._out_until) < 2:
            return
        if error.error_class == "auth":
            self._out_until[number] = self._now() + REFUSED_S
        elif error.error_class == "rate_limit":
            wait = AT_LIMIT_S if error.retry_after_s is None else error.retry_after_s
            self._out_until[number] = self._now() + wait

    def note_success(self, number: int) -> None:
        """Take one that worked back into use."""
        if self._out_until:
            self._out_until[number] = 0.0

    def _is_open(self, number: int, now: float) -> bool:
        return self._out_until[number] <= now

    def _options(self) -> tuple[KeyOption, ...]:
        now = self._now()
        return tuple(
            KeyOption(own_id, weight, self._is_open(number, now))
            for number, (own_id, weight) in enumerate(self._ids_and_weights)
        )


class KeyRing(ChoiceRing):
    """Chooses a key for each call, and remembers which failed."""

    def __init__(self, keys: Sequence[ProviderKey], home: Path, now: Callable[[], float]) -> None:
        self.credentials = tuple(Credential(each, home) for each in keys)
        named = zip(self.credentials, keys, strict=True)
        super().__init__([(own.id, key.weight) for own, key in named], "provider-key", now)
