"""The messages of a session, of any length: a turn costs only its own additions.

Messages are kept as bytes; their form on the wire, their tokens, the files they touched and their
cost are updated as they arrive.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, overload

import msgspec
from msgspec import Struct

from pointsman.providers.capabilities import estimate_message_tokens
from pointsman.providers.messages import ChatMessage, Text, ToolResult, WrittenMessages
from pointsman.sessions.message import SessionMessage
from pointsman.sessions.rollup import ModelShare, Shares
from pointsman.sessions.transcript import transcript
from pointsman.signals.tokens import count_tokens

_PATH = re.compile(r"(?:[\w.~-]*/)*[\w.-]*?(\.[A-Za-z][A-Za-z0-9]{0,7})", re.ASCII)
_LONGEST = 512
_MOST_LINES = 2_000


class TouchedFiles(Struct, frozen=True):
    """Paths, extensions and tools, each in the order it was first seen."""

    paths: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    tool_names: tuple[str, ...] = ()

    @property
    def has_tool_calls(self) -> bool:
        """Whether a model called a tool before."""
        return bool(self.tool_names)


class TouchTracker:
    """Collects touched files as messages arrive; each message is read once."""

    def __init__(self, messages: Iterable[SessionMessage] = ()) -> None:
        self._paths: dict[str, str] = {}
        self._names: dict[str, None] = {}
        self._found: TouchedFiles | None = TouchedFiles()
        self.look(messages)

    def look(self, messages: Iterable[SessionMessage]) -> None:
        """Read the inputs and results of tools; the words of messages are not read."""
        for message in messages:
            for use in message.tool_uses:
                self._found = None
                self._names.setdefault(use.name)
                self._paths |= {
                    each: found for each in _strings(use.input) if (found := _extension(each))
                }
            for line in _lines(message):
                if found := _extension(line):
                    self._found = None
                    self._paths[line] = found

    @property
    def files(self) -> TouchedFiles:
        """The files touched so far."""
        if self._found is None:
            extensions = dict.fromkeys(self._paths.values())
            self._found = TouchedFiles(tuple(self._paths), tuple(extensions), tuple(self._names))
        return self._found


def _extension(text: str) -> str:
    """Return the extension of a text that is nothing but a path, in lower case."""
    match = _PATH.fullmatch(text) if len(text) <= _LONGEST else None
    return match[1].lower() if match else ""


def _strings(raw: msgspec.Raw) -> Iterator[str]:
    waiting: list[object] = [msgspec.json.decode(raw)]
    while waiting:
        value = waiting.pop(0)
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _lines(message: SessionMessage) -> Iterator[str]:
    for block in message.content:
        if isinstance(block, ToolResult):
            for part in block.content:
                if isinstance(part, Text):
                    yield from part.text.splitlines()[:_MOST_LINES]


MOST_WRITTEN: Final = 2
"""How many transcripts are kept whole as bytes: one a style and dialect."""

_MESSAGE = msgspec.json.Decoder(SessionMessage)
Write = Callable[[Sequence[ChatMessage]], WrittenMessages]


class TranscriptStyle(Struct, frozen=True):
    """How a session is shown to a model."""

    sees_images: bool = True
    shows_ids: bool = False


class History(Sequence[SessionMessage]):
    """The messages of a session's turns that are over."""

    def __init__(self, messages: Iterable[SessionMessage] = ()) -> None:
        self._kept: list[bytes | SessionMessage] = []
        self._tracker = TouchTracker()
        self._shares = Shares()
        self._transcripts: dict[TranscriptStyle, ModelTranscript] = {}
        self._last_asked = ""
        self._dialects = DialectCache()
        self.extend(messages)

    @overload
    def __getitem__(self, index: int) -> SessionMessage: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[SessionMessage, ...]: ...
    def __getitem__(self, index: int | slice) -> SessionMessage | tuple[SessionMessage, ...]:
        """Return messages by index."""
        if isinstance(index, slice):
            return tuple(map(_message, self._kept[index]))
        return _message(self._kept[index])

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[SessionMessage]:
        return map(_message, self._kept)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, History) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment] # it grows

    def extend(self, messages: Iterable[SessionMessage]) -> None:
        """Add the messages of whole turns: each call has its final result by then."""
        added = tuple(messages)
        if not added:
            return
        self._kept += map(_pack, added)
        self._tracker.look(added)
        self._shares.add(added)
        asked = [each.text for each in added if each.role == "user"]
        self._last_asked = asked[-1] if asked else self._last_asked
        for past in self._transcripts.values():
            past.extend(added)

    @property
    def touched_files(self) -> TouchedFiles:
        """The files that its tools touched."""
        return self._tracker.files

    @property
    def shares(self) -> tuple[ModelShare, ...]:
        """The cost of each model."""
        return self._shares.by_model()

    @property
    def last_asked(self) -> str:
        """The user's last message."""
        return self._last_asked

    def transcript_for(self, style: TranscriptStyle) -> ModelTranscript:
        """Return the session in a style; it holds until the history is extended."""
        found = self._transcripts.get(style)
        if found is None:
            found = self._transcripts[style] = ModelTranscript(self, style, self._dialects)
            found.extend(tuple(self))
        return found


class ModelTranscript:
    """A session as one kind of model is shown it."""

    def __init__(self, history: History, style: TranscriptStyle, wires: DialectCache) -> None:
        self._history = history
        self._style = style
        self._dialects = wires
        self._count = 0
        self._tokens: dict[str, int] = {}
        self.open: tuple[ChatMessage, ...] = ()
        """The last messages, whose form the next ones may still change."""

    def extend(self, added: Sequence[SessionMessage]) -> None:
        """Add the messages that the history gained."""
        told = (*self.open, *self.to_messages(added))
        border = _border(told)
        final, self.open = told[:border], told[border:]
        self._count += border
        for name in self._tokens:
            self._tokens[name] += _tokens(final, name)
        self._dialects.extend(self._style, final)

    def to_messages(self, messages: Sequence[SessionMessage]) -> tuple[ChatMessage, ...]:
        """Return further messages in the same style."""
        style = self._style
        return transcript(messages, sees_images=style.sees_images, shows_ids=style.shows_ids)

    def messages(self) -> tuple[ChatMessage, ...]:
        """Return the final messages."""
        return self.to_messages(tuple(self._history))[: self._count]

    def tokens(self, tokenizer: str) -> int:
        """Estimate the tokens of the final messages."""
        if tokenizer not in self._tokens:
            self._tokens[tokenizer] = _tokens(self.messages(), tokenizer)
        return self._tokens[tokenizer]

    def in_dialect(self, dialect: str, write: Write) -> WrittenMessages:
        """Return the final messages in a dialect."""
        wire = self._dialects.of(self._style, dialect)
        if wire is None:
            wire = self._dialects.begin(self._style, dialect, write)
            wire.extend(self.messages())
        return wire.passage


class DialectBytes:
    """A session in the bytes of one dialect, extended as it grows."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._items = bytearray()
        self._lost_features: dict[str, None] = {}

    def extend(self, messages: Sequence[ChatMessage]) -> None:
        """Append messages."""
        found = self._write(messages)
        if found.items:
            self._items += b"," + found.items if self._items else found.items
        self._lost_features |= dict.fromkeys(found.lost)

    @property
    def passage(self) -> WrittenMessages:
        """All of it."""
        return WrittenMessages(bytes(self._items), tuple(self._lost_features))


class DialectCache:
    """The dialects a session is written in; the least recently used is dropped."""

    def __init__(self) -> None:
        self._found: dict[tuple[TranscriptStyle, str], DialectBytes] = {}

    def of(self, style: TranscriptStyle, dialect: str) -> DialectBytes | None:
        """Return the bytes of a dialect, if cached."""
        key = (style, dialect)
        if key in self._found:
            self._found[key] = self._found.pop(key)
        return self._found.get(key)

    def begin(self, style: TranscriptStyle, dialect: str, write: Write) -> DialectBytes:
        """Start a dialect; drop the least recently used beyond the limit."""
        self._found[style, dialect] = wire = DialectBytes(write)
        while len(self._found) > MOST_WRITTEN:
            del self._found[next(iter(self._found))]
        return wire

    def extend(self, style: TranscriptStyle, messages: Sequence[ChatMessage]) -> None:
        """Append messages to every dialect of a style."""
        for (known, _), wire in self._found.items():
            if known == style and messages:
                wire.extend(messages)


def _border(messages: Sequence[ChatMessage]) -> int:
    """Return how many messages are final: dialects join results to later messages."""
    roles = [each.role for each in messages]
    most = roles.index("system") if "system" in roles else len(roles)
    return next(
        (at for at in range(most, 0, -1) if "tool" not in (roles[at - 1], *roles[at : at + 1])), 0
    )


def _tokens(messages: Iterable[ChatMessage], tokenizer: str) -> int:
    return sum(
        estimate_message_tokens(each, lambda text: count_tokens(text, tokenizer))
        for each in messages
    )


def _pack(message: SessionMessage) -> bytes | SessionMessage:
    try:
        return msgspec.json.encode(message)
    except UnicodeEncodeError:
        # Half a character has no bytes.
        return message


def _message(kept: bytes | SessionMessage) -> SessionMessage:
    return _MESSAGE.decode(kept) if isinstance(kept, bytes) else kept
