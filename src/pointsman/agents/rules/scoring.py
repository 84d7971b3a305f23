"""The checks of candidates in their order; then their score, depth and tokens (000, 004)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from operator import attrgetter
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pointsman.agents.codes import DepthReason, Excluded, ReasonTag
from pointsman.agents.compiled import (
    EVERY_ACTION,
    CompiledAgentsPolicy,
    Miss,
    Misses,
    Roster,
    RosterRow,
)
from pointsman.agents.facts import GoalType, GoalView, JobFacts, MindView
from pointsman.agents.file.config import RouterConfig
from pointsman.agents.modules.module import action_key
from pointsman.agents.trace import CheckName, DepthTrace, Ranked, Scored, TieBreak, TokenTrace
from pointsman.kernel.number import ONE, SCALE, ZERO, Billionths, divide, floor_of, times


class JobChecks:
    """The checks of one job."""

    __slots__ = (
        "action", "denied", "excluded", "intent", "is_narrow", "permitted", "role", "role_modules",
    )  # fmt: skip

    def __init__(
        self, policy: CompiledAgentsPolicy, facts: JobFacts, intent: str, action: str
    ) -> None:
        self.intent = action_key(intent) if intent else ""
        self.action = action_key(action) if action else ""
        self.excluded = facts.excluded
        self.permitted = None if facts.permitted is None else frozenset(facts.permitted)
        self.role = facts.user_role
        self.role_modules: Collection[str] | None = None
        self.denied: Collection[str] = ()
        if policy.roles:
            # INVARIANT: where roles are declared, one that is not may use nothing.
            self.role_modules, self.denied = policy.roles.get(facts.user_role, ((), ()))
        self.is_narrow = bool(policy.roles or facts.excluded or facts.permitted is not None)

    def miss(self, row: RosterRow) -> tuple[CheckName, Miss] | None:
        """Return the first check that a module fails, the prefilter apart."""
        if self.is_narrow:
            name = row.node_id
            if name in self.excluded:
                return "reroute", (name, Excluded.FAILED_BEFORE, "")
            if not self._is_permitted(name):
                role = f"role {self.role}" if self.role else ""
                return "rbac", (name, Excluded.NOT_PERMITTED, role)
        if row.is_restricted:
            miss = self._policy_miss(row)
            if miss is not None:
                return "policy", miss
        return row.barred

    def _is_permitted(self, name: str) -> bool:
        if self.permitted is not None and name not in self.permitted:
            return False
        if self.role_modules is not None and name not in self.role_modules:
            return False
        return name not in self.denied

    def _policy_miss(self, row: RosterRow) -> Miss | None:
        action, intent, forbidden = self.action, self.intent, row.forbidden
        for each in (EVERY_ACTION, action, intent):
            if each and each in forbidden:
                return row.node_id, Excluded.FORBIDDEN_ACTION, each
        allowed = row.allowed
        if action and allowed and action not in allowed and EVERY_ACTION not in allowed:
            return row.node_id, Excluded.ACTION_NOT_ALLOWED, action
        return None

    def excludes_none_of(self, roster: Roster) -> bool:
        """Whether neither this job nor any policy excludes a module of the roster."""
        if self.is_narrow or self.intent in roster.forbidden:
            return False
        return not self.action or not (roster.has_allowed or self.action in roster.forbidden)

    def passing_rows(
        self, rows: Sequence[RosterRow], top_n: int, misses: Misses
    ) -> list[RosterRow]:
        """Return the first `top_n` of rows by trust that pass every check; note the others."""
        found: list[RosterRow] = []
        out, miss, is_narrow = misses.by_check, self.miss, self.is_narrow
        beyond = out["top_n"]
        for row in rows:
            failed = miss(row) if is_narrow or row.is_restricted else row.barred
            if failed is not None:
                out[failed[0]].append(failed[1])
            elif len(found) < top_n:
                found.append(row)
            else:
                beyond.append(row.beyond)
        return found


_SQUARE: Final = SCALE * SCALE
_HALF: Final = _SQUARE // 2
# An enum's member is looked up through its class at every use; these are asked for ten times a job.
_MATCH_GOAL: Final = ReasonTag.MATCH_GOAL
_AVAILABILITY: Final = ReasonTag.AVAILABILITY
_UNHEALTHY: Final = ReasonTag.DEPENDENCY_UNHEALTHY
_BELOW: Final = ReasonTag.BELOW_MIN_SCORE
_FALLBACK: Final = ReasonTag.FALLBACK_GENERIC


class GoalTerm(Struct, frozen=True, gc=False):
    """An active goal with its share of the score, computed once for all candidates."""

    goal_id: str
    type: GoalType
    priority: Billionths
    served: int
    term: Billionths


class Scoring:
    """The values that are the same for all candidates of a job."""

    __slots__ = ("explore", "goals", "min_score")

    def __init__(self, config: RouterConfig, mind: MindView) -> None:
        self.min_score = config.min_score
        self.explore = config.weight_bias * mind.explore_bias
        active = [each for each in mind.goals if each.status == "active"]
        if len(active) > 1:
            # DETERMINISM: of goals of one priority the first by its id.
            active.sort(key=_urgency)
        weight = config.weight_goal
        self.goals = [
            GoalTerm(
                each.goal_id,
                each.type,
                each.priority,
                weight * each.priority * SCALE,
                times(weight, each.priority),
            )
            for each in active
        ]


def _urgency(goal: GoalView) -> tuple[int, str]:
    return (-goal.priority, goal.goal_id)


class ScoredCandidate(Struct, frozen=True, gc=False):
    """One candidate with its score; `explored` is its explore term before rounding."""

    row: RosterRow
    goal: GoalTerm | None
    explored: int
    raw: Billionths
    final: Billionths
    tag: ReasonTag


def candidates(rows: Iterable[RosterRow], scoring: Scoring) -> list[ScoredCandidate]:
    """Score rows sorted by trust and name; return them by score, trust, name (D-000-8)."""
    goals, explore, least = scoring.goals, scoring.explore, scoring.min_score
    found = []
    for row in rows:
        goal = None
        explored = explore * row.lack
        total = row.served + explored
        serves = row.serves
        for each in goals:
            if each.type in serves:
                goal = each
                total += each.served
                break
        # Rounded half to even; no term is below zero.
        raw, rest = divmod(total, _SQUARE)
        if rest > _HALF or (rest == _HALF and raw & 1):
            raw += 1
        # With weights of one's own the sum may pass one.
        final = raw if raw < SCALE else ONE
        if final < least:
            tag = _BELOW
        elif goal is not None and goal.priority:
            tag = _MATCH_GOAL
        else:
            tag = _UNHEALTHY if row.unhealthy else _AVAILABILITY
        found.append(ScoredCandidate(row, goal, explored, Billionths(raw), Billionths(final), tag))
    # DETERMINISM: the sort is stable, also from the highest down, so trust and name stay decisive.
    found.sort(key=_FINAL, reverse=True)
    return found


_FINAL: Final = attrgetter("final")


def with_fallback(
    scored: Iterable[ScoredCandidate], row: RosterRow, scoring: Scoring
) -> list[ScoredCandidate]:
    """Return the candidates with a fallback that takes the job, at its place among them."""
    (found,) = candidates([row], scoring)
    chosen = ScoredCandidate(row, found.goal, found.explored, found.raw, found.final, _FALLBACK)
    return sorted([*scored, chosen], key=_place)


def _place(each: ScoredCandidate) -> tuple[int, int, str]:
    return (-each.final, -each.row.apt, each.row.node_id)


def to_ranked(scored: Iterable[ScoredCandidate]) -> tuple[Ranked, ...]:
    """Return the candidates as the answer lists them."""
    return tuple(
        [Ranked(each.row.node_id, each.row.availability, each.final, each.tag) for each in scored]
    )


def score_traces(
    scored: Iterable[ScoredCandidate], middle: Billionths, *, prefers_high_apt: bool
) -> tuple[Scored, ...]:
    """Return every number of the scores; `bias_flag` multiplies nothing (D-000-1)."""
    found = []
    before: ScoredCandidate | None = None
    for each in scored:
        row, goal, tag, final = each.row, each.goal, each.tag, each.final
        if goal is None:
            goal_id, priority, term = "", ZERO, ZERO
        else:
            goal_id, priority, term = goal.goal_id, goal.priority, goal.term
        # The rule that put it behind another of the same score.
        tie_break: TieBreak = ""
        if before is not None and before.final == final:
            tie_break = "apt" if before.row.apt != row.apt else "node_id"
        explored, rest = divmod(each.explored, _SQUARE)
        if rest > _HALF or (rest == _HALF and explored & 1):
            explored += 1
        found.append(
            Scored(
                row.node_id,
                row.status,
                row.apt,
                row.weight,
                row.unhealthy,
                row.availability,
                goal_id,
                priority,
                row.availability_term,
                term,
                Billionths(explored),
                each.raw,
                final,
                prefers_high_apt and row.availability >= middle,
                tag is _FALLBACK,
                tie_break,
                tag,
            )
        )
        before = each
    return tuple(found)


def median(scored: Sequence[ScoredCandidate]) -> Billionths:
    """Return the median of the availabilities, of two middles their mean (D-000-2)."""
    if not scored:
        return ZERO
    ordered = sorted([each.row.availability for each in scored])
    half, is_odd = divmod(len(ordered), 2)
    if is_odd:
        return ordered[half]
    return Billionths(divide(ordered[half - 1] + ordered[half], 2))


def depth_of(config: RouterConfig, mind: MindView) -> DepthTrace:
    """Return the depth of a job that an agent takes; never more than the state allows."""
    base, attention = mind.max_depth_allowed, mind.attention_gain
    multiplied = floor_of(attention, base)
    depth, reason = min(base, max(0, multiplied)), DepthReason.ATTENTION
    if attention < max(config.quick_attention, mind.quick_answer_below):
        depth, reason = 0, DepthReason.QUICK_MODE
    elif mind.token_budget < max(config.min_token_threshold, mind.min_token_threshold):
        depth, reason = 0, DepthReason.LOW_TOKEN_BUDGET
    return DepthTrace(base, attention, multiplied, depth, reason)


def without_depth(depth: DepthTrace, reason: DepthReason) -> DepthTrace:
    """Return a depth of 0, regardless of attention."""
    return replace(depth, depth=0, reason=reason)


def tokens_of(config: RouterConfig, mind: MindView) -> TokenTrace:
    """Return the tokens of a job that an agent takes: 1000 at attention 0.36 are 680."""
    budget, attention = mind.token_budget, mind.attention_gain
    # DETERMINISM: one floor over the exact product; the share is rounded for reading only.
    exact = config.token_share_least * SCALE + config.token_share_gain * attention
    computed = budget * exact // (SCALE * SCALE)
    share = Billionths(config.token_share_least + times(config.token_share_gain, attention))
    floor = config.min_token_floor
    allocated = min(budget, max(floor, computed))
    return TokenTrace(budget, share, computed, floor, allocated, budget < floor)


def without_tokens(tokens: TokenTrace) -> TokenTrace:
    """Return the budget where no agent takes the job."""
    return replace(tokens, allocated=0)
