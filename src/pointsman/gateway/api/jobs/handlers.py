"""`/jobs`: run a job to its end, look at its log, and have it run again from its record."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, get_type_hints

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from pointsman.agents.trace import Ranked
from pointsman.audit.turn_shapes import InstantText
from pointsman.errors import JobPrivacyBlocked, PointsmanError, RouterNoMatch
from pointsman.gateway.api.agents.call import AgentCall, CallAnswer, refusal_value
from pointsman.gateway.serving.services import GatewayServices
from pointsman.jobs.entries import Caller
from pointsman.jobs.log import FinalOutput, JobStatus, ReflectiveLog, ReplayStep, VoteCast
from pointsman.jobs.request import read_job_request
from pointsman.kernel.instant import Instant, instant_text
from pointsman.kernel.number import SCALE, Billionths
from pointsman.kernel.replay import Verdict
from pointsman.signals.detectors import detect

if TYPE_CHECKING:
    from pointsman.jobs.jobs import JobResult, Jobs, JobSummary

MOST_AT_ONCE: Final = 8
"""How many jobs run at a time; others wait for their turn."""

_FAILURES: Final[dict[JobStatus, type[PointsmanError]]] = {
    "no_match": RouterNoMatch,
    "privacy_blocked": JobPrivacyBlocked,
}


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


class JobApi:
    """Serves jobs; they have threads of their own, for their agents may take minutes."""

    def __init__(self, parts: GatewayServices) -> None:
        self._pointsman = parts.pointsman
        self.threads = ThreadPoolExecutor(MOST_AT_ONCE, "jobs")
        parts.ending.append(partial(self.threads.shutdown, wait=False, cancel_futures=True))

    @property
    def _jobs(self) -> Jobs:
        return self._pointsman.jobs

    def run_job(self, call: AgentCall) -> CallAnswer:
        """Run a job; one that was cut short on the same facts is gone on with."""
        request = replace(read_job_request(call.body), trace_id=call.trace_id)
        result = self._jobs.run(request, Caller(call.by, call.trace_id, tenant=call.tenant))
        # A job leaves entries of its own with the trace, from its start to its end.
        call.hand_on()
        value = _value(call, result)
        kind = _FAILURES.get(result.log.status)
        return (
            CallAnswer(value, result.log.log_id)
            if kind is None
            else self._fail(call, value, kind())
        )

    def list_jobs(self, call: AgentCall) -> CallAnswer:
        """List the latest jobs."""
        found = self._jobs.list_latest(call.request.limit(), call.reach)
        return CallAnswer(JobsAnswer(tuple(_row(call, each) for each in found), call.trace_id))

    def show_job(self, call: AgentCall) -> CallAnswer:
        """Tell how a job ended, and by which way."""
        result = self._jobs.find_result(call.part("id"), call.reach)
        return CallAnswer(_value(call, result), result.log.log_id)

    def replay_job(self, call: AgentCall) -> CallAnswer:
        """Run a job again from its record; a verdict holds no word of request or answer."""
        from pointsman.jobs.replay import replay_job  # noqa: PLC0415 - loads all jobs can do

        found = replay_job(self._pointsman.home.seen_by(call.reach), call.part("id"))
        return CallAnswer(
            ReplayedJob(
                log_id=found.log_id,
                job_id=hide(found.job_id, is_full=call.is_full),
                verdict=found.verdict,
                is_identical=found.is_identical,
                code=found.code,
                reason=found.reason,
                iterations=found.iterations,
                steps=found.steps,
                trace_id=call.trace_id,
            ),
            found.log_id,
        )

    def _fail(self, call: AgentCall, value: dict[str, object], error: PointsmanError) -> CallAnswer:
        """Return the failure of a job that no agent took: the error, and its log."""
        now = instant_text(self._pointsman.clock.now())
        value = {**value, **refusal_value(error, call.trace_id, now)}
        return CallAnswer(value, status=error.http_status, code=error.code)


def _value(call: AgentCall, result: JobResult) -> dict[str, object]:
    log, output = result.log, result.log.final_output
    return {
        "log_id": log.log_id,
        "job_id": hide(log.job_id, is_full=call.is_full),
        "job_status": log.status,
        "selected_agent": None if output is None else output.agent_id,
        "text": result.text if call.is_full else None,
        "log": log_value(log, is_full=call.is_full),
        "is_resumed": result.is_resumed,
        "prev_hash": result.prev_hash,
        "hash": result.hash,
        "redacted": not call.is_full,
        "trace_id": call.trace_id,
    }


def _row(call: AgentCall, job: JobSummary) -> JobRow:
    name = hide(job.job_id, is_full=call.is_full)
    return JobRow(job.log_id, name, instant_text(job.at), job.status)


_FRACTIONS: Final = frozenset(
    name
    for kind in (Ranked, VoteCast, FinalOutput)
    for name, hint in get_type_hints(kind).items()
    if hint in {Billionths, Billionths | None}
)


def log_value(log: ReflectiveLog, *, is_full: bool) -> dict[str, object]:
    """Return a log for JSON."""
    built = _to_json(msgspec.to_builtins(log), is_full=is_full)
    found = built if isinstance(built, dict) else {}
    return {**found, "created_at_seeded": instant_text(Instant(log.created_at_seeded))}


def hide(text: str, *, is_full: bool) -> str:
    """Return a text, or the kinds of personal data and secrets in it."""
    kinds = () if is_full else sorted({each.kind for each in detect(text)})
    return f"[{', '.join(kinds)}]" if kinds else text


def _to_json(value: object, *, is_full: bool) -> object:
    if isinstance(value, dict):
        return {
            key: each / SCALE
            if key in _FRACTIONS and type(each) is int
            else _to_json(each, is_full=is_full)
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_to_json(each, is_full=is_full) for each in value]
    return hide(value, is_full=is_full) if isinstance(value, str) else value
