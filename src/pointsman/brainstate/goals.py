"""Goals: opened, tried, ended, paused and resumed, as events and limits say (004 §4.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from pointsman.brainstate.constants import Constants, DefaultUsed
from pointsman.brainstate.events import (
    AttemptFailed,
    GoalResumed,
    NewGoal,
    RepairLooped,
    ResultProduced,
)
from pointsman.brainstate.journal import Journal, seeded_instant
from pointsman.brainstate.state import Cause, Goal
from pointsman.brainstate.trace import Why
from pointsman.kernel.number import SCALE, Billionths, billionths_text, clamp, divide

GoalEvent = ResultProduced | AttemptFailed | RepairLooped | GoalResumed

_CAUSES: Final[Mapping[Why, Cause]] = {
    Why.BUDGET_EXHAUSTED: "budget_exhausted",
    Why.PREEMPTED: "preempted",
}


def priority_of(new: NewGoal, limits: Constants) -> Billionths:
    """Return the priority: as set, else the user's and the heuristic's, weighed."""
    if new.priority is not None:
        return new.priority
    user = limits.default_user_priority if new.user_specified is None else new.user_specified
    score = new.heuristic_score
    if score is None:
        score = limits.default_heuristic_score
    weighed = limits.user_priority_weight * user + limits.system_priority_weight * score
    return clamp(Billionths(divide(weighed, SCALE)))


def defaults_of(new: NewGoal, limits: Constants) -> list[DefaultUsed]:
    """List the defaults a goal's priority was computed with."""
    if new.priority is not None:
        return []
    given = {
        "user_specified": (new.user_specified, limits.default_user_priority),
        "heuristic_score": (new.heuristic_score, limits.default_heuristic_score),
    }
    return [
        DefaultUsed(f"goals.{new.goal_id}.{name}", billionths_text(default))
        for name, (value, default) in given.items()
        if value is None
    ]


def open_goal(new: NewGoal, limits: Constants, tick: int, counter: int) -> Goal:
    """Open a new goal; it is active unless it says otherwise."""
    return Goal(
        goal_id=new.goal_id,
        priority=priority_of(new, limits),
        type=new.type,
        status=new.status,
        created_at=seeded_instant(counter) if new.created_at is None else new.created_at,
        created_at_tick=tick,
        deadline_ts=new.deadline_ts,
        origin=new.origin,
        metadata=new.metadata,
        attempts=0,
        repair_loops=0,
        deliverable=new.deliverable,
        is_delivered=False,
        final_confidence=None,
        wm_ttl_ticks=new.wm_ttl_ticks,
        paused_because="given" if new.status == "paused" else "",
    )


class Goals:
    """The goals of one state while a tick works on them, in their order of creation."""

    __slots__ = ("_goals", "_journal", "_limits", "_places", "_tick", "has_new")

    def __init__(
        self, goals: Sequence[Goal], limits: Constants, tick: int, journal: Journal
    ) -> None:
        self._goals = list(goals)
        self._places: dict[str, int] = {}
        self._limits = limits
        self._tick = tick
        self._journal = journal
        self.has_new = False

    def open(self, new: NewGoal) -> None:
        """Add a goal, unless its id is taken."""
        if self._place(new.goal_id) is not None:
            self._journal.ignore("goal_created", new.goal_id, Why.GOAL_EXISTS)
            return
        priority = billionths_text(priority_of(new, self._limits))
        counter = self._journal.note(
            "goal_created", new.goal_id, Why.REPORTED, f"priority {priority}"
        )
        self._places[new.goal_id] = len(self._goals)
        self._goals.append(open_goal(new, self._limits, self._tick, counter))
        self.has_new = True

    def report(self, event: GoalEvent) -> None:
        """Apply an event to its goal; a goal that has ended does not change any more."""
        kind = event.__struct_config__.tag
        place = self._place(event.goal_id)
        if place is None:
            self._journal.ignore(str(kind), event.goal_id, Why.UNKNOWN_GOAL)
            return
        goal = self._goals[place]
        if goal.status in ("succeeded", "failed"):
            self._journal.ignore(str(kind), event.goal_id, Why.GOAL_OVER)
            return
        self._goals[place] = self._apply(goal, event)

    def _place(self, goal_id: str) -> int | None:
        # Most ticks report about no goal, so the places are found by the first that does.
        if len(self._places) < len(self._goals):
            self._places = {each.goal_id: place for place, each in enumerate(self._goals)}
        return self._places.get(goal_id)

    def settle(self, *, is_exhausted: bool) -> tuple[Goal, ...]:
        """Return the goals after every due transition: ended, then paused or resumed."""
        goals, live = [], []
        for each in self._goals:
            goal = self._end_if_due(each) if each.status == "active" else each
            goals.append(goal)
            if goal.status == "active" or is_live(goal):
                live.append(goal.priority)
        if not live:
            return tuple(goals)
        least = max(live) - self._limits.preemption_margin
        if not is_exhausted and self._are_all_active(goals, least):
            return tuple(goals)
        due = Why.BUDGET_EXHAUSTED if is_exhausted else Why.PREEMPTED
        return tuple(
            [
                self._pause_or_resume(each, due if is_exhausted or each.priority < least else None)
                for each in goals
            ]
        )

    @staticmethod
    def _are_all_active(goals: Sequence[Goal], least: int) -> bool:
        """Whether no goal is paused, nor to be: the most frequent case by far."""
        return not [each for each in goals if each.paused_because or each.priority < least]

    def _apply(self, goal: Goal, event: GoalEvent) -> Goal:
        if isinstance(event, ResultProduced):
            return self._apply_result(goal, event)
        if isinstance(event, AttemptFailed):
            count = goal.attempts + 1
            detail = f"attempts {count} of {self._limits.max_attempts}"
            self._journal.note("attempt_failed", goal.goal_id, Why.REPORTED, detail)
            return replace(goal, attempts=count)
        if isinstance(event, RepairLooped):
            count = goal.repair_loops + 1
            detail = f"repair loops {count} of {self._limits.max_repair_loops}"
            self._journal.note("repair_loop", goal.goal_id, Why.REPORTED, detail)
            return replace(goal, repair_loops=count)
        return self._resume(goal)

    def _apply_result(self, goal: Goal, event: ResultProduced) -> Goal:
        if goal.deliverable not in ("", event.deliverable):
            self._journal.ignore("result", goal.goal_id, Why.OTHER_DELIVERABLE)
            return goal
        detail = f"final_confidence {billionths_text(event.final_confidence)}"
        self._journal.note("result", goal.goal_id, Why.REPORTED, detail)
        return replace(goal, is_delivered=True, final_confidence=event.final_confidence)

    def _resume(self, goal: Goal) -> Goal:
        if goal.paused_because != "given":
            self._journal.ignore("goal_resumed", goal.goal_id, Why.NOT_HELD)
            return goal
        self._journal.note("goal_resumed", goal.goal_id, Why.ASKED)
        return replace(goal, status="active", paused_because="")

    def _end_if_due(self, goal: Goal) -> Goal:
        limits, confidence = self._limits, goal.final_confidence
        if (
            goal.is_delivered
            and confidence is not None
            and confidence >= limits.confidence_threshold
        ):
            self._journal.note("goal_succeeded", goal.goal_id, Why.DELIVERED)
            return replace(goal, status="succeeded")
        if goal.attempts >= limits.max_attempts:
            self._journal.note("goal_failed", goal.goal_id, Why.ATTEMPTS_USED_UP)
            return replace(goal, status="failed")
        if goal.repair_loops >= limits.max_repair_loops:
            self._journal.note("goal_failed", goal.goal_id, Why.REPAIRS_USED_UP)
            return replace(goal, status="failed")
        return goal

    def _pause_or_resume(self, goal: Goal, due: Why | None) -> Goal:
        """Return a goal paused for the due cause, or resumed where there is none."""
        cause = "" if due is None else _CAUSES[due]
        if cause == goal.paused_because or not is_live(goal):
            return goal
        if due is not None:
            self._journal.note("goal_paused", goal.goal_id, due)
            return replace(goal, status="paused", paused_because=cause)
        self._journal.note("goal_resumed", goal.goal_id, Why.CAUSE_ENDED)
        return replace(goal, status="active", paused_because="")


def is_live(goal: Goal) -> bool:
    """Tell whether a goal is worked on, or would be if budget and precedence allowed it."""
    return goal.status == "active" or (goal.status == "paused" and goal.paused_because != "given")
