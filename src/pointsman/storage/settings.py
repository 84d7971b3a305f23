"""`pointsman.yaml`: how a home is run. Says nothing about what is decided."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from msgspec import Meta, Struct

from pointsman.errors import Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.content import Retain
from pointsman.kernel.document import Document
from pointsman.kernel.schema import conform
from pointsman.kernel.yaml_text import read_yaml
from pointsman.storage.tool_settings import (
    McpServer,
    ToolSettings,
    server_problems,
    tool_problems,
)

Port = Annotated[int, Meta(ge=0, le=65535)]
Seconds = Annotated[int, Meta(ge=1, le=86_400)]
Bytes = Annotated[int, Meta(ge=1024, le=1 << 30)]


class Server(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the gateway listens, and what it takes.

    `hosts` are names that a request may ask for beside the address itself; without any, only
    loopback names are answered on a loopback address.
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


class FallbackSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Whether another model may take over from one that failed, and at which price."""

    mode: Literal["on", "off"] = "on"
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


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a home; without a file, these defaults."""

    retain: Retain = "full"
    inline_override: Literal["known", "strict", "off"] = "known"
    server: Server = Server()
    fallback: FallbackSettings = FallbackSettings()
    limits: Limits = Limits()
    telemetry: Telemetry = Telemetry()
    workflow: WorkflowSettings = WorkflowSettings()
    tools: ToolSettings = ToolSettings()
    mcp_servers: dict[str, McpServer] = {}


def read_settings(text: bytes, source: str) -> Settings:
    """Read `pointsman.yaml`, or raise with every problem at its place."""
    document = read_yaml(text, source)
    return Settings() if document.value is None else conform(document, Settings, _problems)


def _problems(settings: Settings, document: Document) -> Iterable[Problem]:
    yield from tool_problems(settings.tools, document)
    yield from server_problems(settings.mcp_servers, document)
    for index, origin in enumerate(settings.server.origins):
        if not origin.startswith(("http://", "https://")) or origin.count("/") != 2:
            message = f"`{origin}` is not an origin"
            hint = "write it like https://app.example"
            path = ("server", "origins", index)
            yield document.problem(path, Code.INVALID_VALUE, message, hint)
