"""Whether an answer is free text: read by people, so that words of ours may stand before it.

Not where its form is bound, its characters are counted, or it goes on from a text of the caller's.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Raw, Struct

from pointsman.providers.dialects.body import NULL
from pointsman.providers.port import Dialect

# Servers that speak OpenAI's format have several names for a form that an answer must have.
_FORMS = (
    "ebnf", "format", "grammar", "guided_choice", "guided_grammar", "guided_json", "guided_regex",
    "json_schema", "output_format", "regex", "structural_tag", "structured_outputs",
)  # fmt: skip
_PLACES = ("logprobs", "plugins", "top_logprobs", "web_search_options")
_NONE = (b"null", b"false", b"0")
_OWN_TOOLS = ("", "custom", "function")


class _Kind(Struct):
    type: str = ""


class _Text(Struct):
    format: _Kind | None = None


_KIND = msgspec.json.Decoder(_Kind | None)
_TEXT = msgspec.json.Decoder(_Text | None)
_TOOLS = msgspec.json.Decoder(list[_Kind] | None)


def is_free_text(dialect: Dialect, members: Mapping[str, Raw]) -> bool:
    """Tell it by the members of a request's body; what cannot be read is not free."""
    if any(bytes(members.get(name, NULL)) not in _NONE for name in (*_FORMS, *_PLACES)):
        return False
    if bytes(members.get("n", NULL)) not in (b"1", b"null"):
        return False
    try:
        return _has_plain_format(members) and (
            dialect != "responses" or _has_own_tools_only(members)
        )
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def _has_plain_format(members: Mapping[str, Raw]) -> bool:
    found = [_KIND.decode(members.get("response_format", NULL))]
    for name in ("text", "output_config"):
        nested = _TEXT.decode(members.get(name, NULL))
        found.append(None if nested is None else nested.format)
    return all(each is None or each.type in ("", "text") for each in found)


def _has_own_tools_only(members: Mapping[str, Raw]) -> bool:
    """Tell whether the caller runs all tools: the vendor's own note where in a text they speak."""
    tools = _TOOLS.decode(members.get("tools", NULL)) or ()
    return all(each.type in _OWN_TOOLS for each in tools)
