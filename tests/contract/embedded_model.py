"""What the tests of the embedded model share: questions, and ways to read answers."""

import asyncio
from contextlib import asynccontextmanager

import msgspec
from tests.processes import is_running

from pointsman.providers.embedded.provider import EmbeddedProvider, EmbeddedSettings
from pointsman.providers.port import Deadlines, Outgoing

QUESTION = "What is the capital of Germany?"
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
STORY = "Tell me a long story about a railway."


def outgoing(text=QUESTION, *, is_stream=False, **fields):
    given = {"messages": [{"role": "user", "content": text}], "temperature": 0, "seed": 1, **fields}
    return Outgoing("chat", "smollm2-135m", msgspec.json.encode(given), is_stream)


@asynccontextmanager
async def embedded(**settings):
    provider = EmbeddedProvider(settings=EmbeddedSettings(**settings))
    try:
        yield provider
    finally:
        await provider.close()


async def answered(provider, *args, **fields):
    answer = await provider.send(outgoing(*args, **fields), Deadlines())
    return msgspec.json.decode(await answer.read())


def text_of(body):
    return body["choices"][0]["message"]["content"]


def events(data):
    assert data.endswith(b"data: [DONE]\n\n")
    lines = data.removesuffix(b"data: [DONE]\n\n").split(b"\n\n")
    return [msgspec.json.decode(line.removeprefix(b"data: ")) for line in lines if line]


def streamed_text(chunks):
    deltas = [each["choices"][0]["delta"] for each in chunks if each["choices"]]
    return "".join(delta.get("content") or "" for delta in deltas)


async def until_gone(pid):
    async with asyncio.timeout(10):
        while is_running(pid):
            await asyncio.sleep(0.01)
