"""Reads a state's view back: strictly, with every problem at its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import convert

from pointsman.brainstate.constants import Constants, read_constants
from pointsman.brainstate.reading import (
    canonical_text,
    fraction,
    instant_problems,
    value_problems,
)
from pointsman.brainstate.seeded import seeded_instant
from pointsman.brainstate.state import (
    Attention,
    BrainState,
    Cwm,
    CwmItem,
    Goal,
    RecentFailure,
    ResourceBudget,
    WmItem,
)
from pointsman.brainstate.view import (
    ShownCwm,
    ShownCwmItem,
    ShownGoal,
    ShownState,
    ShownWmItem,
)
from pointsman.errors import Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document, Path
from pointsman.kernel.instant import Instant, read_instant
from pointsman.kernel.schema import conform


def read_state(document: Document) -> BrainState:
    """Read a state as `state_view` writes it, or raise with every problem at its place."""
    return exact_state(conform(document, ShownState, state_problems))


def exact_state(shown: ShownState) -> BrainState:
    """Return the exact state of a view without problems."""
    mind, budget = shown.attention, shown.resource_budget
    return BrainState(
        brainstate_id=shown.brainstate_id,
        job_seed=shown.job_seed,
        timestamp=read_instant(shown.timestamp),
        tick=shown.tick,
        sequence=shown.sequence,
        goals=tuple(_goal(each) for each in shown.goals),
        wm=tuple(_wm_item(each) for each in shown.wm),
        cwm=Cwm(
            shown.cwm.topic, shown.cwm.tokens_used, tuple(_cwm_item(x) for x in shown.cwm.items)
        ),
        attention=Attention(
            fraction(mind.attention_gain), fraction(mind.explore_bias), fraction(mind.reward_signal)
        ),
        resource_budget=ResourceBudget(budget.token_budget, budget.max_depth_allowed),
        tokens_consumed=shown.tokens_consumed,
        recent_failures=tuple(
            RecentFailure(each.node_id, read_instant(each.ts), each.reason)
            for each in shown.recent_failures
        ),
        constants=convert(read_constants(shown.constants), Constants),
        warnings=shown.warnings,
        last_updated=read_instant(shown.last_updated),
    )


def state_problems(shown: ShownState, document: Document) -> Iterator[Problem]:
    """Find the problems of a state that a schema cannot express."""
    constants = read_constants(shown.constants)
    for name in Constants.__struct_fields__:
        if name not in constants:
            message = f"the constant `{name}` is missing: a state holds all of them"
            yield document.problem(("constants",), Code.MISSING_KEY, message)
    for key in ("timestamp", "last_updated"):
        yield from instant_problems(getattr(shown, key), document, (key,))
    for index, failure in enumerate(shown.recent_failures):
        yield from instant_problems(failure.ts, document, ("recent_failures", index, "ts"))
    for index, goal in enumerate(shown.goals):
        yield from _goal_problems(goal, document, ("goals", index))
    for index, item in enumerate(shown.wm):
        yield from _wm_problems(item, shown, document, ("WM", index))
    yield from _cwm_problems(shown.cwm, shown, document)
    yield from _duplicate_problems(
        [each.goal_id for each in shown.goals], document, ("goals",), "goal_id"
    )
    consolidated = {each.wm_id for each in shown.cwm.items}
    yield from _duplicate_problems(
        [each.wm_id for each in shown.wm], document, ("WM",), "wm_id", consolidated
    )


def _goal_problems(goal: ShownGoal, document: Document, path: Path) -> Iterator[Problem]:
    yield from value_problems(goal.metadata, document, (*path, "metadata"))
    if goal.deadline_ts is not None:
        yield from instant_problems(goal.deadline_ts, document, (*path, "deadline_ts"))
    yield from instant_problems(goal.created_at, document, (*path, "created_at"))
    if (goal.status == "paused") != (goal.paused_because != ""):
        message = "a goal has a cause in `paused_because` exactly while it is paused"
        yield document.problem((*path, "paused_because"), Code.INVALID_VALUE, message)


def _wm_problems(
    item: ShownWmItem, shown: ShownState, document: Document, path: Path
) -> Iterator[Problem]:
    yield from value_problems(item.value, document, (*path, "value"))
    yield from _creation_problems(item, shown, document, path)
    ticks = item.reference_ticks
    if not ticks or list(ticks) != sorted(ticks) or ticks[-1] > shown.tick:
        message = f"reference ticks ascend to `{shown.tick}` at most, and there is one at least"
        yield document.problem((*path, "reference_ticks"), Code.INVALID_VALUE, message)
    if len(ticks) > item.references:
        message = "there are more reference ticks than references"
        yield document.problem((*path, "references"), Code.INVALID_VALUE, message)


def _cwm_problems(cwm: ShownCwm, shown: ShownState, document: Document) -> Iterator[Problem]:
    for index, item in enumerate(cwm.items):
        path = ("CWM", "items", index)
        yield from value_problems(item.value, document, (*path, "value"))
        if max(item.promoted_at_tick, item.last_reference_tick) > shown.tick:
            message = f"a tick past `{shown.tick}`, the state's own"
            yield document.problem(path, Code.OUT_OF_RANGE, message)
    if cwm.tokens_used != sum(each.token_estimate for each in cwm.items):
        message = "`tokens_used` is not the sum of the items' `token_estimate`"
        yield document.problem(("CWM", "tokens_used"), Code.INVALID_VALUE, message)
    divisor = read_constants(shown.constants).get("cwm_budget_divisor", 1)
    most = shown.resource_budget.token_budget // divisor
    if cwm.tokens_used > most:
        message = f"must be at most {most}, got `{cwm.tokens_used}`"
        yield document.problem(("CWM", "tokens_used"), Code.OUT_OF_RANGE, message)
    yield from _duplicate_problems(
        [x.wm_id for x in cwm.items], document, ("CWM", "items"), "wm_id"
    )


def _creation_problems(
    made: ShownWmItem, shown: ShownState, document: Document, path: Path
) -> Iterator[Problem]:
    found = list(instant_problems(made.created_at, document, (*path, "created_at")))
    yield from found
    # An item that is not older than the state would not age in its next tick.
    if not found and read_instant(made.created_at) >= seeded_instant(shown.sequence):
        message = "made at or after the state's own `sequence`"
        yield document.problem((*path, "created_at"), Code.OUT_OF_RANGE, message)
    if made.created_at_tick > shown.tick:
        message = f"must be at most {shown.tick}, the state's own tick"
        yield document.problem((*path, "created_at_tick"), Code.OUT_OF_RANGE, message)


def _duplicate_problems(
    names: list[str], document: Document, path: Path, key: str, taken: Iterable[str] = ()
) -> Iterator[Problem]:
    seen = set(taken)
    for index, name in enumerate(names):
        if name in seen:
            message = f"`{name}` is listed already"
            yield document.problem((*path, index, key), Code.INVALID_VALUE, message)
        seen.add(name)


def _goal(shown: ShownGoal) -> Goal:
    confidence = shown.final_confidence
    return Goal(
        goal_id=shown.goal_id,
        priority=fraction(shown.priority),
        type=shown.type,
        status=shown.status,
        created_at=read_instant(shown.created_at),
        created_at_tick=shown.created_at_tick,
        deadline_ts=_instant(shown.deadline_ts),
        origin=shown.origin,
        metadata=canonical_text(shown.metadata),
        attempts=shown.attempts,
        repair_loops=shown.repair_loops,
        deliverable=shown.deliverable,
        is_delivered=shown.is_delivered,
        final_confidence=None if confidence is None else fraction(confidence),
        wm_ttl_ticks=shown.wm_ttl_ticks,
        paused_because=shown.paused_because,
    )


def _wm_item(shown: ShownWmItem) -> WmItem:
    return WmItem(
        shown.wm_id,
        shown.type,
        canonical_text(shown.value),
        shown.ttl_ticks,
        read_instant(shown.created_at),
        shown.created_at_tick,
        shown.references,
        shown.reference_ticks,
        shown.token_estimate,
    )


def _cwm_item(shown: ShownCwmItem) -> CwmItem:
    return CwmItem(
        shown.wm_id,
        shown.type,
        canonical_text(shown.value),
        shown.references,
        shown.last_reference_tick,
        shown.promoted_at_tick,
        shown.ttl_ticks,
        shown.token_estimate,
    )


def _instant(text: str | None) -> Instant | None:
    return None if text is None else read_instant(text)
