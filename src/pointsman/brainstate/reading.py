"""Reads a caller's bodies into exact values: the first state of a job, the inputs of a tick."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from msgspec import UNSET, UnsetType

from pointsman.brainstate.bodies import (
    LONGEST_VALUE,
    ActionWishBody,
    GivenAttempt,
    GivenEvent,
    GivenFailure,
    GivenGoal,
    GivenInputs,
    GivenItem,
    GivenNewGoal,
    GivenReference,
    GivenRepair,
    GivenResult,
    GivenResume,
    GivenReturn,
    GivenStart,
    GivenUse,
)
from pointsman.brainstate.constants import Constants, DefaultUsed, fill_defaults, read_constants
from pointsman.brainstate.events import (
    ActionWished,
    AttemptFailed,
    Event,
    GoalCreated,
    GoalResumed,
    Insertion,
    NewGoal,
    NodeFailed,
    Referenced,
    RepairLooped,
    ResultProduced,
    TickInputs,
    TokensReturned,
    TokensUsed,
)
from pointsman.brainstate.goals import defaults_of, open_goal
from pointsman.brainstate.journal import brainstate_id, seeded_instant
from pointsman.brainstate.state import EMPTY_CWM, Attention, BrainState, ResourceBudget
from pointsman.errors import InputError, Problem, ValueRefused
from pointsman.kernel.canonical import canonical_json
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document, Json, Path
from pointsman.kernel.instant import Instant, read_instant
from pointsman.kernel.number import Billionths, billionths, billionths_text
from pointsman.kernel.schema import conform


class StartingAttention(NamedTuple):
    """The modulators a job starts with; None takes the default."""

    attention_gain: Billionths | None = None
    explore_bias: Billionths | None = None
    reward_signal: Billionths | None = None


def create_state(
    job_seed: str,
    goals: Sequence[NewGoal],
    attention: StartingAttention,
    resource_budget: ResourceBudget,
    constants: Mapping[str, int],
    counter: int = 0,
) -> tuple[BrainState, tuple[DefaultUsed, ...]]:
    """Make the first state of a job, and a warning for each default (004 §8, §11).

    `counter` tells several states of one seed apart. The warnings are in the state as well.
    """
    limits, missing = fill_defaults(constants)
    mind, unsaid = _attention(attention, limits)
    unstated = [each for goal in goals for each in defaults_of(goal, limits)]
    warnings = (*missing, *unsaid, *unstated)
    first = counter + 1
    state = BrainState(
        brainstate_id=brainstate_id(job_seed, counter),
        job_seed=job_seed,
        timestamp=seeded_instant(counter),
        tick=0,
        sequence=first + len(goals),
        goals=tuple(open_goal(goal, limits, 0, first + place) for place, goal in enumerate(goals)),
        wm=(),
        cwm=EMPTY_CWM,
        attention=mind,
        resource_budget=resource_budget,
        tokens_consumed=0,
        recent_failures=(),
        constants=limits,
        warnings=warnings,
        last_updated=seeded_instant(first + len(goals) - 1),
    )
    return state, warnings


def _attention(given: StartingAttention, limits: Constants) -> tuple[Attention, list[DefaultUsed]]:
    defaults = Attention(
        limits.default_attention_gain, limits.default_explore_bias, limits.default_reward_signal
    )
    warnings: list[DefaultUsed] = []
    values: dict[str, Billionths] = {}
    for name, value in given._asdict().items():
        values[name] = getattr(defaults, name) if value is None else value
        if value is None:
            warnings.append(DefaultUsed(f"attention.{name}", billionths_text(values[name])))
    return Attention(**values), warnings


def start_state(given: GivenStart, counter: int = 0) -> tuple[BrainState, tuple[DefaultUsed, ...]]:
    """Make the first state of a job from a caller's body, with its warnings."""
    mind, budget = given.attention, given.resource_budget
    return create_state(
        given.job_seed,
        [new_goal(each) for each in given.goals],
        StartingAttention(
            _share(mind.attention_gain), _share(mind.explore_bias), _share(mind.reward_signal)
        ),
        ResourceBudget(budget.token_budget, budget.max_depth_allowed),
        read_constants(given.constants),
        counter,
    )


def read_inputs(document: Document) -> TickInputs:
    """Read the inputs of a tick, or raise with every problem at its place."""
    return exact_inputs(conform(document, GivenInputs, inputs_problems))


def exact_inputs(given: GivenInputs) -> TickInputs:
    """Return the exact inputs of a body without problems."""
    return TickInputs(
        given.council_approval,
        given.user_upvote,
        tuple(_insertion(each) for each in given.wm),
        tuple(_event(each) for each in given.events),
    )


def start_problems(given: GivenStart, document: Document, at: Path = ()) -> Iterator[Problem]:
    """Find the problems of a start at `at` that a schema cannot express."""
    seen: set[str] = set()
    for index, goal in enumerate(given.goals):
        path = (*at, "goals", index)
        yield from goal_problems(goal, document, path)
        if goal.goal_id in seen:
            message = f"a goal `{goal.goal_id}` is listed already"
            yield document.problem((*path, "goal_id"), Code.INVALID_VALUE, message)
        seen.add(goal.goal_id)


def inputs_problems(given: GivenInputs, document: Document, at: Path = ()) -> Iterator[Problem]:
    """Find the problems of inputs at `at` that a schema cannot express."""
    for index, item in enumerate(given.wm):
        yield from value_problems(item.value, document, (*at, "wm", index, "value"))
    for index, event in enumerate(given.events):
        path = (*at, "events", index)
        if isinstance(event, GivenNewGoal):
            yield from goal_problems(event.goal, document, (*path, "goal"))
        elif isinstance(event, ActionWishBody):
            yield from value_problems(event.payload, document, (*path, "payload"))


def goal_problems(given: GivenGoal, document: Document, path: Path) -> Iterator[Problem]:
    """Find the problems of a goal that a schema cannot express."""
    yield from value_problems(given.metadata, document, (*path, "metadata"))
    for key in ("created_at", "deadline_ts"):
        text = getattr(given, key)
        if text is not None:
            yield from instant_problems(text, document, (*path, key))
    is_computed = given.user_specified is not None or given.heuristic_score is not None
    if given.priority is not None and is_computed:
        message = "`priority` stands beside what it is computed from"
        hint = "give `priority`, or `user_specified` and `heuristic_score`"
        yield document.problem((*path, "priority"), Code.INVALID_VALUE, message, hint)


def value_problems(value: object, document: Document, path: Path) -> Iterator[Problem]:
    """Find why a value cannot be stored, if it cannot."""
    try:
        text = canonical_text(value)
    except ValueRefused as refusal:
        yield document.problem(path, Code.INVALID_VALUE, refusal.message, refusal.where)
    else:
        if len(text) > LONGEST_VALUE:
            message = f"longer than {LONGEST_VALUE} characters"
            yield document.problem(path, Code.TOO_LONG, message)


def instant_problems(text: str, document: Document, path: Path) -> Iterator[Problem]:
    """Find why a text is no instant, if it is none."""
    try:
        read_instant(text)
    except InputError as error:
        yield document.problem(path, Code.INVALID_VALUE, error.message, error.hint)


def canonical_text(value: object) -> str:
    """Return the canonical text of a JSON value, or raise ValueRefused."""
    json: Json = value  # type: ignore[assignment] # read from JSON; anything else is refused
    return canonical_json(json).decode()


def fraction(value: Decimal) -> Billionths:
    """Return a decimal in billionths."""
    return billionths(f"{value:f}")


def new_goal(given: GivenGoal) -> NewGoal:
    """Return the exact goal of a body without problems."""
    return NewGoal(
        goal_id=given.goal_id,
        type=given.type,
        origin=given.origin,
        status=given.status,
        priority=_share(given.priority),
        user_specified=_share(given.user_specified),
        heuristic_score=_share(given.heuristic_score),
        created_at=_instant(given.created_at),
        deadline_ts=_instant(given.deadline_ts),
        metadata=canonical_text(given.metadata),
        deliverable=given.deliverable,
        wm_ttl_ticks=given.wm_ttl_ticks,
    )


def _insertion(given: GivenItem) -> Insertion:
    value = canonical_text(given.value)
    return Insertion(
        given.type, value, given.ttl_ticks, given.goal_id, given.token_estimate, given.wm_id
    )


def _event(given: GivenEvent) -> Event:  # noqa: C901, PLR0911 - one line an event
    match given:
        case GivenReference(wm_id):
            return Referenced(wm_id)
        case GivenNewGoal(goal):
            return GoalCreated(new_goal(goal))
        case GivenResult(goal_id, confidence, deliverable):
            return ResultProduced(goal_id, deliverable, fraction(confidence))
        case GivenAttempt(goal_id, node_id, reason):
            return AttemptFailed(goal_id, node_id, reason)
        case GivenRepair(goal_id):
            return RepairLooped(goal_id)
        case GivenResume(goal_id):
            return GoalResumed(goal_id)
        case GivenFailure(node_id, reason):
            return NodeFailed(node_id, reason)
        case GivenUse(tokens):
            return TokensUsed(tokens)
        case GivenReturn(tokens):
            return TokensReturned(tokens)
        case ActionWishBody(action_type, origin, payload, goal_id):
            return ActionWished(action_type, origin, canonical_text(payload), goal_id)


def _share(value: Decimal | UnsetType | None) -> Billionths | None:
    return None if value is None or value is UNSET else fraction(value)


def _instant(text: str | None) -> Instant | None:
    return None if text is None else read_instant(text)
