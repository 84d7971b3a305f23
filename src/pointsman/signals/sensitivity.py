"""What a text holds, as a fact for placement; a detector that fails is a fact too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pointsman.kernel.content import seal_text
from pointsman.placement.rules.sensitivity import Sensitivity, SensitivityFinding
from pointsman.signals.detectors import DETECTOR, detect
from pointsman.signals.hit import Hit

MOST_FINDINGS: Final = 64
"""Facts stay small: of more findings only these are kept, the kinds of all."""

Find = Callable[[str], Sequence[Hit]]


def sensitivity(text: str, key: bytes, find: Find = detect) -> Sensitivity:
    """Look for personal data and secrets; what is found is told by kind, place and keyed digest."""
    try:
        hits = find(text)
        kinds = sorted({f"{hit.group}.{hit.kind}" for hit in hits})
        findings = tuple(_finding(text, hit, key) for hit in hits[:MOST_FINDINGS])
    except Exception:  # noqa: BLE001 - whatever the detector dies of, nothing may leave then
        return Sensitivity(DETECTOR, has_failed=True, total=0, kinds=(), findings=())
    return Sensitivity(DETECTOR, False, len(hits), tuple(kinds), findings)  # noqa: FBT003 - a fact


def _finding(text: str, hit: Hit, key: bytes) -> SensitivityFinding:
    digest = seal_text(text[hit.start : hit.end], key).digest
    return SensitivityFinding(hit.kind, hit.group, hit.start, hit.end, digest, hit.reason)
