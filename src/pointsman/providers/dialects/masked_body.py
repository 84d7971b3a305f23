"""Placeholders put into the texts of a request, and values put back into those of an answer.

Masked are the texts that models read: messages, system prompts, descriptions of tools, their
arguments and results. Names, ids, addresses of files, and parts of a kind unknown here stay as they
are: a value found there keeps the turn on this machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw, Struct

from pointsman.errors import InputError
from pointsman.providers.dialects import conversation
from pointsman.providers.dialects.body import NULL
from pointsman.providers.dialects.spans import members, replace_span
from pointsman.signals.masking import Placeholders, quote_in_json

_TEXTS: Final = frozenset(
    {
        "content", "context", "description", "input", "instructions", "output", "prompt",
        "reasoning", "reasoning_content", "refusal", "safety_identifier", "summary", "system",
        "text", "thinking", "title", "user",
    }
)  # fmt: skip
"""Members whose strings are texts, alone or in a list."""

_JSON_TEXTS: Final = ("arguments", "partial_json")
"""Members whose strings are JSON themselves."""

_ALL_TEXTS: Final = ("args", "json", "metadata", "response")
"""Members all whose strings are texts: what callers note, and arguments and results of tools as
Gemini and Bedrock write them."""

_PARTS: Final = frozenset(
    {
        "custom_tool_call", "custom_tool_call_output", "function", "function_call",
        "function_call_output", "input_text", "message", "output_text", "reasoning",
        "reasoning_text", "redacted_thinking", "refusal", "summary_text", "text", "thinking",
        "tool_result", "tool_use",
    }
)  # fmt: skip
"""The kinds of parts of a conversation that hold nothing but texts and names."""

_PART_LISTS: Final = ("content", "input", "messages", "output", "system", "tool_calls")
_KEEPS_STATE: Final = ("previous_response_id", "conversation")

_ANY: Final = msgspec.json.Decoder[object](object)
_LIST: Final = msgspec.json.Decoder(list[Raw])
_BRACKET: Final = ord("[")

Edit = Callable[[str], str]


class MaskedBody(Struct, frozen=True):
    """A request with placeholders, and how many there are by kind; or why it cannot be masked."""

    body: bytes
    counts: dict[str, int]
    obstacle: str = ""


def mask_body(body: bytes, placeholders: Placeholders) -> MaskedBody:
    """Return a request with placeholders; a value that is seen all the same is an obstacle.

    INVARIANT: where there is no obstacle, no value that is to be masked is found in the result.
    """
    obstacle = _find_values(body, placeholders)
    if not placeholders:
        return MaskedBody(body, {}, _find_rest(body, placeholders))
    counts: Counter[str] = Counter()
    masked = _edit_body(body, lambda text: placeholders.mask(text, counts))
    told = dict(sorted(counts.items()))
    if placeholders.has_clash:
        obstacle = obstacle or "two values would have one placeholder"
    return MaskedBody(masked, told, obstacle or _find_rest(masked, placeholders))


def _find_values(body: bytes, placeholders: Placeholders) -> str:
    """Have all values of a request found; return the obstacle to looking through it."""
    found = members(body).values
    kept = [name for name in _KEEPS_STATE if bytes(found.get(name, NULL)) != b"null"]
    obstacle = f"`{kept[0]}` names what the provider keeps" if kept else ""
    for name, raw in found.items():
        value = _ANY.decode(raw)
        _walk(value, name, placeholders.collect)
        obstacle = obstacle or _unknown_part(value, name)
        # Once more with the names before the values: some are found by their labels alone.
        placeholders.collect("\n".join(conversation.all_texts(raw)))
    return obstacle


def _find_rest(masked: bytes, placeholders: Placeholders) -> str:
    """Name the kinds of values still seen in a masked request."""
    text = "\n".join(conversation.all_texts(Raw(masked)))
    kinds = placeholders.kinds_left(text)
    if kinds:
        return f"{', '.join(kinds)} stands where it cannot be masked"
    if placeholders.has_value(text):
        return "a value that is masked stands where it cannot be"
    return ""


def _unknown_part(value: object, name: str) -> str:
    """Name a part of a conversation that nothing here can look through, a picture for one."""
    pending = [(name, value)]
    while pending:
        key, each = pending.pop()
        if isinstance(each, list):
            for part in each:
                kind = part.get("type") if isinstance(part, dict) else None
                if key in _PART_LISTS and kind is not None and kind not in _PARTS:
                    return f"holds a part of the kind `{kind}`, which is not looked through"
                pending.append((key if isinstance(part, list) else "", part))
        elif isinstance(each, dict) and key not in {"parameters", "input_schema", "arguments"}:
            pending.extend(each.items())
    return ""


def _edit_body(body: bytes, edit: Edit) -> bytes:
    """Edit the texts of a request; what holds none to be changed keeps its bytes."""
    found = members(body)
    # From the last to the first, so that the places before stay right.
    for name, span in sorted(found.spans.items(), key=lambda each: -each[1][0]):
        raw = bytes(found.values[name])
        changed = _edit_raw(name, raw, edit)
        if changed != raw:
            body = replace_span(body, span, Raw(changed))
    return body


def _edit_raw(name: str, raw: bytes, edit: Edit) -> bytes:
    if raw[0] == _BRACKET:
        parts = [bytes(each) for each in _LIST.decode(raw)]
        edited = [_edit_part(name, each, edit) for each in parts]
        return raw if edited == parts else b"[%b]" % b",".join(edited)
    return _edit_part(name, raw, edit)


def _edit_part(name: str, raw: bytes, edit: Edit) -> bytes:
    value = _ANY.decode(raw)
    edited = _walk(value, name, edit)
    return raw if edited == value else msgspec.json.encode(edited)


def _walk(value: object, name: str, edit: Callable[[str], object]) -> object:
    """Return a value with its texts edited; `name` is the member it is."""
    if isinstance(value, str):
        if name in _JSON_TEXTS:
            return _edit_json_text(value, edit)
        return _edit_text(value, edit) if name in _TEXTS else value
    if isinstance(value, list):
        return [_walk(each, name, edit) for each in value]
    if isinstance(value, dict):
        if name in _JSON_TEXTS or name in _ALL_TEXTS:
            return _walk_all(value, edit)
        return {
            key: _walk_all(each, edit)
            if _is_arguments(value, key, each)
            else _walk(each, key, edit)
            for key, each in value.items()
        }
    return value


def _is_arguments(value: dict[object, object], key: object, each: object) -> bool:
    """Tell whether a member holds the arguments of a tool, whatever they are called."""
    is_call = value.get("type") == "tool_use" or "toolUseId" in value
    return key == "input" and is_call and isinstance(each, dict)


def _walk_all(value: object, edit: Callable[[str], object]) -> object:
    """Edit every string below, but no name."""
    if isinstance(value, str):
        return _edit_text(value, edit)
    if isinstance(value, list):
        return [_walk_all(each, edit) for each in value]
    if isinstance(value, dict):
        return {key: _walk_all(each, edit) for key, each in value.items()}
    return value


def _edit_json_text(text: str, edit: Callable[[str], object]) -> str:
    """Edit the texts inside a text of JSON; one that is not JSON is a text like any other."""
    try:
        value = _ANY.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return _edit_text(text, edit)
    edited = _walk_all(value, edit)
    return text if edited == value else msgspec.json.encode(edited).decode()


def _edit_text(text: str, edit: Callable[[str], object]) -> str:
    found = edit(text)
    return found if isinstance(found, str) else text


class Restoring:
    """Puts values back into the parts of an answer; `is_json` where its text is JSON itself."""

    def __init__(self, placeholders: Placeholders, *, is_json: bool = False) -> None:
        self._placeholders = placeholders
        self._is_json = is_json

    def text(self, text: str, name: str = "text") -> str:
        """Return a text of an answer with the values in it; `name` is the member it is."""
        return self._placeholders.restore(text, self._quote(name))

    def _quote(self, name: str) -> Callable[[str], str]:
        is_json = name in _JSON_TEXTS or (self._is_json and name in {"text", "content"})
        return quote_in_json if is_json else str

    def split_open(self, text: str) -> tuple[str, str]:
        """Split a text before the possible beginning of a placeholder at its end."""
        return self._placeholders.split_open(text)

    def value(self, value: object, name: str = "") -> object:
        """Return a value of an answer with the values in all its texts and names."""
        if isinstance(value, str):
            return self.text(value, name)
        if isinstance(value, list):
            return [self.value(each, name) for each in value]
        if isinstance(value, dict):
            return {
                self._placeholders.restore(key): self.value(each, key)
                for key, each in value.items()
            }
        return value

    def body(self, body: bytes) -> bytes:
        """Return a whole answer with the values in it; one without placeholders keeps its bytes."""
        try:
            value = _ANY.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InputError("the answer is not valid json") from error
        restored = self.value(value)
        return body if restored == value else msgspec.json.encode(restored)
