"""The usage of a call, as each vendor reports it.

OpenAI's input includes cached tokens, read and written; Anthropic's three buckets are disjoint,
as ours are.
"""

from __future__ import annotations

from msgspec import Struct

from pointsman.providers.messages import Usage


class InputDetails(Struct):
    """The parts of OpenAI's input."""

    cached_tokens: int | None = 0
    cache_write_tokens: int | None = 0


class OutputDetails(Struct):
    """The parts of an output; `thinking_tokens` is Anthropic's word."""

    reasoning_tokens: int | None = 0
    thinking_tokens: int | None = 0


class ChatUsage(Struct):
    """The `usage` of chat completions; the hits are DeepSeek's word for cached input."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: InputDetails | None = None
    completion_tokens_details: OutputDetails | None = None
    prompt_cache_hit_tokens: int | None = None

    def read(self) -> Usage:
        """Return it in our buckets."""
        details = self.prompt_tokens_details
        if self.prompt_cache_hit_tokens and not (details and details.cached_tokens):
            details = InputDetails(cached_tokens=self.prompt_cache_hit_tokens)
        return _from_openai(
            self.prompt_tokens, self._output(), details, self.completion_tokens_details
        )

    def _output(self) -> int | None:
        """Return all output; xAI counts reasoning beside the completion, OpenAI within it."""
        outputs, made = self.completion_tokens_details, self.completion_tokens
        reasoning = (outputs.reasoning_tokens if outputs else 0) or 0
        if made is None or not reasoning:
            return made
        is_beside = self.total_tokens == (self.prompt_tokens or 0) + made + reasoning
        return made + reasoning if is_beside else made


class ResponsesUsage(Struct):
    """The `usage` of responses."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: InputDetails | None = None
    output_tokens_details: OutputDetails | None = None

    def read(self) -> Usage:
        """Return it in our buckets."""
        return _from_openai(
            self.input_tokens,
            self.output_tokens,
            self.input_tokens_details,
            self.output_tokens_details,
        )


class MessagesUsage(Struct):
    """The `usage` of messages; in a stream it comes in two parts."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens_details: OutputDetails | None = None

    def read(self, before: Usage | None = None) -> Usage:
        """Return it in our buckets; counts that are missing here stay as before."""
        known = before or Usage()
        details = self.output_tokens_details
        return Usage(
            input_tokens=_newer(self.input_tokens, known.input_tokens),
            output_tokens=_newer(self.output_tokens, known.output_tokens),
            cached_input_tokens=_newer(self.cache_read_input_tokens, known.cached_input_tokens)
            or 0,
            cache_creation_input_tokens=_newer(
                self.cache_creation_input_tokens, known.cache_creation_input_tokens
            )
            or 0,
            reasoning_tokens=(details.thinking_tokens if details else None)
            or known.reasoning_tokens,
        )


class GeminiUsage(Struct, rename="camel"):
    """The `usageMetadata` of Gemini; thoughts are counted beside the candidates."""

    prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None

    def read(self) -> Usage:
        """Return it in our buckets."""
        given, made = self.prompt_token_count, self.candidates_token_count
        cached, thoughts = self.cached_content_token_count or 0, self.thoughts_token_count or 0
        used = self.tool_use_prompt_token_count or 0
        is_told = made is not None or self.thoughts_token_count is not None
        return Usage(
            input_tokens=None if given is None else max(0, given + used - cached),
            output_tokens=(made or 0) + thoughts if is_told else None,
            cached_input_tokens=cached,
            reasoning_tokens=thoughts,
        )


class ConverseUsage(Struct, rename="camel"):
    """The `usage` of Converse; like Anthropic's its three buckets of input are disjoint."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None

    def read(self) -> Usage:
        """Return it in our buckets."""
        return Usage(
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cached_input_tokens=self.cache_read_input_tokens or 0,
            cache_creation_input_tokens=self.cache_write_input_tokens or 0,
        )


def total_input(usage: Usage) -> int:
    """Return the whole input, as OpenAI counts it."""
    buckets = (usage.cached_input_tokens, usage.cache_creation_input_tokens)
    return (usage.input_tokens or 0) + sum(buckets)


def write_chat(usage: Usage) -> dict[str, object] | None:
    """Write it for chat completions; nothing when it was not told."""
    if usage.input_tokens is None and usage.output_tokens is None:
        return None
    given, made = total_input(usage), usage.output_tokens or 0
    return {
        "prompt_tokens": given,
        "completion_tokens": made,
        "total_tokens": given + made,
        "prompt_tokens_details": _input_details(usage),
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def write_responses(usage: Usage) -> dict[str, object] | None:
    """Write it for responses; nothing when it was not told."""
    if usage.input_tokens is None and usage.output_tokens is None:
        return None
    given, made = total_input(usage), usage.output_tokens or 0
    return {
        "input_tokens": given,
        "input_tokens_details": _input_details(usage),
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": given + made,
    }


def write_messages(usage: Usage) -> dict[str, object]:
    """Write it for messages, which always has numbers: 0 for unknown counts."""
    written: dict[str, object] = {
        "input_tokens": usage.input_tokens or 0,
        "cache_creation_input_tokens": usage.cache_creation_input_tokens,
        "cache_read_input_tokens": usage.cached_input_tokens,
        "output_tokens": usage.output_tokens or 0,
    }
    if usage.reasoning_tokens:
        written["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return written


def _input_details(usage: Usage) -> dict[str, int]:
    return {
        "cached_tokens": usage.cached_input_tokens,
        "cache_write_tokens": usage.cache_creation_input_tokens,
    }


def _from_openai(
    given: int | None, made: int | None, parts: InputDetails | None, outputs: OutputDetails | None
) -> Usage:
    cached = (parts.cached_tokens if parts else 0) or 0
    written = (parts.cache_write_tokens if parts else 0) or 0
    return Usage(
        input_tokens=None if given is None else max(0, given - cached - written),
        output_tokens=made,
        cached_input_tokens=cached,
        cache_creation_input_tokens=written,
        reasoning_tokens=(outputs.reasoning_tokens if outputs else 0) or 0,
    )


def _newer(now: int | None, before: int | None) -> int | None:
    return before if now is None else now
