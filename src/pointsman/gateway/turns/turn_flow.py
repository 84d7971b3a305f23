"""How a turn begins, or goes on after a tool: its facts gathered, its flow started."""

from __future__ import annotations

from pointsman.calls.flow import Flow, TurnLock, continue_turn, turn
from pointsman.gateway.turns.turn import LiveTurn
from pointsman.recording.gathering import CallSurroundings
from pointsman.recording.placing import PlacedTurn
from pointsman.recording.ruling import policies_in_force
from pointsman.signals.tokens import TOKENIZER, count_tokens
from pointsman.turns.facts import ANY_MODEL, TurnFacts


def new_flow(live: LiveTurn) -> Flow:
    """Begin the flow of a turn: gather its facts, and rule it."""
    pointsman, request, in_force = live.parts.pointsman, live.request, live.in_force
    facts = pointsman.gathering.facts_of_call(
        in_force, request.look.last_user_text, _facts_around(live), live.asked_at, live.inline_mode
    )
    about = PlacedTurn(
        live.turn_id,
        live.session_id,
        live.asked_at,
        live.items if live.is_derived else None,
        live.tools,
        request.labels,
    )
    asked = pointsman.gather_placement(
        in_force, facts, about, live.leaving_text, None if live.operation else live.mask
    )
    return turn(
        policies_in_force(in_force),
        asked,
        facts,
        live.fallback,
        live.parts.health.claim,
        # A tool's result whose turn is not known any more: its side effects may be under way.
        may_ask=not request.look.is_continuation,
    )


def continue_flow(live: LiveTurn, lock: TurnLock) -> Flow:
    """Go on in a turn that waited for a tool."""
    pointsman, in_force, request = live.parts.pointsman, live.in_force, live.request
    live.turn_id, live.decision_id, live.locked = lock.turn_id, lock.decision_id, lock
    live.model = lock.model
    live.input_tokens = request.look.tokens(count_tokens)
    facts = TurnFacts(
        message=request.look.all_text() if in_force.placement.reads_content else "",
        privacy_level=request.privacy,
        estimated_input_tokens={ANY_MODEL: live.input_tokens},
        tokenizer=TOKENIZER,
    )
    about = PlacedTurn(
        lock.turn_id,
        live.session_id,
        pointsman.clock.now(),
        live.items if live.is_derived else None,
        live.tools,
        request.labels,
    )
    asked = pointsman.gather_placement(in_force, facts, about, live.leaving_text, live.mask)
    return continue_turn(policies_in_force(in_force), asked, lock)


def _facts_around(live: LiveTurn) -> CallSurroundings:
    """Gather what the request says beside its message."""
    parts, request = live.parts, live.request
    look, now, ahead = request.look, live.asked_at, live.ahead
    live.input_tokens = look.tokens(count_tokens)
    if ahead is not None:
        pinned, budgets = ahead.pinned_model, ahead.budgets
        availability = {**parts.health.now(), **ahead.denied}
    else:
        pinned = "" if request.meant.model else parts.sessions.pinned_model(live.session_id)
        budgets = parts.budgets.remaining(live.owners, live.caps, now) if live.caps else ()
        availability = parts.health.now()
    named = request.meant.model
    # With fallback for named models, a name is a wish like a pin: another model may take the turn.
    is_wish = live.fallback.for_named_models
    return CallSurroundings(
        turn_id=live.turn_id,
        input_tokens=live.input_tokens,
        named_model=None if is_wish else named or None,
        sticky_model=(named if is_wish else "") or pinned or None,
        max_output_tokens=look.max_output_tokens,
        workspace_path=request.workspace,
        has_images=look.has_images,
        has_tool_calls_in_history=look.has_tool_calls_in_history,
        has_tools=look.has_tools,
        has_system_prompt=look.has_system,
        requires_structured_output=look.wants_structured_output,
        privacy_level=request.privacy,
        availability=availability,
        allowed_models=request.caller.allowed_models,
        budgets=budgets,
        cost_today_microusd=parts.budgets.spent_today(now),
        caller=request.caller_facts,
        session_id=live.session_id,
        tool_names=look.offered_tools,
    )
