"""The course of a job: decide, call, judge, tick, and again without the agent that failed.

Pure apart from its steps: run live, it makes a log; run over recorded answers, it must make the
same one, byte for byte.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from msgspec import Struct

from pointsman.agents.facts import JobFacts, after_failure
from pointsman.agents.modules.folding import fold_events
from pointsman.agents.modules.selfrep import SELFREP_FORM, SelfRep
from pointsman.agents.modules.trust import EventType, TrustEvent, event_id
from pointsman.agents.trace import OUTCOME_FORM, AgentOutcome
from pointsman.brainstate.events import (
    AttemptFailed,
    Event,
    NodeFailed,
    ResultProduced,
    TickInputs,
    TokensUsed,
)
from pointsman.brainstate.journal import seeded_instant
from pointsman.brainstate.state import BrainState, Goal
from pointsman.governance.council import CouncilQuestion, CouncilVote, council_approval
from pointsman.jobs.log import (
    CallStatus,
    FinalOutput,
    Iteration,
    IterationStatus,
    JobFault,
    JobStarted,
    JobStatus,
    ReflectiveLog,
    RouterOutput,
    VoteCast,
    iteration_name,
    short_vote,
)
from pointsman.jobs.reply import AgentReply
from pointsman.kernel.number import ZERO, Billionths

EXECUTOR: Final = "executor"
"""The origin of events about an agent's failure or its council votes: never the agent itself."""

_FAULTS: Final[dict[CallStatus, str]] = {
    "timeout": "AGENT_TIMEOUT",
    "exception": "AGENT_ERROR",
    "unreachable": "AGENT_ERROR",
}
_FAILURES: Final[dict[CallStatus, EventType]] = {
    "timeout": "AGENT_TIMEOUT",
    "exception": "AGENT_EXCEPTION",
}


class Plan(Struct, frozen=True):
    """All that a job starts from."""

    started: JobStarted
    facts: JobFacts
    query: str
    selfrep: SelfRep
    state: BrainState

    @property
    def run_seed(self) -> str:
        """The seed of this one run: a job may be run again under its own seed."""
        return f"{self.started.job_seed}:{self.started.log_id}"

    def derive_id(self, *parts: object) -> str:
        """Derive the id of a part of this run."""
        text = ":".join([self.run_seed, *map(str, parts)])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class AgentChoice(NamedTuple):
    """A recorded choice of an agent."""

    decision_id: str
    facts_id: str
    outcome: AgentOutcome


class AgentAnswer(NamedTuple):
    """A recorded end of a call; `output_id` names the stored answer."""

    status: CallStatus
    reason: str
    reply: AgentReply | None
    output_id: str
    found_kinds: tuple[str, ...]


class CouncilVotes(NamedTuple):
    """The recorded votes, each with its voter, and a warning for each member without a vote."""

    votes: tuple[tuple[str, CouncilVote], ...]
    warnings: tuple[str, ...] = ()


class NextState(NamedTuple):
    """The state after a recorded tick."""

    id: str
    state: BrainState
    action_requests: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


class GateRequest(NamedTuple):
    """The action request made in place of a call, or the problem that prevents it."""

    request_id: str
    problem: str = ""


class JobSteps(Protocol):
    """Performs the steps of a job, or recalls their recorded results."""

    def decide(self, facts: JobFacts) -> AgentChoice:
        """Choose an agent; the choice is durable when this returns."""
        ...

    def call(self, facts: JobFacts, outcome: AgentOutcome, state: BrainState) -> AgentAnswer:
        """Call the chosen agent; its answer is stored when this returns."""
        ...

    def judge(
        self, number: int, question: CouncilQuestion, agent_id: str, answered: AgentAnswer
    ) -> CouncilVotes:
        """Have the council vote."""
        ...

    def tick(self, number: int, before: tuple[str, BrainState], inputs: TickInputs) -> NextState:
        """Advance the state."""
        ...

    def trust(self, event: TrustEvent) -> None:
        """Record a trust event of a module."""
        ...

    def gate(self, outcome: AgentOutcome) -> GateRequest:
        """Request the action that a job needs, without performing it."""
        ...

    def record_iteration(self, iteration: Iteration) -> None:
        """Record an iteration."""
        ...


def run_job(plan: Plan, steps: JobSteps) -> ReflectiveLog:
    """Run a job to its end, and return its log."""
    return _JobRun(plan, steps).run()


class _JobRun:
    """One job under way."""

    def __init__(self, plan: Plan, steps: JobSteps) -> None:
        self.plan = plan
        self.steps = steps
        self.facts = plan.facts
        self.state_id = plan.started.snapshot_ids["brainstate"]
        self.state = plan.state
        self.iterations: list[Iteration] = []
        self.events: list[TrustEvent] = []
        self.outputs: list[str] = []
        self.faults: list[JobFault] = []
        self.final: FinalOutput | None = None

    def run(self) -> ReflectiveLog:
        while True:
            chosen = self.steps.decide(self.facts)
            outcome, status = chosen.outcome, self._end_without_call(chosen)
            if status is None and outcome.selected_agent is not None:
                status = self._try_agent(chosen, outcome.selected_agent)
            if status is not None:
                return self._log(status, outcome)

    def _end_without_call(self, chosen: AgentChoice) -> JobStatus | None:
        """End the job where no agent is to be called."""
        outcome = chosen.outcome
        if outcome.selected_agent is None:
            self._add_fault(outcome.error_code, outcome.cause.value)
            self._record_iteration(chosen, "no_agent", reason=outcome.cause.value)
            is_blocked = outcome.error_code == "PRIVACY_BLOCKED"
            return "privacy_blocked" if is_blocked else "no_match"
        if outcome.requires_action_request:
            gated = self.steps.gate(outcome)
            requests = (gated.request_id,) if gated.request_id else ()
            warnings = (gated.problem,) if gated.problem else ()
            self._record_iteration(chosen, "action_request", requests=requests, warnings=warnings)
            return "requested" if gated.request_id else "needs_request"
        return None

    def _try_agent(self, chosen: AgentChoice, agent_id: str) -> JobStatus | None:
        """Call an agent; a status where the job ends with that, None where another is asked."""
        answered = self.steps.call(self.facts, chosen.outcome, self.state)
        reply = answered.reply
        if answered.status != "done" or reply is None:
            self._record_failure(chosen, agent_id, answered)
            self.facts = after_failure(self.facts, agent_id)
            return None
        self.outputs.append(answered.output_id)
        goal = _goal_of_attempt(self.state, chosen.outcome, self.plan.selfrep)
        question = CouncilQuestion(self.plan.query, "" if goal is None else goal.deliverable)
        judged = self.steps.judge(self.facts.attempt, question, agent_id, answered)
        votes = [vote for _, vote in judged.votes]
        approval = council_approval(votes)
        confidence = _confidence(reply, votes)
        events = [
            *_token_events(reply),
            *_goal_events(goal, agent_id, reply, confidence, approval=approval),
        ]
        told = (*events, *reply.wishes(agent_id))
        inputs = TickInputs(approval, None, reply.insertions(), told)
        trust = self._council_trust(agent_id, approval=approval)
        before, thought = self.state_id, self._tick(inputs)
        is_shaky = approval is not True or not reply.is_finished
        self.final = FinalOutput(
            agent_id, answered.output_id, reply.exact_confidence, reply.deliverable, is_shaky
        )
        if approval is False and 2 * sum(vote.approve for vote in votes) == len(votes):
            self._add_fault("COUNCIL_DEADLOCK", f"{len(votes)} votes, half of them for it")
        self._record_iteration(
            chosen,
            "done",
            answered=answered,
            approval=approval,
            votes=tuple(short_vote(*each) for each in judged.votes),
            before=before,
            trust=trust,
            requests=thought.action_requests,
            warnings=(*judged.warnings, *(f"refused: {each}" for each in thought.refused)),
        )
        return "rejected" if approval is False else "done"

    def _record_failure(self, chosen: AgentChoice, agent_id: str, answered: AgentAnswer) -> None:
        self._add_fault(_FAULTS[answered.status], f"{agent_id}: {answered.reason}")
        goal = _goal_of_attempt(self.state, chosen.outcome, self.plan.selfrep)
        told: Event = NodeFailed(agent_id, answered.reason)
        if goal is not None:
            told = AttemptFailed(goal.goal_id, agent_id, answered.reason)
        failure = _FAILURES.get(answered.status)
        trust = () if failure is None else (self._record_trust(failure, agent_id),)
        before = self.state_id
        self._tick(TickInputs(events=(told,)))
        self._record_iteration(
            chosen, answered.status, answered=answered, before=before, trust=trust
        )

    def _council_trust(self, agent_id: str, *, approval: bool | None) -> tuple[str, ...]:
        if approval is None:
            return ()
        return (self._record_trust("COUNCIL_APPROVAL", agent_id, is_correct=approval),)

    def _record_trust(self, kind: EventType, agent_id: str, *, is_correct: bool = False) -> str:
        index, seed = len(self.events), self.plan.run_seed
        event = TrustEvent(
            event_id=event_id(seed, index, kind),
            job_seed=seed,
            event_sequence_index=index,
            event_type=kind,
            node_id=agent_id,
            origin=EXECUTOR,
            timestamp_seeded=seeded_instant(index),
            trace_id=self.plan.started.trace_id,
            is_correct=is_correct,
        )
        self.events.append(event)
        self.steps.trust(event)
        return event.event_id

    def _tick(self, inputs: TickInputs) -> NextState:
        thought = self.steps.tick(self.facts.attempt, (self.state_id, self.state), inputs)
        self.state_id, self.state = thought.id, thought.state
        return thought

    def _add_fault(self, code: str, detail: str) -> None:
        self.faults.append(JobFault(code, self.facts.attempt, detail))

    def _record_iteration(  # noqa: PLR0913 - the parts of one entry
        self,
        chosen: AgentChoice,
        status: IterationStatus,
        *,
        reason: str = "",
        answered: AgentAnswer | None = None,
        approval: bool | None = None,
        votes: tuple[VoteCast, ...] = (),
        before: str = "",
        trust: tuple[str, ...] = (),
        requests: tuple[str, ...] = (),
        warnings: tuple[str, ...] = (),
    ) -> None:
        number = self.facts.attempt
        iteration = Iteration(
            iteration_id=iteration_name(self.plan.started.log_id, number),
            number=number,
            excluded=self.facts.excluded,
            decision_id=chosen.decision_id,
            router_input_snapshot=chosen.facts_id,
            router_output=_router_output(chosen.outcome),
            agent_id=chosen.outcome.selected_agent or "",
            status=status,
            reason=reason if answered is None else answered.reason,
            agent_output_id="" if answered is None else answered.output_id,
            council_approval=approval,
            council_votes=votes,
            brainstate_before=before or self.state_id,
            brainstate_after=self.state_id,
            trust_events=trust,
            action_requests=requests,
            warnings=warnings,
        )
        self.iterations.append(iteration)
        self.steps.record_iteration(iteration)

    def _log(self, status: JobStatus, outcome: AgentOutcome) -> ReflectiveLog:
        started, rows = self.plan.started, self.iterations
        return ReflectiveLog(
            log_id=started.log_id,
            job_id=started.job_id,
            job_seed=started.job_seed,
            trace_id=started.trace_id,
            sequence=len(rows),
            created_at_seeded=started.created_at_seeded,
            snapshot_ids=started.snapshot_ids,
            query_text_hash=started.query.digest,
            status=status,
            router_decision=outcome,
            iteration_trace=tuple(rows),
            agents_invoked=tuple(x.agent_id for x in rows if x.status in {*_FAULTS, "done"}),
            agent_outputs=tuple(self.outputs),
            council_votes=tuple(vote for each in rows for vote in each.council_votes),
            action_requests=tuple(name for each in rows for name in each.action_requests),
            final_output=self.final,
            brainstate_before=started.snapshot_ids["brainstate"],
            brainstate_after=self.state_id,
            selfrep_after=SELFREP_FORM.id(fold_events(self.plan.selfrep, self.events)),
            event_refs=tuple(each.event_id for each in self.events),
            errors=tuple(self.faults),
            warnings=tuple(text for each in rows for text in each.warnings),
            replayable=started.retain == "full",
        )


def _router_output(outcome: AgentOutcome) -> RouterOutput:
    return RouterOutput(
        outcome.selected_agent,
        outcome.reason_tag,
        outcome.depth,
        outcome.token_budget,
        outcome.requires_action_request,
        outcome.error_code,
        outcome.cause,
        OUTCOME_FORM.id(outcome),
    )


def _goal_of_attempt(state: BrainState, outcome: AgentOutcome, selfrep: SelfRep) -> Goal | None:
    """Return the goal an attempt works on: the first the agent serves, else the first.

    DETERMINISM: by priority, the highest first; of equal ones the earlier created.
    """
    active = [each for each in state.goals if each.status == "active"]
    module = selfrep.module(outcome.selected_agent or "")
    able = () if module is None else module.capabilities
    served = [each for each in active if each.type in able] or active
    return max(served, key=lambda each: each.priority, default=None)


def _confidence(reply: AgentReply, votes: Sequence[CouncilVote]) -> Billionths:
    """Return how far an answer is trusted: by its agent, else the lowest mark for correctness."""
    said = reply.exact_confidence
    return min((each.correctness for each in votes), default=ZERO) if said is None else said


def _token_events(reply: AgentReply) -> Iterator[Event]:
    if reply.tokens_used:
        yield TokensUsed(reply.tokens_used)


def _goal_events(
    goal: Goal | None,
    agent_id: str,
    reply: AgentReply,
    confidence: Billionths,
    *,
    approval: bool | None,
) -> Iterator[Event]:
    """Yield the event of the goal: its result, or a failed attempt where the council rejects."""
    if goal is None:
        return
    if approval is False:
        yield AttemptFailed(goal.goal_id, "", f"the council rejected the output of {agent_id}")
    else:
        yield ResultProduced(goal.goal_id, reply.deliverable, confidence)
