"""`pointsman.yaml`: how a home is run. Says nothing about what is decided."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Annotated, Literal

from msgspec import Meta, Struct

from pointsman.errors import Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.content import Retain
from pointsman.kernel.document import Document
from pointsman.kernel.schema import conform
from pointsman.kernel.written_numbers import Fraction
from pointsman.kernel.yaml_text import parse_yaml
from pointsman.storage.policies.tool_settings import (
    McpServer,
    ToolSettings,
    server_problems,
    tool_problems,
)
from pointsman.storage.store_url import POSTGRES, SQLITE

REDIS = ("redis://", "rediss://", "unix://")
Port = Annotated[int, Meta(ge=0, le=65535)]
Seconds = Annotated[int, Meta(ge=1, le=86_400)]
Bytes = Annotated[int, Meta(ge=1024, le=1 << 30)]


class Server(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the gateway listens, and what it takes.

    `hosts` are names that a request may ask for beside the address itself; without any, only
    loopback names are answered on a loopback address. When told to stop, it says so by its
    readiness and serves on for `drain_s`; what is in flight then gets `grace_s` to end.
    """

    host: str = "127.0.0.1"
    port: Port = 8484
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    max_body_bytes: Bytes = 32 * 1024 * 1024
    body_timeout_s: Seconds = 30
    max_head_bytes: Bytes = 64 * 1024
    head_timeout_s: Seconds = 10
    write_timeout_s: Seconds = 30
    max_connections: Annotated[int, Meta(ge=1, le=100_000)] = 2048
    drain_s: Annotated[int, Meta(ge=0, le=3600)] = 0
    grace_s: Annotated[int, Meta(ge=1, le=3600)] = 10


class ReplicaSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How replicas on one database live together.

    `lease_s` is how long one may give no sign of life before what it holds is free again.
    """

    lease_s: Annotated[int, Meta(ge=3, le=600)] = 10


class PolicySettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the policy comes from: this machine's files, or what was published in the ledger.

    Read when a process starts.
    """

    source: Literal["files", "ledger"] = "files"


class AvailabilitySettings(Struct, frozen=True, forbid_unknown_fields=True):
    """When a provider or model that is out is tried again.

    `probe_after_s` is how long after the last attempt one turn at a time may try it; never where
    its key was refused. Without it, nothing is tried before five minutes have passed. Read when a
    process starts.
    """

    probe_after_s: Annotated[int, Meta(ge=1, le=300)] | None = None


class FallbackSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Whether another model may take over from one that failed, at which price, and how it is told.

    An answer always names the models that failed in a header; `in_band` says it in its text, too.
    """

    mode: Literal["on", "off"] = "on"
    notice: Literal["header", "in_band"] = "header"
    most_attempts: Annotated[int, Meta(ge=1, le=10)] = 3
    for_named_models: bool = False
    max_price_ratio: Annotated[int, Meta(ge=1, le=1000)] | None = None


class Limits(Struct, frozen=True, forbid_unknown_fields=True):
    """How long upstream calls may take, in seconds."""

    connect_s: Seconds = 10
    head_s: Seconds = 300
    idle_s: Seconds = 120
    total_s: Seconds = 1800


class Telemetry(Struct, frozen=True, forbid_unknown_fields=True):
    """What is told about calls beside the ledger; message text never is."""

    logs: Literal["off", "json"] = "json"


class WorkflowSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What stages of workflows and targets of sensors may do; what is not listed is refused.

    `commands` are programs, as the action names them; `hosts` are hosts beside this machine, with
    their port where it is not the usual one; `python` are modules whose functions may be called.
    """

    commands: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    timeout_s: Seconds = 60


class JudgeSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Which model judges answers, by which rubric; off while no model is named.

    Judged are the turns that were explored or run in the shadow, and of all others this share.
    """

    model: Annotated[str, Meta(max_length=200)] = ""
    rubric: Annotated[str, Meta(max_length=4_000)] = ""
    share: Fraction = Decimal(0)


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a home; without a file, these defaults.

    `store` is the URL of a PostgreSQL database; --store and POINTSMAN_STORE come before it.
    `redis` is the URL of a Redis for its replicas; POINTSMAN_REDIS comes before it.
    """

    store: str = ""
    redis: str = ""
    replicas: ReplicaSettings = ReplicaSettings()
    policy: PolicySettings = PolicySettings()
    retain: Retain = "full"
    inline_override: Literal["known", "strict", "off"] = "known"
    server: Server = Server()
    fallback: FallbackSettings = FallbackSettings()
    availability: AvailabilitySettings = AvailabilitySettings()
    limits: Limits = Limits()
    telemetry: Telemetry = Telemetry()
    workflow: WorkflowSettings = WorkflowSettings()
    judge: JudgeSettings = JudgeSettings()
    tools: ToolSettings = ToolSettings()
    mcp_servers: dict[str, McpServer] = {}


def read_settings(text: bytes, source: str) -> Settings:
    """Read `pointsman.yaml`, or raise with every problem at its place."""
    document = parse_yaml(text, source)
    is_empty = document.value is None and not document.problems
    return Settings() if is_empty else conform(document, Settings, _problems)


def _problems(settings: Settings, document: Document) -> Iterable[Problem]:
    yield from tool_problems(settings.tools, document)
    yield from server_problems(settings.mcp_servers, document)
    yield from _store_problems(settings.store, document)
    if settings.redis and not settings.redis.startswith(REDIS):
        hint = "write redis://HOST:PORT/0"
        message = "this is not the URL of a Redis"
        yield document.problem(("redis",), Code.INVALID_VALUE, message, hint)
    for index, origin in enumerate(settings.server.origins):
        if not origin.startswith(("http://", "https://")) or origin.count("/") != 2:
            message = f"`{origin}` is not an origin"
            hint = "write it like https://app.example"
            path = ("server", "origins", index)
            yield document.problem(path, Code.INVALID_VALUE, message, hint)


def _store_problems(store: str, document: Document) -> Iterable[Problem]:
    if store and not store.startswith((*POSTGRES, SQLITE)):
        hint = "write postgresql://USER@HOST/DATABASE"
        yield document.problem(("store",), Code.INVALID_VALUE, "this is not a store's URL", hint)
