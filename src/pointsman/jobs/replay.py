"""A job run again from its record alone: same snapshots, recorded answers, and the same bytes.

Companion §4.6: load the log, check snapshots and signatures, fold the reducers again, recompute
the router's output at every iteration and every tick, compare, then compare the result. Fails
closed. A verdict holds no word of the query or the answers.
"""

from __future__ import annotations

from contextlib import closing
from typing import TypeVar, cast

from msgspec import Struct

from pointsman.agents.facts import FACTS_FORM, JobFacts, with_seal, with_text
from pointsman.agents.modules.selfrep import SELFREP_FORM
from pointsman.agents.modules.trust import EVENT_FORM, TrustEvent
from pointsman.agents.trace import AgentOutcome
from pointsman.audit.replay import HomeReplayer
from pointsman.brainstate.events import INPUTS_FORM, TickInputs
from pointsman.brainstate.sealing import opened_state, sealed_state, sealed_trace
from pointsman.brainstate.state import BRAINSTATE_FORM, BrainState
from pointsman.brainstate.tick import tick_state
from pointsman.brainstate.trace import TRACE_FORM, TickTrace
from pointsman.errors import (
    IntegrityFailure,
    JobCutShort,
    MissingAgentOutput,
    MissingSnapshot,
    ReplayError,
    ResultMismatch,
)
from pointsman.governance.council import VOTE_FORM, CouncilQuestion, RuleVoter
from pointsman.jobs.council import read_council, votes_by_rules
from pointsman.jobs.course import (
    AgentAnswer,
    AgentChoice,
    CouncilVotes,
    GateRequest,
    NextState,
    Plan,
    run_job,
)
from pointsman.jobs.entries import TickEntry, tick_text
from pointsman.jobs.live_steps import recall_answer
from pointsman.jobs.log import (
    ITERATION_FORM,
    LOG_FORM,
    Iteration,
    ReflectiveLog,
    ReplayStep,
    StepName,
)
from pointsman.jobs.record import JobRecord, job_record
from pointsman.jobs.reply import AgentReply
from pointsman.kernel.canonical import Form
from pointsman.kernel.content import Sealed, seal_text
from pointsman.kernel.replay import Verdict
from pointsman.storage.home import Home

_T = TypeVar("_T")


class JobVerdict(Struct, frozen=True):
    """How the replay of a job ended. The last step is where it stopped, if it did."""

    log_id: str
    job_id: str
    verdict: Verdict
    code: str
    reason: str
    iterations: int
    steps: tuple[ReplayStep, ...]

    @property
    def is_identical(self) -> bool:
        """Whether all of it came out the same."""
        return self.verdict is Verdict.IDENTICAL


class _Diverged(Exception):
    """A step with another result: a finding of the replay, not an error."""


def replay_job(home: Home, name: str) -> JobVerdict:
    """Run a recorded job again, by its log's id or its own, and compare."""
    with closing(HomeReplayer(home)) as replayer:
        record = job_record(replayer.ledger, name)
        run = _Replay(home, replayer, record)
        started = record.started
        verdict, code, reason = Verdict.IDENTICAL, "", ""
        try:
            run.compare()
        except _Diverged as found:
            verdict, code, reason = Verdict.DIVERGED, Verdict.DIVERGED.value, str(found)
        except ResultMismatch as error:
            verdict, code, reason = Verdict.DIVERGED, error.code, error.message
        except ReplayError as error:
            verdict, code, reason = Verdict.UNABLE, error.code, error.message
        return JobVerdict(
            started.log_id,
            started.job_id,
            verdict,
            code,
            reason,
            len(record.iterations),
            tuple(run.steps),
        )


class _Replay:
    """One job run again; every step is answered from the record and checked against it."""

    def __init__(self, home: Home, replayer: HomeReplayer, record: JobRecord) -> None:
        self.steps: list[ReplayStep] = []
        self._home = home
        self._replayer = replayer
        self._record = record
        self._council = read_council(record.council)
        self._attempt = 0

    def compare(self) -> None:
        """Repeat every step; raise where a result differs or a step cannot be run."""
        record = self._record
        if record.finished is None:
            raise JobCutShort(record.abandoned)
        for each in record.entries:
            self._replayer.check(each.chain, each.entry)
        self._add_step("load")
        plan = self._plan()
        self._add_step("snapshots")
        log, payload = run_job(plan, self), record.finished.entry.payload
        if LOG_FORM.encode(log) != payload:
            raise _difference(log, LOG_FORM.decode(payload))
        self._add_step("result")

    def _plan(self) -> Plan:
        record, names = self._record, self._record.started.snapshot_ids
        self._replayer.policy(names["router"])
        selfrep = SELFREP_FORM.form.decode(self._replayer.policy(names["selfrep"]))
        bare = BRAINSTATE_FORM.form.decode(self._replayer.policy(names["brainstate"]))
        state = opened_state(bare, self._replayer.text)
        facts, query = record.facts, ""
        if not facts.privacy.is_blocked:
            facts = with_text(facts, self._replayer.text)
            query = str(facts.query)
        return Plan(record.started, facts, query, selfrep, state)

    def decide(self, facts: JobFacts) -> AgentChoice:
        """Choose again on the recorded facts, and compare."""
        self._attempt = facts.attempt
        known = self._from_record(self._record.decisions, "a choice")
        sealed = FACTS_FORM.encode(with_seal(facts, self._record.started.query))
        if sealed != known.facts:
            raise _Diverged(f"attempt {facts.attempt} was decided on other facts")
        again = self._replayer.replay(known.stored.chain, known.stored.entry, known.facts)
        if again.verdict is Verdict.DIVERGED:
            raise _Diverged(f"attempt {facts.attempt} is routed otherwise")
        if again.verdict is Verdict.UNABLE:
            kind = IntegrityFailure if again.code == IntegrityFailure.code else MissingSnapshot
            raise kind(again.reason)
        self._add_step("decide")
        return AgentChoice(known.stored.entry.id, known.facts_id, known.outcome)

    def call(self, facts: JobFacts, outcome: AgentOutcome, state: BrainState) -> AgentAnswer:
        """Recall the answer: no agent is called in a replay."""
        del facts, state
        known = self._from_record(self._record.outputs, "an answer")
        if known.agent_id != outcome.selected_agent:
            raise _Diverged(f"attempt {self._attempt} called another agent")
        try:
            answered = recall_answer(known, self._home)
        except MissingSnapshot as error:
            raise MissingAgentOutput(
                f"the answer of `{known.agent_id}`: {error.message}"
            ) from error
        self._add_step("call")
        return answered

    def judge(
        self, number: int, question: CouncilQuestion, agent_id: str, answered: AgentAnswer
    ) -> CouncilVotes:
        """Vote again by the recorded rules; other votes are recalled."""
        known = {each.voter: each.vote for each in self._record.votes.get(number, [])}
        output = cast("AgentReply", answered.reply).output(agent_id, answered.found_kinds)
        rules = RuleVoter(self._council.rules_in_force)
        votes = []
        for member in self._council.members:
            vote = known.get(member.id)
            if vote is not None and votes_by_rules(member):
                again = rules.vote(vote.vote_id, question, output)
                _same(VOTE_FORM, again, vote, f"the vote of `{member.id}`")
            if vote is not None:
                votes.append((member.id, vote))
        self._add_step("judge")
        told = self._iteration().warnings
        absent = tuple(each for each in told if not each.startswith("refused: "))
        return CouncilVotes(tuple(votes), absent)

    def trust(self, event: TrustEvent) -> None:
        """Compare a trust event of a module with its entry."""
        known = self._record.trust.get(event.event_id)
        if known is None or known != EVENT_FORM.encode(event):
            raise _Diverged(f"the event `{event.event_id}` is not what was recorded")
        self._add_step("trust")

    def tick(self, number: int, before: tuple[str, BrainState], inputs: TickInputs) -> NextState:
        """Tick again, and compare the state and the trace."""
        del number
        name, state = before
        told = self._record.ticks.get(name)
        if told is None:
            raise _Diverged(f"no tick of the state `{name}` is recorded")
        after, trace = tick_state(state, inputs)
        if BRAINSTATE_FORM.id(sealed_state(after, self._seal)) != told.brainstate_after:
            raise _Diverged(f"the state after attempt {self._attempt} is another one")
        if not self._is_recorded(told, inputs, trace):
            raise _Diverged(f"the tick of attempt {self._attempt} went otherwise")
        self._replayer.policy(told.brainstate_after)
        self._add_step("tick")
        return NextState(told.brainstate_after, after, told.action_requests, told.refused)

    def gate(self, outcome: AgentOutcome) -> GateRequest:
        """Recall the action request: none is made in a replay."""
        del outcome
        told = self._iteration()
        requests, warnings = told.action_requests, told.warnings
        return GateRequest(next(iter(requests), ""), next(iter(warnings), ""))

    def record_iteration(self, iteration: Iteration) -> None:
        """Compare an iteration with its entry."""
        known = self._from_record(self._record.iterations, "an iteration")
        if ITERATION_FORM.encode(iteration) != known:
            raise _Diverged(f"iteration {iteration.number} is not what was recorded")
        self._add_step("iteration")

    def _iteration(self) -> Iteration:
        return ITERATION_FORM.decode(self._from_record(self._record.iterations, "an iteration"))

    def _is_recorded(self, told: TickEntry, inputs: TickInputs, trace: TickTrace) -> bool:
        """Tell whether a tick is the recorded one; its seal says so, also after an erasure."""
        text = tick_text(INPUTS_FORM.encode(inputs), TRACE_FORM.encode(trace))
        bare = TRACE_FORM.encode(sealed_trace(trace, self._seal))
        return self._seal(text) == told.sealed and bytes(told.trace) in {b"null", bare}

    def _seal(self, text: str) -> Sealed:
        return seal_text(text, self._home.content_key())

    def _from_record(self, found: dict[int, _T], what: str) -> _T:
        if self._attempt not in found:
            raise _Diverged(f"{what} of attempt {self._attempt} is not recorded")
        return found[self._attempt]

    def _add_step(self, step: StepName) -> None:
        self.steps.append(ReplayStep(step, self._attempt))


def _same(form: Form[_T], again: _T, recorded: _T, what: str) -> None:
    if form.encode(again) != form.encode(recorded):
        raise _Diverged(f"{what} is not what was recorded")


def _difference(again: ReflectiveLog, recorded: ReflectiveLog) -> Exception:
    """Return the kind of difference: in the result itself, or on the way to it."""
    found = (again.status, again.final_output), (recorded.status, recorded.final_output)
    if found[0] != found[1]:
        return ResultMismatch("the job comes to another result")
    return _Diverged("the log is not what was recorded")
