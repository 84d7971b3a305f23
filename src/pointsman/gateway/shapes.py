"""What the product's own API takes and gives, as types: its schemas are made from these."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct

from pointsman.access.caps import Each, Per
from pointsman.access.keys import KeyPrivacy, Scope
from pointsman.kernel.record import Room
from pointsman.kernel.verification import Fault
from pointsman.placement.trace import Placed
from pointsman.runs.backtest import Unable
from pointsman.runs.provider_view import ProviderRow
from pointsman.storage.sqlite.spend_reading import Total
from pointsman.turns.trace import Banner, RuleAttempt, Slot, ValidationFailure, Verdict
from pointsman.turns.written import Usd

Text = Annotated[str, Meta(min_length=1, max_length=200)]
InstantText = Annotated[str, Meta(description="RFC 3339, in UTC with microseconds")]
Score = Annotated[Decimal, Meta(extra_json_schema={"minimum": 0, "maximum": 1})]


class ErrorMeta(Struct, frozen=True):
    """Where to look further."""

    trace_id: str
    timestamp: InstantText


class ErrorAnswer(Struct, frozen=True):
    """An error outside the vendors' routes."""

    error_code: str
    status: int
    severity: Literal["warning", "error"]
    user_message: str
    developer_message: str
    meta: ErrorMeta


class HealthAnswer(Struct, frozen=True):
    """The process is there."""

    status: Literal["ok"]
    version: str


class LedgerState(Struct, frozen=True):
    """Whether entries are taken."""

    writable: bool
    cause: str


class ReadinessAnswer(Struct, frozen=True):
    """Whether turns can be served, and what is wrong with the files."""

    status: Literal["ok", "unavailable"]
    ledger: LedgerState
    configuration: tuple[str, ...]


class ChainLink(Struct, frozen=True):
    """What one slot of a turn's chain said."""

    policy: Slot
    verdict: Verdict
    candidate_model: str | None
    reason: str
    rule_name: str | None
    rule_attempts: tuple[RuleAttempt, ...]
    confidence: float | None
    validation_failure: ValidationFailure | None


class RouteDecided(Struct, frozen=True):
    """A turn's decision."""

    decision_id: str
    turn_id: str
    chosen_model: str
    winner_index: int
    decision_version: int
    policy_id: str
    facts_id: str
    elapsed_ms: float
    banners: tuple[Banner, ...]
    placement: Placed | None
    chain: tuple[ChainLink, ...]


class TurnAnswer(RouteDecided, frozen=True, kw_only=True):
    """A recorded turn, with its why-screen."""

    at: InstantText
    why: str


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


class TurnsAnswer(Struct, frozen=True):
    """The latest turns, the newest first."""

    turns: tuple[TurnRow, ...]


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
    """What somebody thinks of a turn: a score from 0 to 1, or a thumb."""

    turn_id: Annotated[str, Meta(min_length=1, max_length=128)]
    score: Score | None = None
    thumbs: Literal["up", "down"] | None = None
    comment: Annotated[str, Meta(max_length=10_000)] = ""


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


class CostAnswer(Struct, frozen=True):
    """What was spent, in millionths of a dollar."""

    by_all: tuple[Total, ...] = ()
    by_model: tuple[Total, ...] = ()
    by_key: tuple[Total, ...] = ()
    by_session: tuple[Total, ...] = ()
    by_day: tuple[Total, ...] = ()


class ReplayRow(Struct, frozen=True):
    """A decision that did not come out the same."""

    decision_id: str
    kind: str
    verdict: str
    code: str
    reason: str


class ReplayAnswer(Struct, frozen=True):
    """How many decisions came out the same, and which did not."""

    identical: int
    diverged: int
    unable: int
    others: tuple[ReplayRow, ...]


class VerifyAnswer(Struct, frozen=True):
    """Whether the ledger is whole."""

    intact: bool
    entries: int
    faults: tuple[Fault, ...]


class BacktestBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The other policy, as the text of `routing.yaml`, and of `models.yaml` where that differs."""

    policy: Annotated[str, Meta(min_length=1, max_length=1 << 20)]
    models: Annotated[str, Meta(max_length=1 << 20)] | None = None
    since: str | None = None
    previews: bool = True


class ChangeRow(Struct, frozen=True):
    """A turn that another model would take."""

    turn_id: str
    at: InstantText
    before_model: str
    after_model: str
    before_policy: str
    after_policy: str
    rule: str | None


class Shift(Struct, frozen=True):
    """How many turns go from one model to another."""

    before: str
    after: str
    count: int


class InputCostAnswer(Struct, frozen=True):
    """What reading the input costs under both policies."""

    turns: int
    before_usd: str
    after_usd: str
    difference_usd: str
    price_unknown: int
    no_model: int
    note: str


class BacktestAnswer(Struct, frozen=True):
    """What changes under the other policy, and what it costs."""

    turns: int
    changed_count: int
    changed: tuple[ChangeRow, ...]
    shifts: tuple[Shift, ...]
    by_rule: dict[str, int]
    models_before: dict[str, int]
    models_after: dict[str, int]
    input_cost: InputCostAnswer
    unable_count: int
    unable: tuple[Unable, ...]


class EgressRow(Struct, frozen=True):
    """One turn that left this machine."""

    at: InstantText
    turn_id: str
    decision_id: str
    session_id: str
    model: str
    slot: str
    rule: str
    placement_rule: str
    gate: str
    characters: int
    tokens: int
    call: Literal["ended", "not on record"]


class EgressFault(Struct, frozen=True):
    """What is wrong with the ledger that says so."""

    code: str
    message: str


class EgressAnswer(Struct, frozen=True):
    """What left this machine since an instant, and whether that is proved."""

    since: InstantText
    turns: int
    previews: int
    left: int
    rows: tuple[EgressRow, ...]
    violations: tuple[EgressRow, ...]
    proved: bool
    unreadable: int
    ledger_entries: int
    fault: EgressFault | None


class BudgetBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A budget of `routing.yaml`; one of the same name is replaced."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    limit_usd: Usd
    per: Literal["day", "month"] = "day"
    each: Each = "all"


class BudgetRow(Struct, frozen=True):
    """A budget; what is left is told where it is counted over all calls or belongs to a key."""

    name: str
    limit_usd: str
    per: Per
    each: Each
    left_usd: str | None
    resets_at: InstantText | None
    key_id: str | None = None


class BudgetsAnswer(Struct, frozen=True):
    """The budgets of the policy in force and of keys."""

    budgets: tuple[BudgetRow, ...]


class KeyRow(Struct, frozen=True):
    """A key, without its secret."""

    id: str
    name: str
    scopes: tuple[Scope, ...]
    allowed_models: tuple[str, ...] | None
    privacy: KeyPrivacy
    workspace: str
    created_at: InstantText
    expires_at: InstantText | None
    revoked_at: InstantText | None


class KeysAnswer(Struct, frozen=True):
    """Every key there ever was."""

    keys: tuple[KeyRow, ...]


class KeyMade(Struct, frozen=True):
    """A new key: its secret is told here and nowhere else."""

    id: str
    key: str
    name: str


class PolicyAnswer(Struct, frozen=True):
    """A policy file as it stands."""

    name: str
    text: str
    problems: tuple[str, ...]
    is_there: bool


class PolicyWritten(Struct, frozen=True):
    """The policy in force after a file was replaced."""

    name: str
    policy_id: str
    problems: tuple[str, ...]
