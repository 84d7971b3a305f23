"""The `@alias` a user may begin a message with. Document 002 §9.2."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from pointsman.errors import InputError
from pointsman.turns.facts import Override
from pointsman.turns.registry.models import meant, model_id

Mode = Literal["strict", "known", "off"]
"""Whether an unknown alias is an error, plain text, or no alias is looked for at all."""

# Only at the very start, only ASCII, and only before white space: `@haiku,` is plain text.
MARKS = ("@", "\\@")
"""How a message begins that names a model, or that escapes the sign."""

_TOKEN = re.compile(r"@([A-Za-z0-9_.:/-]*)(?:\s+|\Z)", re.ASCII)


def split_override(
    message: str, aliases: Mapping[str, str], mode: Mode = "strict"
) -> tuple[Override | None, str]:
    """Return the override a message begins with, and the message without it."""
    if mode == "off" or not message.startswith(MARKS):
        return None, message
    if message.startswith("\\@"):
        return None, message[1:]
    match = _TOKEN.match(message)
    if match is None:
        return None, message
    model = aliases.get(match[1]) or aliases.get(model_id(match[1]))
    if model is None:
        return None, _unknown(match[1], message, aliases, mode)
    text = message[match.end() :]
    if not text:
        raise InputError(f"`@{match[1]}` stands alone", hint="write the message behind it")
    return Override(match[1], model), text


def _unknown(alias: str, message: str, aliases: Mapping[str, str], mode: Mode) -> str:
    if mode == "known":
        return message
    raise InputError(
        f"`@{alias}` names no model" if alias else "`@` names no model",
        hint=meant(alias, aliases) or "write `\\@` for a plain @ at the start",
    )
