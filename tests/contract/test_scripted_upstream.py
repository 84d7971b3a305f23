"""The scripted upstream speaks as the vendors do: their own clients understand every word."""

import anthropic
import openai
import pytest
from tests.unit.providers.calling import run

from pointsman.providers.messages import RedactedThinking, Text, Thinking, Usage
from pointsman.testing.upstream import ScriptedUpstream
from pointsman.testing.upstream_faults import FAULTS
from pointsman.testing.upstream_replies import a_response, answers, calls, fails, says

SPENT = Usage(10, 20, cached_input_tokens=30, cache_creation_input_tokens=5, reasoning_tokens=7)
TOOLS = [("look_up", {"q": "a"}), ("add", {"x": 1, "y": [2]})]
THOUGHT = a_response(Thinking("let me see", "sig=="), RedactedThinking("enc"), Text("so"))


def asked(work, *replies):
    """Run with both vendors' clients on one scripted upstream."""

    async def all_of_it():
        async with ScriptedUpstream(*replies) as upstream:
            url = upstream.base_url
            async with (
                openai.AsyncOpenAI(api_key="k", base_url=url + "/v1", max_retries=0) as chat,
                anthropic.AsyncAnthropic(api_key="k", base_url=url, max_retries=0) as claude,
            ):
                return await work(chat, claude)

    return run(all_of_it)


USER = [{"role": "user", "content": "hello"}]
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}


def test_openai_understands_whole_chat_answers():
    async def work(client, _claude):
        said = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": [IMAGE]}]
        )
        called = await client.chat.completions.create(model="m", messages=USER)
        return said, called

    said, called = asked(work, says("hi", usage=SPENT), calls(*TOOLS))
    assert (said.choices[0].message.content, said.choices[0].finish_reason) == ("hi", "stop")
    assert (said.usage.prompt_tokens, said.usage.completion_tokens) == (45, 20)
    assert said.usage.prompt_tokens_details.cached_tokens == 30
    assert said.usage.completion_tokens_details.reasoning_tokens == 7
    assert called.choices[0].finish_reason == "tool_calls"
    functions = [each.function for each in called.choices[0].message.tool_calls]
    assert [each.arguments for each in functions] == ['{"q":"a"}', '{"x":1,"y":[2]}']


def test_openai_understands_streamed_chat_answers():
    async def one(client, **more):
        async with client.chat.completions.stream(model="m", messages=USER, **more) as stream:
            async for _event in stream:
                pass
            return await stream.get_final_completion()

    async def work(client, _claude):
        usage = {"stream_options": {"include_usage": True}}
        return await one(client, **usage), await one(client)

    said, called = asked(work, says("hi there", usage=SPENT), calls(*TOOLS))
    assert said.choices[0].message.content == "hi there"
    assert said.usage.prompt_tokens == 45
    functions = [each.function for each in called.choices[0].message.tool_calls]
    assert [each.arguments for each in functions] == ['{"q":"a"}', '{"x":1,"y":[2]}']


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
def test_openai_understands_responses(is_stream):
    async def one(client):
        if not is_stream:
            return await client.responses.create(model="m", input="x")
        async with client.responses.stream(model="m", input="x") as stream:
            async for _event in stream:
                pass
            return await stream.get_final_response()

    async def work(client, _claude):
        return [await one(client) for _ in range(3)]

    said, called, thought = asked(
        work, says("hi there", usage=SPENT), calls(*TOOLS), answers(THOUGHT)
    )
    assert (said.output_text, said.status) == ("hi there", "completed")
    assert (said.usage.input_tokens, said.usage.input_tokens_details.cached_tokens) == (45, 30)
    assert [item.arguments for item in called.output] == ['{"q":"a"}', '{"x":1,"y":[2]}']
    assert thought.output[0].summary[0].text == "let me see"
    assert thought.output[0].encrypted_content == "sig=="
    assert thought.output_text == "so"


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
def test_anthropic_understands_messages(is_stream):
    async def one(client):
        given = {"model": "m", "max_tokens": 9, "messages": USER}
        if not is_stream:
            return await client.messages.create(**given)
        async with client.messages.stream(**given) as stream:
            return await stream.get_final_message()

    async def work(_chat, client):
        return [await one(client) for _ in range(3)]

    said, called, thought = asked(
        work, says("hi there", usage=SPENT), calls(*TOOLS), answers(THOUGHT)
    )
    assert (said.content[0].text, said.stop_reason) == ("hi there", "end_turn")
    spent = said.usage
    assert (spent.input_tokens, spent.output_tokens) == (10, 20)
    assert (spent.cache_read_input_tokens, spent.cache_creation_input_tokens) == (30, 5)
    assert [block.input for block in called.content] == [{"q": "a"}, {"x": 1, "y": [2]}]
    assert called.stop_reason == "tool_use"
    assert [block.type for block in thought.content] == ["thinking", "redacted_thinking", "text"]
    assert (thought.content[0].thinking, thought.content[0].signature) == ("let me see", "sig==")
    assert thought.content[1].data == "enc"


def test_both_understand_the_errors():
    async def work(chat, claude):
        with pytest.raises(openai.RateLimitError) as limited:
            await chat.chat.completions.create(model="m", messages=USER)
        with pytest.raises(anthropic.AuthenticationError) as denied:
            await claude.messages.create(model="m", max_tokens=9, messages=USER)
        with pytest.raises(openai.BadRequestError):
            await chat.chat.completions.create(model="m", messages=None)
        return limited.value, denied.value

    limited, denied = asked(
        work, FAULTS["rate_limit_seconds"].reply, fails(401, "authentication_error")
    )
    assert (limited.code, limited.response.headers["retry-after"]) == ("rate_limit_exceeded", "7")
    assert denied.body["error"]["type"] == "authentication_error"


def test_every_fault_of_the_list_has_a_name():
    """Those that are no replies are told in the catalogue's own words."""
    no_replies = {1, 2, 3, 5, 28, 29}
    assert {fault.number for fault in FAULTS.values()} | no_replies == set(range(1, 31))
