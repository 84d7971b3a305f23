"""A job as people ask for it: snapshots by their ids, by their bodies, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from pointsman.agents.facts import GivenJob, ShortText
from pointsman.agents.file.agents_file import GivenSelfRep, read_selfrep_document
from pointsman.agents.file.config import Name
from pointsman.brainstate.bodies import (
    Anything,
    GivenAttention,
    GivenGoal,
    GivenStart,
    ResourceBudgetBody,
)
from pointsman.brainstate.constants import GivenConstants
from pointsman.brainstate.reading import start_problems
from pointsman.errors import InputError, Problem
from pointsman.jobs.agency import Agency
from pointsman.jobs.entries import Caller
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document
from pointsman.kernel.instant import IdSource
from pointsman.kernel.schema import conform

DEFAULT_BUDGET: Final = ResourceBudgetBody(4_096, 2)
GOAL: Final = GivenGoal("g1", "answer", priority=Decimal("0.8"))
"""The goal of a request that is words only."""


class GivenMind(Struct, frozen=True, forbid_unknown_fields=True):
    """A state to start from: the body of `POST /brainstate/create_snapshot`, all of it optional."""

    job_seed: ShortText = ""
    resource_budget: ResourceBudgetBody = DEFAULT_BUDGET
    goals: Annotated[tuple[GivenGoal, ...], Meta(max_length=256)] = ()
    attention: GivenAttention = GivenAttention()
    constants: GivenConstants = GivenConstants()


class JobRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The work to do. Without snapshots the live agents and a fresh state are frozen first.

    `action_payload` is the payload of the action that a high-risk job needs.
    """

    query_text: str
    job_id: ShortText = ""
    job_seed: ShortText = ""
    selfrep_snapshot_id: ShortText = ""
    brainstate_snapshot_id: ShortText = ""
    selfrep: GivenSelfRep | None = None
    brainstate: GivenMind | None = None
    candidate_list: Annotated[tuple[Name, ...], Meta(max_length=100_000)] | None = None
    trace_id: ShortText = ""
    user_role: ShortText | None = None
    intent: ShortText | None = None
    required_action: ShortText | None = None
    router_snapshot_id: ShortText | None = None
    action_payload: Anything | UnsetType = UNSET


def goal_request(text: str) -> JobRequest:
    """Return the request for a job that is words only."""
    return JobRequest(text, brainstate=GivenMind(goals=(GOAL,)))


def read_job_request(document: Document) -> JobRequest:
    """Read a request, or raise with every problem at its place."""
    value = document.value
    given: GivenSelfRep | None = None
    if isinstance(value, dict) and isinstance(value.get("selfrep"), dict):
        # Its own reader knows more of it: names of constants in capitals, ends of edges.
        given = read_selfrep_document(_part(document, "selfrep"))
        rest = {key: each for key, each in value.items() if key != "selfrep"}
        document = Document(document.source, rest, document.values, document.keys)
    request = conform(document, JobRequest, _problems)
    return request if given is None else replace(request, selfrep=given)


def freeze_job(agency: Agency, request: JobRequest, ids: IdSource, caller: Caller) -> GivenJob:
    """Record the snapshots a request does not name, and return it with all of them."""
    if request.selfrep is not None and request.selfrep_snapshot_id:
        raise InputError("give `selfrep` or `selfrep_snapshot_id`, not both")
    if request.brainstate is not None and request.brainstate_snapshot_id:
        raise InputError("give `brainstate` or `brainstate_snapshot_id`, not both")
    name = ids.new_id()
    mind = request.brainstate or GivenMind()
    seed = request.job_seed or mind.job_seed or f"seed-{name}"
    selfrep_id = request.selfrep_snapshot_id
    if not selfrep_id:
        selfrep_id = agency.record_selfrep(request.selfrep, caller).id
    state_id = request.brainstate_snapshot_id
    if not state_id:
        state_id = agency.record_brainstate(_start(mind, seed), caller).id
    return GivenJob(
        job_id=request.job_id or f"job-{name}",
        job_seed=seed,
        query_text=request.query_text,
        selfrep_snapshot_id=selfrep_id,
        brainstate_snapshot_id=state_id,
        candidate_list=request.candidate_list,
        trace_id=request.trace_id or caller.trace_id or name,
        user_role=request.user_role,
        intent=request.intent,
        required_action=request.required_action,
        router_snapshot_id=request.router_snapshot_id,
    )


def _start(mind: GivenMind, seed: str) -> GivenStart:
    return GivenStart(
        mind.job_seed or seed, mind.resource_budget, mind.goals, mind.attention, mind.constants
    )


def _part(document: Document, key: str) -> Document:
    """Return a member of a document as a document of its own, with its places."""
    value = document.value
    return Document(
        document.source,
        value[key] if isinstance(value, dict) else None,
        {path[1:]: place for path, place in document.values.items() if path[:1] == (key,)},
        {path[1:]: place for path, place in document.keys.items() if path[1:] and path[0] == key},
    )


def _problems(request: JobRequest, document: Document) -> Iterator[Problem]:
    if request.brainstate is not None:
        start = _start(request.brainstate, "-")
        yield from start_problems(start, document, ("brainstate",))
    if not request.query_text.strip():
        yield document.problem(("query_text",), Code.INVALID_VALUE, "a job asks for something")
