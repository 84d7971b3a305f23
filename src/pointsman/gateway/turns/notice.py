"""The notice at the start of an answer that came by fallback, where the settings want it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pointsman.gateway.turns.turn import LiveTurn


def notice_of(live: LiveTurn) -> str:
    """Return the fallback notice for the start of the answer; empty where none may stand."""
    if not live.fallen_from or live.parts.settings.fallback.notice != "in_band":
        return ""
    if not live.request.look.wants_free_text:
        return ""
    each = zip(live.fallen_from, live.fallen_as, strict=True)
    failed = ", ".join(f"{model} failed ({why})" for model, why in each)
    return f"[pointsman: {failed}; {live.model} answers]\n\n"
