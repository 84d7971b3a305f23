"""What the routes of jobs answer."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from pointsman.audit.turn_shapes import InstantText
from pointsman.jobs.log import JobStatus, ReplayStep
from pointsman.kernel.replay import Verdict

TraceId = Annotated[str, Meta(max_length=200)]
SnapshotId = Annotated[str, Meta(min_length=1, max_length=200)]
Number = Annotated[float, Meta(ge=0, le=1)]
Whole = Annotated[int, Meta(ge=0)]


class JobRow(Struct, frozen=True):
    """A job in a list; without a status it is under way, or was cut short."""

    log_id: str
    job_id: str
    at: InstantText
    status: str


class JobsAnswer(Struct, frozen=True):
    """Jobs, the newest first."""

    jobs: tuple[JobRow, ...]
    trace_id: str


class JobAnswer(Struct, frozen=True):
    """How a job ended; `log` is its ReflectiveLog, `hash` its place in the ledger's chain.

    `text` is the answer: None where there is none, where it was not kept, and where redacted.
    """

    log_id: str
    job_id: str
    job_status: JobStatus
    selected_agent: str | None
    text: str | None
    log: dict[str, Any]
    is_resumed: bool
    prev_hash: str
    hash: str
    redacted: bool
    trace_id: str


class ReplayedJob(Struct, frozen=True):
    """Whether a job came out the same when it was run again from its record, and how far."""

    log_id: str
    job_id: str
    verdict: Verdict
    is_identical: bool
    code: str
    reason: str
    iterations: Whole
    steps: tuple[ReplayStep, ...]
    trace_id: str
