"""A routing request as `POST /router/decide` and `agents decide --request` take it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

from pointsman.agents.facts import OPEN, JobFacts, MindView, PrivacyVerdict, job_facts
from pointsman.agents.file.config import Name
from pointsman.kernel.canonical import ContentId
from pointsman.kernel.document import Document
from pointsman.kernel.schema import conform

Optional = Annotated[str, Meta(max_length=200)]


class GivenJob(Struct, frozen=True, forbid_unknown_fields=True):
    """The seven fields of document 000, and those it needs besides (D-000-11).

    An empty `candidate_list` is the same as none: the policy enumerates (D-000-18).
    """

    job_id: Name
    job_seed: Name
    query_text: str
    selfrep_snapshot_id: Name
    brainstate_snapshot_id: Name
    candidate_list: Annotated[tuple[Name, ...], Meta(max_length=100_000)] | None = None
    trace_id: Optional = ""
    user_role: Optional | None = None
    intent: Optional | None = None
    required_action: Optional | None = None
    router_snapshot_id: Optional | None = None


def read_job(document: Document) -> GivenJob:
    """Read a request, or raise with every problem at its place."""
    return conform(document, GivenJob)


def facts_of(
    given: GivenJob,
    mind: MindView,
    *,
    user_role: str = "",
    permitted: Iterable[str] | None = None,
    privacy: PrivacyVerdict = OPEN,
) -> JobFacts:
    """Give the facts of a request whose snapshots were found; `user_role` where it names none."""
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
