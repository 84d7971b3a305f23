"""Random canonical values in the form that every dialect gives back."""

import msgspec
from hypothesis import strategies as st
from msgspec import Raw

from pointsman.providers.messages import (
    ChatMessage,
    Image,
    ModelRequest,
    OutputFormat,
    RedactedThinking,
    Response,
    Text,
    Thinking,
    ToolChoice,
    ToolResult,
    ToolSpec,
    ToolUse,
    Usage,
)

MODELS = {"chat": "gpt-4o", "responses": "gpt-4o", "messages": "claude-sonnet-4-5"}
DIALECTS = tuple(MODELS)

words = st.text(min_size=1, max_size=30)
names = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_-]{0,20}", fullmatch=True)
ids = st.from_regex(r"call_[a-zA-Z0-9]{1,20}", fullmatch=True)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(words, json_values, max_size=3).map(
    lambda value: Raw(msgspec.json.encode(value))
)
schemas = st.dictionaries(names, json_values, max_size=2).map(
    lambda value: Raw(msgspec.json.encode({"type": "object", "properties": value}))
)
texts = words.map(Text)
images = st.one_of(
    st.builds(
        Image,
        st.just("base64"),
        st.from_regex(r"[A-Za-z0-9+/]{4,12}={0,2}", fullmatch=True),
        st.sampled_from(["image/png", "image/jpeg", "image/gif", "image/webp"]),
    ),
    st.from_regex(r"https://[a-z]{1,8}\.example/[a-z]{0,5}", fullmatch=True).map(
        lambda url: Image("url", url)
    ),
)
tool_uses = st.builds(ToolUse, ids, names, objects)
users = st.lists(texts | images, min_size=1, max_size=3).map(
    lambda blocks: ChatMessage("user", tuple(blocks))
)


@st.composite
def steps(draw):
    """What an assistant says, with the results of the tools it calls."""
    said = draw(st.lists(texts, max_size=1))
    calls = draw(st.lists(tool_uses, max_size=3, unique_by=lambda block: block.id))
    if not said and not calls:
        said = [draw(texts)]
    results = [
        ChatMessage("tool", (ToolResult(call.id, tuple(draw(st.lists(texts, max_size=2)))),))
        for call in calls
    ]
    return [ChatMessage("assistant", (*said, *calls)), *results]


@st.composite
def conversations(draw):
    messages = [draw(users)]
    for _ in range(draw(st.integers(0, 3))):
        messages += draw(steps())
        messages.append(draw(users))
    if draw(st.booleans()):
        messages += draw(steps())
    return tuple(messages)


tools = st.lists(
    st.builds(ToolSpec, names, words | st.just(""), schemas, st.sampled_from([True, False])),
    min_size=1,
    max_size=3,
    unique_by=lambda tool: tool.name,
).map(tuple)
numbers = st.sampled_from([None, Raw(b"0.5"), Raw(b"1"), Raw(b"0.25")])


@st.composite
def requests(draw):
    offered = draw(st.just(()) | tools)
    choice = None
    if offered:
        kind = draw(st.sampled_from([None, "auto", "any", "tool"]))
        if kind is not None:
            name = offered[0].name if kind == "tool" else ""
            choice = ToolChoice(kind, name, draw(st.sampled_from([None, True, False])))
    return ModelRequest(
        messages=draw(conversations()),
        system=tuple(draw(st.lists(texts, max_size=3))),
        tools=offered,
        tool_choice=choice,
        output=draw(
            st.none()
            | st.builds(OutputFormat, st.just("json_schema"), st.just("response"), schemas)
        ),
        max_output_tokens=draw(st.integers(1, 4096)),
        temperature=draw(numbers),
        is_stream=draw(st.booleans()),
        user=draw(st.just("") | names),
    )


usages = st.builds(
    Usage,
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
)
thoughts = st.one_of(
    st.builds(Thinking, words),
    st.builds(Thinking, words | st.just(""), words, st.just("anthropic")),
    st.builds(Thinking, words | st.just(""), words, st.just("openai"), names),
    st.builds(RedactedThinking, words),
)


@st.composite
def responses(draw):
    content = [*draw(st.lists(thoughts, max_size=1)), *draw(st.lists(texts, max_size=1))]
    calls = draw(st.lists(tool_uses, max_size=3, unique_by=lambda block: block.id))
    reasons = ["length", "refusal"] + (["tool_use"] if calls else ["end"])
    return Response(
        id=draw(names),
        content=(*content, *calls),
        stop_reason=draw(st.sampled_from(reasons)),
        usage=draw(usages),
    )
