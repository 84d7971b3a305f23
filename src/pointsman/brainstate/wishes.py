"""Wishes for persistent effects: named, justified and handed on, never carried out (004 §6)."""

from __future__ import annotations

from collections.abc import Sequence

from pointsman.brainstate.events import ActionWished
from pointsman.brainstate.journal import Journal
from pointsman.brainstate.seeded import seeded_instant
from pointsman.brainstate.state import Attention, Goal
from pointsman.brainstate.trace import ActionWish, Why
from pointsman.kernel.number import billionths_text


def wished(
    events: Sequence[ActionWished],
    goals: Sequence[Goal],
    attention: Attention,
    tick: int,
    journal: Journal,
) -> tuple[ActionWish, ...]:
    """Turn what was wished for into requests, with the reason the state can give."""
    if not events:
        return ()
    made: list[ActionWish] = []
    for event in events:
        counter = journal.note("action_wished", event.origin, Why.ASKED, event.action_type)
        made.append(
            ActionWish(
                journal.happenings[-1].event_id,
                event.origin,
                event.action_type,
                event.payload,
                _justification(event, goals, attention, tick),
                seeded_instant(counter),
            )
        )
    return tuple(made)


def _justification(
    event: ActionWished, goals: Sequence[Goal], attention: Attention, tick: int
) -> str:
    """Say on whose behalf and in what state of mind it is wished; no word of the payload."""
    gain = billionths_text(attention.attention_gain)
    reward = billionths_text(attention.reward_signal)
    mind = f"attention_gain {gain}, reward_signal {reward}"
    goal = next((each for each in goals if each.goal_id == event.goal_id), None)
    aim = "no goal"
    if goal is not None:
        priority = billionths_text(goal.priority)
        aim = f"goal `{goal.goal_id}` ({goal.type}, {goal.status}, priority {priority})"
    return f"`{event.origin}` wishes `{event.action_type}` at tick {tick} for {aim}; {mind}"
