"""Fields that a dialect lacks: hints are left out and listed, content is refused.

The rule: settings that only steer how an answer is made (sampling, caching, service, bookkeeping)
may be lost, and each loss is listed. Content (messages, tools, the form of the answer, how many
answers) may not: it is refused. docs/reference/translation.md is made of this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec import Raw, Struct

from pointsman.errors import InputError
from pointsman.kernel.codes import Meaning
from pointsman.providers.messages import Hint, ModelRequest

_SAYS_NOTHING = frozenset({b"null", b"false", b"{}", b"[]", b'""'})
_ZERO = frozenset({b"0", b"0.0"})


def read_hints(
    top: Mapping[str, Raw], names: Iterable[str], known: Collection[str], unsaid: list[str]
) -> tuple[Hint, ...]:
    """Collect the hints of a body; an unknown field is noted as unsaid."""
    wanted = tuple(names)
    unknown = (key for key in top if key not in known and key not in wanted)
    unsaid.extend(f"{Loss.UNKNOWN_FIELD}: {key[:64]}" for key in unknown)
    return tuple(Hint(name, top[name]) for name in wanted if says_something(name, top.get(name)))


def says_something(name: str, value: Raw | None) -> bool:
    """Say whether a hint asks for anything else than what happens without it."""
    if value is None:
        return False
    text = bytes(value)
    return text not in _SAYS_NOTHING and (name == "seed" or text not in _ZERO)


def write_hints(
    request: ModelRequest, names: Collection[str], body: dict[str, object], losses: Losses
) -> None:
    """Write the hints that a dialect has, and note the others as lost."""
    for hint in request.hints:
        if hint.name in names:
            body[hint.name] = hint.value
        else:
            losses.add_named(hint.name)


class Loss(Meaning):
    """One thing that may be left out; `meaning` is the sentence callers and the page show."""

    # Sampling.
    TEMPERATURE = "temperature", "the target model takes no temperature"
    TEMPERATURE_RANGE = "temperature_range", "messages takes at most 1; what is above counts as 1"
    TOP_P = "top_p", "the target model takes no top_p, or none beside a temperature"
    TOP_K = "top_k", "only messages and gemini have top_k"
    SEED = "seed", "only chat and gemini have a seed"
    FREQUENCY_PENALTY = "frequency_penalty", "only chat and gemini have a frequency penalty"
    PRESENCE_PENALTY = "presence_penalty", "only chat and gemini have a presence penalty"
    LOGIT_BIAS = "logit_bias", "only chat has a logit bias"
    LOGPROBS = "logprobs", "log probabilities do not come through a translation"
    TOP_LOGPROBS = "top_logprobs", "log probabilities do not come through a translation"
    PREDICTION = "prediction", "only chat takes a predicted output"
    VERBOSITY = "verbosity", "messages and gemini have no verbosity"

    # Reasoning.
    THINKING = "thinking", "reasoning belongs to the vendor whose model wrote it"
    THINKING_EFFORT = "thinking_effort", "the target model is not known to take a reasoning effort"
    THINKING_OFF = "thinking_off", "the target model always reasons"
    THINKING_BUDGET = "thinking_budget", "max_tokens leaves no room for a thinking budget"
    THINKING_WITH_TOOL = (
        "thinking_with_tool",
        "claude does not think where a tool is forced, or on in a step it began without thinking",
    )
    THINKING_DISPLAY = "thinking_display", "only messages says how thinking is shown"
    REASONING_SUMMARY = "reasoning_summary", "only responses asks for a summary of the reasoning"

    # Caching, service and bookkeeping.
    CACHE_CONTROL = "cache_control", "cache marks belong to the vendor that reads them"
    PROMPT_CACHE_KEY = "prompt_cache_key", "messages has no cache key"
    PROMPT_CACHE_RETENTION = "prompt_cache_retention", "messages has no cache retention"
    PROMPT_CACHE_OPTIONS = "prompt_cache_options", "messages has no cache options"
    SERVICE_TIER = "service_tier", "service tiers belong to the vendor that sells them"
    USER = "user", "gemini and converse have no id of a user"
    METADATA = "metadata", "messages has no free metadata"
    SAFETY_IDENTIFIER = "safety_identifier", "messages has no safety identifier"
    STORE = "store", "nothing is stored for later when the request is translated"
    INCLUDE = "include", "only responses can ask for more parts of the answer"
    TRUNCATION = "truncation", "only responses truncates by itself"
    MAX_TOOL_CALLS = "max_tool_calls", "only responses limits the calls of built-in tools"
    STREAM_OPTIONS = "stream_options", "options of the stream other than its usage"
    CONTEXT_MANAGEMENT = "context_management", "only the vendor itself can edit the context"
    INFERENCE_GEO = "inference_geo", "only messages names a region for the inference"
    SPEED = "speed", "only messages has a speed"
    MODERATION = "moderation", "only the openai formats moderate a request"

    # Parts of messages that carry no words.
    CITATIONS = "citations", "citations point into documents that are not translated"
    IMAGE_DETAIL = "image_detail", "messages has no detail of an image"
    MESSAGE_NAME = "message_name", "only chat gives the writer of a message a name"
    TOOL_ERROR = "tool_error", "chat and responses mark no result of a tool as an error"
    TOOL_OPTIONS = "tool_options", "options of a tool that only its vendor knows"
    TOOL_PARALLEL = "tool_parallel", "only said together with a choice that allows a tool"
    TOOL_IMAGE_PLACE = (
        "tool_image_place",
        "chat and gemini have no images in the results of tools; they follow behind them",
    )
    SYSTEM_PLACE = (
        "system_place",
        "the target takes system messages only in front; later ones were moved there",
    )
    OUTPUT_NAME = (
        "output_name",
        "messages and gemini give the form of an answer no name or description",
    )
    VENDOR_SEARCH = (
        "vendor_search",
        "a search of the vendor's own index that may not reach the network is left out",
    )
    UNKNOWN_FIELD = "unknown_field", "a field this version does not know"


class CannotSayCode(Meaning):
    """One thing that must not be left out; `meaning` is the sentence the page shows."""

    AUDIO = "no_audio_support", "audio, in a message or asked for as an answer"
    FILE = "no_file_support", "documents, and files or images named by an id of the vendor"
    IMAGE_URL = "no_image_url_support", "an image by an address that is neither https nor data"
    IMAGE_TYPE = "no_image_type_support", "an image that is no jpeg, png, gif or webp"
    SERVER_TOOL = "no_server_tool_support", "tools that the vendor runs, and what they gave back"
    CUSTOM_TOOL = "no_custom_tool_support", "tools whose input is text or a grammar"
    ALLOWED_TOOLS = "no_allowed_tools_support", "a choice among some of the tools"
    LEGACY_FUNCTIONS = "no_legacy_functions_support", "`functions` and `function_call` of old"
    STATEFUL = "no_stateful_responses_support", "what refers to something the vendor has stored"
    CHOICES = "no_multiple_choices_support", "more than one answer"
    STOP = "no_stop_sequence_support", "stop sequences, which responses does not have"
    JSON_MODE = (
        "no_json_mode_support",
        "json without a schema, which messages and converse do not have",
    )
    TOOL_CHOICE_NONE = (
        "no_forbidden_tools_support",
        "converse cannot forbid tools in use",
    )
    CONTENT = "no_content_support", "a kind of content this version does not know"


class Lost(Struct, frozen=True):
    """Something that was left out, and why."""

    what: str
    why: str


class WrittenRequest(Struct, frozen=True):
    """A request in its target's dialect, and its losses."""

    body: bytes
    lost: tuple[Lost, ...] = ()


class CannotSay(InputError):
    """the target's format cannot say this, and leaving it out would change its meaning"""

    code = "input.cannot_say"

    def __init__(
        self,
        message: str = "",
        *,
        where: str = "",
        hint: str = "",
        refusal: CannotSayCode = CannotSayCode.CONTENT,
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.refusal = refusal

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (self.message, self.where, self.hint, self.refusal))


def _rebuild(message: str, where: str, hint: str, refusal: CannotSayCode) -> CannotSay:
    return CannotSay(message, where=where, hint=hint, refusal=refusal)


def refuse(refusal: CannotSayCode, what: str) -> CannotSay:
    """Return the error for something that must not be left out; `what` is what the caller wrote."""
    return CannotSay(
        f"`{what}` cannot be translated: {refusal.meaning}",
        hint="choose a model that is served in the format of the request",
        refusal=refusal,
    )


_BY_CODE = {each.value: each for each in Loss}


class Losses:
    """Collects the losses, each kind once, in the order met."""

    def __init__(self, unsaid: tuple[str, ...] = ()) -> None:
        self._lost: dict[Lost, None] = {}
        for each in unsaid:
            self.add_named(each)

    def add(self, loss: Loss) -> None:
        """Note one loss."""
        self._lost[Lost(loss.value, loss.meaning)] = None

    def add_named(self, name: str) -> None:
        """Note a loss by its name; `unknown_field: x` keeps the name of the field."""
        code, _, field = name.partition(": ")
        loss = _BY_CODE[code]
        self._lost[Lost(loss.value, f"{loss.meaning}: `{field}`" if field else loss.meaning)] = None

    def all(self) -> tuple[Lost, ...]:
        """Return all losses."""
        return tuple(self._lost)
