"""Calls of models."""

from __future__ import annotations

from typing import ClassVar

from pointsman.sessions.events.event import Actor, Sensitivity, SessionEvent


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
