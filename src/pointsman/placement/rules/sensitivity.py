"""What a text was found to hold, as a fact: kinds and places, never the text itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

Group = Literal["pii", "secret"]

GROUPS: Final[tuple[Group, ...]] = ("pii", "secret")


class SensitivityFinding(Struct, frozen=True, forbid_unknown_fields=True):
    """One thing found: where, of which kind, why; `digest` is keyed and equal for equal finds."""

    kind: str
    group: Group
    start: int
    end: int
    digest: str
    reason: str


class Sensitivity(Struct, frozen=True, forbid_unknown_fields=True):
    """What the detector said. `total` counts all findings, of which the first are kept."""

    detector: str
    has_failed: bool
    total: int
    kinds: tuple[str, ...]
    findings: tuple[SensitivityFinding, ...]


def staying(found: Sensitivity, stays_local: Sequence[str]) -> tuple[str, ...]:
    """Return the detected kinds that must stay; a group stands for all its kinds."""
    return tuple(kind for kind in found.kinds if _stays(kind, stays_local))


def _stays(kind: str, stays_local: Sequence[str]) -> bool:
    # A kind carries its group: `secret.github_token`.
    group, _, name = kind.partition(".")
    return group in stays_local or name in stays_local
