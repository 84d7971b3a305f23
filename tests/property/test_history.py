"""A history that grows turn by turn says what the whole of it would say, and costs what is new."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from pointsman.kernel.instant import Instant
from pointsman.providers.capabilities import estimate_input_tokens
from pointsman.providers.messages import (
    Block,
    ChatMessage,
    Image,
    ModelRequest,
    Role,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    WrittenMessages,
)
from pointsman.providers.port import Dialect
from pointsman.providers.registry.dialects import speaker
from pointsman.sessions.history import MOST_WRITTEN, History, TouchTracker, TranscriptStyle
from pointsman.sessions.message import MessageUsage, Metadata, SessionMessage, Status
from pointsman.sessions.rollup import rollup
from pointsman.sessions.transcript import estimated_tokens, transcript
from pointsman.signals.tokens import count_tokens

DIALECTS: tuple[Dialect, ...] = ("chat", "responses", "messages")
MANNERS = tuple(TranscriptStyle(sees, shows) for sees in (True, False) for shows in (True, False))
PICTURE = Image("base64", "aGk=", "image/png")
USAGE = MessageUsage(3, 5, 0, 0, "0.001", "p", 7)

words = st.text("ab \n.é{", max_size=20)


@st.composite
def turns(draw: st.DrawFn) -> list[tuple[SessionMessage, ...]]:
    """Turns as sessions have them: tool steps, answers cut off, results last after a cancel."""
    return [_turn(draw, number) for number in range(draw(st.integers(1, 5)))]


def _turn(draw: st.DrawFn, number: int) -> tuple[SessionMessage, ...]:
    asked: list[Block] = [Text(draw(words) or "x")]
    if draw(st.booleans()):
        asked.append(PICTURE)
    found = [_said(number, 0, "user", asked)]
    for step in range(draw(st.integers(0, 2))):
        uses = [_use(draw, f"tu_{number}_{step}_{each}") for each in range(draw(st.integers(1, 2)))]
        found.append(_said(number, len(found), "assistant", [Text(draw(words)), *uses]))
        for use in uses:
            content = (Text(draw(words)), PICTURE)[: draw(st.integers(0, 2))]
            result = ToolResult(use.id, content, draw(st.booleans()))
            found.append(_said(number, len(found), "tool", [result]))
    end = draw(st.sampled_from(("complete", "cancelled", "none")))
    if end != "none":
        status: Status = "complete" if end == "complete" else "cancelled"
        answer = [Thinking(draw(words)), Text(draw(words) or "y")]
        found.append(_said(number, len(found), "assistant", answer, status))
    return tuple(found)


def _use(draw: st.DrawFn, name: str) -> ToolUse:
    path = draw(st.sampled_from(("a.py", "b/c.rs", "word")))
    return ToolUse(name, "read", Raw(msgspec.json.encode({"path": path})))


def _said(
    turn: int, number: int, role: Role, content: list[Block], status: Status = "complete"
) -> SessionMessage:
    metadata = Metadata(status)
    if role == "assistant":
        metadata = Metadata(status, f"m:{turn % 2}", "m", None, USAGE)
    names = (f"{turn}-{number}", "s", f"t{turn}")
    return SessionMessage(*names, role, tuple(content), metadata, Instant(number))


def grown(told: Sequence[tuple[SessionMessage, ...]]) -> History:
    """A history that every form is asked of from the start."""
    history = History()
    for each in told:
        for manner in MANNERS:
            history.transcript_for(manner).tokens("o200k_base")
        history.extend(each)
    return history


def request_of(history: History, manner: TranscriptStyle) -> ModelRequest:
    past = history.transcript_for(manner)
    new = (*past.open, ChatMessage("user", (Text("and now?"),)))
    return ModelRequest(new, (Text("be brief"),), earlier=past)


def whole_of(told: Sequence[tuple[SessionMessage, ...]], manner: TranscriptStyle) -> ModelRequest:
    said = transcript(
        [message for each in told for message in each],
        sees_images=manner.sees_images,
        shows_ids=manner.shows_ids,
    )
    return ModelRequest((*said, ChatMessage("user", (Text("and now?"),))), (Text("be brief"),))


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(deadline=None, max_examples=60)
@given(turns())
def test_a_session_that_grew_is_sent_as_one_that_is_written_at_once(
    dialect: Dialect, told: list[tuple[SessionMessage, ...]]
) -> None:
    history = History()
    for manner in MANNERS[:MOST_WRITTEN]:
        speaker(dialect).write_request(request_of(history, manner), "m")
    for each in told:
        history.extend(each)
    for manner in MANNERS:
        grew = speaker(dialect).write_request(request_of(history, manner), "m")
        at_once = speaker(dialect).write_request(whole_of(told, manner), "m")
        assert grew.body == at_once.body
        assert set(grew.lost) == set(at_once.lost)


@settings(deadline=None, max_examples=60)
@given(turns())
def test_what_a_growing_history_adds_up_is_what_all_its_messages_add_up_to(
    told: list[tuple[SessionMessage, ...]],
) -> None:
    history, messages = grown(told), [message for each in told for message in each]
    assert tuple(history) == tuple(messages)
    assert history.touched_files == TouchTracker(messages).files
    assert history.shares == rollup("s", messages, ()).planner
    for manner in MANNERS:
        past = history.transcript_for(manner)
        assert past.tokens("o200k_base") == History(messages).transcript_for(manner).tokens(
            "o200k_base"
        )


@settings(deadline=None, max_examples=60)
@given(turns())
def test_counting_message_by_message_is_counting_all_at_once_but_for_the_seams(
    told: list[tuple[SessionMessage, ...]],
) -> None:
    request, whole = request_of(grown(told), TranscriptStyle()), whole_of(told, TranscriptStyle())
    at_once = estimate_input_tokens(whole, count_tokens)
    assert abs(estimated_tokens(request) - at_once) <= 2 * len(whole.messages)


def test_a_turn_writes_only_its_own_messages() -> None:
    history, written = History(), []

    def write(messages: Sequence[ChatMessage]) -> WrittenMessages:
        written.append(len(messages))
        return WrittenMessages(b",".join([b"0"] * len(messages)))

    for number in range(50):
        history.extend(
            [_said(number, 0, "user", [Text("q")]), _said(number, 1, "assistant", [Text("a")])]
        )
        assert history.transcript_for(TranscriptStyle()).in_dialect(
            "chat", write
        ).items == b",".join([b"0"] * 2 * (number + 1))
    assert written == [2] * 50


def test_only_the_latest_forms_of_a_session_are_kept_written() -> None:
    history = History([_said(0, 0, "user", [Text("q")])])
    asked: list[str] = []

    def writing(name: str, manner: TranscriptStyle) -> None:
        def write(messages: Sequence[ChatMessage]) -> WrittenMessages:
            asked.append(name)
            return WrittenMessages(b"0" * len(messages))

        history.transcript_for(manner).in_dialect(name, write)

    for name in ("chat", "responses", "chat", "messages", "chat", "responses"):
        writing(name, TranscriptStyle())
    assert asked == ["chat", "responses", "messages", "responses"]


def test_half_a_character_is_kept_as_it_came() -> None:
    message = _said(0, 0, "user", [Text("\ud83d")])
    assert tuple(History([message])) == (message,)
