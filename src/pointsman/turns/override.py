"""The `@alias` a user may begin a message with. Document 002 §9.2."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"@(\S*)(?:\s|\Z)", re.ASCII)


def override_token(message: str) -> str | None:
    """Give the alias a message begins with, None when it begins with none."""
    match = _TOKEN.match(message)
    return match[1] if match else None
