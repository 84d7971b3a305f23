"""A job's log as it is shown: ordinary numbers and instants, and, redacted, nothing found in it."""

from __future__ import annotations

from typing import Final, get_type_hints

import msgspec

from pointsman.agents.trace import Ranked
from pointsman.jobs.log import FinalOutput, ReflectiveLog, VoteCast
from pointsman.kernel.instant import Instant, instant_text
from pointsman.kernel.number import SCALE, Billionths
from pointsman.signals.detectors import detect

_FRACTIONS: Final = frozenset(
    name
    for kind in (Ranked, VoteCast, FinalOutput)
    for name, hint in get_type_hints(kind).items()
    if hint in {Billionths, Billionths | None}
)


def log_value(log: ReflectiveLog, *, is_full: bool) -> dict[str, object]:
    """Return a log for JSON."""
    built = _shown(msgspec.to_builtins(log), is_full=is_full)
    found = built if isinstance(built, dict) else {}
    return {**found, "created_at_seeded": instant_text(Instant(log.created_at_seeded))}


def hidden(text: str, *, is_full: bool) -> str:
    """Return a text, or the kinds of personal data and secrets in it."""
    kinds = () if is_full else sorted({each.kind for each in detect(text)})
    return f"[{', '.join(kinds)}]" if kinds else text


def _shown(value: object, *, is_full: bool) -> object:
    if isinstance(value, dict):
        return {
            key: each / SCALE
            if key in _FRACTIONS and type(each) is int
            else _shown(each, is_full=is_full)
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_shown(each, is_full=is_full) for each in value]
    return hidden(value, is_full=is_full) if isinstance(value, str) else value
