"""A caller's chat completion as the engine takes it; what the model cannot do is refused."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from pointsman.providers.port import Outgoing, UpstreamError

# No vocabulary has longer tokens worth the name: past this many bytes nothing needs counting.
MOST_BYTES_A_TOKEN = 256
_RANDOM_SEED = 0xFFFFFFFF

Role = Literal["system", "developer", "user", "assistant", "tool", "function"]
Penalty = Annotated[float, Meta(ge=-2, le=2)]


class _Part(Struct, frozen=True):
    type: str
    text: str = ""
    refusal: str = ""


class _Given(Struct, frozen=True):
    role: Role
    content: str | tuple[_Part, ...] | None = None
    tool_calls: tuple[Raw, ...] | None = None
    function_call: Raw | None = None


class _Schema(Struct, frozen=True):
    schema: Raw = Raw(b"{}")


class _Format(Struct, frozen=True, omit_defaults=True):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: _Schema | None = None


class _StreamOptions(Struct, frozen=True):
    include_usage: bool | None = None


class _Chat(Struct, frozen=True):
    """The fields of a request that are read; all others change nothing here."""

    messages: Annotated[tuple[_Given, ...], Meta(min_length=1)]
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Meta(ge=1)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    stop: str | tuple[str, ...] | None = None
    seed: int | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    response_format: _Format | None = None
    stream_options: _StreamOptions | None = None
    n: int | None = None
    tools: tuple[Raw, ...] | None = None
    functions: tuple[Raw, ...] | None = None
    logit_bias: dict[str, float] | None = None
    modalities: tuple[str, ...] | None = None


class _Message(Struct, frozen=True):
    role: str
    content: str


class _EngineBody(Struct, frozen=True, omit_defaults=True):
    """What the engine is asked."""

    messages: tuple[_Message, ...]
    max_tokens: int
    stream: bool
    cache_prompt: bool
    temperature: float | UnsetType = UNSET
    top_p: float | UnsetType = UNSET
    stop: tuple[str, ...] = ()
    seed: int | UnsetType = UNSET
    presence_penalty: float | UnsetType = UNSET
    frequency_penalty: float | UnsetType = UNSET
    logprobs: bool = False
    top_logprobs: int | UnsetType = UNSET
    response_format: _Format | UnsetType = UNSET
    stream_options: _StreamOptions | UnsetType = UNSET


def engine_body(outgoing: Outgoing, *, max_output_tokens: int) -> bytes:
    """Return a request in the engine's form, or raise `UpstreamError` if it cannot serve it."""
    chat = _read(outgoing.body)
    _refuse_unsupported(chat)
    wanted = chat.max_completion_tokens or chat.max_tokens or max_output_tokens
    stop = (chat.stop,) if isinstance(chat.stop, str) else chat.stop or ()
    body = _EngineBody(
        messages=tuple(_message(each) for each in chat.messages),
        max_tokens=wanted,
        stream=outgoing.is_stream,
        # Reused prompts are cut into other batches, which may change the last bits of the numbers
        # and so the text: the same request gets the same computation.
        cache_prompt=chat.seed is None and chat.temperature != 0,
        temperature=_or_unset(chat.temperature),
        top_p=_or_unset(chat.top_p),
        stop=tuple(each for each in stop if each),
        seed=UNSET if chat.seed is None else _seed(chat.seed),
        presence_penalty=_or_unset(chat.presence_penalty),
        frequency_penalty=_or_unset(chat.frequency_penalty),
        logprobs=chat.logprobs or False,
        top_logprobs=UNSET if chat.top_logprobs is None else chat.top_logprobs,
        response_format=chat.response_format or UNSET,
        stream_options=chat.stream_options or UNSET,
    )
    return msgspec.json.encode(body)


def refuse_body(message: str) -> UpstreamError:
    """Return the error for a request that no attempt will make good."""
    return UpstreamError(message, error_class="invalid_request", status=400)


def overflow(tokens: int | None, context_tokens: int) -> UpstreamError:
    """Return the error for a prompt that does not fit, and say what to configure."""
    has = f"more than {context_tokens}" if tokens is None else f"{tokens}"
    message = (
        f"the prompt has {has} tokens, the embedded model holds {context_tokens} with its answer: "
        "shorten it, configure a cloud model, or name a GGUF file with more context in models.yaml "
        "(a provider of `kind: embedded` with `path`)"
    )
    return UpstreamError(message, error_class="context_overflow", status=400)


def surely_overflows(body: bytes, context_tokens: int) -> bool:
    """Say whether a request is too long by any count of its tokens."""
    return len(body) > context_tokens * MOST_BYTES_A_TOKEN


def _read(body: bytes) -> _Chat:
    try:
        return msgspec.json.decode(body, type=_Chat)
    except msgspec.MsgspecError as error:
        raise refuse_body(f"the request is no chat completion: {error}") from error


def _refuse_unsupported(chat: _Chat) -> None:
    if chat.tools or chat.functions:
        raise refuse_body(
            "the embedded model cannot call tools: remove `tools`, or name another model"
        )
    if any(_is_tool_talk(each) for each in chat.messages):
        raise refuse_body("the embedded model cannot read tool calls and their results")
    if chat.n is not None and chat.n != 1:
        raise refuse_body(f"the embedded model gives one choice, not `n: {chat.n}`")
    if chat.logit_bias:
        raise refuse_body("the embedded model does not take `logit_bias`")
    if chat.modalities and set(chat.modalities) != {"text"}:
        raise refuse_body("the embedded model answers in text alone: remove `modalities`")


def _is_tool_talk(message: _Given) -> bool:
    return bool(message.role in ("tool", "function") or message.tool_calls or message.function_call)


def _message(given: _Given) -> _Message:
    role = "system" if given.role == "developer" else given.role
    if isinstance(given.content, tuple):
        return _Message(role, "".join(_text(each) for each in given.content))
    return _Message(role, given.content or "")


def _text(part: _Part) -> str:
    match part.type:
        case "text" | "input_text" | "output_text":
            return part.text
        case "refusal":
            return part.refusal
        case _:
            raise refuse_body(f"the embedded model reads text alone: it cannot take `{part.type}`")


def _seed(seed: int) -> int:
    # The engine's seeds have 32 bits, and the last one means chance.
    return seed % _RANDOM_SEED


def _or_unset(value: float | None) -> float | UnsetType:
    return UNSET if value is None else value
