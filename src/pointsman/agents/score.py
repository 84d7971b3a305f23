"""The score of one candidate, document 000's formula, exact: one rounding, after the whole sum."""

from __future__ import annotations

from collections.abc import Sequence

from pointsman.agents.codes import ReasonTag
from pointsman.agents.config import RouterConfig
from pointsman.agents.facts import GoalView, MindView
from pointsman.agents.ready import Row
from pointsman.agents.trace import Ranked, Scored, TieBreak
from pointsman.kernel.number import ONE, SCALE, ZERO, Billionths, divided, times

_SQUARE = SCALE * SCALE


class Goal:
    """An active goal with its share of the score, worked out once for all candidates."""

    __slots__ = ("goal_id", "priority", "served", "term", "type")

    def __init__(self, goal: GoalView, config: RouterConfig) -> None:
        self.goal_id = goal.goal_id
        self.type = goal.type
        self.priority = goal.priority
        self.served = config.weight_goal * goal.priority * SCALE
        self.term = times(config.weight_goal, goal.priority)


class Scoring:
    """What is the same for all candidates of a job."""

    __slots__ = ("explore", "goals", "min_score")

    def __init__(self, config: RouterConfig, mind: MindView) -> None:
        self.min_score = config.min_score
        self.explore = config.weight_bias * mind.explore_bias
        active = [each for each in mind.goals if each.status == "active"]
        # DETERMINISM: of goals of one priority the first by its id.
        active.sort(key=lambda each: (-each.priority, each.goal_id))
        self.goals = [Goal(each, config) for each in active]


class Candidate:
    """One candidate with its score; `order` is its place: by score, trust, name (D-000-8)."""

    __slots__ = ("explored", "final", "goal", "order", "raw", "row", "tag")

    def __init__(self, row: Row, scoring: Scoring) -> None:
        self.row = row
        goal = None
        for each in scoring.goals:
            if each.type in row.serves:
                goal = each
                break
        self.goal = goal
        self.explored = scoring.explore * (SCALE - row.availability)
        total = row.served + self.explored
        if goal is not None:
            total += goal.served
        self.raw = raw = Billionths(divided(total, _SQUARE))
        # No term is below zero; with weights of one's own the sum may pass one.
        self.final = final = raw if raw < SCALE else ONE
        self.order = (-final, -row.apt, row.node_id)
        if final < scoring.min_score:
            self.tag = ReasonTag.BELOW_MIN_SCORE
        elif goal is not None and goal.priority:
            self.tag = ReasonTag.MATCH_GOAL
        elif row.unhealthy:
            self.tag = ReasonTag.DEPENDENCY_UNHEALTHY
        else:
            self.tag = ReasonTag.AVAILABILITY

    def ranked(self) -> Ranked:
        """Give the candidate as the answer lists it."""
        return Ranked(self.row.node_id, self.row.availability, self.final, self.tag)

    def scored(self, tie_break: TieBreak, *, bias_flag: bool) -> Scored:
        """Give every number of the score."""
        row, goal, tag = self.row, self.goal, self.tag
        return Scored(
            row.node_id,
            row.status,
            row.apt,
            row.weight,
            row.unhealthy,
            row.availability,
            "" if goal is None else goal.goal_id,
            ZERO if goal is None else goal.priority,
            row.availability_term,
            ZERO if goal is None else goal.term,
            Billionths(divided(self.explored, _SQUARE)) if self.explored else ZERO,
            self.raw,
            self.final,
            bias_flag,
            tag is ReasonTag.FALLBACK_GENERIC,
            tie_break,
            tag,
        )


def median(values: Sequence[Billionths]) -> Billionths:
    """Give the middle of the availabilities, of two middles their mean (D-000-2)."""
    if not values:
        return ZERO
    ordered = sorted(values)
    half, is_odd = divmod(len(ordered), 2)
    if is_odd:
        return ordered[half]
    return Billionths(divided(ordered[half - 1] + ordered[half], 2))


def tie_break(before: Candidate | None, behind: Candidate) -> TieBreak:
    """Say what put a candidate behind another of the same score."""
    if before is None or before.final != behind.final:
        return ""
    return "apt" if before.row.apt != behind.row.apt else "node_id"
