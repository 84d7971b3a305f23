"""openai-agents: responses and chat completions."""

import asyncio
import os

from cases import MODEL, SAID, SUM, URL, run, same

os.environ.update(OPENAI_BASE_URL=f"{URL}/v1", OPENAI_API_KEY="none")
from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from pydantic import BaseModel

set_tracing_disabled(disabled=True)


class Person(BaseModel):
    name: str
    age: int


@function_tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def by_chat() -> OpenAIChatCompletionsModel:
    return OpenAIChatCompletionsModel(MODEL, AsyncOpenAI())


def text() -> None:
    same(Runner.run_sync(Agent("a", model=MODEL), "hi").final_output, SAID)
    same(Runner.run_sync(Agent("a", model=by_chat()), "hi").final_output, SAID)


def stream() -> None:
    async def work() -> str:
        own = OpenAIResponsesModel(MODEL, AsyncOpenAI())
        found = Runner.run_streamed(Agent("a", model=own), "hi")
        parts = [
            each.data.delta
            async for each in found.stream_events()
            if each.type == "raw_response_event" and each.data.type == "response.output_text.delta"
        ]
        return "".join(parts)

    same(asyncio.run(work()), SAID)


def tools() -> None:
    same(Runner.run_sync(Agent("a", model=MODEL, tools=[add]), "hi").final_output, SUM)
    same(Runner.run_sync(Agent("a", model=by_chat(), tools=[add]), "hi").final_output, SUM)


def structured_output() -> None:
    found = Runner.run_sync(Agent("a", model=MODEL, output_type=Person), "hi").final_output
    same(found, Person(name="Ada", age=36))


run(text, tools, structured_output, stream)
