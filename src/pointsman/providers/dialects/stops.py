"""Why an answer ended, in the words of each dialect."""

from __future__ import annotations

from collections.abc import Mapping

from pointsman.providers.messages import StopReason

FROM_CHAT: Mapping[str, StopReason] = {
    "stop": "end",
    "length": "length",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
TO_CHAT: Mapping[StopReason, str] = {
    "end": "stop",
    "length": "length",
    "tool_use": "tool_calls",
    "stop_sequence": "stop",
    "refusal": "content_filter",
    # An answer that broke off is told as one that is not whole.
    "error": "length",
}
FROM_MESSAGES: Mapping[str, StopReason] = {
    "end_turn": "end",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_use",
    "stop_sequence": "stop_sequence",
    "refusal": "refusal",
    "pause_turn": "end",
}
FROM_GEMINI: Mapping[str, StopReason] = {
    "STOP": "end",
    "FINISH_REASON_UNSPECIFIED": "end",
    "MAX_TOKENS": "length",
    "SAFETY": "refusal",
    "RECITATION": "refusal",
    "LANGUAGE": "refusal",
    "BLOCKLIST": "refusal",
    "PROHIBITED_CONTENT": "refusal",
    "SPII": "refusal",
    "IMAGE_SAFETY": "refusal",
}
"""All others tell of an answer that is not whole, such as a call that was written wrongly."""
FROM_CONVERSE: Mapping[str, StopReason] = {
    "end_turn": "end",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_use",
    "stop_sequence": "stop_sequence",
    "guardrail_intervened": "refusal",
    "content_filtered": "refusal",
    "malformed_model_output": "error",
    "malformed_tool_use": "error",
}
TO_MESSAGES: Mapping[StopReason, str] = {
    "end": "end_turn",
    "length": "max_tokens",
    "tool_use": "tool_use",
    "stop_sequence": "stop_sequence",
    "refusal": "refusal",
    "error": "max_tokens",
}
INCOMPLETE: Mapping[StopReason, str] = {
    "length": "max_output_tokens",
    "refusal": "content_filter",
}
"""What the responses format calls incomplete, and its reason."""


def from_responses(status: str, incomplete: str, *, calls_tool: bool, refuses: bool) -> StopReason:
    """Return why a response ended; the format itself only says whether it is whole."""
    if status in ("failed", "cancelled"):
        return "error"
    if refuses or incomplete == "content_filter":
        return "refusal"
    if status == "incomplete":
        return "length"
    return "tool_use" if calls_tool else "end"
