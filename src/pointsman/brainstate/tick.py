"""One step of a job's mind: a pure function of the state and the inputs (004 §4).

Order: insertions and references, promotion, ageing and expiry, reward, attention, goals,
consolidated memory if due, wishes, and the tick's number last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pointsman.brainstate.attention import attended, rewarded
from pointsman.brainstate.consolidation import expired, recomputed, with_items
from pointsman.brainstate.events import Inputs, Insertion, Referenced
from pointsman.brainstate.journal import Journal
from pointsman.brainstate.memory import Memory, aged, promoted
from pointsman.brainstate.reports import Reports
from pointsman.brainstate.seeded import seeded_instant
from pointsman.brainstate.state import BrainState, Cwm, CwmItem
from pointsman.brainstate.trace import Change, TickTrace, Why
from pointsman.brainstate.wishes import wished


def ticked(state: BrainState, inputs: Inputs) -> tuple[BrainState, TickTrace]:
    """Advance a state by one tick; give the new state and what happened. Never raises.

    INVARIANT: the resource budget, the constants and the warnings stay the old state's own.
    """
    limits, tick = state.constants, state.tick
    journal = Journal(state.job_seed, state.sequence)
    memory = _remembered(state, inputs, journal)
    staying, leaving = promoted(memory.wm, tick, limits, journal)
    wm = aged(staying, seeded_instant(state.sequence), journal)
    held = expired(memory.cwm, tick, journal)
    reward = rewarded(limits, council=inputs.council_approval, user=inputs.user_upvote)
    attention = attended(state.attention, reward.value, limits)
    reports = Reports(state, journal)
    reports.take(inputs.events)
    goals = reports.goals.settled(is_exhausted=reports.is_exhausted)
    cwm = _consolidated(state, held, leaving, journal, has_new_goal=reports.goals.has_new)
    wishes = wished(reports.wishes, goals, attention, tick, journal)
    before = state.attention
    trace = TickTrace(
        state.brainstate_id,
        tick,
        tuple(journal.happenings),
        reward,
        Change(before.attention_gain, attention.attention_gain),
        Change(before.explore_bias, attention.explore_bias),
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


def inserted(state: BrainState, items: Iterable[Insertion]) -> BrainState:
    """Put items into memory between two ticks; they age in the next one."""
    journal = Journal(state.job_seed, state.sequence)
    memory = Memory(state, journal)
    for item in items:
        memory.insert(item)
    return BrainState(
        state.brainstate_id,
        state.job_seed,
        state.timestamp,
        state.tick,
        journal.sequence,
        state.goals,
        tuple(memory.wm),
        with_items(state.cwm, memory.cwm),
        state.attention,
        state.resource_budget,
        state.tokens_consumed,
        state.recent_failures,
        state.constants,
        state.warnings,
        state.last_updated,
    )


def _remembered(state: BrainState, inputs: Inputs, journal: Journal) -> Memory:
    memory = Memory(state, journal)
    for insertion in inputs.wm:
        memory.insert(insertion)
    for event in inputs.events:
        if isinstance(event, Referenced):
            memory.reference(event.wm_id)
    return memory


def _consolidated(
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
        return recomputed([*held, *leaving], most_tokens, why, journal)
    return with_items(state.cwm, held)
