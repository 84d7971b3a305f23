"""The service that chooses agents for jobs and ticks brain states: gather, decide, record.

INVARIANT: results are durable when they are returned, and every call leaves an entry with its trace
id, whether it succeeded or not. Snapshots are read from the ledger and verified; no live state is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from pointsman.access.actors import OWNER
from pointsman.access.roles import ROLES
from pointsman.agents.compiled import CompiledAgents
from pointsman.agents.decide import DECISION_VERSION, decide
from pointsman.agents.explain import ShownRoute
from pointsman.agents.facts import FACTS_FORM, GivenJob, JobFacts, facts_of, mind_view, with_seal
from pointsman.agents.file.agents_file import GivenSelfRep
from pointsman.agents.file.make_selfrep import make_selfrep
from pointsman.agents.modules.selfrep import SELFREP_FORM, SelfRep
from pointsman.agents.policy import POLICY_FORM
from pointsman.agents.trace import OUTCOME_FORM, TRACE_FORM
from pointsman.approvals.approvals import Approvals
from pointsman.approvals.proposal import ActionProposal, wish_proposal
from pointsman.brainstate.bodies import GivenStart
from pointsman.brainstate.constants import DefaultUsed
from pointsman.brainstate.events import INPUTS_FORM, TickInputs
from pointsman.brainstate.hints import RoutingHints, routing_hints
from pointsman.brainstate.reading import start_state
from pointsman.brainstate.redaction import find_sensitive
from pointsman.brainstate.sealing import sealed_trace
from pointsman.brainstate.state import BrainState
from pointsman.brainstate.tick import tick_state
from pointsman.brainstate.trace import TRACE_FORM as TICK_TRACE_FORM
from pointsman.brainstate.trace import TickTrace
from pointsman.errors import ActionRefused, NotFound, PermissionDenied, PointsmanError
from pointsman.governance.action import Actor
from pointsman.jobs.entries import (
    CallEntry,
    Caller,
    TickEntry,
    agent_decision,
    call_draft,
    job_ref,
    snapshot_subject,
    tick_draft,
    tick_text,
)
from pointsman.jobs.live_agents import LiveAgents, ledger_place
from pointsman.jobs.log import STARTED
from pointsman.jobs.privacy import privacy_verdict
from pointsman.jobs.snapshots import AgentSnapshots
from pointsman.kernel.canonical import ContentId, content_id
from pointsman.kernel.content import Sealed, seal_text
from pointsman.kernel.instant import Clock, IdSource
from pointsman.kernel.record import DECISION, Aside, Names, read_recorded
from pointsman.recording.decision_recorder import DecisionRecorder
from pointsman.recording.waiting import BlockingWaiter
from pointsman.signals.detectors import detect
from pointsman.storage.home import Home
from pointsman.storage.policies.agents_file import AgentsInForce
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.stores.entries import LedgerReader, Stored
from pointsman.version import VERSION

AGENT: Final = DECISION + "agent"
LOCAL: Final = Caller(OWNER)
"""The owner, who works on the home's own files."""

_NULL: Final = Raw(b"null")


class RecordedSelfRep(NamedTuple):
    """A snapshot of the modules, and which defaults were filled in."""

    id: ContentId
    warnings: tuple[str, ...]


class RecordedState(NamedTuple):
    """A snapshot of a brain state, the state, and which defaults were filled in."""

    id: ContentId
    state: BrainState
    warnings: tuple[DefaultUsed, ...]


class TickResult(NamedTuple):
    """A state after a tick, its snapshot, the trace of the tick, and the actions requested by it.

    `refused` are wishes that could not be requested, one line each; only a job continues past them.
    """

    state: BrainState
    id: ContentId
    trace: TickTrace
    action_requests: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


class Agency:
    """The agents of one home. May be shared by threads.

    Ids that name no snapshot raise `RouterNoSnapshot`; `caller` is recorded as the one who asked.
    """

    def __init__(
        self,
        home: Home,
        decision_recorder: DecisionRecorder,
        sources: tuple[Clock, IdSource],
        live: LiveAgents,
        approvals: Approvals,
    ) -> None:
        self._home = home
        self._decision_recorder = decision_recorder
        self._clock, self._ids = sources
        self._live = live
        self._approvals = approvals
        self.snapshots = AgentSnapshots(home, decision_recorder)

    def in_force(self) -> AgentsInForce:
        """Return the policy in force now, governed changes included."""
        return self._live.current().in_force

    def live(self) -> SelfRep:
        """Return the modules as they are now: the file, and every recorded event."""
        return self._live.current().selfrep

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems of `agents.yaml`, and the events that could not be folded."""
        live = self._live.current()
        return (*map(str, live.in_force.problems), *live.unfolded)

    def record_selfrep(
        self, given: GivenSelfRep | None = None, caller: Caller = LOCAL
    ) -> RecordedSelfRep:
        """Record a snapshot of the given modules, or of the live ones."""
        with self._recording_call("selfrep.create_snapshot", caller) as about:
            in_force = self.in_force()
            at, policy_id = self._clock.now(), in_force.policy_id
            selfrep = in_force.selfrep if given is None else make_selfrep(given, policy_id)
            # The modules name the router's constants they were made under: record those too.
            self.snapshots.record(POLICY_FORM, in_force.policy, at)
            about.subject = name = self.snapshots.record(SELFREP_FORM, selfrep, at)
        return RecordedSelfRep(name, selfrep.warnings)

    def selfrep(self, name: str, caller: Caller = LOCAL) -> SelfRep:
        """Read a recorded snapshot of the modules."""
        with self._recording_call("selfrep.get", caller, name):
            return self.snapshots.selfrep(name)

    def record_brainstate(self, given: GivenStart, caller: Caller = LOCAL) -> RecordedState:
        """Record the first state of a job."""
        with self._recording_call("brainstate.create_snapshot", caller) as about:
            state, warnings = start_state(given)
            about.subject = name = self.snapshots.record_brainstate(state, self._clock.now())
        return RecordedState(name, state, warnings)

    def brainstate(self, name: str, caller: Caller = LOCAL) -> BrainState:
        """Read a recorded state."""
        with self._recording_call("brainstate.get", caller, name):
            return self.snapshots.brainstate(name)

    def query(self, name: str, caller: Caller = LOCAL) -> RoutingHints:
        """Return the hints a recorded state gives to routing."""
        with self._recording_call("brainstate.query", caller, name):
            return routing_hints(self.snapshots.mind(name))

    def tick(self, name: str, inputs: TickInputs, caller: Caller = LOCAL) -> TickResult:
        """Advance a recorded state by one tick; wishes become requests, and no action is taken."""
        with self._recording_call("brainstate.tick", caller, name, only_failures=True):
            before = self.snapshots.brainstate(name)
            after, trace = tick_state(before, inputs)
            wanted = [
                wish_proposal(wish, before.brainstate_id, before.job_seed, caller.trace_id)
                for wish in trace.wishes
            ]
            requests = tuple(self._request_action(each, caller) for each in wanted)
            made = TickResult(after, self.snapshots.brainstate_id(after), trace, requests)
            self.record_tick(name, inputs, made, caller)
        return made

    def tick_for_job(
        self,
        name: str,
        before: BrainState,
        inputs: TickInputs,
        job: tuple[str, str],
        caller: Caller,
    ) -> TickResult:
        """Advance a job's state; `job` is its id and its log. A refused wish is reported."""
        job_id, log = job
        after, trace = tick_state(before, inputs)
        requests, refused = [], []
        for wish in trace.wishes:
            try:
                wanted = wish_proposal(wish, job_id, before.job_seed, caller.trace_id)
                requests.append(self._request_action(wanted, caller))
            except PointsmanError as error:
                refused.append(f"{wish.action_type} of {wish.origin}: {error.code}")
        made = TickResult(
            after, self.snapshots.brainstate_id(after), trace, tuple(requests), tuple(refused)
        )
        self.record_tick(name, inputs, made, caller, log)
        return made

    def decide(self, given: GivenJob, caller: Caller = LOCAL) -> ShownRoute:
        """Decide which agent takes a job; the decision is durable when this returns."""
        with self._recording_call(
            "router.decide", caller, given.selfrep_snapshot_id, only_failures=True
        ):
            policy_id, router, facts = self.gather_facts(given, caller)
            names = Names(self._ids.new_id(), job_ref(given.job_id), self._clock.now())
            trace_id = given.trace_id or caller.trace_id or self._ids.new_id()
            tenant = caller.tenant or UNSET
            return self.route(policy_id, router, facts, names, trace_id, tenant=tenant)

    def gather_facts(
        self, given: GivenJob, caller: Caller
    ) -> tuple[ContentId, CompiledAgents, JobFacts]:
        """Return a job's policy id, its router and its facts, all of it from snapshots.

        The router's constants are those the modules' snapshot was made under, unless the request
        names others: later changes have no part in it (000, snapshot-driven).
        """
        selfrep_id = given.selfrep_snapshot_id
        policy_id = given.router_snapshot_id or self.snapshots.selfrep(selfrep_id).config_hash
        router = self.snapshots.router(policy_id, selfrep_id)
        state = self.snapshots.mind(given.brainstate_snapshot_id)
        facts = facts_of(
            given,
            mind_view(state),
            user_role=_check_role(given.user_role or "", caller.actor),
            permitted=caller.permitted,
            privacy=privacy_verdict(given.query_text, self.in_force().let_through),
        )
        return ContentId(policy_id), router, facts

    def route(  # noqa: PLR0913, PLR0917 - what one entry needs
        self,
        policy_id: ContentId,
        router: CompiledAgents,
        facts: JobFacts,
        names: Names,
        trace_id: str,
        linked: str = "",
        tenant: str | UnsetType = UNSET,
    ) -> ShownRoute:
        """Decide on gathered facts, and wait until the decision is recorded."""
        started_ns = time.perf_counter_ns()
        outcome, trace = decide(router, facts)
        elapsed_us = (time.perf_counter_ns() - started_ns) // 1000
        waits = BlockingWaiter()
        seal = self.seal_query(facts, waits)
        ledger = self._home.identity.ledger
        made = agent_decision(router, facts, (outcome, trace), seal, policy_id, ledger)
        aside = Aside(elapsed_us, trace_id, "", False, VERSION, tenant)  # noqa: FBT003 - no preview
        self._decision_recorder.recorder().hand_in_decision(
            names, made, aside, waits.expect(), linked
        )
        waits.wait()
        return ShownRoute(
            decision_id=names.id,
            job_id=facts.job_id,
            trace_id=trace_id,
            router_snapshot_id=policy_id,
            selfrep_snapshot_id=facts.selfrep_id,
            brainstate_snapshot_id=facts.brainstate_id,
            facts_id=FACTS_FORM.id(with_seal(facts, seal)),
            decision_version=DECISION_VERSION,
            elapsed_us=elapsed_us,
            outcome=outcome,
            trace=trace,
        )

    def seal_query(self, facts: JobFacts, waits: BlockingWaiter) -> Sealed:
        """Seal a query and store its text; the text of a blocked query is not stored."""
        query = facts.query
        if isinstance(query, Sealed):
            return query
        if facts.privacy.is_blocked:
            return seal_text(query, self._home.content_key())
        return self._decision_recorder.recorder().hand_in_text(query, waits)

    def find_route(self, name: str = "last") -> ShownRoute:
        """Find a recorded choice by its id, its job's id (the latest of it), or `last`."""
        path = self._home.database
        if not path.exists():
            raise NotFound(
                "nothing is recorded yet", hint="decide first: `pointsman agents decide`"
            )
        with told_errors(path), closing(LedgerReader(path)) as ledger:
            if name == "last":
                found = sorted(ledger.of_kind(AGENT), key=ledger_place)[-1:]
            else:
                named = [*ledger.with_id(name), *ledger.with_ref(job_ref(name))]
                # The choices of a job that was run belong to its log.
                runs = [each.entry.id for each in named if each.entry.kind == STARTED]
                named += [each for run in runs for each in ledger.with_ref(run)]
                found = [each for each in named if each.entry.kind.startswith(AGENT)]
            if not found:
                raise NotFound(f"no choice of an agent is recorded as `{name[:100]}`")
            stored = found[-1]
            facts = next(iter(ledger.attachments(stored)), b"")
        return _route_of_entry(stored, FACTS_FORM.decode(facts))

    def record_tick(
        self, name: str, inputs: TickInputs, made: TickResult, caller: Caller, log: str = ""
    ) -> None:
        """Record a tick and the state it led to; both are durable when this returns."""
        self.snapshots.record_brainstate(made.state, self._clock.now())
        recorder, waits = self._decision_recorder.recorder(), BlockingWaiter()
        given, trace = INPUTS_FORM.encode(inputs), TICK_TRACE_FORM.encode(made.trace)
        kinds = tuple(
            sorted({each.kind for each in find_sensitive(msgspec.json.decode(given), detect)})
        )
        # The ledger holds a keyed digest only; the text can be erased (004 §7).
        kept = recorder.hand_in_text(tick_text(given, trace), waits)
        bare = TICK_TRACE_FORM.encode(sealed_trace(made.trace, self.snapshots.seal))
        told = TickEntry(
            caller.actor,
            caller.trace_id,
            log,
            name,
            made.id,
            kept,
            kinds,
            _NULL if kinds else Raw(bare),
            made.action_requests,
            made.refused,
        )
        names = Names(self._ids.new_id(), log or made.id, self._clock.now())
        waits.wait()
        recorder.record(tick_draft(names, told))

    def _request_action(self, wanted: ActionProposal, caller: Caller) -> str:
        """Request the action a state wishes for; a seed that was used before gets another id."""
        try:
            made = self._approvals.request(wanted, caller.actor)
        except ActionRefused:
            subject = self._approvals.subject(wanted)
            other = content_id(f"{wanted.request_id}:{subject}".encode()).removeprefix("sha256:")
            made = self._approvals.request(
                msgspec.structs.replace(wanted, request_id=other), caller.actor
            )
        return made.request.request_id

    @contextmanager
    def _recording_call(
        self, call: str, caller: Caller, subject: str = "", *, only_failures: bool = False
    ) -> Iterator[_CallSubject]:
        """Record a call and its result; `only_failures` where success has its own entry."""
        about = _CallSubject(snapshot_subject(subject))
        try:
            yield about
        except PointsmanError as error:
            self._record_call(call, caller, about.subject, error.code)
            raise
        if not only_failures:
            self._record_call(call, caller, about.subject, "done")

    def _record_call(self, call: str, caller: Caller, subject: str, result: str) -> None:
        names = Names(self._ids.new_id(), subject, self._clock.now())
        told = CallEntry(call, caller.actor, caller.trace_id, subject, result)
        self._decision_recorder.recorder().record(call_draft(names, told))


class _CallSubject:
    """The snapshot a call is about, known once it is made."""

    def __init__(self, subject: str) -> None:
        self.subject = subject


def _check_role(claimed: str, actor: Actor) -> str:
    """Return the role a job is routed for: the caller's, or the one an application speaks for.

    Only an admin may claim another built-in role: applications name roles of their own.
    """
    if claimed in ROLES and actor.role not in {claimed, "admin"}:
        raise PermissionDenied(f"the role `{claimed}` is not yours to ask in")
    return claimed or actor.role


def _route_of_entry(stored: Stored, facts: JobFacts) -> ShownRoute:
    _, record, aside = read_recorded(stored.entry.payload)
    return ShownRoute(
        decision_id=stored.entry.id,
        job_id=facts.job_id,
        trace_id=aside.trace_id,
        router_snapshot_id=record.policy_id,
        selfrep_snapshot_id=facts.selfrep_id,
        brainstate_snapshot_id=facts.brainstate_id,
        facts_id=record.facts_id,
        decision_version=record.decision_version,
        elapsed_us=aside.elapsed_us,
        outcome=OUTCOME_FORM.decode(bytes(record.outcome)),
        trace=TRACE_FORM.decode(bytes(record.trace)),
    )
