"""The events of one tick applied: goals, failures, tokens, and wishes for persistent effects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pointsman.brainstate.events import (
    ActionWished,
    AttemptFailed,
    Event,
    GoalCreated,
    NodeFailed,
    Referenced,
    TokensReturned,
    TokensUsed,
)
from pointsman.brainstate.goals import Goals
from pointsman.brainstate.journal import Journal
from pointsman.brainstate.seeded import seeded_instant
from pointsman.brainstate.state import Attention, BrainState, Goal, RecentFailure
from pointsman.brainstate.trace import ActionWish, Happened, Why
from pointsman.kernel.canonical import MAX_INT
from pointsman.kernel.number import billionths_text


class TickEvents:
    """The state besides memory while a tick runs; lives for one tick and is never shared."""

    __slots__ = ("_budget", "_journal", "failures", "goals", "tokens_consumed", "wishes")

    def __init__(self, state: BrainState, journal: Journal) -> None:
        self.goals = Goals(state.goals, state.constants, state.tick, journal)
        self.failures = list(state.recent_failures)
        self.tokens_consumed = state.tokens_consumed
        self.wishes: list[ActionWished] = []
        self._budget = state.resource_budget.token_budget
        self._journal = journal

    @property
    def is_exhausted(self) -> bool:
        """Whether no token of the budget is left."""
        return self.tokens_consumed >= self._budget

    def apply(self, events: Iterable[Event]) -> None:
        """Apply the events in their order; references belong to memory and are skipped."""
        for event in events:
            # The most frequent ones first.
            if isinstance(event, Referenced):
                continue
            if isinstance(event, (TokensUsed, TokensReturned)):
                self._count(event)
            elif isinstance(event, GoalCreated):
                self.goals.open(event.goal)
            elif isinstance(event, ActionWished):
                self.wishes.append(event)
            elif isinstance(event, NodeFailed):
                self._note_failure(event.node_id, event.reason)
            else:
                if isinstance(event, AttemptFailed) and event.node_id:
                    self._note_failure(event.node_id, event.reason)
                self.goals.report(event)

    def _count(self, event: TokensUsed | TokensReturned) -> None:
        is_used = isinstance(event, TokensUsed)
        total = self.tokens_consumed + (event.tokens if is_used else -event.tokens)
        self.tokens_consumed = min(max(total, 0), MAX_INT)
        detail = f"consumed {self.tokens_consumed} of {self._budget}"
        kind: Happened = "tokens_used" if is_used else "tokens_returned"
        self._journal.note(kind, "", Why.REPORTED, detail)

    def _note_failure(self, node_id: str, reason: str) -> None:
        counter = self._journal.note("failure_noted", node_id, Why.REPORTED)
        self.failures.insert(0, RecentFailure(node_id, seeded_instant(counter), reason))


def justify_wishes(
    events: Sequence[ActionWished],
    goals: Sequence[Goal],
    attention: Attention,
    tick: int,
    journal: Journal,
) -> tuple[ActionWish, ...]:
    """Name and justify the wishes for persistent effects; none is executed (004 §6)."""
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
    """Write the goal and the modulators behind a wish; no word of the payload."""
    gain = billionths_text(attention.attention_gain)
    reward = billionths_text(attention.reward_signal)
    mind = f"attention_gain {gain}, reward_signal {reward}"
    goal = next((each for each in goals if each.goal_id == event.goal_id), None)
    aim = "no goal"
    if goal is not None:
        priority = billionths_text(goal.priority)
        aim = f"goal `{goal.goal_id}` ({goal.type}, {goal.status}, priority {priority})"
    return f"`{event.origin}` wishes `{event.action_type}` at tick {tick} for {aim}; {mind}"
