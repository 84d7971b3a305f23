"""What the embedded model answers: real weights, real tokens."""

import asyncio

import jsonschema_rs
import msgspec
import pytest
from tests.contract.embedded_model import (
    QUESTION,
    STORY,
    SYSTEM,
    answered,
    embedded,
    events,
    outgoing,
    streamed_text,
    text_of,
)

from pointsman.providers.port import Deadlines, UpstreamError

pytestmark = pytest.mark.slow


def test_an_answer_has_real_words_and_usage_counted_by_the_models_own_vocabulary():
    async def scene():
        async with embedded() as provider:
            body = await answered(provider)
            count = provider.count_tokens
            assert body["model"] == "embedded:smollm2-135m"
            assert body["object"] == "chat.completion"
            assert "Berlin" in text_of(body)
            assert body["choices"][0]["finish_reason"] == "stop"
            # The template: two messages between marks, then the mark of the answer to come.
            parts = [f"system\n{SYSTEM}", "\n", f"user\n{QUESTION}", "\n", "assistant\n"]
            marks = 5
            usage = body["usage"]
            assert usage["prompt_tokens"] == marks + sum([await count(part) for part in parts])
            assert usage["completion_tokens"] == await count(text_of(body)) + 1
            assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]

    asyncio.run(scene())


def test_a_stream_is_the_same_answer_in_pieces():
    async def scene():
        async with embedded() as provider:
            whole = await answered(provider, max_tokens=24)
            request = outgoing(
                max_tokens=24, is_stream=True, stream_options={"include_usage": True}
            )
            answer = await provider.send(request, Deadlines())
            assert answer.headers["content-type"] == "text/event-stream"
            pieces = [piece async for piece in answer]
            chunks = events(b"".join(pieces))
            assert len(pieces) > 5
            assert {each["model"] for each in chunks} == {"embedded:smollm2-135m"}
            assert streamed_text(chunks) == text_of(whole)
            assert chunks[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
            assert chunks[-1]["usage"]["prompt_tokens"] == whole["usage"]["prompt_tokens"]
            assert chunks[-2]["choices"][0]["finish_reason"] == "stop"

    asyncio.run(scene())


def test_the_same_seed_gives_the_same_text():
    async def scene():
        async with embedded() as provider:
            for temperature in (0, 0.9):
                first, second = [
                    text_of(await answered(provider, STORY, max_tokens=32, temperature=temperature))
                    for _ in range(2)
                ]
                assert first == second
                assert first

    asyncio.run(scene())


def test_an_answer_ends_before_a_stop_text():
    async def scene():
        async with embedded() as provider:
            body = await answered(provider, stop=["Berlin"])
            assert body["choices"][0]["finish_reason"] == "stop"
            assert text_of(body).rstrip() == "The capital of Germany is"

    asyncio.run(scene())


def test_an_answer_ends_at_its_bound():
    async def scene():
        async with embedded() as provider:
            for bound in ("max_tokens", "max_completion_tokens"):
                body = await answered(provider, STORY, **{bound: 9})
                assert body["choices"][0]["finish_reason"] == "length"
                assert body["usage"]["completion_tokens"] == 9
                assert await provider.count_tokens(text_of(body)) == 9

    asyncio.run(scene())


def test_structured_output_follows_its_schema():
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }

    async def scene():
        async with embedded() as provider:
            wanted = {"type": "json_schema", "json_schema": {"name": "person", "schema": schema}}
            body = await answered(provider, "Name a person.", response_format=wanted)
            jsonschema_rs.validate(schema, msgspec.json.decode(text_of(body)))
            broken = {"type": "json_schema", "json_schema": {"schema": {"type": "fish"}}}
            with pytest.raises(UpstreamError) as caught:
                await answered(provider, response_format=broken)
            assert caught.value.error_class == "invalid_request"
            assert provider.health().crashes == 0

    asyncio.run(scene())


def test_a_prompt_too_long_is_refused_with_its_count_before_it_is_computed():
    async def scene():
        async with embedded(context_tokens=512) as provider:
            words = "word " * 800
            with pytest.raises(UpstreamError) as caught:
                await answered(provider, words)
            assert caught.value.error_class == "context_overflow"
            said = int(caught.value.message.split(" tokens")[0].rpartition(" ")[2])
            template = 30
            assert abs(said - await provider.count_tokens(words) - template) <= 1
            assert "holds 512" in caught.value.message
            with pytest.raises(UpstreamError, match="more than 512"):
                await answered(provider, words * 100)

    asyncio.run(scene())


def test_an_answer_ends_where_the_context_does():
    async def scene():
        async with embedded(context_tokens=256) as provider:
            body = await answered(provider, "word " * 200, max_tokens=500, stop=[])
            assert body["usage"]["prompt_tokens"] > 200
            assert body["usage"]["total_tokens"] <= 256

    asyncio.run(scene())
