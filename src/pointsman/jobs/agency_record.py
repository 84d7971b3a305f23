"""What calls to the agents leave in the ledger beside decisions: who asked what, and each tick."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from msgspec import Raw, Struct

from pointsman.agents.trust.apt import EVENT_FORM, TrustEvent
from pointsman.governance.action import Actor
from pointsman.kernel.canonical import Form
from pointsman.kernel.content import Sealed
from pointsman.kernel.entry import MAX_NAME, Draft
from pointsman.kernel.record import Names

CALL: Final = "event.agents.call"
TICK: Final = "event.brainstate.tick"
TRUST: Final = "event.trust."
"""Followed by the type of the event in lower case: `event.trust.agent_timeout`."""

_CONTENT_ID = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)


class Caller(Struct, frozen=True):
    """Who asks, under which trace; `permitted` are the modules they may use, None for all."""

    actor: Actor
    trace_id: str = ""
    permitted: tuple[str, ...] | None = None


class CallTold(Struct, frozen=True, forbid_unknown_fields=True):
    """One call: which, by whom, about which snapshot, and how it ended: `done` or a code."""

    call: str
    by: Actor
    trace_id: str
    subject: str
    result: str


class TickTold(Struct, frozen=True, forbid_unknown_fields=True):
    """One tick: from which snapshot to which, on what, and what happened.

    `inputs` are null where they hold personal data or a secret: `sealed` then names the kept text,
    which can be erased, and `kinds` say what was found. `job` is the log of the job it belongs to.
    """

    by: Actor
    trace_id: str
    job: str
    brainstate_before: str
    brainstate_after: str
    inputs: Raw
    sealed: Sealed | None
    kinds: tuple[str, ...]
    trace: Raw
    action_requests: tuple[str, ...]
    refused: tuple[str, ...]


CALL_FORM: Final = Form(CallTold)
TICK_FORM: Final = Form(TickTold)


def call_draft(names: Names, told: CallTold) -> Draft:
    """Make the entry of a call; `ref` is the snapshot it is about."""
    return Draft(CALL, names.id, names.ref, names.at, CALL_FORM.encode(told))


def tick_draft(names: Names, told: TickTold) -> Draft:
    """Make the entry of a tick; `ref` is the snapshot it led to, or the job it belongs to."""
    return Draft(TICK, names.id, names.ref, names.at, TICK_FORM.encode(told))


def trust_draft(names: Names, event: TrustEvent) -> Draft:
    """Make the entry of something that happened to a module; `ref` is the job it happened in."""
    kind = TRUST + event.event_type.lower()
    return Draft(kind, names.id, names.ref, names.at, EVENT_FORM.encode(event))


def named_snapshot(given: str) -> str:
    """Give an id as entries may hold it; what is none could be anything, and is left out."""
    return given if _CONTENT_ID.fullmatch(given) else ""


def job_ref(job_id: str) -> str:
    """Name a job as ledger entries do: by its id, or by a digest where that cannot name one."""
    if job_id and len(job_id) <= MAX_NAME and job_id.isascii() and job_id.isprintable():
        return job_id
    return "job:" + hashlib.sha256(job_id.encode("utf-8", "surrogatepass")).hexdigest()
