"""What an answer says once its form is taken away, and whether it is valid by its schema.

Two answers are equal when the same text is left of them. Deterministic: no model reads
them, and no locale or clock plays a part.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final, NoReturn

import jsonschema_rs
import msgspec
from msgspec import UNSET, Raw, UnsetType

from pointsman.calls.judging import answer_text
from pointsman.kernel.content import seal_text
from pointsman.providers.messages import ModelRequest, OutputFormat, Response, ToolSpec, ToolUse
from pointsman.turns.learning.second_opinion import Opinion

MOST_CHARS: Final = 100_000
"""A longer answer is compared by its end: its result stands there."""

ANSWER_FIELDS: Final = ("answer", "final_answer")
"""The fields by which an answer in JSON is compared, where it has one: its reasoning may differ."""

_FENCE = re.compile(r"\A\s*```[\w-]*\n(.*?)\n?```\s*\Z", re.DOTALL)
_BOXED = re.compile(r"\\boxed\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}")
_MARKED = re.compile(
    r"^\W*(?:(?:the|my)\s+)?(?:final\s+)?(?:answer|result)\s*(?:is\b\s*:?|[:=])\s*(.+)$|^####\s*(.+)$",
    re.IGNORECASE | re.MULTILINE,
)
_MARKUP = re.compile(r"[*_`\"'\u2018\u2019\u201c\u201d$\u20ac\u00a3]+")
_COMMAS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_ZEROS = re.compile(r"(?<=\d)\.0+(?!\d)")
_LETTER = re.compile(r"\(?([a-z])[).:]?")


def read_opinion(model: str, response: Response, request: ModelRequest, key: bytes) -> Opinion:
    """Return what a model's answer says, as a fact of the turn; one that was cut off is none."""
    uses = tuple(each for each in response.content if isinstance(each, ToolUse))
    said = answer_text(response)
    if response.stop_reason in {"length", "refusal", "error"} or not (uses or said.strip()):
        return Opinion(model, "failed")
    is_valid = _is_valid(uses, said, request)
    text = f"tools:{_calls_text(uses)}" if uses else f"text:{normal_answer(said)}"
    return Opinion(model, "tools" if uses else "text", seal_text(text, key).digest, is_valid)


def normal_answer(said: str) -> str:
    r"""Return what an answer comes to, in one form for all ways to write it.

    Of JSON its field `answer`, else all of it with sorted keys; of a text what stands in its last
    `\boxed{}`, else behind its last `answer:` or `####`, else all of it.
    """
    text = unicodedata.normalize("NFKC", said[-MOST_CHARS:]).strip()
    fenced = _FENCE.match(text)
    text = fenced[1].strip() if fenced else text
    value = _json_of(text)
    if isinstance(value, dict):
        own = next((value[name] for name in ANSWER_FIELDS if name in value), None)
        if own is None or isinstance(own, dict | list):
            return _sorted_json(value if own is None else own)
        text = own if isinstance(own, str) else _sorted_json(own)
    elif isinstance(value, list):
        return _sorted_json(value)
    return _plain(_find_marked(text))


def _find_marked(text: str) -> str:
    """Return the part of a text that it marks as its answer, else all of it."""
    boxed = _BOXED.findall(text)
    if boxed:
        return str(boxed[-1])
    marked = _MARKED.findall(text)
    return (marked[-1][0] or marked[-1][1]) if marked else text


def _plain(text: str) -> str:
    text = " ".join(_MARKUP.sub("", text.casefold()).split())
    text = _ZEROS.sub("", _COMMAS.sub("", text)).strip().rstrip(".!;, ")
    letter = _LETTER.fullmatch(text)
    return letter[1] if letter else text


def _calls_text(uses: Sequence[ToolUse]) -> str:
    """Return tool calls in one form: names and inputs in their order, without their ids."""
    found = [[each.name, _json_of(bytes(each.input).decode())] for each in uses]
    return _sorted_json(found)


def _json_of(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def _sorted_json(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _is_valid(uses: Sequence[ToolUse], said: str, request: ModelRequest) -> bool | UnsetType:
    """Check an answer by the schemas of its request; unset where there is nothing to check by."""
    if uses:
        tools = {each.name: each for each in request.tools}
        return all(each.name in tools and _fits_tool(each, tools[each.name]) for each in uses)
    return UNSET if request.output is None else _fits_output(said, request.output)


def _fits_tool(use: ToolUse, tool: ToolSpec) -> bool:
    return _fits(_json_of(bytes(use.input).decode()), tool.input_schema)


def _fits_output(said: str, output: OutputFormat) -> bool:
    value = _json_of(said)
    if output.kind == "json_object" or output.schema is None:
        return isinstance(value, dict)
    return value is not None and _fits(value, output.schema)


def _fits(value: object, schema: Raw) -> bool:
    """Tell whether a value is valid; by a schema that cannot be used nothing is."""
    try:
        # INVARIANT: no schema makes us read a file or ask the network.
        checker = jsonschema_rs.Draft202012Validator(
            msgspec.json.decode(schema), retriever=_refuse_lookup
        )
        return bool(checker.is_valid(value))
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError):
        return False


def _refuse_lookup(uri: str) -> NoReturn:
    raise ValueError(f"`{uri}` is not looked up")
