"""The steps of a job performed live, each durable before the next begins.

INVARIANT: recorded steps are recalled, not repeated. Only a call that had begun and left no answer
is made once more, under its recorded decision: agents are told their job and attempt, and lasting
effects are only ever requested.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import cast

from msgspec import Struct

from pointsman.agents.compiled import CompiledAgents
from pointsman.agents.facts import JobFacts
from pointsman.agents.file.run_section import GivenCouncil, GivenRun
from pointsman.agents.modules.module import action_key
from pointsman.agents.modules.trust import TrustEvent
from pointsman.agents.trace import AgentOutcome
from pointsman.approvals.approvals import Approvals
from pointsman.approvals.proposal import ActionProposal
from pointsman.brainstate.events import TickInputs
from pointsman.brainstate.journal import seeded_instant
from pointsman.brainstate.state import BrainState
from pointsman.errors import DocumentError, PointsmanError
from pointsman.governance.action import ACTIONS, ActionType, RequestOrigin
from pointsman.governance.council import CouncilQuestion
from pointsman.jobs.agency import Agency
from pointsman.jobs.agent_client import AgentClient, AgentResult
from pointsman.jobs.council import JobCouncil
from pointsman.jobs.course import (
    AgentAnswer,
    AgentChoice,
    CouncilVotes,
    GateRequest,
    NextState,
    Plan,
)
from pointsman.jobs.entries import Caller, trust_draft
from pointsman.jobs.log import (
    ITERATION,
    ITERATION_FORM,
    OUTPUT,
    OUTPUT_FORM,
    REROUTE,
    VOTE,
    VOTE_ENTRY_FORM,
    Iteration,
    JobOutput,
    JobVote,
    iteration_name,
    output_name,
    vote_name,
)
from pointsman.jobs.privacy import find_kinds, redact_findings
from pointsman.jobs.record import JobRecord
from pointsman.jobs.reply import (
    AgentReply,
    agent_work,
    read_reply,
    read_stored_reply,
    reply_text,
)
from pointsman.kernel.canonical import ContentId, canonical_json
from pointsman.kernel.content import Sealed
from pointsman.kernel.document import Json
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import Clock, IdSource
from pointsman.kernel.record import Names
from pointsman.recording.decision_recorder import DecisionRecorder
from pointsman.recording.waiting import BlockingWaiter
from pointsman.storage.home import Home
from pointsman.storage.stores.entries import ContentReader
from pointsman.storage.writer.chain_rows import HeldLease

NO_PAYLOAD = "the job needs an action and gives no `action_payload` for it"
NO_SUCH_ACTION = "no request can be made for this action"
LONGEST_REASON = 500


class JobServices(Struct, frozen=True):
    """The services that jobs use."""

    home: Home
    decision_recorder: DecisionRecorder
    clock: Clock
    ids: IdSource
    agency: Agency
    approvals: Approvals
    client: AgentClient


class LiveSteps:
    """Performs the steps of one job, as long as this process holds its lease."""

    def __init__(
        self,
        services: JobServices,
        lease: HeldLease,
        plan: Plan,
        record: JobRecord,
        router: CompiledAgents,
        caller: Caller,
    ) -> None:
        self._services = services
        self._lease = lease
        self._plan = plan
        self._record = record
        self._router = router
        self._caller = caller
        self._payload: Json = None
        self._run: Mapping[str, GivenRun] = services.agency.in_force().run
        self._council = GivenCouncil()
        self.text: str | None = None

    def set_council(self, council: GivenCouncil, payload: Json) -> None:
        """Set the council, and the payload of the job's action."""
        self._council, self._payload = council, payload

    def decide(self, facts: JobFacts) -> AgentChoice:
        """Choose an agent, or recall the recorded choice."""
        known = self._record.decisions.get(facts.attempt)
        if known is not None:
            return AgentChoice(known.stored.entry.id, known.facts_id, known.outcome)
        self._lease.fence()
        services, started = self._services, self._plan.started
        names = Names(services.ids.new_id(), started.log_id, services.clock.now())
        linked = REROUTE if facts.attempt > 1 else ""
        policy_id = ContentId(started.snapshot_ids["router"])
        shown = services.agency.route(
            policy_id, self._router, facts, names, started.trace_id, linked, started.tenant
        )
        return AgentChoice(shown.decision_id, shown.facts_id, shown.outcome)

    def call(self, facts: JobFacts, outcome: AgentOutcome, state: BrainState) -> AgentAnswer:
        """Call the agent; its answer is stored before any step reads it."""
        answered = self._call_or_recall(facts, outcome, state)
        self.text = None if answered.reply is None else answered.reply.text
        return answered

    def _call_or_recall(
        self, facts: JobFacts, outcome: AgentOutcome, state: BrainState
    ) -> AgentAnswer:
        known = self._record.outputs.get(facts.attempt)
        if known is not None:
            return recall_answer(known, self._services.home)
        self._lease.fence()
        agent_id = outcome.selected_agent or ""
        work = cast("dict[str, Json]", agent_work(facts, self._plan.query, state, outcome))
        started_ns = time.perf_counter_ns()
        called = self._services.client.call(agent_id, self._run.get(agent_id), work)
        elapsed_us = (time.perf_counter_ns() - started_ns) // 1000
        called, reply = _parse_reply(called)
        return self._record_answer(facts.attempt, agent_id, called, reply, elapsed_us)

    def _record_answer(
        self,
        number: int,
        agent_id: str,
        called: AgentResult,
        reply: AgentReply | None,
        elapsed_us: int,
    ) -> AgentAnswer:
        waits, recorder = BlockingWaiter(), self._services.decision_recorder.recorder()
        seal: Sealed | None = None
        kinds: tuple[str, ...] = ()
        if reply is not None:
            seal = recorder.hand_in_text(reply_text(called.value), waits)
            kinds = tuple(sorted({each.rpartition(".")[2] for each in find_kinds(reply.text)}))
        waits.wait()
        # A reason is foreign text: personal data in it is not recorded.
        reason = redact_findings(called.reason[:LONGEST_REASON])
        log_id = self._plan.started.log_id
        output = JobOutput(log_id, number, agent_id, called.status, reason, seal, kinds, elapsed_us)
        self._append(OUTPUT, output_name(log_id, number), OUTPUT_FORM.encode(output))
        return AgentAnswer(called.status, reason, reply, seal.digest if seal else "", kinds)

    def judge(
        self, number: int, question: CouncilQuestion, agent_id: str, answered: AgentAnswer
    ) -> CouncilVotes:
        """Ask every member without a recorded vote for one."""
        known = {each.voter: each.vote for each in self._record.votes.get(number, [])}
        log_id, votes, warnings = self._plan.started.log_id, [], []
        output = cast("AgentReply", answered.reply).output(agent_id, answered.found_kinds)
        council = JobCouncil(self._council, self._services.client, self._run)
        for place, member in enumerate(self._council.members):
            vote = known.get(member.id)
            if vote is None:
                vote_id = self._plan.derive_id(number, "vote", member.id)
                found = council.vote(member, vote_id, question, output)
                if isinstance(found, str):
                    warnings.append(found)
                    continue
                vote = found
                entry = VOTE_ENTRY_FORM.encode(JobVote(log_id, number, member.id, vote))
                self._append(VOTE, vote_name(log_id, number, place), entry)
            votes.append((member.id, vote))
        return CouncilVotes(tuple(votes), tuple(warnings))

    def tick(self, number: int, before: tuple[str, BrainState], inputs: TickInputs) -> NextState:
        """Advance the state; the wishes of a recorded tick were requested then."""
        del number
        name, state = before
        agency, started = self._services.agency, self._plan.started
        known = self._record.ticks.get(name)
        if known is not None:
            after = agency.snapshots.brainstate(known.brainstate_after)
            return NextState(known.brainstate_after, after, known.action_requests, known.refused)
        job = (started.job_id, started.log_id)
        made = agency.tick_for_job(name, state, inputs, job, self._caller)
        return NextState(made.id, made.state, made.action_requests, made.refused)

    def trust(self, event: TrustEvent) -> None:
        """Record a trust event of a module, once."""
        if event.event_id not in self._record.trust:
            services = self._services
            names = Names(event.event_id, self._plan.started.log_id, services.clock.now())
            services.decision_recorder.recorder().record_under(
                self._lease, trust_draft(names, event)
            )

    def gate(self, outcome: AgentOutcome) -> GateRequest:
        """Request the action the job needs; its approval happens elsewhere."""
        kind, started = action_key(outcome.required_action), self._plan.started
        if kind not in ACTIONS or kind == "workflow_branch":
            return GateRequest("", f"{NO_SUCH_ACTION}: {outcome.required_action}")
        if self._payload is None:
            return GateRequest("", NO_PAYLOAD)
        agent_id = outcome.selected_agent or ""
        origin = RequestOrigin(
            "agent", agent_id, started.job_id, started.job_seed, started.trace_id
        )
        reasons = "; ".join(outcome.action_reasons)
        wanted = ActionProposal(
            cast("ActionType", kind),
            self._payload,
            f"the job `{started.log_id}` needs it, routed to `{agent_id}`: {reasons}",
            origin=origin,
            request_id=self._plan.derive_id("gate"),
            seeded_at=seeded_instant(0),
        )
        try:
            made = self._services.approvals.request(wanted, self._caller.actor)
        except PointsmanError as error:
            return GateRequest("", f"the request was refused: {error.code}")
        return GateRequest(made.request.request_id)

    def record_iteration(self, iteration: Iteration) -> None:
        """Append an iteration to the job's log."""
        if iteration.number not in self._record.iterations:
            name = iteration_name(self._plan.started.log_id, iteration.number)
            self._append(ITERATION, name, ITERATION_FORM.encode(iteration))

    def _append(self, kind: str, name: str, payload: bytes) -> None:
        services, log_id = self._services, self._plan.started.log_id
        draft = Draft(kind, name, log_id, services.clock.now(), payload)
        services.decision_recorder.recorder().record_under(self._lease, draft)


def recall_answer(output: JobOutput, home: Home) -> AgentAnswer:
    """Read the stored answer of an agent."""
    reply = None
    if output.reply is not None:
        content = ContentReader(home.content, home.content_key())
        try:
            reply = read_stored_reply(content.text(output.reply))
        finally:
            content.close()
    digest = "" if output.reply is None else output.reply.digest
    return AgentAnswer(output.status, output.reason, reply, digest, output.found_kinds)


def _parse_reply(called: AgentResult) -> tuple[AgentResult, AgentReply | None]:
    """Read an answer; one that is malformed is the agent's failure."""
    if called.status != "done":
        return called, None
    try:
        canonical_json(called.value)
        return called, read_reply(called.value)
    except DocumentError as error:
        problem = error.problems[0]
        message = f"the answer cannot be read: {problem.code}: {problem.message}"
        return AgentResult("exception", reason=message), None
    except PointsmanError as error:
        return AgentResult("exception", reason=f"the answer cannot be read: {error.code}"), None
