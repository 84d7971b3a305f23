"""The `delegate` tool: a planner's request to a worker, and its result. 002 §6.1, §6.6."""

from __future__ import annotations

from typing import Annotated, Final, Literal, NoReturn, get_args

import jsonschema_rs
import msgspec
from msgspec import Meta, Raw, Struct

from pointsman.errors import InputError
from pointsman.providers.messages import Image, Text, ToolUse
from pointsman.sessions.events.delegation import FailureMode, InsufficientContextRequest, Missing
from pointsman.sessions.tool import ToolDefinition
from pointsman.turns.registry.models import Tier

DELEGATE: Final = "delegate"
REQUEST_CONTEXT: Final = "_request_context"
MOST_AT_ONCE: Final = 4
TIMEOUT_S: Final = 300

PLANNER_ONLY: Final = frozenset({"memory_add", "memory_replace", "memory_consolidate", DELEGATE})
"""Tools that no worker gets, whatever it is allowed. 002 §6.2.1."""

Words = Annotated[str, Meta(min_length=1)]
Line = Annotated[int, Meta(ge=1)]


class File(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="file"):
    """A file, by reference: the worker reads it anew."""

    path: Words


class FileRange(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="file_range"
):
    """Some lines of a file, by reference; both ends are included."""

    path: Words
    lines: tuple[Line, Line]


class PastResult(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="tool_result"
):
    """An earlier tool result, inlined."""

    tool_use_id: Words


class PastMessage(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="message"):
    """An earlier message, inlined."""

    message_id: Words


class Inline(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="inline"):
    """A note of the planner, inlined."""

    label: Words
    text: str


Include = File | FileRange | PastResult | PastMessage | Inline


class Minimal(Struct, frozen=True, forbid_unknown_fields=True, tag_field="mode", tag="minimal"):
    """The task alone."""


class Explicit(Struct, frozen=True, forbid_unknown_fields=True, tag_field="mode", tag="explicit"):
    """The task and the items that the planner names."""

    include: tuple[Include, ...]


class DelegateRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The input of a `delegate` call."""

    tier: Tier
    task: Words
    context: Minimal | Explicit
    output_schema: dict[str, object] | None = None
    allowed_tools: tuple[str, ...] | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None


class WorkerContext(Struct, frozen=True):
    """The context of a worker: one line an item for its prompt, and the inlined blocks."""

    summary: str
    blocks: tuple[Text | Image, ...]


class Delegation(Struct, frozen=True):
    """One parsed call of `delegate`; `parent` is the event it follows from."""

    use: ToolUse
    given: DelegateRequest
    handed: WorkerContext
    tools: tuple[ToolDefinition, ...]
    """The tools of the planner itself."""
    parent: str = ""


class UsageSummary(Struct, frozen=True, forbid_unknown_fields=True):
    """The usage of a worker; cost and seconds are decimal texts."""

    model: str = ""
    turn_count: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: str = "0"
    wall_time_seconds: str = "0"
    tool_call_count: int = 0


class DelegateResult(Struct, frozen=True, forbid_unknown_fields=True):
    """The result for the planner: text, or an object where it gave a schema."""

    success: bool
    output: str | Raw
    error: str | None
    usage_summary: UsageSummary
    worker_session_id: str
    failure_mode: FailureMode | None = None

    def to_planner_json(self) -> bytes:
        """Return the result as the planner reads it: the five fields of the document."""
        return msgspec.json.encode(
            {
                "success": self.success,
                "output": self.output,
                "error": self.error,
                "usage_summary": self.usage_summary,
                "worker_session_id": self.worker_session_id,
            }
        )


_DECODER = msgspec.json.Decoder(DelegateRequest)
_REQUEST_DECODER = msgspec.json.Decoder(InsufficientContextRequest)


def read_delegation(use: ToolUse) -> DelegateRequest:
    """Read a planner's request; raises with its fault."""
    try:
        given = _DECODER.decode(use.input)
        if given.output_schema is not None:
            output_validator(given.output_schema)
    except msgspec.MsgspecError as error:
        raise InputError(_lower(str(error))) from None
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        raise InputError(f"the output schema cannot be used: {error}") from None
    return given


def output_validator(schema: dict[str, object]) -> jsonschema_rs.Validator:
    """Return the validator of a worker's answer.

    INVARIANT: no schema makes us read a file or ask the network; references stay inside it.
    """
    return jsonschema_rs.Draft202012Validator(schema, retriever=_refuse_lookup)


def _refuse_lookup(uri: str) -> NoReturn:
    raise ValueError(f"`{uri}` is not looked up")


def read_context_request(use: ToolUse) -> InsufficientContextRequest:
    """Read a worker's request for context, or raise."""
    try:
        return _REQUEST_DECODER.decode(use.input)
    except msgspec.MsgspecError as error:
        raise InputError(_lower(str(error))) from None


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _schema(value: object) -> Raw:
    return Raw(msgspec.json.encode(value))


_TEXT = {"type": "string"}
_INCLUDE = {
    "type": "object",
    "required": ["type"],
    "properties": {
        "type": {
            **_TEXT,
            "enum": ["file", "file_range", "tool_result", "message", "inline"],
            "description": "file and file_range are read anew by the worker; the rest is inlined",
        },
        "path": {**_TEXT, "description": "of a file or file_range"},
        "lines": {
            "type": "array",
            "items": {"type": "integer"},
            "description": "of a file_range: first and last line",
        },
        "tool_use_id": {**_TEXT, "description": "of a tool_result"},
        "message_id": {**_TEXT, "description": "of a message"},
        "label": {**_TEXT, "description": "of an inline note"},
        "text": {**_TEXT, "description": "of an inline note"},
    },
}

DELEGATE_TOOL: Final = ToolDefinition(
    DELEGATE,
    "Hand a focused sub-task to a worker on another tier and wait for its result. Up to four "
    "calls in one message run side by side.",
    _schema(
        {
            "type": "object",
            "required": ["tier", "task", "context"],
            "additionalProperties": False,
            "properties": {
                "tier": {**_TEXT, "enum": ["fast", "balanced", "deep"]},
                "task": {**_TEXT, "description": "a focused instruction for the worker"},
                "context": {
                    "type": "object",
                    "required": ["mode"],
                    "properties": {
                        "mode": {**_TEXT, "enum": ["minimal", "explicit"]},
                        "include": {"type": "array", "items": _INCLUDE},
                    },
                },
                "output_schema": {
                    "type": "object",
                    "description": "a JSON schema that the worker's answer must keep",
                },
                "allowed_tools": {
                    "type": "array",
                    "items": _TEXT,
                    "description": "the tools the worker may use; without it, the same as yours",
                },
                "max_tokens": {"type": "integer", "description": "a cap on the worker's output"},
            },
        }
    ),
    side_effects="none",
    requires_workspace=False,
    is_planner_only=True,
)

CONTEXT_TOOL: Final = ToolDefinition(
    REQUEST_CONTEXT,
    "End this task because something needed is missing; say what, so that it can be given.",
    _schema(
        {
            "type": "object",
            "required": ["missing", "summary"],
            "additionalProperties": False,
            "properties": {
                "missing": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["type", "ref", "hint"],
                        "additionalProperties": False,
                        "properties": {
                            "type": {
                                **_TEXT,
                                "enum": [*get_args(Missing)],
                            },
                            "ref": {**_TEXT, "description": "a path, an id or a name"},
                            "hint": {**_TEXT, "description": "what you would do with it"},
                        },
                    },
                },
                "summary": {**_TEXT, "description": "one sentence for a human"},
            },
        }
    ),
    side_effects="none",
    requires_workspace=False,
)


def worker_tools(
    planners: tuple[ToolDefinition, ...], allowed: tuple[str, ...] | None
) -> tuple[tuple[ToolDefinition, ...], tuple[str, ...]]:
    """Return the tools a worker gets, and the names that were asked for and dropped."""
    free = {
        each.name: each
        for each in planners
        if each.name not in PLANNER_ONLY and not each.is_planner_only
    }
    if allowed is None:
        return tuple(free.values()), ()
    wanted = tuple(dict.fromkeys(allowed))
    dropped = tuple(name for name in wanted if name not in free)
    return tuple(each for name, each in free.items() if name in wanted), dropped


Mode = Literal["minimal", "explicit"]


def context_mode(context: Minimal | Explicit) -> Mode:
    """Return the mode of a context."""
    return "minimal" if isinstance(context, Minimal) else "explicit"


def included_items(context: Minimal | Explicit) -> tuple[Include, ...]:
    """Return the items that the context includes."""
    return () if isinstance(context, Minimal) else context.include
