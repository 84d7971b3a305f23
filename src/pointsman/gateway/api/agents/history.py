"""The history of trust in agents and of jobs, read from the ledger for the dashboard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pointsman.agents.explain import number
from pointsman.agents.modules.folding import fold_events
from pointsman.agents.modules.module import Status
from pointsman.agents.modules.selfrep import Tail
from pointsman.agents.modules.trust import EVENT_FORM
from pointsman.app import Pointsman
from pointsman.audit.turn_shapes import InstantText
from pointsman.errors import PointsmanError
from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.serving.http import in_thread
from pointsman.gateway.serving.services import GatewayServices
from pointsman.jobs.entries import TRUST
from pointsman.jobs.log import ITERATION_FORM, Iteration, JobStatus
from pointsman.jobs.record import JobRecord, job_record, started_jobs
from pointsman.kernel.instant import instant_text
from pointsman.storage.policies.agents_file import AgentsFiles
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.stores.entries import LedgerReader

MOST_POINTS: Final = 2000
MOST_JOBS: Final = 50
AS_WRITTEN: Final = "as_written"

_ANY_SEED: Final = Tail(0, "", -1)


class AptPoint(Struct, frozen=True):
    """The trust in a module after something that happened to it; before all, as it is written."""

    at: InstantText
    node_id: str
    apt: float
    status: Status
    event: str


class IterationLine(Struct, frozen=True):
    """One choice of an agent in a job, and its result."""

    number: int
    decision_id: str
    agent_id: str
    status: str
    reason: str
    depth: int
    token_budget: int
    council_approval: bool | None
    approving: int
    votes: int


class JobLine(Struct, frozen=True):
    """A job; without a status it has not ended."""

    log_id: str
    job_id: str
    at: InstantText
    status: JobStatus | None
    agent_id: str
    iterations: tuple[IterationLine, ...]
    action_requests: tuple[str, ...]


class AgentHistory(Struct, frozen=True):
    """What happened to modules, the oldest first, and the latest jobs, the newest first."""

    points: tuple[AptPoint, ...]
    jobs: tuple[JobLine, ...]
    problems: tuple[str, ...]


class AgentHistoryApi:
    """Serves what happened to agents."""

    def __init__(self, parts: GatewayServices) -> None:
        self._parts = parts

    async def show_history(self, request: ApiRequest) -> AgentHistory:
        """Tell how trust went, and which jobs of the caller's tenant ran."""
        pointsman, reach = self._parts.pointsman, request.caller.agents_reach
        return await in_thread(lambda: _history(pointsman, reach))


def _history(pointsman: Pointsman, tenant: str | None) -> AgentHistory:
    database, problems = pointsman.home.database, pointsman.agency.problems
    if not database.exists():
        return AgentHistory((), (), problems)
    with told_errors(database), closing(pointsman.home.seen_by(tenant).reader()) as ledger:
        points = [*_points(pointsman, ledger)][-MOST_POINTS:]
        latest = reversed(started_jobs(ledger)[-MOST_JOBS:])
        jobs = [_job(job_record(ledger, each.entry.id)) for each in latest]
    return AgentHistory(tuple(points), tuple(jobs), problems)


def _points(pointsman: Pointsman, ledger: LedgerReader) -> Iterator[AptPoint]:
    """Fold the recorded events onto the modules as they are written; skip those that do not fit."""
    selfrep = AgentsFiles(pointsman.home.path, is_kept=False).current().selfrep
    known: set[str] = set()
    begun: set[str] = set()
    for stored in ledger.of_kind(TRUST):
        entry = stored.entry
        try:
            event = EVENT_FORM.decode(entry.payload)
            before = selfrep.module(event.node_id)
            if event.event_id in known or before is None:
                continue
            selfrep = fold_events(replace(selfrep, tail=_ANY_SEED), [event])
        except PointsmanError:
            continue
        known.add(event.event_id)
        at, module = instant_text(entry.at), selfrep.module(event.node_id)
        if before.node_id not in begun:
            begun.add(before.node_id)
            yield AptPoint(at, before.node_id, number(before.apt), before.status, AS_WRITTEN)
        if module is not None:
            apt = number(module.apt)
            yield AptPoint(at, module.node_id, apt, module.status, event.event_type)


def _job(record: JobRecord) -> JobLine:
    log = record.log
    written = [ITERATION_FORM.decode(each) for _, each in sorted(record.iterations.items())]
    iterations = written if log is None else log.iteration_trace
    final = None if log is None else log.final_output
    return JobLine(
        log_id=record.started.log_id,
        job_id=record.started.job_id,
        at=instant_text(record.stored.entry.at),
        status=None if log is None else log.status,
        agent_id="" if final is None else final.agent_id,
        iterations=tuple(map(_iteration, iterations)),
        action_requests=() if log is None else log.action_requests,
    )


def _iteration(each: Iteration) -> IterationLine:
    return IterationLine(
        number=each.number,
        decision_id=each.decision_id,
        agent_id=each.agent_id,
        status=each.status,
        reason=each.reason,
        depth=each.router_output.depth,
        token_budget=each.router_output.token_budget,
        council_approval=each.council_approval,
        approving=sum(vote.approve for vote in each.council_votes),
        votes=len(each.council_votes),
    )
