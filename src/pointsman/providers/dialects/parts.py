"""A long request in parts: the system prompt, the tools, each message, and the rest of the body.

An agent sends its whole history with every request. What routing needs to know of a part is a pure
function of its bytes and is remembered by their digest; only parts not seen lately are decoded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, get_args, overload

import msgspec
from msgspec import Raw, Struct

from pointsman.providers.dialects import conversation
from pointsman.providers.dialects.body import decode
from pointsman.providers.dialects.conversation import ConversationEntry
from pointsman.providers.port import Dialect
from pointsman.signals.fact_memo import FactMemo

if TYPE_CHECKING:
    from pointsman.signals.sensitivity import FindingsMemo

LONG_BODY: Final = 8 * 1024
"""From so many bytes on a body is read in parts: for shorter ones a digest of each part costs more
than reading them again."""

STEP: Final = 16 * 1024
"""How many characters are counted at once: about a millisecond, so that other requests may go
between. INVARIANT: a longer text is always counted in such pieces, remembered or not."""

NO_WORDS: Final = (b"null", b'""', b"[]")
_FACTS_SIZE: Final = 420
"""About the size of a part's facts with their digest and their place in a memo."""

_LIST = msgspec.json.Decoder(list[Raw])
_ENTRY = msgspec.json.Decoder(ConversationEntry)
Kind = Literal["system", "tools", "entry", "rest"]
_NAMES: Final = {
    (kind, dialect): f"{kind} {dialect}".encode()
    for kind in get_args(Kind)
    for dialect in get_args(Dialect)
}
"""The same bytes say one thing as a message and another as tools."""


class PartFacts(Struct):
    """The facts about a part."""

    role: str = ""
    type: str = ""
    calls_tool: bool = False
    brings_tool_result: bool = False
    is_blank: bool = False
    """Whether its content holds nothing."""
    tool_names: tuple[str, ...] = ()
    tokens: int = -1
    """The tokens of its words; -1 until they are counted."""

    @property
    def size(self) -> int:
        """About its size in memory."""
        names = sum(60 + len(each) for each in self.tool_names)
        return _FACTS_SIZE + len(self.role) + len(self.type) + names


class Memos(Struct, frozen=True):
    """What one process remembers of the parts of requests."""

    parts: FactMemo[PartFacts] = msgspec.field(default_factory=FactMemo)
    findings: FindingsMemo = msgspec.field(default_factory=FactMemo)


class RequestPart:
    """One part: its bytes, and the facts about them."""

    __slots__ = ("digest", "facts", "kind", "raw")

    def __init__(self, kind: Kind, dialect: Dialect, raw: Raw, memos: Memos) -> None:
        self.kind = kind
        self.raw = raw
        self.digest = hashlib.sha256(raw).digest()
        name = self.digest + _NAMES[kind, dialect]
        facts = memos.parts.find(name)
        if facts is None:
            facts = _read_facts(kind, dialect, raw)
            memos.parts.keep(name, facts)
        self.facts = facts

    def words(self) -> str:
        """Return the words of the part, as they are counted."""
        if self.kind == "rest":
            return ""
        if self.kind != "entry":
            return "\n".join(conversation.words(self.raw))
        entry = self.entry()
        plain = conversation.plain_words(entry)
        return "\n".join(conversation.entry_words(entry)) if plain is None else plain

    def entry(self) -> ConversationEntry:
        """Decode the part as a message."""
        return decode(_ENTRY, self.raw)

    def text(self) -> str:
        """Return every text and every name of the part."""
        return "\n".join(conversation.all_texts(self.raw))


class PartEntries(Sequence[ConversationEntry]):
    """The messages of a long request; each is decoded when it is asked for."""

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[RequestPart]) -> None:
        self.parts = parts

    def __len__(self) -> int:
        return len(self.parts)

    @overload
    def __getitem__(self, at: int) -> ConversationEntry: ...
    @overload
    def __getitem__(self, at: slice) -> list[ConversationEntry]: ...
    def __getitem__(self, at: int | slice) -> ConversationEntry | list[ConversationEntry]:
        if isinstance(at, slice):
            return [each.entry() for each in self.parts[at]]
        return self.parts[at].entry()

    def __iter__(self) -> Iterator[ConversationEntry]:
        return (each.entry() for each in self.parts)


class RequestParts:
    """All parts of a long request."""

    __slots__ = ("entries", "rest", "system", "tools")

    def __init__(
        self, dialect: Dialect, members: Mapping[str, Raw], listed: Raw, memos: Memos
    ) -> None:
        """Cut a request up; `listed` is its messages. Raises what msgspec raises."""

        def part(kind: Kind, raw: Raw) -> RequestPart:
            return RequestPart(kind, dialect, raw, memos)

        self.entries = [part("entry", each) for each in _LIST.decode(listed)]
        named = {"messages": "system", "responses": "instructions"}.get(dialect, "")
        self.system = part("system", members[named]) if named in members else None
        self.tools = part("tools", members["tools"]) if "tools" in members else None
        taken = (conversation.CONVERSATION_KEY[dialect], named, "tools")
        left = {key: raw for key, raw in members.items() if key not in taken}
        self.rest = part("rest", Raw(msgspec.json.encode(left)))

    def __iter__(self) -> Iterator[RequestPart]:
        for each in (self.system, self.tools):
            if each is not None:
                yield each
        yield from self.entries
        yield self.rest

    @property
    def tool_names(self) -> Sequence[str]:
        """The names of the tools offered."""
        return () if self.tools is None else self.tools.facts.tool_names

    @property
    def uncounted_bytes(self) -> int:
        """The size of the parts whose tokens are to be counted still."""
        return sum(len(memoryview(each.raw)) for each in self if each.facts.tokens < 0)

    def token_steps(self, count: Callable[[str], int]) -> Generator[None, None, int]:
        """Count the tokens, part by part; pauses after each piece that was counted."""
        total = 0
        for part in self:
            facts = part.facts
            if facts.tokens < 0:
                words, found = part.words(), 0
                for at in range(0, len(words), STEP):
                    found += count(words[at : at + STEP])
                    yield
                facts.tokens = found
            total += facts.tokens
        return total


def _read_facts(kind: Kind, dialect: Dialect, raw: Raw) -> PartFacts:
    if kind == "tools":
        names = conversation.tool_names(_TOOLS.decode(raw) or [])
        return PartFacts(tool_names=tuple(names))
    if kind != "entry":
        return PartFacts(is_blank=bytes(raw) in NO_WORDS)
    entry = _ENTRY.decode(raw)
    return PartFacts(
        entry.role,
        entry.type,
        conversation.calls_tool(dialect, entry),
        conversation.brings_tool_result(dialect, entry),
        bytes(entry.content) in NO_WORDS,
    )


_TOOLS = msgspec.json.Decoder(list[Raw] | None)
