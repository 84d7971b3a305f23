"""The steps of a job done here and now, each durable before the next is taken.

INVARIANT: what is on record is recalled, not done again. Only a call that had begun and left no
answer is made once more, under the decision that stands: agents are told their job and attempt, and
what lasts is only ever asked for.
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
from pointsman.agents.trace import AgentOutcome
from pointsman.agents.trust.apt import TrustEvent
from pointsman.approvals.action_making import Wanted
from pointsman.approvals.approvals import Approvals
from pointsman.brainstate.events import Inputs
from pointsman.brainstate.seeded import seeded_instant
from pointsman.brainstate.state import BrainState
from pointsman.errors import DocumentError, PointsmanError
from pointsman.governance.action import ACTIONS, ActionType, Origin
from pointsman.governance.council import Question
from pointsman.jobs.agency import Agency
from pointsman.jobs.agency_record import Caller, trust_draft
from pointsman.jobs.agent_calling import AgentCalling, Called
from pointsman.jobs.agent_privacy import found_kinds, lasting
from pointsman.jobs.agent_reply import (
    AgentReply,
    kept_reply,
    read_reply,
    reply_text,
    work_of,
)
from pointsman.jobs.council_sitting import Sitting
from pointsman.jobs.flow import Answered, Chosen, Gated, Judged, Plan, Thought
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
from pointsman.jobs.record import JobRecord
from pointsman.kernel.canonical import ContentId, canonical_json
from pointsman.kernel.content import Sealed
from pointsman.kernel.document import Json
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import Clock, IdSource
from pointsman.kernel.record import Names
from pointsman.recording.desk import Desk
from pointsman.recording.waiting import Blocking
from pointsman.storage.home import Home
from pointsman.storage.stores.entries import ContentReader
from pointsman.storage.writer.chain_rows import HeldLease

NO_PAYLOAD = "the job needs an action and gives no `action_payload` for it"
NO_SUCH_ACTION = "no request can be made for this action"
LONGEST_REASON = 500


class Office(Struct, frozen=True):
    """What jobs are done with."""

    home: Home
    desk: Desk
    clock: Clock
    ids: IdSource
    agency: Agency
    approvals: Approvals
    calling: AgentCalling


class LiveDoing:
    """Does the steps of one job, as long as nobody else has taken it over."""

    def __init__(
        self,
        office: Office,
        lease: HeldLease,
        plan: Plan,
        record: JobRecord,
        router: CompiledAgents,
        caller: Caller,
    ) -> None:
        self._office = office
        self._lease = lease
        self._plan = plan
        self._record = record
        self._router = router
        self._caller = caller
        self._payload: Json = None
        self._run: Mapping[str, GivenRun] = office.agency.in_force().run
        self._council = GivenCouncil()
        self.text: str | None = None

    def equip(self, council: GivenCouncil, payload: Json) -> None:
        """Say who judges, and what an action of the job would carry."""
        self._council, self._payload = council, payload

    def decide(self, facts: JobFacts) -> Chosen:
        """Choose an agent, or recall who was chosen."""
        known = self._record.decisions.get(facts.attempt)
        if known is not None:
            return Chosen(known.stored.entry.id, known.facts_id, known.outcome)
        self._lease.fence()
        office, started = self._office, self._plan.started
        names = Names(office.ids.new_id(), started.log_id, office.clock.now())
        linked = REROUTE if facts.attempt > 1 else ""
        policy_id = ContentId(started.snapshot_ids["router"])
        shown = office.agency.route(policy_id, self._router, facts, names, started.trace_id, linked)
        return Chosen(shown.decision_id, shown.facts_id, shown.outcome)

    def call(self, facts: JobFacts, outcome: AgentOutcome, state: BrainState) -> Answered:
        """Call the agent, and keep what it answers before anybody looks at it."""
        answered = self._called(facts, outcome, state)
        self.text = None if answered.reply is None else answered.reply.text
        return answered

    def _called(self, facts: JobFacts, outcome: AgentOutcome, state: BrainState) -> Answered:
        known = self._record.outputs.get(facts.attempt)
        if known is not None:
            return recalled(known, self._office.home)
        self._lease.fence()
        agent_id = outcome.selected_agent or ""
        work = cast(dict[str, Json], work_of(facts, self._plan.query, state, outcome))
        started_ns = time.perf_counter_ns()
        called = self._office.calling.call(agent_id, self._run.get(agent_id), work)
        elapsed_us = (time.perf_counter_ns() - started_ns) // 1000
        called, reply = _read(called)
        return self._kept(facts.attempt, agent_id, called, reply, elapsed_us)

    def _kept(
        self, number: int, agent_id: str, called: Called, reply: AgentReply | None, elapsed_us: int
    ) -> Answered:
        waits, recorder = Blocking(), self._office.desk.recorder()
        seal: Sealed | None = None
        kinds: tuple[str, ...] = ()
        if reply is not None:
            seal = recorder.hand_in_text(reply_text(called.value), waits)
            kinds = tuple(sorted({each.rpartition(".")[2] for each in found_kinds(reply.text)}))
        waits.reached()
        # A reason is another's text: what is personal in it does not last.
        reason = lasting(called.reason[:LONGEST_REASON])
        log_id = self._plan.started.log_id
        output = JobOutput(log_id, number, agent_id, called.status, reason, seal, kinds, elapsed_us)
        self._once(OUTPUT, output_name(log_id, number), OUTPUT_FORM.encode(output))
        return Answered(called.status, reason, reply, seal.digest if seal else "", kinds)

    def judge(self, number: int, question: Question, agent_id: str, answered: Answered) -> Judged:
        """Have every member vote who has not yet."""
        known = {each.voter: each.vote for each in self._record.votes.get(number, [])}
        log_id, votes, warnings = self._plan.started.log_id, [], []
        output = cast(AgentReply, answered.reply).output(agent_id, answered.found_kinds)
        sitting = Sitting(self._council, self._office.calling, self._run)
        for place, member in enumerate(self._council.members):
            vote = known.get(member.id)
            if vote is None:
                vote_id = self._plan.named(number, "vote", member.id)
                found = sitting.vote(member, vote_id, question, output)
                if isinstance(found, str):
                    warnings.append(found)
                    continue
                vote = found
                told = VOTE_ENTRY_FORM.encode(JobVote(log_id, number, member.id, vote))
                self._once(VOTE, vote_name(log_id, number, place), told)
            votes.append((member.id, vote))
        return Judged(tuple(votes), tuple(warnings))

    def tick(self, number: int, before: tuple[str, BrainState], inputs: Inputs) -> Thought:
        """Advance the state; the wishes of a tick that is on record were asked for then."""
        del number
        name, state = before
        agency, started = self._office.agency, self._plan.started
        known = self._record.ticks.get(name)
        if known is not None:
            after = agency.snapshots.brainstate(known.brainstate_after)
            return Thought(known.brainstate_after, after, known.action_requests, known.refused)
        job = (started.job_id, started.log_id)
        made = agency.tick_for_job(name, state, inputs, job, self._caller)
        return Thought(made.id, made.state, made.action_requests, made.refused)

    def trust(self, event: TrustEvent) -> None:
        """Tell what happened to a module, once."""
        if event.event_id not in self._record.trust:
            office = self._office
            names = Names(event.event_id, self._plan.started.log_id, office.clock.now())
            office.desk.recorder().append_under(self._lease, trust_draft(names, event))

    def gate(self, outcome: AgentOutcome) -> Gated:
        """Ask for the action the job needs; its approval is others' matter."""
        kind, started = action_key(outcome.required_action), self._plan.started
        if kind not in ACTIONS or kind == "workflow_branch":
            return Gated("", f"{NO_SUCH_ACTION}: {outcome.required_action}")
        if self._payload is None:
            return Gated("", NO_PAYLOAD)
        agent_id = outcome.selected_agent or ""
        origin = Origin("agent", agent_id, started.job_id, started.job_seed, started.trace_id)
        reasons = "; ".join(outcome.action_reasons)
        wanted = Wanted(
            cast(ActionType, kind),
            self._payload,
            f"the job `{started.log_id}` needs it, routed to `{agent_id}`: {reasons}",
            origin=origin,
            request_id=self._plan.named("gate"),
            seeded_at=seeded_instant(0),
        )
        try:
            made = self._office.approvals.request(wanted, self._caller.actor)
        except PointsmanError as error:
            return Gated("", f"the request was refused: {error.code}")
        return Gated(made.request.request_id)

    def ended(self, iteration: Iteration) -> None:
        """Append an iteration to the job's log."""
        if iteration.number not in self._record.iterations:
            name = iteration_name(self._plan.started.log_id, iteration.number)
            self._once(ITERATION, name, ITERATION_FORM.encode(iteration))

    def _once(self, kind: str, name: str, payload: bytes) -> None:
        office, log_id = self._office, self._plan.started.log_id
        draft = Draft(kind, name, log_id, office.clock.now(), payload)
        office.desk.recorder().append_under(self._lease, draft)


def recalled(output: JobOutput, home: Home) -> Answered:
    """Give what an agent answered, as it was kept."""
    reply = None
    if output.reply is not None:
        content = ContentReader(home.content, home.content_key())
        try:
            reply = kept_reply(content.text(output.reply))
        finally:
            content.close()
    digest = "" if output.reply is None else output.reply.digest
    return Answered(output.status, output.reason, reply, digest, output.found_kinds)


def _read(called: Called) -> tuple[Called, AgentReply | None]:
    """Read an answer; one that is none is the agent's failure."""
    if called.status != "done":
        return called, None
    try:
        canonical_json(called.value)
        return called, read_reply(called.value)
    except DocumentError as error:
        problem = error.problems[0]
        message = f"the answer cannot be read: {problem.code}: {problem.message}"
        return Called("exception", reason=message), None
    except PointsmanError as error:
        return Called("exception", reason=f"the answer cannot be read: {error.code}"), None
