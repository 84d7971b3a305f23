"""One tick of a brain state: a pure function of the state and the inputs (004 §4).

Order: insertions and references, promotion, ageing and expiry, reward, attention, goals,
consolidated memory if due, wishes, and the tick's number last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from pointsman.brainstate.constants import Constants
from pointsman.brainstate.events import (
    ActionWished,
    AttemptFailed,
    Event,
    GoalCreated,
    Insertion,
    NodeFailed,
    Referenced,
    TickInputs,
    TokensReturned,
    TokensUsed,
)
from pointsman.brainstate.goals import Goals
from pointsman.brainstate.journal import Journal, seeded_instant
from pointsman.brainstate.memory import (
    TickMemory,
    age_items,
    drop_expired,
    recompute_cwm,
    split_promoted,
    with_items,
)
from pointsman.brainstate.state import Attention, BrainState, Cwm, CwmItem, Goal, RecentFailure
from pointsman.brainstate.trace import ActionWish, Happened, ModulatorChange, Reward, TickTrace, Why
from pointsman.kernel.canonical import MAX_INT
from pointsman.kernel.number import ONE, SCALE, ZERO, Billionths, billionths_text, clamp


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


def tick_state(state: BrainState, inputs: TickInputs) -> tuple[BrainState, TickTrace]:
    """Advance a state by one tick; return the new state and the trace. Never raises.

    INVARIANT: the resource budget, the constants and the warnings stay the old state's own.
    """
    limits, tick = state.constants, state.tick
    journal = Journal(state.job_seed, state.sequence)
    memory = _update_memory(state, inputs, journal)
    staying, leaving = split_promoted(memory.wm, tick, limits, journal)
    wm = age_items(staying, seeded_instant(state.sequence), journal)
    held = drop_expired(memory.cwm, tick, journal)
    reward = weigh_reward(limits, council=inputs.council_approval, user=inputs.user_upvote)
    attention = update_attention(state.attention, reward.value, limits)
    reports = TickEvents(state, journal)
    reports.apply(inputs.events)
    goals = reports.goals.settle(is_exhausted=reports.is_exhausted)
    cwm = _consolidate(state, held, leaving, journal, has_new_goal=reports.goals.has_new)
    wishes = justify_wishes(reports.wishes, goals, attention, tick, journal)
    before = state.attention
    trace = TickTrace(
        state.brainstate_id,
        tick,
        tuple(journal.happenings),
        reward,
        ModulatorChange(before.attention_gain, attention.attention_gain),
        ModulatorChange(before.explore_bias, attention.explore_bias),
        wishes,
    )
    ended = BrainState(
        state.brainstate_id,
        state.job_seed,
        state.timestamp,
        tick + 1,
        journal.sequence + 1,
        goals,
        wm,
        cwm,
        attention,
        state.resource_budget,
        reports.tokens_consumed,
        tuple(reports.failures[: limits.max_recent_failures]),
        limits,
        state.warnings,
        seeded_instant(journal.sequence),
    )
    return ended, trace


def insert_items(state: BrainState, items: Iterable[Insertion]) -> BrainState:
    """Put items into memory between two ticks; they age in the next one."""
    journal = Journal(state.job_seed, state.sequence)
    memory = TickMemory(state, journal)
    for item in items:
        memory.insert(item)
    cwm = with_items(state.cwm, memory.cwm)
    return replace(state, sequence=journal.sequence, wm=tuple(memory.wm), cwm=cwm)


def _update_memory(state: BrainState, inputs: TickInputs, journal: Journal) -> TickMemory:
    memory = TickMemory(state, journal)
    for insertion in inputs.wm:
        memory.insert(insertion)
    for event in inputs.events:
        if isinstance(event, Referenced):
            memory.reference(event.wm_id)
    return memory


def _consolidate(
    state: BrainState,
    held: Sequence[CwmItem],
    leaving: Sequence[CwmItem],
    journal: Journal,
    *,
    has_new_goal: bool,
) -> Cwm:
    if leaving or has_new_goal:
        most_tokens = state.resource_budget.token_budget // state.constants.cwm_budget_divisor
        why = Why.PROMOTED if leaving else Why.NEW_GOAL
        return recompute_cwm([*held, *leaving], most_tokens, why, journal)
    return with_items(state.cwm, held)


def weigh_reward(limits: Constants, *, council: bool | None, user: bool | None) -> Reward:
    """Weigh the council's vote and the user's feedback (004 §4.3).

    Without a council the reward is 0. A user who contradicts the council is not counted.
    """
    is_counted = council is not None and user is council
    value = limits.council_weight if council else ZERO
    if is_counted and user:
        value = Billionths(value + limits.user_weight)
    return Reward(council, user, is_counted, clamp(value) if value else ZERO)


def update_attention(before: Attention, reward: Billionths, limits: Constants) -> Attention:
    """Let both modulators decay, then move by the reward and its complement (004 §4.4)."""
    gain = _move(before.attention_gain, limits.a_decay, reward, limits.a_gain)
    explore = _move(before.explore_bias, limits.e_decay, SCALE - reward, limits.e_gain)
    return Attention(gain, explore, reward)


def _move(old: Billionths, decay: Billionths, signal: int, gain: Billionths) -> Billionths:
    """Return a modulator after a tick, rounded once, half to even, within [0, 1]."""
    moved, rest = divmod(old * (SCALE - decay) + signal * gain, SCALE)
    twice = rest + rest
    if twice > SCALE or (twice == SCALE and moved & 1):
        moved += 1
    return Billionths(moved) if 0 < moved < SCALE else (ONE if moved > 0 else ZERO)
