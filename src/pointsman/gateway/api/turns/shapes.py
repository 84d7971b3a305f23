"""What the lists of turns and sessions, the overview and a turn's record give over HTTP."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct

from pointsman.audit.turn_shapes import DifferenceRow, InstantText, TurnRow
from pointsman.gateway.api.shapes import Behind, LedgerState
from pointsman.placement.trace import Placed
from pointsman.turns.story.turn_story import TurnState

Object = Annotated[Raw, Meta(extra_json_schema={"type": "object"})]
Score = Annotated[Decimal, Meta(extra_json_schema={"minimum": 0, "maximum": 1})]


class ListedTurn(TurnRow, frozen=True, kw_only=True):
    """One turn of a list, with its placement and how it ended."""

    placement: Placed | None
    workspace: str = ""
    digest: str = ""
    rejected: int = 0
    is_worker: bool = False
    served_model: str = ""
    state: TurnState = "open"
    fallbacks: int = 0
    calls: int = 0
    error_class: str = ""
    cost_microusd: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    elapsed_ms: float = 0


class TurnsAnswer(Struct, frozen=True):
    """Turns, the newest first; `next` is the cursor of the next page."""

    turns: tuple[ListedTurn, ...]
    next: str | None
    behind: Behind


class FilterRow(Struct, frozen=True):
    """A value that turns have, and how many have it."""

    what: Literal["model", "policy", "rule", "workspace"]
    value: str
    turns: int


class FiltersAnswer(Struct, frozen=True):
    """The values that turns can be filtered by, the most used first."""

    values: tuple[FilterRow, ...]


class BucketRow(Struct, frozen=True):
    """The turns of five minutes that one model was chosen for, and their cost."""

    at: InstantText
    model: str
    turns: int
    fallbacks: int
    cost_microusd: int


class Percentiles(Struct, frozen=True):
    """Of so many values: half, 95 and 99 of a hundred are no longer than these."""

    count: int
    p50_ms: float
    p95_ms: float
    p99_ms: float


class PerformanceRow(Struct, frozen=True):
    """How the turns of a model, or of a provider, went; times are of turns that were answered."""

    name: str
    turns: int
    failed: int
    refused: int
    fallbacks: int
    cost_microusd: int
    took: Percentiles | None
    first_byte: Percentiles | None


class PerformanceAnswer(Struct, frozen=True):
    """How the turns of a span of time went. `is_cut` says that only the newest were looked at."""

    since: InstantText
    before: InstantText
    total: PerformanceRow
    by_model: tuple[PerformanceRow, ...]
    by_provider: tuple[PerformanceRow, ...]
    is_cut: bool
    behind: Behind


class LearnedRow(Struct, frozen=True):
    """The turns that similar turns sent to a model; `default_microusd` is their price elsewhere.

    That is the cost of the same tokens at the default model's price; null where it has none.
    """

    model: str
    turns: int
    failed: int
    cost_microusd: int
    default_microusd: int | None


class LearningAnswer(Struct, frozen=True):
    """What learning did in a span of time; `saved_microusd` is null where no price is known."""

    since: InstantText
    before: InstantText
    mode: str
    default_model: str
    turns: int
    all_turns: int
    saved_microusd: int | None
    by_model: tuple[LearnedRow, ...]
    behind: Behind


class OverviewAnswer(Struct, frozen=True):
    """The last day at a glance."""

    at: InstantText
    since: InstantText
    bucket_s: int
    buckets: tuple[BucketRow, ...]
    cost_today_microusd: int
    turns_today: int
    tainted_sessions: int
    ledger: LedgerState
    stops: tuple[str, ...]
    configuration: tuple[str, ...]
    default_model: str | None
    behind: Behind


class MessageShown(Struct, frozen=True):
    """A message as far as it may be shown: its text goes to admins, and only while it is kept."""

    digest: str
    characters: int
    text: str | None
    told: str


class LinkedEntry(Struct, frozen=True):
    """An entry of the ledger that belongs to a turn."""

    id: str
    kind: str
    at: InstantText
    chain: str
    seq: int
    hash: str
    detail: Object


class CallerTold(Struct, frozen=True):
    """The error that the caller of a turn without an answer got, in the words of its format."""

    status: int
    code: str
    message: str


class RecordAnswer(Struct, frozen=True):
    """The whole record of a turn: its facts, its policy, and the entries that followed."""

    turn_id: str
    decision_id: str
    session_id: str
    trace_id: str
    is_preview: bool
    product_version: str
    at: InstantText
    chain: str
    seq: int
    hash: str
    message: MessageShown
    facts: Object | None
    policy: Object | None
    policy_told: str
    linked: tuple[LinkedEntry, ...]
    caller_told: CallerTold | None = None


class TurnReplayed(Struct, frozen=True):
    """How re-running a turn's decision came out."""

    decision_id: str
    kind: str
    verdict: Literal["identical", "REPLAY_DIVERGENCE", "unable"]
    code: str
    reason: str
    differences: tuple[DifferenceRow, ...]
    recorded_bytes: int
    recorded_sha256: str


class ReplayedAnswer(Struct, frozen=True):
    """Every decision about a turn, run again."""

    decisions: tuple[TurnReplayed, ...]


class PlacementAnswer(Struct, frozen=True, omit_defaults=True):
    """A placement: a route, or an error with its code."""

    rule_id: str
    reason: str
    route: str = ""
    model: str | None = None
    error_code: str = ""
    decision_id: str = ""


class FeedbackBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A verdict on a turn: a score from 0 to 1, a thumb, or a sign to infer it from.

    A sign is the exit code of a test, 0 for success, or what the user did next. A verdict that is
    given outweighs it, whichever comes first.

    An evaluation gives itself an `eval_id`: sent again, it counts once. One that is less sure than
    a half, by its `confidence`, is recorded and counts for nothing. `decision_id` names the shadow
    run that is meant; without it, the answer that was given is.
    """

    turn_id: Annotated[str, Meta(min_length=1, max_length=128)]
    score: Score | None = None
    thumbs: Literal["up", "down"] | None = None
    exit_code: Annotated[int, Meta(ge=-(2**31), lt=2**31)] | None = None
    signal: Literal["retry", "manual_swap", "edit_followup"] | None = None
    comment: Annotated[str, Meta(max_length=10_000)] = ""
    eval_id: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    confidence: Score | None = None
    decision_id: Annotated[str, Meta(min_length=1, max_length=128)] | None = None


class FeedbackAnswer(Struct, frozen=True):
    """The recorded verdict, and whether the pattern store counted it."""

    feedback_id: str
    turn_id: str
    decision_id: str
    score: float
    pattern: Literal["counted", "unsure", "known", "no_such_turn", "no_patterns", "outweighed"]
