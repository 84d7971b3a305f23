"""The facts of the choice of an agent, frozen: the job, the brain state's hints, and the verdicts.

The modules are named by their snapshot's content id: a snapshot serves many jobs, and is an entry
of the ledger of its own.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from pointsman.agents.file.config import Name
from pointsman.brainstate.hints import routing_hints
from pointsman.brainstate.state import BrainState
from pointsman.errors import Problem
from pointsman.kernel.canonical import ContentId, Form
from pointsman.kernel.codes import Code
from pointsman.kernel.content import Sealed, Texts
from pointsman.kernel.document import Document
from pointsman.kernel.number import Billionths
from pointsman.kernel.schema import conform

GoalType = Literal["answer", "clarify", "save", "verify", "plan"]
GoalStatus = Literal["active", "succeeded", "failed", "paused"]


class GoalView(Struct, frozen=True, forbid_unknown_fields=True):
    """A goal, as far as routing is concerned."""

    goal_id: str
    priority: Billionths
    type: GoalType
    status: GoalStatus


class MindView(Struct, frozen=True, forbid_unknown_fields=True):
    """The part of a BrainState that routing reads (document 004 §2, companion D-000-4, D-000-5).

    `max_depth_allowed` is the resource budget's own, not the hint already scaled by attention. Of
    the thresholds that the state and the router both have, the stricter one counts.
    """

    attention_gain: Billionths
    explore_bias: Billionths
    token_budget: int
    max_depth_allowed: int
    goals: tuple[GoalView, ...]
    prefer_high_apt: bool
    allow_explore: bool
    quick_answer_below: Billionths
    min_token_threshold: int


class PrivacyVerdict(Struct, frozen=True, forbid_unknown_fields=True):
    """Whether the query holds data that must not be routed; the detectors' verdict."""

    is_blocked: bool
    reason: str


OPEN: Final = PrivacyVerdict(is_blocked=False, reason="")


class JobFacts(Struct, frozen=True, forbid_unknown_fields=True):
    """The facts of one choice. The query is a seal once recorded.

    `excluded` are the agents that failed this job before, in that order; `attempt` counts from 1.
    `permitted` are the modules the caller may use, None for all; a role may narrow them further.
    An empty `intent` or `required_action` is found through the policy's intents.
    """

    job_id: str
    job_seed: str
    query: str | Sealed
    selfrep_id: ContentId
    brainstate_id: str
    mind: MindView
    candidate_list: tuple[str, ...]
    excluded: tuple[str, ...]
    attempt: int
    intent: str
    required_action: str
    user_role: str
    permitted: tuple[str, ...] | None
    privacy: PrivacyVerdict


FACTS_FORM: Final = Form(JobFacts)


def job_facts(  # noqa: PLR0913 - the parts of one job
    job_id: str,
    job_seed: str,
    query: str,
    selfrep_id: ContentId,
    mind: MindView,
    *,
    brainstate_id: str = "",
    candidate_list: Iterable[str] = (),
    intent: str = "",
    required_action: str = "",
    user_role: str = "",
    permitted: Iterable[str] | None = None,
    privacy: PrivacyVerdict = OPEN,
) -> JobFacts:
    """Freeze the facts of a job's first choice; lists are sorted."""
    return JobFacts(
        job_id=job_id,
        job_seed=job_seed,
        query=normalise_query(query),
        selfrep_id=selfrep_id,
        brainstate_id=brainstate_id,
        mind=mind,
        candidate_list=tuple(sorted(set(candidate_list))),
        excluded=(),
        attempt=1,
        intent=intent,
        required_action=required_action,
        user_role=user_role,
        permitted=None if permitted is None else tuple(sorted(set(permitted))),
        privacy=privacy,
    )


ShortText = Annotated[str, Meta(max_length=200)]


class GivenJob(Struct, frozen=True, forbid_unknown_fields=True):
    """The seven fields of document 000, and those it needs besides (D-000-11).

    An empty `candidate_list` is the same as none: the policy enumerates (D-000-18).
    """

    job_id: Name
    job_seed: Name
    query_text: str
    selfrep_snapshot_id: ShortText = ""
    brainstate_snapshot_id: ShortText = ""
    candidate_list: Annotated[tuple[Name, ...], Meta(max_length=100_000)] | None = None
    trace_id: ShortText = ""
    user_role: ShortText | None = None
    intent: ShortText | None = None
    required_action: ShortText | None = None
    router_snapshot_id: ShortText | None = None


def read_facts(document: Document) -> GivenJob:
    """Read a request, or raise with every problem at its place.

    A request without the id of a snapshot names none that exists: that has a code of its own.
    """
    return conform(document, GivenJob, _job_problems)


def _job_problems(given: GivenJob, document: Document) -> Iterable[Problem]:
    if not given.query_text.strip():
        yield document.problem(("query_text",), Code.INVALID_VALUE, "a job asks for something")


def facts_of(
    given: GivenJob,
    mind: MindView,
    *,
    user_role: str = "",
    permitted: Iterable[str] | None = None,
    privacy: PrivacyVerdict = OPEN,
) -> JobFacts:
    """Return the facts of a request whose snapshots exist; `user_role` where it names none."""
    return job_facts(
        given.job_id,
        given.job_seed,
        given.query_text,
        ContentId(given.selfrep_snapshot_id),
        mind,
        brainstate_id=given.brainstate_snapshot_id,
        candidate_list=given.candidate_list or (),
        intent=given.intent or "",
        required_action=given.required_action or "",
        user_role=given.user_role or user_role,
        permitted=permitted,
        privacy=privacy,
    )


def mind_view(state: BrainState) -> MindView:
    """Return a state as the router sees it; depth is the budget's own, not the hint (D-000-5)."""
    bias = routing_hints(state).candidate_bias
    return MindView(
        attention_gain=state.attention.attention_gain,
        explore_bias=state.attention.explore_bias,
        token_budget=state.resource_budget.token_budget,
        max_depth_allowed=state.resource_budget.max_depth_allowed,
        goals=tuple(
            GoalView(each.goal_id, each.priority, each.type, each.status) for each in state.goals
        ),
        prefer_high_apt=bias.prefer_high_apt,
        allow_explore=bias.allow_explore,
        quick_answer_below=state.constants.quick_answer_below,
        min_token_threshold=state.constants.min_token_threshold,
    )


def normalise_query(query: str) -> str:
    """Return a query as it is matched: composed, and with single spaces."""
    return " ".join(unicodedata.normalize("NFC", query).split())


def after_failure(facts: JobFacts, failed: str) -> JobFacts:
    """Return the facts of the next attempt: the same, with the failed agent excluded."""
    return replace(facts, excluded=(*facts.excluded, failed), attempt=facts.attempt + 1)


def with_seal(facts: JobFacts, seal: Sealed) -> JobFacts:
    """Return the facts as they are recorded: the query replaced by its seal."""
    return replace(facts, query=seal)


def with_text(facts: JobFacts, texts: Texts) -> JobFacts:
    """Return recorded facts with the text of the query."""
    query = facts.query
    return facts if isinstance(query, str) else replace(facts, query=texts(query))
