"""The messages of a session: who said what, under which decision, at which cost. Companion §2.1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from pointsman.errors import InputError
from pointsman.kernel.instant import Instant
from pointsman.kernel.number import MicroUsd, billionths_text, microusd, microusd_text
from pointsman.providers.messages import (
    Block,
    Image,
    RedactedThinking,
    Role,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
)
from pointsman.recording.ruling import Ruling

Status = Literal["complete", "partial", "cancelled", "error"]
Mode = Literal["override", "manual", "rule", "pattern", "delegate", "default"]

SCHEMA_VERSION = 1

_MODES: dict[str, Mode] = {
    "per_message_override": "override",
    "manual_sticky": "manual",
    "rule": "rule",
    "pattern": "pattern",
    "delegate_request": "delegate",
    "workspace_default": "default",
    "global_default": "default",
}
_ALLOWED: dict[Role, tuple[type[Block], ...]] = {
    "user": (Text, Image),
    "assistant": (Text, ToolUse, Thinking, RedactedThinking),
    "tool": (ToolResult,),
    "system": (Text,),
}


class RoutingRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """Why this model: the winner of the turn's chain in short; the decision has all of it."""

    mode: Mode
    chosen_model: str
    reason: str
    decision_id: str
    rule_name: str | None = None
    confidence: str | None = None
    alternatives_considered: tuple[str, ...] = ()


class MessageUsage(Struct, frozen=True, forbid_unknown_fields=True):
    """The usage and cost of a message; the three kinds of input are disjoint.

    `cost_usd` is an exact decimal text, None where no price is known.
    """

    input_tokens: int
    output_tokens: int
    cached_input_tokens: int
    cache_creation_input_tokens: int
    cost_usd: str | None
    pricing_version: str
    latency_ms: int

    @property
    def cost_microusd(self) -> MicroUsd:
        """The cost as it is added up; an unknown one counts for nothing."""
        return microusd(self.cost_usd) if self.cost_usd is not None else MicroUsd(0)


class Metadata(Struct, frozen=True, forbid_unknown_fields=True):
    """The metadata of a message."""

    status: Status = "complete"
    model: str | None = None
    provider: str | None = None
    routing: RoutingRecord | None = None
    usage: MessageUsage | None = None
    parent_tool_use_id: str | None = None


class SessionMessage(Struct, frozen=True, forbid_unknown_fields=True):
    """One message of a session."""

    id: str
    session_id: str
    turn_id: str
    role: Role
    content: tuple[Block, ...]
    metadata: Metadata
    created_at: Instant
    schema_version: int = SCHEMA_VERSION

    @property
    def text(self) -> str:
        """The words of it, without reasoning and tools."""
        return "".join(each.text for each in self.content if isinstance(each, Text))

    @property
    def tool_uses(self) -> tuple[ToolUse, ...]:
        """The calls it asks for."""
        return tuple(each for each in self.content if isinstance(each, ToolUse))

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """The results of calls that it holds."""
        return tuple(each for each in self.content if isinstance(each, ToolResult))


class InvalidMessage(InputError):
    """this message breaks the rules of its role"""

    code = "session.invalid_message"


def check_message(message: SessionMessage, earlier: Sequence[SessionMessage] = ()) -> None:
    """Raise unless a message keeps the rules of its role, after the ones before it.

    An incomplete message may lack required parts.
    """
    if message.metadata.status == "complete":
        _check_complete(message)
    for block in message.content:
        if not isinstance(block, _ALLOWED[message.role]):
            raise InvalidMessage(f"a message of role `{message.role}` holds no {_kind(block)}")
    if message.role == "tool":
        _check_answer(message, earlier)


def _check_complete(message: SessionMessage) -> None:
    role, metadata = message.role, message.metadata
    if not message.content and role != "system":
        raise InvalidMessage(f"a message of role `{role}` is empty")
    if role != "assistant":
        return
    known = (metadata.model, metadata.provider, metadata.routing, metadata.usage)
    if any(each is None for each in known):
        raise InvalidMessage("an answer must name its model, provider, routing and usage")


def _check_answer(message: SessionMessage, earlier: Iterable[SessionMessage]) -> None:
    """Raise unless a tool's message answers one call of its session, for the first time."""
    if len(message.content) != 1:
        raise InvalidMessage("a tool's message holds exactly one result")
    asked = {use.id for each in earlier for use in each.tool_uses}
    answered = {result.tool_use_id for each in earlier for result in each.tool_results}
    for result in message.tool_results:
        if result.tool_use_id not in asked:
            raise InvalidMessage(f"nobody called `{result.tool_use_id}`")
        if result.tool_use_id in answered:
            raise InvalidMessage(f"`{result.tool_use_id}` is answered already")


def _kind(block: Block) -> str:
    return type(block).__name__.lower()


def routing_record(ruling: Ruling, decision_id: str) -> RoutingRecord:
    """Return the routing record of a ruling."""
    winner = ruling.trace.chain[ruling.outcome.winner_index]
    others = [each.candidate_model for each in ruling.trace.chain if each is not winner]
    return RoutingRecord(
        mode=_MODES[winner.policy],
        chosen_model=ruling.model,
        reason=winner.reason,
        decision_id=decision_id,
        rule_name=winner.rule_name,
        confidence=None if winner.confidence is None else billionths_text(winner.confidence),
        alternatives_considered=tuple(each for each in others if each is not None),
    )


def cost_text(amount: MicroUsd | None) -> str | None:
    """Write a cost, where it is known."""
    return None if amount is None else microusd_text(amount)


def unanswered_calls(messages: Iterable[SessionMessage]) -> tuple[ToolUse, ...]:
    """Return the calls without a result, in their order."""
    listed = [*messages]
    answered = {result.tool_use_id for each in listed for result in each.tool_results}
    return tuple(use for each in listed for use in each.tool_uses if use.id not in answered)
