"""The records of model calls: events, and the metadata of the messages they leave."""

from __future__ import annotations

from pointsman.kernel.number import ZERO, billionths_text
from pointsman.providers.messages import RedactedThinking, Thinking, ToolUse
from pointsman.recording.ruling import Ruling
from pointsman.sessions.effects import ModelReply
from pointsman.sessions.events.calls import LlmCallCompleted, LlmCallFailed
from pointsman.sessions.events.session import PatternMatched
from pointsman.sessions.message import MessageUsage, Metadata, Status, cost_text, routing_record
from pointsman.turns.registry.models import provider_of

FINGERPRINT_KIND = "v1"


def llm_completed(model: str, reply: ModelReply) -> LlmCallCompleted:
    """Return the event of a call that was answered."""
    used, content = _usage(reply), reply.response.content
    return LlmCallCompleted(
        model=model,
        provider=provider_of(model),
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cached_input_tokens=used.cached_input_tokens,
        cache_creation_input_tokens=used.cache_creation_input_tokens,
        cost_usd=used.cost_usd,
        pricing_version=used.pricing_version,
        latency_ms=used.latency_ms,
        stop_reason=reply.response.stop_reason,
        produced_tool_calls=sum(isinstance(each, ToolUse) for each in content),
        produced_thinking_blocks=sum(
            isinstance(each, Thinking | RedactedThinking) for each in content
        ),
    )


def llm_failed(model: str, reply: ModelReply) -> LlmCallFailed:
    """Return the event of a call that failed or was cut off."""
    return LlmCallFailed(
        model=model,
        provider=provider_of(model),
        error_class="cancelled" if reply.is_cancelled else reply.called.error_class,
        error_message_redacted=reply.error_message,
        retry_count=max(0, reply.attempts - 1),
        latency_ms=reply.latency_ms,
    )


def answer_message(
    model: str, reply: ModelReply, ruling: Ruling | None, decision_id: str
) -> Metadata:
    """Return the metadata of an answer."""
    routing = None if ruling is None else routing_record(ruling, decision_id)
    return Metadata("complete", model, provider_of(model), routing, _usage(reply))


def cut_message(model: str, reply: ModelReply, ruling: Ruling | None, decision_id: str) -> Metadata:
    """Return the metadata of an answer that was cut off."""
    whole = answer_message(model, reply, ruling, decision_id)
    status: Status = "cancelled" if reply.is_cancelled else "error"
    usage = whole.usage if reply.spent is not None else None
    return Metadata(status, whole.model, whole.provider, whole.routing, usage)


def pattern_matched(ruling: Ruling) -> PatternMatched:
    """Return the event of a model chosen by the pattern store."""
    winner = ruling.trace.chain[ruling.outcome.winner_index]
    options, near = winner.pattern_alternatives or (), winner.neighbours or ()
    return PatternMatched(
        fingerprint_id=near[0].fingerprint_id if near else "",
        fingerprint_kind=FINGERPRINT_KIND,
        chosen_model=ruling.model,
        confidence=billionths_text(winner.confidence or ZERO),
        sample_size=options[0].sample_size if options else 0,
        k_cluster_size=len(near),
        alternatives_count=max(0, len(options) - 1),
    )


def _usage(reply: ModelReply) -> MessageUsage:
    spent = reply.spent
    if spent is None:
        told = reply.response.usage
        counts = (told.input_tokens or 0, told.output_tokens or 0)
        cached = (told.cached_input_tokens, told.cache_creation_input_tokens)
        return MessageUsage(*counts, *cached, None, "", reply.latency_ms)
    return MessageUsage(
        spent.input_tokens,
        spent.output_tokens,
        spent.cached_input_tokens,
        spent.cache_creation_input_tokens,
        cost_text(spent.cost_microusd),
        spent.price_version,
        reply.latency_ms,
    )
