"""One tick of a brain state: a pure function of the state and the inputs (004 §4).

Order: insertions and references, promotion, ageing and expiry, reward, attention, goals,
consolidated memory if due, wishes, and the tick's number last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from pointsman.brainstate.constants import Constants
from pointsman.brainstate.events import Insertion, Referenced, TickInputs
from pointsman.brainstate.journal import Journal
from pointsman.brainstate.memory import (
    TickMemory,
    age_items,
    drop_expired,
    recompute_cwm,
    split_promoted,
    with_items,
)
from pointsman.brainstate.reports import TickEvents, justify_wishes
from pointsman.brainstate.seeded import seeded_instant
from pointsman.brainstate.state import Attention, BrainState, Cwm, CwmItem
from pointsman.brainstate.trace import ModulatorChange, Reward, TickTrace, Why
from pointsman.kernel.number import ONE, SCALE, ZERO, Billionths, clamp


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
