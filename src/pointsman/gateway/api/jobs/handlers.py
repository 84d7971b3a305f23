"""`/jobs`: run a job to its end, look at its log, and have it run again from its record."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pointsman.errors import JobPrivacyBlocked, PointsmanError, RouterNoMatch
from pointsman.gateway.api.agents.call import Call, Told, refusal_value
from pointsman.gateway.api.jobs.shapes import JobRow, JobsAnswer, ReplayedJob
from pointsman.gateway.api.jobs.view import hidden, log_value
from pointsman.gateway.serving.services import GatewayServices
from pointsman.jobs.entries import Caller
from pointsman.jobs.log import JobStatus
from pointsman.jobs.request import read_job_request
from pointsman.kernel.instant import instant_text

if TYPE_CHECKING:
    from pointsman.jobs.jobs import JobResult, Jobs, JobSummary

MOST_AT_ONCE: Final = 8
"""How many jobs run at a time; others wait for their turn."""

_FAILURES: Final[dict[JobStatus, type[PointsmanError]]] = {
    "no_match": RouterNoMatch,
    "privacy_blocked": JobPrivacyBlocked,
}


class JobApi:
    """Serves jobs; they have threads of their own, for their agents may take minutes."""

    def __init__(self, parts: GatewayServices) -> None:
        self._pointsman = parts.pointsman
        self.threads = ThreadPoolExecutor(MOST_AT_ONCE, "jobs")
        parts.ending.append(partial(self.threads.shutdown, wait=False, cancel_futures=True))

    @property
    def _jobs(self) -> Jobs:
        return self._pointsman.jobs

    def run_job(self, call: Call) -> Told:
        """Run a job; one that was cut short on the same facts is gone on with."""
        request = replace(read_job_request(call.body), trace_id=call.trace_id)
        result = self._jobs.run(request, Caller(call.by, call.trace_id))
        # A job leaves entries of its own with the trace, from its start to its end.
        call.hand_on()
        value = _value(call, result)
        kind = _FAILURES.get(result.log.status)
        return Told(value, result.log.log_id) if kind is None else self._fail(call, value, kind())

    def list_jobs(self, call: Call) -> Told:
        """List the latest jobs."""
        found = self._jobs.list_latest(call.request.limit())
        return Told(JobsAnswer(tuple(_row(call, each) for each in found), call.trace_id))

    def show_job(self, call: Call) -> Told:
        """Tell how a job ended, and by which way."""
        result = self._jobs.find_result(call.part("id"))
        return Told(_value(call, result), result.log.log_id)

    def replay_job(self, call: Call) -> Told:
        """Run a job again from its record; a verdict holds no word of request or answer."""
        from pointsman.jobs.replay import replay_job  # noqa: PLC0415 - loads all jobs can do

        found = replay_job(self._pointsman.home, call.part("id"))
        return Told(
            ReplayedJob(
                log_id=found.log_id,
                job_id=hidden(found.job_id, is_full=call.is_full),
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

    def _fail(self, call: Call, value: dict[str, object], error: PointsmanError) -> Told:
        """Return the failure of a job that no agent took: the error, and its log."""
        now = instant_text(self._pointsman.clock.now())
        value = {**value, **refusal_value(error, call.trace_id, now)}
        return Told(value, status=error.http_status, code=error.code)


def _value(call: Call, result: JobResult) -> dict[str, object]:
    log, output = result.log, result.log.final_output
    return {
        "log_id": log.log_id,
        "job_id": hidden(log.job_id, is_full=call.is_full),
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


def _row(call: Call, job: JobSummary) -> JobRow:
    name = hidden(job.job_id, is_full=call.is_full)
    return JobRow(job.log_id, name, instant_text(job.at), job.status)
