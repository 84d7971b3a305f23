"""The port every provider stands behind: bytes of one dialect in, bytes of the same dialect out.

A provider makes one call. The choice of the model, and of a fallback, is made elsewhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Final, Literal, Protocol, cast, get_args

from msgspec import Struct

from pointsman.errors import PointsmanError
from pointsman.providers.key_choice import KeyChoice
from pointsman.providers.secret import CallerLogin
from pointsman.turns.registry.call_event import Result

Dialect = Literal["chat", "responses", "messages", "gemini", "converse"]
"""The wire formats: OpenAI's chat completions and responses, Anthropic's messages; and Google's
generateContent and Amazon's Converse, in which providers are spoken to and no caller speaks."""

Operation = Literal[
    "", "embeddings", "completions", "images/generations", "images/edits", "audio/speech",
    "audio/transcriptions", "moderations", "rerank",
]  # fmt: skip
"""What a provider is asked for beside a dialect's own answer, by the end of its address: OpenAI's
other endpoints, and the reranking that several servers have."""

OPERATIONS: Final = cast("tuple[Operation, ...]", get_args(Operation)[1:])

ErrorClass = Literal[
    "rate_limit", "auth", "server_error", "network", "context_overflow", "invalid_request",
    "cancelled", "other", "timeout", "busy", "stopped",
]  # fmt: skip
"""Two are no words of the provider's. `busy`: all connections that we may have to it are in use;
`stopped`: an order of this home cut the call off."""


class Outgoing(Struct, frozen=True):
    """One request to a provider. `model` is the provider's own name for it, also in the body.

    `headers` are those of the caller that pass through: `anthropic-beta` and the like, never a
    credential, a host or a length.
    """

    dialect: Dialect
    model: str
    body: bytes
    is_stream: bool
    headers: tuple[tuple[str, str], ...] = ()
    operation: Operation = ""
    unit: str = ""
    """The session: its calls go to the same one of several keys."""
    input_tokens: int = 0
    """As estimated; counts against the limits of a deployment."""
    has_others: bool = False
    """Whether another deployment is asked if this one fails, sooner than it is asked again."""
    media_type: str = ""
    """Of a body that is not JSON: a form with a file in it."""
    login: CallerLogin | None = None
    """The caller's own, for a provider that takes no other."""


class Deadlines(Struct, frozen=True):
    """How long to wait, in seconds: to connect, for the head, between two chunks, in all."""

    connect_s: float = 10.0
    head_s: float = 300.0
    idle_s: float = 120.0
    total_s: float = 1800.0


class UpstreamAnswer(Protocol):
    """An answer on its way: its head is here, its body comes in pieces."""

    status: int
    headers: Mapping[str, str]
    """Lower-case names; of repeated ones the last."""
    attempts: int
    """How many tries this one call took, retries inside it included."""
    credential: str
    """Which credential was used, by its short id; empty where there is none. Never the secret."""
    key_choice: KeyChoice | None
    """How one of several credentials was chosen; None where there was no choice."""
    deployment_choice: KeyChoice | None
    """How one of the model's several deployments was chosen."""

    @property
    def is_over(self) -> bool:
        """Whether the piece given last is known to be the last; what ends unseen is not."""
        ...

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Return the body piece by piece; raises `UpstreamError` when it breaks off."""
        ...

    async def read(self) -> bytes:
        """Return the whole body."""
        ...

    async def close(self) -> None:
        """Let go of the answer, read or not; the connection is kept only when it was read."""
        ...


REQUEST_IDS: Final = ("x-request-id", "request-id", "apim-request-id", "x-amzn-requestid")


def provider_request_id(headers: Mapping[str, str]) -> str:
    """Return the id that a provider gave a request; empty where it told none that can be kept."""
    for name in REQUEST_IDS:
        told = headers.get(name, "")
        if told:
            return told if len(told) <= 200 and told.isascii() and told.isprintable() else ""
    return ""


class ModelProvider(Protocol):
    """Who answers."""

    name: str
    dialects: tuple[Dialect, ...]
    """Its dialects, the preferred one first."""

    async def send(self, outgoing: Outgoing, deadlines: Deadlines) -> UpstreamAnswer:
        """Make one call and give its answer once the head is a success.

        Raises `UpstreamError` for everything else: a status of 300 and more, no connection, a head
        that does not come. Retries inside the call are done when this returns or raises.
        """
        ...

    async def close(self) -> None:
        """Let go of connections and processes."""
        ...


class UpstreamError(PointsmanError):
    """the provider did not answer"""

    code = "provider.failed"
    exit_code = 1
    http_status = 502

    def __init__(  # noqa: PLR0913 - the facts of one failure
        self,
        message: str = "",
        *,
        where: str = "",
        hint: str = "",
        error_class: ErrorClass = "other",
        status: int = 0,
        body: bytes = b"",
        retry_after_s: float | None = None,
        is_policy_refusal: bool = False,
        attempts: int = 1,
        credential: str = "",
        said: str = "",
        headers: Mapping[str, str] | None = None,
        is_unreached: bool = False,
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.error_class = error_class
        self.status = status
        self.body = body
        self.retry_after_s = retry_after_s
        self.is_policy_refusal = is_policy_refusal
        self.attempts = attempts
        self.credential = credential
        self.said = said
        """The provider's own words; they may repeat the user's, so they go to the caller alone."""
        self.headers = headers or {}
        self.key_choice: KeyChoice | None = None
        self.deployment_choice: KeyChoice | None = None
        self.is_of_caller = False
        """Whether the caller's own login is missing or was refused: no fault of the provider's."""
        self.is_unreached = is_unreached
        """Whether no connection came about: no address, refused, no TLS, none in time."""

    @property
    def is_final(self) -> bool:
        """Whether waiting cannot mend it: a key of ours is refused, or the request is wrong."""
        return self.error_class in {"auth", "invalid_request", "context_overflow", "stopped"}

    @property
    def result(self) -> Result:
        """How the call ended for the availability of its model.

        Only a provider that was not reached can be out as a whole by its network; a connection
        that was there and broke off is a failure of the one call.
        """
        if self.is_of_caller:
            return "cancelled"
        if self.error_class == "busy" or self.error_class == "stopped":  # noqa: PLR1714 - narrows
            # As a call that was called off: it says nothing about the provider.
            return "cancelled"
        if self.is_unreached:
            return "network"
        return "cut" if self.error_class == "network" else self.error_class

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_error, (type(self), self.message, {**self.__dict__}))


def _rebuild_error(
    kind: type[UpstreamError], message: str, known: dict[str, object]
) -> UpstreamError:
    error = kind.__new__(kind, message)
    error.__dict__.update(known)
    return error


class PoolBusy(UpstreamError):
    """all connections to the provider are in use"""

    code = "provider.busy"
    http_status = 503

    def __init__(self, message: str = "", *, where: str = "", hint: str = "") -> None:
        super().__init__(message, where=where, hint=hint, error_class="busy", retry_after_s=1.0)


class NotConfigured(UpstreamError):
    """the provider is not configured"""

    code = "provider.not_configured"
    http_status = 503

    def __init__(
        self, message: str = "", *, where: str = "", hint: str = "", credential: str = ""
    ) -> None:
        super().__init__(message, where=where, hint=hint, error_class="auth", credential=credential)
