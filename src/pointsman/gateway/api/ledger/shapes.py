"""What auditing over HTTP takes and gives: replay, verification, backtests, what left."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from pointsman.audit.backtest.forecast import Forecast
from pointsman.audit.backtest.result import PlaceShift, Unable
from pointsman.audit.turn_shapes import InstantText
from pointsman.audit.verify import Doubt
from pointsman.audit.witnessed import ShownProof
from pointsman.kernel.record import Room
from pointsman.kernel.verification import Fault


class DecisionRow(Struct, frozen=True):
    """One recorded decision of any room; `ref` is its subject."""

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
    """Whether the ledger is whole, and against whom each range is proven."""

    intact: bool
    entries: int
    faults: tuple[Fault, ...]
    doubts: tuple[Doubt, ...]
    proofs: tuple[ShownProof, ...]


MOST_OTHERS: Final = 8
"""So many further policies are decided in the pass of the first: each takes its own time."""

Names = Annotated[tuple[Annotated[str, Meta(max_length=300)], ...], Meta(max_length=100)]


class BacktestBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The other policy, as the text of `routing.yaml`, and of `models.yaml` where that differs.

    `others` are further policies by name, for the same pass. `prices` are written like
    `acme:big=3,15`, `out` are providers and models that are down, `without` models that are gone.
    """

    policy: Annotated[str, Meta(min_length=1, max_length=1 << 20)]
    models: Annotated[str, Meta(max_length=1 << 20)] | None = None
    since: str | None = None
    previews: bool = True
    others: Annotated[dict[str, str], Meta(max_length=MOST_OTHERS)] = {}
    prices: Names = ()
    out: Names = ()
    without: Names = ()


class BisectBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The move of turns: `CONDITION moved from MODEL to MODEL`."""

    flip: Annotated[str, Meta(min_length=1, max_length=10_000)]
    since: str | None = None


class CauseRow(Struct, frozen=True):
    """A part of the state that turned the turn, and the entry that changed it."""

    part: str
    fields: tuple[str, ...]
    was: str
    became: str
    entry_id: str
    entry_kind: str
    at: InstantText


class BisectAnswer(Struct, frozen=True):
    """Two neighbouring turns, and the fewest changes between them that turn one."""

    turns: int
    steps: int
    probe: str
    last_before: str
    first_after: str
    causes: tuple[CauseRow, ...]


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
    """The changes under the other policy, and their cost."""

    turns: int
    changed_count: int
    changed: tuple[ChangeRow, ...]
    shifts: tuple[Shift, ...]
    by_rule: dict[str, int]
    models_before: dict[str, int]
    models_after: dict[str, int]
    input_cost: InputCostAnswer
    places: PlaceShift
    forecast: Forecast
    unable_count: int
    unable: tuple[Unable, ...]
    others: dict[str, BacktestAnswer] | UnsetType = UNSET
    """The further policies by name, where any were given."""


class EgressRow(Struct, frozen=True):
    """One decision under which a turn left this machine, with its departures as `calls`.

    `is_advice` marks a placement rule that let nothing leave: it only said where it would go.
    """

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
    calls: int
    is_advice: bool


class EgressFault(Struct, frozen=True):
    """A fault of the ledger that says so."""

    code: str
    message: str


class EgressAnswer(Struct, frozen=True):
    """What left this machine since an instant, and whether that is proved.

    `left` counts turns, `departures` the calls that left.
    """

    since: InstantText
    turns: int
    previews: int
    left: int
    departures: int
    rows: tuple[EgressRow, ...]
    violations: tuple[EgressRow, ...]
    proved: bool
    unreadable: int
    ledger_entries: int
    fault: EgressFault | None
