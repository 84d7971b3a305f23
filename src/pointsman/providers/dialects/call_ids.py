"""Ids of tool calls, as far as vendors are strict about them.

The same id always comes out the same, so a call and its result still belong together.
"""

from __future__ import annotations

import hashlib
import re

_NOT_ANTHROPIC = re.compile(r"[^a-zA-Z0-9_-]")
_OPENAI_LENGTH = 40


def for_messages(call_id: str) -> str:
    """Return an id of the letters Anthropic takes."""
    return _NOT_ANTHROPIC.sub("_", call_id) or "call"


def for_openai(call_id: str) -> str:
    """Return an id no longer than OpenAI takes."""
    if len(call_id) <= _OPENAI_LENGTH:
        return call_id
    return "call_" + hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
