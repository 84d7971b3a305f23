"""Everything said in a session, however long it is: a turn costs only what it adds.

Messages stand as bytes; what is asked of all of them (their form on the wire, their tokens, the
files they touched, their cost) is kept up as they come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, overload

import msgspec
from msgspec import Struct

from pointsman.providers.capabilities import estimate_message_tokens
from pointsman.providers.messages import ChatMessage, WrittenMessages
from pointsman.sessions.message import SessionMessage
from pointsman.sessions.rollup import ModelShare, Shares
from pointsman.sessions.touched_files import TouchedFiles, TouchTracker
from pointsman.sessions.transcript import transcript
from pointsman.signals.tokens import count_tokens

MOST_WRITTEN: Final = 2
"""For how many models that are written to differently the whole session stands written."""

_MESSAGE = msgspec.json.Decoder(SessionMessage)
Write = Callable[[Sequence[ChatMessage]], WrittenMessages]


class TranscriptStyle(Struct, frozen=True):
    """How a session is told to a model."""

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
        """Give messages by their place."""
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
        """Take the messages of whole turns: what a call and its result are is final then."""
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
    def touched(self) -> TouchedFiles:
        """What its tools touched."""
        return self._tracker.files

    @property
    def shares(self) -> tuple[ModelShare, ...]:
        """What its models cost."""
        return self._shares.by_model()

    @property
    def last_asked(self) -> str:
        """What the user said last."""
        return self._last_asked

    def transcript_for(self, style: TranscriptStyle) -> ModelTranscript:
        """Give the session as a model is told it; it holds until the history is extended."""
        found = self._transcripts.get(style)
        if found is None:
            found = self._transcripts[style] = ModelTranscript(self, style, self._dialects)
            found.extend(tuple(self))
        return found


class ModelTranscript:
    """A session as one kind of model is told it."""

    def __init__(self, history: History, style: TranscriptStyle, wires: DialectCache) -> None:
        self._history = history
        self._style = style
        self._dialects = wires
        self._count = 0
        self._tokens: dict[str, int] = {}
        self.open: tuple[ChatMessage, ...] = ()
        """The last of them where what follows may still change how they are written."""

    def extend(self, added: Sequence[SessionMessage]) -> None:
        """Take messages that were added to the history."""
        told = (*self.open, *self.to_messages(added))
        border = _border(told)
        final, self.open = told[:border], told[border:]
        self._count += border
        for name in self._tokens:
            self._tokens[name] += _tokens(final, name)
        self._dialects.extend(self._style, final)

    def to_messages(self, messages: Sequence[SessionMessage]) -> tuple[ChatMessage, ...]:
        """Give further messages in the same manner."""
        style = self._style
        return transcript(messages, sees_images=style.sees_images, shows_ids=style.shows_ids)

    def messages(self) -> tuple[ChatMessage, ...]:
        """Give those that change no more."""
        return self.to_messages(tuple(self._history))[: self._count]

    def tokens(self, tokenizer: str) -> int:
        """Estimate the tokens of those that change no more."""
        if tokenizer not in self._tokens:
            self._tokens[tokenizer] = _tokens(self.messages(), tokenizer)
        return self._tokens[tokenizer]

    def written(self, dialect: str, write: Write) -> WrittenMessages:
        """Give those that change no more as a dialect writes them."""
        wire = self._dialects.of(self._style, dialect)
        if wire is None:
            wire = self._dialects.begin(self._style, dialect, write)
            wire.extend(self.messages())
        return wire.passage


class DialectBytes:
    """A session in the bytes of one dialect, written on as it grows."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._items = bytearray()
        self._lost_features: dict[str, None] = {}

    def extend(self, messages: Sequence[ChatMessage]) -> None:
        """Write more."""
        found = self._write(messages)
        if found.items:
            self._items += b"," + found.items if self._items else found.items
        self._lost_features |= dict.fromkeys(found.lost)

    @property
    def passage(self) -> WrittenMessages:
        """All of it."""
        return WrittenMessages(bytes(self._items), tuple(self._lost_features))


class DialectCache:
    """The forms a session stands written in; what was not asked for longest is let go of."""

    def __init__(self) -> None:
        self._found: dict[tuple[TranscriptStyle, str], DialectBytes] = {}

    def of(self, style: TranscriptStyle, dialect: str) -> DialectBytes | None:
        """Give a form, if it is kept."""
        key = (style, dialect)
        if key in self._found:
            self._found[key] = self._found.pop(key)
        return self._found.get(key)

    def begin(self, style: TranscriptStyle, dialect: str, write: Write) -> DialectBytes:
        """Begin a form."""
        self._found[style, dialect] = wire = DialectBytes(write)
        while len(self._found) > MOST_WRITTEN:
            del self._found[next(iter(self._found))]
        return wire

    def extend(self, style: TranscriptStyle, messages: Sequence[ChatMessage]) -> None:
        """Write on, in every form of a manner."""
        for (known, _), wire in self._found.items():
            if known == style and messages:
                wire.extend(messages)


def _border(messages: Sequence[ChatMessage]) -> int:
    """Tell how many change no more: dialects join results to what follows, and move the system."""
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
