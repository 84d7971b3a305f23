"""Calls of models and tools, and the confirmations asked before a tool acts."""

from __future__ import annotations

from typing import ClassVar, Literal

from pointsman.sessions.events.event import Actor, Sensitivity, SessionEvent, Words


class LlmCallStarted(SessionEvent, frozen=True):
    """A model is called."""

    type: ClassVar[str] = "llm.call_started"
    actor: ClassVar[Actor] = "agent"

    model: str
    provider: str
    estimated_input_tokens: int
    request_id: str
    is_worker: bool


class LlmCallCompleted(SessionEvent, frozen=True):
    """A model answered."""

    type: ClassVar[str] = "llm.call_completed"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    actor: ClassVar[Actor] = "agent"

    model: str
    provider: str
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int
    cache_creation_input_tokens: int
    cost_usd: str | None
    pricing_version: str
    latency_ms: int
    stop_reason: str
    produced_tool_calls: int
    produced_thinking_blocks: int


class LlmCallFailed(SessionEvent, frozen=True):
    """A model did not answer, or was not let finish; its own words are not told."""

    type: ClassVar[str] = "llm.call_failed"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    actor: ClassVar[Actor] = "agent"

    model: str
    provider: str
    error_class: str
    error_message_redacted: str
    retry_count: int
    latency_ms: int


SideEffects = Literal["none", "read", "write", "execute", "network"]
ToolErrorClass = Literal[
    "timeout", "permission_denied", "not_found", "validation_error", "execution_error",
    "cancelled", "user_denied", "confirmation_timeout",
]  # fmt: skip


class ToolCalled(SessionEvent, frozen=True):
    """A tool begins; its input is told by its keyed digest."""

    type: ClassVar[str] = "tool.called"
    actor: ClassVar[Actor] = "tool"
    words: ClassVar[tuple[str, ...]] = ("input_hash",)

    tool_use_id: str
    tool_name: str
    input_hash: Words
    input_size_bytes: int
    side_effects: SideEffects


class ToolCompleted(SessionEvent, frozen=True):
    """A tool call succeeded."""

    type: ClassVar[str] = "tool.completed"
    actor: ClassVar[Actor] = "tool"
    words: ClassVar[tuple[str, ...]] = ("files_modified", "command_executed")

    tool_use_id: str
    success: bool
    output_size_bytes: int
    latency_ms: int
    files_modified: tuple[Words, ...]
    command_executed: Words | None


class ToolFailed(SessionEvent, frozen=True):
    """A tool call failed."""

    type: ClassVar[str] = "tool.failed"
    actor: ClassVar[Actor] = "tool"
    words: ClassVar[tuple[str, ...]] = ("error_message",)

    tool_use_id: str
    error_class: ToolErrorClass
    error_message: Words
    latency_ms: int


class ToolInputInvalid(SessionEvent, frozen=True):
    """A model called a tool with an input that its schema refuses."""

    type: ClassVar[str] = "tool.input_invalid"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    actor: ClassVar[Actor] = "agent"
    words: ClassVar[tuple[str, ...]] = ("validation_errors",)

    tool_name: str
    validation_errors: tuple[Words, ...]


class ToolConfirmationRequested(SessionEvent, frozen=True):
    """A human is asked whether a tool may act."""

    type: ClassVar[str] = "tool.confirmation_requested"
    words: ClassVar[tuple[str, ...]] = (
        "input_summary",
        "projected_modifications",
        "command_summary",
    )

    tool_use_id: str
    tool_name: str
    side_effects: SideEffects
    confirmation_request_id: str
    input_summary: Words
    projected_modifications: tuple[Words, ...]
    command_summary: Words | None
    expires_at: int


class ToolConfirmationResolved(SessionEvent, frozen=True):
    """The human answered, or did not in time."""

    type: ClassVar[str] = "tool.confirmation_resolved"
    actor: ClassVar[Actor] = "user"

    tool_use_id: str
    confirmation_request_id: str
    decision: Literal["allow", "deny", "timeout"]
    scope: Literal["once", "session"] | None
