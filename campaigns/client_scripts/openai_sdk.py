"""The OpenAI SDK for Python: chat completions and responses."""

import json

from openai import OpenAI
from pydantic import BaseModel

from cases import MODEL, PIXEL, SAID, SEEN, SUM, URL, run, same

client = OpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0)
PARAMETERS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
ASK = [{"role": "user", "content": "hi"}]


class Person(BaseModel):
    name: str
    age: int


def text() -> None:
    same(client.chat.completions.create(model=MODEL, messages=ASK).choices[0].message.content, SAID)


def stream() -> None:
    pieces = client.chat.completions.create(model=MODEL, messages=ASK, stream=True)
    same("".join(each.choices[0].delta.content or "" for each in pieces if each.choices), SAID)


def tools() -> None:
    tool = {"type": "function", "function": {"name": "add", "parameters": PARAMETERS}}
    said = (
        client.chat.completions.create(model=MODEL, messages=ASK, tools=[tool]).choices[0].message
    )
    (call,) = said.tool_calls
    same(json.loads(call.function.arguments), {"a": 2, "b": 3})
    more = [*ASK, said, {"role": "tool", "tool_call_id": call.id, "content": "5"}]
    done = client.chat.completions.create(model=MODEL, messages=more, tools=[tool])
    same(done.choices[0].message.content, SUM)


def structured_output() -> None:
    found = client.chat.completions.parse(model=MODEL, messages=ASK, response_format=Person)
    same(found.choices[0].message.parsed, Person(name="Ada", age=36))


def images() -> None:
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    asked = [{"role": "user", "content": [{"type": "text", "text": "what is this"}, picture]}]
    same(
        client.chat.completions.create(model=MODEL, messages=asked).choices[0].message.content, SEEN
    )


def responses_text() -> None:
    same(client.responses.create(model=MODEL, input="hi").output_text, SAID)


def responses_stream() -> None:
    with client.responses.stream(model=MODEL, input="hi") as events:
        parts = [each.delta for each in events if each.type == "response.output_text.delta"]
    same("".join(parts), SAID)


def responses_tools() -> None:
    tool = {"type": "function", "name": "add", "parameters": PARAMETERS, "strict": True}
    first = client.responses.create(model=MODEL, input="hi", tools=[tool])
    call = next(each for each in first.output if each.type == "function_call")
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "5"}
    past = [{"role": "user", "content": "hi"}, *first.output, result]
    same(client.responses.create(model=MODEL, input=past, tools=[tool]).output_text, SUM)


def responses_structured_output() -> None:
    found = client.responses.parse(model=MODEL, input="hi", text_format=Person)
    same(found.output_parsed, Person(name="Ada", age=36))


run(
    text, stream, tools, structured_output, images,
    responses_text, responses_stream, responses_tools, responses_structured_output,
)  # fmt: skip
