"""Agent frameworks as real clients: a tool loop each is one turn, one decision, one model."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import Running

from pointsman.testing import calls, says

ASKED: dict[str, Any] = {"place": "Oslo"}
WEATHER = "4 degrees, rain"


def weather(place: str) -> str:
    """Tell the weather of a place."""
    assert place == ASKED["place"]
    return WEATHER


def assert_one_turn(live: Running, town: Town) -> None:
    """Assert that both calls of the loop went to one model, under one decision."""
    live.outcomes(2)
    asked, followed = (request.json for request in town.openai.requests)
    assert asked["model"] == followed["model"] == "big"
    assert WEATHER in json.dumps(followed)
    decisions = [kind for kind in live.kinds() if kind.startswith("decision.")]
    assert decisions == ["decision.turn"]


@pytest.mark.req(110)
def test_a_tool_loop_of_langchain_is_one_turn(live: Running, town: Town) -> None:
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_openai import ChatOpenAI

    town.openai.then(calls(("weather", ASKED)), says("take an umbrella"))
    chat = ChatOpenAI(model="auto", base_url=f"{live.url}/v1", api_key="any", max_retries=0)
    able = chat.bind_tools([weather])
    conversation: list[Any] = [HumanMessage("what is the weather in Oslo?")]
    wish = able.invoke(conversation)
    (call,) = wish.tool_calls
    assert call["name"] == "weather"
    conversation += [wish, ToolMessage(weather(**call["args"]), tool_call_id=call["id"])]
    assert able.invoke(conversation).text == "take an umbrella"
    assert_one_turn(live, town)


@pytest.mark.req(110)
@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_tool_loop_of_pydantic_ai_is_one_turn(
    live: Running, town: Town, is_streamed: bool
) -> None:
    town.openai.then(calls(("weather", ASKED)), says("take an umbrella"))
    assert asyncio.run(pydantic_ai_says(live.url, is_streamed)) == "take an umbrella"
    assert_one_turn(live, town)


async def pydantic_ai_says(url: str, is_streamed: bool) -> str:
    from openai import AsyncOpenAI
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    question = "what is the weather in Oslo?"
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
        model = OpenAIChatModel("auto", provider=OpenAIProvider(openai_client=client))
        agent = Agent(model, tools=[weather])
        if not is_streamed:
            return (await agent.run(question)).output
        async with agent.run_stream(question) as streamed:
            return await streamed.get_output()
