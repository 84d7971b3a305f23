"""What somebody sees before anything is said: who can answer, and where to begin."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static

from pointsman.app import Pointsman
from pointsman.tui.plain import plain
from pointsman.turns.registry.models import EMBEDDED_PROVIDER, provider_of

MOST_NAMED = 2
HINTS = (
    "Each message goes to the model that fits it; F2 tells why.",
    "@name before a message picks a model, /model binds the session to one.",
    "F1 lists every command; Ctrl+Q ends the session.",
)
ONLY_EMBEDDED = (
    "Only the small model on this machine is set up: it needs no key and no",
    "network, and knows little. `pointsman init` shows how to set up others.",
)


class Welcome(Static):
    """Stands on the empty screen; the first turn takes its place."""

    def __init__(self, text: str) -> None:
        super().__init__(Content(plain(text)), classes="welcome")
        self.text = text


def welcome_text(pointsman: Pointsman) -> str:
    """Say who can answer in a home, and how to begin."""
    names = pointsman.gathering.configured_models(pointsman.in_force())
    lines = [_ready(names), *HINTS]
    if all(provider_of(name) == EMBEDDED_PROVIDER for name in names):
        lines += ["", *ONLY_EMBEDDED]
    return "\n".join(lines)


def _ready(names: Sequence[str]) -> str:
    if not names:
        return "No model can answer yet: `pointsman doctor` tells why."
    more = len(names) - MOST_NAMED
    named = ", ".join(names[:MOST_NAMED])
    return f"Ready: {named}{f' and {more} more' if more > 0 else ''}"
