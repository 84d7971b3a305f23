"""The facts of a request that routing needs, read without decoding the rest of it.

INVARIANT: nothing here changes the body; unread fields pass through unchanged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from pointsman.errors import InputError
from pointsman.providers.dialects import conversation
from pointsman.providers.dialects.body import NULL, decode
from pointsman.providers.dialects.conversation import ConversationEntry
from pointsman.providers.dialects.parts import (
    LONG_BODY,
    NO_WORDS,
    Memos,
    PartEntries,
    RequestParts,
)
from pointsman.providers.dialects.spans import unique, with_model
from pointsman.providers.port import Dialect
from pointsman.signals.steps import run_to_end

_VOLATILE_SYSTEM = "x-anthropic-billing-header"
"""Claude Code writes this line anew for each request; it tells nothing of the conversation."""
_FORMATS = ("json_schema", "json_object")
_BRACKET = ord("[")


class _Format(Struct):
    type: str = ""


class _Nested(Struct):
    type: str = ""
    format: _Format | None = None
    user_id: str | None = None


class _Top(Struct):
    """The top-level fields that are read; the rest is not decoded."""

    model: str | None = None
    stream: bool | None = None
    messages: list[ConversationEntry] | None = None
    input: list[ConversationEntry] | str | None = None
    system: Raw = NULL
    instructions: str | None = None
    tools: list[Raw] | None = None
    functions: list[Raw] | None = None
    max_completion_tokens: int | None = None
    max_output_tokens: int | None = None
    max_tokens: int | None = None
    prompt_cache_key: str | None = None
    user: str | None = None
    metadata: _Nested | None = None
    response_format: _Nested | None = None
    text: _Nested | None = None
    output_config: _Nested | None = None
    output_format: _Format | None = None


_TOP = msgspec.json.Decoder(_Top)
_SMALL = tuple(
    name
    for name in _Top.__struct_fields__
    if name not in {"messages", "input", "system", "instructions", "tools"}
)
"""The fields whose values are short in a long request."""


class RequestLook:
    """A request as routing sees it. `opening` and `all_text` cost more.

    INVARIANT: `memos` change the time that a look takes, never its result.
    """

    __slots__ = (
        "_body", "_dialect", "_entries", "_has_system_entry", "_last", "_members", "_memos",
        "_tokens", "_top", "cache_key", "has_images", "has_system", "has_tool_calls_in_history",
        "has_tools", "is_continuation", "is_stream", "last_user_text", "max_output_tokens",
        "message_count", "model", "parts", "user", "wants_structured_output",
    )  # fmt: skip

    _entries: Sequence[ConversationEntry]

    def __init__(self, dialect: Dialect, body: bytes, memos: Memos | None = None) -> None:
        if not body.isascii():
            _check_utf8(body)
        self._dialect = dialect
        self._body = body
        self._members = unique(body)
        self._memos = memos
        self._tokens = -1
        top: _Top | None = None
        self.parts: RequestParts | None = None
        """The parts of a long request."""
        try:
            if len(body) >= LONG_BODY:
                top, self.parts = self._read_parts()
            top = top or _TOP.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            top = decode(_TOP, body)
        self._top = top
        if self.parts is None:
            self._entries = _entries(dialect, top)
            self._look_over()
        else:
            self._entries = PartEntries(self.parts.entries)
            self._look_over_parts(self.parts)
        self.model = top.model or ""
        self.is_stream = top.stream or False
        self.message_count = len(self._entries)
        self.max_output_tokens = _max_output_tokens(top)
        self.cache_key = top.prompt_cache_key or ""
        self.user = top.user or (top.metadata and top.metadata.user_id) or ""
        self.has_tools = bool(top.tools or top.functions) or (
            self.parts is not None and bool(self.parts.tool_names)
        )
        self.wants_structured_output = _wants_structured_output(dialect, top)
        is_likely = self.parts is not None or conversation.may_hold_image(body)
        self.has_images = is_likely and self._find_images()

    def _read_parts(self) -> tuple[_Top | None, RequestParts | None]:
        """Read a long request in parts; nothing where it holds no list of messages."""
        members, dialect = self._members, self._dialect
        listed = members.get(conversation.CONVERSATION_KEY[dialect], NULL)
        if memoryview(listed)[0] != _BRACKET:
            return None, None
        small = {name: members[name] for name in _SMALL if name in members}
        top = _TOP.decode(msgspec.json.encode(small))
        if dialect == "responses" and "instructions" in members:
            top.instructions = _TEXT_OR_NONE.decode(members["instructions"])
        top.system = members.get("system", NULL)
        return top, RequestParts(dialect, members, listed, self._memos or Memos())

    def _look_over_parts(self, parts: RequestParts) -> None:
        """Find out the same over the parts of a long request."""
        last, is_system, found = -1, False, [each.facts for each in parts.entries]
        is_said = self._dialect == "messages" and bytes(self._top.system) not in NO_WORDS
        is_said = is_said or (self._dialect == "responses" and bool(self._top.instructions))
        for at, facts in enumerate(found):
            if facts.role in conversation.SYSTEM_ROLES:
                is_system = True
                is_said = is_said or not facts.is_blank
            else:
                last = at
        self._last, self._has_system_entry, self.has_system = last, is_system, is_said
        self.has_tool_calls_in_history = any(facts.calls_tool for facts in found)
        self.last_user_text, self.is_continuation = "", False
        if last >= 0:
            self.is_continuation = found[last].brings_tool_result
            if found[last].role == "user":
                self.last_user_text = self._own_words(last)

    def offered_tools(self) -> tuple[str, ...]:
        """Return the names of the tools that the request defines, each once."""
        functions = conversation.tool_names(self._top.functions) if self._top.functions else ()
        return tuple(dict.fromkeys(filter(None, (*self._tool_names, *functions))))

    @property
    def _tool_names(self) -> Sequence[str]:
        if self.parts is not None:
            return self.parts.tool_names
        return conversation.tool_names(self._top.tools) if self._top.tools else ()

    def token_steps(self, count: Callable[[str], int]) -> Generator[None, None, int]:
        """Count the tokens of the request's words once; pauses between the pieces of a long one.

        A long request is counted part by part, as it is remembered: that differs from the count of
        the whole by what tokens reach over the ends of parts, a quarter of a percent at most.
        """
        if self._tokens < 0 and self.parts is not None:
            self._tokens = yield from self.parts.token_steps(count)
        return self.tokens(count)

    def tokens(self, count: Callable[[str], int]) -> int:
        """Count the tokens of the request's words."""
        if self._tokens < 0 and self.parts is not None:
            return run_to_end(self.token_steps(count))
        if self._tokens < 0:
            self._tokens = count(self.all_text())
        return self._tokens

    def _look_over(self) -> None:
        """Find out who spoke, once over all entries: conversations are long."""
        dialect, entries = self._dialect, self._entries
        last, calls_tool, self._has_system_entry = -1, False, False
        for at, each in enumerate(entries):
            if each.role in conversation.SYSTEM_ROLES:
                self._has_system_entry = True
            else:
                # Harnesses add system messages at the end: the last of the others counts.
                last = at
            calls_tool = calls_tool or conversation.calls_tool(dialect, each)
        self._last = last
        self.has_tool_calls_in_history = calls_tool
        self.has_system = (self._has_system_entry or dialect != "chat") and self._has_system()
        self.last_user_text, self.is_continuation = "", False
        if last >= 0:
            if entries[last].role == "user":
                self.last_user_text = self._own_words(last)
            self.is_continuation = conversation.brings_tool_result(dialect, entries[last])

    def with_model(self, model: str) -> bytes:
        """Return the body with another `model`, every other byte unchanged."""
        return with_model(self._body, model, self._members)

    @property
    def stream_options(self) -> Raw | None:
        """What chat completions are told about their stream, as it is written."""
        return self._members.get("stream_options")

    @property
    def wants_free_text(self) -> bool:
        """Whether words of ours may stand before those of the answer."""
        is_begun = self._last >= 0 and self._entries[self._last].role == "assistant"
        return not is_begun and is_free_text(self._dialect, self._members)

    @property
    def opening(self) -> bytes:
        """What stays the same from the first request of a conversation to its last.

        The system prompt, the names of the tools and the first words of the user; not the cache
        marks and reminders that harnesses move about.
        """
        first = -1
        for at, role in enumerate(self._roles()):
            if role == "user":
                first = at
                break
        words = "" if first < 0 else self.last_user_text
        if 0 <= first != self._last:
            words = self._own_words(first)
        if first >= 0 and not words:
            words = "\n".join(conversation.words(self._entries[first].content))
        system: list[str] = []
        if self._has_system_entry or self._dialect != "chat":
            texts = self._system_texts()
            system = [text for text in texts if not text.startswith(_VOLATILE_SYSTEM)]
        return msgspec.json.encode((system, self._tool_names, words))

    def said_before(self) -> list[str]:
        """Name the words of the user, one after the other: each by all that was said up to it."""
        found: list[str] = []
        told = hashlib.sha256()
        for at, role in enumerate(self._roles()):
            if role == "user":
                told.update(msgspec.json.encode(self._own_words(at)))
                found.append(told.hexdigest()[:16])
        return found

    def everything(self) -> str:
        """Return every text that leaves with the request: unknown fields and names, too."""
        return "\n".join(conversation.all_texts(Raw(self._body)))

    def all_text(self) -> str:
        """Return every word of the request: system, tools, messages, calls and results of tools."""
        texts = [*self._top_texts()] if self._dialect != "chat" else []
        if self.parts is None:
            for tool in self._top.tools or ():
                texts.extend(conversation.words(tool))
        elif self.parts.tools is not None:
            texts.extend(conversation.words(self.parts.tools.raw))
        for each in self._entries:
            plain = conversation.plain_words(each)
            if plain is None:
                texts.extend(conversation.entry_words(each))
            else:
                texts.append(plain)
        return texts[0] if len(texts) == 1 else "\n".join(texts)

    def _top_texts(self) -> Iterator[str]:
        if self._dialect == "messages":
            yield from conversation.words(self._top.system)
        elif self._dialect == "responses" and self._top.instructions:
            yield self._top.instructions

    def _roles(self) -> Iterator[str]:
        if self.parts is None:
            return (each.role for each in self._entries)
        return (each.facts.role for each in self.parts.entries)

    def _own_words(self, at: int) -> str:
        parts = conversation.own_parts(self._entries[at], self._dialect, at)
        return parts[0] if len(parts) == 1 else "\n".join(parts)

    def _has_system(self) -> bool:
        if self._dialect == "messages" and bytes(self._top.system) not in NO_WORDS:
            return True
        if self._dialect == "responses" and self._top.instructions:
            return True
        if not self._has_system_entry:
            return False
        for each in self._entries:
            if each.role in conversation.SYSTEM_ROLES and bytes(each.content) not in NO_WORDS:
                return True
        return False

    def _system_texts(self) -> Iterator[str]:
        yield from self._top_texts()
        for at, role in enumerate(self._roles()):
            if role in conversation.SYSTEM_ROLES:
                yield from conversation.words(self._entries[at].content)

    def _find_images(self) -> bool:
        """Tell whether a picture stands in the new message of the user (002 §5.3.1)."""
        return self._last >= 0 and conversation.has_image(self._entries[self._last])


def look(dialect: Dialect, body: bytes, memos: Memos | None = None) -> RequestLook:
    """Look at a request; raise `InputError` when it cannot be read."""
    return RequestLook(dialect, body, memos)


def _entries(dialect: Dialect, top: _Top) -> list[ConversationEntry]:
    if dialect == "responses":
        if isinstance(top.input, str):
            return [ConversationEntry(role="user", content=Raw(msgspec.json.encode(top.input)))]
        return top.input or []
    if top.messages is None:
        raise InputError("`messages` is missing")
    return top.messages


def _max_output_tokens(top: _Top) -> int | None:
    if top.max_completion_tokens is not None:
        return top.max_completion_tokens
    return top.max_tokens if top.max_output_tokens is None else top.max_output_tokens


def _wants_structured_output(dialect: Dialect, top: _Top) -> bool:
    found: _Nested | _Format | None
    if dialect == "chat":
        found = top.response_format
    elif dialect == "responses":
        found = top.text and top.text.format
    else:
        # `output_format` is what `output_config.format` was called before.
        found = (top.output_config and top.output_config.format) or top.output_format
    return found is not None and found.type in _FORMATS


def _check_utf8(body: bytes) -> None:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"the body is not utf-8: byte {error.start}") from None


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
_TEXT_OR_NONE = msgspec.json.Decoder(str | None)
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
