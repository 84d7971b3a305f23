"""The story of a turn, read once from the ledger for every surface that shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Final, Literal

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from pointsman.audit.recorded_turns import (
    FALLBACK,
    OPINION,
    OVERRIDE,
    TURN,
    check_recorded,
    order_of,
    read_decision,
    turn_named,
)
from pointsman.calls.call_end import END_FORM
from pointsman.errors import IntegrityFailure, MissingSnapshot, ReplayError
from pointsman.kernel.entry import Entry
from pointsman.kernel.instant import LATEST, Instant
from pointsman.kernel.record import DECISION, OUTCOME, read_recorded
from pointsman.kernel.record import OUTCOME_FORM as RESULT_FORM
from pointsman.placement.trace import OUTCOME_FORM as PLACEMENT_OUTCOME_FORM
from pointsman.placement.trace import TRACE_FORM as PLACEMENT_TRACE_FORM
from pointsman.placement.trace import PlacementOutcome, PlacementTrace
from pointsman.storage.home import Home
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.stores.entries import ContentReader, LedgerReader, Stored
from pointsman.turns.compiled import compile_policy
from pointsman.turns.decide import DECISION_VERSION
from pointsman.turns.facts import FACTS_FORM, with_text
from pointsman.turns.policy import POLICY_FORM
from pointsman.turns.registry.models import lies_within
from pointsman.turns.story.turn_story import (
    REFUSALS,
    CallOutcome,
    CallRole,
    LaterDecision,
    PlacementRefusal,
    TurnCall,
    TurnStory,
    UnaskedCandidates,
    unasked_candidates,
)
from pointsman.turns.trace import Shown

PLACEMENT: Final = DECISION + "placement"
_LATER: Final[dict[str, Literal["fallback", "override", "opinion"]]] = {
    FALLBACK: "fallback",
    OVERRIDE: "override",
    OPINION: "opinion",
}
_BESIDE: Final[dict[str, CallRole]] = {f"{TURN}.shadow": "shadow", f"{TURN}.judge": "judge"}


def read_story(home: Home, name: str) -> TurnStory:
    """Read a turn by its id or that of any decision or call of it; `last` is the newest."""
    check_recorded(home)
    with told_errors(home.database), closing(home.reader()) as ledger:
        stored = turn_named(ledger, name)
        story = read_turn(ledger, stored)
        return replace(story, unasked=_find_unasked(home, ledger, stored, story.first))


def recent_stories(home: Home, most: int, before: Instant = LATEST) -> list[TurnStory]:
    """Read the latest turns before an instant, the newest first; without who was not asked."""
    if not home.database.exists():
        return []
    with told_errors(home.database), closing(home.reader()) as ledger:
        return [read_turn(ledger, each) for each in ledger.recent(TURN, before, most)]


def read_turn(ledger: LedgerReader, stored: Stored) -> TurnStory:
    """Read a turn from its first decision; without who was not asked."""
    first = read_decision(ledger, stored)
    about = [each for each in ledger.with_ref(stored.entry.ref) if each != stored]
    entries = [each for each in about if each.entry.kind in _LATER]
    later = tuple(_later(ledger, each) for each in entries)
    acting = [stored, *entries]
    calls = tuple(call for each in acting for call in read_calls(ledger, each, "turn"))
    model = later[-1].outcome.chosen_model if later else first.outcome.chosen_model
    beside = [(each, _BESIDE[each.entry.kind]) for each in about if each.entry.kind in _BESIDE]
    return TurnStory(
        first,
        later,
        calls,
        tuple(call for each, role in beside for call in read_calls(ledger, each, role)),
        tuple(
            _refusals(
                about,
                acting[-1],
                model,
                calls,
                lambda zones: _is_within(ledger, first.policy_id, model, zones),
            )
        ),
    )


def _later(ledger: LedgerReader, stored: Stored) -> LaterDecision:
    shown = read_decision(ledger, stored)
    facts = next(iter(ledger.attachments(stored)), None)
    return LaterDecision(
        _LATER[stored.entry.kind],
        shown.decision_id,
        shown.at,
        shown.outcome,
        shown.trace,
        () if facts is None else FACTS_FORM.decode(facts).excluded_models,
    )


def read_calls(ledger: LedgerReader, decision: Stored, role: CallRole) -> Iterator[TurnCall]:
    """Read the calls that acted on a decision, in order."""
    for each in ledger.with_ref(decision.entry.id):
        if each.entry.kind == OUTCOME:
            yield _call(each.entry, role)


def _call(entry: Entry, role: CallRole) -> TurnCall:
    try:
        ended = RESULT_FORM.read(entry.payload)
        end = END_FORM.read(bytes(ended.detail))
    except IntegrityFailure:
        # Another version's, or a changed one: for `verify` to name.
        return TurnCall(entry.ref, entry.at, role, "", "unknown")
    outcome: CallOutcome = "refused" if end.error_class in REFUSALS else ended.status
    call = TurnCall(
        entry.ref,
        entry.at,
        role,
        end.model,
        outcome,
        location=end.location,
        number=end.number,
        error_class=end.error_class,
        status=end.status,
        attempts=end.attempts,
        stop_reason=end.stop_reason,
        first_byte_us=end.first_byte_us,
        elapsed_us=end.elapsed_us,
    )
    spent = end.spent
    if spent is None:
        return call
    return replace(
        call,
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        cached_input_tokens=spent.cached_input_tokens,
        cache_creation_input_tokens=spent.cache_creation_input_tokens,
        cost_microusd=spent.cost_microusd,
        is_estimated=spent.is_estimated,
    )


def _refusals(
    about: Sequence[Stored],
    acting: Stored,
    model: str,
    calls: Sequence[TurnCall],
    is_within: Callable[[tuple[str, ...] | UnsetType], bool],
) -> Iterator[PlacementRefusal]:
    """Find the calls that its placement kept from going on: they left a placement and no call.

    A placement behind the last decision is that of a call that goes on (`calls.flow.continued`).
    """
    placed = [each for each in about if each.entry.kind == PLACEMENT]
    before = [each for each in placed if order_of(each) < order_of(acting)]
    is_escalated = bool(before) and read_placement(before[-1])[0].log_escalation
    is_local = any(call.location == "local" for call in calls if call.model == model)
    for each in placed[len(before) :]:
        outcome, trace = read_placement(each)
        is_let_go = is_escalated and trace.terminated_at == "autoModeLogic"
        if outcome.gate == "open" or (outcome.gate == "local" and is_local) or is_let_go:
            continue
        if outcome.gate == "zone" and is_within(outcome.zones):
            continue
        entry = each.entry
        yield PlacementRefusal(entry.id, entry.at, model, outcome.rule_id, outcome.reason)


def _is_within(
    ledger: LedgerReader, policy_id: str, name: str, zones: tuple[str, ...] | UnsetType
) -> bool:
    """Tell whether a model lies within zones, by the policy that a turn was decided under."""
    model = POLICY_FORM.form.decode(ledger.snapshot(policy_id).body).models.get(name)
    return model is not None and zones is not UNSET and lies_within(model, zones)


def read_placement(stored: Stored) -> tuple[PlacementOutcome, PlacementTrace]:
    """Read a recorded placement."""
    _, record, _ = read_recorded(stored.entry.payload)
    outcome, trace = bytes(record.outcome), bytes(record.trace)
    return PLACEMENT_OUTCOME_FORM.decode(outcome), PLACEMENT_TRACE_FORM.decode(trace)


def _find_unasked(
    home: Home, ledger: LedgerReader, stored: Stored, first: Shown
) -> UnaskedCandidates:
    """Work out who else would have taken a turn, by its recorded policy and facts."""
    if first.outcome.winner_index < 0:
        return UnaskedCandidates()
    if first.decision_version != DECISION_VERSION:
        return UnaskedCandidates(unknown=f"it was decided by version {first.decision_version}")
    try:
        ready = compile_policy(POLICY_FORM.form.decode(ledger.snapshot(first.policy_id).body))
        facts = FACTS_FORM.decode(ledger.attachment(stored, first.facts_id))
    except ReplayError as error:
        return UnaskedCandidates(unknown=error.message)
    missing = ""
    if ready.reads_text:
        with closing(ContentReader(home.content, home.content_key())) as texts:
            try:
                facts = with_text(facts, texts.text)
            except MissingSnapshot as error:
                missing = error.message
    return unasked_candidates(ready, facts, first.outcome, first.trace, missing)
