"""Messages: what each role may hold, what is sent of them, and what is kept."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw
from tests.unit.sessions.play import PICTURE

from pointsman.conversations.stored_messages import NO_IMAGE, message_row, read_message
from pointsman.kernel.instant import Instant
from pointsman.providers.messages import (
    Block,
    ChatMessage,
    RedactedThinking,
    Role,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
)
from pointsman.sessions.history import TouchTracker
from pointsman.sessions.message import (
    InvalidMessage,
    MessageUsage,
    Metadata,
    RoutingRecord,
    SessionMessage,
    Status,
    check_message,
    unanswered_calls,
)
from pointsman.sessions.transcript import NOT_SEEN, transcript

USE = ToolUse("tu_1", "read_file", Raw(b'{"path":"src/a.py","more":[{"x":"docs/b.MD"}]}'))
RESULT = ToolResult("tu_1", (Text("src/c.rs\nnot a path.\nfoo(bar.baz)"),))
KNOWN = Metadata(
    "complete",
    "p:m",
    "p",
    RoutingRecord("default", "p:m", "because", "d"),
    MessageUsage(1, 2, 0, 0, "0.5", "v1", 9),
)


def a_message(
    role: Role, *content: Block, metadata: Metadata | None = None, number: int = 0
) -> SessionMessage:
    known = KNOWN if role == "assistant" else Metadata()
    return SessionMessage(f"m{number}", "s", "t", role, content, metadata or known, Instant(number))


def cut(status: Status) -> Metadata:
    return Metadata(status, "p:m", "p")


@pytest.mark.parametrize(
    ("role", "content"),
    [
        ("user", (Text("hi"), PICTURE)),
        ("assistant", (Text("hi"), USE, Thinking("hm"), RedactedThinking("x"))),
        ("system", (Text("be good"),)),
        ("system", ()),
    ],
)
def test_each_role_holds_its_own_blocks(role: Role, content: tuple[Block, ...]) -> None:
    check_message(a_message(role, *content))


@pytest.mark.parametrize(
    ("role", "content"),
    [
        ("user", (USE,)),
        ("user", (Thinking("hm"),)),
        ("user", ()),
        ("assistant", (PICTURE,)),
        ("assistant", (RESULT,)),
        ("assistant", ()),
        ("system", (PICTURE,)),
        ("tool", (Text("hi"),)),
    ],
)
def test_no_role_holds_anothers(role: Role, content: tuple[Block, ...]) -> None:
    with pytest.raises(InvalidMessage):
        check_message(a_message(role, *content))


def test_an_answer_must_say_who_gave_it_and_what_it_cost() -> None:
    with pytest.raises(InvalidMessage, match="routing and usage"):
        check_message(a_message("assistant", Text("hi"), metadata=Metadata()))


@pytest.mark.parametrize("status", ["partial", "cancelled", "error"])
def test_what_is_not_complete_may_be_empty(status: Status) -> None:
    check_message(a_message("assistant", metadata=cut(status)))


def test_a_call_is_answered_at_most_once_and_only_if_it_was_made() -> None:
    asked, answered = a_message("assistant", USE), a_message("tool", RESULT)
    check_message(answered, [asked])
    with pytest.raises(InvalidMessage, match="answered already"):
        check_message(answered, [asked, answered])
    with pytest.raises(InvalidMessage, match="nobody called"):
        check_message(answered, [])
    with pytest.raises(InvalidMessage, match="exactly one"):
        check_message(a_message("tool", RESULT, RESULT), [asked])
    assert unanswered_calls([asked]) == (USE,)
    assert unanswered_calls([asked, answered]) == ()


def test_the_cost_of_a_message_is_exact() -> None:
    assert KNOWN.usage is not None
    assert KNOWN.usage.cost_microusd == 500_000


def test_calls_without_results_and_results_without_calls_are_not_sent() -> None:
    orphan = ToolResult("tu_9", (Text("x"),))
    sent = transcript(
        [
            a_message("user", Text("hi")),
            a_message("tool", orphan),
            a_message("assistant", Text("let me see"), USE),
        ]
    )
    assert sent == (
        ChatMessage("user", (Text("hi"),)),
        ChatMessage("assistant", (Text("let me see"),)),
    )


def test_of_a_cut_answer_only_its_words_are_sent() -> None:
    said = a_message("assistant", Thinking("hm"), Text("half"), USE, metadata=cut("cancelled"))
    assert transcript([said]) == (ChatMessage("assistant", (Text("half"),)),)
    assert transcript([a_message("assistant", Text(""), metadata=cut("error"))]) == ()


def test_images_inside_results_are_told_of_too() -> None:
    seen = ToolResult("tu_1", (PICTURE,))
    messages = [a_message("assistant", USE), a_message("tool", seen)]
    (_, result) = transcript(messages, sees_images=False)
    assert result.content == (ToolResult("tu_1", (NOT_SEEN,)),)


def test_an_empty_result_says_so() -> None:
    messages = [a_message("assistant", USE), a_message("tool", ToolResult("tu_1", ()))]
    (_, result) = transcript(messages)
    assert result.content == (ToolResult("tu_1", (Text("the tool gave no result"),)),)


def test_a_planner_is_told_how_to_point_at_what_was_said() -> None:
    messages = [
        a_message("user", Text("hi"), number=7),
        a_message("assistant", USE),
        a_message("tool", RESULT),
    ]
    sent = msgspec.json.encode(transcript(messages, shows_ids=True)).decode()
    assert "[message_id: m7]" in sent
    assert "[tool_use_id: tu_1]" in sent
    assert "_id: " not in msgspec.json.encode(transcript(messages)).decode()


@pytest.mark.req(169, 171)
def test_what_tools_touched_is_seen_and_what_was_said_is_not() -> None:
    messages = [
        a_message("user", Text("see secret.txt")),
        a_message("assistant", Text("and other.txt"), USE),
        a_message("tool", RESULT),
    ]
    found = TouchTracker(messages).files
    assert found.paths == ("src/a.py", "docs/b.MD", "src/c.rs")
    assert found.extensions == (".py", ".md", ".rs")
    assert found.tool_names == ("read_file",)
    assert TouchTracker(messages[:1]).files.has_tool_calls is False


def shouted(text: str) -> str:
    return text.replace("secret", "[x]")


@pytest.mark.parametrize("retain", ["full", "redacted", "digest"])
def test_messages_are_kept_as_words_are_retained(retain: Any) -> None:
    message = a_message(
        "assistant",
        Text("a secret"),
        Thinking("secret", "signed", "anthropic"),
        ToolUse("tu_1", "look", Raw(b'{"secret":["secret",1]}')),
        RedactedThinking("secret"),
    )
    row = message_row(message, retain, shouted)
    again = read_message(row)
    assert (b"secret" in row.content) is (retain == "full")
    assert again.metadata == message.metadata
    if retain == "full":
        assert again == message
    elif retain == "redacted":
        assert again.content[0] == Text("a [x]")
        assert again.content[1] == Thinking("[x]")
        assert again.tool_uses[0].id == "tu_1"


def test_a_redacted_image_is_gone() -> None:
    result = ToolResult("tu_1", (PICTURE, Text("secret")))
    for message in (a_message("user", PICTURE), a_message("tool", result)):
        row = message_row(message, "redacted", shouted)
        assert PICTURE.data.encode() not in row.content
    assert read_message(message_row(a_message("user", PICTURE), "redacted", str)).content == (
        NO_IMAGE,
    )
