"""Which words of a user's message are the user's own, and where they begin.

Harnesses put their reminders into the user's message. They are no part of what the user asks.
"""

from __future__ import annotations

_OPEN, _CLOSE = "<system-reminder>", "</system-reminder>"


def own_start(text: str) -> int:
    """Give where the first own word of a text stands; its length when there is none."""
    at = 0
    while True:
        at += len(text[at:]) - len(text[at:].lstrip())
        if not text.startswith(_OPEN, at):
            return at
        end = text.find(_CLOSE, at)
        if end < 0:
            return len(text)
        at = end + len(_CLOSE)


def own_text(text: str) -> str:
    """Give the own words of a text."""
    if _OPEN not in text:
        return text
    parts: list[str] = []
    at = 0
    while (found := text.find(_OPEN, at)) >= 0:
        parts.append(text[at:found])
        end = text.find(_CLOSE, found)
        at = len(text) if end < 0 else end + len(_CLOSE)
    parts.append(text[at:])
    return "".join(parts).strip()
