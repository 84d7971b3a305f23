"""Workers: how a delegation begins and ends."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct

from pointsman.sessions.events.event import Actor, Sensitivity, SessionEvent, Words

FailureMode = Literal[
    "worker_error", "max_tokens_exceeded", "insufficient_context",
    "output_schema_validation_failed", "no_model_available_for_tier", "cancelled_by_user",
    "timeout",
]  # fmt: skip
Missing = Literal["file", "file_range", "message", "tool_result", "decision", "other"]


class DelegateStarted(SessionEvent, frozen=True):
    """A worker was routed and begins."""

    type: ClassVar[str] = "delegate.started"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    actor: ClassVar[Actor] = "agent"

    tool_use_id: str
    worker_session_id: str
    tier: Literal["fast", "balanced", "deep"]
    resolved_model: str
    context_mode: Literal["minimal", "explicit"]
    context_reference_count: int
    task_size_tokens: int
    allowed_tool_count: int
    dropped_tools: tuple[str, ...]


class DelegateCompleted(SessionEvent, frozen=True):
    """A worker did its task."""

    type: ClassVar[str] = "delegate.completed"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    actor: ClassVar[Actor] = "worker"

    tool_use_id: str
    worker_session_id: str
    success: bool
    output_size_bytes: int
    worker_total_cost_usd: str
    pricing_version: str
    turn_count: int
    llm_call_count: int
    tool_call_count: int
    wall_time_seconds: str
    model: str


class MissingItem(Struct, frozen=True, forbid_unknown_fields=True):
    """One thing a worker lacks, and its use for it. Document 002 §6.6.1."""

    type: Missing
    ref: str
    hint: str


class InsufficientContextRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The context that a worker needs before it can do its task."""

    missing: tuple[MissingItem, ...]
    summary: str


class DelegateFailed(SessionEvent, frozen=True):
    """A worker did not do its task, and why."""

    type: ClassVar[str] = "delegate.failed"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    actor: ClassVar[Actor] = "worker"
    words: ClassVar[tuple[str, ...]] = ("error_message", "insufficient_context_request")

    tool_use_id: str
    worker_session_id: str | None
    failure_mode: FailureMode
    error_message: Words
    worker_total_cost_usd: str
    pricing_version: str
    insufficient_context_request: Words | None
    """An `InsufficientContextRequest` as JSON text."""
