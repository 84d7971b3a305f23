"""Model services by name: their addresses, keys, wire formats and peculiarities, as values.

`kind:` in `models.yaml` names one of them; `pointsman init` begins with their models. The table
routes nothing and calls nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from pointsman.turns.registry.models import Location, Tier

Kind = Literal[
    "openai", "anthropic", "ollama", "embedded", "gemini", "mistral", "groq", "deepseek", "xai",
    "together", "fireworks", "cerebras", "openrouter", "perplexity", "vllm", "sglang", "llamacpp",
    "lmstudio", "azure", "bedrock", "vertex",
]  # fmt: skip
"""What `kind:` of a provider may be: a service of the table below, or `embedded`."""

Wire = Literal["openai", "anthropic", "gemini", "azure", "bedrock", "vertex"]
WireFormat = Literal["chat", "responses", "messages", "gemini", "converse"]


class StarterModel(Struct, frozen=True):
    """A model to begin with."""

    name: str
    tier: Tier | None
    aliases: tuple[str, ...] = ()


class ModelService(Struct, frozen=True):
    """A service that serves models; `secrets` are the variables that may hold its key."""

    name: Kind
    title: str
    base_url: str
    secrets: tuple[str, ...] = ()
    models: tuple[StarterModel, ...] = ()
    wire: Wire = "openai"
    location: Location = "cloud"
    small_names: tuple[str, ...] = ()
    """Globs of the small models that agents use beside the main one."""
    speaks: tuple[WireFormat, ...] = ("chat",)
    """The wire formats it can speak."""
    renames: dict[str, str] = {}
    """Fields of a chat request that it knows by another name."""
    leaves_out: tuple[str, ...] = ()
    """Fields of a chat request that it refuses and does not need."""
    note: str = ""
    """What else is its own, for the page."""


_OLD_LIMIT: Final = {"max_completion_tokens": "max_tokens"}
"""For services that refuse or overlook OpenAI's newer name of the limit."""
_CHAT_AND_RESPONSES: Final[tuple[WireFormat, ...]] = ("chat", "responses")
_PLACE: Final = "write `base_url` where it does not run on this machine"

SERVICES: Final = (
    ModelService(
        "anthropic",
        "Anthropic",
        "https://api.anthropic.com",
        ("ANTHROPIC_API_KEY",),
        (
            StarterModel("claude-haiku-4-5", "fast", ("haiku",)),
            StarterModel("claude-sonnet-4-6", "balanced", ("sonnet",)),
            StarterModel("claude-opus-4-7", "deep", ("opus",)),
        ),
        wire="anthropic",
        small_names=("claude-*haiku*",),
        speaks=("messages",),
        note="key header `x-api-key`",
    ),
    ModelService(
        "openai",
        "OpenAI",
        "https://api.openai.com/v1",
        ("OPENAI_API_KEY",),
        (
            StarterModel("gpt-5-mini", "fast", ("mini",)),
            StarterModel("gpt-5.2", "balanced", ("gpt",)),
            StarterModel("gpt-5.5", "deep", ("gpt-deep",)),
            StarterModel("text-embedding-3-small", None),
        ),
        small_names=("gpt-*mini*", "gpt-*nano*"),
        speaks=_CHAT_AND_RESPONSES,
        note="for any compatible server, with its `base_url`",
    ),
    ModelService(
        "gemini",
        "Google Gemini",
        "https://generativelanguage.googleapis.com/v1beta",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        (
            StarterModel("gemini-2.5-flash", "fast", ("flash",)),
            StarterModel("gemini-2.5-pro", "balanced", ("gemini",)),
        ),
        wire="gemini",
        small_names=("gemini-*flash*",),
        speaks=("gemini",),
        note="its own `generateContent`; key header `x-goog-api-key`; no embeddings",
    ),
    ModelService(
        "azure",
        "Azure OpenAI",
        "",
        ("AZURE_OPENAI_API_KEY",),
        wire="azure",
        speaks=_CHAT_AND_RESPONSES,
        note="key header `api-key`, or a token of [Entra](../guide/clouds.md#azure-openai)",
    ),
    ModelService(
        "bedrock",
        "Amazon Bedrock",
        "https://bedrock-runtime.{region}.amazonaws.com",
        ("AWS_BEARER_TOKEN_BEDROCK",),
        wire="bedrock",
        speaks=("converse",),
        note="its own `Converse`; a key of Bedrock's own, or "
        "[keys, a profile, a role](../guide/clouds.md#amazon-bedrock) of an account; no embeddings",
    ),
    ModelService(
        "vertex",
        "Google Vertex AI",
        "https://{region}-aiplatform.googleapis.com",
        wire="vertex",
        speaks=("gemini", "messages"),
        note="Gemini by `generateContent`, Claude by `rawPredict`; a "
        "[service account](../guide/clouds.md#google-vertex-ai) in place of a key",
    ),
    ModelService(
        "mistral",
        "Mistral",
        "https://api.mistral.ai/v1",
        ("MISTRAL_API_KEY",),
        (
            StarterModel("mistral-small-latest", "fast", ("mistral-small",)),
            StarterModel("mistral-large-latest", "balanced", ("mistral",)),
        ),
        renames={**_OLD_LIMIT, "seed": "random_seed"},
        leaves_out=("stream_options",),
        note="refuses fields it does not know (422); the last chunk of a stream tells its usage",
    ),
    ModelService(
        "groq",
        "Groq",
        "https://api.groq.com/openai/v1",
        ("GROQ_API_KEY",),
        (
            StarterModel("openai/gpt-oss-20b", "fast", ("oss-small",)),
            StarterModel("openai/gpt-oss-120b", "balanced", ("oss",)),
        ),
        speaks=_CHAT_AND_RESPONSES,
        note="`reasoning` in place of `reasoning_content`",
    ),
    ModelService(
        "deepseek",
        "DeepSeek",
        "https://api.deepseek.com/v1",
        ("DEEPSEEK_API_KEY",),
        (
            StarterModel("deepseek-chat", "balanced", ("deepseek",)),
            StarterModel("deepseek-reasoner", "deep", ("reasoner",)),
        ),
        renames=_OLD_LIMIT,
        note="tells cached input as `prompt_cache_hit_tokens`",
    ),
    ModelService(
        "xai",
        "xAI",
        "https://api.x.ai/v1",
        ("XAI_API_KEY",),
        (
            StarterModel("grok-code-fast-1", "fast", ("grok-fast",)),
            StarterModel("grok-4.3", "balanced", ("grok",)),
        ),
        speaks=_CHAT_AND_RESPONSES,
        note="counts reasoning beside `completion_tokens`; it is charged as output",
    ),
    ModelService(
        "together",
        "Together",
        "https://api.together.xyz/v1",
        ("TOGETHER_API_KEY",),
        (StarterModel("meta-llama/Llama-3.3-70B-Instruct-Turbo", "balanced", ("llama",)),),
        renames=_OLD_LIMIT,
    ),
    ModelService(
        "fireworks",
        "Fireworks",
        "https://api.fireworks.ai/inference/v1",
        ("FIREWORKS_API_KEY",),
        (
            StarterModel("accounts/fireworks/models/gpt-oss-20b", "fast", ("fireworks-small",)),
            StarterModel("accounts/fireworks/models/kimi-k2p6", "balanced", ("kimi",)),
        ),
        speaks=_CHAT_AND_RESPONSES,
        renames=_OLD_LIMIT,
        note="model names begin with `accounts/`",
    ),
    ModelService(
        "cerebras",
        "Cerebras",
        "https://api.cerebras.ai/v1",
        ("CEREBRAS_API_KEY",),
        (StarterModel("gpt-oss-120b", "fast", ("cerebras",)),),
        renames={"max_tokens": "max_completion_tokens"},
        note="an error stands in the body itself, not below `error`",
    ),
    ModelService(
        "openrouter",
        "OpenRouter",
        "https://openrouter.ai/api/v1",
        ("OPENROUTER_API_KEY",),
        (
            StarterModel("openai/gpt-5-mini", "fast", ("router-mini",)),
            StarterModel("openai/gpt-5.2", "balanced", ("router-gpt",)),
        ),
        speaks=_CHAT_AND_RESPONSES,
        note="names its caller by `headers: {HTTP-Referer: …, X-Title: …}`; comments keep a "
        "stream open; an error may stand inside a stream",
    ),
    ModelService(
        "perplexity",
        "Perplexity",
        "https://api.perplexity.ai",
        ("PERPLEXITY_API_KEY", "PPLX_API_KEY"),
        (
            StarterModel("sonar", "fast", ("sonar",)),
            StarterModel("sonar-pro", "balanced", ("sonar-pro",)),
        ),
        renames=_OLD_LIMIT,
        leaves_out=("stream_options",),
        note="each chunk of a stream tells the usage so far; searches are billed beside tokens",
    ),
    ModelService(
        "ollama",
        "Ollama",
        "http://127.0.0.1:11434",
        models=(StarterModel("llama3.2", "fast", ("llama-here",)),),
        location="local",
        renames=_OLD_LIMIT,
        note="cuts a prompt that is longer than its window: set `OLLAMA_CONTEXT_LENGTH` and the "
        "same `max_context_tokens`",
    ),
    ModelService(
        "vllm",
        "vLLM",
        "http://127.0.0.1:8000",
        location="local",
        speaks=_CHAT_AND_RESPONSES,
        note=_PLACE,
    ),
    ModelService("sglang", "SGLang", "http://127.0.0.1:30000", location="local", note=_PLACE),
    ModelService(
        "llamacpp",
        "llama.cpp server",
        "http://127.0.0.1:8080",
        location="local",
        renames=_OLD_LIMIT,
        note=f"{_PLACE}; serves the model it was started with, by any name",
    ),
    ModelService(
        "lmstudio",
        "LM Studio",
        "http://127.0.0.1:1234",
        location="local",
        speaks=_CHAT_AND_RESPONSES,
        renames=_OLD_LIMIT,
        note=_PLACE,
    ),
)

SERVICE_BY_NAME: Final[dict[str, ModelService]] = {each.name: each for each in SERVICES}

SPOKEN: Final = {each.name: each.speaks for each in SERVICES}
"""The wire formats that each kind of provider can speak."""
