"""The vendors' bodies as far as the schema tells them: the required fields, and nothing refused.

The vendors' own documents say the rest; other fields pass through.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

Name = Annotated[str, Meta(max_length=200, description="`auto`, a model's id, or an alias")]
Tokens = Annotated[int, Meta(ge=1, le=1_000_000)]


class OpenAIError(Struct, frozen=True):
    """OpenAI's error."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIErrorAnswer(Struct, frozen=True):
    """An error in OpenAI's shape."""

    error: OpenAIError


class AnthropicError(Struct, frozen=True):
    """Anthropic's error."""

    type: str
    message: str


class AnthropicErrorAnswer(Struct, frozen=True):
    """An error in Anthropic's shape."""

    type: Literal["error"]
    error: AnthropicError


class Message(Struct, frozen=True):
    """One message of a conversation."""

    role: Literal["user", "assistant"]
    content: str


class ChatBody(Struct, frozen=True):
    """A chat completion to make."""

    messages: Annotated[tuple[Message, ...], Meta(min_length=1)]
    model: Name = "auto"
    stream: bool = False
    max_completion_tokens: Tokens | None = None


class ChatAnswer(Struct, frozen=True):
    """A chat completion, or its events where it is streamed."""

    id: str
    object: Literal["chat.completion"]
    model: str


class ResponsesBody(Struct, frozen=True):
    """A response to make."""

    input: str
    model: Name = "auto"
    stream: bool = False
    max_output_tokens: Tokens | None = None


class ResponsesAnswer(Struct, frozen=True):
    """A response."""

    id: str
    object: Literal["response"]
    model: str


class MessagesBody(Struct, frozen=True):
    """A message to make."""

    messages: Annotated[tuple[Message, ...], Meta(min_length=1)]
    max_tokens: Tokens
    model: Name = "auto"
    stream: bool = False


class MessagesAnswer(Struct, frozen=True):
    """A message."""

    id: str
    type: Literal["message"]
    model: str


class CountBody(Struct, frozen=True):
    """A message whose tokens are counted."""

    messages: tuple[Message, ...]
    model: Name = "auto"


class CountAnswer(Struct, frozen=True):
    """An estimate of its tokens."""

    input_tokens: int


class EmbeddingsBody(Struct, frozen=True):
    """Texts to embed, by a model that is named."""

    model: Name
    input: str | Annotated[tuple[str, ...], Meta(min_length=1, max_length=2048)]


class EmbeddingsAnswer(Struct, frozen=True):
    """Embeddings."""

    object: Literal["list"]
    model: str


class CompletionsBody(Struct, frozen=True):
    """A text to go on with, by a model that is named."""

    model: Name
    prompt: str | Annotated[tuple[str, ...], Meta(min_length=1, max_length=128)]
    stream: bool = False
    max_tokens: Tokens | None = None


class CompletionsAnswer(Struct, frozen=True):
    """A completion."""

    id: str
    object: Literal["text_completion"]
    model: str


Texts = str | Annotated[tuple[str, ...], Meta(min_length=1, max_length=128)]
File = Annotated[str, Meta(extra_json_schema={"format": "binary"})]


class ImagesBody(Struct, frozen=True):
    """Pictures to make."""

    model: Name
    prompt: str
    n: Annotated[int, Meta(ge=1, le=10)] = 1
    stream: bool = False


class EditBody(Struct, frozen=True):
    """A picture to change, as a form."""

    model: Name
    prompt: str
    image: File


class ImagesAnswer(Struct, frozen=True):
    """Pictures."""

    created: int


class SpeechBody(Struct, frozen=True):
    """A text to speak; the answer is sound."""

    model: Name
    input: str
    voice: str


class TranscriptBody(Struct, frozen=True):
    """Sound to write down, as a form."""

    model: Name
    file: File
    prompt: str = ""


class TranscriptAnswer(Struct, frozen=True):
    """The spoken words; plain text where `response_format` asks for it."""

    text: str


class ModerationsBody(Struct, frozen=True):
    """Texts to rate."""

    model: Name
    input: Texts


class ModerationsAnswer(Struct, frozen=True):
    """Ratings."""

    id: str


class RerankBody(Struct, frozen=True):
    """Documents to order by how well they answer a question."""

    model: Name
    query: str
    documents: Annotated[tuple[str, ...], Meta(min_length=1, max_length=1000)]


class RankedDocument(Struct, frozen=True):
    """The place of a document among those that were sent."""

    index: int


class RerankAnswer(Struct, frozen=True):
    """The documents, the best first."""

    results: tuple[RankedDocument, ...]


class ModelCard(Struct, frozen=True):
    """A model that may be named; its limits where they are known."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    context_length: int | UnsetType = UNSET
    max_output_tokens: int | UnsetType = UNSET


class ModelsAnswer(Struct, frozen=True):
    """The models that may be named."""

    object: Literal["list"]
    data: tuple[ModelCard, ...]
