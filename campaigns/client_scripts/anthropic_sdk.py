"""The Anthropic SDK for Python."""

from anthropic import Anthropic

from cases import MODEL, PIXEL, SAID, SEEN, SUM, URL, run, same

client = Anthropic(base_url=URL, api_key="none", max_retries=0)
ASK = [{"role": "user", "content": "hi"}]
MOST = {"model": MODEL, "max_tokens": 300}


def text() -> None:
    same(client.messages.create(**MOST, messages=ASK).content[0].text, SAID)


def stream() -> None:
    with client.messages.stream(**MOST, messages=ASK) as pieces:
        same("".join(pieces.text_stream), SAID)


def tools() -> None:
    properties = {"a": {"type": "integer"}, "b": {"type": "integer"}}
    tool = {"name": "add", "input_schema": {"type": "object", "properties": properties}}
    first = client.messages.create(**MOST, messages=ASK, tools=[tool])
    call = next(each for each in first.content if each.type == "tool_use")
    same(call.input, {"a": 2, "b": 3})
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "5"}
    past = [
        *ASK,
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": [result]},
    ]
    same(client.messages.create(**MOST, messages=past, tools=[tool]).content[0].text, SUM)


def images() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    asked = [{"role": "user", "content": [{"type": "image", "source": source}]}]
    same(client.messages.create(**MOST, messages=asked).content[0].text, SEEN)


def count_tokens() -> None:
    found = client.messages.count_tokens(model=MODEL, messages=ASK)
    same(found.input_tokens > 0, wanted=True)


run(text, stream, tools, images, count_tokens)
