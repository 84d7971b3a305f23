"""langchain: both vendors' chat models, and its agent."""

from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

from cases import MODEL, PIXEL, SAID, SEEN, SUM, URL, run, same

openai = ChatOpenAI(model=MODEL, base_url=f"{URL}/v1", api_key="none", max_retries=0)
claude = ChatAnthropic(model=MODEL, base_url=URL, api_key="none", max_retries=0, max_tokens=300)


class Person(BaseModel):
    """A person."""

    name: str
    age: int


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def text() -> None:
    same((openai.invoke("hi").text, claude.invoke("hi").text), (SAID, SAID))


def stream() -> None:
    same("".join(each.text for each in openai.stream("hi")), SAID)
    same("".join(each.text for each in claude.stream("hi")), SAID)


def tools() -> None:
    for chat in (openai, claude):
        agent = create_agent(chat, tools=[add])
        done = agent.invoke({"messages": [{"role": "user", "content": "hi"}]})
        same(done["messages"][-1].text, SUM)


def structured_output() -> None:
    same(openai.with_structured_output(Person).invoke("hi"), Person(name="Ada", age=36))


def images() -> None:
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    same(openai.invoke([{"role": "user", "content": [picture]}]).text, SEEN)


run(text, stream, tools, structured_output, images)
