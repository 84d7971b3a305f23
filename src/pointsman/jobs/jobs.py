"""Jobs: snapshots, then decide, call, judge and tick until one agent answers or none is left.

INVARIANT: nothing acts before its decision is durable. An interrupted job is resumed where its
record ends, by one process at a time, or closed with the reason why it cannot be.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import cast

import msgspec
from msgspec import UNSET, Struct

from pointsman.agents.facts import FACTS_FORM, JobFacts, with_seal, with_text
from pointsman.approvals.approvals import Approvals
from pointsman.brainstate.journal import seeded_instant
from pointsman.conversations.conversations import Conversations
from pointsman.errors import ChainHeld, InputError, MissingSnapshot, NotFound
from pointsman.jobs.agency import LOCAL, Agency
from pointsman.jobs.agent_client import AgentClient, AgentFunction, ModelAgents
from pointsman.jobs.council import council_bytes, read_council
from pointsman.jobs.course import Plan, run_job
from pointsman.jobs.entries import Caller, job_ref
from pointsman.jobs.live_steps import JobServices, LiveSteps, recall_answer
from pointsman.jobs.log import (
    ABANDONED,
    ABANDONED_FORM,
    FINISHED,
    LOG_FORM,
    STARTED,
    STARTED_FORM,
    JobAbandoned,
    JobStarted,
    ReflectiveLog,
    abandoned_name,
    finished_name,
)
from pointsman.jobs.record import JobRecord, job_record, started_jobs, unfinished_runs
from pointsman.jobs.replay import JobVerdict, replay_job
from pointsman.jobs.request import JobRequest, freeze_job
from pointsman.kernel.canonical import ContentId, canonical_json, untag
from pointsman.kernel.content import Retain, Sealed, seal_text
from pointsman.kernel.document import Json
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import Clock, IdSource, Instant
from pointsman.recording.decision_recorder import DecisionRecorder
from pointsman.recording.waiting import BlockingWaiter
from pointsman.storage.home import Home
from pointsman.storage.policies.policies import PolicyFiles
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.stores.entries import ContentReader, LedgerReader
from pointsman.storage.writer.chain_rows import HeldLease


class JobResult(Struct, frozen=True):
    """How a job ended. `text` is the answer, None where there is none or it was not kept."""

    log: ReflectiveLog
    text: str | None
    is_resumed: bool
    prev_hash: str
    hash: str


class JobSummary(Struct, frozen=True):
    """A job in a list; without a status it is under way, or was cut short."""

    log_id: str
    job_id: str
    at: Instant
    status: str


class Jobs:
    """The jobs of one home. May be shared by threads."""

    def __init__(self, services: JobServices, retain: Retain, models: ModelAgents) -> None:
        self._services = services
        self._retain = retain
        self._models = models

    @property
    def here(self) -> dict[str, AgentFunction]:
        """Agents in this process by their node's id: put one in, and it is called."""
        return self._services.client.here

    def close(self) -> None:
        """Close the providers and the thread of model agents."""
        self._models.close()

    def replay(self, name: str) -> JobVerdict:
        """Run a recorded job again from its record alone."""
        with self._ledger():
            return replay_job(self._services.home, name)

    def run(self, request: JobRequest, caller: Caller = LOCAL) -> JobResult:
        """Run a job to its end; an interrupted run of it on the same facts is resumed."""
        services = self._services
        given = freeze_job(services.agency, request, services.ids, caller)
        caller = msgspec.structs.replace(caller, trace_id=given.trace_id)
        policy_id, _, facts = services.agency.gather_facts(given, caller)
        payload = None if request.action_payload is UNSET else cast("Json", request.action_payload)
        open_run = self._find_unfinished(facts, caller.tenant) if request.job_id else None
        if open_run is not None:
            return self.resume(open_run)
        log_id = services.ids.new_id()
        with self._hold_job(log_id) as lease:
            self._begin(log_id, policy_id, facts, caller, payload)
            # Text that is not stored is still in memory here.
            return self._run(lease, self.record(log_id), facts, payload, is_resumed=False)

    def resume(self, name: str) -> JobResult:
        """Resume an interrupted job; one that has ended returns its recorded result."""
        log_id = self.record(name).started.log_id
        with self._hold_job(log_id) as lease:
            record = self.record(log_id)
            if record.log is not None:
                return self._result(record, record.log, is_resumed=True)
            if record.abandoned:
                raise InputError(f"the job `{log_id}` was given up: {record.abandoned}")
            try:
                return self._run(lease, record, *self._unseal(record), is_resumed=True)
            except MissingSnapshot as error:
                told = ABANDONED_FORM.encode(JobAbandoned(log_id, error.message))
                self._append(lease, ABANDONED, abandoned_name(log_id), log_id, told)
                raise

    def record(self, name: str, tenant: str | None = None) -> JobRecord:
        """Read the record of a job, by its log or its own id; `tenant` None reads those of all."""
        with self._ledger(tenant) as ledger:
            return job_record(ledger, name)

    def find_result(self, name: str, tenant: str | None = None) -> JobResult:
        """Read the result of a job that has ended."""
        record = self.record(name, tenant)
        if record.log is None:
            why = record.abandoned or "it is under way, or was cut short"
            hint = "go on with it: `pointsman jobs run --resume`"
            raise NotFound(f"the job `{record.started.log_id}` has not ended: {why}", hint=hint)
        return self._result(record, record.log, is_resumed=False)

    def list_latest(self, most: int = 100, tenant: str | None = None) -> list[JobSummary]:
        """List the latest jobs, the newest first."""
        if not self._services.home.database.exists():
            return []
        with self._ledger(tenant) as ledger:
            found = started_jobs(ledger)[-most:][::-1]
            return [self._summary(job_record(ledger, each.entry.id)) for each in found]

    def _summary(self, record: JobRecord) -> JobSummary:
        started, log = record.started, record.log
        status: str = "" if log is None else log.status
        if record.abandoned:
            status = "abandoned"
        return JobSummary(started.log_id, started.job_id, record.stored.entry.at, status)

    def _find_unfinished(self, facts: JobFacts, tenant: str) -> str | None:
        """Find an unfinished run of the same tenant's job on the same facts."""
        home = self._services.home
        if not home.database.exists():
            return None
        seal = seal_text(str(facts.query), home.content_key())
        wanted = FACTS_FORM.encode(with_seal(facts, seal))
        with self._ledger(tenant or None) as ledger:
            for each in unfinished_runs(ledger, facts.job_id):
                if FACTS_FORM.encode(each.facts) == wanted:
                    return each.started.log_id
        return None

    def _begin(
        self, log_id: str, policy_id: ContentId, facts: JobFacts, caller: Caller, payload: Json
    ) -> None:
        """Record the start of a job, with its snapshots, facts and council."""
        services, waits = self._services, BlockingWaiter()
        seal = services.agency.seal_query(facts, waits)
        kept: Sealed | None = None
        if payload is not None:
            text = canonical_json(payload).decode()
            kept = services.decision_recorder.recorder().hand_in_text(text, waits)
        waits.wait()
        snapshots = {
            "selfrep": facts.selfrep_id,
            "brainstate": facts.brainstate_id,
            "router": policy_id,
        }
        started = JobStarted(
            log_id,
            facts.job_id,
            facts.job_seed,
            caller.trace_id,
            caller.actor,
            seeded_instant(0),
            snapshots,
            seal,
            kept,
            self._retain,
            caller.tenant or UNSET,
        )
        attached = (
            FACTS_FORM.encode(with_seal(facts, seal)),
            council_bytes(services.agency.in_force().council),
        )
        draft = Draft(
            STARTED,
            log_id,
            job_ref(facts.job_id),
            services.clock.now(),
            STARTED_FORM.encode(started),
            attached,
        )
        services.decision_recorder.recorder().record(draft)

    def _run(
        self,
        lease: HeldLease,
        record: JobRecord,
        facts: JobFacts,
        payload: Json,
        *,
        is_resumed: bool,
    ) -> JobResult:
        services, started = self._services, record.started
        snapshots, names = services.agency.snapshots, started.snapshot_ids
        plan = Plan(
            started,
            facts,
            facts.query if isinstance(facts.query, str) else "",
            snapshots.selfrep(names["selfrep"]),
            snapshots.brainstate(names["brainstate"]),
        )
        router = snapshots.router(names["router"], names["selfrep"])
        caller = Caller(started.by, started.trace_id, facts.permitted)
        steps = LiveSteps(services, lease, plan, record, router, caller)
        steps.set_council(read_council(record.council), payload)
        log = run_job(plan, steps)
        name, body = finished_name(started.log_id), LOG_FORM.encode(log)
        self._append(lease, FINISHED, name, started.log_id, body)
        made = self._result(self.record(started.log_id), log, is_resumed=is_resumed)
        return msgspec.structs.replace(made, text=steps.text)

    def _unseal(self, record: JobRecord) -> tuple[JobFacts, Json]:
        """Return a job's facts with the text of the query, and the payload of its action."""
        facts, payload = record.facts, record.started.payload
        home = self._services.home
        with closing(ContentReader(home.content, home.content_key())) as content:
            if not facts.privacy.is_blocked:
                facts = with_text(facts, content.text)
            if payload is None:
                return facts, None
            return facts, untag(msgspec.json.decode(content.text(payload)))

    def _result(self, record: JobRecord, log: ReflectiveLog, *, is_resumed: bool) -> JobResult:
        if record.finished is None:
            raise NotFound(f"the job `{log.log_id}` has not ended")
        entry, text = record.finished.entry, self._answer(log, record)
        return JobResult(log, text, is_resumed, entry.prev.hex(), entry.hash.hex())

    def _answer(self, log: ReflectiveLog, record: JobRecord) -> str | None:
        if log.final_output is None:
            return None
        try:
            reply = recall_answer(record.outputs[log.sequence], self._services.home).reply
        except MissingSnapshot:
            return None
        return None if reply is None else reply.text

    def _append(self, lease: HeldLease, kind: str, name: str, log_id: str, payload: bytes) -> None:
        services = self._services
        draft = Draft(kind, name, log_id, services.clock.now(), payload)
        services.decision_recorder.recorder().record_under(lease, draft)

    @contextmanager
    def _hold_job(self, log_id: str) -> Iterator[HeldLease]:
        name = "job-" + hashlib.sha256(log_id.encode()).hexdigest()[:32]
        try:
            lease = self._services.home.lease(name)
        except ChainHeld:
            raise ChainHeld(f"another process has the job `{log_id}`") from None
        try:
            yield lease
        finally:
            lease.release()

    @contextmanager
    def _ledger(self, tenant: str | None = None) -> Iterator[LedgerReader]:
        path = self._services.home.database
        if not path.exists():
            raise NotFound("no job was ever run here", hint="`pointsman jobs run --goal TEXT`")
        home = self._services.home.seen_by(tenant)
        with told_errors(path), closing(home.reader()) as ledger:
            yield ledger


def open_jobs(  # noqa: PLR0913 - all that an opened home has for them
    home: Home,
    files: PolicyFiles,
    decision_recorder: DecisionRecorder,
    sources: tuple[Clock, IdSource],
    agency: Agency,
    approvals: Approvals,
    *,
    conversations: Callable[[], Conversations],
) -> Jobs:
    """Open the jobs of a home; functions of agents are found beside its files."""
    models = ModelAgents(conversations)
    client = AgentClient(home.path, lambda: files.settings().value.workflow, models)
    services = JobServices(home, decision_recorder, *sources, agency, approvals, client)
    return Jobs(services, files.settings().value.retain, models)
