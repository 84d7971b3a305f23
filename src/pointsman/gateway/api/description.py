"""What is said about a route: who may ask, what is sent and given. No handler is known here."""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import Struct

from pointsman.access.roles import Scope
from pointsman.kernel.schema import Schema

Key = tuple[str, str]
"""A method and a path; a `{name}` stands for one part of it."""

Access = Literal["none", "any"] | Scope
"""`none` takes no key, `any` a key of whatever scope."""
ErrorShape = Literal["own", "openai", "anthropic", "rpc"]

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
TEXT: Final = "text/plain"
YAML: Final = "application/yaml"
LINES: Final = "application/x-ndjson"


class Parameter(Struct, frozen=True):
    """A part of the query, or a header."""

    name: str
    told: str
    schema: Schema
    place: Literal["query", "header"] = "query"


class Description(Struct, frozen=True):
    """One route.

    `body` and `answer` are types, whose schemas are published; without one, there is no JSON.
    `also` names a second media type that the answer may come in, `bare` a status with which the
    route ends where nothing is to be answered.
    """

    told: str
    access: Access
    answer: Any = None
    body: Any = None
    status: int = 200
    media: str = JSON
    body_media: str = JSON
    also: str = ""
    bare: int = 0
    parameters: tuple[Parameter, ...] = ()
    errors: tuple[int, ...] = ()
    shape: ErrorShape = "own"

    @property
    def needs_key(self) -> bool:
        """Whether anybody may ask."""
        return self.access != "none"


LIMIT: Final = Parameter(
    "limit",
    "how many rows at most",
    {"type": "integer", "minimum": 1, "maximum": 1000, "default": 50},
)


def instant(name: str, told: str) -> Parameter:
    """Give a parameter that is an instant."""
    return Parameter(name, told, {"type": "string", "format": "date-time"})


SINCE: Final = instant("since", "only from this instant on (RFC 3339)")
BEFORE: Final = instant("before", "only before this instant (RFC 3339)")

_PRINTABLE: Final = {"type": "string", "maxLength": 255, "pattern": "^[ -~]*$"}

CALL_HEADERS: Final = (
    Parameter("x-session-id", "names the conversation within the key", _PRINTABLE, "header"),
    Parameter(
        "x-pointsman-privacy",
        "may only tighten what the key says",
        {"type": "string", "enum": ["local", "cloud", "auto"]},
        "header",
    ),
    Parameter("x-pointsman-workspace", "the folder that rules look at", _PRINTABLE, "header"),
    Parameter("traceparent", "a W3C trace that this call belongs to", _PRINTABLE, "header"),
)

CALL_ERRORS: Final = (402, 404, 429, 502, 503, 504)
"""What a model call can end with beside what every route can."""

ANSWER_HEADERS: Final = {
    "x-pointsman-turn": "the turn",
    "x-pointsman-decision": "the decision in force",
    "x-pointsman-requested-model": "the model as the caller named it, percent-encoded",
    "x-pointsman-model": "our id of the model that served",
    "x-pointsman-policy": "the slot that chose it, or `turn_lock`",
    "x-pointsman-rule": "the rule that chose it, percent-encoded; only where one did",
    "x-pointsman-notice": "`turns.choice_rejected` where a model chosen by hand was passed over",
    "x-pointsman-fallback-from": "the models that failed, or were chosen by hand and passed over",
}
