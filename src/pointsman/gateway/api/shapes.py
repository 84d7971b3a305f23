"""What the product's own API takes and gives, as types: its schemas are made from these."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from pointsman.audit.turn_shapes import InstantText
from pointsman.kernel.record import Room
from pointsman.operations.providers import ProviderRow
from pointsman.placement.trace import Placed
from pointsman.storage.stores.spend_reading import Total
from pointsman.turns.registry.provider_state import ProviderRecovered

Text = Annotated[str, Meta(min_length=1, max_length=200)]
Score = Annotated[Decimal, Meta(extra_json_schema={"minimum": 0, "maximum": 1})]


class ErrorMeta(Struct, frozen=True):
    """Where to look further."""

    trace_id: str
    timestamp: InstantText


class ErrorAnswer(Struct, frozen=True):
    """An error outside the vendors' routes."""

    error_code: str
    status: int
    severity: Literal["info", "warning", "error"]
    user_message: str
    developer_message: str
    meta: ErrorMeta


class OpenApiAnswer(Struct, frozen=True):
    """An OpenAPI document."""

    openapi: str
    info: dict[str, Any]
    paths: dict[str, Any]
    components: dict[str, Any]


class HealthAnswer(Struct, frozen=True):
    """The process is there."""

    status: Literal["ok"]
    version: str


class LedgerState(Struct, frozen=True):
    """Whether entries are taken."""

    writable: bool
    cause: str


class ReplicaRow(Struct, frozen=True):
    """A replica that lives, and the policy it decides by."""

    replica: str
    chain: str
    policy_id: str
    version: str


class SharedReport(Struct, frozen=True):
    """How what is shared with other replicas stands; `redis` is null where none is used."""

    replica: str
    chain: str
    budgets: Literal["ok", "unavailable"]
    redis: Literal["ok", "down"] | None
    trouble: dict[str, str]
    replicas: tuple[ReplicaRow, ...]


class PolicyState(Struct, frozen=True, omit_defaults=True):
    """Which policy is in force, and where it comes from.

    A published one has its number and the id of its publication. `notice` says why the files are
    in force though the ledger is to be followed, or why the ledger cannot be read now.
    """

    source: Literal["files", "ledger"]
    policy_id: str
    placement_id: str
    number: int = 0
    publication_id: str = ""
    notice: str = ""


class ReadinessAnswer(Struct, frozen=True, omit_defaults=True):
    """Whether turns can be served, and what is wrong with any part; `shared` with replicas only."""

    status: Literal["ok", "unavailable", "draining"]
    ledger: LedgerState
    configuration: tuple[str, ...]
    policy: PolicyState
    shared: SharedReport | UnsetType = UNSET


class TurnRow(Struct, frozen=True):
    """One turn of a list."""

    turn_id: str
    decision_id: str
    session_id: str
    at: InstantText
    chosen_model: str
    policy: str
    rule_name: str | None
    is_preview: bool
    placement: Placed | None


class DecisionRow(Struct, frozen=True):
    """One recorded decision of any room; `ref` is what was decided about."""

    decision_id: str
    room: Room
    kind: str
    ref: str
    session_id: str
    trace_id: str
    at: InstantText
    decision_version: int
    policy_id: str
    facts_id: str
    is_preview: bool
    elapsed_ms: float
    outcome: Annotated[Raw, Meta(extra_json_schema={"type": "object"})]


class DecisionsAnswer(Struct, frozen=True):
    """The latest decisions, the newest first."""

    decisions: tuple[DecisionRow, ...]


class PlacementAnswer(Struct, frozen=True, omit_defaults=True):
    """A placement: a route, or an error with its code."""

    rule_id: str
    reason: str
    route: str = ""
    model: str | None = None
    error_code: str = ""
    decision_id: str = ""


class TaintRow(Struct, frozen=True):
    """Why a session stays on this machine."""

    turn_id: str
    rule_id: str
    since: InstantText


class SessionRow(Struct, frozen=True):
    """A session as its latest turns show it; costs are those on record."""

    session_id: str
    first_at: InstantText
    last_at: InstantText
    turns: int
    fallbacks: int
    model: str
    model_switches: int
    pinned_model: str | None
    taint: TaintRow | None
    calls: int
    cost_usd: str


class SessionsAnswer(Struct, frozen=True):
    """Sessions, the latest first, over so many of the latest turns."""

    sessions: tuple[SessionRow, ...]
    turns_looked_at: int


class PinBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The model that a session is bound to: an id or an alias."""

    model: Text


class PinAnswer(Struct, frozen=True):
    """The pin of a session; none when it was taken away."""

    session_id: str
    pinned_model: str | None


class ClearTaintBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Why a session may leave this machine again."""

    reason: Text


class ClearTaintAnswer(Struct, frozen=True):
    """The taint that was cleared."""

    session_id: str
    turn_id: str
    rule_id: str


class FeedbackBody(Struct, frozen=True, forbid_unknown_fields=True):
    """What somebody thinks of a turn: a score from 0 to 1, or a thumb.

    An evaluation gives itself an `eval_id`: sent again, it counts once. One that is less sure than
    a half, by its `confidence`, is recorded and counts for nothing. `decision_id` names the shadow
    run that is meant; without it, the answer that was given is.
    """

    turn_id: Annotated[str, Meta(min_length=1, max_length=128)]
    score: Score | None = None
    thumbs: Literal["up", "down"] | None = None
    comment: Annotated[str, Meta(max_length=10_000)] = ""
    eval_id: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    confidence: Score | None = None
    decision_id: Annotated[str, Meta(min_length=1, max_length=128)] | None = None


class FeedbackAnswer(Struct, frozen=True):
    """What was recorded, and whether the pattern store counted it."""

    feedback_id: str
    turn_id: str
    decision_id: str
    score: float
    pattern: Literal["counted", "unsure", "known", "no_such_turn", "no_patterns"]


class RateRow(Struct, frozen=True):
    """What a provider's limits leave right now; none where there is no such limit."""

    provider: str
    rpm: int | None
    tpm: int | None
    requests_left: int | None
    tokens_left: int | None
    free_in_s: float


class ProvidersAnswer(Struct, frozen=True):
    """Every provider and model as it stands."""

    rows: tuple[ProviderRow, ...]
    limits: tuple[RateRow, ...]


class ClearProviderBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Whose outage is to end: a provider with all its models, or one model."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]


class ClearProviderAnswer(Struct, frozen=True):
    """The scopes that may be called again; none where none was out."""

    name: str
    cleared: tuple[ProviderRecovered, ...]


class CostAnswer(Struct, frozen=True):
    """What was spent, in millionths of a dollar."""

    by_all: tuple[Total, ...] = ()
    by_model: tuple[Total, ...] = ()
    by_key: tuple[Total, ...] = ()
    by_session: tuple[Total, ...] = ()
    by_day: tuple[Total, ...] = ()
