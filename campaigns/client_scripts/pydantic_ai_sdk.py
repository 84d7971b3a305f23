"""pydantic-ai: OpenAI's two formats and Anthropic's."""

import asyncio

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from cases import MODEL, SAID, SUM, URL, run, same

openai = OpenAIProvider(base_url=f"{URL}/v1", api_key="none")
claude = AnthropicModel(MODEL, provider=AnthropicProvider(base_url=URL, api_key="none"))
MODELS = (OpenAIChatModel(MODEL, provider=openai), OpenAIResponsesModel(MODEL, provider=openai))


class Person(BaseModel):
    name: str
    age: int


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def text() -> None:
    for each in MODELS:
        same(Agent(each).run_sync("hi").output, SAID)


def stream() -> None:
    async def work() -> str:
        async with Agent(MODELS[0]).run_stream("hi") as found:
            return await found.get_output()

    same(asyncio.run(work()), SAID)


def tools() -> None:
    for each in MODELS:
        same(Agent(each, tools=[add]).run_sync("hi").output, SUM)


def structured_output() -> None:
    for each in MODELS:
        found = Agent(each, output_type=Person).run_sync("hi").output
        same(found, Person(name="Ada", age=36))


def anthropic_text_and_tools() -> None:
    same(Agent(claude).run_sync("hi").output, SAID)
    same(Agent(claude, tools=[add]).run_sync("hi").output, SUM)


run(text, stream, tools, structured_output, anthropic_text_and_tools)
