"""`pointsman.yaml`: how a home is run. No decision depends on it."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Annotated, Literal

from msgspec import Meta, Struct

from pointsman.errors import Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.content import Retain
from pointsman.kernel.document import Document
from pointsman.kernel.literal import AtLeastOne, Fraction
from pointsman.kernel.schema import conform
from pointsman.kernel.yaml_text import parse_yaml
from pointsman.storage.policies.detector_settings import PrivacySettings, detector_problems
from pointsman.storage.policies.retention_settings import (
    RetentionSettings,
    retention_problems,
)
from pointsman.storage.policies.secrets import SecretSettings
from pointsman.storage.policies.tool_settings import (
    McpServer,
    ToolSettings,
    server_problems,
    tool_problems,
)
from pointsman.storage.policies.witness_settings import WitnessSettings, witness_problems
from pointsman.storage.store_url import POSTGRES, SQLITE
from pointsman.turns.registry.models import model_id

REDIS = ("redis://", "rediss://", "unix://")
Port = Annotated[int, Meta(ge=0, le=65535)]
Seconds = Annotated[int, Meta(ge=1, le=86_400)]
Bytes = Annotated[int, Meta(ge=1024, le=1 << 30)]
MOST_WORKERS = 32


class Server(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the gateway listens, and its limits.

    `hosts` are names that a request may ask for beside the address itself; without any, only
    loopback names are answered on a loopback address. `max_keyless_bytes` is how much callers
    without a valid key, taken together, may have sent that is not answered yet. When told to stop,
    it says so by its readiness and serves on for `drain_s`; what is in flight then gets `grace_s`
    to end. `workers` is how many processes serve; limits of connections and bytes are each one's.
    """

    host: str = "127.0.0.1"
    port: Port = 8484
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    max_body_bytes: Bytes = 32 * 1024 * 1024
    max_keyless_bytes: Bytes = 16 * 1024 * 1024
    body_timeout_s: Seconds = 30
    max_head_bytes: Bytes = 64 * 1024
    head_timeout_s: Seconds = 10
    write_timeout_s: Seconds = 30
    max_connections: Annotated[int, Meta(ge=1, le=100_000)] = 2048
    drain_s: Annotated[int, Meta(ge=0, le=3600)] = 0
    grace_s: Annotated[int, Meta(ge=1, le=3600)] = 10
    workers: Annotated[int, Meta(ge=1, le=MOST_WORKERS)] | None = None


class ReplicaSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How replicas on one database live together.

    `lease_s` is how long a replica may give no sign of life before its holds are free again.
    """

    lease_s: Annotated[int, Meta(ge=3, le=600)] = 10


class PolicySettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the policy comes from: this machine's files, or the ledger's newest publication.

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


class UpstreamSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How many connections there may be to each provider, and how long one is kept unused.

    With `warm`, a gateway opens a connection to each provider when it starts, and another one
    whenever the last that rests is taken: no turn waits for a name, a connection or TLS. No
    connection is used longer than `max_age_s`, so that addresses which change are found. `ca_file`
    holds authorities beside the system's; `proxy` is whether HTTPS_PROXY, HTTP_PROXY and NO_PROXY
    count. Read when a process starts.
    """

    max_connections: Annotated[int, Meta(ge=1, le=65_536)] = 4096
    max_idle: Annotated[int, Meta(ge=0, le=65_536)] = 256
    idle_s: Seconds = 30
    max_age_s: Seconds = 600
    warm: bool = False
    ca_file: str = ""
    proxy: Literal["environment", "none"] = "environment"


class Telemetry(Struct, frozen=True, forbid_unknown_fields=True):
    """The log of calls beside the ledger; message text never goes into it."""

    logs: Literal["off", "json"] = "json"


class ReceiptSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Whether answers name their receipt in `x-pointsman-receipt`.

    `base_url` is where callers reach this gateway; without it the header holds a path.
    """

    in_answers: bool = False
    base_url: Annotated[str, Meta(max_length=200, pattern=r"^(https?://[!-~]+)?$")] = ""


class WorkflowSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The actions open to stages of workflows and targets of sensors; others are refused.

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


class RateTerms(Struct, frozen=True, forbid_unknown_fields=True):
    """How much a key or a tenant may ask for; without limit where nothing is said.

    `rpm` and `tpm` are requests and tokens a minute, `concurrent` the calls at one time.
    """

    rpm: AtLeastOne | None = None
    tpm: AtLeastOne | None = None
    concurrent: AtLeastOne | None = None


NO_TERMS = RateTerms()


class TenantTerms(RateTerms, frozen=True, forbid_unknown_fields=True):
    """What all keys of a tenant may ask for, and which models, by id; None means all."""

    allowed_models: tuple[str, ...] | None = None


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a home; without a file, these defaults.

    `store` is the URL of a PostgreSQL database; --store and POINTSMAN_STORE come before it.
    `redis` is the URL of a Redis for its replicas; POINTSMAN_REDIS comes before it. `tenants` are
    the limits and models of tenants by name, `*` those of every other one.
    """

    store: str = ""
    redis: str = ""
    replicas: ReplicaSettings = ReplicaSettings()
    policy: PolicySettings = PolicySettings()
    retain: Retain = "full"
    privacy: PrivacySettings = PrivacySettings()
    retention: RetentionSettings = RetentionSettings()
    inline_override: Literal["known", "strict", "off"] = "known"
    server: Server = Server()
    fallback: FallbackSettings = FallbackSettings()
    availability: AvailabilitySettings = AvailabilitySettings()
    limits: Limits = Limits()
    upstream: UpstreamSettings = UpstreamSettings()
    telemetry: Telemetry = Telemetry()
    receipts: ReceiptSettings = ReceiptSettings()
    workflow: WorkflowSettings = WorkflowSettings()
    judge: JudgeSettings = JudgeSettings()
    tools: ToolSettings = ToolSettings()
    mcp_servers: dict[str, McpServer] = {}
    secrets: SecretSettings = SecretSettings()
    tenants: dict[str, TenantTerms] = {}
    witnesses: WitnessSettings = WitnessSettings()


def read_settings(text: bytes, source: str) -> Settings:
    """Read `pointsman.yaml`, or raise with every problem at its place."""
    document = parse_yaml(text, source)
    is_empty = document.value is None and not document.problems
    return Settings() if is_empty else conform(document, Settings, _problems)


def _problems(settings: Settings, document: Document) -> Iterable[Problem]:
    yield from tool_problems(settings.tools, document)
    yield from detector_problems(settings.privacy, document)
    yield from server_problems(settings.mcp_servers, document)
    yield from retention_problems(settings.retention, document)
    yield from witness_problems(settings.witnesses, document)
    yield from _store_problems(settings.store, document)
    if settings.redis and not settings.redis.startswith(REDIS):
        hint = "write redis://HOST:PORT/0"
        message = "this is not the URL of a Redis"
        yield document.problem(("redis",), Code.INVALID_VALUE, message, hint)
    for name, terms in settings.tenants.items():
        for index, model in enumerate(terms.allowed_models or ()):
            if ":" not in model_id(model):
                message = f"`{model[:100]}` is no id of a model"
                at = ("tenants", name, "allowed_models", index)
                yield document.problem(at, Code.INVALID_VALUE, message, "write provider:model")
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
