"""Random requests in three wire formats: nothing to be masked is left, and all of it comes back."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from pointsman.providers.dialects.masked_body import Restoring, mask_body
from pointsman.signals.detectors import detect
from pointsman.signals.masking import Placeholders

VALUES = (
    "ann.lee@example.com", "DE89 3704 0044 0532 0130 00", "+49 30 1234567", "4111 1111 1111 1111",
    "AKIAIOSFODNN7EXAMPLQ",
)  # fmt: skip
WORDS = (
    "hello",
    "pay",
    "to:",
    "na\u00efve",
    "{",
    "}",
    '"',
    "\\",
    "\n",
    "email",
    "x" * 30,
    "EMAIL_",
)
REQUESTS = 400


def drawn_text(draw: random.Random) -> str:
    words = [
        draw.choice(VALUES if draw.random() < 0.3 else WORDS) for _ in range(draw.randrange(9))
    ]
    return " ".join(words)


def drawn_arguments(draw: random.Random) -> dict[str, Any]:
    inner = {"note": drawn_text(draw), "list": [drawn_text(draw), 1, None, True]}
    # Now and then a value stands in a name, which cannot be masked.
    name = draw.choice(VALUES) if draw.random() < 0.05 else "to"
    return {name: drawn_text(draw), "inner": inner}


def drawn_chat(draw: random.Random) -> dict[str, Any]:
    called = {"name": "send", "arguments": json.dumps(drawn_arguments(draw))}
    call = {"id": "c1", "type": "function", "function": called}
    turns = [
        {"role": "system", "content": drawn_text(draw)},
        {"role": "user", "content": [{"type": "text", "text": drawn_text(draw)}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": drawn_text(draw)},
    ]
    tool = {"name": "send", "description": drawn_text(draw), "parameters": {"type": "object"}}
    return {"messages": turns, "tools": [{"type": "function", "function": tool}], "n": 1}


def drawn_messages(draw: random.Random) -> dict[str, Any]:
    use = {"type": "tool_use", "id": "t1", "name": "send", "input": drawn_arguments(draw)}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": drawn_text(draw)}
    turns = [
        {"role": "user", "content": drawn_text(draw)},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result, {"type": "text", "text": drawn_text(draw)}]},
    ]
    system = [{"type": "text", "text": drawn_text(draw)}]
    return {"system": system, "messages": turns, "metadata": {"user_id": drawn_text(draw)}}


def drawn_responses(draw: random.Random) -> dict[str, Any]:
    arguments = json.dumps(drawn_arguments(draw))
    call = {"type": "function_call", "call_id": "c1", "name": "send", "arguments": arguments}
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": drawn_text(draw)}]},
        call,
        {"type": "function_call_output", "call_id": "c1", "output": drawn_text(draw)},
    ]
    return {"instructions": drawn_text(draw), "input": items, "temperature": 0.5}


def plain(value: Any) -> Any:
    """Give a body with its texts of JSON read, so that their spaces do not count."""
    if isinstance(value, dict):
        return {
            key: json.loads(each) if key == "arguments" else plain(each)
            for key, each in value.items()
        }
    return [plain(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("make", [drawn_chat, drawn_messages, drawn_responses])
def test_nothing_is_left_and_everything_comes_back(make: Any) -> None:
    left = 0
    for seed in range(REQUESTS):
        body = make(random.Random(seed))
        placeholders = Placeholders(b"key", "s", lambda kind: kind != "pii.postal_address")
        found = mask_body(json.dumps(body).encode(), placeholders)
        if found.obstacle:
            continue
        left += 1
        sent = json.loads(found.body)
        written = json.dumps(sent, ensure_ascii=False)
        values = [each for each in VALUES if detect(each)]
        assert not [each for each in values if each in written], seed
        assert plain(Restoring(placeholders).value(sent)) == plain(body), seed
    assert left > REQUESTS // 2
