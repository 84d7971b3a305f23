"""Bodies as coding agents send them: a system prompt, tools with schemas, a history, pictures.

One turn is a cycle of five requests: a new message of the user, then four that each bring one more
result of a tool. All is drawn from a seed, so that every run sends the same bytes.

`########` stands for the number of the cycle, and makes what is new in a turn new in each cycle;
`@@@@@@@@` stands for the number of the connection, so that no two conversations share a message.
"""

from __future__ import annotations

import base64
import json
import random
from typing import Any, Final, NamedTuple

CALLS: Final = 4
"""How many results of tools follow the message of a turn."""
TOOL_TOKENS: Final = 30_011
"""A request that may be answered with so many tokens gets the call of a tool (fake_upstream.c)."""
_SEED: Final = 20_240_817
_WORDS: Final = (
    "the", "request", "reads", "its", "file", "before", "each", "change", "and", "tells", "which",
    "test", "would", "fail", "without", "it", "so", "that", "later", "turn", "can", "go", "on",
    "from", "there", "keep", "answer", "short", "name", "every", "path", "you", "touched", "never",
    "guess", "at", "an", "interface", "looked", "up", "in", "tree", "use", "plain", "words",
)  # fmt: skip
_NAMES: Final = (
    "read_file", "write_file", "edit_file", "list_folder", "search_text", "run_command",
    "run_tests", "show_diff", "commit", "fetch_page", "make_plan", "update_plan", "ask_user",
    "start_task",
    "stop_task", "read_log", "rename_symbol", "find_references", "format_code", "check_types",
)  # fmt: skip


class Shape(NamedTuple):
    """How large a conversation is."""

    size: int
    tools: int
    pictures: int = 0


SHAPES: Final = {
    "20k": Shape(20_000, 8),
    "150k": Shape(150_000, 34),
    "1m": Shape(1_000_000, 48, pictures=2),
}


def bodies(shape: Shape, model: str, *, is_stream: bool) -> list[bytes]:
    """Return the bodies of one turn's requests, in their order."""
    draw = random.Random(_SEED)
    tools = [_tool(draw, number) for number in range(shape.tools)]
    system = {
        "role": "system",
        "content": "You are a coding agent. " + _prose(draw, shape.tools * 60),
    }
    turn = _turn(draw)
    fixed = len(json.dumps([tools, system, turn]))
    history = _history(draw, shape.size - fixed, shape.pictures)
    found = []
    for count in range(CALLS + 1):
        asked: dict[str, Any] = {
            "model": model,
            "messages": [system, *history, *turn[: 1 + 2 * count]],
            "tools": tools,
            "tool_choice": "auto",
            "max_completion_tokens": TOOL_TOKENS if count < CALLS else 8192,
        }
        if is_stream:
            asked |= {"stream": True, "stream_options": {"include_usage": True}}
        found.append(json.dumps(asked, separators=(",", ":"), ensure_ascii=False).encode())
    return found


def _prose(draw: random.Random, count: int) -> str:
    return " ".join(draw.choices(_WORDS, k=count))


def _code(draw: random.Random, lines: int) -> str:
    found = []
    for number in range(lines):
        name, other = draw.choice(_NAMES), draw.choice(_WORDS)
        found.append(
            f"    {other}_{number} = self.{name}({draw.randrange(999)}, key={other!r})"
            if number % 7
            else f"\ndef {name}_{draw.randrange(9999)}(self, {other}: str) -> int:"
        )
    return "\n".join(found)


def _tool(draw: random.Random, number: int) -> dict[str, Any]:
    fields = {
        f"{draw.choice(_WORDS)}_{at}": {
            "type": draw.choice(["string", "integer", "boolean"]),
            "description": _prose(draw, 14),
        }
        for at in range(draw.randrange(3, 8))
    }
    name = f"{_NAMES[number % len(_NAMES)]}_{number}"
    parameters = {"type": "object", "properties": fields, "required": [*fields][:2]}
    about = {"name": name, "description": _prose(draw, 60), "parameters": parameters}
    return {"type": "function", "function": about}


def _call(draw: random.Random, mark: str, result: str) -> list[dict[str, Any]]:
    """Return the call of a tool, and its result."""
    call_id = f"call_{mark}_{draw.randrange(10**9)}"
    asked = json.dumps({"path": f"src/{draw.choice(_WORDS)}/{mark}.py", "limit": 200})
    function = {"name": f"{_NAMES[0]}_0", "arguments": asked}
    call = {"id": call_id, "type": "function", "function": function}
    return [
        {"role": "assistant", "content": _prose(draw, 20), "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": f"# {mark}\n{result}"},
    ]


def _turn(draw: random.Random) -> list[dict[str, Any]]:
    """Return the messages of the turn that is under way."""
    found: list[dict[str, Any]] = [
        {"role": "user", "content": f"Now look at request ########. {_prose(draw, 40)}"}
    ]
    for _ in range(CALLS):
        found += _call(draw, "########", _code(draw, 30))
    return found


def _history(draw: random.Random, size: int, pictures: int) -> list[dict[str, Any]]:
    """Return what was said and done before, up to a size."""
    found: list[dict[str, Any]] = []
    for _ in range(pictures):
        drawn = base64.b64encode(draw.randbytes(150_000)).decode()
        found += [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "@@@@@@@@ " + _prose(draw, 30)},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{drawn}"}},
                ],
            },
            {"role": "assistant", "content": "@@@@@@@@ " + _prose(draw, 60)},
        ]
    left = size - len(json.dumps(found))
    while left > 0:
        more: list[dict[str, Any]] = [{"role": "user", "content": "@@@@@@@@ " + _prose(draw, 40)}]
        for _ in range(3):
            more += _call(draw, "@@@@@@@@", _code(draw, 50 + draw.randrange(60)))
        more.append({"role": "assistant", "content": "@@@@@@@@ " + _prose(draw, 120)})
        for each in more:
            found.append(each)
            left -= len(json.dumps(each))
            if left <= 0 and each["role"] != "assistant":
                break
    # A history ends with the words of the assistant: the next message is the user's.
    while found and (found[-1]["role"] != "assistant" or "tool_calls" in found[-1]):
        found.pop()
    return found
