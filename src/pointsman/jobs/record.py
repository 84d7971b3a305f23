"""The record of one job, read back from the ledger, every entry checked."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from pointsman.agents.facts import FACTS_FORM, JobFacts
from pointsman.agents.trace import OUTCOME_FORM, AgentOutcome
from pointsman.errors import IntegrityFailure, NotFound
from pointsman.jobs.entries import TICK, TICK_FORM, TRUST, TickEntry, job_ref
from pointsman.jobs.log import (
    ABANDONED,
    ABANDONED_FORM,
    FINISHED,
    ITERATION,
    LOG_FORM,
    OUTPUT,
    OUTPUT_FORM,
    STARTED,
    STARTED_FORM,
    VOTE,
    VOTE_ENTRY_FORM,
    JobOutput,
    JobStarted,
    JobVote,
    ReflectiveLog,
)
from pointsman.kernel.entry import Entry
from pointsman.kernel.record import DECISION, read_recorded
from pointsman.storage.stores.entries import LedgerReader, Stored

AGENT = DECISION + "agent"


class RecordedDecision(Struct, frozen=True):
    """A recorded choice of a job."""

    stored: Stored
    facts: bytes
    facts_id: str
    outcome: AgentOutcome


class JobRecord(Struct):
    """The entries of one job by their subject; iterations count from 1."""

    stored: Stored
    started: JobStarted
    facts: JobFacts
    council: bytes
    decisions: dict[int, RecordedDecision]
    outputs: dict[int, JobOutput]
    votes: dict[int, list[JobVote]]
    ticks: dict[str, TickEntry]
    trust: dict[str, bytes]
    iterations: dict[int, bytes]
    finished: Stored | None
    abandoned: str
    entries: list[Stored]
    """All of them, as they happened."""

    @property
    def is_open(self) -> bool:
        """Whether it was begun, and neither finished nor abandoned."""
        return self.finished is None and not self.abandoned

    @property
    def log(self) -> ReflectiveLog | None:
        """The merged log, where the job has ended."""
        return None if self.finished is None else LOG_FORM.decode(self.finished.entry.payload)


def job_record(ledger: LedgerReader, name: str) -> JobRecord:
    """Read a job by the id of its log, or the latest run of one by its job's id."""
    found = [each for each in ledger.with_id(name) if each.entry.kind == STARTED]
    if not found:
        runs = ledger.with_ref(job_ref(name))
        found = [each for each in runs if each.entry.kind == STARTED][-1:]
    if not found:
        raise NotFound(f"no job is recorded as `{name[:100]}`")
    return _read(ledger, found[0])


def unfinished_runs(ledger: LedgerReader, job_id: str) -> list[JobRecord]:
    """List the runs of a job that were begun and not finished."""
    runs = [each for each in ledger.with_ref(job_ref(job_id)) if each.entry.kind == STARTED]
    return [each for each in (_read(ledger, run) for run in runs) if each.is_open]


def started_jobs(ledger: LedgerReader) -> list[Stored]:
    """List the first entries of all jobs, as they happened."""
    return list(ledger.of_kind(STARTED))


def _read(ledger: LedgerReader, stored: Stored) -> JobRecord:
    started = STARTED_FORM.decode(stored.entry.payload)
    attached = ledger.attachments(stored)
    if len(attached) != 2:
        raise IntegrityFailure(f"the start of the job `{started.log_id}` is not whole")
    record = JobRecord(
        stored, started, FACTS_FORM.decode(attached[0]), attached[1],
        {}, {}, {}, {}, {}, {}, None, "", [stored],
    )  # fmt: skip
    _fill(record, ledger, ledger.with_ref(started.log_id))
    return record


def _fill(record: JobRecord, ledger: LedgerReader, about: Iterable[Stored]) -> None:
    for each in about:
        entry = each.entry
        record.entries.append(each)
        if entry.kind.startswith(AGENT):
            _add_decision(record, each, next(iter(ledger.attachments(each)), b""))
        elif entry.kind.startswith(TRUST):
            record.trust.setdefault(entry.id, entry.payload)
        else:
            _add_entry(record, each, entry)


def _add_entry(record: JobRecord, stored: Stored, entry: Entry) -> None:
    match entry.kind:
        case _ if entry.kind == OUTPUT:
            output = OUTPUT_FORM.decode(entry.payload)
            record.outputs.setdefault(output.iteration, output)
        case _ if entry.kind == VOTE:
            vote = VOTE_ENTRY_FORM.decode(entry.payload)
            record.votes.setdefault(vote.iteration, []).append(vote)
        case _ if entry.kind == TICK:
            tick = TICK_FORM.decode(entry.payload)
            record.ticks.setdefault(tick.brainstate_before, tick)
        case _ if entry.kind == ITERATION:
            number = int(entry.id.rpartition(".")[2])
            record.iterations.setdefault(number, entry.payload)
        case _ if entry.kind == ABANDONED:
            record.abandoned = ABANDONED_FORM.decode(entry.payload).reason
        case _ if entry.kind == FINISHED:
            record.finished = record.finished or stored


def _add_decision(record: JobRecord, stored: Stored, facts: bytes) -> None:
    _, decision, _ = read_recorded(stored.entry.payload)
    attempt = FACTS_FORM.decode(facts).attempt
    outcome = OUTCOME_FORM.decode(bytes(decision.outcome))
    found = RecordedDecision(stored, facts, decision.facts_id, outcome)
    record.decisions.setdefault(attempt, found)
