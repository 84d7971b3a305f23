"""Values fit to be kept: a field with personal data or a secret goes by its digest.

A field is replaced whole, by its kind and an HMAC of it under the home's key and the job's seed
(companion §4.5): two records of one job can be compared, and their content cannot be guessed.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence

from msgspec import Struct

from pointsman.governance.action import SensitiveFinding
from pointsman.kernel.document import Json
from pointsman.signals.detectors import detect
from pointsman.signals.hit import Hit

Find = Callable[[str], Sequence[Hit]]

_DOMAIN = b"pointsman/withheld/1\0"


class Withheld(Struct, frozen=True):
    """A value as it may be kept, and the hits in it."""

    value: Json
    found: tuple[SensitiveFinding, ...]


class Withholding:
    """Looks through values for one job; `keeps` where the user opted in and that is recorded."""

    def __init__(
        self, key: bytes, job_seed: str = "", *, keeps: bool = False, find: Find = detect
    ) -> None:
        self._key = hashlib.sha256(_DOMAIN + key).digest()
        self._seed = job_seed.encode("utf-8", "surrogatepass")
        self._keeps = keeps
        self._find = find

    def value(self, value: Json, place: str) -> Withheld:
        """Return a value as it may be kept; raises whatever the detector raises."""
        found: list[SensitiveFinding] = []
        return Withheld(self._withhold(value, place, found), tuple(found))

    def texts(
        self, texts: Sequence[str], place: str
    ) -> tuple[tuple[str, ...], tuple[SensitiveFinding, ...]]:
        """Return texts as they may be kept."""
        found: list[SensitiveFinding] = []
        kept = tuple(self._text(each, f"{place}[{n}]", found) for n, each in enumerate(texts))
        return kept, tuple(found)

    def _withhold(self, value: Json, place: str, found: list[SensitiveFinding]) -> Json:
        if isinstance(value, str):
            return self._text(value, place, found)
        if isinstance(value, dict):
            return {
                self._text(key, f"{place}.*", found): self._withhold(
                    item, f"{place}.{_step(key)}", found
                )
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [self._withhold(item, f"{place}[{n}]", found) for n, item in enumerate(value)]
        if value is None or isinstance(value, bool):
            return value
        # A card number is one also where it is written as a number.
        written = str(value)
        kept = self._text(written, place, found)
        return value if kept == written else kept

    def _text(self, text: str, place: str, found: list[SensitiveFinding]) -> str:
        hits = self._find(text)
        if not hits:
            return text
        digest = self._digest(text)
        kinds = "+".join(sorted({each.kind for each in hits}))
        found.extend(
            SensitiveFinding(place, f"{each.group}.{each.kind}", digest, each.reason, self._keeps)
            for each in hits
        )
        return text if self._keeps else f"[{kinds} {digest}]"

    def _digest(self, text: str) -> str:
        said = text.encode("utf-8", "surrogatepass")
        # The length stands between, so that no value and seed share the bytes of another pair.
        message = len(said).to_bytes(8, "big") + said + self._seed
        return "hmac-sha256:" + hmac.digest(self._key, message, "sha256").hex()


def _step(key: str) -> str:
    """Name a member in a place; one that is more than a name is told by its kind alone."""
    return key if key.isidentifier() and not any(map(str.isdigit, key)) else "*"
