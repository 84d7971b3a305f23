"""A home with scripted providers for conversations: real wire formats, no real provider."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw
from tests.gateway.house import PATIENT, provider, write_home

from pointsman.app import Pointsman
from pointsman.conversations.conversations import (
    Conversation,
    Conversations,
    open_conversations,
)
from pointsman.conversations.services import OpenHome
from pointsman.providers.messages import Image, Text, ToolUse
from pointsman.sessions.tool import (
    ConfirmationRequest,
    ToolContext,
    ToolDefinition,
    ToolOutcome,
)
from pointsman.sessions.update import EventUpdate, TurnOver, Update
from pointsman.testing import ScriptedUpstream, calls

ROOT = Path(__file__).parents[2]
PICTURE = Image("base64", "aGk=", "image/png")
HAIKU = "anthropic:claude-haiku-4-5"
SONNET = "anthropic:claude-sonnet-4-6"
OPUS = "anthropic:claude-opus-4-7"
MINI = "openai:gpt-5-mini"


def able(*, sees: bool = True) -> dict[str, Any]:
    return {
        "supports_images": sees,
        "supports_structured_output": True,
        "max_context_tokens": 200_000,
        "max_output_tokens": 4096,
    }


def a_model(tier: str, alias: str, price: str, **more: Any) -> dict[str, Any]:
    return {
        "location": "cloud",
        "tier": tier,
        "aliases": [alias],
        "capabilities": able(),
        "price": {"input": price, "output": price, "cached_input": price, "cache_write": price},
        **more,
    }


def models(anthropic: str, openai: str) -> dict[str, Any]:
    """The models of the document's examples; those of the fast tier have no eyes."""
    return {
        "schema_version": 1,
        "providers": {
            "anthropic": provider("anthropic", anthropic, allow_private=True),
            "openai": provider("openai", openai, allow_private=True),
        },
        "models": {
            HAIKU: a_model("fast", "haiku", "1", capabilities=able(sees=False)),
            SONNET: a_model("balanced", "sonnet", "3", can_delegate=True),
            OPUS: a_model("deep", "opus", "15", can_delegate=True),
            MINI: a_model("fast", "mini", "2"),
        },
    }


ROUTING: dict[str, Any] = {"schema_version": 1, "global_default": OPUS}


class Bench:
    """Tools that do what a test says; `hang`, which is no reader, waits until it is cancelled."""

    def __init__(self, outcomes: Mapping[str, ToolOutcome] | None = None) -> None:
        self.outcomes = dict(outcomes or {})
        self.asks: dict[str, ConfirmationRequest] = {}
        self.ran: list[tuple[str, str]] = []
        self.cancelled: list[str] = []
        self.running = asyncio.Event()
        self._stop = asyncio.Event()

    def definitions(self) -> tuple[ToolDefinition, ...]:
        schema = Raw(b'{"type": "object"}')
        names = ("read_file", "look", "hang", "memory_add", *self.outcomes)
        return tuple(
            ToolDefinition(
                name,
                f"does {name}",
                schema,
                "execute" if name == "hang" else "read",
                requires_workspace=False,
            )
            for name in dict.fromkeys(names)
        )

    def needs_confirmation(self, use: ToolUse, context: ToolContext) -> ConfirmationRequest | None:
        return self.asks.get(use.name)

    async def run(self, use: ToolUse, context: ToolContext) -> ToolOutcome:
        self.ran.append((context.session_id, use.name))
        if use.name == "hang":
            self.running.set()
            await self._stop.wait()
        return self.outcomes.get(use.name, ToolOutcome((Text(f"{use.name} did it"),)))

    async def cancel(self, tool_use_id: str) -> None:
        self.cancelled.append(tool_use_id)
        self._stop.set()


class Parlour:
    """An opened home with two scripted providers."""

    def __init__(
        self,
        pointsman: Pointsman,
        conversations: Conversations,
        anthropic: ScriptedUpstream,
        openai: ScriptedUpstream,
    ) -> None:
        self.pointsman = pointsman
        self.conversations = conversations
        self.anthropic = anthropic
        self.openai = openai

    def types(self, session_id: str) -> list[str]:
        return [each.type for each in self.conversations.events(session_id)]


@asynccontextmanager
async def a_parlour(
    home: Path, *replies: Any, openai: tuple[Any, ...] = (), **files: Any
) -> AsyncIterator[Parlour]:
    """Open a home; the replies are those of Anthropic's server."""
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(ScriptedUpstream(*replies))
        second = await stack.enter_async_context(ScriptedUpstream(*openai))
        written = {"models": models(first.base_url, second.base_url), "routing": ROUTING, **files}
        write_home(home, **written)
        pointsman = stack.enter_context(Pointsman(home))
        conversations = opened(pointsman)
        stack.push_async_callback(conversations.close)
        yield Parlour(pointsman, conversations, first, second)


def opened(pointsman: Pointsman) -> Conversations:
    """Open conversations whose retries do not wait."""
    parts = (pointsman.home, pointsman.files, pointsman.decision_recorder, pointsman.gathering)
    ground = OpenHome(
        *parts,
        pointsman.clock,
        pointsman.ids,
        pointsman.gather_placement,
        mask_request=pointsman.mask_request,
    )
    return open_conversations(ground, surroundings=PATIENT, health=pointsman.health)


def delegates(*given: dict[str, Any]) -> Any:
    """A planner that delegates, several at once."""
    return calls(*(("delegate", each) for each in given))


def task(words: str, tier: str = "fast", **more: Any) -> dict[str, Any]:
    """A delegation with nothing but its task."""
    return {"tier": tier, "task": words, "context": {"mode": "minimal"}, **more}


def replays(parlour: Parlour) -> None:
    """Every decision comes out again as it was."""
    report = parlour.pointsman.replay_all()
    assert (report.diverged, report.unable) == (0, 0)
    assert report.identical > 0


async def said(conversation: Conversation, text: str, *images: Any) -> list[Update]:
    """Send a message and give all that happened."""
    return [each async for each in conversation.send(text, images)]


def over(updates: list[Update]) -> TurnOver:
    last = updates[-1]
    assert isinstance(last, TurnOver)
    return last


def told(updates: list[Update]) -> list[str]:
    return [each.event.type for each in updates if isinstance(each, EventUpdate)]


def encoded(value: object) -> str:
    return msgspec.json.encode(value).decode()


async def killed(home: Path, text: str, after: str, session: str = "") -> str:
    """Let a process talk, kill it after an update, and give its session."""
    command = (sys.executable, "-m", "tests.acceptance.mortal_chat", str(home), text, session)
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    named = (await process.stdout.readline()).decode().strip()
    heard = ""
    while heard != after:
        heard = (await process.stdout.readline()).decode().strip()
        assert heard, "it ended by itself"
    process.send_signal(signal.SIGKILL)
    await process.wait()
    return named
